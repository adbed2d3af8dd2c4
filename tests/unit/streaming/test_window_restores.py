"""Windows of every kind resume from a snapshot without a difference, on the other backend and on other subtasks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from row_windows import BACKENDS, Concatenated, Subtasks, WindowHarness, keyed_spec, spec_of, stream

from flinkpy.common.time import Time
from flinkpy.common.typeinfo import Types
from flinkpy.datastream.functions import ProcessWindowFunction, WindowFunction
from flinkpy.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from flinkpy.datastream.window import (
    ContinuousProcessingTimeTrigger,
    CountEvictor,
    CountTrigger,
    DeltaTrigger,
    EventTimeSessionWindows,
    GlobalWindows,
    ProcessingTimeoutTrigger,
    ProcessingTimeSessionWindows,
    SlidingProcessingTimeWindows,
    TimeEvictor,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)


class Values(WindowFunction):
    def apply(self, key: Any, window: Any, inputs: Any) -> Any:
        return [(key, repr(window), [value[1] for value in inputs])]


class EveryKindOfState(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        shown: list[Any] = []
        for store in (context.window_state(), context.global_state()):
            value = store.get_state(ValueStateDescriptor("value", Types.INT()))
            value.update((value.value() or 0) + len(elements))
            listed = store.get_list_state(ListStateDescriptor("list", Types.INT()))
            listed.add(len(elements))
            entries = store.get_map_state(MapStateDescriptor("map", Types.INT(), Types.INT()))
            entries.put(len(elements), 1)
            reduced = store.get_reducing_state(ReducingStateDescriptor("reduced", lambda a, b: a + b, Types.INT()))
            reduced.add(len(elements))
            aggregated = store.get_aggregating_state(
                AggregatingStateDescriptor("aggregated", Concatenated(), Types.PICKLED_BYTE_ARRAY())
            )
            aggregated.add(("x", len(elements)))
            shown += [value.value(), list(listed.get()), sorted(entries.keys()), reduced.get(), aggregated.get()]
        yield key, context.window().start, shown


def ms(millis: int) -> Time:
    return Time.milliseconds(millis)


def distance(old: Any, new: Any) -> int:
    return int(new[1] - old[1])


def add(a: Any, b: Any) -> Any:
    return a[0], a[1] + b[1]


OPERATIONS: dict[str, Callable[[Any], Any]] = {
    "count": lambda keyed: keyed.count_window(3).apply(Values()),
    "sliding count": lambda keyed: keyed.count_window(4, 2).reduce(add),
    "global": lambda keyed: keyed.window(GlobalWindows.create()).trigger(CountTrigger.of(2)).apply(Values()),
    "delta": lambda keyed: keyed.window(GlobalWindows.create()).trigger(DeltaTrigger.of(3, distance)).reduce(add),
    "timeout": lambda keyed: (
        keyed.window(GlobalWindows.create())
        .trigger(ProcessingTimeoutTrigger.of(CountTrigger.of(4), ms(45)))
        .apply(Values())
    ),
    "evicting": lambda keyed: (
        keyed.window(GlobalWindows.create())
        .trigger(CountTrigger.of(3))
        .evictor(CountEvictor.of(2, do_evict_after=True))
        .apply(Values())
    ),
    "evicting by time": lambda keyed: (
        keyed.window(TumblingEventTimeWindows.of(ms(8))).evictor(TimeEvictor.of(ms(3))).reduce(add)
    ),
    "processing time": lambda keyed: keyed.window(TumblingProcessingTimeWindows.of(ms(50))).reduce(add),
    "sliding processing time": lambda keyed: keyed.window(SlidingProcessingTimeWindows.of(ms(60), ms(20))).apply(
        Values()
    ),
    "session of processing time": lambda keyed: keyed.window(ProcessingTimeSessionWindows.with_gap(ms(15))).aggregate(
        Concatenated()
    ),
    "continuous": lambda keyed: (
        keyed.window(TumblingProcessingTimeWindows.of(ms(100)))
        .trigger(ContinuousProcessingTimeTrigger.of(ms(30)))
        .apply(Values())
    ),
    "state": lambda keyed: (
        keyed.window(TumblingEventTimeWindows.of(ms(8))).allowed_lateness(10).process(EveryKindOfState())
    ),
    "session with a count": lambda keyed: (
        keyed.window(EventTimeSessionWindows.with_gap(ms(5))).trigger(CountTrigger.of(3)).apply(Values())
    ),
}


def play(spec: Any, backend: str, restore_at: int | None, parallelism: int, other: str) -> list[Any]:
    """Processes 60 records in batches of 5, each with 7 ms and a watermark behind it. The last fires all windows."""
    subtasks = Subtasks(spec, backend)
    results: list[Any] = []
    for step in range(12):
        if step == restore_at:
            results += subtasks.results()
            subtasks = subtasks.restored(parallelism, other)
        numbers = range(step * 5, step * 5 + 5)
        records = [("abcdefg"[(step // 2 * 3 + number % 3) % 7], number) for number in numbers]
        subtasks.process(records, [number - number % 3 * 2 for number in numbers])
        subtasks.advance(7)
        subtasks.watermark(step * 5 - 4)
    subtasks.watermark((1 << 63) - 1)
    subtasks.advance(1_000)
    results += subtasks.results()
    subtasks.close()
    return sorted(results, key=repr)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_windows_resume_from_a_snapshot(operation: str, backend: str) -> None:
    spec = keyed_spec(OPERATIONS[operation])
    expected = play(spec, "hashmap", None, 1, "")
    assert len(expected) > 5
    other = BACKENDS[1 - BACKENDS.index(backend)]
    assert play(spec, backend, None, 1, "") == expected
    assert play(spec, backend, 5, 3, backend) == expected
    assert play(spec, backend, 7, 2, other) == expected


@pytest.mark.parametrize("backend", BACKENDS)
def test_windows_accept_columnar_records(backend: str) -> None:
    type_info = Types.ROW_NAMED(["k", "v"], [Types.STRING(), Types.LONG()])
    windows = stream(type_info).key_by("k").window(TumblingEventTimeWindows.of(ms(10)))
    h = WindowHarness(spec_of(windows.sum("v")), configuration={"state.backend.type": backend})
    h.process(pa.RecordBatch.from_pydict({"k": ["a", "b", "a"], "v": [1, 2, 3]}), [1, 2, 3])
    h.watermark(100)
    assert sorted(map(tuple, h.output.rows)) == [("a", 4), ("b", 2)]


def test_keys_may_be_tuples_in_the_form_of_panes() -> None:
    by_pair = stream().key_by(lambda record: (record[0], record[1]))
    h = WindowHarness(spec_of(by_pair.window(TumblingEventTimeWindows.of(ms(10))).apply(Values())))
    h.process([("a", 0), (("a", 0), 10), ("a", 0)], [1, 2, 3])
    h.watermark(100)
    window = "TimeWindow(start=0, end=10)"
    assert h.output.rows == [(("a", 0), window, [0, 0]), ((("a", 0), 10), window, [10])]
