"""Tables that Spark has made with its own connectors are read by both engines, and Spark reads what flinkpy writes.

Needs a Spark that has such connectors, which may be older than the installed one. It is fetched once.
"""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from clusters import RunningCluster, running_cluster
from engines import ENGINES
from java_archives import JAVA_OPTIONS
from job_support import environment
from requirements import require, require_spark
from spark_tables.fetch import fetch_spark

from flinkpy.common import Row, Types, WatermarkStrategy
from flinkpy.datastream.connectors.tables import TableSink, TableSource, TableSourceBuilder
from flinkpy.expressions.nodes import col

pytestmark = [pytest.mark.timeout(900), pytest.mark.differential]

FORMATS = ("iceberg", "delta")
PREFIX = "execution.batch.spark.conf."
LEFT = sorted({*range(40)} - {3, 5, 21})


@dataclass
class SparkTables:
    """A directory with tables that Spark has made."""

    directory: Path
    python: Path
    settings: dict[str, str]
    made: dict[str, Any]

    @property
    def catalog(self) -> dict[str, str]:
        where = f"{self.directory}/warehouse"
        return {"type": "sql", "uri": f"sqlite:///{self.directory}/catalog.db", "warehouse": f"file://{where}"}

    def source(self, table_format: str) -> TableSourceBuilder:
        if table_format == "delta":
            return TableSource.for_path("delta", f"{self.directory}/delta")
        return TableSource.for_catalog("lake.db.t", self.catalog)

    def sink(self, table_format: str) -> Any:
        if table_format == "delta":
            return TableSink.for_path("delta", f"{self.directory}/delta")
        return TableSink.for_catalog("lake.db.t", self.catalog)

    def run(self, command: str) -> dict[str, Any]:
        """Runs `spark_side.py` with the Spark of the tables, and returns what it prints."""
        program = Path(__file__).with_name("spark_tables") / "spark_side.py"
        completed = subprocess.run(
            [sys.executable, str(program), command, str(self.directory)],
            input=json.dumps(self.settings),
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": str(self.python), "PYSPARK_PYTHON": sys.executable},
            timeout=600,
        )
        assert completed.returncode == 0, completed.stderr[-3000:]
        return json.loads(completed.stdout)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> SparkTables:
    require_spark()
    python, jars, reason = fetch_spark()
    require("maven central", reason is None, f"a Spark with connectors for tables: {reason}")
    directory = tmp_path_factory.mktemp("tables")
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": JAVA_OPTIONS,
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.databricks.delta.snapshotPartitions": "2",
        "spark.jars": ",".join(map(str, sorted(jars.glob("*.jar")))),
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions,"
        "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "jdbc",
        "spark.sql.catalog.lake.uri": f"jdbc:sqlite:{directory}/catalog.db",
        "spark.sql.catalog.lake.warehouse": f"file://{directory}/warehouse",
    }
    made = SparkTables(directory, python, settings, {})
    made.made = made.run("make")
    return made


@pytest.fixture(scope="module")
def cluster(tables: SparkTables, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    """A cluster whose TaskExecutor has the Spark of the tables."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(tables.python))
        with running_cluster(tmp_path_factory.mktemp("cluster"), num_task_executors=1, slots=6) as running:
            yield running


def properties(tables: SparkTables, engine: str) -> dict[str, str]:
    """Returns the options of a job: native, Spark with its catalog, or Spark with the jars only."""
    if engine == "native-batch":
        return ENGINES[engine]
    kept = {
        key: value
        for key, value in tables.settings.items()
        if engine == "spark" or not key.startswith("spark.sql.catalog.lake")
    }
    return {**ENGINES["spark"], **{f"{PREFIX}{key}": value for key, value in kept.items()}}


def as_json(row: Any) -> dict[str, Any]:
    """Returns a record as Spark's `toJSON` has it."""

    def text(value: Any) -> Any:
        if isinstance(value, datetime.datetime):
            return value.isoformat(timespec="milliseconds")
        if isinstance(value, datetime.date):
            return value.isoformat()
        if hasattr(value, "to_epoch_milli"):
            epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
            moment = epoch + datetime.timedelta(milliseconds=value.to_epoch_milli())
            return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return value

    return {name: text(value) for name, value in row.as_dict().items() if value is not None}


def plain(record: dict[str, Any]) -> dict[str, Any]:
    """Returns a record with times cut to milliseconds and prices as floats, so that records can be compared."""
    made = {}
    for name, value in record.items():
        if name in ("at", "local"):
            main, _, rest = value.removesuffix("Z").partition(".")
            value = f"{main}.{rest[:3]:0<3}"
        made[name] = float(value) if name == "price" else value
    return made


@pytest.mark.parametrize("engine", ["native-batch", "spark", "spark without catalog"])
@pytest.mark.parametrize("table_format", FORMATS)
def test_tables_made_by_spark_are_read(
    tables: SparkTables, cluster: RunningCluster, table_format: str, engine: str
) -> None:
    """The tables have deleted records, and the Iceberg table has been partitioned anew."""
    env = environment(cluster, 2, **properties(tables, engine))
    known = len(cluster.log("taskexecutor-1"))
    stream = env.from_source(
        tables.source(table_format).build(), WatermarkStrategy.no_watermarks(), f"the {table_format} table"
    )
    with stream.execute_and_collect() as results:
        found = sorted((as_json(row) for row in results), key=lambda record: record["id"])
    assert [record["id"] for record in found] == LEFT
    assert [plain(record) for record in found] == [plain(record) for record in tables.made[table_format]]
    table = "lake.db.t" if table_format == "iceberg" else f"{tables.directory}/delta"
    line = f"Spark reads table {table} itself"
    assert (line in cluster.log("taskexecutor-1")[known:]) == (engine != "native-batch")


@pytest.mark.parametrize("engine", ["native-batch", "spark", "spark without catalog"])
@pytest.mark.parametrize("table_format", FORMATS)
def test_earlier_versions_are_read(
    tables: SparkTables, cluster: RunningCluster, table_format: str, engine: str
) -> None:
    builder = tables.source(table_format).project("id")
    first = builder.snapshot_id(tables.made["snapshots"][0]) if table_format == "iceberg" else builder.version_as_of(1)
    env = environment(cluster, 2, **properties(tables, engine))
    stream = env.from_source(first.build(), WatermarkStrategy.no_watermarks(), "first").filter_batches(col("id") > 4)
    with stream.execute_and_collect() as results:
        assert sorted(row.id for row in results) == list(range(5, 30))


@pytest.mark.parametrize("engine", ["native-batch", "spark"])
def test_spark_reads_what_is_written(tables: SparkTables, cluster: RunningCluster, engine: str) -> None:
    """Rows are appended to both tables, which have partitions, and read by Spark."""
    first = 1000 if engine == "spark" else 2000
    kind = Types.ROW_NAMED(["id", "name", "day"], [Types.LONG(), Types.STRING(), Types.SQL_DATE()])
    day = datetime.date(2024, 1, 2)
    env = environment(cluster, 2, **properties(tables, engine))
    rows = env.from_sequence(first, first + 99).map(lambda number: Row(id=number, name=f"w{number}", day=day), kind)
    for table_format in FORMATS:
        rows.sink_to(tables.sink(table_format).build())
    env.execute("append")
    found = tables.run("read")
    for table_format in FORMATS:
        written = [record for record in found[table_format] if first <= record["id"] < first + 100]
        assert written == [
            {"id": number, "name": f"w{number}", "day": "2024-01-02"} for number in range(first, first + 100)
        ]
        assert [record["id"] for record in found[table_format] if record["id"] < 100] == LEFT
