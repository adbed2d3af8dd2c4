"""Spark writes Parquet files of a pipeline of columns exactly once, with the names and the schema of flinkpy's."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from spark_programs import commit, region_of, run_in_spark, session, translated

from flinkpy.common import Encoder, Types, WatermarkStrategy
from flinkpy.connectors.file_sink_config import OnCheckpointRollingPolicy
from flinkpy.datastream import StreamExecutionEnvironment
from flinkpy.datastream.aggregates import count
from flinkpy.datastream.connectors.file_system import BucketAssigner, FileSink, FileSource, OutputFileConfig
from flinkpy.datastream.expressions import col
from flinkpy.datastream.formats.parquet import ParquetBulkWriters
from flinkpy.graph.operator_specs import SinkSpec
from flinkpy.graph.spark_region import SparkEdge, SparkNode
from flinkpy.spark.columns.names import NotExpressible
from flinkpy.spark.stream_frame import Layout, StreamFrame
from flinkpy.spark.translation.parquet_sinks import ParquetSinkJob, check_parquet_sink
from flinkpy.spark.translation.program import JobFacts
from flinkpy.spark.translation.sinks import PassSinkJob

__all__ = ["session"]

RECORDS = pa.table(
    {
        "day": pa.array([datetime.date(2024, 2, 1 + number % 3) for number in range(60)]),
        "town": pa.array(["a/b", "ä", "", None] * 15),
        "n": pa.array(range(60), pa.int64()),
        "small": pa.array([1] * 60, pa.int16()),
        "flag": pa.array([number % 2 == 0 for number in range(60)]),
        "price": pa.array([Decimal("1.50")] * 60, pa.decimal128(10, 2)),
        "at": pa.array([datetime.datetime(2024, 1, 1)] * 60, pa.timestamp("us")),
        "words": pa.array([["x", None]] * 60, pa.list_(pa.string())),
    }
)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> str:
    directory = tmp_path_factory.mktemp("records")
    for number in range(3):
        pq.write_table(RECORDS.slice(20 * number, 20), directory / f"{number}.parquet")
    return str(directory)


def visible(directory: Path) -> list[Path]:
    return sorted(path for path in directory.rglob("*") if path.is_file() and not path.name.startswith("."))


def hidden(directory: Path) -> list[str]:
    return [path.name for path in directory.rglob(".*")]


def file_sink(path: Path, assigner: BucketAssigner | None = None) -> FileSink:
    builder = FileSink.for_bulk_format(str(path), ParquetBulkWriters.for_row_type(None))
    builder.with_output_file_config(OutputFileConfig("sales", ".parquet"))
    return builder.with_bucket_assigner(assigner or BucketAssigner.base_path_bucket_assigner()).build()


def in_python(source: Any) -> Any:
    """Returns the same records from a function, so that flinkpy writes them."""
    return source.map(lambda row: row, output_type=source.get_type())


def kinds_of_sinks(session: Any, build: Any) -> list[type]:
    return [type(job) for job in translated(session, build).sinks]


def records_of(env: StreamExecutionEnvironment, table: str) -> Any:
    return env.from_source(FileSource.for_parquet(table), WatermarkStrategy.no_watermarks(), "records")


def schemas(directory: Path) -> set[str]:
    return {str(pq.read_schema(path).remove_metadata()) for path in visible(directory)}


def test_files_have_the_schema_and_names_of_flinkpys(session: Any, table: str, tmp_path: Path) -> None:
    session.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    spark, python = tmp_path / "spark", tmp_path / "python"

    def build(env: StreamExecutionEnvironment) -> None:
        records_of(env, table).sink_to(file_sink(spark))

    def build_python(env: StreamExecutionEnvironment) -> None:
        in_python(records_of(env, table)).sink_to(file_sink(python))

    def build_totals(env: StreamExecutionEnvironment) -> None:
        # Spark knows that the number is never null, but files do not say so.
        records_of(env, table).key_by("day").aggregate(count("n")).sink_to(file_sink(tmp_path / "totals"))

    for program, kind, num_written in (
        (build, ParquetSinkJob, 60),
        (build_python, PassSinkJob, 60),
        (build_totals, ParquetSinkJob, 3),
    ):
        assert kinds_of_sinks(session, program) == [kind]
        assert run_in_spark(session, program).num_written == num_written
    assert schemas(spark) == schemas(python)
    assert schemas(tmp_path / "totals") == {"day: date32[day]\nn: int64"}
    for directory in (spark, python):
        assert hidden(directory) == []
        assert all(path.name.startswith("sales-") and path.suffix == ".parquet" for path in visible(directory))
        found = pa.concat_tables([pq.read_table(path) for path in visible(directory)]).sort_by("n")
        assert found.to_pylist() == RECORDS.to_pylist()


def test_partitions_have_the_directories_of_flinkpys(session: Any, table: str, tmp_path: Path) -> None:
    spark, python = tmp_path / "spark", tmp_path / "python"
    by_day_and_town = BucketAssigner.column_bucket_assigner("day", "town", "flag")

    def build(env: StreamExecutionEnvironment) -> None:
        records_of(env, table).sink_to(file_sink(spark, by_day_and_town))

    def build_python(env: StreamExecutionEnvironment) -> None:
        in_python(records_of(env, table)).sink_to(file_sink(python, by_day_and_town))

    assert kinds_of_sinks(session, build) == [ParquetSinkJob]
    assert run_in_spark(session, build).num_written == 60
    assert kinds_of_sinks(session, build_python) == [PassSinkJob]
    assert run_in_spark(session, build_python).num_written == 60
    directories = {str(path.parent.relative_to(spark)) for path in visible(spark)}
    assert directories == {str(path.parent.relative_to(python)) for path in visible(python)}
    assert "day=2024-02-01/town=a%2Fb/flag=true" in directories
    assert "day=2024-02-02/town=__HIVE_DEFAULT_PARTITION__/flag=false" in directories
    assert schemas(spark) == schemas(python)
    numbers = [number for path in visible(spark) for number in pq.read_table(path)["n"].to_pylist()]
    assert sorted(numbers) == list(range(60))


def test_nothing_is_written_for_no_records(session: Any, table: str, tmp_path: Path) -> None:
    def build(env: StreamExecutionEnvironment) -> None:
        records_of(env, table).filter_batches(col("n") < 0).sink_to(file_sink(tmp_path / "out"))

    assert run_in_spark(session, build).num_written == 0
    assert list((tmp_path / "out").iterdir()) == []


def sink_job(session: Any, frame: Any, path: Path, attempt_number: int = 0) -> ParquetSinkJob:
    """Returns the job that writes a frame with the column n."""
    source = FileSource.for_json("/nowhere", schema={"n": Types.LONG()})

    def build(env: StreamExecutionEnvironment) -> None:
        records = env.from_source(source, WatermarkStrategy.no_watermarks(), "records")
        records.sink_to(file_sink(path))

    region = region_of(build)
    node = next(node for node in region.nodes if node.inputs)
    type_info = node.inputs[0].type_info
    stream = StreamFrame(frame, type_info, Layout.COLUMNS)
    return ParquetSinkJob(node, stream, JobFacts("b" * 32, "test", attempt_number=attempt_number))


def committed(job: ParquetSinkJob) -> None:
    for _, committables in job.committables():
        commit(job._sink, committables)


def test_attempts_of_tasks_that_failed_leave_nothing(session: Any, tmp_path: Path) -> None:
    def fails_at_first(groups: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        yield from groups
        context = TaskContext.get()
        assert context is not None
        if context.attemptNumber() == 0:
            raise OSError("a broken machine")

    frame = session.range(1000).toDF("n").mapInArrow(fails_at_first, "n bigint")
    job = sink_job(session, frame, tmp_path / "out")
    assert job.write(lambda _: None) == 1000
    assert visible(tmp_path / "out") == []
    assert all(".inprogress." in name for name in hidden(tmp_path / "out"))
    job.remove_leftovers(may_have_retried=True)
    committed(job)
    committed(job)
    numbers = [number for path in visible(tmp_path / "out") for number in pq.read_table(path)["n"].to_pylist()]
    assert sorted(numbers) == list(range(1000))
    assert hidden(tmp_path / "out") == []


def test_a_failed_job_leaves_no_directory(session: Any, tmp_path: Path) -> None:
    from pyspark.sql import functions as F

    frame = session.range(10).select(F.when(F.col("id") < 5, F.raise_error(F.lit("broken"))).cast("bigint").alias("n"))
    job = sink_job(session, frame, tmp_path / "out")
    with pytest.raises(Exception, match="broken"):
        job.write(lambda _: None)
    assert list((tmp_path / "out").iterdir()) == []


def test_a_later_attempt_removes_what_a_dead_one_left(session: Any, tmp_path: Path) -> None:
    first = sink_job(session, session.range(10).toDF("n"), tmp_path / "out")
    first.write(lambda _: None)
    dead = tmp_path / "out" / f".spark-{first._job_id}-0" / "_temporary" / "0"
    dead.mkdir(parents=True)
    (dead / "part-00000.parquet").touch()
    other = tmp_path / "out" / ".spark-other-0-1"
    other.mkdir()
    second = sink_job(session, session.range(10).toDF("n"), tmp_path / "out", attempt_number=1)
    assert second.write(lambda _: None) == 10
    second.remove_leftovers(may_have_retried=False)
    committed(second)
    numbers = [number for path in visible(tmp_path / "out") for number in pq.read_table(path)["n"].to_pylist()]
    assert sorted(numbers) == list(range(10))
    assert hidden(tmp_path / "out") == [".spark-other-0-1"]


class RollsOften(OnCheckpointRollingPolicy):
    def should_roll(self, size_bytes: int, created_ms: int, last_write_ms: int, now_ms: int) -> bool:
        return size_bytes > 1000


class ByTown(BucketAssigner):
    def get_bucket_id(self, element: Any, context: Any) -> str:
        return str(element["town"])


ROW = Types.ROW_NAMED(["town", "n", "x"], [Types.STRING(), Types.LONG(), Types.DOUBLE()])
PARQUET = ParquetBulkWriters.for_row_type(None)


@pytest.mark.parametrize(
    ("sink", "reason"),
    [
        (FileSink.for_row_format("/out", Encoder.simple_string_encoder()).build(), "other formats"),
        (FileSink.for_bulk_format("s3://bucket/out", PARQUET).build(), "renamed at once"),
        (FileSink.for_bulk_format("/out", PARQUET).with_rolling_policy(RollsOften()).build(), "policy of the program"),
        (FileSink.for_bulk_format("/out", PARQUET).with_bucket_assigner(ByTown()).build(), "assigner of the program"),
        (file_sink(Path("/out"), BucketAssigner.column_bucket_assigner("x")), "partition column 'x' cannot be"),
        (file_sink(Path("/out"), BucketAssigner.column_bucket_assigner("y")), "there is no column 'y'"),
        (
            FileSink.for_bulk_format("/out", ParquetBulkWriters.for_row_type({"n": Types.INT()})).build(),
            "other columns",
        ),
    ],
)
def test_flinkpy_writes_files_that_spark_would_write_otherwise(sink: FileSink, reason: str) -> None:
    edge = SparkEdge(1, 0, None, "FORWARD", None, ROW)
    with pytest.raises(NotExpressible, match=reason):
        check_parquet_sink(SparkNode(2, "sink", "uid", "op", SinkSpec(sink), 2, (edge,)))
