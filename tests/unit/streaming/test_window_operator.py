from __future__ import annotations

from typing import Any

import pytest
from row_windows import BACKENDS, harness

from flinkpy.common.time import Time
from flinkpy.datastream.functions import AggregateFunction, ProcessWindowFunction, WindowFunction
from flinkpy.datastream.window import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)


class Total(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + value[1]

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, a: int, b: int) -> int:
        return a + b


class Bounds(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        window = context.window()
        yield key, window.start, window.end, [e[1] if isinstance(e, tuple) else e for e in elements]


class Listed(WindowFunction):
    def apply(self, key: Any, window: Any, inputs: Any) -> Any:
        return [(key, window.start, window.end, list(inputs))]


def add(a: Any, b: Any) -> Any:
    return a[0], a[1] + b[1]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_tumbling_window_fires_when_the_watermark_passes_its_end(backend: str) -> None:
    h = harness(lambda keyed: keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(10))).reduce(add), backend)
    h.process([("a", 1), ("b", 2), ("a", 3), ("a", 4)], [0, 1, 9, 10])
    h.watermark(8)
    assert h.results() == []
    h.watermark(9)
    assert sorted(h.results()) == [(("a", 4), 9), (("b", 2), 9)]
    h.watermark(19)
    assert h.results()[2:] == [(("a", 4), 19)]


@pytest.mark.parametrize("backend", BACKENDS)
def test_sliding_windows_add_each_record_to_all_its_windows(backend: str) -> None:
    windows = SlidingEventTimeWindows.of(Time.milliseconds(10), Time.milliseconds(5))
    h = harness(lambda keyed: keyed.window(windows).aggregate(Total(), Bounds()), backend)
    h.process([("a", 1), ("a", 2), ("a", 4)], [1, 6, -3])
    h.watermark(100)
    assert h.results() == [
        (("a", -10, 0, [4]), -1),
        (("a", -5, 5, [5]), 4),
        (("a", 0, 10, [3]), 9),
        (("a", 5, 15, [2]), 14),
    ]


@pytest.mark.parametrize("backend", BACKENDS)
def test_overlapping_sessions_merge(backend: str) -> None:
    windows = EventTimeSessionWindows.with_gap(Time.milliseconds(5))
    h = harness(lambda keyed: keyed.window(windows).process(Bounds()), backend)
    h.process([("a", 1), ("a", 2), ("b", 9), ("a", 3)], [0, 8, 1, 4])
    h.watermark(100)
    assert h.results() == [(("b", 1, 6, [9]), 5), (("a", 0, 13, [1, 2, 3]), 12)]


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_state_of_ended_windows_is_removed(backend: str) -> None:
    windows = EventTimeSessionWindows.with_gap(Time.milliseconds(5))
    for build in (
        lambda keyed: keyed.window(windows).process(Bounds()),
        lambda keyed: keyed.window(windows).aggregate(Total()),
        lambda keyed: keyed.window(SlidingEventTimeWindows.of(Time.seconds(1), Time.milliseconds(5))).reduce(add),
        lambda keyed: keyed.window(TumblingEventTimeWindows.of(Time.seconds(1))).apply(Listed()),
    ):
        h = harness(build, backend)
        h.process([("a", 1), ("a", 2), ("b", 9), ("a", 3)], [0, 8, 1, 4])
        assert h.operator.backend.num_entries() > 0
        h.watermark(100_000)
        assert h.output.rows
        assert h.operator.backend.num_entries() == 0
