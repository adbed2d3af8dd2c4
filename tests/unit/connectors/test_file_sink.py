from __future__ import annotations

import datetime
import errno
import os
import pickle
import re

import cloudpickle
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from connector_fakes import TestingWriterContext, read_splits

from flinkpy.common import failpoints
from flinkpy.common.clock import ManualClock
from flinkpy.common.errors import (
    CommitError,
    ExternalError,
    StateRestoreError,
    TypeMismatchError,
    UnsupportedOperationError,
)
from flinkpy.common.serialization import BulkWriterFactory, Encoder
from flinkpy.common.typeinfo import Types
from flinkpy.common.types import Row, RowKind
from flinkpy.connectors.file_sink import FileSink
from flinkpy.connectors.file_sink_config import BucketAssigner, OutputFileConfig, RollingPolicy
from flinkpy.connectors.file_source import FileSource
from flinkpy.datastream.connectors.file_system import StreamingFileSink
from flinkpy.datastream.formats.csv import CsvBulkWriters, CsvSchema
from flinkpy.datastream.formats.parquet import ParquetBulkWriters
from flinkpy.formats import bulk_writer
from flinkpy.records.batch import Batch
from flinkpy.records.lanes import to_columns
from flinkpy.streaming.operators.committables import END_OF_INPUT_ID, Committables

ID_NAME = Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()])


def row_sink(path, encoder=None):
    builder = FileSink.for_row_format(str(path), encoder or Encoder.simple_string_encoder())
    return builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())


def bulk_sink(path, factory):
    builder = FileSink.for_bulk_format(str(path), factory)
    return builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build()


class Sink:
    """Runs the writer and the committer of a sink as a task does, without a cluster."""

    def __init__(self, sink, clock=None, states=None, **context):
        self.sink = pickle.loads(cloudpickle.dumps(sink))
        if states is None:
            self.writer = self.sink.create_writer(TestingWriterContext(**context))
        else:
            context.setdefault("restored_checkpoint_id", 1)
            self.writer = self.sink.restore_writer(TestingWriterContext(**context), states)
        if clock is not None:
            self.writer._clock = clock
        self.committer = self.sink.create_committer()
        self.pending = Committables()

    def write(self, *values):
        self.writer.write(Batch(list(values)))

    def checkpoint(self, checkpoint_id=1):
        """Takes a checkpoint: returns the writer's state and keeps its committables as pending."""
        self.writer.flush(False)
        self.pending.add(checkpoint_id, self.writer.prepare_commit())
        return pickle.loads(pickle.dumps(self.writer.snapshot_state(checkpoint_id)))

    def complete(self, checkpoint_id=1):
        self.pending.commit_up_to(checkpoint_id, self.committer, 0)

    def finish(self):
        self.writer.flush(True)
        self.pending.add(END_OF_INPUT_ID, self.writer.prepare_commit())
        self.complete(END_OF_INPUT_ID)

    def close(self):
        self.writer.close()


def files_in(path):
    return sorted(str(file.relative_to(path)) for file in path.rglob("*") if file.is_file())


def visible(path):
    """Bucket and content of each file that a reader sees."""
    found = [file for file in files_in(path) if not os.path.basename(file).startswith(".")]
    return sorted((os.path.dirname(file), (path / file).read_text()) for file in found)


def hidden(path):
    return [file for file in files_in(path) if os.path.basename(file).startswith(".")]


def only_file(path):
    [file] = path.iterdir()
    assert not file.name.startswith(".")
    return file


def test_a_sink_is_shown_with_its_directory(tmp_path):
    assert repr(row_sink(tmp_path).build()) == f"FileSink({tmp_path})"


def test_lines_appear_when_the_input_ends_and_not_before(tmp_path):
    sink = Sink(row_sink(tmp_path).build(), subtask_index=3)
    sink.write("a", "ü")
    sink.write(1, None)
    sink.writer.flush(end_of_input=False)
    [name] = files_in(tmp_path)
    assert re.fullmatch(r"\.part-[0-9a-f]{16}-0\.inprogress\.0123456789abcdef-3-0", name)
    sink.finish()
    sink.close()
    assert re.fullmatch(r"part-[0-9a-f]{16}-0", only_file(tmp_path).name)
    assert visible(tmp_path) == [("", "a\nü\n1\nNone\n")]


@pytest.mark.parametrize("is_bulk", [False, True])
def test_the_bytes_of_files_are_counted(tmp_path, is_bulk):
    sink = bulk_sink(tmp_path, ParquetBulkWriters.for_row_type(ID_NAME)) if is_bulk else row_sink(tmp_path).build()
    run = Sink(sink, input_type=ID_NAME if is_bulk else None)
    run.writer.write(to_columns(Batch([Row(1, "a"), Row(2, "b")]), ID_NAME) if is_bulk else Batch(["one", "two"]))
    sends = run.writer.send_metrics
    assert sends.num_bytes == (0 if is_bulk else 8)  # Parquet keeps the rows of a row group in memory
    run.finish()
    run.complete(END_OF_INPUT_ID)
    assert sends.num_bytes == sum(file.stat().st_size for file in tmp_path.rglob("*") if file.is_file()) > 0
    assert sends.num_errors is None


def test_typed_rows_are_written_in_their_printed_form(tmp_path):
    sink = Sink(row_sink(tmp_path).build(), input_type=ID_NAME)
    sink.writer.write(Batch(pa.RecordBatch.from_pydict({"id": [1, 2], "name": ["a", None]})))
    sink.finish()
    assert visible(tmp_path) == [("", "+I[1, a]\n+I[2, null]\n")]


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
        sink = Sink.__new__(Sink)
        sink.sink = row_sink(tmp_path, encoder).build()
        sink.writer = sink.sink.create_writer(TestingWriterContext())
        sink.committer, sink.pending = sink.sink.create_committer(), Committables()
        sink.write("aé")
        sink.finish()
        file = only_file(tmp_path)
        assert file.read_bytes() == expected
        file.unlink()


def test_closing_before_any_checkpoint_leaves_nothing_behind(tmp_path):
    for sink, values in (
        (row_sink(tmp_path).build(), ["a"]),
        (bulk_sink(tmp_path, ParquetBulkWriters.for_row_type(ID_NAME)), [(1, "a")]),
        (bulk_sink(tmp_path, CsvBulkWriters.for_schema(csv_schema())), [(1, "a")]),
    ):
        sink = Sink(sink)
        sink.write(*values)
        assert len(files_in(tmp_path)) == 1
        sink.close()
        sink.close()
        assert files_in(tmp_path) == []


def test_an_unfinished_parquet_file_with_row_groups_is_deleted_too(tmp_path, monkeypatch):
    monkeypatch.setattr(bulk_writer, "ROW_GROUP_ROWS", 1)
    sink = Sink(bulk_sink(tmp_path, ParquetBulkWriters.for_row_type(ID_NAME)))
    sink.write((1, "a"))
    sink.close()
    assert files_in(tmp_path) == []


def test_a_failing_record_leaves_nothing_behind_after_close(tmp_path):
    sink = Sink(bulk_sink(tmp_path, ParquetBulkWriters.for_row_type(ID_NAME)))
    sink.write((1, "a"))
    with pytest.raises(TypeMismatchError, match="record 1, field id: 'x'"):
        sink.write((1, "a"), ("x", "b"))
    sink.close()
    assert files_in(tmp_path) == []


def test_a_full_disk_at_the_end_leaves_nothing_behind_after_close(tmp_path, monkeypatch):
    def fail(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    sink = Sink(row_sink(tmp_path).build())
    sink.write("a")
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space left"):
        sink.writer.flush(True)
    sink.close()
    assert files_in(tmp_path) == []


def test_a_part_file_that_cannot_be_created_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    sink = Sink(row_sink(tmp_path / "file" / "below").build())

    with pytest.raises(ExternalError, match=r"part file .*/file/below/part-\S+ cannot be created: .*File exists"):
        sink.write("x")
    sink.close()


def test_empty_input_creates_no_file(tmp_path):
    sink = Sink(row_sink(tmp_path / "out").build())
    sink.checkpoint()
    sink.finish()
    sink.close()
    assert files_in(tmp_path) == []


def test_files_of_earlier_runs_are_never_overwritten(tmp_path):
    for run in ("first", "second"):
        sink = Sink(row_sink(tmp_path).build())
        sink.write(run)
        sink.finish()
    assert visible(tmp_path) == [("", "first\n"), ("", "second\n")]
    assert hidden(tmp_path) == []


def test_file_systems_without_hard_links_are_supported(tmp_path, monkeypatch):
    def no_links(source, target):
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    test_files_of_earlier_runs_are_never_overwritten(tmp_path)


# -- two phases ------------------------------------------------------------------------------------------------------


def test_closed_file_becomes_visible_with_its_checkpoint(tmp_path):
    sink = Sink(bulk_sink(tmp_path, CsvBulkWriters.for_schema(csv_schema())))
    sink.write((1, "a"))
    sink.checkpoint(1)
    sink.write((2, "b"))
    sink.checkpoint(2)
    assert visible(tmp_path) == []
    sink.complete(1)
    assert visible(tmp_path) == [("", "1,a\n")]
    sink.complete(2)
    assert visible(tmp_path) == [("", "1,a\n"), ("", "2,b\n")]
    assert hidden(tmp_path) == []


def test_committables_are_durable_with_their_directory(tmp_path, monkeypatch):
    synced = []
    real = os.fsync

    def record(descriptor):
        synced.append(os.path.relpath(os.readlink(f"/proc/self/fd/{descriptor}"), tmp_path))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", record)
    clock = ManualClock(1_356_998_400_000)
    assigner = BucketAssigner.date_time_bucket_assigner("'hour='HH", "UTC")
    sink = Sink(row_sink(tmp_path / "out").with_bucket_assigner(assigner).build(), clock)
    sink.write("a")
    assert synced == [".", "out"]
    synced.clear()
    [state] = sink.checkpoint()
    [file] = state.in_progress
    assert synced == [f"out/hour=00/{file.hidden_name}", "out/hour=00"]
    synced.clear()
    sink.writer.flush(True)
    sink.writer.prepare_commit()
    assert synced == [f"out/hour=00/{file.hidden_name}", "out/hour=00"]


def test_committing_twice_has_the_effect_of_once(tmp_path):
    sink = Sink(row_sink(tmp_path).build())
    sink.write("a")
    sink.writer.flush(True)
    committables = sink.writer.prepare_commit()
    sink.close()
    for checkpoint_id in (1, 2):
        sink.pending.add(checkpoint_id, committables)
        sink.complete(checkpoint_id)
        assert visible(tmp_path) == [("", "a\n")]
        assert hidden(tmp_path) == []


def test_interrupted_commit_is_completed(tmp_path, monkeypatch):
    for point in ("file_sink.before_link", "file_sink.before_unlink", "file_sink.before_directory_sync"):
        directory = tmp_path / point
        sink = Sink(row_sink(directory).build())
        sink.write("a")
        sink.writer.flush(True)
        sink.pending.add(1, sink.writer.prepare_commit())
        failpoints.arm(f"{point}=error@1")
        with pytest.raises(CommitError, match="Input/output error"):
            sink.complete(1)
        failpoints.arm("")
        sink.complete(1)
        assert visible(directory) == [("", "a\n")]
        assert hidden(directory) == []


def test_a_lost_file_and_a_name_that_is_taken_fail_the_commit(tmp_path):
    sink = Sink(row_sink(tmp_path).build())
    sink.write("a")
    sink.writer.flush(True)
    [file] = sink.writer.prepare_commit()
    sink.pending.add(1, [file])
    (tmp_path / file.final_name).write_text("somebody else's")
    with pytest.raises(CommitError, match="exists already"):
        sink.complete(1)
    (tmp_path / file.final_name).unlink()
    (tmp_path / file.hidden_name).unlink()
    with pytest.raises(CommitError, match="records of the part file are lost"):
        sink.complete(1)


def test_close_keeps_files_that_a_checkpoint_may_contain(tmp_path):
    sink = Sink(row_sink(tmp_path).build())
    sink.write("a")
    [state] = sink.checkpoint(1)
    sink.write("b")
    sink.close()
    assert hidden(tmp_path) == [state.in_progress[0].hidden_name]
    bulk = Sink(bulk_sink(tmp_path, CsvBulkWriters.for_schema(csv_schema())))
    bulk.write((1, "a"))
    bulk.checkpoint(1)
    bulk.write((2, "b"))
    bulk.close()
    bulk.complete(1)
    assert visible(tmp_path) == [("", "1,a\n")]


@pytest.mark.parametrize("copies_in_kernel", [True, False])
def test_row_file_continues_at_the_length_of_the_checkpoint(tmp_path, monkeypatch, copies_in_kernel):
    if not copies_in_kernel:

        def not_here(*_):
            raise OSError(errno.EXDEV, "Invalid cross-device link")

        monkeypatch.setattr(os, "copy_file_range", not_here)
    sink = Sink(row_sink(tmp_path).build())
    sink.write("a")
    states = sink.checkpoint(1)
    sink.complete(1)
    sink.write("lost with the attempt")
    sink.writer.flush(False)
    sink.close()
    restored = Sink(row_sink(tmp_path).build(), states=states, attempt_number=1)
    restored.write("b")
    restored.checkpoint(2)
    assert visible(tmp_path) == []
    assert len(hidden(tmp_path)) == 2
    restored.complete(2)
    assert len(hidden(tmp_path)) == 1
    restored.finish()
    assert visible(tmp_path) == [("", "a\nb\n")]
    assert hidden(tmp_path) == []


def test_attempt_that_still_runs_damages_no_file(tmp_path):
    zombie = Sink(row_sink(tmp_path).build())
    zombie.write("a")
    states = zombie.checkpoint(1)
    restored = Sink(row_sink(tmp_path).build(), states=states, attempt_number=1)
    zombie.write("zombie")
    zombie.writer.flush(False)
    zombie.checkpoint(2)
    restored.write("b")
    restored.checkpoint(2)
    restored.complete(2)
    zombie.close()
    restored.finish()
    assert visible(tmp_path) == [("", "a\nb\n")]


def test_a_checkpoint_can_be_restored_repeatedly(tmp_path):
    sink = Sink(row_sink(tmp_path).build())
    sink.write("a")
    states = sink.checkpoint(1)
    sink.close()
    for attempt in (1, 2, 3):
        restored = Sink(row_sink(tmp_path).build(), states=states, attempt_number=attempt)
        restored.write(f"attempt {attempt}")
        restored.checkpoint(attempt + 1)
        restored.close()
    final = Sink(row_sink(tmp_path).build(), states=states, attempt_number=4)
    assert len(hidden(tmp_path)) == 2
    final.write("b")
    final.finish()
    assert visible(tmp_path) == [("", "a\nb\n")]
    assert hidden(tmp_path) == []


def test_restoring_an_older_checkpoint_changes_no_visible_file(tmp_path):
    sink = Sink(row_sink(tmp_path).build())
    sink.write("a")
    states = sink.checkpoint(1)
    sink.write("b")
    sink.finish()
    restored = Sink(row_sink(tmp_path).build(), states=states, attempt_number=1)
    restored.write("b")
    restored.finish()
    assert visible(tmp_path) == [("", "a\nb\n"), ("", "b\n")]


def test_a_missing_or_short_file_in_progress_is_named(tmp_path):
    sink = Sink(row_sink(tmp_path).build())
    sink.write("abc")
    [state] = sink.checkpoint(1)
    [file] = state.in_progress
    sink.close()
    path = tmp_path / file.hidden_name
    path.write_text("ab")
    with pytest.raises(StateRestoreError, match="had 4 bytes at the checkpoint, now 2"):
        Sink(row_sink(tmp_path).build(), states=[state])
    path.unlink()
    with pytest.raises(StateRestoreError, match=re.escape(file.hidden_name)):
        Sink(row_sink(tmp_path).build(), states=[state])
    assert files_in(tmp_path) == []


def test_several_writers_become_one_and_one_becomes_several(tmp_path):
    states = []
    for subtask in (0, 1):
        sink = Sink(row_sink(tmp_path).build(), subtask_index=subtask, parallelism=2)
        sink.write(f"subtask {subtask}")
        states += sink.checkpoint(1)
        sink.close()
    one = Sink(row_sink(tmp_path).build(), states=states, job_id="fedcba9876543210")
    one.write("more")
    states = one.checkpoint(2)
    one.complete(2)
    one.close()
    assert visible(tmp_path) == [("", "subtask 0\n")]
    new = [Sink(row_sink(tmp_path).build(), states=part, subtask_index=i) for i, part in enumerate([states, []])]
    for sink in new:
        sink.write("last")
        sink.finish()
    assert visible(tmp_path) == [("", "last\n"), ("", "subtask 0\n"), ("", "subtask 1\nmore\nlast\n")]


def test_next_attempt_deletes_only_the_files_of_a_killed_one(tmp_path):
    killed = Sink(row_sink(tmp_path).build(), subtask_index=1)
    killed.write("a")
    uid = "0123456789abcdef"
    others = [
        f".part-{uid}-0.inprogress.fedcba9876543210-1-0",
        f".part-{uid}-0.inprogress.0123456789abcdef-11-0",
        f".part-{uid}-0.inprogress.0123456789abcdef-1-1",
        f".other-{uid}-0.inprogress.0123456789abcdef-1-0",
    ]
    for name in others:
        (tmp_path / name).touch()
    Sink(row_sink(tmp_path).build(), subtask_index=1, attempt_number=1)
    assert files_in(tmp_path) == sorted(others)
    killed.close()


def test_files_of_attempts_that_do_not_count_are_found_by_the_beginning_of_their_job_id(tmp_path):
    """Two Spark tasks may have the same numbers, but only one of them counts."""
    sink = row_sink(tmp_path).build()
    attempts = [Sink(row_sink(tmp_path).build(), job_id=f"job-1-{attempt}") for attempt in ("0-0", "0-0", "0-1", "1-0")]
    for attempt in attempts:
        attempt.write("a")
        attempt.writer.flush(True)
    counted = attempts[1].writer.prepare_commit()
    another = Sink(row_sink(tmp_path).build(), job_id="job-11-0-0")
    another.write("b")
    sink.remove_uncommitted("job-1", counted)
    assert hidden(tmp_path) == sorted(
        [counted[0].hidden_name, *(name for name in hidden(tmp_path) if "job-11-" in name)]
    )
    assert len(hidden(tmp_path)) == 2
    another.close()


def test_restored_attempt_deletes_files_newer_than_the_checkpoint(tmp_path):
    policy = RollingPolicy.default_rolling_policy(part_size=1)
    killed = Sink(row_sink(tmp_path).with_rolling_policy(policy).build())
    killed.write("a")
    states = killed.checkpoint(1)
    killed.write("b")
    killed.checkpoint(2)
    in_between = Sink(row_sink(tmp_path).with_rolling_policy(policy).build(), states=states, attempt_number=1)
    assert len(hidden(tmp_path)) == 1
    in_between.write("b")
    in_between.checkpoint(2)
    # This attempt is also killed, before checkpoint 2 is complete.
    killed.complete(1)
    restored = Sink(row_sink(tmp_path).with_rolling_policy(policy).build(), states=states, attempt_number=2)
    restored.write("b")
    restored.finish()
    assert visible(tmp_path) == [("", "a\n"), ("", "b\n")]
    assert hidden(tmp_path) == []


def test_subtask_with_redistributed_state_deletes_only_files_of_that_state(tmp_path):
    sinks = [Sink(row_sink(tmp_path).build(), subtask_index=i, parallelism=2) for i in (0, 1)]
    states = []
    for sink in sinks:
        sink.write("a")
        states.append(sink.checkpoint(1))
        sink.close()
    swapped = [
        Sink(row_sink(tmp_path).build(), states=states[1 - i], subtask_index=i, attempt_number=1) for i in (0, 1)
    ]
    for sink in swapped:
        sink.finish()
    assert visible(tmp_path) == [("", "a\n"), ("", "a\n")]


def test_bulk_format_cannot_continue_a_row_file(tmp_path):
    sink = Sink(row_sink(tmp_path).build())
    sink.write("a")
    states = sink.checkpoint(1)
    sink.close()
    with pytest.raises(StateRestoreError, match="row format"):
        Sink(bulk_sink(tmp_path, CsvBulkWriters.for_schema(csv_schema())), states=states)


# -- rolling and names -----------------------------------------------------------------------------------------------


def test_a_file_is_rolled_by_size(tmp_path):
    policy = RollingPolicy.default_rolling_policy(part_size=10)
    sink = Sink(row_sink(tmp_path).with_rolling_policy(policy).build())
    for _ in range(3):
        sink.write("12345")
    assert len(hidden(tmp_path)) == 2
    sink.checkpoint()
    sink.complete()
    assert visible(tmp_path) == [("", "12345\n12345\n")]
    sink.finish()
    assert visible(tmp_path) == [("", "12345\n"), ("", "12345\n12345\n")]


@pytest.mark.parametrize(("rollover_ms", "inactivity_ms"), [(1_000, 1 << 40), (1 << 40, 1_000)])
def test_a_file_is_rolled_by_age_and_by_inactivity(tmp_path, rollover_ms, inactivity_ms):
    policy = RollingPolicy.default_rolling_policy(rollover_interval=rollover_ms, inactivity_interval=inactivity_ms)
    clock = ManualClock()
    sink = Sink(row_sink(tmp_path).with_rolling_policy(policy).build(), clock)
    sink.write("a")
    clock.advance(999)
    sink.write("b")
    clock.advance(1_000)
    sink.write("c")
    sink.checkpoint(1)
    sink.complete(1)
    assert visible(tmp_path) == [("", "a\nb\n")]
    clock.advance(1_000)
    sink.checkpoint(2)
    sink.complete(2)
    assert visible(tmp_path) == [("", "a\nb\n"), ("", "c\n")]


def test_a_policy_may_roll_at_each_checkpoint(tmp_path):
    sink = Sink(row_sink(tmp_path).with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy()).build())
    for checkpoint_id, value in enumerate("ab", 1):
        sink.write(value)
        [state] = sink.checkpoint(checkpoint_id)
        assert state.in_progress == ()
        sink.complete(checkpoint_id)
    assert visible(tmp_path) == [("", "a\n"), ("", "b\n")]


def test_file_names_can_be_configured(tmp_path):
    config = OutputFileConfig.builder().with_part_prefix("pre").with_part_suffix(".txt").build()
    assert (config.get_part_prefix(), config.get_part_suffix()) == ("pre", ".txt")
    sink = Sink(row_sink(tmp_path).with_output_file_config(config).build())
    sink.write("a")
    sink.finish()
    assert re.fullmatch(r"pre-[0-9a-f]{16}-0\.txt", only_file(tmp_path).name)
    for bad in (("a/b", ""), ("part", "/x"), ("_hidden", ""), (".hidden", "")):
        with pytest.raises(ValueError, match=r"part file|hidden"):
            OutputFileConfig(*bad)


def test_records_go_into_the_bucket_of_their_hour(tmp_path):
    clock = ManualClock(1_356_998_400_000)  # 2013-01-01 00:00 UTC
    assigner = BucketAssigner.date_time_bucket_assigner("yyyy-MM-dd--HH", "UTC")
    sink = Sink(row_sink(tmp_path).with_bucket_assigner(assigner).build(), clock)
    sink.write("a")
    clock.advance(3_600_000)
    sink.write("b")
    sink.finish()
    assert visible(tmp_path) == [("2013-01-01--00", "a\n"), ("2013-01-01--01", "b\n")]


@pytest.mark.parametrize(
    ("pattern", "zone", "expected"),
    [
        ("yyyy/MM/dd", "Europe/Berlin", "2013/01/01"),
        ("'day='dd''HH", "UTC", "day=01'00"),
        ("HH'h'mm'm'ss's'SSS", "Asia/Kolkata", "05h30m00s007"),
        ("100%yy", "UTC", "100%13"),
    ],
)
def test_bucket_patterns_follow_java(pattern, zone, expected):
    assert BucketAssigner.date_time_bucket_assigner(pattern, zone).bucket_id(1_356_998_400_007) == expected


def test_constructors_refuse_invalid_settings(tmp_path):
    with pytest.raises(ValueError, match="time zone"):
        BucketAssigner.date_time_bucket_assigner(timezone_id="Mars/Phobos")
    with pytest.raises(ValueError, match="unclosed quote"):
        BucketAssigner.date_time_bucket_assigner("yyyy'x")
    with pytest.raises(UnsupportedOperationError, match="'EEE'"):
        BucketAssigner.date_time_bucket_assigner("EEE")
    with pytest.raises(ValueError, match="part_size"):
        RollingPolicy.default_rolling_policy(part_size=0)
    with pytest.raises(TypeError, match="not an Encoder"):
        FileSink.for_row_format(str(tmp_path), "utf-8")
    with pytest.raises(TypeError, match="is not a writer factory"):
        FileSink.for_bulk_format(str(tmp_path), BulkWriterFactory())
    bulk = FileSink.for_bulk_format(str(tmp_path), ParquetBulkWriters.for_row_type(ID_NAME))
    with pytest.raises(ValueError, match="OnCheckpointRollingPolicy"):
        bulk.with_rolling_policy(RollingPolicy.default_rolling_policy())
    bulk.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy()).with_bucket_check_interval(1).build()
    with pytest.raises(TypeError, match="not a FileCompactStrategy"):
        bulk.enable_compact(None, None)


def test_parquet_collects_rows_and_columns_into_row_groups(tmp_path):
    sink = Sink(bulk_sink(tmp_path, ParquetBulkWriters.for_row_type(ID_NAME)), input_type=ID_NAME)
    sink.write(Row(1, "a"), Row(2, None))
    sink.writer.write(Batch(pa.RecordBatch.from_pydict({"id": [3], "name": ["c"]})))
    sink.finish()
    sink.close()
    file = pq.ParquetFile(only_file(tmp_path))
    assert file.num_row_groups == 1
    assert file.read().to_pylist() == [{"id": 1, "name": "a"}, {"id": 2, "name": None}, {"id": 3, "name": "c"}]
    file.close()


def test_parquet_writes_a_row_group_when_enough_is_gathered(tmp_path, monkeypatch):
    monkeypatch.setattr(bulk_writer, "ROW_GROUP_ROWS", 10)
    sink = Sink(bulk_sink(tmp_path, ParquetBulkWriters.for_row_type(None)), input_type=Types.LONG())
    for _ in range(5):
        sink.write(*range(4))
    sink.finish()
    file = pq.ParquetFile(only_file(tmp_path))
    assert [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)] == [12, 8]
    assert file.schema_arrow.names == ["f0"]
    file.close()


def test_a_bulk_format_needs_typed_rows_and_no_updates(tmp_path):
    sink = Sink(bulk_sink(tmp_path, ParquetBulkWriters.for_row_type(None)))
    with pytest.raises(TypeMismatchError, match="declared type"):
        sink.write(1)
    sink.close()
    sink = Sink(bulk_sink(tmp_path, ParquetBulkWriters.for_row_type(ID_NAME)))
    with pytest.raises(UnsupportedOperationError, match="updates or deletions"):
        sink.write(Row.of_kind(RowKind.DELETE, 1, "a"))
    sink.close()
    assert files_in(tmp_path) == []


def csv_schema(**settings):
    builder = CsvSchema.builder().add_number_column("id").add_string_column("name")
    for name, value in settings.items():
        getattr(builder, name)(*value)
    return builder.build()


def test_csv_fields_are_quoted_if_needed(tmp_path):
    schema = csv_schema(set_use_header=(), set_null_value=("NA",))
    sink = Sink(bulk_sink(tmp_path, CsvBulkWriters.for_schema(schema)))
    sink.write((1, "plain"), (2, 'a "b", c'), (3, "two\nlines"), (None, None), (4, "NA"), (5, ""))
    sink.finish()
    assert only_file(tmp_path).read_text() == ('id,name\n1,plain\n2,"a ""b"", c"\n3,"two\nlines"\nNA,NA\n4,"NA"\n5,\n')


def test_the_streaming_file_sink_writes_the_same(tmp_path):
    sink = StreamingFileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder()).build()
    assert isinstance(sink, FileSink)
    assert sink.get_transformer() is None
    StreamingFileSink.for_bulk_format(str(tmp_path), ParquetBulkWriters.for_row_type(ID_NAME)).disable_compact().build()


# -- partitions --------------------------------------------------------------------------------------------------------

SALES = Types.ROW_NAMED(["town", "n", "day", "big"], [Types.STRING(), Types.INT(), Types.SQL_DATE(), Types.BOOLEAN()])


def partitioned_sink(path, *columns, row_type=None):
    builder = FileSink.for_bulk_format(str(path), ParquetBulkWriters.for_row_type(row_type))
    return builder.with_bucket_assigner(BucketAssigner.column_bucket_assigner(*columns)).build()


@pytest.mark.parametrize("row_type", [None, SALES])
@pytest.mark.parametrize("is_columnar", [True, False])
def test_records_are_written_to_the_directories_of_their_values(tmp_path, row_type, is_columnar):
    day = datetime.date(2024, 2, 29)
    rows = [
        ("a/b", 1, day, True),
        (None, 2, day, False),
        ("", 3, day, False),
        ("a/b", 4, day, True),
        ("c", 5, None, None),
    ]
    batch = Batch([Row(*row) for row in rows])
    sink = Sink(partitioned_sink(tmp_path, "day", "town", "big", row_type=row_type), input_type=SALES)
    sink.writer.write(to_columns(batch, SALES) if is_columnar else batch)
    sink.finish()
    sink.close()
    found = {}
    for path in tmp_path.rglob("part-*"):
        found[str(path.parent.relative_to(tmp_path))] = pq.ParquetFile(path).read().to_pylist()
    assert found == {
        "day=2024-02-29/town=a%2Fb/big=true": [{"n": 1}, {"n": 4}],
        "day=2024-02-29/town=__HIVE_DEFAULT_PARTITION__/big=false": [{"n": 2}, {"n": 3}],
        "day=__HIVE_DEFAULT_PARTITION__/town=c/big=__HIVE_DEFAULT_PARTITION__": [{"n": 5}],
    }


def test_partitions_are_read_back(tmp_path):
    sink = Sink(partitioned_sink(tmp_path, "town"), input_type=SALES)
    sink.write(*[Row(f"t{number % 50}", number, None, None) for number in range(500)])
    sink.finish()
    source = FileSource.for_parquet(str(tmp_path), partition_columns=["town"], columns=["town", "n"])
    batches = read_splits(source, source.list_splits(1), 1000)
    rows = [tuple(row.values()) for batch in batches for row in batch.values.to_pylist()]
    assert sorted(rows) == sorted((f"t{number % 50}", number) for number in range(500))


def test_partitions_need_named_columns_of_a_fit_type(tmp_path):
    with pytest.raises(UnsupportedOperationError, match="needs a bulk format with columns"):
        row_sink(tmp_path).with_bucket_assigner(BucketAssigner.column_bucket_assigner("town")).build()
    with pytest.raises(ValueError, match="one or more different names"):
        BucketAssigner.column_bucket_assigner()
    with pytest.raises(ValueError, match="there is no column 'city'"):
        Sink(partitioned_sink(tmp_path, "city"), input_type=SALES).write(Row("a", 1, None, None))
    prices = Types.ROW_NAMED(["price", "n"], [Types.DOUBLE(), Types.INT()])
    with pytest.raises(UnsupportedOperationError, match="partition column 'price' cannot be"):
        Sink(partitioned_sink(tmp_path, "price"), input_type=prices).write(Row(1.0, 1))
    with pytest.raises(UnsupportedOperationError, match="needs records with named columns"):
        Sink(partitioned_sink(tmp_path, "n"), input_type=Types.LONG()).write(1)
