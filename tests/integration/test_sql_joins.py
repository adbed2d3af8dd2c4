"""Joins of SQL by time and with tables that are looked up, on real processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from clusters import RunningCluster
from job_support import environment

from flinkpy.table import StreamTableEnvironment, TableEnvironment

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
