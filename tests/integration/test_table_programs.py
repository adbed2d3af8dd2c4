"""Programs over Iceberg and Delta tables give the same on every engine, and commit exactly once."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from clusters import RunningCluster, StartCluster
from engines import ENGINES, engine_properties
from job_support import FIXED_DELAY, environment
from real_tables import FIRST_DAY, FORMATS, SCHEMA, RealTable, records

from flinkpy.common import Row, Types, WatermarkStrategy
from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.common.failpoints import SPECIFICATION_VARIABLE, TOKENS_VARIABLE
from flinkpy.datastream import StreamExecutionEnvironment
from flinkpy.datastream.aggregates import sum_
from flinkpy.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcNumericBetweenParametersProvider, JdbcSource
from flinkpy.expressions.nodes import col

pytestmark = pytest.mark.timeout(300)

COUNT = 300
TOTALS = pa.schema([("name", pa.string()), ("id", pa.int64())])
TOTAL_TYPE = Types.ROW_NAMED(["name", "id"], [Types.STRING(), Types.LONG()])


def read(env: StreamExecutionEnvironment, table: RealTable) -> Any:
    return env.from_source(table.source().build(), WatermarkStrategy.no_watermarks(), "table")


@pytest.fixture
def two_tables(tmp_path: Path) -> Iterator[tuple[RealTable, RealTable]]:
    """A Delta table with records, and an Iceberg table with others."""
    orders, totals = RealTable("delta", tmp_path / "orders"), RealTable("iceberg", tmp_path / "totals")
    for table in (orders, totals):
        table.directory.mkdir()
    orders.create(SCHEMA, partition_by="day").append(records(range(COUNT)))
    totals.create(TOTALS)
    totals.append(pa.table({"name": ["old"], "id": [1]}, TOTALS))
    yield orders, totals


@pytest.mark.parametrize("engine", ["native-batch", "spark"])
def test_batch_program_from_table_to_table(
    engine_cluster: RunningCluster, two_tables: tuple[RealTable, RealTable], engine: str
) -> None:
    """A filter is passed to a Delta source, functions run in Python, and the result replaces an Iceberg table."""
    orders, totals = two_tables
    env = environment(engine_cluster, 2, **engine_properties(engine))
    records_of_day = read(env, orders).filter_batches((col("day") == FIRST_DAY) & col("name").is_not_null)
    by_letter = records_of_day.map(lambda row: Row(name=row.name[:2], id=row.id), TOTAL_TYPE)
    summed = by_letter.key_by(lambda row: row.name).reduce(lambda a, b: Row(name=a.name, id=a.id + b.id))
    summed.sink_to(totals.sink().overwrite().build())
    env.execute("totals")
    expected: dict[str, int] = {}
    for number in range(COUNT):
        if number % 3 == 0 and number % 5 != 4:
            expected[f"n{number}"[:2]] = expected.get(f"n{number}"[:2], 0) + number
    found = totals.iceberg().scan().to_arrow().to_pylist()
    assert {row["name"]: row["id"] for row in found} == expected
    assert totals.num_versions() == 2
    summary = totals.iceberg().current_snapshot().summary.additional_properties
    assert len(summary["flinkpy.job-id"]) == 32


@pytest.mark.parametrize("engine", ["native-batch", "spark"])
def test_batch_program_from_a_database(engine_cluster: RunningCluster, tmp_path: Path, engine: str) -> None:
    with closing(sqlite3.connect(tmp_path / "orders.db")) as connection, connection:
        connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, name TEXT)")
        connection.executemany(
            "INSERT INTO orders VALUES (?, ?)", [(number, f"n{number % 3}") for number in range(COUNT)]
        )
    options = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(f"jdbc:sqlite:{tmp_path}/orders.db").build()
    builder = JdbcSource.builder().set_connection_options(options).set_type_information(TOTAL_TYPE)
    builder.set_sql("SELECT name, id FROM orders WHERE id BETWEEN ? AND ?")
    builder.set_jdbc_parameter_values_provider(JdbcNumericBetweenParametersProvider(0, COUNT - 1).of_batch_size(70))
    env = environment(engine_cluster, 2, **engine_properties(engine))
    orders = env.from_source(builder.build(), WatermarkStrategy.no_watermarks(), "orders")
    with orders.key_by("name").aggregate(sum_("id")).execute_and_collect() as results:
        found = {tuple(row) for row in results}
    assert found == {(f"n{rest}", sum(range(rest, COUNT, 3))) for rest in range(3)}


def test_parallel_writers_of_a_stream_make_one_version(engine_cluster: RunningCluster, tmp_path: Path) -> None:
    """Without checkpoints there is one commit, at the end of the job. Each of four subtasks has records for both."""
    tables = [RealTable(name, tmp_path / name) for name in FORMATS]
    env = environment(engine_cluster, 4)
    rows = env.from_sequence(0, COUNT - 1).map(lambda number: Row(name=str(number), id=number), TOTAL_TYPE)
    num_before = []
    for table in tables:
        table.directory.mkdir()
        table.create(TOTALS)
        num_before.append(table.num_versions())
        rows.sink_to(table.sink().build())
    env.execute("one version")
    for table, before in zip(tables, num_before, strict=True):
        assert table.ids() == list(range(COUNT)), table.format
        assert table.num_versions() == before + 1, table.format


def test_overwriting_needs_batch_mode(tmp_path: Path) -> None:
    table = RealTable("delta", tmp_path).create()
    env = StreamExecutionEnvironment.get_execution_environment()
    read(env, table).sink_to(table.sink().overwrite().build()).name("replaced")
    with pytest.raises(UnsupportedOperationError, match=r"sink 'replaced.*execution\.runtime-mode: BATCH"):
        env.execute("streaming")


@pytest.mark.parametrize(
    "engine",
    ["native-streaming", *(pytest.param(engine, marks=pytest.mark.chaos) for engine in ("native-batch", "spark"))],
)
def test_records_are_in_the_tables_once_after_crashes_around_the_commits(
    start_cluster: StartCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    """A TaskExecutor dies before a commit, and one dies after a commit that it has not reported."""
    engine_properties(engine)
    tokens = tmp_path / "tokens"
    tokens.mkdir()
    points = ("table_sink.before_commit", "table_sink.after_commit")
    monkeypatch.setenv(SPECIFICATION_VARIABLE, ";".join(f"{name}=crash" for name in points))
    monkeypatch.setenv(TOKENS_VARIABLE, str(tokens))
    cluster = start_cluster(2, restart_services=True)
    tables = [RealTable(name, tmp_path / name) for name in FORMATS]
    for table in tables:
        table.directory.mkdir()
        table.create(TOTALS)
    for name in points:
        (tokens / name).touch()
    settings = {**ENGINES[engine], **FIXED_DELAY, "restart-strategy.fixed-delay.attempts": "30"}
    if engine == "native-streaming":
        settings["execution.checkpointing.interval"] = "200 ms"
    env = environment(cluster, 2, **settings)
    rows = env.from_sequence(0, COUNT - 1).map(lambda number: Row(name=str(number), id=number), TOTAL_TYPE)
    for table in tables:
        rows.sink_to(table.sink().build())
    env.execute("crashing")
    assert os.listdir(tokens) == [], "every crash has happened"
    for table in tables:
        assert table.ids() == list(range(COUNT)), table.format
