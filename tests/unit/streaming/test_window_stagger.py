"""Tumbling windows with a stagger: they start at another offset in each subtask."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from row_windows import BACKENDS, Subtasks, keyed_spec

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.common.time import Time
from flinkpy.common.typeinfo import Types
from flinkpy.datastream import StreamExecutionEnvironment
from flinkpy.datastream.aggregates import count
from flinkpy.datastream.functions import WindowFunction
from flinkpy.datastream.window import TumblingEventTimeWindows, TumblingProcessingTimeWindows, WindowStagger
from flinkpy.functions.window_assigners import StaggeredWindows


class At:
    def __init__(self, now: int) -> None:
        self.now = now

    def get_current_processing_time(self) -> int:
        return self.now


class Values(WindowFunction):
    def apply(self, key: Any, window: Any, inputs: Any) -> Any:
        return [(key, window.start, window.end, [value[1] for value in inputs])]


def assigned(windows: Any, timestamp: int, now: int) -> tuple[int, int]:
    (window,) = windows.assign_windows("x", timestamp, At(now))
    return window.start, window.end


def test_natural_stagger_starts_windows_at_the_first_record() -> None:
    by_clock = TumblingProcessingTimeWindows.of(Time.milliseconds(100)).with_stagger(WindowStagger.NATURAL)
    assert [assigned(by_clock, 0, now) for now in (1_234, 1_333, 1_334)] == [(1_234, 1_334)] * 2 + [(1_334, 1_434)]

    by_time = TumblingEventTimeWindows.of(Time.milliseconds(100), Time.milliseconds(7))
    by_time = by_time.with_stagger(WindowStagger.NATURAL)
    assert assigned(by_time, 50, 1_234) == (41, 141)
    assert assigned(by_time, -60, 5_000) == (-159, -59)
    assert repr(by_time) == "TumblingEventTimeWindows(100, 7, NATURAL)"


def test_random_stagger_shifts_all_windows_by_one_offset_below_their_size() -> None:
    windows: Any = TumblingEventTimeWindows.of(Time.milliseconds(1_000_000)).with_stagger(WindowStagger.RANDOM)
    starts = set()
    for _ in range(20):
        one = pickle.loads(pickle.dumps(windows))
        start, end = assigned(one, 0, 0)
        assert -1_000_000 < start <= 0 and end == start + 1_000_000
        assert assigned(one, end, 99) == (end, end + 1_000_000)
        windows = one  # it has an offset, which its copies do not get
        starts.add(start)

    assert len(starts) > 1


def test_aligned_stagger_shifts_nothing_and_a_wrong_stagger_is_refused() -> None:
    windows = TumblingEventTimeWindows.of(Time.seconds(1))
    assert windows.with_stagger(WindowStagger.ALIGNED) is windows
    with pytest.raises(TypeError, match=r"with_stagger needs a WindowStagger, such as WindowStagger\.RANDOM, not 'x'"):
        windows.with_stagger("x")  # type: ignore[arg-type]


@pytest.mark.parametrize("backend", BACKENDS)
def test_staggered_windows_keep_their_offset_after_a_restore(backend: str) -> None:
    staggered = StaggeredWindows[Any](100, 0, WindowStagger.NATURAL, True)
    spec = keyed_spec(lambda keyed: keyed.window(staggered).apply(Values()))
    tasks = Subtasks(spec, backend, 2)  # at 1,000 ms
    tasks.advance(30)
    tasks.process([("a", 1), ("b", 2), ("a", 3)], [29, 30, 129])
    other = BACKENDS[1 - BACKENDS.index(backend)]
    tasks = tasks.restored(1, other)
    tasks.process([("a", 4), ("b", 5)], [31, 130])
    tasks.watermark(10_000)

    assert sorted(rows for rows, _ in tasks.results()) == [
        ("a", -70, 30, [1]),
        ("a", 30, 130, [3, 4]),
        ("b", 30, 130, [2]),
        ("b", 130, 230, [5]),
    ]
    tasks.close()


def test_aggregates_over_columns_refuse_staggered_windows() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    keyed = env.from_collection([("a", 1)], Types.TUPLE([Types.STRING(), Types.INT()])).key_by("f0")
    windows = TumblingProcessingTimeWindows.of(Time.seconds(1)).with_stagger(WindowStagger.RANDOM)
    with pytest.raises(UnsupportedOperationError, match=r"not TumblingProcessingTimeWindows\(1000, 0, RANDOM\)"):
        keyed.window(windows).aggregate(n=count())
