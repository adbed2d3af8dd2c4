"""The source operator in checkpoints: all attempts together emit every record exactly once."""

from __future__ import annotations

from collections import deque

import pytest
from operator_fakes import SourceLife, merged, split_elements

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.connector_api.source import (
    AddSplits,
    Boundedness,
    NoMoreSplits,
    ReaderRegistered,
    ReaderStatus,
    RequestSplit,
    SourceBase,
    SourceReader,
)
from flinkpy.connectors.number_sequence import NumberSequenceSource
from flinkpy.records.batch import Batch

NUMBERS = NumberSequenceSource(0, 99)


def start(source, splits=(), restored=None, **arguments):
    life = SourceLife(source, restored, **arguments)
    if splits:
        life.operator.handle_operator_event(AddSplits(tuple(splits)))
    return life


def test_restored_operator_continues_after_any_number_of_batches():
    splits = NUMBERS.split(3)
    for batches in range(16):
        first = start(NUMBERS, splits, batch_rows=7)
        before = first.emit(batches)
        state = first.checkpoint()
        second = start(NUMBERS, restored=state, batch_rows=16)
        after = second.emit()
        assert before + after == list(range(100))


def test_restored_reader_registers_its_checkpoint_and_requests_splits_only_if_it_has_none():
    life = start(NUMBERS, batch_rows=10)
    assert life.sent == [ReaderRegistered(None), RequestSplit()]
    life.operator.handle_operator_event(AddSplits(tuple(NUMBERS.split(1))))
    life.emit(1)
    restored = start(NUMBERS, restored=life.checkpoint(4), restored_id=4)
    assert restored.sent == [ReaderRegistered(4)]
    assert restored.emit()[-1] == 99
    assert restored.sent == [ReaderRegistered(4), RequestSplit()]
    restored.operator.handle_operator_event(NoMoreSplits())
    empty = start(NUMBERS, restored=restored.checkpoint(5), restored_id=5)
    assert empty.sent == [ReaderRegistered(5), RequestSplit()]


def test_checkpoint_does_not_change_the_following_output():
    life = start(NUMBERS, NUMBERS.split(2), batch_rows=9)
    rows = []
    for checkpoint_id in range(1, 8):
        rows += life.emit(1)
        life.checkpoint(checkpoint_id)
    assert rows + life.emit() == list(range(100))


def test_splits_are_distributed_one_by_one_when_the_parallelism_changes():
    life = start(NUMBERS, NUMBERS.split(4), batch_rows=10)
    before = life.emit(1)
    parts = split_elements(life.checkpoint(), "SourceReaderState")
    assert len(parts) == 4
    after = [row for part in parts for row in start(NUMBERS, restored=part).emit()]
    assert sorted(before + after) == list(range(100))
    together = start(NUMBERS, restored=merged(*parts)).emit()
    assert sorted(before + together) == list(range(100))


class LongBatches(SourceBase):
    """A user's source whose reader ignores the maximum size of batches."""

    boundedness = Boundedness.BOUNDED

    def create_enumerator(self, context):
        raise AssertionError("enumerators live in the JobMaster")

    def create_reader(self, context):
        return LongBatchReader()


class LongBatchReader(SourceReader):
    def __init__(self):
        self.splits = deque()
        self.completed = []

    def start(self):
        return

    def poll_batch(self):
        if not self.splits:
            return ReaderStatus.NOTHING_AVAILABLE
        return Batch(self.splits.popleft())

    def add_splits(self, splits):
        self.splits.extend(splits)

    def notify_no_more_splits(self):
        return

    def snapshot_state(self, checkpoint_id):
        return list(self.splits)

    def notify_checkpoint_complete(self, checkpoint_id):
        self.completed.append(checkpoint_id)


def test_checkpoint_holds_the_rest_of_a_batch_that_was_too_long():
    splits = [list(range(100)), list(range(100, 200))]
    for batches in range(23):
        first = start(LongBatches(), splits, batch_rows=9)
        before = first.emit(batches)
        second = start(LongBatches(), restored=first.checkpoint(), batch_rows=11)
        middle = second.emit(1)
        third = start(LongBatches(), restored=second.checkpoint(2), batch_rows=500)
        assert before + middle + third.emit() == list(range(200))


def test_rest_of_a_batch_and_the_splits_after_it_stay_together_when_the_parallelism_changes():
    lives = [start(LongBatches(), [[n] * 20, [n + 1] * 20], batch_rows=3) for n in (0, 10)]
    before = [life.emit(2) for life in lives]
    parts = [part for life in lives for part in split_elements(life.checkpoint(), "SourceReaderState")]
    assert len(parts) == 2
    one = start(LongBatches(), restored=merged(*parts), batch_rows=3)
    some = one.emit(3)
    [part] = split_elements(one.checkpoint(2), "SourceReaderState")
    rest = start(LongBatches(), restored=part).emit()
    rows = before[0] + before[1] + some + rest
    assert sorted(rows) == [0] * 20 + [1] * 20 + [10] * 20 + [11] * 20
    for n in (0, 10):
        assert [row for row in rows if row in (n, n + 1)] == [n] * 20 + [n + 1] * 20


def test_notifications_reach_the_reader():
    life = start(LongBatches())
    life.operator.notify_checkpoint_complete(7)
    life.operator.notify_checkpoint_aborted(8)
    assert life.operator.reader.completed == [7]


def test_reader_without_snapshots_fails_the_checkpoint_with_its_name():
    class NoSnapshots(LongBatches):
        def create_reader(self, context):
            reader = LongBatchReader()
            reader.snapshot_state = lambda checkpoint_id: SourceReader.snapshot_state(reader, checkpoint_id)
            return reader

    with pytest.raises(UnsupportedOperationError, match="LongBatchReader cannot be checkpointed"):
        start(NoSnapshots()).checkpoint()


def test_operator_without_splits_stores_no_state():
    state = start(NUMBERS).checkpoint()
    assert split_elements(state, "SourceReaderState") == []


PAUSED = {"pipeline.sources.pause-until-first-checkpoint": "true"}


def test_source_may_wait_for_the_first_checkpoint_before_it_reads():
    configuration = {**PAUSED, "execution.checkpointing.interval": "1 s"}
    life = start(NUMBERS, NUMBERS.split(1), configuration=configuration)
    assert life.emit() == []
    state = life.checkpoint()
    assert life.emit() == list(range(100))

    restored = start(NUMBERS, restored=state, configuration=configuration)
    assert restored.emit() == []
    restored.checkpoint(2)
    assert restored.emit() == list(range(100))


def test_source_of_a_job_without_checkpoints_waits_for_none():
    assert start(NUMBERS, NUMBERS.split(1), configuration=PAUSED).emit() == list(range(100))
