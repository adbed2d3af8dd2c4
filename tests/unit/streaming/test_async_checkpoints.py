"""Asynchronous functions and checkpoints: unfinished records are state, whatever the task is doing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from async_functions_for_tests import AsyncHarness, Gated, SharedGated
from memory_checkpoints import MemoryStreams
from streaming_fakes import (
    FakeInputGate,
    FakeResultPartition,
    FakeTaskEnvironment,
    FakeTaskStateManager,
    ListSource,
    make_vertex,
)

from flinkpy._proto import checkpoint_pb2
from flinkpy.common.clock import ManualClock
from flinkpy.common.errors import FunctionError
from flinkpy.datastream.async_retry_strategies import NO_RETRY_STRATEGY
from flinkpy.datastream.functions import MapFunctionWrapper, ReduceFunctionWrapper
from flinkpy.graph import operator_specs as specs
from flinkpy.records.batch import Batch
from flinkpy.records.elements import CheckpointBarrier, EndOfData, EndOfPartition, Watermark
from flinkpy.streaming.async_io.async_wait_operator import MAX_WAITING_ROWS
from flinkpy.streaming.checkpoint.subtask_checkpoint_coordinator import write_states
from flinkpy.streaming.tasks import CancelTaskError, StreamTask, StreamTaskState, create_stream_task

#: The action of a `Do` in a source or gate. It is not pickled.
HOOKS: dict[str, Callable[[], Any]] = {}


@pytest.fixture
def opened() -> Iterator[list[AsyncHarness]]:
    harnesses: list[AsyncHarness] = []
    yield harnesses
    for harness in harnesses:
        harness.operator.close()


def open_harness(opened: list[AsyncHarness], function: Any, **settings: Any) -> AsyncHarness:
    harness = AsyncHarness(function, **settings)
    opened.append(harness)
    return harness


def checkpoint(*harnesses: AsyncHarness) -> FakeTaskStateManager:
    """Merges the states of all subtasks into one."""
    files = MemoryStreams()
    restored = checkpoint_pb2.TaskStateSnapshot()
    for harness in harnesses:
        harness.operator.prepare_snapshot_pre_barrier(1)
        states = write_states(harness.operator.snapshots(1, checkpoint_pb2.CheckpointOptions()), files)
        for operator_id, state in states.items():
            restored.operators[operator_id].operator.extend(state.operator)
    return FakeTaskStateManager(restored, files=files)


@pytest.mark.parametrize("ordered", [True, False])
def test_only_calls_whose_results_were_not_emitted_are_repeated_after_a_restore(opened: Any, ordered: bool) -> None:
    function = Gated()
    harness = open_harness(opened, function, ordered=ordered, capacity=3)
    harness.process([1, 2, 3, 4, 5, 6], [10, 20, 30, 40, 50, 60])
    function.let(1)
    harness.run_until(lambda: harness.output.rows == [10])
    state = checkpoint(harness)

    again = Gated()
    again.let(*range(10))
    restored = open_harness(opened, again, ordered=ordered, state=state)
    assert sorted(restored.drain()) == [20, 30, 40, 50, 60]
    assert sorted(restored.output.timestamps) == [20, 30, 40, 50, 60]
    assert sorted(again.started) == [2, 3, 4, 5, 6]


def test_ordered_results_that_were_held_back_are_computed_again(opened: Any) -> None:
    function = Gated()
    harness = open_harness(opened, function, ordered=True)
    harness.process([1, 2, 3])
    function.let(2, 3)
    function.wait_until(lambda: len(function.started) == 3)
    state = checkpoint(harness)

    again = Gated()
    again.let(1, 2, 3)
    assert open_harness(opened, again, ordered=True, state=state).drain() == [10, 20, 30]


def test_completed_results_are_emitted_before_the_barrier_and_not_part_of_the_state(opened: Any) -> None:
    function = Gated()
    harness = open_harness(opened, function)
    harness.process([1, 2])
    function.let(2)
    harness.run_until(lambda: harness.mailbox.has_mail or harness.output.rows == [20])
    state = checkpoint(harness)
    assert harness.output.rows == [20]

    again = Gated()
    again.let(1, 2)
    assert open_harness(opened, again, state=state).drain() == [10]


def test_records_behind_a_watermark_are_restored_too(opened: Any) -> None:
    function = Gated()
    harness = open_harness(opened, function)
    harness.process([1], [1])
    harness.watermark(1)
    harness.process([2], [2])
    function.let(2)
    function.wait_until(lambda: len(function.started) == 2)
    state = checkpoint(harness)

    again = Gated()
    again.let(1, 2)
    assert sorted(open_harness(opened, again, state=state).drain()) == [10, 20]


def test_a_subtask_takes_over_the_records_of_several_others(opened: Any) -> None:
    function, other = Gated(), Gated()
    harnesses = [open_harness(opened, function), open_harness(opened, other)]
    harnesses[0].process([1, 2])
    harnesses[1].process(list(range(100, 300)))
    state = checkpoint(*harnesses)

    again = Gated()
    again.let(1, 2, *range(100, 300))
    restored = open_harness(opened, again, state=state)
    assert sorted(restored.drain()) == [10, 20, *range(1000, 3000, 10)]


def test_the_state_of_many_records_can_be_split_among_several_subtasks(opened: Any) -> None:
    function = Gated()
    harness = open_harness(opened, function, capacity=1)
    harness.process(list(range(1000)))
    (state,) = checkpoint(harness).restored.operators["op0"].operator  # type: ignore[union-attr]
    assert [len(elements.offsets) for elements in state.states] == [16]


def test_a_second_checkpoint_contains_only_the_remaining_records(opened: Any) -> None:
    function = Gated()
    harness = open_harness(opened, function)
    harness.process([1, 2])
    checkpoint(harness)
    function.let(1)
    harness.run_until(lambda: harness.output.rows == [10])
    state = checkpoint(harness)

    again = Gated()
    again.let(1, 2)
    assert open_harness(opened, again, state=state).drain() == [20]


# -- whole tasks ---------------------------------------------------------------------------------------------------


class Do:
    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self) -> None:
        HOOKS[self.name]()


def waiting(*, ordered: bool = False, capacity: int = 100) -> specs.AsyncWaitSpec:
    return specs.AsyncWaitSpec(SharedGated.current, 0, capacity, NO_RETRY_STRATEGY, ordered)


def plus_one() -> specs.MapSpec:
    return specs.MapSpec(MapFunctionWrapper(lambda value: value + 1))


def barrier(checkpoint_id: int, kind: Any = checkpoint_pb2.CHECKPOINT, alignment: Any = checkpoint_pb2.ALIGNED) -> Any:
    return CheckpointBarrier(checkpoint_id, 1_000, checkpoint_pb2.CheckpointOptions(alignment=alignment, kind=kind))


class Run:
    """A task that reads a gate, or whose chain begins with a source."""

    def __init__(self, chain: list[Any], gate: FakeInputGate | None = None, restored: Any = None) -> None:
        vertex = make_vertex(chain, results=1, inputs=0 if gate is None else 1)
        snapshot, files = restored or (None, None)
        self.state = FakeTaskStateManager(snapshot, files=files)
        self.partition = FakeResultPartition()
        environment = FakeTaskEnvironment(
            vertex,
            input_gates=[] if gate is None else [(0, 0, gate)],
            result_partitions=[self.partition],
            state=self.state,
            clock=ManualClock(1_000),
        )
        self.task: StreamTask = create_stream_task(environment)

    def trigger(self, checkpoint_id: int, kind: Any = checkpoint_pb2.CHECKPOINT) -> Callable[[], None]:
        options = checkpoint_pb2.CheckpointOptions(alignment=checkpoint_pb2.ALIGNED, kind=kind)
        return lambda: self.task.trigger_checkpoint(checkpoint_id, 1_000, options)

    def invoke(self) -> Run:
        self.task.invoke()
        assert self.task.state is StreamTaskState.FINISHED
        return self

    def snapshot(self, checkpoint_id: int) -> Any:
        return self.state.acknowledged[checkpoint_id][1], self.state.files

    @property
    def stream(self) -> list[Any]:
        out: list[Any] = []
        for item in self.partition.items[0]:
            if isinstance(item, Batch):
                out.extend(item.values)
            elif isinstance(item, CheckpointBarrier):
                out.append(f"barrier {item.checkpoint_id}")
            elif isinstance(item, EndOfData):
                out.append("end")
            elif isinstance(item, Watermark):
                out.append(item)
        return out


def gate_of(*items: Any) -> FakeInputGate:
    gate = FakeInputGate(1)
    for item in items:
        gate.put(0, item)
    return gate


@pytest.fixture
def function() -> SharedGated:
    HOOKS.clear()
    return SharedGated()


def test_the_end_of_the_input_waits_for_all_results_and_passes_them_down_the_chain(function: SharedGated) -> None:
    gate = gate_of(Batch([1, 2, 3]), Do("let"), EndOfData(), EndOfPartition())
    HOOKS["let"] = lambda: function.let(1, 2, 3)
    run = Run([plus_one(), waiting(ordered=True), plus_one(), waiting(ordered=True)], gate)
    function.let(2, 3, 4, 21, 31, 41)
    assert run.invoke().stream == [210, 310, 410, "end"]


def test_a_checkpoint_at_the_end_of_the_input_contains_the_unfinished_records(function: SharedGated) -> None:
    gate = gate_of(Batch([1, 2]), EndOfData(), barrier(1), EndOfPartition())
    run = Run([waiting(ordered=True)], gate)
    run.state.on_acknowledge = lambda checkpoint_id: function.let(1, 2)
    assert run.invoke().stream == ["barrier 1", 10, 20, "end"]
    snapshot, files = run.snapshot(1)
    assert not snapshot.is_finished

    again = Run([waiting(ordered=True)], gate_of(EndOfData(), EndOfPartition()), restored=(snapshot, files))
    assert again.invoke().stream == [10, 20, "end"]


def test_an_ended_source_takes_checkpoints_while_calls_run(function: SharedGated) -> None:
    chain = [specs.SourceSpec(ListSource([[1, 2], Do("trigger")])), waiting(ordered=True)]
    run = Run(chain)
    HOOKS["trigger"] = run.trigger(4)
    run.state.on_acknowledge = lambda checkpoint_id: function.let(1, 2)
    stream = run.invoke().stream
    assert [item for item in stream if not isinstance(item, Watermark)] == ["barrier 4", 10, 20, "end"]
    assert isinstance(stream[-2], Watermark), "the end of event time comes behind the results"


def test_a_task_stopped_with_a_savepoint_emits_no_results_after_it(function: SharedGated) -> None:
    suspend = checkpoint_pb2.SYNC_SAVEPOINT_SUSPEND
    gate = gate_of(Batch([1, 2]), barrier(3, suspend), EndOfData(drain=False), EndOfPartition())
    run = Run([waiting(ordered=True)], gate)

    def let_and_complete(checkpoint_id: int) -> None:
        function.let(1, 2)
        function.wait_until(lambda: len(function.started) == 2)
        run.task.notify_checkpoint_complete(3)

    run.state.on_acknowledge = let_and_complete
    assert run.invoke().stream == ["barrier 3", "end"]

    again = Run([waiting(ordered=True)], gate_of(EndOfData(), EndOfPartition()), restored=run.snapshot(3))
    assert again.invoke().stream == [10, 20, "end"]


def test_a_savepoint_with_drain_follows_all_results(function: SharedGated) -> None:
    terminate = checkpoint_pb2.SYNC_SAVEPOINT_TERMINATE
    gate = gate_of(Batch([1, 2]), EndOfData(), barrier(3, terminate), Do("let"), EndOfPartition())
    HOOKS["let"] = lambda: function.let(1, 2)
    run = Run([waiting(ordered=True)], gate)
    run.state.on_acknowledge = lambda checkpoint_id: run.task.notify_checkpoint_complete(3)
    assert run.invoke().stream == [10, 20, "end", "barrier 3"]
    assert run.snapshot(3)[0].is_finished


def total() -> specs.PartitionSpec:
    return specs.PartitionSpec(ReduceFunctionWrapper(lambda one, other: one + other), "REDUCE")


def test_records_that_an_operator_emits_at_its_end_get_their_results_too(function: SharedGated) -> None:
    gate = gate_of(Batch([1, 2]), Batch([4]), EndOfData(), EndOfPartition())
    function.let(7)
    assert Run([total(), waiting(), plus_one()], gate).invoke().stream == [71, "end"]


def test_a_failed_call_or_a_cancellation_ends_the_wait_for_results(function: SharedGated) -> None:
    class Failing(SharedGated):
        async def async_invoke(self, value: Any) -> list[Any]:
            raise LookupError(f"no {value}")

    SharedGated.current = Failing()
    run = Run([total(), waiting()], gate_of(Batch([1, 2]), EndOfData(), EndOfPartition()))
    with pytest.raises(FunctionError, match="no 3"):
        run.invoke()

    SharedGated.current = function
    run = Run([total(), waiting()], gate_of(Batch([1, 2]), EndOfData(), EndOfPartition()))
    canceller = threading.Thread(
        target=lambda: (function.wait_until(lambda: function.started == [3]), run.task.cancel())
    )
    canceller.start()
    with pytest.raises(CancelTaskError):
        run.invoke()
    canceller.join()


def test_an_overtaking_barrier_is_handled_while_the_operator_is_full(function: SharedGated) -> None:
    full = Batch(list(range(1, 2000)))
    gate = gate_of(full, Batch([5000]), barrier(9, alignment=checkpoint_pb2.UNALIGNED), EndOfData(), EndOfPartition())
    run = Run([waiting(ordered=True, capacity=1)], gate)
    function.let(5000)
    run.state.on_acknowledge = lambda checkpoint_id: function.let(*range(1, 2000))
    stream = run.invoke().stream
    assert stream[0] == "barrier 9"
    assert stream[1:] == [*range(10, 20_000, 10), 50_000, "end"]


def test_a_full_operator_gets_no_more_records_until_it_has_room(function: SharedGated) -> None:
    sizes: list[int] = []
    batches = [Batch(list(range(begin, begin + 1000))) for begin in range(0, 20_000, 1000)]
    gate = gate_of(*[item for batch in batches for item in (batch, Do("look"))], EndOfData(), EndOfPartition())
    run = Run([waiting(capacity=10)], gate)
    function.let(*range(20_000))
    HOOKS["look"] = lambda: sizes.append(run.task.chain.head._unfinished)  # type: ignore[attr-defined]
    run.invoke()
    assert sorted(item for item in run.stream if isinstance(item, int)) == list(range(0, 200_000, 10))
    assert max(sizes) < 10 + MAX_WAITING_ROWS + 1000


def test_batches_are_no_larger_than_the_operator_accepts(function: SharedGated) -> None:
    gate = gate_of(Batch(list(range(50_000))), EndOfData(), EndOfPartition())
    run = Run([plus_one(), waiting(capacity=10)], gate)
    seen: list[int] = []
    function.let(*range(50_001))
    operator: Any = run.task
    original = None

    def note(batch: Batch, input_index: int = 0) -> None:
        seen.append(batch.num_rows)
        assert original is not None
        original(batch, input_index)

    initialize = operator.initialize

    def initialize_and_listen() -> None:
        nonlocal original
        initialize()
        original = operator.chain.head.process_batch
        operator.chain.head.process_batch = note

    operator.initialize = initialize_and_listen
    run.invoke()
    assert sum(seen) == 50_000
    assert max(seen) <= 1024
