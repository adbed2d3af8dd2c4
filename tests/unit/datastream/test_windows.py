"""Windows, assigners, evictors and the operations of windowed streams, as programs see them."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import pytest

from flinkpy.common.time import Duration, Time
from flinkpy.common.typeinfo import Types
from flinkpy.common.watermark_strategy import WatermarkStrategy
from flinkpy.connector_api.source import Boundedness, SourceBase
from flinkpy.datastream import OutputTag, StreamExecutionEnvironment
from flinkpy.datastream.functions import AggregateFunction, AllWindowFunction, ProcessWindowFunction, WindowFunction
from flinkpy.datastream.window import (
    CountEvictor,
    CountSlidingWindowAssigner,
    CountTrigger,
    CountTumblingWindowAssigner,
    CountWindow,
    CountWindowSerializer,
    DeltaEvictor,
    DynamicEventTimeSessionWindows,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindow,
    GlobalWindows,
    GlobalWindowSerializer,
    NeverTrigger,
    ProcessingTimeSessionWindows,
    ProcessingTimeTrigger,
    PurgingTrigger,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TimeEvictor,
    TimestampedValue,
    TimeWindow,
    TimeWindowSerializer,
    TriggerResult,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
)
from flinkpy.datastream.windowed_stream import AllWindowedStream, WindowedStream

MIN = -(1 << 63)
MAX = (1 << 63) - 1


class FixedClock(WindowAssigner.WindowAssignerContext):
    def __init__(self, now: int = 0) -> None:
        self.now = now

    def get_current_processing_time(self) -> int:
        return self.now

    def get_runtime_context(self) -> Any:
        raise AssertionError("no state")


def bounds(windows: Any) -> list[tuple[int, int]]:
    return [(window.start, window.end) for window in windows]


def ms(millis: int) -> Time:
    return Time.milliseconds(millis)


# -- windows -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("timestamp", "offset", "size", "start"),
    [
        *[(0, 0, 10, 0), (9, 0, 10, 0), (10, 0, 10, 10), (-1, 0, 10, -10), (-10, 0, 10, -10), (-11, 0, 10, -20)],
        *[(2, 3, 10, -7), (3, 3, 10, 3), (0, -4, 10, -4), (6, -4, 10, 6), (-5, -4, 10, -14)],
    ],
)
def test_window_starts_are_aligned_before_and_after_the_epoch(
    timestamp: int, offset: int, size: int, start: int
) -> None:
    assert TimeWindow.get_window_start_with_offset(timestamp, offset, size) == start


def test_time_windows_compare_by_start_and_end() -> None:
    assert TimeWindow(1, 5) == TimeWindow(1, 5)
    assert hash(TimeWindow(1, 5)) == hash(TimeWindow(1, 5))
    assert TimeWindow(1, 5) != CountWindow(1)
    assert TimeWindow(1, 5) < TimeWindow(1, 6) < TimeWindow(2, 3)
    assert TimeWindow(1, 5) <= TimeWindow(1, 5)
    assert TimeWindow(1, 5).max_timestamp() == 4
    assert TimeWindow(1, 5).intersects(TimeWindow(5, 6))
    assert not TimeWindow(1, 5).intersects(TimeWindow(6, 7))
    assert TimeWindow(1, 5).cover(TimeWindow(4, 9)) == TimeWindow(1, 9)
    assert repr(TimeWindow(1, 5)) == "TimeWindow(start=1, end=5)"
    with pytest.raises(TypeError, match="non-TimeWindow"):
        _ = TimeWindow(1, 5) < CountWindow(1)  # type: ignore[operator]


def test_windows_that_touch_are_merged() -> None:
    merged = []

    class Callback:
        def merge(self, to_be_merged: Any, merge_result: Any) -> None:
            merged.append((bounds(to_be_merged), (merge_result.start, merge_result.end)))

    windows = [TimeWindow(20, 25), TimeWindow(0, 5), TimeWindow(5, 9), TimeWindow(40, 41), TimeWindow(24, 30)]
    TimeWindow.merge_windows(windows, Callback())  # type: ignore[arg-type]
    assert merged == [([(0, 5), (5, 9)], (0, 9)), ([(20, 25), (24, 30)], (20, 30))]


def test_count_and_global_windows_never_end() -> None:
    assert CountWindow(3) == CountWindow(3) != CountWindow(4)
    assert GlobalWindow.get() == GlobalWindow() and hash(GlobalWindow()) == 0
    assert CountWindow(3).max_timestamp() == GlobalWindow().max_timestamp() == MAX
    assert (repr(CountWindow(3)), repr(GlobalWindow())) == ("CountWindow(id=3)", "GlobalWindow")


@pytest.mark.parametrize(
    ("serializer", "window"),
    [
        (TimeWindowSerializer(), TimeWindow(-5, 7)),
        (CountWindowSerializer(), CountWindow(9)),
        (GlobalWindowSerializer(), GlobalWindow()),
    ],
)
def test_window_serializers_read_their_own_output(serializer: Any, window: Any) -> None:
    stream = BytesIO()
    serializer.serialize(window, stream)
    serializer.serialize(window, stream)
    stream.seek(0)
    assert serializer.deserialize(stream) == window == serializer.deserialize(stream)
    assert stream.read() == b""


# -- assigners ---------------------------------------------------------------------------------------------------------


def test_tumbling_windows_start_at_their_offset() -> None:
    assigner = TumblingEventTimeWindows.of(ms(10), ms(3))
    assert bounds(assigner.assign_windows("x", 2, FixedClock())) == [(-7, 3)]
    assert bounds(assigner.assign_windows("x", 3, FixedClock())) == [(3, 13)]
    assert repr(assigner) == "TumblingEventTimeWindows(10, 3)"
    assert isinstance(assigner.get_default_trigger(None), EventTimeTrigger)
    assert isinstance(assigner.get_window_serializer(), TimeWindowSerializer)
    assert assigner.is_event_time()


def test_sliding_windows_come_latest_first_and_reach_below_zero() -> None:
    assigner = SlidingEventTimeWindows.of(ms(10), ms(4))
    assert bounds(assigner.assign_windows("x", 1, FixedClock())) == [(0, 10), (-4, 6), (-8, 2)]
    assert bounds(assigner.assign_windows("x", 2, FixedClock())) == [(0, 10), (-4, 6)]
    sparse = SlidingEventTimeWindows.of(ms(3), ms(10))
    assert bounds(sparse.assign_windows("x", 2, FixedClock())) == [(0, 3)]
    assert sparse.assign_windows("x", 3, FixedClock()) == []


def test_processing_time_windows_use_the_clock() -> None:
    clock = FixedClock(1_234)
    assert bounds(TumblingProcessingTimeWindows.of(ms(100)).assign_windows("x", 7, clock)) == [(1_200, 1_300)]
    sliding = SlidingProcessingTimeWindows.of(ms(100), ms(50), ms(10))
    assert bounds(sliding.assign_windows("x", 7, clock)) == [(1_210, 1_310), (1_160, 1_260)]
    assert bounds(ProcessingTimeSessionWindows.with_gap(ms(5)).assign_windows("x", 7, clock)) == [(1_234, 1_239)]
    for assigner in (sliding, ProcessingTimeSessionWindows.with_gap(ms(5))):
        assert not assigner.is_event_time()
        assert isinstance(assigner.get_default_trigger(None), ProcessingTimeTrigger)


class Gap(SessionWindowTimeGapExtractor):
    def extract(self, element: int) -> int:
        return element


def test_sessions_have_a_fixed_gap_or_one_per_record() -> None:
    assert bounds(EventTimeSessionWindows.with_gap(ms(5)).assign_windows(3, 7, FixedClock())) == [(7, 12)]
    dynamic = EventTimeSessionWindows.with_dynamic_gap(Gap())
    assert isinstance(dynamic, DynamicEventTimeSessionWindows)
    assert bounds(dynamic.assign_windows(3, 7, FixedClock())) == [(7, 10)]
    with pytest.raises(ValueError, match="Dynamic session time gap must satisfy 0 < gap"):
        dynamic.assign_windows(0, 7, FixedClock())
    with pytest.raises(ValueError, match="EventTimeSessionWindows parameters must satisfy 0 < size"):
        EventTimeSessionWindows.with_gap(ms(0))


@pytest.mark.parametrize(
    "assigner",
    [
        TumblingEventTimeWindows.of(ms(5)),
        SlidingEventTimeWindows.of(ms(5), ms(5)),
        EventTimeSessionWindows.with_gap(ms(5)),
        EventTimeSessionWindows.with_dynamic_gap(Gap()),
    ],
)
def test_an_event_time_window_needs_timestamps(assigner: Any) -> None:
    with pytest.raises(ValueError, match="did you forget to call"):
        assigner.assign_windows(1, MIN, FixedClock())


def test_lengths_may_be_durations() -> None:
    assert repr(TumblingEventTimeWindows.of(Duration.of_seconds(2))) == "TumblingEventTimeWindows(2000, 0)"
    with pytest.raises(TypeError, match="must be a Time or a Duration, not 10"):
        TumblingEventTimeWindows.of(10)  # type: ignore[arg-type]


def test_bad_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match=r"TumblingEventTimeWindows parameters must satisfy abs\(offset\) < size"):
        TumblingEventTimeWindows.of(ms(10), ms(10))
    with pytest.raises(ValueError, match="SlidingProcessingTimeWindows parameters must satisfy"):
        SlidingProcessingTimeWindows.of(ms(0), ms(10))
    with pytest.raises(ValueError, match="size of a count window must be a positive number"):
        CountTumblingWindowAssigner.of(0)
    with pytest.raises(ValueError, match="slide of a count window must be a positive number"):
        CountSlidingWindowAssigner.of(3, -1)


def test_global_windows_never_fire_by_themselves() -> None:
    assigner = GlobalWindows.create()
    assert list(assigner.assign_windows("x", 0, FixedClock())) == [GlobalWindow()]
    assert isinstance(assigner.get_default_trigger(None), NeverTrigger)


def test_trigger_results_have_the_meaning_of_flink() -> None:
    assert [(r.name, r.is_fire(), r.is_purge()) for r in TriggerResult] == [
        ("CONTINUE", False, False),
        ("FIRE_AND_PURGE", True, True),
        ("FIRE", True, False),
        ("PURGE", False, True),
    ]


# -- evictors ----------------------------------------------------------------------------------------------------------


def evicted(evictor: Any, values: list[tuple[Any, int | None]]) -> tuple[list[Any], list[Any]]:
    """Returns the records left after `evict_before`, and those left after `evict_after` of all records."""
    before = [TimestampedValue(value, time) for value, time in values]
    after = list(before)
    evictor.evict_before(before, len(before), GlobalWindow(), None)
    evictor.evict_after(after, len(after), GlobalWindow(), None)
    return [element.get_value() for element in before], [element.get_value() for element in after]


def test_evictors_keep_the_last_records_by_count_time_or_distance() -> None:
    values = [(1, 10), (9, 12), (4, 30), (5, 20)]
    everything = [1, 9, 4, 5]
    assert evicted(CountEvictor.of(3), values) == ([9, 4, 5], everything)
    assert evicted(CountEvictor.of(3, True), values) == (everything, [9, 4, 5])
    assert evicted(CountEvictor.of(9), values) == (everything, everything)
    assert evicted(TimeEvictor.of(ms(18)), values) == ([4, 5], everything)
    assert evicted(TimeEvictor.of(ms(18), True), values) == (everything, [4, 5])
    assert evicted(DeltaEvictor.of(4, lambda a, b: abs(a - b)), values) == ([4, 5], everything)
    assert evicted(DeltaEvictor.of(4, lambda a, b: abs(a - b), True), values) == (everything, [4, 5])


def test_a_time_evictor_keeps_records_without_timestamps() -> None:
    assert evicted(TimeEvictor.of(ms(1)), [(1, None), (2, None)])[0] == [1, 2]
    assert evicted(TimeEvictor.of(ms(1)), [])[0] == []


# -- windowed streams --------------------------------------------------------------------------------------------------


class Mean(AggregateFunction):
    def create_accumulator(self) -> Any:
        return 0, 0

    def add(self, value: Any, accumulator: Any) -> Any:
        return accumulator[0] + value[1], accumulator[1] + 1

    def get_result(self, accumulator: Any) -> Any:
        return accumulator[0] / accumulator[1]

    def merge(self, a: Any, b: Any) -> Any:
        return a[0] + b[0], a[1] + b[1]


class Listed(WindowFunction):
    def apply(self, key: Any, window: Any, inputs: Any) -> Any:
        return list(inputs)


class ListedAll(AllWindowFunction):
    def apply(self, window: Any, inputs: Any) -> Any:
        return list(inputs)


class Processed(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        return list(elements)


PAIR = Types.TUPLE([Types.STRING(), Types.INT()])


@pytest.fixture
def keyed() -> Any:
    env = StreamExecutionEnvironment.get_execution_environment()
    return env.from_collection([("a", 1)], PAIR).key_by(lambda value: value[0], Types.STRING())


def test_operations_declare_their_result_types(keyed: Any) -> None:
    windows = keyed.window(TumblingEventTimeWindows.of(ms(10)))
    assert isinstance(windows, WindowedStream)
    assert windows.get_input_type() == PAIR
    assert windows.get_execution_environment() is keyed.get_execution_environment()
    assert windows.reduce(lambda a, b: a).get_type() == PAIR
    assert windows.reduce(lambda a, b: a, Listed()).get_type() == Types.PICKLED_BYTE_ARRAY()
    assert windows.reduce(lambda a, b: a, Processed(), Types.INT()).get_type() == Types.INT()
    assert windows.aggregate(Mean()).get_type() == Types.PICKLED_BYTE_ARRAY()
    assert windows.aggregate(Mean(), output_type=Types.DOUBLE()).get_type() == Types.DOUBLE()
    assert windows.apply(Listed(), PAIR).get_type() == PAIR
    assert windows.max_by(1).get_type() == PAIR
    assert windows.sum("f1").get_type() == PAIR


def test_an_operator_is_named_for_its_windows(keyed: Any) -> None:
    result = keyed.window(TumblingEventTimeWindows.of(ms(10))).aggregate(Mean(), Listed())
    assert result.get_name() == "TumblingEventTimeWindows"
    assert result.transformation.description == (
        "Window(TumblingEventTimeWindows(10, 0), EventTimeTrigger, Mean, Listed)"
    )


def test_windows_of_a_whole_stream_have_one_subtask(keyed: Any) -> None:
    windows = keyed.window_all(TumblingEventTimeWindows.of(ms(10)))
    assert isinstance(windows, AllWindowedStream)
    result = windows.reduce(lambda a, b: a)
    assert result.transformation.parallelism == 1
    with pytest.raises(ValueError, match="must be 1"):
        result.set_parallelism(2)


def test_functions_of_the_wrong_kind_are_refused(keyed: Any) -> None:
    windows = keyed.window(TumblingEventTimeWindows.of(ms(10)))
    everything = keyed.window_all(TumblingEventTimeWindows.of(ms(10)))
    with pytest.raises(TypeError, match="window_function should be a WindowFunction or ProcessWindowFunction"):
        windows.reduce(lambda a, b: a, ListedAll())
    with pytest.raises(TypeError, match="window_function should be a AllWindowFunction or ProcessAllWindowFunction"):
        everything.aggregate(Mean(), Listed())
    with pytest.raises(TypeError, match="window_function should be a WindowFunction"):
        windows.apply(Processed())
    with pytest.raises(TypeError, match="process_window_function should be a ProcessAllWindowFunction"):
        everything.process(Processed())
    with pytest.raises(TypeError, match="aggregate_function should be an AggregateFunction"):
        windows.aggregate(lambda a, b: a)
    with pytest.raises(TypeError, match="The input must be a ReduceFunction or a callable function"):
        windows.reduce(3)
    with pytest.raises(TypeError, match="window_assigner should be a WindowAssigner"):
        keyed.window(ms(10))
    with pytest.raises(ValueError, match="the stream has no field 7"):
        windows.sum(7)


def test_settings_are_checked(keyed: Any) -> None:
    windows = keyed.window(TumblingEventTimeWindows.of(ms(10)))
    with pytest.raises(ValueError, match="cannot be negative"):
        windows.allowed_lateness(-1)
    with pytest.raises(TypeError, match="output_tag should be an OutputTag"):
        windows.side_output_late_data("late")
    with pytest.raises(TypeError, match="trigger should be a Trigger"):
        windows.trigger(EventTimeTrigger)
    with pytest.raises(TypeError, match="evictor should be an Evictor"):
        windows.evictor(3)
    assert windows.allowed_lateness(5).side_output_late_data(OutputTag("late")).trigger(CountTrigger.of(2)) is windows


@pytest.mark.parametrize("method", ["window", "window_all"])
def test_merging_windows_need_a_trigger_that_merges(keyed: Any, method: str) -> None:
    windows = getattr(keyed, method)(EventTimeSessionWindows.with_gap(ms(5)))
    for trigger in (NeverTrigger(), PurgingTrigger.of(NeverTrigger())):
        with pytest.raises(TypeError, match="cannot be used with a trigger that does not support merging"):
            windows.trigger(trigger)
    windows.trigger(PurgingTrigger.of(EventTimeTrigger.create()))


def test_a_function_and_columns_are_not_mixed(keyed: Any) -> None:
    from flinkpy.datastream.aggregates import count

    with pytest.raises(TypeError, match="takes a function or columns"):
        keyed.window(TumblingEventTimeWindows.of(ms(10))).aggregate(Mean(), n=count())


# -- event time that never advances ------------------------------------------------------------------------------------


class Endless(SourceBase):
    boundedness = Boundedness.CONTINUOUS_UNBOUNDED
    produced_type = PAIR

    def create_enumerator(self, context: Any) -> Any:
        raise NotImplementedError

    def create_reader(self, context: Any) -> Any:
        raise NotImplementedError


NO_WATERMARKS = WatermarkStrategy.no_watermarks()
WATERMARKS = WatermarkStrategy.for_monotonous_timestamps()


def test_an_event_time_window_whose_watermark_never_comes_is_warned_of() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    clicks = env.from_source(Endless(), NO_WATERMARKS, "clicks")
    views = env.from_source(Endless(), WATERMARKS, "views")
    for stream in (clicks, clicks.map(lambda value: value, PAIR).union(views), clicks.rebalance()):
        with pytest.warns(UserWarning, match="never end, because 'Source: clicks' has no watermarks"):
            stream.key_by(lambda value: value[0]).window(TumblingEventTimeWindows.of(ms(10))).reduce(lambda a, b: a)
        with pytest.warns(UserWarning, match="call assign_timestamps_and_watermarks") as caught:
            stream.window_all(EventTimeSessionWindows.with_gap(ms(10))).apply(ListedAll())
        assert caught[0].filename == __file__


def test_windows_that_end_are_not_warned_of() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    clicks = env.from_source(Endless(), NO_WATERMARKS, "clicks")
    event_time = TumblingEventTimeWindows.of(ms(10))
    # Warnings are errors in tests.
    clicks.window_all(TumblingProcessingTimeWindows.of(ms(10))).max(1)
    clicks.assign_timestamps_and_watermarks(WATERMARKS).window_all(event_time).max(1)
    env.from_source(Endless(), WATERMARKS, "views").map(lambda value: value, PAIR).window_all(event_time).max(1)
    env.from_collection([("a", 1)], PAIR).window_all(event_time).max(1)
