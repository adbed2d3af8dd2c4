"""Tables of a real Hive metastore: made by Spark SQL, read and written by both engines, and read again by Spark SQL."""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from clusters import RunningCluster, StartCluster
from engines import ENGINES, engine_properties
from hive_service import HiveService
from java_archives import JAVA_OPTIONS
from job_support import environment
from requirements import require_spark
from test_batch_commits import RESTARTS

from flinkpy.common import Row, Types, WatermarkStrategy
from flinkpy.common.failpoints import SPECIFICATION_VARIABLE, TOKENS_VARIABLE
from flinkpy.datastream import StreamExecutionEnvironment
from flinkpy.datastream.connectors.tables import TableSink, TableSource
from flinkpy.expressions.nodes import col

pytestmark = [pytest.mark.timeout(900), pytest.mark.differential]

RECORD = Types.ROW_NAMED(["id", "name", "day"], [Types.LONG(), Types.STRING(), Types.SQL_DATE()])
COLUMNS = "id BIGINT, name STRING, price DECIMAL(10,2), at TIMESTAMP, tags ARRAY<STRING>"
VALUES = "id, concat('n', id), id / 4, timestamp_seconds(id), array('a', cast(id AS STRING))"
DAY = "date_add(DATE'2024-01-01', CAST(id % 4 AS INT))"


class Hive:
    def __init__(self, service: HiveService) -> None:
        self.service = service

    def sql(self, *statements: str) -> list[dict[str, Any]]:
        """Runs statements in Spark SQL, and returns the rows of the last one."""
        completed = subprocess.run(
            [
                sys.executable,
                str(Path(__file__).with_name("hive_side.py")),
                self.service.uri,
                str(self.service.warehouse),
                JAVA_OPTIONS,
            ],
            input=json.dumps(statements),
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
        assert completed.returncode == 0, completed.stderr[-3000:]
        return json.loads(completed.stdout)

    def source(self, table: str) -> Any:
        return TableSource.for_catalog(f"spark_catalog.db.{table}", self.service.properties)

    def sink(self, table: str) -> Any:
        return TableSink.for_catalog(f"spark_catalog.db.{table}", self.service.properties)


@pytest.fixture(scope="module")
def hive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hive]:
    require_spark()
    service = HiveService(tmp_path_factory.mktemp("hive"))
    try:
        service.wait_until_ready()
        made = Hive(service)
        statements = ["CREATE DATABASE db"]
        for name, kind in (("p", "STORED AS PARQUET"), ("o", "STORED AS ORC")):
            statements.append(f"CREATE TABLE db.{name} ({COLUMNS}) PARTITIONED BY (day DATE) {kind}")
            statements.append(f"INSERT INTO db.{name} PARTITION (day) SELECT {VALUES}, {DAY} FROM range(40)")
        # A table of Spark, whose columns the metastore has in small letters.
        statements.append("CREATE TABLE db.s (userId BIGINT, Day DATE) USING parquet PARTITIONED BY (Day)")
        statements.append(f"INSERT INTO db.s SELECT id, {DAY} FROM range(40)")
        for engine in ("native", "spark", "killed"):
            statements.append(
                f"CREATE TABLE db.to_{engine} (id BIGINT, name STRING) PARTITIONED BY (day DATE) STORED AS PARQUET"
            )
        made.sql(*statements)
        yield made
    finally:
        service.stop()


ENGINE_NAMES = ["native-batch", "spark"]


@pytest.mark.parametrize("engine", ENGINE_NAMES)
def test_tables_made_by_spark_are_read(hive: Hive, engine_cluster: RunningCluster, engine: str) -> None:
    def read(table: str) -> list[Any]:
        env = environment(engine_cluster, 2, **engine_properties(engine))
        source = hive.source(table).build()
        day = source.produced_type.get_field_names()[-1]
        stream = env.from_source(source, WatermarkStrategy.no_watermarks(), table)
        with stream.filter_batches(col(day) >= datetime.date(2024, 1, 3)).execute_and_collect() as results:
            return sorted(tuple(row) for row in results)

    ids = [number for number in range(40) if number % 4 >= 2]
    days = {number: datetime.date(2024, 1, 1 + number % 4) for number in ids}
    assert read("s") == [(number, days[number]) for number in ids]
    for table in ("p", "o"):
        found = read(table)
        assert [(row[0], row[1], float(row[2]), row[4], row[5]) for row in found] == [
            (number, f"n{number}", number / 4, ["a", str(number)], days[number]) for number in ids
        ]
        assert [row[3] for row in found] == [datetime.datetime(1970, 1, 1, 0, 0, number) for number in ids]


def write(hive: Hive, env: StreamExecutionEnvironment, table: str, first: int, mode: str) -> None:
    """Writes ten records per day, for three days."""
    day = datetime.date(2024, 2, 1)
    rows = env.from_sequence(first, first + 29).map(
        lambda number: Row(id=number, name=f"w{number}", day=day + datetime.timedelta(number % 3)), RECORD
    )
    rows.sink_to(getattr(hive.sink(table), mode)().build())
    env.execute(mode)


@pytest.mark.parametrize("engine", ENGINE_NAMES)
def test_spark_sql_reads_what_is_written(hive: Hive, engine_cluster: RunningCluster, engine: str) -> None:
    table = f"to_{engine.removesuffix('-batch')}"

    def run(first: int, mode: str) -> None:
        write(hive, environment(engine_cluster, 2, **engine_properties(engine)), table, first, mode)

    run(0, "append")
    run(30, "append")
    found = hive.sql(f"SELECT id, name, day FROM db.{table} ORDER BY id")
    assert [(row["id"], row["name"], row["day"]) for row in found] == [
        (number, f"w{number}", f"2024-02-0{1 + number % 3}") for number in range(60)
    ]
    # Columns go from one table to the other without a Python function: Spark writes the files itself.
    env = environment(engine_cluster, 2, **engine_properties(engine))
    source = hive.source("p").project("id", "name", "day").build()
    copied = env.from_source(source, WatermarkStrategy.no_watermarks(), "p")
    copied.sink_to(hive.sink(table).overwrite_partitions().build())
    env.execute("copy")
    run(100, "overwrite_partitions")
    counts = f"SELECT day, min(id) AS low, count(*) AS n FROM db.{table} GROUP BY day ORDER BY day"
    assert [(row["day"], row["low"], row["n"]) for row in hive.sql(counts)] == [
        *((f"2024-01-0{1 + number}", number, 10) for number in range(4)),
        ("2024-02-01", 102, 10),
        ("2024-02-02", 100, 10),
        ("2024-02-03", 101, 10),
    ]
    run(200, "overwrite")
    assert [row["low"] for row in hive.sql(counts)] == [201, 202, 200]


def test_partitions_are_replaced_and_registered_once_if_the_committer_dies(
    hive: Hive, start_cluster: StartCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = [
        "batch_files.after_plan",
        "batch_files.before_replace",
        "batch_files.after_commit",
        "hive_sink.before_partitions",
    ]
    tokens = tmp_path / "tokens"
    tokens.mkdir()
    monkeypatch.setenv(SPECIFICATION_VARIABLE, ";".join(f"{name}=crash" for name in points))
    monkeypatch.setenv(TOKENS_VARIABLE, str(tokens))
    cluster = start_cluster(2, restart_services=True)
    settings = {**ENGINES["native-batch"], **RESTARTS}
    write(hive, environment(cluster, 2, **settings), "to_killed", 0, "append")
    for name in points:
        (tokens / name).touch()
    write(hive, environment(cluster, 2, **settings), "to_killed", 100, "overwrite_partitions")
    assert os.listdir(tokens) == [], "every crash has happened"
    found = hive.sql("SELECT id FROM db.to_killed ORDER BY id")
    assert [row["id"] for row in found] == list(range(100, 130))
