"""Triggers, lateness, evictors and contexts of windows, in the operator that runs them."""

from __future__ import annotations

from typing import Any

import pytest
from row_windows import BACKENDS, WindowHarness, harness, spec_of, stream

from flinkpy.common.errors import FunctionError, UnsupportedOperationError
from flinkpy.common.time import Time
from flinkpy.common.typeinfo import Types
from flinkpy.datastream import OutputTag
from flinkpy.datastream.functions import (
    AggregateFunction,
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    ReduceFunction,
    WindowFunction,
)
from flinkpy.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from flinkpy.datastream.window import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountEvictor,
    CountTrigger,
    DeltaTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    Evictor,
    GlobalWindow,
    GlobalWindows,
    MergingWindowAssigner,
    ProcessingTimeoutTrigger,
    ProcessingTimeSessionWindows,
    PurgingTrigger,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TimeEvictor,
    TimeWindow,
    TimeWindowSerializer,
    Trigger,
    TriggerResult,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    Window,
    WindowAssigner,
)

MAX = (1 << 63) - 1
LATE = OutputTag("late")


class Numbers(ProcessWindowFunction):
    """(key, start, end, numbers)"""

    def process(self, key: Any, context: Any, elements: Any) -> Any:
        window = context.window()
        yield key, window.start, window.end, [element[1] for element in elements]


class Values(WindowFunction):
    def apply(self, key: Any, window: Any, inputs: Any) -> Any:
        return [(key, [value[1] for value in inputs])]


class Collect(AggregateFunction):
    def create_accumulator(self) -> list[int]:
        return []

    def add(self, value: Any, accumulator: list[int]) -> list[int]:
        return [*accumulator, value[1]]

    def get_result(self, accumulator: list[int]) -> Any:
        return accumulator

    def merge(self, a: list[int], b: list[int]) -> list[int]:
        return a + b


def ms(millis: int) -> Time:
    return Time.milliseconds(millis)


def add(a: Any, b: Any) -> Any:
    return a[0], a[1] + b[1]


def of(*numbers: int) -> list[Any]:
    return [("a", number) for number in numbers]


# -- lateness ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_late_records_are_dropped_and_counted(backend: str) -> None:
    h = harness(lambda keyed: keyed.window(TumblingEventTimeWindows.of(ms(10))).process(Numbers()), backend)
    h.watermark(9)
    h.process(of(1, 2, 3), [5, 10, 9])
    h.watermark(19)
    assert h.output.rows == [("a", 10, 20, [2])]
    assert h.late_dropped() == 2


@pytest.mark.parametrize("method", ["sum", "max_by"])
@pytest.mark.parametrize("slide", [5, 10])
def test_a_whole_batch_may_be_late(slide: int, method: str) -> None:
    windows = SlidingEventTimeWindows.of(ms(10), ms(slide))
    h = harness(lambda keyed: getattr(keyed.window(windows), method)(1))
    h.watermark(100)
    h.process(of(1, 2), [5, 80])
    h.process(of(7), [200])
    h.watermark(1_000)
    assert set(h.output.rows) == {("a", 7)}
    assert h.late_dropped() == 2


def test_late_records_go_to_the_side_output_with_their_timestamps() -> None:
    h = harness(
        lambda keyed: keyed.window(TumblingEventTimeWindows.of(ms(10))).side_output_late_data(LATE).reduce(add),
        side_tags=("late",),
    )
    h.watermark(9)
    h.process(of(1, 2, 3), [5, 10, 9])
    assert list(zip(h.side["late"].rows, h.side["late"].timestamps)) == [(("a", 1), 5), (("a", 3), 9)]
    assert h.late_dropped() == 0


@pytest.mark.parametrize("backend", BACKENDS)
def test_each_record_within_the_lateness_fires_its_window_again(backend: str) -> None:
    windows = TumblingEventTimeWindows.of(ms(10))
    h = harness(lambda keyed: keyed.window(windows).allowed_lateness(5).process(Numbers()), backend)
    h.process(of(1), [3])
    h.watermark(9)
    assert h.take() == [("a", 0, 10, [1])]
    h.process(of(2, 30, 3), [4, 12, 5])
    assert h.take() == [("a", 0, 10, [1, 2]), ("a", 0, 10, [1, 2, 3])]
    h.watermark(13)
    h.process(of(4), [9])
    assert h.take() == [("a", 0, 10, [1, 2, 3, 4])]
    h.watermark(14)
    h.process(of(5), [9])
    assert h.take() == []
    assert h.late_dropped() == 1


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "windows", [TumblingEventTimeWindows.of(ms(10)), EventTimeSessionWindows.with_gap(ms(10))], ids=["fixed", "session"]
)
def test_a_window_may_be_kept_forever(windows: Any, backend: str) -> None:
    h = harness(lambda keyed: keyed.window(windows).allowed_lateness(MAX).reduce(add), backend)
    h.process(of(1, 2), [0, 0])
    h.watermark(1_000_000)
    h.process(of(3), [0])
    assert h.output.rows == [("a", 3), ("a", 6)]
    h.watermark(MAX)
    assert h.late_dropped() == 0


def test_a_record_without_windows_is_late_only_by_its_own_time() -> None:
    h = harness(lambda keyed: keyed.window(SlidingEventTimeWindows.of(ms(3), ms(10))).process(Numbers()))
    h.watermark(15)
    h.process(of(1, 2, 3), [18, 15, 16])
    h.watermark(100)
    assert h.output.rows == []
    assert h.late_dropped() == 1


def test_a_late_record_may_extend_a_session_that_is_not_over() -> None:
    h = harness(lambda keyed: keyed.window(EventTimeSessionWindows.with_gap(ms(5))).process(Numbers()))
    h.process(of(1), [10])
    h.watermark(12)
    h.process(of(2, 3), [6, 0])
    h.watermark(100)
    assert h.output.rows == [("a", 6, 15, [1, 2])]
    assert h.late_dropped() == 1


def test_a_record_without_a_timestamp_is_an_error_that_says_what_to_do() -> None:
    for windows in (TumblingEventTimeWindows.of(ms(10)), EventTimeSessionWindows.with_gap(ms(5))):
        for times in (None, [5, -(1 << 63)]):
            h = harness(lambda keyed, windows=windows: keyed.window(windows).reduce(add))
            with pytest.raises(FunctionError, match="did you forget to call"):
                h.process(of(1, 2), times)


# -- triggers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_count_trigger_fires_with_every_nth_record_inside_a_batch(backend: str) -> None:
    windows = TumblingEventTimeWindows.of(ms(100))
    h = harness(lambda keyed: keyed.window(windows).trigger(CountTrigger.of(2)).aggregate(Collect()), backend)
    h.process([*of(1, 2, 3), ("b", 7), *of(4, 5)], [1, 2, 3, 4, 5, 6])
    assert h.take() == [[1, 2], [1, 2, 3, 4]]
    h.watermark(1_000)
    assert h.take() == [], "the trigger does not depend on time"
    assert h.operator.backend.num_entries() == 0


class Growing(Collect):
    """Returns its accumulator as the result, and changes it in place."""

    def add(self, value: Any, accumulator: list[int]) -> list[int]:
        accumulator.append(value[1])
        return accumulator


@pytest.mark.parametrize(
    "windows",
    [TumblingEventTimeWindows.of(ms(100)), EventTimeSessionWindows.with_gap(ms(50))],
    ids=["fixed", "session"],
)
@pytest.mark.parametrize("trigger", [CountTrigger.of(1), EventTimeTrigger()], ids=["count", "event time"])
def test_a_result_does_not_change_when_its_accumulator_changes(trigger: Any, windows: Any) -> None:
    h = harness(lambda keyed: keyed.window(windows).trigger(trigger).allowed_lateness(500).aggregate(Growing()))
    h.process(of(1, 2), [1, 2])
    h.watermark(200)
    h.process(of(3, 4), [3, 4])
    every = [[1], [1, 2], [1, 2, 3], [1, 2, 3, 4]]
    assert h.output.rows == (every if isinstance(trigger, CountTrigger) else every[1:])


def test_a_purging_trigger_clears_fired_windows() -> None:
    trigger = PurgingTrigger.of(CountTrigger.of(2))
    h = harness(lambda keyed: keyed.window(GlobalWindows.create()).trigger(trigger).apply(Values()))
    h.process(of(1, 2, 3, 4, 5))
    assert h.results() == [(("a", [1, 2]), MAX), (("a", [3, 4]), MAX)]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_continuous_trigger_fires_at_intervals_and_at_the_end(backend: str) -> None:
    windows = TumblingEventTimeWindows.of(ms(100))
    trigger = ContinuousEventTimeTrigger.of(ms(30))
    h = harness(lambda keyed: keyed.window(windows).trigger(trigger).aggregate(Collect()), backend)
    h.process(of(1), [40])
    h.watermark(59)
    assert h.take() == []
    h.watermark(60)
    assert h.take() == [[1]]
    h.process(of(2), [70])
    h.watermark(200)
    assert h.take() == [[1, 2], [1, 2]], "at 90 and at 99"
    assert h.operator.backend.num_entries() == 0


def test_a_continuous_processing_time_trigger_fires_at_intervals() -> None:
    windows = TumblingProcessingTimeWindows.of(ms(100))
    trigger = ContinuousProcessingTimeTrigger.of(ms(30))
    h = harness(lambda keyed: keyed.window(windows).trigger(trigger).aggregate(Collect()))
    h.process(of(1))  # at 1000
    h.advance(25)
    assert h.take() == [[1]], "at 1020, a multiple of 30"
    h.advance(200)
    assert len(h.take()) == 3, "at 1050, 1080 and at the end, 1099"
    assert h.operator.backend.num_entries() == 0


def test_continuous_sessions_merge_when_they_fire_next() -> None:
    windows = EventTimeSessionWindows.with_gap(ms(20))
    trigger = ContinuousEventTimeTrigger.of(ms(10))
    h = harness(lambda keyed: keyed.window(windows).trigger(trigger).process(Numbers()))
    h.process(of(1, 2), [5, 40])
    h.process(of(3), [22])
    h.watermark(10)
    assert h.take() == [("a", 5, 60, [1, 2, 3])]


def test_a_delta_trigger_fires_if_records_differ_enough() -> None:
    trigger = DeltaTrigger.of(5, lambda old, new: new[1] - old[1])
    h = harness(lambda keyed: keyed.window(GlobalWindows.create()).trigger(trigger).apply(Values()))
    h.process(of(1, 6, 7, 8, 13, 14))
    assert h.output.rows == [("a", [1, 6, 7]), ("a", [1, 6, 7, 8, 13])]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_timeout_trigger_fires_if_no_record_came_in_time(backend: str) -> None:
    trigger = ProcessingTimeoutTrigger.of(CountTrigger.of(3), ms(50))
    h = harness(lambda keyed: keyed.window(GlobalWindows.create()).trigger(trigger).apply(Values()), backend)
    h.process(of(1))
    h.advance(40)
    h.process(of(2))
    h.advance(11)
    assert h.take() == [("a", [1, 2])]
    h.process(of(3))
    assert h.take() == [], "the timeout cleared the count"
    h.process(of(4, 5))
    assert h.take() == [("a", [1, 2, 3, 4, 5])]


def test_a_timeout_may_restart_with_each_record() -> None:
    trigger = ProcessingTimeoutTrigger.of(
        PurgingTrigger.of(CountTrigger.of(100)), ms(50), reset_timer_on_new_record=True, should_clear_on_timeout=False
    )
    h = harness(lambda keyed: keyed.window(GlobalWindows.create()).trigger(trigger).apply(Values()))
    h.process(of(1))
    h.advance(40)
    h.process(of(2))
    h.advance(40)
    assert h.take() == []
    h.advance(11)
    assert h.take() == [("a", [1, 2])]


class EveryRecord(Trigger):
    """Emits its arguments."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> TriggerResult:
        self.seen.append((element, timestamp, window, ctx.get_current_watermark(), ctx.get_current_processing_time()))
        ctx.get_metric_group().counter("elements").inc()
        return TriggerResult.PURGE if element[1] < 0 else TriggerResult.FIRE

    def on_processing_time(self, time: int, window: Any, ctx: Any) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: Any) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_merge(self, window: Any, ctx: Any) -> None:
        raise AssertionError("these windows do not merge")

    def clear(self, window: Any, ctx: Any) -> None:
        self.seen.append(("clear", window))


def test_a_trigger_of_the_program_sees_every_record() -> None:
    trigger = EveryRecord()
    h = harness(lambda keyed: keyed.window(TumblingEventTimeWindows.of(ms(10))).trigger(trigger).aggregate(Collect()))
    trigger = h.operator.spec.trigger
    h.watermark(-5)
    h.process([("a", 1), ("b", 2), ("a", -3), ("a", 4)], [1, 2, 3, 12])
    assert h.output.rows == [[1], [2], [4]]
    window = TimeWindow(0, 10)
    assert trigger.seen == [
        (("a", 1), 1, window, -5, 1_000),
        (("b", 2), 2, window, -5, 1_000),
        (("a", -3), 3, window, -5, 1_000),
        (("a", 4), 12, TimeWindow(10, 20), -5, 1_000),
    ]
    assert h.context.metrics.counter("elements").get_count() == 4
    trigger.seen.clear()
    h.watermark(9)
    assert trigger.seen == [("clear", window), ("clear", window)]


class StatefulMerging(EventTimeTrigger):
    """Has mergeable state of every kind, which decides when it fires."""

    LISTED = ListStateDescriptor("listed", Types.INT())
    REDUCED = ReducingStateDescriptor("reduced", lambda a, b: a + b, Types.INT())
    AGGREGATED = AggregatingStateDescriptor("aggregated", Collect(), Types.PICKLED_BYTE_ARRAY())

    def __init__(self) -> None:
        self.merged: dict[Any, Any] = {}

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> TriggerResult:
        super().on_element(element, timestamp, window, ctx)
        ctx.get_partitioned_state(self.LISTED).add(element[1])
        ctx.get_partitioned_state(self.REDUCED).add(element[1])
        ctx.get_partitioned_state(self.AGGREGATED).add(element)
        return TriggerResult.CONTINUE

    def on_merge(self, window: Any, ctx: Any) -> None:
        for descriptor in (self.LISTED, self.REDUCED, self.AGGREGATED):
            ctx.merge_partitioned_state(descriptor)
        super().on_merge(window, ctx)

    def on_event_time(self, time: int, window: Any, ctx: Any) -> TriggerResult:
        merged = (
            list(ctx.get_partitioned_state(self.LISTED).get()),
            ctx.get_partitioned_state(self.REDUCED).get(),
            ctx.get_partitioned_state(self.AGGREGATED).get(),
        )
        self.merged[window.start, window.end] = merged
        return super().on_event_time(time, window, ctx)

    def clear(self, window: Any, ctx: Any) -> None:
        for descriptor in (self.LISTED, self.REDUCED, self.AGGREGATED):
            ctx.get_partitioned_state(descriptor).clear()
        super().clear(window, ctx)


class MergingValue(StatefulMerging):
    LISTED = ValueStateDescriptor("value", Types.INT())  # type: ignore[assignment]

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> TriggerResult:
        return EventTimeTrigger.on_element(self, element, timestamp, window, ctx)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_state_of_triggers_is_merged_with_windows(backend: str) -> None:
    windows = EventTimeSessionWindows.with_gap(ms(5))
    h = harness(lambda keyed: keyed.window(windows).trigger(StatefulMerging()).process(Numbers()), backend)
    h.process([*of(1, 2), ("b", 9), *of(4), *of(3)], [0, 8, 0, 30, 4])
    h.watermark(20)
    assert h.take() == [("b", 0, 5, [9]), ("a", 0, 13, [1, 2, 3])]
    assert h.operator.spec.trigger.merged[0, 13] == ([1, 2, 3], 6, [1, 2, 3])
    h.watermark(100)
    assert h.take() == [("a", 30, 35, [4])]
    assert h.operator.backend.num_entries() == 0


def test_value_state_of_a_trigger_cannot_be_merged() -> None:
    windows = EventTimeSessionWindows.with_gap(ms(5))
    h = harness(lambda keyed: keyed.window(windows).trigger(MergingValue()).process(Numbers()))
    with pytest.raises(UnsupportedOperationError, match="does not refer to a mergeable state"):
        h.process(of(1, 2), [0, 3])


# -- processing time ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_processing_time_windows_end_by_the_clock(backend: str) -> None:
    h = harness(lambda keyed: keyed.window(TumblingProcessingTimeWindows.of(ms(100))).process(Numbers()), backend)
    h.process(of(1, 2))  # at 1000
    h.advance(50)
    h.process(of(3))
    h.watermark(MAX)
    assert h.output.rows == [], "watermarks do not matter"
    h.advance(49)
    assert h.output.rows == [], "a timer is due when its ms is over"
    h.advance(1)
    assert h.results() == [(("a", 1_000, 1_100, [1, 2, 3]), 1_099)]
    h.process(of(4), [7])
    h.advance(101)
    assert h.late_dropped() == 0
    assert h.operator.backend.num_entries() == 0


def test_sliding_and_session_windows_work_in_processing_time() -> None:
    h = harness(lambda keyed: keyed.window(SlidingProcessingTimeWindows.of(ms(100), ms(50))).aggregate(Collect()))
    h.process(of(1))
    h.advance(100)
    assert h.output.rows == [[1], [1]]
    h = harness(lambda keyed: keyed.window(ProcessingTimeSessionWindows.with_gap(ms(20))).process(Numbers()))
    h.process(of(1))
    h.advance(15)
    h.process(of(2))
    h.advance(15)
    h.process([("b", 3)])
    h.advance(100)
    assert h.output.rows == [("a", 1_000, 1_035, [1, 2]), ("b", 1_030, 1_050, [3])]
    assert h.operator.backend.num_entries() == 0


# -- count windows -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_count_windows_are_per_key(backend: str) -> None:
    h = harness(lambda keyed: keyed.count_window(2).apply(Values()), backend)
    h.process([*of(1), ("b", 9), *of(2, 3, 4, 5)])
    assert h.output.rows == [("a", [1, 2]), ("a", [3, 4])]


def test_sliding_count_windows_start_every_slide() -> None:
    h = harness(lambda keyed: keyed.count_window(3, 2).apply(Values()))
    h.process(of(1, 2, 3, 4, 5, 6, 7))
    assert h.output.rows == [("a", [1, 2, 3]), ("a", [3, 4, 5]), ("a", [5, 6, 7])]
    h = harness(lambda keyed: keyed.count_window(2, 3).apply(Values()))
    h.process(of(1, 2, 3, 4, 5, 6, 7, 8))
    assert h.output.rows == [("a", [1, 2]), ("a", [4, 5]), ("a", [7, 8])]


def test_a_fired_count_window_keeps_only_its_count() -> None:
    h = harness(lambda keyed: keyed.count_window(2).apply(Values()))
    h.process(of(*range(100)))
    assert h.operator.backend.num_entries() == 1


# -- functions and their contexts --------------------------------------------------------------------------------------


class Contextual(ProcessWindowFunction):
    def open(self, runtime_context: Any) -> None:
        self.opened = runtime_context.get_state(ValueStateDescriptor("opened", Types.INT()))

    def process(self, key: Any, context: Any, elements: Any) -> Any:
        fired = context.window_state().get_state(ValueStateDescriptor("n", Types.INT()))
        fired.update((fired.value() or 0) + 1)
        entries = context.window_state().get_map_state(MapStateDescriptor("m", Types.INT(), Types.INT()))
        entries.put(fired.value(), len(elements))
        # The same name, but of the key.
        total = context.global_state().get_state(ValueStateDescriptor("n", Types.INT()))
        total.update((total.value() or 0) + 1)
        self.opened.update((self.opened.value() or 0) + 1)
        assert self.opened.value() == total.value()
        yield LATE, (key, "tagged")
        context.output(LATE, (key, "by context"))
        yield key, context.window().start, fired.value(), sorted(entries.items()), total.value()
        yield context.current_watermark(), context.current_processing_time()

    def clear(self, context: Any) -> None:
        context.window_state().get_state(ValueStateDescriptor("n", Types.INT())).clear()
        context.window_state().get_map_state(MapStateDescriptor("m", Types.INT(), Types.INT())).clear()
        context.output(LATE, ("cleared", context.window().start))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_process_window_function_has_window_state_key_state_and_side_outputs(backend: str) -> None:
    h = harness(
        lambda keyed: keyed.window(TumblingEventTimeWindows.of(ms(10))).allowed_lateness(5).process(Contextual()),
        backend,
        ("late",),
    )
    h.process([*of(1), ("b", 1), *of(2)], [1, 2, 11])
    h.watermark(9)
    h.process(of(3), [4])
    h.watermark(1_000)
    rows = [row for row in h.output.rows if len(row) == 5]
    assert sorted(rows) == [
        ("a", 0, 1, [(1, 1)], 1),
        ("a", 0, 2, [(1, 1), (2, 2)], 2),
        ("a", 10, 1, [(1, 1)], 3),
        ("b", 0, 1, [(1, 1)], 1),
    ]
    assert h.output.rows[1] == (9, 1_000)
    tagged = h.side["late"].rows
    assert tagged.count(("a", "tagged")) == tagged.count(("a", "by context")) == 3
    assert sorted(row for row in tagged if row[0] == "cleared") == [("cleared", 0), ("cleared", 0), ("cleared", 10)]
    left = set(h.operator.backend.keys("n"))
    assert left == {"a", "b"}
    assert h.operator.backend.num_entries() == 4, "two states of two keys"


def test_merging_windows_have_no_per_window_state() -> None:
    h = harness(lambda keyed: keyed.window(EventTimeSessionWindows.with_gap(ms(5))).process(Contextual()))
    h.process(of(1), [1])
    with pytest.raises(UnsupportedOperationError, match="not allowed when using merging windows"):
        h.watermark(100)


class CountAll(AllWindowFunction):
    def apply(self, window: Any, inputs: Any) -> Any:
        return [(window.start, len(inputs))]


class NumbersAll(ProcessAllWindowFunction):
    def process(self, context: Any, elements: Any) -> Any:
        state = context.window_state().get_list_state(ListStateDescriptor("l", Types.INT()))
        state.add(1)
        assert context.global_state() is not None
        return [(context.window().start, list(elements), list(state.get()))]

    def clear(self, context: Any) -> None:
        context.window_state().get_list_state(ListStateDescriptor("l", Types.INT())).clear()


def test_window_functions_work_on_streams_without_keys() -> None:
    windows = stream().window_all(TumblingEventTimeWindows.of(ms(10)))
    for result, expected in (
        (windows.apply(CountAll()), [(0, 2), (10, 1)]),
        (windows.process(NumbersAll()), [(0, [("a", 1), ("b", 2)], [1]), (10, [("a", 3)], [1])]),
        (windows.reduce(add, NumbersAll()), [(0, [("a", 3)], [1]), (10, [("a", 3)], [1])]),
        (windows.aggregate(Collect()), [[1, 2], [3]]),
        (windows.aggregate(Collect(), CountAll()), [(0, 1), (10, 1)]),
        (windows.min_by(1), [("a", 1), ("a", 3)]),
    ):
        h = WindowHarness(spec_of(result))
        h.process([("a", 1), ("b", 2), ("a", 3)], [1, 2, 11])
        h.watermark(100)
        assert h.output.rows == expected
        assert h.operator.backend.num_entries() == 0


@pytest.mark.parametrize("backend", BACKENDS)
def test_windows_support_field_aggregations(backend: str) -> None:
    expected = {"sum": ("a", 9), "min": ("a", 1), "max": ("a", 5), "min_by": ("a", 1), "max_by": ("a", 5)}
    for method, result in expected.items():
        h = harness(
            lambda keyed, method=method: getattr(keyed.window(TumblingEventTimeWindows.of(ms(10))), method)(1), backend
        )
        h.process(of(3, 1), [1, 2])
        h.process(of(5), [3])
        h.watermark(100)
        assert h.output.rows == [result]


class Nothing(Collect):
    """Returns None for an odd number of records."""

    def get_result(self, accumulator: Any) -> Any:
        return None if len(accumulator) % 2 else accumulator


@pytest.mark.parametrize("trigger", [EventTimeTrigger(), PurgingTrigger.of(EventTimeTrigger())])
def test_a_result_of_none_is_not_emitted(trigger: Any) -> None:
    h = harness(lambda keyed: keyed.window(TumblingEventTimeWindows.of(ms(10))).trigger(trigger).aggregate(Nothing()))
    h.process([*of(1, 2), ("b", 1)], [1, 2, 3])
    h.watermark(100)
    assert h.output.rows == [[1, 2]]


class Opened(ReduceFunction):
    def open(self, runtime_context: Any) -> None:
        self.calls = runtime_context.get_state(ValueStateDescriptor("calls", Types.INT()))

    def reduce(self, value1: Any, value2: Any) -> Any:
        self.calls.update((self.calls.value() or 0) + 1)
        return value1[0], value1[1] + value2[1], self.calls.value()


def test_a_reduce_function_with_open_may_use_keyed_state() -> None:
    h = harness(lambda keyed: keyed.window(TumblingEventTimeWindows.of(ms(10))).reduce(Opened()))
    h.process([*of(1, 2), ("b", 1), *of(3), ("b", 2)], [1, 2, 3, 4, 5])
    h.watermark(100)
    assert sorted(h.output.rows) == [("a", 6, 2), ("b", 3, 1)]


class Failing(Collect):
    def add(self, value: Any, accumulator: Any) -> Any:
        raise ZeroDivisionError("in the middle")


def test_an_error_of_a_function_names_the_operator() -> None:
    h = harness(lambda keyed: keyed.window(TumblingEventTimeWindows.of(ms(10))).aggregate(Failing()))
    with pytest.raises(FunctionError, match="operator WindowSpec: ZeroDivisionError: in the middle"):
        h.process(of(1), [1])


# -- evictors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_evictor_removes_records_permanently(backend: str) -> None:
    trigger = CountTrigger.of(2)
    h = harness(
        lambda keyed: keyed.window(GlobalWindows.create()).trigger(trigger).evictor(CountEvictor.of(3)).apply(Values()),
        backend,
    )
    h.process(of(1, 2, 3, 4, 5, 6))
    assert h.output.rows == [("a", [1, 2]), ("a", [2, 3, 4]), ("a", [4, 5, 6])]
    assert h.operator.contents.state.table if backend == "hashmap" else True


def test_evictors_see_the_timestamps_of_records() -> None:
    windows = TumblingEventTimeWindows.of(ms(100))
    h = harness(lambda keyed: keyed.window(windows).evictor(TimeEvictor.of(ms(10))).aggregate(Collect()))
    h.process(of(1, 2, 3), [85, 99, 92])
    h.watermark(100)
    assert h.results() == [([2, 3], 99)]


class Own(Evictor):
    def evict_before(self, elements: Any, size: int, window: Any, ctx: Any) -> None:
        assert size == len(elements)
        assert isinstance(window, GlobalWindow)
        ctx.get_metric_group().counter("evictions").inc()
        assert ctx.get_current_processing_time() == 1_000
        assert ctx.get_current_watermark() < 0
        for element in list(elements):
            if element.value[1] % 2:
                elements.remove(element)

    def evict_after(self, elements: Any, size: int, window: Any, ctx: Any) -> None:
        assert size == len(elements)
        del elements[0]


def test_an_evictor_of_the_program_acts_before_and_after() -> None:
    trigger = CountTrigger.of(3)
    h = harness(lambda keyed: keyed.window(GlobalWindows.create()).trigger(trigger).evictor(Own()).reduce(add))
    h.process(of(1, 2, 4, 6, 7, 8))
    assert h.output.rows == [("a", 6), ("a", 18)]
    assert h.context.metrics.counter("evictions").get_count() == 2


# -- windows of the program's own --------------------------------------------------------------------------------------


class Letter(Window):
    def __init__(self, letter: str) -> None:
        self.letter = letter

    def max_timestamp(self) -> int:
        return MAX

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Letter) and other.letter == self.letter

    def __hash__(self) -> int:
        return hash(self.letter)


class ByLetter(WindowAssigner):
    def assign_windows(self, element: Any, timestamp: int, context: Any) -> Any:
        assert timestamp == -(1 << 63), "as Flink marks records without a timestamp"
        return [Letter(letter) for letter in element[2]]

    def get_default_trigger(self, env: Any) -> Any:
        return CountTrigger.of(2)

    def get_window_serializer(self) -> Any:
        raise NotImplementedError

    def is_event_time(self) -> bool:
        return False


class Letters(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        yield key, context.window().letter, [element[1] for element in elements]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_program_may_define_its_own_windows(backend: str) -> None:
    h = harness(lambda keyed: keyed.window(ByLetter()).process(Letters()), backend)
    h.process([("a", 1, "xy"), ("a", 2, "x"), ("b", 3, "y"), ("a", 4, "zy")])
    assert h.output.rows == [("a", "x", [1, 2]), ("a", "y", [1, 4])]


class Backwards(MergingWindowAssigner):
    """Merges into a window that is over already."""

    def assign_windows(self, element: Any, timestamp: int, context: Any) -> Any:
        return [TimeWindow(timestamp, timestamp + 5)]

    def merge_windows(self, windows: Any, callback: Any) -> None:
        merged = list(windows)
        if len(merged) > 1:
            callback.merge(merged, TimeWindow(0, 1))

    def get_default_trigger(self, env: Any) -> Any:
        return EventTimeTrigger()

    def get_window_serializer(self) -> Any:
        return TimeWindowSerializer()

    def is_event_time(self) -> bool:
        return True


def test_merging_cannot_end_a_window_in_the_past() -> None:
    h = harness(lambda keyed: keyed.window(Backwards()).process(Numbers()))
    h.watermark(10)
    with pytest.raises(UnsupportedOperationError, match="cannot become earlier than the current watermark by merging"):
        h.process(of(1, 2), [11, 12])


def test_a_window_that_is_added_again_keeps_its_state() -> None:
    """A short window and a longer one of the same start: the longer has the state of the shorter."""
    from flinkpy.datastream.window import SessionWindowTimeGapExtractor

    class Gap(SessionWindowTimeGapExtractor):
        def extract(self, element: Any) -> int:
            return int(element[1])

    h = harness(lambda keyed: keyed.window(EventTimeSessionWindows.with_dynamic_gap(Gap())).process(Numbers()))
    h.process(of(5, 10, 10), [0, 0, 0])
    h.watermark(100)
    assert h.output.rows == [("a", 0, 10, [5, 10, 10])]
