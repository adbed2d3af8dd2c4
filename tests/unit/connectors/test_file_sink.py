from __future__ import annotations

import errno
import os
import pickle

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from connector_fakes import TestingWriterContext

from flinkpy.common.clock import ManualClock
from flinkpy.common.errors import TypeMismatchError, UnsupportedOperationError
from flinkpy.common.serialization import BulkWriterFactory, Encoder
from flinkpy.common.typeinfo import Types
from flinkpy.common.types import Row, RowKind
from flinkpy.connectors.file_sink import FileSink
from flinkpy.connectors.file_sink_config import BucketAssigner, OutputFileConfig, RollingPolicy
from flinkpy.connectors.file_sink_writer import FileSinkWriter
from flinkpy.datastream.connectors.file_system import FileCompactor, FileCompactStrategy, StreamingFileSink
from flinkpy.datastream.formats.csv import CsvBulkWriters, CsvSchema
from flinkpy.datastream.formats.parquet import ParquetBulkWriters
from flinkpy.formats import bulk_writer
from flinkpy.records.batch import Batch

ID_NAME = Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()])


def row_sink(path, encoder=None):
    builder = FileSink.for_row_format(str(path), encoder or Encoder.simple_string_encoder())
    return builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())


def bulk_sink(path, factory):
    builder = FileSink.for_bulk_format(str(path), factory)
    return builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build()


def writer_of(sink, clock=None, **context):
    writer = pickle.loads(pickle.dumps(sink)).create_writer(TestingWriterContext(**context))
    assert isinstance(writer, FileSinkWriter)
    if clock is not None:
        writer._clock = clock
    return writer


def files_in(path):
    return sorted(str(file.relative_to(path)) for file in path.rglob("*") if file.is_file())


def test_lines_appear_when_the_input_ends_and_not_before(tmp_path):
    writer = writer_of(row_sink(tmp_path).build(), subtask_index=3)
    writer.write(Batch(["a", "ü"]))
    writer.write(Batch([1, None]))
    writer.flush(end_of_input=False)
    [hidden] = files_in(tmp_path)
    assert hidden == ".part-3-0.inprogress.0123456789abcdef-0"
    writer.flush(end_of_input=True)
    writer.close()
    assert files_in(tmp_path) == ["part-3-0"]
    assert (tmp_path / "part-3-0").read_text() == "a\nü\n1\nNone\n"


def test_typed_rows_are_written_as_they_print(tmp_path):
    writer = writer_of(row_sink(tmp_path).build(), input_type=ID_NAME)
    writer.write(Batch(pa.RecordBatch.from_pydict({"id": [1, 2], "name": ["a", None]})))
    writer.flush(True)
    assert (tmp_path / "part-0-0").read_text() == "+I[1, a]\n+I[2, null]\n"


def test_the_charset_and_a_custom_encoder_are_used(tmp_path):
    class Upper(Encoder):
        def __init__(self):
            super().__init__("UTF-8")

        def encode(self, record):
            return record.upper().encode() + b";"

    for encoder, expected in (
        (Encoder.simple_string_encoder("UTF-16-LE"), "aé\n".encode("utf-16-le")),
        (Upper(), b"A\xc3\x89;"),
    ):
        writer = row_sink(tmp_path, encoder).build().create_writer(TestingWriterContext())
        writer.write(Batch(["aé"]))
        writer.flush(True)
        [file] = tmp_path.iterdir()
        assert file.read_bytes() == expected
        file.unlink()


def test_closing_without_the_end_of_input_leaves_nothing_behind(tmp_path):
    for sink, values in (
        (row_sink(tmp_path).build(), ["a"]),
        (bulk_sink(tmp_path, ParquetBulkWriters.for_row_type(ID_NAME)), [(1, "a")]),
        (bulk_sink(tmp_path, CsvBulkWriters.for_schema(csv_schema())), [(1, "a")]),
    ):
        writer = writer_of(sink)
        writer.write(Batch(values))
        assert len(files_in(tmp_path)) == 1
        writer.close()
        writer.close()
        assert files_in(tmp_path) == []


def test_an_unfinished_parquet_file_with_row_groups_is_deleted_too(tmp_path, monkeypatch):
    monkeypatch.setattr(bulk_writer, "ROW_GROUP_ROWS", 1)
    writer = writer_of(bulk_sink(tmp_path, ParquetBulkWriters.for_row_type(ID_NAME)))
    writer.write(Batch([(1, "a")]))
    writer.close()
    assert files_in(tmp_path) == []


def test_a_failing_record_leaves_nothing_behind_after_close(tmp_path):
    writer = writer_of(bulk_sink(tmp_path, ParquetBulkWriters.for_row_type(ID_NAME)))
    writer.write(Batch([(1, "a")]))
    with pytest.raises(TypeMismatchError, match="record 1, field id: 'x'"):
        writer.write(Batch([(1, "a"), ("x", "b")]))
    writer.close()
    assert files_in(tmp_path) == []


def test_a_failing_commit_leaves_nothing_behind_after_close(tmp_path, monkeypatch):
    def fail(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    writer = writer_of(row_sink(tmp_path).build())
    writer.write(Batch(["a"]))
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space left"):
        writer.flush(True)
    writer.close()
    assert files_in(tmp_path) == []


def test_an_input_without_records_makes_no_file(tmp_path):
    writer = writer_of(row_sink(tmp_path / "out").build())
    writer.flush(True)
    writer.close()
    assert files_in(tmp_path) == []


def test_files_of_earlier_runs_are_never_overwritten(tmp_path):
    for run in ("first", "second"):
        writer = writer_of(row_sink(tmp_path).build())
        writer.write(Batch([run]))
        writer.flush(True)
    assert [(tmp_path / name).read_text() for name in files_in(tmp_path)] == ["first\n", "second\n"]
    assert files_in(tmp_path) == ["part-0-0", "part-0-1"]


def test_file_systems_without_links_are_served_too(tmp_path, monkeypatch):
    def no_links(source, target):
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    test_files_of_earlier_runs_are_never_overwritten(tmp_path)


def test_the_next_attempt_deletes_what_a_killed_one_left(tmp_path):
    killed = writer_of(row_sink(tmp_path).build(), subtask_index=1)
    killed.write(Batch(["a"]))
    other_job = tmp_path / ".part-1-0.inprogress.fedcba9876543210-0"
    other_subtask = tmp_path / ".part-11-0.inprogress.0123456789abcdef-0"
    other_job.touch()
    other_subtask.touch()
    writer_of(row_sink(tmp_path).build(), subtask_index=1, attempt_number=1)
    assert files_in(tmp_path) == sorted([other_job.name, other_subtask.name])
    killed.close()


def test_a_file_is_rolled_by_size(tmp_path):
    policy = RollingPolicy.default_rolling_policy(part_size=10)
    writer = writer_of(row_sink(tmp_path).with_rolling_policy(policy).build())
    for _ in range(3):
        writer.write(Batch(["12345"]))
    assert files_in(tmp_path) == [".part-0-1.inprogress.0123456789abcdef-0", "part-0-0"]
    writer.flush(True)
    assert (tmp_path / "part-0-0").read_text() == "12345\n12345\n"
    assert (tmp_path / "part-0-1").read_text() == "12345\n"


@pytest.mark.parametrize(("rollover_ms", "inactivity_ms"), [(1_000, 1 << 40), (1 << 40, 1_000)])
def test_a_file_is_rolled_by_age_and_by_inactivity(tmp_path, rollover_ms, inactivity_ms):
    policy = RollingPolicy.default_rolling_policy(rollover_interval=rollover_ms, inactivity_interval=inactivity_ms)
    clock = ManualClock()
    writer = writer_of(row_sink(tmp_path).with_rolling_policy(policy).build(), clock)
    writer.write(Batch(["a"]))
    clock.advance(999)
    writer.write(Batch(["b"]))
    clock.advance(1_000)
    writer.write(Batch(["c"]))
    writer.flush(True)
    assert [(tmp_path / name).read_text() for name in files_in(tmp_path)] == ["a\nb\n", "c\n"]


def test_names_are_configured(tmp_path):
    config = OutputFileConfig.builder().with_part_prefix("pre").with_part_suffix(".txt").build()
    assert (config.get_part_prefix(), config.get_part_suffix()) == ("pre", ".txt")
    writer = writer_of(row_sink(tmp_path).with_output_file_config(config).build())
    writer.write(Batch(["a"]))
    writer.flush(True)
    assert files_in(tmp_path) == ["pre-0-0.txt"]
    for bad in (("a/b", ""), ("part", "/x"), ("_hidden", ""), (".hidden", "")):
        with pytest.raises(ValueError, match=r"part file|hidden"):
            OutputFileConfig(*bad)


def test_records_go_into_the_bucket_of_their_hour(tmp_path):
    clock = ManualClock(1_356_998_400_000)  # 2013-01-01 00:00 UTC
    assigner = BucketAssigner.date_time_bucket_assigner("yyyy-MM-dd--HH", "UTC")
    writer = writer_of(row_sink(tmp_path).with_bucket_assigner(assigner).build(), clock)
    writer.write(Batch(["a"]))
    clock.advance(3_600_000)
    writer.write(Batch(["b"]))
    writer.flush(True)
    assert files_in(tmp_path) == ["2013-01-01--00/part-0-0", "2013-01-01--01/part-0-0"]


@pytest.mark.parametrize(
    ("pattern", "zone", "expected"),
    [
        ("yyyy/MM/dd", "Europe/Berlin", "2013/01/01"),
        ("'day='dd''HH", "UTC", "day=01'00"),
        ("HH'h'mm'm'ss's'SSS", "Asia/Kolkata", "05h30m00s007"),
        ("100%yy", "UTC", "100%13"),
    ],
)
def test_bucket_patterns_are_those_of_java(pattern, zone, expected):
    assert BucketAssigner.date_time_bucket_assigner(pattern, zone).bucket_id(1_356_998_400_007) == expected


def test_wrong_settings_are_refused_when_they_are_made(tmp_path):
    with pytest.raises(ValueError, match="time zone"):
        BucketAssigner.date_time_bucket_assigner(timezone_id="Mars/Phobos")
    with pytest.raises(ValueError, match="open quote"):
        BucketAssigner.date_time_bucket_assigner("yyyy'x")
    with pytest.raises(UnsupportedOperationError, match="'EEE'"):
        BucketAssigner.date_time_bucket_assigner("EEE")
    with pytest.raises(ValueError, match="part_size"):
        RollingPolicy.default_rolling_policy(part_size=0)
    with pytest.raises(TypeError, match="not an Encoder"):
        FileSink.for_row_format(str(tmp_path), "utf-8")
    with pytest.raises(TypeError, match="cannot write files"):
        FileSink.for_bulk_format(str(tmp_path), BulkWriterFactory())
    bulk = FileSink.for_bulk_format(str(tmp_path), ParquetBulkWriters.for_row_type(ID_NAME))
    with pytest.raises(ValueError, match="OnCheckpointRollingPolicy"):
        bulk.with_rolling_policy(RollingPolicy.default_rolling_policy())
    bulk.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy()).with_bucket_check_interval(1).build()
    with pytest.raises(UnsupportedOperationError, match="compact"):
        bulk.enable_compact(None, None)
    for make in (
        FileCompactStrategy.builder,
        FileCompactor.concat_file_compactor,
        FileCompactor.identical_file_compactor,
    ):
        with pytest.raises(UnsupportedOperationError, match="compact"):
            make()


def test_parquet_takes_rows_and_columns_and_gathers_them_into_row_groups(tmp_path):
    writer = writer_of(bulk_sink(tmp_path, ParquetBulkWriters.for_row_type(ID_NAME)), input_type=ID_NAME)
    writer.write(Batch([Row(1, "a"), Row(2, None)]))
    writer.write(Batch(pa.RecordBatch.from_pydict({"id": [3], "name": ["c"]})))
    writer.flush(True)
    writer.close()
    file = pq.ParquetFile(tmp_path / "part-0-0")
    assert file.num_row_groups == 1
    assert file.read().to_pylist() == [{"id": 1, "name": "a"}, {"id": 2, "name": None}, {"id": 3, "name": "c"}]
    file.close()


def test_parquet_writes_a_row_group_when_enough_is_gathered(tmp_path, monkeypatch):
    monkeypatch.setattr(bulk_writer, "ROW_GROUP_ROWS", 10)
    writer = writer_of(bulk_sink(tmp_path, ParquetBulkWriters.for_row_type(None)), input_type=Types.LONG())
    for _ in range(5):
        writer.write(Batch(list(range(4))))
    writer.flush(True)
    file = pq.ParquetFile(tmp_path / "part-0-0")
    assert [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)] == [12, 8]
    assert file.schema_arrow.names == ["f0"]
    file.close()


def test_a_bulk_format_needs_typed_rows_and_no_updates(tmp_path):
    writer = writer_of(bulk_sink(tmp_path, ParquetBulkWriters.for_row_type(None)))
    with pytest.raises(TypeMismatchError, match="declared type"):
        writer.write(Batch([1]))
    writer.close()
    writer = writer_of(bulk_sink(tmp_path, ParquetBulkWriters.for_row_type(ID_NAME)))
    with pytest.raises(UnsupportedOperationError, match="updates or deletions"):
        writer.write(Batch([Row.of_kind(RowKind.DELETE, 1, "a")]))
    writer.close()
    assert files_in(tmp_path) == []


def csv_schema(**settings):
    builder = CsvSchema.builder().add_number_column("id").add_string_column("name")
    for name, value in settings.items():
        getattr(builder, name)(*value)
    return builder.build()


def test_csv_is_written_with_quotes_where_they_are_needed(tmp_path):
    schema = csv_schema(set_use_header=(), set_null_value=("NA",))
    writer = writer_of(bulk_sink(tmp_path, CsvBulkWriters.for_schema(schema)))
    writer.write(Batch([(1, "plain"), (2, 'a "b", c'), (3, "two\nlines"), (None, None), (4, "NA"), (5, "")]))
    writer.flush(True)
    assert (tmp_path / "part-0-0").read_text() == (
        'id,name\n1,plain\n2,"a ""b"", c"\n3,"two\nlines"\nNA,NA\n4,"NA"\n5,""\n'
    )


def test_the_streaming_file_sink_writes_the_same(tmp_path):
    sink = StreamingFileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder()).build()
    assert isinstance(sink, FileSink)
    assert sink.get_transformer() is None
    StreamingFileSink.for_bulk_format(str(tmp_path), ParquetBulkWriters.for_row_type(ID_NAME)).disable_compact().build()
