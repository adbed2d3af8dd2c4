"""The results of windows do not depend on the batch size, the backend, a restore, or the operator that runs them."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from memory_checkpoints import OPTIONS
from row_windows import BACKENDS, Concatenated, Subtasks, keyed_spec

from flinkpy.common.time import Time
from flinkpy.datastream.functions import AggregateFunction, ProcessWindowFunction
from flinkpy.datastream.window import (
    ContinuousEventTimeTrigger,
    CountTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    PurgingTrigger,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)


class ListAccumulator(AggregateFunction):
    """Changes its accumulator in place, and returns it as the result."""

    def create_accumulator(self) -> list[int]:
        return []

    def add(self, value: Any, accumulator: list[int]) -> list[int]:
        accumulator.append(value[1])
        return accumulator

    def get_result(self, accumulator: list[int]) -> Any:
        return tuple(accumulator)

    def merge(self, a: list[int], b: list[int]) -> list[int]:
        return a + b


class WithBounds(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        window = context.window()
        yield key, window.start, window.end, tuple(elements)


class Same(EventTimeTrigger):
    """Behaves like the default trigger, but the fast operator does not recognise it."""


def concatenate(a: Any, b: Any) -> Any:
    return (*a, *b[1:])


def ms(millis: int) -> Time:
    return Time.milliseconds(millis)


ASSIGNERS: dict[str, Callable[[], Any]] = {
    "tumbling": lambda: TumblingEventTimeWindows.of(ms(10), ms(3)),
    "sliding": lambda: SlidingEventTimeWindows.of(ms(10), ms(5)),
    "uneven": lambda: SlidingEventTimeWindows.of(ms(10), ms(4), ms(1)),
    "gaps": lambda: SlidingEventTimeWindows.of(ms(4), ms(10)),
    "sessions": lambda: EventTimeSessionWindows.with_gap(ms(4)),
}
OPERATIONS: dict[str, Callable[[Any], Any]] = {
    "aggregate": lambda windows: windows.aggregate(Concatenated(), WithBounds()),
    "mutable": lambda windows: windows.aggregate(ListAccumulator(), WithBounds()),
    "bare": lambda windows: windows.aggregate(Concatenated()),
    "reduce": lambda windows: windows.reduce(concatenate, WithBounds()),
    "process": lambda windows: windows.process(WithBounds()),
}


def a_run(seed: int, length: int = 60) -> list[Any]:
    """Records `(key, number, time)` out of order, and watermarks (ints) between them, some of which make records
    late."""
    chosen = random.Random(seed)
    run: list[Any] = []
    watermark = -25
    for number in range(length):
        time = watermark + chosen.randrange(-12, 25)
        run.append((chosen.choice("abc"), number, time))
        if chosen.random() < 0.15:
            watermark += chosen.randrange(0, 12)
            run.append(watermark)
    return [*run, 10_000]


def play(
    spec: Any,
    run: list[Any],
    backend: str,
    cut: int,
    restores: tuple[int, ...] = (),
    backends: tuple[str, ...] = (),
) -> list[Any]:
    """Returns all results of batches with at most `cut` records. Restores before the given positions."""
    subtasks = Subtasks(spec, backend)
    results: list[Any] = []
    pending: list[Any] = []
    watermark = None

    def flush() -> None:
        if pending:
            subtasks.process([record[:2] for record in pending], [record[2] for record in pending])
            pending.clear()

    for position, item in enumerate(run):
        if position in restores:
            flush()
            results += subtasks.results()
            subtasks = subtasks.restored(1 + len(results) % 3, (*backends, backend)[0])
            if watermark is not None and not isinstance(item, int):
                subtasks.watermark(watermark)
        if isinstance(item, int):
            flush()
            subtasks.watermark(item)
            watermark = item
        else:
            pending.append(item)
            if len(pending) == cut:
                flush()
    results += subtasks.results()
    subtasks.close()
    return results


def spec_for(assigner: str, operation: str, lateness: int, trigger: Any = None) -> Any:
    def build(keyed: Any) -> Any:
        windows = keyed.window(ASSIGNERS[assigner]()).allowed_lateness(lateness)
        if trigger is not None:
            windows.trigger(trigger)
        return OPERATIONS[operation](windows)

    return keyed_spec(build)


def in_any_order(results: list[Any]) -> list[Any]:
    """Timers of one time fire in no particular order."""
    return sorted(results, key=repr)


@pytest.mark.parametrize("lateness", [0, 15])
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("assigner", ASSIGNERS)
def test_batch_sizes_backends_and_operators_do_not_change_results(assigner: str, operation: str, lateness: int) -> None:
    spec = spec_for(assigner, operation, lateness)
    one_by_one = spec_for(assigner, operation, lateness, Same())
    for seed in range(2):
        run = a_run(seed)
        expected = in_any_order(play(one_by_one, run, "hashmap", 1))
        assert expected
        for backend in BACKENDS:
            for cut in (1, 1000) if seed else (7,):
                assert in_any_order(play(spec, run, backend, cut)) == expected, (seed, backend, cut)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("lateness", [0, 15])
@pytest.mark.parametrize("operation", ["mutable", "reduce", "process"])
@pytest.mark.parametrize("assigner", ASSIGNERS)
def test_a_restore_with_another_parallelism_does_not_change_results(
    assigner: str, operation: str, lateness: int, backend: str
) -> None:
    spec = spec_for(assigner, operation, lateness)
    run = a_run(7, 40)
    expected = in_any_order(play(spec, run, backend, 5))
    for restores in ((20,), (11, 35)):
        assert in_any_order(play(spec, run, backend, 5, restores)) == expected
    other = BACKENDS[1 - BACKENDS.index(backend)]
    assert in_any_order(play(spec, run, backend, 5, (30,), (other,))) == expected


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "trigger",
    [CountTrigger.of(3), PurgingTrigger.of(CountTrigger.of(2)), ContinuousEventTimeTrigger.of(ms(3))],
    ids=["count", "purging", "continuous"],
)
@pytest.mark.parametrize("assigner", ["sliding", "sessions"])
def test_triggers_act_on_each_record_and_are_restored(assigner: str, trigger: Any, backend: str) -> None:
    spec = spec_for(assigner, "aggregate", 5, trigger)
    run = a_run(3)
    expected = in_any_order(play(spec, run, "hashmap", 1))
    assert expected
    assert in_any_order(play(spec, run, backend, 1000)) == expected
    # The position of the next watermark: a repeated one would fire timers set for the past.
    restores = tuple(position for position, item in enumerate(run) if isinstance(item, int))[2:6:3]
    assert in_any_order(play(spec, run, backend, 9, restores)) == expected


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("assigner", ["sliding", "sessions"])
def test_a_snapshot_written_later_has_the_state_of_its_time(assigner: str, operation: str, backend: str) -> None:
    spec = spec_for(assigner, operation, 0)
    first, second = a_run(1, 30)[:-1], [("a", 100, 40), ("b", 101, 41), ("a", 102, 33), 10_000]
    whole = play(spec, first + second, backend, 4)

    subtasks = Subtasks(spec, backend)
    feed(subtasks, first)
    before = subtasks.results()
    (harness,) = subtasks.harnesses
    snapshot = harness.operator.snapshots(1, OPTIONS)["op0"].keyed
    feed(subtasks, second)
    assert in_any_order(subtasks.results()) == in_any_order(whole)
    handle = snapshot.write(subtasks.files)
    snapshot.release()

    restored = Subtasks(spec, backend, 1, [handle], subtasks.files)
    feed(restored, [max(item for item in first if isinstance(item, int)), *second])
    assert in_any_order(before + restored.results()) == in_any_order(whole)


def feed(subtasks: Subtasks, run: list[Any]) -> None:
    for item in run:
        if isinstance(item, int):
            subtasks.watermark(item)
        else:
            subtasks.process([item[:2]], [item[2]])


class Gap(SessionWindowTimeGapExtractor):
    def extract(self, element: Any) -> int:
        return 1 + int(element[1]) % 9


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("lateness", [0, 7])
@pytest.mark.parametrize("operation", ["mutable", "reduce", "process"])
def test_sessions_of_any_gap_match_processing_one_record_at_a_time(operation: str, lateness: int, backend: str) -> None:
    def spec(trigger: Any) -> Any:
        windows = EventTimeSessionWindows.with_dynamic_gap(Gap())
        return keyed_spec(
            lambda keyed: OPERATIONS[operation](keyed.window(windows).allowed_lateness(lateness).trigger(trigger))
        )

    for seed in range(3):
        run = a_run(seed, 60)
        expected = in_any_order(play(spec(Same()), run, "hashmap", 1))
        for cut in (3, 1000):
            assert in_any_order(play(spec(EventTimeTrigger()), run, backend, cut)) == expected, (seed, cut)
        assert in_any_order(play(spec(EventTimeTrigger()), run, backend, 8, (20, 45))) == expected
