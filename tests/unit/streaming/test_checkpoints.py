"""Checkpoints of whole tasks: barriers, snapshots, restores, and the end of tasks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from streaming_fakes import (
    WRITTEN,
    FakeInputGate,
    FakeResultPartition,
    FakeTaskEnvironment,
    FakeTaskStateManager,
    ListSink,
    ListSource,
    make_vertex,
)

from flinkpy._proto import checkpoint_pb2
from flinkpy.common.checkpoint_failure_reason import CheckpointFailureReason, failure_reason
from flinkpy.common.clock import ManualClock
from flinkpy.common.configuration import Configuration
from flinkpy.common.errors import CheckpointError, FunctionError, StateRestoreError
from flinkpy.common.typeinfo import Types
from flinkpy.connector_api.sink import Committer, SinkWriter
from flinkpy.datastream.checkpointed_function import CheckpointedFunction, CheckpointListener
from flinkpy.datastream.functions import KeyedProcessFunction, KeySelector, MapFunction, MapFunctionWrapper
from flinkpy.datastream.state import ListStateDescriptor, ValueStateDescriptor
from flinkpy.graph import operator_specs as specs
from flinkpy.network.channel_state import write_channel_state
from flinkpy.records.batch import Batch
from flinkpy.records.elements import (
    MAX_WATERMARK,
    CancelCheckpointMarker,
    CheckpointBarrier,
    EndOfData,
    EndOfPartition,
    Watermark,
)
from flinkpy.streaming.io.checkpointing.barrier_handler import alignment_of
from flinkpy.streaming.mailbox.task_mailbox import TaskMailbox
from flinkpy.streaming.tasks import CancelTaskError, StreamTask, StreamTaskState, create_stream_task

ALIGNED = checkpoint_pb2.ALIGNED
UNALIGNED = checkpoint_pb2.UNALIGNED
WITH_CHECKPOINTS = {"execution.checkpointing.interval": "1 s"}

#: The actions of `Do` objects in sources and gates. They are not pickled with them.
HOOKS: dict[str, Callable[[], Any]] = {}
EVENTS: list[Any] = []


@pytest.fixture(autouse=True)
def _clean():
    HOOKS.clear()
    EVENTS.clear()
    WRITTEN.clear()


@dataclass
class Do:
    name: str

    def __call__(self) -> None:
        HOOKS[self.name]()


def options(alignment=ALIGNED, kind=checkpoint_pb2.CHECKPOINT, timeout_ms=0):
    return checkpoint_pb2.CheckpointOptions(alignment=alignment, kind=kind, aligned_timeout_ms=timeout_ms)


def barrier(checkpoint_id, alignment=ALIGNED, **more):
    return CheckpointBarrier(checkpoint_id, 1_000, options(alignment, **more))


class Summing(MapFunction, CheckpointedFunction, CheckpointListener):
    """Emits running sums. The sum is a list state."""

    def __init__(self, name: str = "sum", fails: str = "") -> None:
        self.name = name
        self.fails = fails
        self.sum = 0

    def initialize_state(self, context):
        if self.fails == "initialize_state":
            raise ValueError("no start")
        self.state = context.get_operator_state_store().get_list_state(ListStateDescriptor(self.name, Types.LONG()))
        self.sum = sum(self.state.get())
        EVENTS.append((self.name, "restored" if context.is_restored() else "new", context.get_restored_checkpoint_id()))

    def open(self, runtime_context):
        EVENTS.append((self.name, "open"))

    def map(self, value):
        self.sum += value
        return self.sum

    def snapshot_state(self, context):
        if self.fails == "snapshot_state":
            raise ValueError("no snapshot")
        EVENTS.append((self.name, "snapshot", context.get_checkpoint_id(), context.get_checkpoint_timestamp()))
        self.state.update([self.sum])

    def notify_checkpoint_complete(self, checkpoint_id):
        if self.fails == "complete":
            raise ValueError("no commit")
        EVENTS.append((self.name, "complete", checkpoint_id))

    def notify_checkpoint_aborted(self, checkpoint_id):
        EVENTS.append((self.name, "aborted", checkpoint_id))


def summing(name="sum", fails=""):
    return specs.MapSpec(Summing(name, fails))


class Parity(KeySelector):
    def get_key(self, value):
        return value % 2


class CountAndRemind(KeyedProcessFunction):
    """Counts per key. A record registers an event-time timer and, from 100 on, a processing-time timer."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        ctx.timer_service().register_event_time_timer(50)
        if value >= 100:
            ctx.timer_service().register_processing_time_timer(value)
        yield (ctx.get_current_key(), count)

    def on_timer(self, timestamp, ctx):
        yield (ctx.time_domain().name, timestamp, ctx.get_current_key(), self.count.value())


def counting():
    return specs.KeyedProcessSpec(Parity(), CountAndRemind())


def source(*batches):
    return specs.SourceSpec(ListSource(list(batches)))


class Run:
    """A task with its environment. `restored` is the (snapshot, files) of an earlier task."""

    def __init__(
        self,
        chain,
        *,
        gates=(),
        results=0,
        restored=None,
        configuration=None,
        partitioners=(),
        results_as=(),
        **environment,
    ):
        vertex = make_vertex(chain, results=results, inputs=len(gates))
        for edge, name in zip(vertex.inputs, partitioners):
            edge.partitioner_name = name
        for result, name in zip(vertex.results, results_as):
            result.partitioner_name = name
        snapshot, files = restored or (None, None)
        self.state = FakeTaskStateManager(snapshot, files=files)
        self.clock = ManualClock(1_000)
        self.partitions = [FakeResultPartition() for _ in range(results)]
        self.env = FakeTaskEnvironment(
            vertex,
            input_gates=[(0, n, gate) for n, gate in enumerate(gates)],
            result_partitions=self.partitions,
            state=self.state,
            clock=self.clock,
            configuration=Configuration.from_dict(configuration or {}),
            **environment,
        )
        self.task: StreamTask = create_stream_task(self.env)

    def trigger(self, checkpoint_id, alignment=ALIGNED, **more):
        return lambda: self.task.trigger_checkpoint(checkpoint_id, 1_000, options(alignment, **more))

    def complete(self, checkpoint_id):
        return lambda: self.task.notify_checkpoint_complete(checkpoint_id)

    def abort(self, checkpoint_id, latest=0):
        return lambda: self.task.notify_checkpoint_aborted(checkpoint_id, latest)

    def invoke(self):
        self.task.invoke()
        return self

    def snapshot(self, checkpoint_id):
        return self.state.acknowledged[checkpoint_id][1], self.state.files

    @property
    def rows(self):
        return self.partitions[0].rows()

    @property
    def elements(self):
        return self.partitions[0].elements()

    @property
    def stream(self):
        """Returns the rows and elements of the first channel in order, and the ids of barriers."""
        out: list[Any] = []
        for item in self.partitions[0].items[0]:
            if isinstance(item, Batch):
                out.extend(item.values)
            elif isinstance(item, CheckpointBarrier):
                out.append(f"barrier {item.checkpoint_id}")
            elif not isinstance(item, EndOfData | EndOfPartition | Watermark):
                out.append(item)
        return out


def gate_of(*items, channels=1, ends=True):
    """Returns a gate with the items: (channel, item), or an item of channel 0."""
    gate = FakeInputGate(channels)
    for item in items:
        gate.put(*item) if isinstance(item, tuple) else gate.put(0, item)
    if ends:
        for end in (EndOfData(), EndOfPartition()):
            for channel in range(channels):
                gate.put(channel, end)
    return gate


# -- checkpoints and restores ---------------------------------------------------------------------------------------


def test_source_task_restores_the_checkpoint_of_another():
    run = Run([source([1, 2], Do("trigger"), [3, 4]), summing()], results=1)
    HOOKS["trigger"] = run.trigger(5)
    run.invoke()

    assert run.stream == [1, 3, "barrier 5", 6, 10]
    metrics, snapshot = run.state.acknowledged[5]
    assert set(snapshot.operators) == {"op0", "op1"}
    assert not snapshot.is_finished
    assert metrics.state_size_bytes == metrics.bytes_persisted > 0
    assert EVENTS == [("sum", "new", None), ("sum", "open"), ("sum", "snapshot", 5, 1_000)]

    EVENTS.clear()
    again = Run([source(), summing()], results=1, restored=run.snapshot(5)).invoke()

    assert again.rows == [6, 10]
    assert EVENTS[0] == ("sum", "restored", 1)


def test_keyed_task_restores_its_state_and_timers():
    first = gate_of(Batch([1, 2, 3]), (1, barrier(7)), (1, Batch([5])), barrier(7), Batch([7]), channels=2)
    run = Run([counting()], gates=[first], results=1).invoke()

    assert run.stream == [(1, 1), (0, 1), (1, 2), "barrier 7", (1, 3), (1, 4)]
    assert run.state.acknowledged[7][0].alignment_duration_ns >= 0

    second = gate_of(Batch([9, 10_000]), Watermark(60))
    again = Run([counting()], gates=[second], results=1, restored=run.snapshot(7)).invoke()

    assert again.rows[:2] == [(1, 3), (0, 2)]
    # Timers with the same time have no defined order.
    assert sorted(again.rows[2:]) == [("EVENT_TIME", 50, 0, 2), ("EVENT_TIME", 50, 1, 3)]


def test_restored_processing_time_timers_fire_and_overdue_ones_fire_at_once():
    run = Run([counting()], gates=[gate_of(Batch([2_000, 3_001]), barrier(1))], results=1).invoke()
    gate = gate_of(Do("later"), Batch([4]))
    again = Run([counting()], gates=[gate], results=1, restored=run.snapshot(1))
    again.clock.advance(1_500)
    HOOKS["later"] = lambda: again.clock.advance(1_000)
    again.invoke()

    assert again.rows[0] == ("PROCESSING_TIME", 2_000, 0, 1)
    assert ("PROCESSING_TIME", 3_001, 1, 1) in again.rows


def test_task_processes_records_while_an_unchanged_snapshot_is_written():
    run = Run([counting()], gates=[gate_of(Batch([1]), barrier(1), Batch([1, 1]), Do("write"), Batch([1]))], results=1)
    run.state.io_executor.is_held = True

    def write():
        run.task.chain.flush()
        assert run.rows == [(1, 1), (1, 2), (1, 3)]
        assert run.state.acknowledged == {}
        run.state.io_executor.is_held = False
        run.state.io_executor.run_all()

    HOOKS["write"] = write
    run.invoke()

    again = Run([counting()], gates=[gate_of(Batch([1]))], results=1, restored=run.snapshot(1)).invoke()
    assert again.rows == [(1, 2)]


def test_fused_functions_have_separate_states():
    run = Run([source([1, 2], Do("trigger"), [3]), summing("a"), summing("b")], results=1)
    HOOKS["trigger"] = run.trigger(1)
    run.invoke()

    assert run.rows == [1, 4, 10]
    snapshot, files = run.snapshot(1)
    assert set(snapshot.operators) == {"op0", "op1", "op2"}
    assert Run([source(), summing("a"), summing("b")], results=1, restored=(snapshot, files)).invoke().rows == [10]


def test_checkpoints_keep_state_that_a_function_no_longer_uses():
    run = Run([source([1, 2], Do("trigger"), [3]), summing()], results=1)
    HOOKS["trigger"] = run.trigger(1)
    run.invoke()
    plain = specs.MapSpec(MapFunctionWrapper(lambda value: value))
    second = Run([source(Do("trigger")), plain], results=1, restored=run.snapshot(1))
    HOOKS["trigger"] = second.trigger(2)
    second.invoke()

    third = Run([source(), summing()], results=1, restored=second.snapshot(2)).invoke()

    assert third.rows == [6]


def test_checkpoints_contain_column_aggregates():
    aggregates = (specs.ColumnAggregate("n", "COUNT"), specs.ColumnAggregate("total", "SUM", "v"))

    def chain(emit):
        return [specs.ColumnAggregateSpec(specs.FieldKeySelector(("k",)), aggregates, emit)]

    def rows(keys, values):
        return Batch(pa.RecordBatch.from_pydict({"k": keys, "v": values}))

    for emit in ("UPDATES", "FINAL"):
        gate = gate_of(rows(["a", "b"], [1, 2]), barrier(1))
        run = Run(chain(emit), gates=[gate], results=1).invoke()
        # The task emits the restored results even without another record.
        items = [rows(["a"], [5])] if emit == "UPDATES" else []
        again = Run(chain(emit), gates=[gate_of(*items)], results=1, restored=run.snapshot(1)).invoke()
        expected = [("a", 2, 6)] if emit == "UPDATES" else [("a", 1, 1), ("b", 1, 2)]
        assert sorted(again.rows) == expected


def test_restored_task_does_not_emit_its_final_results_again():
    aggregates = (specs.ColumnAggregate("n", "COUNT"),)
    chain = [specs.ColumnAggregateSpec(specs.FieldKeySelector(("k",)), aggregates, "FINAL")]
    batch = Batch(pa.RecordBatch.from_pydict({"k": ["a"]}))
    gate = gate_of(batch, EndOfData(), barrier(1), Do("complete"), EndOfPartition(), ends=False)
    run = Run(chain, gates=[gate], results=1, configuration=WITH_CHECKPOINTS)
    HOOKS["complete"] = run.complete(1)
    run.invoke()
    assert run.rows == [("a", 1)]

    snapshot, files = run.snapshot(1)
    assert snapshot.is_finished
    snapshot.is_finished = False

    assert Run(chain, gates=[gate_of()], results=1, restored=(snapshot, files)).invoke().rows == []


# -- failures, aborts, notifications --------------------------------------------------------------------------------


def test_failed_asynchronous_phase_declines_and_the_task_continues():
    run = Run([counting()], gates=[gate_of(Batch([1]), barrier(1), Batch([1]), barrier(2))], results=1)
    run.state.files.fails_after = 0

    def repair():
        run.state.files.fails_after = None

    run.state.decline = lambda checkpoint_id, error: (  # type: ignore[method-assign]
        run.state.declined.append((checkpoint_id, error)),
        repair(),
    )
    run.invoke()

    ((checkpoint_id, error),) = run.state.declined
    assert checkpoint_id == 1
    assert failure_reason(error) is CheckpointFailureReason.CHECKPOINT_ASYNC_EXCEPTION
    assert "the disk is full" in str(error)
    assert list(run.state.acknowledged) == [2]
    assert run.state.files.open_streams == []
    assert run.rows == [(1, 1), (1, 2)]


@pytest.mark.parametrize("fails", ["initialize_state", "snapshot_state", "complete"])
def test_error_of_a_checkpoint_method_fails_the_task_and_names_the_method(fails):
    run = Run([source([1], Do("trigger"), Do("complete"), [2]), summing(fails=fails)], results=1)
    HOOKS["trigger"], HOOKS["complete"] = run.trigger(1), run.complete(1)

    with pytest.raises(FunctionError, match=r"operator MapSpec-1: Summing\.\w+: ValueError: no \w+"):
        run.invoke()

    assert run.task.state is StreamTaskState.FAILED


def test_abort_stops_the_writing_and_prevents_the_report():
    gate = gate_of(Batch([1]), barrier(1), Do("abort"), Batch([1]), Do("write"), Batch([1]))
    run = Run([summing()], gates=[gate], results=1)
    run.state.io_executor.is_held = True
    HOOKS["abort"], HOOKS["write"] = run.abort(1), run.state.io_executor.run_all
    run.invoke()

    assert run.state.acknowledged == {}
    assert run.state.declined == []
    assert run.state.aborted == [1]
    assert ("sum", "aborted", 1) in EVENTS
    assert run.stream == [1, "barrier 1", 2, 3]


def test_abort_before_the_trigger_cancels_the_checkpoint_downstream():
    run = Run([source([1], Do("abort"), [2], Do("trigger"), [3], Do("next"), [4]), summing()], results=1)
    HOOKS["abort"], HOOKS["trigger"], HOOKS["next"] = run.abort(3), run.trigger(3), run.trigger(4)
    run.invoke()

    assert run.stream == [1, CancelCheckpointMarker(3), 3, 6, "barrier 4", 10]
    assert list(run.state.acknowledged) == [4]
    assert run.state.declined == []


def test_task_declines_and_forwards_a_cancel_marker():
    gate = gate_of(barrier(1), Batch([1]), (1, CancelCheckpointMarker(1)), (1, Batch([2])), channels=2)
    run = Run([summing()], gates=[gate], results=1).invoke()

    ((checkpoint_id, error),) = run.state.declined
    assert (checkpoint_id, failure_reason(error)) == (
        1,
        CheckpointFailureReason.CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER,
    )
    assert run.stream[0] == CancelCheckpointMarker(1)
    assert sorted(run.stream[1:]) == [1, 3]


def test_operators_learn_of_a_completion_once_even_if_messages_repeat_or_are_lost():
    run = Run([source([1], *map(Do, "abcde"), [2]), summing()], results=1)
    HOOKS["a"], HOOKS["b"], HOOKS["c"] = run.complete(4), run.complete(4), run.complete(3)
    HOOKS["d"] = run.abort(8, latest=7)
    HOOKS["e"] = run.complete(7)
    run.invoke()

    assert [event for event in EVENTS if event[1] in ("complete", "aborted")] == [
        ("sum", "complete", 4),
        ("sum", "complete", 7),
        ("sum", "aborted", 8),
    ]
    assert run.state.completed == [4, 7]


def test_ended_task_refuses_a_trigger():
    """It declines nothing, because the report of its end may be on its way already."""
    run = Run([source([1])], results=1).invoke()
    with pytest.raises(CheckpointError, match="A task was closing") as caught:
        run.task.trigger_checkpoint(9, 1_000, options())

    assert failure_reason(caught.value) is CheckpointFailureReason.CHECKPOINT_DECLINED_TASK_CLOSING
    assert run.state.declined == []


def test_each_trigger_of_an_ending_task_is_either_declined_or_refused(monkeypatch):
    run = Run([source([1])], results=1)
    close = TaskMailbox.close
    refused = []

    def trigger_close_and_trigger(mailbox):
        run.trigger(8)()
        close(mailbox)
        try:
            run.trigger(9)()
        except CheckpointError as error:
            refused.append(failure_reason(error))

    monkeypatch.setattr(TaskMailbox, "close", trigger_close_and_trigger)
    run.invoke()

    assert [checkpoint_id for checkpoint_id, _ in run.state.declined] == [8]
    assert refused == [CheckpointFailureReason.CHECKPOINT_DECLINED_TASK_CLOSING]


def test_task_that_ends_declines_a_trigger_in_its_mailbox(monkeypatch):
    """The coordinator would otherwise wait for the answer of a task that has ended."""
    run = Run([source([1])], results=1)
    close = TaskMailbox.close

    def trigger_and_close(mailbox):
        run.trigger(9)()
        return close(mailbox)

    monkeypatch.setattr(TaskMailbox, "close", trigger_and_close)
    run.invoke()

    ((checkpoint_id, error),) = run.state.declined
    assert checkpoint_id == 9
    assert failure_reason(error) is CheckpointFailureReason.CHECKPOINT_DECLINED_TASK_CLOSING
    assert run.state.acknowledged == {}


def test_cancelled_task_waits_for_the_writers_of_its_state():
    run = Run([counting()], gates=[gate_of(Batch([1]), barrier(1), Do("cancel"), ends=False)], results=1)
    run.state.io_executor.is_held = True
    HOOKS["cancel"] = run.task.cancel

    with pytest.raises(CancelTaskError):
        run.invoke()

    run.state.io_executor.run_all()
    assert run.state.acknowledged == {}
    assert run.state.declined == []


def test_trigger_does_not_overtake_an_operator_event():
    from flinkpy.connector_api.source import AddSplits

    run = Run([source([1], Do("events"), [2]), summing()], results=1)

    def send():
        run.task.dispatch_operator_event("op0", AddSplits(([10],)))
        run.task.trigger_checkpoint(1, 1_000, options())

    HOOKS["events"] = send
    run.invoke()

    assert run.rows == [1, 3, 13]
    assert Run([source(), summing()], results=1, restored=run.snapshot(1)).invoke().rows == [3, 13]


# -- the end of bounded inputs --------------------------------------------------------------------------------------


def test_task_waits_until_a_checkpoint_contains_its_end():
    run = Run([source([1], Do("early"), [2]), summing()], results=1, configuration=WITH_CHECKPOINTS)
    HOOKS["early"] = run.trigger(1)

    def on_end_of_data():
        assert run.elements[-1] == EndOfData()
        run.complete(1)()
        run.trigger(2)()
        run.abort(2, latest=1)()
        run.trigger(3)()
        run.complete(3)()

    run.env.notify_end_of_data = on_end_of_data  # type: ignore[method-assign]
    run.invoke()

    assert run.elements[-1] == EndOfPartition()
    assert [e.checkpoint_id for e in run.elements if isinstance(e, CheckpointBarrier)] == [1, 2, 3]
    assert not run.state.acknowledged[1][1].is_finished
    assert ("sum", "complete", 3) in EVENTS


def test_finished_task_with_committables_is_not_restored_as_finished():
    run = Run([source([1]), summing()], results=1, configuration=WITH_CHECKPOINTS)

    def on_end_of_data():
        run.trigger(1)()
        run.complete(1)()

    run.env.notify_end_of_data = on_end_of_data  # type: ignore[method-assign]
    run.invoke()

    # The list state of a function may be, for example, a transaction to commit.
    snapshot = run.state.acknowledged[1][1]
    assert not snapshot.is_finished
    assert snapshot.has_reached_end, "the JobMaster must be told of the end"


def test_task_handles_barriers_while_it_waits_at_its_end():
    first, second = FakeInputGate(1), FakeInputGate(1)
    for item in (Batch([1]), EndOfData(), barrier(4), Do("complete"), EndOfPartition()):
        first.put(0, item)
    for item in (Batch([2]), EndOfData(), barrier(4), EndOfPartition()):
        second.put(0, item)
    run = Run(
        [specs.MapSpec(MapFunctionWrapper(lambda v: v))],
        gates=[first, second],
        results=1,
        configuration=WITH_CHECKPOINTS,
    )
    HOOKS["complete"] = run.complete(4)
    run.invoke()

    assert run.env.ends_of_data == 1
    assert run.state.acknowledged[4][1].is_finished
    assert run.stream == [1, 2, "barrier 4"]


def test_task_does_not_wait_if_checkpoints_are_disabled():
    run = Run([source([1]), summing()], results=1).invoke()
    off = {**WITH_CHECKPOINTS, "execution.checkpointing.checkpoints-after-tasks-finish": "false"}
    other = Run([source([1]), summing()], results=1, configuration=off).invoke()

    assert run.env.ends_of_data == other.env.ends_of_data == 0
    assert run.elements[-1] == other.elements[-1] == EndOfPartition()


def test_task_restored_as_finished_only_forwards_the_ends():
    finished = checkpoint_pb2.TaskStateSnapshot(is_finished=True)
    run = Run([source([1, 2]), summing()], results=1, restored=(finished, None), configuration=WITH_CHECKPOINTS)
    run.invoke()

    assert run.elements == [Watermark(MAX_WATERMARK), EndOfData(), EndOfPartition()]
    assert (run.rows, EVENTS, run.env.ends_of_data) == ([], [], 0)

    gate = gate_of(barrier(2), Watermark(MAX_WATERMARK))
    below = Run([summing(), specs.SinkSpec(ListSink("out"))], gates=[gate], restored=(finished, None)).invoke()
    assert below.state.acknowledged[2][1].is_finished
    assert (EVENTS, WRITTEN) == ([], {})


class Committing(ListSink):
    """A sink whose writer returns its records as committables. Its committer adds them to WRITTEN."""

    def create_writer(self, context):
        return CommittingWriter()

    def create_committer(self):
        return ListCommitter(self.name)


class CommittingWriter(SinkWriter):
    def __init__(self):
        self.rows: list[Any] = []

    def write(self, batch):
        self.rows.extend(batch.values)

    def prepare_commit(self):
        rows, self.rows = self.rows, []
        return rows


class ListCommitter(Committer):
    def __init__(self, name):
        self.log = WRITTEN.setdefault(name, [])

    def commit(self, requests):
        self.log.extend(request.get_committable() for request in requests)


def test_task_restored_as_finished_commits_without_opening_operators():
    chain = [source([1, 2], Do("trigger")), specs.SinkSpec(Committing("out"))]
    run = Run(chain, configuration=WITH_CHECKPOINTS)
    run.state.on_acknowledge = lambda checkpoint_id: run.task.cancel()
    HOOKS["trigger"] = run.trigger(1)
    with pytest.raises(CancelTaskError):
        run.invoke()
    assert WRITTEN["out"] == []
    snapshot, files = run.snapshot(1)
    snapshot.is_finished = True

    again = Run([source([3]), summing(), specs.SinkSpec(Committing("out"))], restored=(_moved(snapshot), files))
    again.invoke()

    assert WRITTEN["out"] == [1, 2]
    assert EVENTS == []


def _moved(snapshot):
    """The sink is one position further down the chain than in the checkpoint."""
    moved = checkpoint_pb2.TaskStateSnapshot(is_finished=True)
    moved.operators["op2"].CopyFrom(snapshot.operators["op1"])
    return moved


def test_task_finishes_no_operators_if_its_inputs_end_without_drain():
    gate = gate_of(Batch([1]), EndOfData(drain=False), EndOfPartition(), ends=False)
    run = Run([counting(), specs.SinkSpec(ListSink("out"))], gates=[gate], configuration=WITH_CHECKPOINTS)
    run.invoke()

    assert WRITTEN["out"] == [(1, 1), "close"]
    assert run.env.ends_of_data == 0


def test_task_takes_a_triggered_checkpoint_after_all_producers_finished():
    gate = gate_of(Do("trigger"), Batch([1]), Batch([2]))
    run = Run([summing()], gates=[gate], results=1)
    HOOKS["trigger"] = run.trigger(6)
    run.invoke()

    assert run.stream == [1, 3, "barrier 6"]
    assert run.state.acknowledged[6][1].operators["op0"].operator


# -- stop with savepoint --------------------------------------------------------------------------------------------

SUSPEND = checkpoint_pb2.SYNC_SAVEPOINT_SUSPEND
TERMINATE = checkpoint_pb2.SYNC_SAVEPOINT_TERMINATE


def test_source_stopped_with_a_savepoint_emits_no_more_records():
    run = Run([source([1], Do("stop"), [2, 3]), summing()], results=1)
    HOOKS["stop"] = run.trigger(1, kind=SUSPEND)
    run.state.on_acknowledge = lambda checkpoint_id: run.complete(checkpoint_id)()
    run.invoke()

    assert run.stream == [1, "barrier 1"]
    assert run.elements[1:] == [EndOfData(drain=False), EndOfPartition()]
    assert run.task.state is StreamTaskState.FINISHED
    assert ("sum", "complete", 1) in EVENTS
    assert Run([source(), summing()], results=1, restored=run.snapshot(1)).invoke().rows == [3, 6]


def test_task_stopped_with_a_savepoint_fires_no_timers_and_finishes_no_operators():
    gate = gate_of(Batch([3]), barrier(1, kind=SUSPEND), EndOfData(drain=False), EndOfPartition(), ends=False)
    run = Run([counting(), specs.SinkSpec(ListSink("out"))], gates=[gate])
    run.state.on_acknowledge = lambda checkpoint_id: (run.clock.advance(10_000), run.complete(checkpoint_id)())
    run.invoke()

    assert WRITTEN["out"] == [(1, 1), ("flush", False), "close"]


def test_savepoint_with_drain_follows_the_end_of_time_and_data():
    run = Run([source([1], Do("stop"), [2, 3]), summing()], results=1)
    HOOKS["stop"] = run.trigger(1, kind=TERMINATE)
    run.state.on_acknowledge = lambda checkpoint_id: run.complete(checkpoint_id)()
    run.invoke()

    elements = run.elements
    assert elements[:2] == [Watermark(MAX_WATERMARK), EndOfData()]
    assert (elements[2].checkpoint_id, elements[3:]) == (1, [EndOfPartition()])
    assert run.rows == [1]


def test_drained_task_waits_until_the_savepoint_is_complete():
    gate = gate_of(
        Batch([1]),
        Watermark(MAX_WATERMARK),
        EndOfData(),
        barrier(1, kind=TERMINATE),
        EndOfPartition(),
        ends=False,
    )
    run = Run([counting()], gates=[gate], results=1)
    run.state.on_acknowledge = lambda checkpoint_id: run.complete(checkpoint_id)()
    run.invoke()

    assert run.rows == [(1, 1), ("EVENT_TIME", 50, 1, 1)]
    assert run.state.acknowledged[1][1].is_finished


@pytest.mark.parametrize("kind", [SUSPEND, TERMINATE])
def test_failed_savepoint_that_stops_the_job_fails_the_task(kind):
    run = Run([source([1], Do("stop"), [2, 3]), summing()], results=1)
    HOOKS["stop"] = run.trigger(1, kind=kind)
    run.state.on_acknowledge = lambda checkpoint_id: run.abort(checkpoint_id)()

    with pytest.raises(CheckpointError, match="savepoint 1, which was to stop the job, failed"):
        run.invoke()

    assert run.task.state is StreamTaskState.FAILED


# -- unaligned ------------------------------------------------------------------------------------------------------


def test_restored_task_first_processes_the_in_flight_records_of_an_unaligned_checkpoint():
    # The first channel's barrier overtakes a batch. The second's arrives after the task has processed more.
    gate = gate_of(Batch([1]), Do("barriers"), Batch([2]), (1, Batch([10])), Do("late"), channels=2)
    run = Run([summing()], gates=[gate], results=1, partitioners=["REBALANCE"])
    HOOKS["barriers"] = lambda: gate.put(0, barrier(1, UNALIGNED))
    HOOKS["late"] = lambda: gate.put(1, barrier(1, UNALIGNED))
    run.invoke()

    assert run.stream == [1, "barrier 1", 3, 13]
    metrics, snapshot = run.state.acknowledged[1]
    assert metrics.is_unaligned
    channels = snapshot.operators["op0"].channels
    assert [(handle.is_output, handle.edge_index, handle.channel_index) for handle in channels] == [
        (False, 0, 0),
        (False, 0, 1),
    ]

    rest = gate_of(Batch([100]))
    again = Run([summing()], gates=[rest], results=1, restored=run.snapshot(1))
    rest.request_partitions = lambda: EVENTS.append(again.task.chain.flush() or again.rows)
    again.invoke()

    assert again.rows == [3, 13, 113]
    assert [3, 13] in EVENTS


def test_checkpoint_contains_the_output_records_that_a_barrier_overtakes():
    run = Run([source([1, 2], Do("trigger"), [3]), summing()], results=1, results_as=["HASH"])
    HOOKS["trigger"] = run.trigger(1, UNALIGNED)
    run.invoke()

    (handle,) = run.state.acknowledged[1][1].operators["op0"].channels
    assert handle.is_output
    assert (handle.edge_index, handle.subtask_index, handle.channel_index) == (0, 0, 0)
    assert len(handle.offsets) == 1


def test_barrier_stays_in_order_on_an_edge_without_unaligned_support():
    run = Run([source([1, 2], Do("a"), Do("b")), summing()], results=1, results_as=["FORWARD"])
    HOOKS["a"], HOOKS["b"] = run.trigger(1, UNALIGNED), run.trigger(2, ALIGNED, timeout_ms=500)
    run.invoke()

    barriers = [element for element in run.elements if isinstance(element, CheckpointBarrier)]
    assert [alignment_of(element) for element in barriers] == [checkpoint_pb2.FORCED_ALIGNED] * 2
    assert [element.options.aligned_timeout_ms for element in barriers] == [0, 500]
    assert not run.state.acknowledged[1][1].operators["op0"].channels


def test_aligned_barrier_overtakes_output_records_after_its_timeout():
    run = Run([source([1, 2], Do("trigger"), Do("later"), [3]), summing()], results=1, results_as=["HASH"])
    run.partitions[0].queued_barrier = 1
    HOOKS["trigger"] = run.trigger(1, ALIGNED, timeout_ms=500)

    def later():
        assert run.state.acknowledged == {}
        run.clock.advance(600)

    HOOKS["later"] = later
    run.invoke()

    metrics, snapshot = run.state.acknowledged[1]
    assert metrics.is_unaligned
    assert snapshot.operators["op0"].channels[0].is_output


def test_checkpoint_stays_aligned_if_the_barrier_leaves_in_time():
    run = Run([source([1, 2], Do("trigger"), [3]), summing()], results=1, results_as=["HASH"])
    HOOKS["trigger"] = run.trigger(1, ALIGNED, timeout_ms=500)
    run.invoke()

    metrics, snapshot = run.state.acknowledged[1]
    assert not metrics.is_unaligned
    assert not snapshot.operators["op0"].channels


def test_task_handles_an_overtaking_barrier_while_its_outputs_are_full():
    gate = gate_of(Batch([1]), barrier(1, UNALIGNED))
    run = Run([summing()], gates=[gate], results=1, partitioners=["REBALANCE"], results_as=["HASH"])
    partition = run.partitions[0]
    partition.is_available = False

    def make_room(checkpoint_id):
        assert partition.rows() == []
        partition.is_available = True
        partition.listener()

    run.state.on_acknowledge = make_room
    run.invoke()

    assert run.stream == ["barrier 1", 1]
    assert len(run.state.acknowledged[1][1].operators["op0"].channels) == 1


def in_flight(run_files, rows, edge_index=0):
    handles = write_channel_state(run_files, False, edge_index, 0, [(0, [Batch(rows)])])
    state = checkpoint_pb2.TaskStateSnapshot()
    state.operators["op0"].channels.extend(handles)
    return state


def test_rescaled_subtask_keeps_the_in_flight_records_of_its_own_keys():
    seen = []
    for subtask in (0, 1, 2):
        files = FakeTaskStateManager().files
        state = in_flight(files, list(range(40)))
        state.operators["op0"].filter_channels = True
        run = Run(
            [specs.KeyedProcessSpec(Identity(), Echo())],
            gates=[gate_of()],
            results=1,
            restored=(state, files),
            partitioners=["HASH"],
            subtask_index=subtask,
            parallelism=3,
        ).invoke()
        assert run.rows
        seen += run.rows

    assert sorted(seen) == list(range(40))


def test_rescaling_rejects_in_flight_records_with_an_unknown_key():
    files = FakeTaskStateManager().files
    state = in_flight(files, [1])
    state.operators["op0"].filter_channels = True
    run = Run([summing()], gates=[gate_of()], results=1, restored=(state, files), partitioners=["HASH"])

    with pytest.raises(StateRestoreError, match="Restore with the parallelism of the checkpoint"):
        run.invoke()


class Identity(KeySelector):
    def get_key(self, value):
        return value


class Echo(KeyedProcessFunction):
    def process_element(self, value, ctx):
        yield value
