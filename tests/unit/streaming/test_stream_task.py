from __future__ import annotations

import pytest
from streaming_fakes import (
    WRITTEN,
    FakeInputGate,
    FakeResultPartition,
    FakeTaskEnvironment,
    ListReader,
    ListSink,
    ListSource,
    ListWriter,
    make_vertex,
)

from flinkpy.common.clock import ManualClock
from flinkpy.common.errors import FunctionError
from flinkpy.connector_api.source import AddSplits, ReaderRegistered, ReaderStatus
from flinkpy.datastream.functions import (
    FilterFunctionWrapper,
    FlatMapFunctionWrapper,
    MapFunction,
    MapFunctionWrapper,
)
from flinkpy.graph import operator_specs as specs
from flinkpy.records.batch import Batch
from flinkpy.records.elements import (
    MAX_WATERMARK,
    EndOfData,
    EndOfPartition,
    LatencyMarker,
    Watermark,
)
from flinkpy.streaming.mailbox.task_mailbox import TaskMailbox
from flinkpy.streaming.tasks import CancelTaskError, StreamTask, StreamTaskState, create_stream_task


@pytest.fixture(autouse=True)
def _clean():
    WRITTEN.clear()
    EVENTS.clear()


EVENTS: list[str] = []


class Recorded(MapFunction):
    """Records the calls of its life cycle."""

    def __init__(self, name: str, fails: str = "") -> None:
        self.name = name
        self.fails = fails

    def open(self, runtime_context):
        EVENTS.append(f"open {self.name}")
        if self.fails == "open":
            raise RuntimeError("open failed")

    def map(self, value):
        if self.fails == "map":
            raise RuntimeError("map failed")
        return value

    def close(self):
        EVENTS.append(f"close {self.name}")
        if self.fails == "close":
            raise RuntimeError("close failed")


def mapped(function):
    return specs.MapSpec(MapFunctionWrapper(function))


def source(*batches, reader=None):
    return specs.SourceSpec(ListSource(list(batches), reader))


def sink(name="out"):
    return specs.SinkSpec(ListSink(name))


def run(chain, *, gates=(), results=0, links=None, **environment) -> tuple[StreamTask, FakeTaskEnvironment]:
    vertex = make_vertex(chain, results=results, inputs=len(gates), links=links)
    env = FakeTaskEnvironment(
        vertex,
        input_gates=[(0, n, gate) for n, gate in enumerate(gates)],
        result_partitions=[FakeResultPartition() for _ in range(results)],
        **environment,
    )
    task = create_stream_task(env)
    task.invoke()
    return task, env


def ending(*items, channels=1) -> FakeInputGate:
    """Returns a gate that has the items on channel 0 and then ends every channel."""
    gate = FakeInputGate(channels)
    for item in items:
        gate.put(0, item)
    for channel in range(channels):
        gate.put(channel, EndOfData())
    for channel in range(channels):
        gate.put(channel, EndOfPartition())
    return gate


def test_single_task_runs_a_whole_job():
    task, env = run(
        [
            source([1, 2, 3], [4, 5, 6]),
            mapped(lambda v: v * 2),
            specs.FilterSpec(FilterFunctionWrapper(lambda v: v > 4)),
            specs.FlatMapSpec(FlatMapFunctionWrapper(lambda v: [v, v] if v != 8 else None)),
            sink(),
        ]
    )

    assert WRITTEN["out"] == [6, 6, 10, 10, 12, 12, ("watermark", MAX_WATERMARK), ("flush", True), "close"]
    assert task.state is StreamTaskState.FINISHED
    assert env.sent == [("op0", ReaderRegistered())]
    assert env.running == 1
    assert task.metrics()["num_records_in"] == 6
    assert task.metrics()["num_records_out"] == 6


def test_task_reads_gates_and_writes_partitions():
    gate = ending(Batch([1, 2]), LatencyMarker(1, "op", 0), Batch([3]))

    task, env = run([mapped(lambda v: v + 1)], gates=[gate], results=1)

    partition = env.result_partitions[0]
    assert partition.rows() == [2, 3, 4]
    assert partition.elements() == [LatencyMarker(1, "op", 0), EndOfData(), EndOfPartition()]
    assert gate.requested == 1
    assert gate.is_closed
    metrics = task.metrics()
    assert (metrics["num_records_in"], metrics["num_records_out"]) == (3, 3)
    assert metrics["num_batches_in"] == 2


def test_watermark_is_the_minimum_over_the_channels_of_all_edges():
    first, second = FakeInputGate(2), FakeInputGate(1)
    first.put(0, Watermark(10))
    first.put(1, Watermark(30))
    second.put(0, Watermark(20))
    first.put(0, Watermark(40))
    for gate in (first, second):
        for item in (EndOfData(), EndOfPartition()):
            for channel in range(gate.num_channels):
                gate.put(channel, item)

    _, env = run([mapped(lambda v: v)], gates=[first, second], results=1)

    assert [e.timestamp for e in env.result_partitions[0].elements() if isinstance(e, Watermark)] == [10, 20]


def test_task_reads_its_gates_in_turn():
    between = Watermark(1)  # else the batches of one gate would be one
    first, second = ending(Batch([1]), between, Batch([2])), ending(Batch([10]), between, Batch([20]))

    _, env = run([mapped(lambda v: v)], gates=[first, second], results=1)

    assert env.result_partitions[0].rows() == [1, 10, 2, 20]


def test_operators_are_opened_last_to_first_and_closed_first_to_last():
    run([source([1]), specs.MapSpec(Recorded("a")), sink("x"), specs.MapSpec(Recorded("b")), sink("y")],
        links={0: [1], 1: [2, 3], 3: [4], 2: [], 4: []})  # fmt: skip

    assert EVENTS == ["open b", "open a", "close a", "close b"]


def test_stream_can_have_several_consumers_in_a_chain():
    run([source([1, 2]), sink("x"), mapped(lambda v: -v), sink("y")], links={0: [1, 2], 1: [], 2: [3], 3: []})

    assert WRITTEN["x"][:2] == [1, 2]
    assert WRITTEN["y"][:2] == [-1, -2]


@pytest.mark.parametrize("fails", ["open", "map", "close"])
def test_failing_function_is_named_and_operators_are_closed_once(fails):
    chain = [source([1]), specs.MapSpec(Recorded("a")), specs.MapSpec(Recorded("b", fails)), sink()]

    with pytest.raises(FunctionError) as raised:
        run(chain)

    call = ", in Recorded.map(value=1)" if fails == "map" else ""
    assert str(raised.value) == f"vertex (1/1), operator MapSpec-2: RuntimeError: {fails} failed{call}"
    assert raised.value.remote_traceback.splitlines()[1].strip().startswith(f'File "{__file__}"')
    opened = {event.removeprefix("open ") for event in EVENTS if event.startswith("open")}
    closed = [event.removeprefix("close ") for event in EVENTS if event.startswith("close")]
    assert opened <= set(closed)
    assert len(closed) == len(set(closed))
    assert WRITTEN["out"].count("close") == 1


def test_failing_function_fails_its_task():
    vertex = make_vertex([source([1]), mapped(lambda v: 1 / 0), sink()])
    task = create_stream_task(FakeTaskEnvironment(vertex))

    with pytest.raises(FunctionError, match="ZeroDivisionError: division by zero"):
        task.invoke()

    assert task.state is StreamTaskState.FAILED
    assert task.mailbox.is_closed


def test_error_names_the_failing_function_among_fused_functions():
    with pytest.raises(FunctionError, match="operator FlatMapSpec-3: KeyError"):
        run(
            [
                source([1]),
                mapped(lambda v: v),
                specs.FilterSpec(FilterFunctionWrapper(lambda v: True)),
                specs.FlatMapSpec(FlatMapFunctionWrapper(lambda v: {}[v])),
                sink(),
            ]
        )


def test_error_of_a_lazy_generator_names_its_operator():
    def generate(value):
        yield value
        raise ValueError("late")

    with pytest.raises(FunctionError, match="operator FlatMapSpec-1: ValueError: late"):
        run([source([1]), specs.FlatMapSpec(FlatMapFunctionWrapper(generate)), mapped(lambda v: v), sink()])


def test_cancel_before_the_start_opens_no_operators():
    task = create_stream_task(FakeTaskEnvironment(make_vertex([source([1]), specs.MapSpec(Recorded("a")), sink()])))
    task.cancel()

    with pytest.raises(CancelTaskError):
        task.invoke()

    assert task.state is StreamTaskState.CANCELED
    assert EVENTS == []


class SelfCancelling(ListReader):
    task: StreamTask

    def poll_batch(self):
        if not self.pending:
            type(self).task.cancel()
            return ReaderStatus.NOTHING_AVAILABLE
        return super().poll_batch()


def test_cancel_ends_an_idle_task_and_closes_its_operators():
    vertex = make_vertex([source([1], reader=SelfCancelling), specs.MapSpec(Recorded("a")), sink()])
    SelfCancelling.task = task = create_stream_task(FakeTaskEnvironment(vertex))

    with pytest.raises(CancelTaskError):
        task.invoke()

    assert task.state is StreamTaskState.CANCELED
    assert EVENTS == ["open a", "close a"]
    assert WRITTEN["out"] == [1, "close"]


class Interrupt(BaseException):
    pass


def test_errors_after_a_cancellation_count_as_cancelled():
    vertex = make_vertex([source([1]), specs.MapSpec(SelfInterrupting()), sink()])
    task = create_stream_task(FakeTaskEnvironment(vertex))
    SelfInterrupting.holder = [task]

    with pytest.raises(CancelTaskError):
        task.invoke()

    assert task.state is StreamTaskState.CANCELED
    assert WRITTEN["out"] == ["close"]


class SelfInterrupting(MapFunction):
    holder: list[StreamTask]

    def map(self, value):
        self.holder[0].cancel()
        raise Interrupt


class Waiting(ListReader):
    def __init__(self, batches, context):
        super().__init__(batches, context)
        self.is_last = False

    def poll_batch(self):
        if self.pending:
            return super().poll_batch()
        return ReaderStatus.END_OF_INPUT if self.is_last else ReaderStatus.NOTHING_AVAILABLE

    def add_splits(self, splits):
        super().add_splits(splits)
        self.is_last = True


def test_operator_events_reach_the_reader():
    vertex = make_vertex([source(reader=Waiting), sink()])
    task = create_stream_task(FakeTaskEnvironment(vertex))
    task.dispatch_operator_event("op0", AddSplits(([7, 8],)))
    # Mail that arrives before the operators are open waits until then.
    task.invoke()

    assert WRITTEN["out"][:2] == [7, 8]
    assert not task.dispatch_operator_event("op0", AddSplits(([9],)))


def test_task_takes_no_input_while_a_result_partition_is_full(monkeypatch):
    gate = ending(Batch([1]))
    vertex = make_vertex([mapped(lambda v: v)], results=1, inputs=1)
    partition = FakeResultPartition()
    partition.is_available = False
    clock = ManualClock()
    env = FakeTaskEnvironment(vertex, input_gates=[(0, 0, gate)], result_partitions=[partition], clock=clock)
    task = create_stream_task(env)
    wait = TaskMailbox.wait

    def wait_while_the_consumer_makes_room(mailbox, timeout_s):
        assert partition.rows() == []
        clock.advance(20)
        partition.is_available = True
        partition.listener()
        wait(mailbox, timeout_s)

    monkeypatch.setattr(TaskMailbox, "wait", wait_while_the_consumer_makes_room)
    task.invoke()

    assert partition.rows() == [1]
    assert task.metrics()["back_pressured_time_ms"] == 20
    assert task.metrics()["idle_time_ms"] == 0


class Unfetched(ListSink):
    def create_writer(self, context):
        return UnfetchedWriter(WRITTEN.setdefault("slow", []), context)


class UnfetchedWriter(ListWriter):
    def __init__(self, log, context):
        super().__init__(log)
        self.is_done = False
        self.context = context

    def flush(self, end_of_input):
        super().flush(end_of_input)
        self.context.send_event_to_coordinator("ready")

    def handle_event(self, event):
        self.log.append(event)
        self.is_done = True

    @property
    def has_finished(self):
        return self.is_done


def test_task_waits_for_a_sink_that_has_not_finished():
    vertex = make_vertex([source([1]), specs.SinkSpec(Unfetched("slow"))])
    env = FakeTaskEnvironment(vertex)
    task = create_stream_task(env)
    send = env.send_operator_event

    def answer(operator_id, event):
        send(operator_id, event)
        if event == "ready":
            task.dispatch_operator_event(operator_id, "fetched")

    env.send_operator_event = answer  # type: ignore[method-assign]
    task.invoke()

    assert WRITTEN["slow"] == [1, ("watermark", MAX_WATERMARK), ("flush", True), "fetched", "close"]


def test_source_batches_are_limited_to_the_time_budget_of_the_chain():
    task, _ = run([source(list(range(10_000))), sink()])

    assert WRITTEN["out"][:10_000] == list(range(10_000))
    # 256 rows at first, eight times as many after a cheap batch, then the rest.
    assert task.metrics()["num_batches_in"] == 3
