"""The sink operator: a writer and a committer that work in two phases."""

from __future__ import annotations

import pytest
from operator_fakes import SinkLife, merged, split_elements

from flinkpy.common.errors import (
    CommitError,
    CommittablesLostError,
    ErrorRetry,
    FunctionError,
    InternalError,
    UnsupportedOperationError,
)
from flinkpy.connector_api.sink import Committer, SendMetrics, SinkBase, SinkWriter, StatefulSinkWriter
from flinkpy.metrics.metric_registry import read_metric
from flinkpy.records.batch import Batch

CHECKPOINTED = {"execution.checkpointing.interval": "1 s"}


class TwoPhaseSink(SinkBase):
    """Commits to a list. Each call of the committer takes one of `faults`."""

    def __init__(self):
        self.committed = []
        self.calls = []
        self.faults = []
        self.log = []

    def create_writer(self, context):
        return TwoPhaseWriter(self, [])

    def restore_writer(self, context, states):
        return TwoPhaseWriter(self, [row for state in states for row in state])

    def create_committer(self):
        return ListCommitter(self)


class TwoPhaseWriter(StatefulSinkWriter):
    """Hands over the rows written before the last flush, but keeps the odd rows for later."""

    def __init__(self, sink, kept):
        self.sink = sink
        self.kept = kept
        self.ready = []

    def write(self, batch):
        self.kept += batch.values

    def flush(self, end_of_input):
        self.sink.log.append(("flush", end_of_input))
        due = [row for row in self.kept if end_of_input or row % 2 == 0]
        self.kept = [row for row in self.kept if row not in due]
        self.ready += due

    def prepare_commit(self):
        self.sink.log.append("prepare")
        ready, self.ready = self.ready, []
        return ready

    def snapshot_state(self, checkpoint_id):
        self.sink.log.append(("snapshot", checkpoint_id))
        return [list(self.kept)]

    def notify_checkpoint_complete(self, checkpoint_id):
        self.sink.log.append(("complete", checkpoint_id))

    def close(self):
        self.sink.log.append("writer closed")


class ListCommitter(Committer):
    def __init__(self, sink):
        self.sink = sink

    def commit(self, requests):
        self.sink.calls.append([request.get_committable() for request in requests])
        fault = self.sink.faults.pop(0) if self.sink.faults else None
        for request in requests:
            if callable(fault) and fault(request):
                continue
            if isinstance(fault, BaseException):
                raise fault
            if request.get_committable() not in self.sink.committed:
                self.sink.committed.append(request.get_committable())

    def close(self):
        self.sink.log.append("committer closed")


def sink_life(sink=None, restored=None, **arguments):
    return SinkLife(sink or TwoPhaseSink(), restored, configuration=CHECKPOINTED, **arguments)


def test_records_before_the_barrier_are_committed_when_the_checkpoint_completes():
    sink = TwoPhaseSink()
    life = sink_life(sink)
    life.write(2, 3, 4)
    life.checkpoint(1)
    life.write(6)
    assert sink.committed == []
    life.operator.notify_checkpoint_complete(1)
    assert sink.committed == [2, 4]
    assert sink.log == [("flush", False), "prepare", ("snapshot", 1), ("complete", 1)]


def test_late_notification_covers_all_earlier_checkpoints_in_order():
    sink = TwoPhaseSink()
    life = sink_life(sink)
    for checkpoint_id in (1, 2, 3):
        life.write(10 - 2 * checkpoint_id)
        life.checkpoint(checkpoint_id)
    life.operator.notify_checkpoint_aborted(1)
    life.operator.notify_checkpoint_complete(2)
    assert sink.calls == [[8], [6]]
    life.operator.notify_checkpoint_complete(1)
    life.operator.notify_checkpoint_complete(2)
    assert sink.calls == [[8], [6]]
    life.operator.notify_checkpoint_complete(3)
    assert sink.calls == [[8], [6], [4]]


def test_committables_of_a_restored_checkpoint_are_committed_at_once():
    sink = TwoPhaseSink()
    life = sink_life(sink)
    life.write(2)
    life.checkpoint(1)
    life.write(4)
    state = life.checkpoint(2)
    life.write(6)
    life.checkpoint(3)
    restored = TwoPhaseSink()
    again = sink_life(restored, state)
    assert restored.calls == [[2], [4]]
    assert split_elements(again.checkpoint(3), "committables") == []


def test_restored_writer_gets_the_state_assigned_to_it():
    first, second = sink_life(), sink_life()
    first.write(1, 2)
    second.write(3, 4)
    states = [first.checkpoint(1), second.checkpoint(1)]
    sink = TwoPhaseSink()
    one = sink_life(sink, merged(*states))
    assert sorted(one.operator.writer.kept) == [1, 3]
    assert sorted(sink.committed) == [2, 4]
    empty = sink_life(TwoPhaseSink(), merged())
    assert empty.operator.writer.kept == []


def test_final_checkpoint_commits_at_the_end_of_the_input():
    sink = TwoPhaseSink()
    life = sink_life(sink)
    life.write(1, 2, 3)
    life.operator.finish()
    assert sink.committed == []
    life.checkpoint(5)
    life.operator.notify_checkpoint_complete(5)
    assert sink.committed == [1, 2, 3]


@pytest.mark.parametrize(
    "configuration", [{}, {**CHECKPOINTED, "execution.checkpointing.checkpoints-after-tasks-finish": "false"}]
)
def test_end_of_the_input_commits_if_no_checkpoint_follows(configuration):
    sink = TwoPhaseSink()
    life = SinkLife(sink, configuration=configuration)
    life.write(1, 2)
    life.checkpoint(1)
    life.operator.finish()
    assert sink.committed == [2, 1]


def test_restored_finished_task_only_commits():
    life = sink_life()
    life.write(2)
    life.operator.finish()
    state = life.checkpoint(1)
    sink = TwoPhaseSink()
    finished = sink_life(sink, state).operator
    sink.log.clear()
    sink.calls.clear()
    finished = type(finished)(sink, None, finished.context, finished.output, {})
    finished.initialize_state(state)
    finished.commit_restored()
    finished.close()
    assert sink.calls == [[2]]
    assert sink.log == ["committer closed"]


def test_only_the_committables_to_retry_are_committed_again():
    sink = TwoPhaseSink()
    seen = []

    def retry_four(request):
        seen.append(request.get_number_of_retries())
        if request.get_committable() == 4:
            request.retry_later()
            return True
        return False

    sink.faults = [retry_four, retry_four]
    life = sink_life(sink)
    life.write(2, 4, 6)
    life.checkpoint(1)
    life.operator.notify_checkpoint_complete(1)
    assert sink.calls == [[2, 4, 6], [4], [4]]
    assert seen == [0, 0, 0, 1]
    assert sink.committed == [2, 6, 4]


def test_exception_is_retried_as_often_as_configured_and_then_fails_the_task():
    for faults, fails in ((3, False), (4, True)):
        sink = TwoPhaseSink()
        sink.faults = [ConnectionError("no route")] * faults
        life = SinkLife(sink, configuration={**CHECKPOINTED, "sink.committer.retries": "3"})
        life.write(2)
        life.checkpoint(1)
        if not fails:
            life.operator.notify_checkpoint_complete(1)
            assert sink.committed == [2]
            continue
        with pytest.raises(CommitError, match="1 of 1 could not be committed in 3 retries: ConnectionError: no route"):
            life.operator.notify_checkpoint_complete(1)
        assert len(sink.calls) == 4


def test_permanent_error_is_not_retried():
    sink = TwoPhaseSink()
    sink.faults = [UnsupportedOperationError("no such table")]
    life = sink_life(sink)
    life.write(2)
    life.checkpoint(1)
    with pytest.raises(UnsupportedOperationError, match="no such table"):
        life.operator.notify_checkpoint_complete(1)
    assert len(sink.calls) == 1


def test_ten_retries_are_the_default():
    sink = TwoPhaseSink()
    sink.faults = [OSError("down")] * 99
    life = sink_life(sink)
    life.write(2)
    life.checkpoint(1)
    with pytest.raises(CommitError, match="10 retries"):
        life.operator.notify_checkpoint_complete(1)
    assert len(sink.calls) == 11


def test_operator_obeys_the_signals_of_requests(caplog):
    def signal(request):
        match request.get_committable():
            case 2:
                request.signal_failed_with_known_reason(TimeoutError("rolled back"))
            case 4:
                request.signal_already_committed()
            case 6:
                request.update_and_retry_later(8)
            case _:
                return False
        return True

    sink = TwoPhaseSink()
    sink.faults = [signal]
    life = sink_life(sink)
    life.write(2, 4, 6, 10)
    life.checkpoint(1)
    life.operator.notify_checkpoint_complete(1)
    assert sink.committed == [10, 8]
    assert "rolled back" in caplog.text


def test_unknown_reason_fails_the_task_and_keeps_the_committables():
    def fail(request):
        request.signal_failed_with_unknown_reason(LookupError("no such transaction"))
        return True

    sink = TwoPhaseSink()
    sink.faults = [fail]
    life = sink_life(sink)
    life.write(2, 4)
    life.checkpoint(1)
    with pytest.raises(CommitError, match="2 of 2 cannot be committed: LookupError: no such transaction"):
        life.operator.notify_checkpoint_complete(1)
    state = life.checkpoint(2)
    assert len(split_elements(state, "committables")) == 2


@pytest.mark.parametrize("when", ["on notification", "on restore"])
def test_lost_committable_raises_an_error_that_forbids_a_restart(when):
    def fail(request):
        request.signal_failed_with_unknown_reason(CommittablesLostError("it timed out"))
        return True

    sink = TwoPhaseSink()
    life = sink_life(sink)
    life.write(2, 4)
    state = life.checkpoint(1)
    sink.faults = [fail]
    with pytest.raises(
        CommittablesLostError, match=r"checkpoint 1: 2 of 2 cannot be committed: .*it timed out"
    ) as told:
        if when == "on restore":
            sink_life(sink, state)
        else:
            life.operator.notify_checkpoint_complete(1)
    assert told.value.retry is ErrorRetry.NEVER


def test_sink_without_committer_refuses_restored_committables():
    life = sink_life()
    life.write(2)
    state = life.checkpoint(1)

    class OnePhase(SinkBase):
        def create_writer(self, context):
            return OnePhaseWriter()

    class OnePhaseWriter(SinkWriter):
        def write(self, batch):
            return

        def prepare_commit(self):
            raise AssertionError("nobody would commit it")

    plain = sink_life(OnePhase())
    plain.write(1)
    assert list(plain.checkpoint(1).operator) == []
    plain.operator.notify_checkpoint_complete(1)
    plain.operator.finish()
    with pytest.raises(InternalError, match="has no committer"):
        sink_life(OnePhase(), state)


def test_error_of_the_writer_names_the_operator():
    class Failing(TwoPhaseSink):
        def create_writer(self, context):
            writer = super().create_writer(context)
            writer.prepare_commit = lambda: 1 // 0
            return writer

    life = sink_life(Failing())
    with pytest.raises(FunctionError, match="operator operator: ZeroDivisionError"):
        life.operator.prepare_snapshot_pre_barrier(1)


def test_writer_and_committer_are_closed_once_even_if_the_first_close_raises():
    sink = TwoPhaseSink()
    life = sink_life(sink)
    life.operator.close()
    life.operator.close()
    assert sink.log == ["writer closed", "committer closed"]
    life = sink_life(sink)
    life.operator.writer.close = lambda: 1 // 0
    sink.log.clear()
    with pytest.raises(FunctionError):
        life.operator.close()
    assert sink.log == ["committer closed"]


def test_writer_context_tells_how_the_job_takes_checkpoints():
    contexts = []

    class Asking(TwoPhaseSink):
        def create_writer(self, context):
            contexts.append(context)
            return super().create_writer(context)

    for configuration in ({}, CHECKPOINTED, {**CHECKPOINTED, "execution.checkpointing.mode": "AT_LEAST_ONCE"}):
        SinkLife(Asking(), configuration=configuration)
    facts = [(c.is_checkpointing_enabled, c.is_exactly_once, c.waits_for_final_checkpoint) for c in contexts]
    assert facts == [(False, False, False), (True, True, True), (True, False, True)]
    assert contexts[0].restored_checkpoint_id is None


def test_operator_passes_batches_to_the_writer():
    life = sink_life()
    life.operator.process_batch(Batch([1]))
    assert life.operator.num_records == 1


class SendingSink(SinkBase):
    """Writes nothing, and says what it has sent."""

    def __init__(self, sends):
        self.sends = sends

    def create_writer(self, context):
        writer = SendingWriter()
        writer.send_metrics = self.sends
        return writer


class SendingWriter(SinkWriter):
    def write(self, batch):
        if self.send_metrics is not None and self.send_metrics.num_bytes is not None:
            self.send_metrics.num_bytes += 10 * len(batch.values)


@pytest.mark.parametrize(
    ("sends", "expected"),
    [
        (None, {}),
        (SendMetrics(num_bytes=0), {"numBytesSend": 30}),
        (
            SendMetrics(num_bytes=0, num_errors=2, last_send_ms=7),
            {"numBytesSend": 30, "numRecordsSendErrors": 2, "currentSendTime": 7},
        ),
    ],
)
def test_only_facts_that_the_writer_knows_are_metrics(sends, expected):
    life = SinkLife(SendingSink(sends))
    life.write(1, 2, 3)
    metrics = dict(life.context.metrics.metrics())
    names = ("numBytesSend", "numRecordsSendErrors", "currentSendTime")
    assert {name: read_metric(metrics[name]).value for name in names if name in metrics} == expected
    assert ("numBytesSendPerSecond" in metrics) is ("numBytesSend" in expected)
