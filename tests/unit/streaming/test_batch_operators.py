"""Operators in batch mode: one key after the other, timers when a key is done, results when the input is complete."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest
from streaming_fakes import OperatorHarness

from flinkpy._proto import checkpoint_pb2
from flinkpy.common.errors import FunctionError, TypeMismatchError, UnsupportedOperationError
from flinkpy.common.time import Time
from flinkpy.common.typeinfo import Types
from flinkpy.datastream.functions import (
    BroadcastProcessFunction,
    JoinFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    ProcessJoinFunction,
    ProcessWindowFunction,
    ReduceFunction,
)
from flinkpy.datastream.output_tag import OutputTag
from flinkpy.datastream.state import MapStateDescriptor, ValueStateDescriptor
from flinkpy.datastream.window import (
    EventTimeTrigger,
    ProcessingTimeTrigger,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from flinkpy.graph import operator_specs as specs
from flinkpy.graph.batch_mode import batch_spec_of
from flinkpy.records.batch import Batch
from flinkpy.records.elements import MAX_WATERMARK, MIN_WATERMARK, Watermark
from flinkpy.records.lanes import columns_of

RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())


class First(KeySelector):
    def get_key(self, value: Any) -> Any:
        return value[0]


def started(spec: specs.OperatorSpec) -> OperatorHarness:
    batch_spec = batch_spec_of(spec)
    assert batch_spec is not None
    return OperatorHarness(batch_spec)


def feed(harness: OperatorHarness, rows: list[Any], timestamps: list[int] | None = None, input_index: int = 0) -> None:
    times = None if timestamps is None else np.array(timestamps, dtype=np.int64)
    harness.operator.process_batch(Batch(rows, times), input_index)


def end(harness: OperatorHarness, *inputs: int) -> list[Any]:
    """Ends the input as a task does: first the watermark at the end of event time, then the ends of the inputs."""
    harness.operator.process_element(Watermark(MAX_WATERMARK))
    for index in inputs or (0,):
        harness.operator.end_input(index)
    return harness.output.rows


class Record(KeyedProcessFunction):
    """Emits its observations, sets timers of both kinds, and sets more timers in `on_timer`."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
        service = ctx.timer_service()
        assert service.current_watermark() == MIN_WATERMARK
        service.register_event_time_timer(value[1] + 100)
        service.register_processing_time_timer(service.current_processing_time() + 1_000_000)
        yield value

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Any:
        service = ctx.timer_service()
        assert service.current_watermark() == MAX_WATERMARK
        service.register_event_time_timer(timestamp + 1)
        service.register_processing_time_timer(timestamp + 1)
        yield ctx.get_current_key(), ctx.time_domain().name, timestamp


def test_keys_come_one_by_one_sorted_by_time_and_their_timers_fire_after_them() -> None:
    harness = started(specs.KeyedProcessSpec(First(), Record()))
    feed(harness, [("a", 3), ("b", 1)], [3, 1])
    feed(harness, [("a", 2), ("a", 1)], [2, 1])

    assert harness.output.items == [], "nothing is known about a key before the end"
    now = harness.environment.clock.now_ms() + 1_000_000
    assert end(harness) == [
        ("a", 1),
        ("a", 2),
        ("a", 3),
        ("a", "EVENT_TIME", 101),
        ("a", "EVENT_TIME", 102),
        ("a", "EVENT_TIME", 103),
        ("a", "PROCESSING_TIME", now),
        ("b", 1),
        ("b", "EVENT_TIME", 101),
        ("b", "PROCESSING_TIME", now),
    ]
    assert harness.output.items[-1] == Watermark(MAX_WATERMARK)
    assert harness.output.elements == [Watermark(MAX_WATERMARK)]


def test_ignored_timers_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    harness = started(specs.KeyedProcessSpec(First(), Record()))
    feed(harness, [("a", 1), ("b", 1)])
    with caplog.at_level(logging.WARNING):
        end(harness)

    assert [message for message in caplog.messages if "ignoring the timer" in message] == [
        "ignoring the timer for 102: it was set by a timer that fired at the end of its key"
    ]


class CountUp(MapFunction):
    def open(self, runtime_context: Any) -> None:
        self._count = runtime_context.get_state(ValueStateDescriptor("n", Types.LONG()))

    def map(self, value: Any) -> Any:
        self._count.update((self._count.value() or 0) + 1)
        return value, self._count.value()


@pytest.mark.parametrize("cut", [1, 2, 5])
def test_records_without_timestamps_keep_their_order_for_any_batch_size(cut: int) -> None:
    harness = started(specs.KeyedMapSpec(First(), CountUp(), "MAP"))
    rows = [("a", 1), ("b", 1), ("a", 0), ("b", 0), ("a", 2)]
    for start in range(0, len(rows), cut):
        feed(harness, rows[start : start + cut])

    assert end(harness) == [
        (("a", 1), 1),
        (("a", 0), 2),
        (("a", 2), 3),
        (("b", 1), 1),
        (("b", 0), 2),
    ]
    assert harness.output.timestamps == [None] * 5
    assert harness.operator.operator.backend.num_entries() == 0, "finished records are not kept"


def test_records_without_a_timestamp_come_before_those_with_one() -> None:
    harness = started(specs.KeyedMapSpec(First(), CountUp(), "MAP"))
    feed(harness, [("a", 1)], [-5])
    feed(harness, [("a", 2)])
    feed(harness, [("a", 3)], [-7])

    assert [value for (_, value), _ in end(harness)] == [2, 3, 1]
    assert harness.output.timestamps == [None, -7, -5]


class Join(KeyedCoProcessFunction):
    def process_element1(self, value: Any, ctx: Any) -> Any:
        yield "left", value

    def process_element2(self, value: Any, ctx: Any) -> Any:
        yield "right", value


def test_two_inputs_are_merged_by_key_and_time() -> None:
    harness = started(specs.KeyedCoProcessSpec(Join(), (First(), First())))
    feed(harness, [("a", 1), ("b", 1), ("a", 5)], [1, 1, 5], 0)
    feed(harness, [("b", 0), ("a", 3), ("a", 5)], [0, 3, 5], 1)
    harness.operator.end_input(1)
    assert harness.output.items == []

    assert end(harness, 0) == [
        ("left", ("a", 1)),
        ("right", ("a", 3)),
        ("left", ("a", 5)),
        ("right", ("a", 5)),
        ("right", ("b", 0)),
        ("left", ("b", 1)),
    ]


class Concat(ReduceFunction):
    def reduce(self, value1: Any, value2: Any) -> Any:
        return value1[0], value1[1] + value2[1]


def test_reduce_gives_one_result_per_key_in_the_order_of_time() -> None:
    harness = started(specs.ReduceSpec(First(), Concat()))
    feed(harness, [("a", "3"), ("b", "x"), ("a", "1")], [3, 9, 1])
    feed(harness, [("a", "0")])
    feed(harness, [("a", "2")], [2])

    assert harness.output.items == []
    assert end(harness) == [("a", "0123"), ("b", "x")]
    assert set(harness.output.timestamps) == {MAX_WATERMARK}
    assert harness.output.items[-1] == Watermark(MAX_WATERMARK)


def test_rolling_aggregates_give_their_last_result() -> None:
    harness = started(specs.RollingAggregateSpec(First(), specs.RollingKind.MAX_BY, 1))
    feed(harness, [("a", 1, "x"), ("a", 3, "y"), ("b", 0, "z"), ("a", 3, "later")])

    assert end(harness) == [("a", 3, "y"), ("b", 0, "z")]


def test_an_empty_input_emits_only_the_end() -> None:
    for spec in (specs.ReduceSpec(First(), Concat()), specs.KeyedProcessSpec(First(), Record())):
        harness = started(spec)
        end(harness)
        assert harness.output.items == [Watermark(MAX_WATERMARK)]


class Lookup(BroadcastProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value, ctx.get_broadcast_state(RULES).get(value[0])

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        ctx.get_broadcast_state(RULES).put(*value)
        yield "rule", value


class KeyedLookup(KeyedBroadcastProcessFunction):
    process_element = Lookup.process_element
    process_broadcast_element = Lookup.process_broadcast_element


@pytest.mark.parametrize("is_keyed", [False, True])
def test_the_broadcast_stream_comes_first(is_keyed: bool) -> None:
    spec: specs.OperatorSpec = specs.BroadcastProcessSpec(Lookup(), (RULES,))
    if is_keyed:
        spec = specs.KeyedBroadcastProcessSpec(First(), KeyedLookup(), (RULES,))
    harness = started(spec)
    feed(harness, [("a", 1), ("b", 1)], None, 0)
    feed(harness, [("b", 7)], None, 1)
    feed(harness, [("a", 2)], None, 0)
    feed(harness, [("a", 6)], None, 1)

    rows = end(harness, 0, 1)

    assert rows[:2] == [("rule", ("b", 7)), ("rule", ("a", 6))]
    assert sorted(rows[2:]) == [(("a", 1), 6), (("a", 2), 6), (("b", 1), 7)]


def test_side_outputs_and_large_results_arrive_whole() -> None:
    tag = OutputTag("odd", Types.LONG())

    class Split(KeyedProcessFunction):
        def process_element(self, value: Any, ctx: Any) -> Any:
            yield value
            if value[0] % 2:
                yield tag, value[0]

    batch_spec = batch_spec_of(specs.KeyedProcessSpec(First(), Split()))
    assert batch_spec is not None
    harness = OperatorHarness(batch_spec, side_tags=("odd",))
    feed(harness, [(number,) for number in range(10_000)])

    assert len(end(harness)) == 10_000
    assert harness.side["odd"].rows == list(range(1, 10_000, 2))
    assert max(item.num_rows for item in harness.output.items if isinstance(item, Batch)) >= 4096


def test_errors_name_the_operator() -> None:
    class Fails(KeySelector):
        def get_key(self, value: Any) -> Any:
            return value["no"]

    harness = started(specs.KeyedMapSpec(Fails(), CountUp(), "MAP"))
    with pytest.raises(FunctionError, match="BatchSpec"):
        feed(harness, [("a", 1)])

    class Changing(KeySelector):
        def get_key(self, value: Any) -> Any:
            return [value]

    with pytest.raises(TypeMismatchError, match=r"operator \S*Batch.*a key of type list cannot be a key.*\('a', 1\)"):
        feed(started(specs.KeyedMapSpec(Changing(), CountUp(), "MAP")), [("a", 1)])

    class Bad(ReduceFunction):
        def reduce(self, value1: Any, value2: Any) -> Any:
            raise ValueError("no reduction")

    harness = started(specs.ReduceSpec(First(), Bad()))
    with pytest.raises(FunctionError, match="no reduction"):
        feed(harness, [("a", 1), ("a", 2)])


def test_checkpoints_are_refused() -> None:
    harness = started(specs.KeyedMapSpec(First(), CountUp(), "MAP"))
    with pytest.raises(UnsupportedOperationError, match="batch mode"):
        harness.operator.snapshots(1, checkpoint_pb2.CheckpointOptions())


class Contents(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        yield key, str(context.window()), [value for _, value in elements]


def test_windows_get_their_records_in_order_of_time_and_none_is_late() -> None:
    harness = started(
        specs.WindowSpec(
            First(), TumblingEventTimeWindows.of(Time.seconds(1)), EventTimeTrigger.create(), function=Contents()
        )
    )
    feed(harness, [("a", 3), ("a", 9), ("b", 1), ("a", 1), ("a", 2)], [30, 9_000, 1, 10, 20])

    assert end(harness) == [
        ("a", "TimeWindow(start=0, end=1000)", [1, 2, 3]),
        ("a", "TimeWindow(start=9000, end=10000)", [9]),
        ("b", "TimeWindow(start=0, end=1000)", [1]),
    ]
    assert harness.output.timestamps == [999, 9_999, 999]


def test_processing_time_windows_fire_at_the_end() -> None:
    harness = started(
        specs.WindowSpec(
            First(),
            TumblingProcessingTimeWindows.of(Time.hours(1)),
            ProcessingTimeTrigger.create(),
            aggregation=Concat(),
        )
    )
    feed(harness, [("a", "1"), ("b", "x"), ("a", "2")])

    assert end(harness) == [("a", "12"), ("b", "x")]


def test_interval_and_window_joins_give_the_results_of_streaming_mode() -> None:
    class Pair(ProcessJoinFunction):
        def process_element(self, left: Any, right: Any, ctx: Any) -> Any:
            yield left[1], right[1]

    class JoinPair(JoinFunction):
        def join(self, first: Any, second: Any) -> Any:
            return first[1], second[1]

    window = specs.WindowSpec(First(), TumblingEventTimeWindows.of(Time.seconds(1)), EventTimeTrigger.create())
    for spec in (
        specs.IntervalJoinSpec((First(), First()), Pair(), -10, 10),
        specs.CoGroupSpec((First(), First()), JoinPair(), "JOIN", window),
    ):
        harness = started(spec)
        feed(harness, [("a", "l1"), ("b", "l2")], [100, 5_000], 0)
        feed(harness, [("b", "r2"), ("a", "r1"), ("a", "r3")], [5_010, 95, 5_000], 1)
        assert end(harness, 0, 1) == [("l1", "r1"), ("l2", "r2")]


def test_a_key_with_more_records_than_fit_in_memory_comes_in_parts() -> None:
    configuration = {"execution.sorted-inputs.memory": "64 kb"}
    spec = batch_spec_of(specs.KeyedMapSpec(First(), CountUp(), "MAP"))
    assert spec is not None
    harness = OperatorHarness(spec, configuration=configuration)
    sizes = []
    process = harness.operator.operator.process_batch
    harness.operator.operator.process_batch = lambda batch, index: (sizes.append(len(batch)), process(batch, index))
    for start in range(0, 20_000, 1_000):
        feed(harness, [("a", n) for n in range(start, start + 1_000)], list(range(20_000 - start, 19_000 - start, -1)))

    counted = end(harness)
    assert [count for _, count in counted] == list(range(1, 20_001))
    assert [value[1] for value, _ in counted] == sorted(range(20_000), key=lambda n: 20_000 - n)
    assert max(sizes) <= 4_096
    spills = harness.operator._spills
    assert spills.num_files > 1
    harness.operator.close()
    assert not spills.path.exists()


def test_records_that_wait_go_to_files_when_memory_is_to_be_released() -> None:
    harness = started(specs.KeyedMapSpec(First(), CountUp(), "MAP"))
    feed(harness, [("a", n) for n in range(100)], list(range(100)))
    assert harness.operator.reported_bytes > 100 and not harness.operator._spills.num_files
    harness.operator.release_memory()
    assert harness.operator.reported_bytes == 0 and harness.operator._spills.num_files == 1
    feed(harness, [("b", 1), ("a", 100)], [1, 100])
    counted = end(harness)
    assert [(value, count) for value, count in counted if value[0] == "a"] == [(("a", n), n + 1) for n in range(101)]
    assert (("b", 1), 1) in counted and len(counted) == 102
    harness.operator.close()


def test_a_stream_beside_a_broadcast_stream_waits_on_disk() -> None:
    spec = batch_spec_of(specs.BroadcastProcessSpec(Lookup(), (RULES,)))
    assert spec is not None
    harness = OperatorHarness(spec, configuration={"execution.sorted-inputs.memory": "1 kb"})
    for number in range(100):
        feed(harness, [("a", number), ("b", number)], None, 0)
    feed(harness, [("a", 7)], None, 1)
    assert harness.operator._spills.num_files == 1

    expected = [((key, number), 7 if key == "a" else None) for number in range(100) for key in "ab"]
    assert end(harness, 1, 0)[1:] == expected
    harness.operator.close()


@pytest.mark.parametrize(
    ("key_type", "keys"),
    [
        (Types.LONG(), [3, 1, 3, 2]),
        (Types.STRING(), ["x", None, "x", "y"]),
        (Types.TUPLE([Types.INT(), Types.STRING()]), [(1, "a"), (2, "a"), (1, "a"), (1, "b")]),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), [b"a", b"", b"a", b"b"]),
        (Types.PICKLED_BYTE_ARRAY(), ["x", 7, "x", None]),
    ],
)
@pytest.mark.parametrize("memory", ["1 b", "1 mb"])
def test_typed_records_are_sorted_by_keys_of_every_type(key_type: Any, keys: list[Any], memory: str) -> None:
    record = Types.TUPLE([key_type, Types.LONG()])
    spec = batch_spec_of(specs.KeyedMapSpec(specs.FieldKeySelector((0,)), CountUp(), "MAP", input_types=(record,)))
    assert spec is not None
    harness = OperatorHarness(spec, configuration={"execution.sorted-inputs.memory": memory})
    rows = list(zip(keys, range(4)))
    for start in (0, 2):
        harness.operator.process_batch(Batch(columns_of(rows[start : start + 2], record)))

    counted = {value[1]: count for value, count in end(harness)}
    assert counted == {0: 1, 1: 1, 2: 2, 3: 1}
    harness.operator.close()
