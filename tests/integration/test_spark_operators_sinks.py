"""Sinks in Spark write each record once, even if Spark repeats tasks. Exceptions and accumulators of functions are
returned.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from spark_programs import run_in_spark, session, spark_records

from flinkpy.common import Row, Types
from flinkpy.common.accumulators import IntCounter
from flinkpy.common.errors import FunctionError
from flinkpy.datastream import MapFunction, RuntimeContext, StreamExecutionEnvironment
from flinkpy.datastream.connectors.file_system import FileSink, FileSource, StreamFormat
from flinkpy.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcSink
from flinkpy.datastream.formats.csv import CsvBulkWriters, CsvSchema
from flinkpy.datastream.formats.parquet import ParquetBulkWriters
from flinkpy.spark.errors import failure_in

RECORD = Types.ROW_NAMED(["day", "number"], [Types.STRING(), Types.LONG()])

#: The time limit of a test. The first job of a session compiles code and imports modules in Python workers.
pytestmark = pytest.mark.timeout(300)

__all__ = ["session"]


class FailsAtFirst(MapFunction):
    """Fails in the first attempt of each subtask near the last records, after the sink has written others."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._fails = runtime_context.get_attempt_number() == 0
        self._seen = runtime_context.get_int_counter("seen")

    def map(self, value: Any) -> Any:
        self._seen.add(1)
        if self._fails and value % 1000 > 990:
            raise OSError("a broken machine")
        return value


def numbers(env: StreamExecutionEnvironment) -> Any:
    return env.from_sequence(1, 2000).map(FailsAtFirst(), Types.LONG())


def visible_files(directory: Path) -> list[Path]:
    return sorted(path for path in directory.rglob("*") if path.is_file() and not path.name.startswith("."))


def hidden_files(directory: Path) -> list[Path]:
    return sorted(path for path in directory.rglob(".*") if path.is_file())


def test_lines_of_a_task_that_spark_retries_are_written_once(session: Any, tmp_path: Path) -> None:
    def build(env: StreamExecutionEnvironment) -> None:
        from flinkpy.common import Encoder

        sink = FileSink.for_row_format(str(tmp_path / "out"), Encoder.simple_string_encoder()).build()
        numbers(env).sink_to(sink)

    results = run_in_spark(session, build)
    lines = [int(line) for path in visible_files(tmp_path / "out") for line in path.read_text().split()]
    assert sorted(lines) == list(range(1, 2001))
    assert results.num_written == 2000
    counter = results.accumulators["seen"]
    assert isinstance(counter, IntCounter)
    assert counter.get_local_value() == 2000
    assert results.num_failed_attempts > 0
    assert hidden_files(tmp_path / "out") == []


def test_two_columnar_file_sinks_of_one_stream_get_the_same_records(session: Any, tmp_path: Path) -> None:
    import random

    schema = CsvSchema.builder().add_string_column("day").add_number_column("number").build()

    def build(env: StreamExecutionEnvironment) -> None:
        rows = env.from_sequence(1, 500).map(lambda x: Row(f"d{x % 3}", int(random.random() * 1e9)), RECORD)
        parquet = FileSink.for_bulk_format(str(tmp_path / "parquet"), ParquetBulkWriters.for_row_type(RECORD)).build()
        csv = FileSink.for_bulk_format(str(tmp_path / "csv"), CsvBulkWriters.for_schema(schema)).build()
        rows.sink_to(parquet)
        rows.rebalance().sink_to(csv)

    assert run_in_spark(session, build).num_written == 1000
    table = pa.concat_tables([pq.read_table(path) for path in visible_files(tmp_path / "parquet")])
    written = sorted(f"{row['day']},{row['number']}" for row in table.to_pylist())
    lines = [line for path in visible_files(tmp_path / "csv") for line in path.read_text().split()]
    assert sorted(lines) == written
    assert len(written) == 500


def test_rows_are_written_to_a_database(session: Any, tmp_path: Path) -> None:
    path = tmp_path / "numbers.db"
    with sqlite3.connect(path) as connection:
        connection.execute("create table numbers (day text, number integer)")
    options = (
        JdbcConnectionOptions.JdbcConnectionOptionsBuilder()
        .with_url(f"jdbc:sqlite:{path}")
        .with_driver_name("sqlite3")
        .build()
    )

    def build(env: StreamExecutionEnvironment) -> None:
        rows = env.from_collection([Row("a", 1), Row("b", 2)], RECORD)
        rows.add_sink(JdbcSink.sink("insert into numbers values (?, ?)", RECORD, options))

    run_in_spark(session, build)
    with sqlite3.connect(path) as connection:
        assert sorted(connection.execute("select * from numbers").fetchall()) == [("a", 1), ("b", 2)]


def test_flinkpys_readers_read_files_of_formats_that_spark_lacks(session: Any, tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / f"{number}.txt").write_text("".join(f"{number}-{line}\n" for line in range(100)))

    def build(env: StreamExecutionEnvironment) -> Any:
        from flinkpy.common import WatermarkStrategy

        source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(tmp_path)).build()
        return env.from_source(source, WatermarkStrategy.no_watermarks(), "lines").map(lambda line: line.upper())

    expected = sorted(f"{number}-{line}" for number in range(5) for line in range(100))
    assert sorted(spark_records(session, build)) == expected


class Broken(MapFunction):
    def map(self, value: Any) -> Any:
        return 1 // (value - 7)


def test_an_exception_of_a_function_comes_with_its_traceback(session: Any) -> None:
    with pytest.raises(Exception) as raised:
        spark_records(session, lambda env: env.from_collection(list(range(10))).map(Broken()))
    failure = failure_in(str(raised.value))
    assert isinstance(failure, FunctionError)
    assert "ZeroDivisionError" in failure.message
    assert "Map" in failure.message
    assert "return 1 // (value - 7)" in failure.remote_traceback
    assert "pyspark" not in failure.remote_traceback
