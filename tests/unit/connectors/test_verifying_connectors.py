"""The correctness of the connectors that verify the guarantees of others."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

from connector_fakes import TestingCoordinatorContext
from operator_fakes import SinkLife, SourceLife, merged

sys.path.insert(0, str(Path(__file__).parents[2] / "integration"))

from verifying.sequence_source import KeySplit, SequencePerKeySource
from verifying.two_phase_sink import CommittedLog, TwoPhaseSink, committed_records

from flinkpy.connector_api.source import AddSplits, NoMoreSplits, ReaderRegistered, RequestSplit
from flinkpy.connector_api.source_coordinator import SourceCoordinator

CHECKPOINTED = {"execution.checkpointing.interval": "1 s"}


def test_restores_at_other_parallelisms_read_the_sequences_exactly_once():
    source = SequencePerKeySource(7, 11)
    context = TestingCoordinatorContext(2)
    coordinator = SourceCoordinator(source, context)
    coordinator.start()
    lives = [SourceLife(source, batch_rows=5, subtask_index=i, parallelism=2) for i in (0, 1)]
    coordinator.subtask_ready(0)
    coordinator.handle_event(0, 0, ReaderRegistered())
    coordinator.handle_event(0, 0, RequestSplit())
    [(_, splits), (_, end)] = context.take_sent()
    lives[0].operator.handle_operator_event(splits)
    lives[0].operator.handle_operator_event(end)
    rows = lives[0].emit(4)
    state = coordinator.checkpoint(1)
    taken = [life.checkpoint(1) for life in lives]
    one = TestingCoordinatorContext(1)
    restored = SourceCoordinator(source, one)
    restored.reset_to_checkpoint(1, state)
    restored.start()
    life = SourceLife(source, merged(*taken), batch_rows=4)
    restored.subtask_ready(0)
    restored.handle_event(0, 0, ReaderRegistered(1))
    assert one.take_sent() == []
    rows += life.emit()
    assert life.sent[-1] == RequestSplit()
    restored.handle_event(0, 0, RequestSplit())
    for _, event in one.take_sent():
        assert isinstance(event, AddSplits | NoMoreSplits)
        life.operator.handle_operator_event(event)
    rows += life.emit()
    assert Counter(rows) == Counter((key, number) for key in range(7) for number in range(11))
    for key in range(7):
        assert [number for k, number in rows if k == key] == list(range(11))


def test_returned_splits_reach_their_owner_after_the_end_was_signalled():
    context = TestingCoordinatorContext(2)
    coordinator = SourceCoordinator(SequencePerKeySource(4, 5), context)
    coordinator.start()
    for subtask in (0, 1):
        coordinator.subtask_ready(subtask)
        coordinator.handle_event(subtask, 0, ReaderRegistered())
        coordinator.handle_event(subtask, 0, RequestSplit())
    context.take_sent()
    coordinator.subtask_reset(0, None)
    coordinator.subtask_ready(0)
    coordinator.handle_event(0, 1, ReaderRegistered())
    coordinator.handle_event(0, 1, RequestSplit())
    assert context.take_sent() == [(0, AddSplits((KeySplit(0), KeySplit(2)))), (0, NoMoreSplits())]


def test_sink_commits_every_record_once_despite_failures(tmp_path):
    sink = TwoPhaseSink(str(tmp_path))
    log = CommittedLog(tmp_path)
    first = SinkLife(sink, configuration=CHECKPOINTED)
    first.write(*((key, 0) for key in range(10)))
    state = first.checkpoint(1)
    assert list(committed_records(tmp_path)) == []
    first.operator.notify_checkpoint_complete(1)
    assert len(log.read_new()) == 7
    first.write((99, 99))
    first.checkpoint(2)
    for attempt in (1, 2):
        again = SinkLife(sink, state, configuration=CHECKPOINTED, attempt_number=attempt)
        assert log.read_new() == []
        again.write((10, 0))
        last = again.checkpoint(3)
    again.operator.finish()
    again.checkpoint(4)
    again.operator.notify_checkpoint_complete(4)
    assert Counter(committed_records(tmp_path)) == Counter((key, 0) for key in range(11))
    SinkLife(sink, last, configuration=CHECKPOINTED)
    assert Counter(committed_records(tmp_path)) == Counter((key, 0) for key in range(11))
