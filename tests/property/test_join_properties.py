"""Joins give the results of brute force, for any batches and with restores at any point."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from joined_subtasks import BACKENDS, JoinedSubtasks

from flinkpy.common import Time, Types
from flinkpy.datastream import StreamExecutionEnvironment
from flinkpy.datastream.functions import CoGroupFunction, KeySelectorFunctionWrapper, ProcessJoinFunction
from flinkpy.datastream.window import SlidingEventTimeWindows
from flinkpy.graph.operator_specs import IntervalJoinSpec

MIN_WATERMARK, MAX_WATERMARK = -(1 << 63), (1 << 63) - 1
KEYS = ["a", "b", "c"]


@dataclass(frozen=True)
class Record:
    side: int
    key: str
    number: int
    time: int


@st.composite
def _scripts(draw: Any) -> list[Record | int]:
    """Draws records of both sides in order of arrival, with increasing watermarks."""
    watermark = 0
    steps: list[Record | int] = []
    for number in range(draw(st.integers(0, 25))):
        if draw(st.integers(0, 5)) == 0:
            watermark += draw(st.integers(0, 6))
            steps.append(watermark)
        else:
            time = watermark + draw(st.sampled_from([0, 0, 1, 2, 3, 5, 8, -1, -4]))
            steps.append(Record(draw(st.integers(0, 1)), draw(st.sampled_from(KEYS)), number, time))
    return steps


def feed(run: JoinedSubtasks, steps: list[Record | int], random: Random, *, restarts: bool) -> JoinedSubtasks:
    """Feeds records in random batches of one side. Sometimes replaces the operator by one restored from its state."""
    results: list[Any] = []
    waiting: list[Record] = []
    watermark = MIN_WATERMARK

    def flush() -> None:
        if waiting:
            rows = [(record.key, record.number) for record in waiting]
            run.process(waiting[0].side, rows, [record.time for record in waiting])
            waiting.clear()

    for step in steps:
        if isinstance(step, int):
            flush()
            run.watermark(step)
            watermark = step
        else:
            if waiting and (waiting[0].side != step.side or random.random() < 0.3):
                flush()
            waiting.append(step)
        if restarts and random.random() < 0.05:
            flush()
            results += run.results
            run = run.restored(random.randint(1, 3), random.choice(BACKENDS))
            if watermark != MIN_WATERMARK:
                run.watermark(watermark)
    flush()
    run.watermark(MAX_WATERMARK)
    run.earlier = results  # type: ignore[attr-defined]
    run.close()
    return run


def all_results(run: JoinedSubtasks) -> Counter[Any]:
    return Counter([*run.earlier, *run.results])  # type: ignore[attr-defined]


class Pair(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: Any) -> Any:
        yield left[1], right[1]


def on_time(steps: list[Record | int]) -> list[tuple[Record, int]]:
    """Returns the records that are not late, each with the watermark at its arrival."""
    watermark, kept = MIN_WATERMARK, []
    for step in steps:
        if isinstance(step, int):
            watermark = step
        elif step.time >= watermark:
            kept.append((step, watermark))
    return kept


@settings(max_examples=60)  # each example opens and closes operators with real backends
@given(
    steps=_scripts(),
    lower=st.integers(-6, 6),
    width=st.integers(0, 6),
    seed=st.integers(0, 1 << 32),
    restarts=st.booleans(),
)
def test_an_interval_join_gives_the_pairs_of_brute_force(
    steps: list[Record | int], lower: int, width: int, seed: int, restarts: bool
) -> None:
    upper = lower + width
    key = KeySelectorFunctionWrapper(lambda record: record[0])
    spec = IntervalJoinSpec((key, key), Pair(), lower, upper, key_type=Types.STRING())
    run = feed(JoinedSubtasks(spec), steps, Random(seed), restarts=restarts)
    expected: Counter[Any] = Counter()
    kept = (max(0, upper), max(0, -lower))
    for position, (record, watermark) in enumerate(records := on_time(steps)):
        for other, _ in records[:position]:
            # Records older than the watermark minus the bound are dropped, although a record of that time is not late.
            is_forgotten = other.time + kept[other.side] <= watermark
            if other.side == record.side or other.key != record.key or is_forgotten:
                continue
            left, right = (other, record) if record.side else (record, other)
            if lower <= right.time - left.time <= upper:
                expected[(left.number, right.number), max(left.time, right.time)] += 1
    assert all_results(run) == expected


class Both(CoGroupFunction):
    def co_group(self, first: list[Any], second: list[Any]) -> Any:
        yield tuple(sorted(number for _, number in first)), tuple(sorted(number for _, number in second))


@settings(max_examples=60)
@given(steps=_scripts(), slide=st.integers(1, 4), seed=st.integers(0, 1 << 32), restarts=st.booleans())
def test_a_co_group_gives_the_groups_of_brute_force(
    steps: list[Record | int], slide: int, seed: int, restarts: bool
) -> None:
    size = 2 * slide
    env = StreamExecutionEnvironment.get_execution_environment()
    first, second = (env.from_collection([], Types.TUPLE([Types.STRING(), Types.LONG()])) for _ in range(2))
    windows = SlidingEventTimeWindows.of(Time.milliseconds(size), Time.milliseconds(slide))
    grouped = first.co_group(second).where("f0").equal_to("f0").window(windows).apply(Both())
    run = feed(JoinedSubtasks(grouped.transformation.spec), steps, Random(seed), restarts=restarts)  # type: ignore[attr-defined]

    groups: dict[tuple[str, int], tuple[list[int], list[int]]] = {}
    watermark = MIN_WATERMARK
    for step in steps:
        if isinstance(step, int):
            watermark = step
            continue
        for start in range(step.time // slide * slide, step.time - size, -slide):
            if start + size - 1 > watermark:
                groups.setdefault((step.key, start), ([], []))[step.side].append(step.number)
    expected = Counter(
        ((tuple(sorted(ones)), tuple(sorted(others))), start + size - 1)
        for (_, start), (ones, others) in groups.items()
    )
    assert all_results(run) == expected
