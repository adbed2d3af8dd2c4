"""Joins of SQL by time and with tables that are looked up, on real processes."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from clusters import RunningCluster
from job_support import environment

from flinkpy.sql.types.logical_types import RowType
from flinkpy.table import StreamTableEnvironment, TableEnvironment
from flinkpy.table.connectors import registry
from flinkpy.table.connectors.table_factory import FactoryContext, TableFactory
from flinkpy.table.connectors.table_source import (
    AsyncLookupFunction,
    DynamicTableSource,
    LookupFunction,
    LookupTableSource,
)

COLUMNS = "id BIGINT, name STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '2' SECOND"
FILES = {
    "orders": ["1,apple,2024-05-01 10:00:01", "2,pear,2024-05-01 10:00:04", "3,plum,2024-05-01 10:00:30"],
    "parcels": ["1,box,2024-05-01 10:00:05", "1,bag,2024-05-01 10:00:12", "3,tube,2024-05-01 10:00:29"],
}


@pytest.fixture
def tables(shared_cluster: RunningCluster, tmp_path: Path) -> TableEnvironment:
    made = StreamTableEnvironment.create(environment(shared_cluster))
    for name, lines in FILES.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.csv").write_text("\n".join(lines) + "\n")
        made.execute_sql(
            f"CREATE TABLE {name} ({COLUMNS}) WITH "
            f"('connector' = 'filesystem', 'path' = '{tmp_path / name}', 'format' = 'csv')"
        )
    return made


def rows(tables: TableEnvironment, query: str) -> list[list[Any]]:
    with tables.execute_sql(query).collect() as found:
        return sorted(list(row) for row in found)


def test_an_interval_join_pads_the_rows_without_partner(tables: TableEnvironment) -> None:
    found = rows(
        tables,
        "SELECT o.id, COALESCE(p.name, 'none') FROM orders AS o LEFT JOIN parcels AS p "
        "ON o.id = p.id AND p.ts BETWEEN o.ts AND o.ts + INTERVAL '10' SECOND",
    )
    assert found == [[1, "box"], [2, "none"], [3, "none"]]


def test_a_temporal_join_takes_the_version_of_the_time_of_the_row(tables: TableEnvironment) -> None:
    tables.execute_sql(
        "CREATE VIEW last_parcels AS SELECT id, name, ts FROM (SELECT *, "
        "ROW_NUMBER() OVER (PARTITION BY id ORDER BY ts DESC) AS n FROM parcels) WHERE n = 1"
    )
    tables.execute_sql(
        "CREATE VIEW later AS SELECT id, name, ts FROM orders UNION ALL SELECT id, name, ts FROM parcels WHERE id = 1"
    )
    found = rows(
        tables,
        "SELECT o.id, o.name, COALESCE(p.name, 'none') FROM later AS o "
        "LEFT JOIN last_parcels FOR SYSTEM_TIME AS OF o.ts AS p ON o.id = p.id",
    )
    assert found == [
        [1, "apple", "none"],
        [1, "bag", "bag"],
        [1, "box", "box"],
        [2, "pear", "none"],
        [3, "plum", "tube"],
    ]


def test_joins_by_time_give_the_rows_that_flink_gave(shared_cluster: RunningCluster, tmp_path: Path) -> None:
    """The answers are those of Flink 2.3.0 for the same text and files, which have NULL keys and rows out of order."""
    recorded = json.loads((Path(__file__).parents[1] / "recorded" / "flink_joins.json").read_text())
    tables = StreamTableEnvironment.create(environment(shared_cluster))
    for name, lines in recorded["inputs"].items():
        (tmp_path / f"{name}.csv").write_text("\n".join(lines) + "\n")
        tables.execute_sql(
            f"CREATE TABLE {name} (id BIGINT, k BIGINT, v INT, ts TIMESTAMP(3), "
            "WATERMARK FOR ts AS ts - INTERVAL '4' SECOND) WITH ('connector' = 'filesystem', "
            f"'path' = '{tmp_path / name}.csv', 'format' = 'csv', 'csv.null-literal' = '')"
        )
    tables.execute_sql(
        "CREATE VIEW versions AS SELECT id, k, v, ts FROM (SELECT *, "
        "ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts DESC) AS n FROM r) WHERE n = 1"
    )
    statements = tables.create_statement_set()
    for name, query in recorded["queries"].items():
        tables.execute_sql(
            f"CREATE TABLE {name} (l BIGINT, r BIGINT) "
            f"WITH ('connector' = 'filesystem', 'path' = '{tmp_path / name}', 'format' = 'csv')"
        )
        statements.add_insert_sql(f"INSERT INTO {name} {query['sql']}")
    statements.execute().wait()
    for name, query in recorded["queries"].items():
        written = [line for file in (tmp_path / name).iterdir() for line in file.read_text().splitlines()]
        assert sorted(written) == query["rows"], name


def test_a_lookup_join_follows_its_hint(tables: TableEnvironment) -> None:
    tables.execute_sql("CREATE VIEW arriving AS SELECT *, PROCTIME() AS pt FROM orders")
    found = rows(
        tables,
        "SELECT /*+ LOOKUP('table' = 'p', 'async' = 'false', 'retry-predicate' = 'lookup_miss', "
        "'retry-strategy' = 'fixed_delay', 'fixed-delay' = '1 ms', 'max-attempts' = '2') */ o.id, p.name "
        "FROM arriving AS o JOIN parcels FOR SYSTEM_TIME AS OF o.pt AS p ON o.id = p.id AND p.name <> 'bag'",
    )
    assert found == [[1, "box"], [3, "tube"]]


class Squares(AsyncLookupFunction):
    """Finds the square of each key; the higher the key, the sooner."""

    async def lookup(self, keys: pa.RecordBatch) -> Any:
        (key,) = keys.column(0).to_pylist()
        await asyncio.sleep(0.02 / (key + 1))
        columns = [pa.array([key], pa.int64()), pa.array([key * key], pa.int64())]
        return np.zeros(1, dtype=np.int64), pa.RecordBatch.from_arrays(columns, names=["n", "square"])


@dataclass(frozen=True)
class SquareSource(LookupTableSource):
    rows: RowType

    @property
    def summary(self) -> str:
        return "squares"

    @property
    def produced_type(self) -> RowType:
        return self.rows

    def lookup_function(self, keys: tuple[int, ...]) -> LookupFunction:
        raise AssertionError("the other function is preferred")

    def async_lookup_function(self, keys: tuple[int, ...]) -> AsyncLookupFunction:
        return Squares()


class SquareFactory(TableFactory):
    """A connector of a third party, as its entry point would offer it."""

    identifier = "squares"

    def load(self) -> type[SquareFactory]:
        return SquareFactory

    def create_source(self, context: FactoryContext) -> DynamicTableSource:
        return SquareSource(context.table.resolved_schema.to_physical_row_type())


def test_lookups_of_a_connector_run_side_by_side_and_keep_the_order(
    tables: TableEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "_offered", lambda: {"squares": SquareFactory()})
    tables.execute_sql("CREATE TABLE squares (n BIGINT, square BIGINT) WITH ('connector' = 'squares')")
    tables.execute_sql("CREATE VIEW numbered AS SELECT id, PROCTIME() AS pt FROM orders")
    with tables.execute_sql(
        "SELECT id, square FROM numbered JOIN squares FOR SYSTEM_TIME AS OF numbered.pt ON numbered.id = squares.n"
    ).collect() as found:
        assert [list(row) for row in found] == [[1, 1], [2, 4], [3, 9]]


def test_an_updating_input_takes_back_what_it_has_looked_up(tables: TableEnvironment, tmp_path: Path) -> None:
    tables.get_config().set("table.optimizer.non-deterministic-update.strategy", "TRY_RESOLVE")
    database = sqlite3.connect(tmp_path / "found.db")
    database.execute("CREATE TABLE found (n INTEGER, name TEXT PRIMARY KEY)")
    database.commit()
    tables.execute_sql(
        "CREATE TABLE found (n BIGINT, name STRING, PRIMARY KEY (name) NOT ENFORCED) "
        f"WITH ('connector' = 'jdbc', 'url' = 'jdbc:sqlite:{tmp_path / 'found.db'}', 'table-name' = 'found')"
    )
    insert = (
        "INSERT INTO found SELECT o.n, p.name FROM "
        "(SELECT id, COUNT(*) AS n, PROCTIME() AS pt FROM parcels GROUP BY id) AS o "
        "JOIN orders FOR SYSTEM_TIME AS OF o.pt AS p ON o.n = p.id ON CONFLICT DO DEDUPLICATE"
    )
    lookup = next(line for line in tables.explain_sql(insert).splitlines() if "- LookupJoin(" in line)
    assert "upsertMaterialize=[true]" in lookup
    tables.execute_sql(insert).wait()
    assert sorted(database.execute("SELECT n, name FROM found")) == [(1, "apple"), (2, "pear")]
