"""Programs with windows on real processes: every operation on windows, in one job each."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from clusters import RunningCluster
from job_support import environment
from verifying.sequence_source import SequencePerKeySource

from flinkpy.common import Time, Types, WatermarkStrategy
from flinkpy.common.watermark_strategy import TimestampAssigner, Watermark, WatermarkGenerator, WatermarkOutput
from flinkpy.datastream import (
    AggregateFunction,
    MapFunction,
    OutputTag,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
    WindowFunction,
)
from flinkpy.datastream.functions import AllWindowFunction, ProcessAllWindowFunction
from flinkpy.datastream.state import ReducingStateDescriptor, ValueStateDescriptor
from flinkpy.datastream.window import (
    CountEvictor,
    CountTrigger,
    EventTimeSessionWindows,
    GlobalWindows,
    PurgingTrigger,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)

PAIR = Types.TUPLE([Types.STRING(), Types.INT()])
RECORDS = [("hi", 1), ("hi", 2), ("hi", 3), ("hi", 4), ("hello", 5), ("hi", 8), ("hello", 9), ("hi", 15)]
LATE = OutputTag("late", PAIR)
LARGE = OutputTag("large", PAIR)


class Second(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[1])


class Count(WindowFunction):
    def apply(self, key: Any, window: Any, inputs: Any) -> Any:
        return [(key, len(inputs))]


class Bounds(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        yield key, context.window().start, context.window().end, sum(e[1] for e in elements)


class BoundsOfResult(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        (result,) = elements
        yield key, context.window().start, result


class CountAll(AllWindowFunction):
    def apply(self, window: Any, inputs: Any) -> Any:
        return [(window.start, window.end, len(inputs))]


class BoundsAll(ProcessAllWindowFunction):
    def process(self, context: Any, elements: Any) -> Any:
        yield context.window().start, context.window().end, list(elements)


class Sum(AggregateFunction):
    def create_accumulator(self) -> tuple[int, str]:
        return 0, ""

    def add(self, value: Any, accumulator: tuple[int, str]) -> tuple[int, str]:
        return accumulator[0] + value[1], value[0]

    def get_result(self, accumulator: tuple[int, str]) -> Any:
        return accumulator[1], accumulator[0]

    def merge(self, a: Any, b: Any) -> Any:
        return a[0] + b[0], a[1]


class Gap(SessionWindowTimeGapExtractor):
    def extract(self, element: Any) -> int:
        return int(element[1])


class Remembering(ProcessWindowFunction):
    """Uses the state of the window and of the key, a side output, and `clear`."""

    def process(self, key: Any, context: Any, elements: Any) -> Any:
        fired = context.window_state().get_state(ValueStateDescriptor("fired", Types.INT()))
        fired.update((fired.value() or 0) + 1)
        total = context.global_state().get_reducing_state(
            ReducingStateDescriptor("total", lambda a, b: a + b, Types.INT())
        )
        for element in elements:
            total.add(element[1])
        if total.get() > 10:
            context.output(LARGE, (key, total.get()))
        yield key, fired.value(), total.get()

    def clear(self, context: Any) -> None:
        context.window_state().get_state(ValueStateDescriptor("fired", Types.INT())).clear()


def ms(millis: int) -> Time:
    return Time.milliseconds(millis)


def timed(env: StreamExecutionEnvironment, records: list[Any]) -> Any:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Second())
    return env.from_collection(records, PAIR).assign_timestamps_and_watermarks(strategy)


def add(a: Any, b: Any) -> Any:
    return a[0], a[1] + b[1]


def collect(results: dict[str, Any]) -> dict[str, list[Any]]:
    """Runs all streams in one job and returns the sorted results of each."""
    named = [stream.map(lambda value, name=name: (name, value)) for name, stream in results.items()]
    collected: dict[str, list[Any]] = {name: [] for name in results}
    with named[0].union(*named[1:]).execute_and_collect() as records:
        for name, value in records:
            collected[name].append(value)
    return {name: sorted(values) for name, values in collected.items()}


def test_every_operation_works_on_keyed_windows(shared_cluster: RunningCluster) -> None:
    env = environment(shared_cluster, 1)
    keyed = timed(env, RECORDS).key_by(lambda value: value[0], Types.STRING())
    tumbling = TumblingEventTimeWindows.of(ms(5))
    sliding = SlidingEventTimeWindows.of(ms(5), ms(2))
    sessions = EventTimeSessionWindows.with_gap(ms(5))
    remembering = keyed.window(tumbling).process(Remembering())

    collected = collect(
        {
            "tumbling": keyed.window(tumbling).process(Bounds()),
            "sliding": keyed.window(sliding).apply(Count(), PAIR),
            "sessions": keyed.window(sessions).apply(Count(), PAIR),
            "dynamic": keyed.window(EventTimeSessionWindows.with_dynamic_gap(Gap())).process(Bounds()),
            "purging": keyed.window(sessions).trigger(PurgingTrigger.of(CountTrigger.of(3))).apply(Count()),
            "count": keyed.count_window(3).apply(Count()),
            "count sliding": keyed.count_window(2, 1).apply(Count()),
            "reduce": keyed.window(tumbling).reduce(add),
            "reduce process": keyed.window(tumbling).reduce(add, BoundsOfResult()),
            "aggregate": keyed.window(tumbling).aggregate(Sum(), output_type=PAIR),
            "aggregate process": keyed.window(sessions).aggregate(Sum(), BoundsOfResult()),
            "sum": keyed.window(tumbling).sum(1),
            "global": keyed.window(GlobalWindows.create()).trigger(PurgingTrigger.of(CountTrigger.of(2))).reduce(add),
            "evicting": keyed.window(sessions).evictor(CountEvictor.of(2)).process(Bounds()),
            "state": remembering,
            "side output": remembering.get_side_output(LARGE),
            "chained": keyed.window(tumbling).reduce(add).window_all(TumblingEventTimeWindows.of(ms(10))).sum(1),
        }
    )
    assert collected == {
        "tumbling": [
            ("hello", 5, 10, 14),
            ("hi", 0, 5, 10),
            ("hi", 5, 10, 8),
            ("hi", 15, 20, 15),
        ],
        "sliding": [("hello", 1)] * 4 + [("hi", 1)] * 4 + [("hi", 2)] * 2 + [("hi", 3), ("hi", 4)],
        "sessions": [("hello", 2), ("hi", 1), ("hi", 5)],
        "dynamic": [("hello", 5, 18, 14), ("hi", 1, 30, 33)],
        "purging": [("hi", 3)],
        "count": [("hi", 3), ("hi", 3)],
        "count sliding": [("hello", 2), ("hi", 2), ("hi", 2), ("hi", 2), ("hi", 2), ("hi", 2)],
        "reduce": [("hello", 14), ("hi", 8), ("hi", 10), ("hi", 15)],
        "reduce process": [
            ("hello", 5, ("hello", 14)),
            ("hi", 0, ("hi", 10)),
            ("hi", 5, ("hi", 8)),
            ("hi", 15, ("hi", 15)),
        ],
        "aggregate": [("hello", 14), ("hi", 8), ("hi", 10), ("hi", 15)],
        "aggregate process": [("hello", 5, ("hello", 14)), ("hi", 1, ("hi", 18)), ("hi", 15, ("hi", 15))],
        "sum": [("hello", 14), ("hi", 8), ("hi", 10), ("hi", 15)],
        "global": [("hello", 14), ("hi", 3), ("hi", 7), ("hi", 23)],
        "evicting": [("hello", 5, 14, 14), ("hi", 1, 13, 12), ("hi", 15, 20, 15)],
        "state": [("hello", 1, 14), ("hi", 1, 10), ("hi", 1, 18), ("hi", 1, 33)],
        "side output": [("hello", 14), ("hi", 18), ("hi", 33)],
        "chained": [("hi", 15), ("hi", 32)],
    }


def test_every_operation_works_on_windows_of_a_whole_stream(shared_cluster: RunningCluster) -> None:
    # One subtask before the windows. Two would send the records in any order, which would change counts and lists.
    env = environment(shared_cluster, 1)
    records = timed(env, RECORDS)
    tumbling = TumblingEventTimeWindows.of(ms(5))

    collected = collect(
        {
            "apply": records.window_all(tumbling).apply(CountAll()),
            "process": records.window_all(EventTimeSessionWindows.with_gap(ms(5))).process(BoundsAll()),
            "reduce": records.window_all(tumbling).reduce(add),
            "reduce process": records.window_all(tumbling).reduce(add, BoundsAll()),
            "aggregate": records.window_all(tumbling).aggregate(Sum()),
            "aggregate process": records.window_all(tumbling).aggregate(Sum(), BoundsAll()),
            "count": records.count_window_all(3).reduce(add),
            "max by": records.window_all(tumbling).max_by(1),
            "processing time": records.window_all(TumblingProcessingTimeWindows.of(ms(1))).apply(CountAll()),
        }
    )
    # The input may end before the clock reaches the end of the last windows. Then these do not fire.
    assert sum(count for _, _, count in collected.pop("processing time")) <= len(RECORDS)
    assert collected == {
        "apply": [(0, 5, 4), (5, 10, 3), (15, 20, 1)],
        "process": [(1, 14, RECORDS[:-1]), (15, 20, RECORDS[-1:])],
        "reduce": [("hello", 22), ("hi", 10), ("hi", 15)],
        "reduce process": [(0, 5, [("hi", 10)]), (5, 10, [("hello", 22)]), (15, 20, [("hi", 15)])],
        "aggregate": [("hello", 22), ("hi", 10), ("hi", 15)],
        "aggregate process": [(0, 5, [("hi", 10)]), (5, 10, [("hello", 22)]), (15, 20, [("hi", 15)])],
        "count": [("hi", 6), ("hi", 17)],
        "max by": [("hello", 9), ("hi", 4), ("hi", 15)],
    }


class EveryRecord(WatermarkGenerator):
    """Emits a watermark after each record with its timestamp."""

    def on_event(self, event: Any, timestamp: int, output: WatermarkOutput) -> None:
        output.emit_watermark(Watermark(timestamp))

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        return


def test_late_records_fire_again_within_the_lateness_and_go_to_the_side_output_afterwards(
    shared_cluster: RunningCluster,
) -> None:
    env = environment(shared_cluster, 1)
    strategy = WatermarkStrategy.for_generator(EveryRecord).with_timestamp_assigner(Second())
    late_ones = [("hi", 1), ("hi", 6), ("hi", 2), ("hi", 9), ("hi", 3), ("hello", 30), ("hi", 4)]
    records = env.from_collection(late_ones, PAIR).assign_timestamps_and_watermarks(strategy)
    windows = records.key_by(lambda value: value[0], Types.STRING()).window(TumblingEventTimeWindows.of(ms(5)))
    fired = windows.allowed_lateness(4).side_output_late_data(LATE).process(Bounds())

    collected = collect({"fired": fired, "late": fired.get_side_output(LATE)})
    assert collected == {
        # ("hi", 3) comes at watermark 9, one ms after the window was cleaned up.
        "fired": [("hello", 30, 35, 30), ("hi", 0, 5, 1), ("hi", 0, 5, 3), ("hi", 5, 10, 15)],
        "late": [("hi", 3), ("hi", 4)],
    }


def test_the_documented_example_runs(shared_cluster: RunningCluster) -> None:
    document = Path(__file__).parents[2] / "docs" / "windows.md"
    [code] = re.findall(r"<!-- example: clicks_per_minute -->\n```python\n(.*?)```", document.read_text(), re.DOTALL)
    example: dict[str, Any] = {}
    exec(compile(code, str(document), "exec"), example)
    strategy = WatermarkStrategy.for_generator(EveryRecord).with_timestamp_assigner(Second())
    env = environment(shared_cluster, 1)
    clicks = env.from_collection([("ann", 3), ("ann", 70_000), ("bob", 5), ("ann", 66_000)], PAIR)

    totals, late = example["clicks_per_minute"](clicks.assign_timestamps_and_watermarks(strategy))
    assert collect({"totals": totals, "late": late}) == {
        "totals": [("ann", 0, 3), ("ann", 60_000, 136_000)],
        "late": [("bob", 5)],
    }


class FailsOnce(MapFunction):
    """Fails once after the second checkpoint, which contains windows."""

    def __init__(self, marker: Path) -> None:
        self._marker = marker
        self._completed = 0
        self._records = 0

    def map(self, value: Any) -> Any:
        self._records += 1
        return value

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self._completed += self._records > 0
        if self._completed == 2 and not self._marker.exists():
            self._marker.touch()
            raise RuntimeError("the one failure")


@pytest.mark.parametrize("backend", ["hashmap", pytest.param("rocksdb", marks=pytest.mark.chaos)])
def test_windows_survive_a_failure(shared_cluster: RunningCluster, backend: str, tmp_path: Path) -> None:
    options = {
        "execution.checkpointing.interval": "100 ms",
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        "state.backend.type": backend,
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "3",
        "restart-strategy.fixed-delay.delay": "10 ms",
    }
    env = environment(shared_cluster, 2, **options)
    keys, numbers = 7, 1_000
    marker = tmp_path / "failed"
    source = SequencePerKeySource(keys, numbers, rate=2_000, hurry=marker)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Second())
    records = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").set_parallelism(1)
    mapped = records.map(FailsOnce(marker), source.produced_type).set_parallelism(1)
    keyed = mapped.assign_timestamps_and_watermarks(strategy).set_parallelism(1).key_by(lambda value: value[0])

    collected = collect(
        {
            "tumbling": keyed.window(TumblingEventTimeWindows.of(ms(400))).reduce(add, BoundsOfResult()),
            "sessions": keyed.window(EventTimeSessionWindows.with_gap(ms(10))).process(Bounds()),
        }
    )
    assert marker.exists()
    assert collected["tumbling"] == [
        (key, start, (key, sum(range(start, min(start + 400, numbers)))))
        for key in range(keys)
        for start in range(0, numbers, 400)
    ]
    assert collected["sessions"] == [(key, 0, numbers + 9, sum(range(numbers))) for key in range(keys)]
