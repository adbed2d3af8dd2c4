"""FileSink: merging part files before they become visible, and buckets that depend on the records."""

from __future__ import annotations

import os
import threading
from collections import Counter

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_file_sink import ID_NAME, Sink, files_in, hidden, visible

from flinkpy.common.clock import ManualClock
from flinkpy.common.errors import StateRestoreError
from flinkpy.common.serialization import Encoder
from flinkpy.common.types import Row
from flinkpy.connectors.file_compaction import FileCompactor, FileCompactStrategy
from flinkpy.datastream.connectors.file_system import BucketAssigner, FileSink, RollingPolicy
from flinkpy.datastream.formats.avro import AvroBulkWriters, AvroSchema
from flinkpy.datastream.formats.csv import CsvBulkWriters, CsvSchema
from flinkpy.datastream.formats.json import JsonBulkWriters
from flinkpy.datastream.formats.orc import OrcBulkWriters
from flinkpy.datastream.formats.parquet import ParquetBulkWriters
from flinkpy.records.batch import Batch


def every(num_checkpoints, size_threshold=None):
    builder = FileCompactStrategy.builder().enable_compaction_on_checkpoint(num_checkpoints)
    return (builder if size_threshold is None else builder.set_size_threshold(size_threshold)).build()


def compacting(path, strategy=None, compactor=None, assigner=None):
    builder = FileSink.for_row_format(str(path), Encoder.simple_string_encoder())
    builder.with_bucket_assigner(assigner or BucketAssigner.base_path_bucket_assigner())
    builder.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
    return builder.enable_compact(strategy or every(2), compactor or FileCompactor.concat_file_compactor()).build()


def wait_for_merges(sink):
    for merge in sink.writer._compaction._merges:
        merge.done.exception(timeout=30)


def checkpoint(sink, checkpoint_id, *values):
    if values:
        sink.write(*values)
    states = sink.checkpoint(checkpoint_id)
    wait_for_merges(sink)
    return states


def test_files_of_several_checkpoints_become_one(tmp_path):
    sink = Sink(compacting(tmp_path))
    for number, value in enumerate("abcd", 1):
        checkpoint(sink, number, value)
        sink.complete(number)
    # Due at 2, merged by 3; due again at 4.
    assert visible(tmp_path) == [("", "a\nb\n")]
    sink.finish()
    sink.close()
    assert visible(tmp_path) == [("", "a\nb\n"), ("", "c\nd\n")]
    assert hidden(tmp_path) == []


def test_end_of_input_merges_all_files(tmp_path):
    sink = Sink(compacting(tmp_path, every(100)))
    for number, value in enumerate("abc", 1):
        checkpoint(sink, number, value)
        sink.complete(number)
    sink.write("d")
    assert visible(tmp_path) == []
    sink.finish()
    assert visible(tmp_path) == [("", "a\nb\nc\nd\n")]
    assert hidden(tmp_path) == []


def test_bucket_is_merged_at_the_size_threshold(tmp_path):
    strategy = FileCompactStrategy.builder().set_size_threshold(10).build()
    sink = Sink(compacting(tmp_path, strategy))
    checkpoint(sink, 1, "1234567")
    checkpoint(sink, 2)
    assert sink.writer._compaction._merges == []
    checkpoint(sink, 3, "x")
    checkpoint(sink, 4)
    sink.complete(4)
    assert visible(tmp_path) == [("", "1234567\nx\n")]
    sink.close()


def test_files_are_merged_up_to_the_target_size(tmp_path):
    strategy = FileCompactStrategy.builder().enable_compaction_on_checkpoint(100).set_target_size(4).build()
    sink = Sink(compacting(tmp_path, strategy))
    for number, value in enumerate(["a", "b", "ccccc", "d"], 1):
        checkpoint(sink, number, value)
    sink.finish()
    assert sorted(text for _, text in visible(tmp_path)) == ["a\nb\n", "ccccc\n", "d\n"]
    assert hidden(tmp_path) == []


def test_buckets_are_merged_separately(tmp_path):
    class FirstLetter(BucketAssigner):
        def get_bucket_id(self, element, context):
            return element[0]

    sink = Sink(compacting(tmp_path, assigner=FirstLetter()))
    checkpoint(sink, 1, "a1", "b1")
    checkpoint(sink, 2, "a2")
    checkpoint(sink, 3)
    sink.complete(3)
    assert visible(tmp_path) == [("a", "a1\na2\n"), ("b", "b1\n")]
    sink.close()


def test_delimiter_separates_concatenated_files(tmp_path):
    sink = Sink(compacting(tmp_path, compactor=FileCompactor.concat_file_compactor(b"--\n")))
    checkpoint(sink, 1, "a")
    checkpoint(sink, 2, "b")
    checkpoint(sink, 3)
    sink.complete(3)
    assert visible(tmp_path) == [("", "a\n--\nb\n")]
    sink.close()


def test_identical_compactor_delays_files_without_merging(tmp_path):
    sink = Sink(compacting(tmp_path, compactor=FileCompactor.identical_file_compactor()))
    checkpoint(sink, 1, "a")
    sink.complete(1)
    assert visible(tmp_path) == []
    checkpoint(sink, 2, "b")
    sink.complete(2)
    assert visible(tmp_path) == [("", "a\n"), ("", "b\n")]
    sink.close()


def test_parquet_files_are_merged_by_row_groups(tmp_path):
    builder = FileSink.for_bulk_format(str(tmp_path), ParquetBulkWriters.for_row_type(ID_NAME))
    builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
    sink = Sink(builder.enable_compact(every(2), FileCompactor.parquet_file_compactor()).build(), input_type=ID_NAME)
    checkpoint(sink, 1, Row(1, "a"))
    checkpoint(sink, 2, Row(2, None))
    sink.finish()
    sink.close()
    [name] = files_in(tmp_path)
    assert pq.read_table(tmp_path / name).to_pylist() == [{"id": 1, "name": "a"}, {"id": 2, "name": None}]


def test_formats_with_a_header_or_footer_cannot_be_concatenated(tmp_path):
    schema = AvroSchema.parse_string('{"type": "record", "name": "r", "fields": [{"name": "a", "type": "int"}]}')
    columns = CsvSchema.builder().add_string_column("a")
    joinable = {
        ParquetBulkWriters.for_row_type(ID_NAME): False,
        OrcBulkWriters.for_row_type(ID_NAME): False,
        AvroBulkWriters.for_generic_record(schema): False,
        CsvBulkWriters.for_schema(columns.build()): True,
        CsvBulkWriters.for_schema(columns.set_use_header().build()): False,
        JsonBulkWriters.for_row_type(ID_NAME): True,
    }
    for factory, is_joinable in joinable.items():
        builder = FileSink.for_bulk_format(str(tmp_path), factory)
        if is_joinable:
            builder.enable_compact(every(1), FileCompactor.concat_file_compactor())
        else:
            with pytest.raises(ValueError, match="cannot be concatenated"):
                builder.enable_compact(every(1), FileCompactor.concat_file_compactor())


def test_invalid_strategies_are_refused(tmp_path):
    for call in (
        lambda: FileCompactStrategy.builder().build(),
        lambda: FileCompactStrategy.builder().enable_compaction_on_checkpoint(0),
        lambda: FileCompactStrategy.builder().set_size_threshold(-1),
        lambda: FileCompactStrategy.builder().set_num_compact_threads(0),
    ):
        with pytest.raises(ValueError):
            call()
    builder = FileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder())
    with pytest.raises(TypeError, match="FileCompactor"):
        builder.enable_compact(every(1), None)
    strategy = (
        FileCompactStrategy.builder()
        .enable_compaction_on_checkpoint(3)
        .set_size_threshold(1024)
        .set_num_compact_threads(2)
        .build()
    )
    assert (strategy.num_checkpoints_before_compaction, strategy.size_threshold) == (3, 1024)
    assert strategy.num_compact_threads == 2


class Waiting(FileCompactor):
    """Merges when it is told to."""

    may_go_on = threading.Event()

    def compact(self, paths, output):
        assert self.may_go_on.wait(30)
        FileCompactor.concat_file_compactor().compact(paths, output)


def test_merging_does_not_delay_a_checkpoint(tmp_path):
    Waiting.may_go_on.clear()
    sink = Sink(compacting(tmp_path, compactor=Waiting()))
    sink.write("a")
    sink.checkpoint(1)
    sink.write("b")
    sink.checkpoint(2)
    [state] = sink.checkpoint(3)
    sink.complete(3)
    assert visible(tmp_path) == []
    assert len(state.to_compact) == 2
    assert len(state.compacting) == 1
    Waiting.may_go_on.set()
    checkpoint(sink, 4)
    checkpoint(sink, 5)
    sink.complete(5)
    assert visible(tmp_path) == [("", "a\nb\n")]
    sink.close()


def test_interrupted_merge_is_repeated_after_a_failure(tmp_path):
    Waiting.may_go_on.clear()
    sink = Sink(compacting(tmp_path, compactor=Waiting()))
    sink.write("a")
    sink.checkpoint(1)
    sink.write("b")
    states = sink.checkpoint(2)
    assert len(hidden(tmp_path)) == 3
    Waiting.may_go_on.set()
    sink.close()
    assert len(hidden(tmp_path)) == 2
    again = Sink(compacting(tmp_path), states=states, attempt_number=1)
    checkpoint(again, 3)
    checkpoint(again, 4)
    checkpoint(again, 5)
    again.complete(5)
    assert visible(tmp_path) == [("", "a\nb\n")]
    assert hidden(tmp_path) == []
    again.close()


def test_without_compaction_restored_files_are_committed_as_they_are(tmp_path):
    sink = Sink(compacting(tmp_path, every(9)))
    checkpoint(sink, 1, "a")
    states = checkpoint(sink, 2, "b")
    sink.close()
    builder = FileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder()).disable_compact()
    plain = builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build()
    again = Sink(plain, states=states, attempt_number=1)
    again.close()
    assert len(hidden(tmp_path)) == 2, "a checkpoint has them"
    again = Sink(plain, states=states, attempt_number=2)
    again.checkpoint(3)
    again.complete(3)
    assert visible(tmp_path) == [("", "a\n"), ("", "b\n")]
    again.close()


def test_another_job_merges_copies(tmp_path):
    sink = Sink(compacting(tmp_path, every(9)))
    checkpoint(sink, 1, "a")
    states = checkpoint(sink, 2, "b")
    other = Sink(compacting(tmp_path, every(1)), states=states, job_id="fedcba9876543210")
    checkpoint(other, 3)
    checkpoint(other, 4)
    other.complete(4)
    assert visible(tmp_path) == [("", "a\nb\n")]
    sink.finish()
    assert visible(tmp_path) == [("", "a\nb\n"), ("", "a\nb\n")]
    other.close()
    sink.close()


def test_state_does_not_grow(tmp_path):
    sink = Sink(compacting(tmp_path))
    for number in range(1, 20):
        checkpoint(sink, number, "a")
        sink.complete(number)
        assert len(sink.writer._in_snapshot) <= 3
    sink.close()


def test_error_names_a_missing_part(tmp_path):
    sink = Sink(compacting(tmp_path, every(9)))
    states = checkpoint(sink, 1, "a")
    [name] = hidden(tmp_path)
    sink.close()
    os.unlink(tmp_path / name)
    with pytest.raises(StateRestoreError, match=name.replace(".", r"\.")):
        Sink(compacting(tmp_path), states=states, attempt_number=1)


class Failing(FileCompactor):
    def compact(self, paths, output):
        raise OSError(28, "No space left on device")


def test_a_failed_merge_fails_the_task_and_loses_nothing(tmp_path):
    sink = Sink(compacting(tmp_path, compactor=Failing()))
    checkpoint(sink, 1, "a")
    states = checkpoint(sink, 2, "b")
    with pytest.raises(OSError, match="No space"):
        sink.checkpoint(3)
    sink.close()
    again = Sink(compacting(tmp_path), states=states, attempt_number=1)
    again.finish()
    assert visible(tmp_path) == [("", "a\nb\n")]
    assert hidden(tmp_path) == []
    again.close()


@settings(deadline=None, max_examples=40)
@given(
    steps=st.lists(
        st.tuples(
            st.integers(0, 3),
            st.sampled_from(["complete", "lost notification", "aborted", "crash", "crash before the commit"]),
        ),
        min_size=1,
        max_size=12,
    ),
    interval=st.integers(1, 4),
)
def test_every_record_is_visible_exactly_once_despite_failures(tmp_path_factory, steps, interval):
    tmp_path = tmp_path_factory.mktemp("sink")
    sink = Sink(compacting(tmp_path, every(interval)))
    attempt = 0
    #: The state in the last completed checkpoint.
    states, committables, kept = None, [], []
    written = []
    number = 0
    for checkpoint_id, (num_records, outcome) in enumerate(steps, 1):
        for _ in range(num_records):
            number += 1
            sink.write(str(number))
            written.append(number)
        taken = checkpoint(sink, checkpoint_id)
        if outcome != "aborted" and outcome != "crash":
            states, kept = taken, list(written)
            committables = sink.pending.items()
            if outcome == "complete":
                sink.complete(checkpoint_id)
        if outcome.startswith("crash"):
            sink.close()
            attempt += 1
            sink = Sink(compacting(tmp_path, every(interval)), states=states, attempt_number=attempt)
            for known, committable in committables:
                sink.pending.add(known, [committable])
            sink.complete(checkpoint_id)
            written = list(kept)
    sink.finish()
    sink.close()
    lines = [line for _, text in visible(tmp_path) for line in text.splitlines()]
    assert Counter(map(int, lines)) == Counter(written)
    assert hidden(tmp_path) == []


class Hourly(BucketAssigner):
    """Buckets records by their time, or by processing time if they have none."""

    def get_bucket_id(self, element, context):
        if context.timestamp() is None:
            return f"now={context.current_processing_time()}/watermark={context.current_watermark()}"
        return f"hour={context.timestamp() // 3_600_000}"


def bucketed(path, assigner):
    builder = FileSink.for_row_format(str(path), Encoder.simple_string_encoder())
    return builder.with_bucket_assigner(assigner).build()


def test_own_bucket_assigner_sees_timestamps_and_watermark(tmp_path):
    import numpy as np

    sink = Sink(bucketed(tmp_path, Hourly()), ManualClock(77))
    hour = 3_600_000
    sink.writer.write(Batch(["a", "b", "c", "d"], np.array([hour, 2 * hour, hour + 1, 2 * hour + 1], np.int64)))
    sink.writer.write_watermark(5)
    sink.writer.write(Batch(["e"]))
    sink.finish()
    sink.close()
    assert visible(tmp_path) == [("hour=1", "a\nc\n"), ("hour=2", "b\nd\n"), ("now=77/watermark=5", "e\n")]


@pytest.mark.parametrize("bucket", ["../out", "a//b", "/a", None, 7, "a\0"])
def test_a_bucket_outside_of_the_sink_is_refused(tmp_path, bucket):
    class Bad(BucketAssigner):
        def get_bucket_id(self, element, context):
            return bucket

    sink = Sink(bucketed(tmp_path, Bad()))
    with pytest.raises(ValueError, match="a bucket must be directory names"):
        sink.write("a")
    sink.close()


def test_own_rolling_policy_is_used(tmp_path):
    class Small(RollingPolicy):
        def should_roll(self, size_bytes, created_ms, last_write_ms, now_ms):
            return size_bytes >= 4

    builder = FileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder())
    builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
    sink = Sink(builder.with_rolling_policy(Small()).build())
    for value in "abcde":
        sink.write(value)
    sink.finish()
    sink.close()
    assert visible(tmp_path) == [("", "a\nb\n"), ("", "c\nd\n"), ("", "e\n")]
