"""Samples of threads: what is taken, how it is folded, and that nothing runs while nobody looks."""

from __future__ import annotations

import dis
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkpy._proto import thread_samples_pb2 as pb
from flinkpy.common.errors import ExternalError, UserError
from flinkpy.common.task_threads import work_for_task
from flinkpy.taskexecutor import thread_sampler
from flinkpy.taskexecutor.code_names import CodeNames
from flinkpy.taskexecutor.thread_sampler import RawSamples, SamplingOptions, ThreadSampler, fold

QUICK = SamplingOptions(num_samples=5, delay_ms=4, max_depth=50)
LONG = SamplingOptions(num_samples=10_000, delay_ms=4, max_depth=50)


def one() -> None:
    return None


def two() -> None:
    value = 1
    del value


def three() -> None:
    for _ in range(2):
        pass


CODES: tuple[CodeType, ...] = (one.__code__, two.__code__, three.__code__)


def instructions(code: CodeType) -> list[int]:
    return [each.offset for each in dis.get_instructions(code)]


FRAMES = [(code, instruction) for code in CODES for instruction in instructions(code)]


def stack_of(frames: list[tuple[CodeType, int]], *, has_outer_frames: bool = False) -> tuple[int, ...]:
    """Returns the stack of these frames, the outermost first."""
    numbers = [number for code, instruction in reversed(frames) for number in (id(code), instruction)]
    return (*numbers, 0) if has_outer_frames else tuple(numbers)


def raw(*samples: tuple[str, tuple[int, ...], bool]) -> RawSamples:
    found = RawSamples(start_ms=1, end_ms=2, codes={id(code): code for code in CODES})
    for group, stack, is_on_cpu in samples:
        found.add(group, stack, is_on_cpu)
    return found


def shown(samples: pb.ThreadSamples) -> dict[tuple[str, tuple[str, ...]], tuple[int, int]]:
    names = [f"{one.name.rpartition('.')[2]}:{one.line - _first_line(one.name)}" for one in samples.frames]
    return {
        (one.vertex_id, tuple(names[index] for index in one.frames)): (one.on_cpu, one.off_cpu)
        for one in samples.stacks
    }


def _first_line(name: str) -> int:
    found = globals().get(name.rpartition(".")[2])
    return found.__code__.co_firstlineno if hasattr(found, "__code__") else 0


# -- folding ---------------------------------------------------------------------------------------------------------


def test_stacks_are_named_from_the_outermost_frame_on_and_equal_names_become_one_stack() -> None:
    last, first = instructions(two.__code__)[-1], instructions(two.__code__)[1]
    on_line_1 = [each for each in dis.get_instructions(two.__code__) if each.positions and each.positions.lineno]
    same_line = [each.offset for each in on_line_1 if each.positions.lineno == two.__code__.co_firstlineno + 1]
    samples = raw(
        ("v", stack_of([(one.__code__, 0), (two.__code__, same_line[0])]), True),
        ("v", stack_of([(one.__code__, 0), (two.__code__, same_line[-1])]), False),
        ("w", stack_of([(one.__code__, 0), (two.__code__, last)]), False),
    )
    assert first and len(same_line) > 1
    folded = shown(fold(samples, "tm-1"))
    assert folded == {("v", ("one:0", "two:1")): (1, 1), ("w", ("one:0", "two:2")): (0, 1)}


def test_a_thread_between_two_instructions_of_python_is_on_cpu() -> None:
    by_name = {each.opname: each.offset for each in dis.get_instructions(three.__code__)}
    jump = next(offset for name, offset in by_name.items() if name.startswith("JUMP_BACKWARD"))
    assert CodeNames.is_executing(three.__code__, jump)
    assert CodeNames.is_executing(three.__code__, by_name["RESUME"])
    assert not CodeNames.is_executing(three.__code__, by_name["FOR_ITER"])
    assert not CodeNames.is_executing(three.__code__, -1), "a frame that has not started"
    samples = raw(("v", stack_of([(one.__code__, 0), (three.__code__, jump)]), False))
    assert list(shown(fold(samples, "tm-1")).values()) == [(1, 0)]


def test_a_stack_that_was_cut_off_says_so() -> None:
    samples = raw(("v", stack_of([(one.__code__, 0)], has_outer_frames=True), True))
    folded = fold(samples, "tm-1")
    assert [folded.frames[index].name.rpartition(".")[2] for index in folded.stacks[0].frames] == [
        "outer frames",
        "one",
    ]


def test_no_more_stacks_are_kept_than_allowed_and_all_samples_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_sampler, "MAX_STACKS", 2)
    samples = raw(*[("v", stack_of([frame]), True) for frame in FRAMES], ("v", stack_of(FRAMES[:1]), True))
    assert samples.num_stacks == 2
    folded = fold(samples, "tm-1")
    assert sum(one.on_cpu for one in folded.stacks) == len(FRAMES) + 1
    assert "further stacks" in {frame.name for frame in folded.frames}


stacks = st.lists(st.sampled_from(FRAMES), min_size=1, max_size=6)


@given(st.lists(st.tuples(st.sampled_from(["v", "w"]), stacks, st.booleans(), st.booleans()), max_size=40))
def test_folding_loses_and_invents_no_sample(samples: list[tuple[str, Any, bool, bool]]) -> None:
    folded = fold(
        raw(*[(group, stack_of(frames, has_outer_frames=cut), on) for group, frames, cut, on in samples]), "t"
    )
    names = CodeNames()
    expected: Counter[tuple[str, tuple[str, ...], bool]] = Counter()
    for group, frames, cut, is_on_cpu in samples:
        named = [names.name(code, instruction) for code, instruction in frames]
        stack = (*(["outer frames:0"] if cut else []), *(f"{each.name}:{each.line}" for each in named))
        expected[group, stack, is_on_cpu or CodeNames.is_executing(*frames[-1])] += 1
    found: Counter[tuple[str, tuple[str, ...], bool]] = Counter()
    for each in folded.stacks:
        stack = tuple(f"{folded.frames[index].name}:{folded.frames[index].line}" for index in each.frames)
        found[each.vertex_id, stack, True] += each.on_cpu
        found[each.vertex_id, stack, False] += each.off_cpu
    assert +found == expected


# -- what may be asked for -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"num_samples": 0, "delay_ms": 10, "max_depth": 10}, "num_samples"),
        ({"num_samples": -1, "delay_ms": 10, "max_depth": 10}, "num_samples"),
        ({"num_samples": 10, "delay_ms": 0, "max_depth": 10}, "delay_ms"),
        ({"num_samples": 10, "delay_ms": 10, "max_depth": 5_000}, "max_depth"),
        ({"num_samples": 10_000, "delay_ms": 1_000, "max_depth": 10}, "num_samples * delay_ms"),
    ],
)
def test_numbers_out_of_bounds_are_refused(asked: dict[str, int], field: str) -> None:
    with pytest.raises(UserError) as raised:
        SamplingOptions.of(pb.ThreadSamplesRequest(**asked))
    assert raised.value.details["field"] == field


# -- real threads ----------------------------------------------------------------------------------------------------


@contextmanager
def task(name: str, step: Callable[[], object]) -> Iterator[threading.Event]:
    """Runs `step` on a thread of a task, until the event that is yielded is set."""
    is_over = threading.Event()

    def run() -> None:
        work_for_task(name)
        while not is_over.is_set():
            step()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield is_over
    finally:
        is_over.set()
        thread.join()


def compute_a_while() -> int:
    return sum(number * number for number in range(2_000))


def doze_a_while() -> None:
    time.sleep(0.02)


def totals(samples: RawSamples) -> dict[str, tuple[int, int]]:
    found: dict[str, list[int]] = {}
    for each in fold(samples, "tm-1").stacks:
        count = found.setdefault(each.vertex_id, [0, 0])
        count[0] += each.on_cpu
        count[1] += each.off_cpu
    return {group: (on, off) for group, (on, off) in found.items()}


def wait_until_idle(sampler: ThreadSampler) -> None:
    deadline_s = time.monotonic() + 30
    while sampler.is_running:
        assert time.monotonic() < deadline_s
        time.sleep(0.001)


def test_running_and_waiting_threads_are_told_apart_and_nothing_runs_before_or_after() -> None:
    sampler = ThreadSampler()
    names_before = {thread.name for thread in threading.enumerate()}
    assert "thread-sampler" not in names_before
    with task("a", compute_a_while), task("b", doze_a_while), task("c", compute_a_while):
        options = SamplingOptions(num_samples=20, delay_ms=10, max_depth=50)
        samples = sampler.begin({"a": "running", "b": "waiting"}, options).result(60)
    found = totals(samples)
    assert set(found) == {"running", "waiting"}, "the thread of another task is not sampled"
    assert found["running"][0] > 3 * found["running"][1]
    assert found["waiting"][1] > 3 * found["waiting"][0]
    names = {frame.name.rpartition(".")[2] for frame in fold(samples, "tm-1").frames}
    assert {"compute_a_while", "doze_a_while"} <= names
    assert samples.tasks == {"a", "b"}
    wait_until_idle(sampler)


def test_a_sampling_ends_with_the_last_of_its_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_sampler, "_FIND_THREADS_S", 0.02)
    sampler = ThreadSampler()
    with task("a", doze_a_while) as a_is_over, task("b", doze_a_while) as b_is_over:
        result = sampler.begin({"a": "v", "b": "v"}, LONG)
        a_is_over.set()
        assert not result.done()
        b_is_over.set()
        samples = result.result(60)
    assert samples.tasks <= {"a", "b"} and sum(totals(samples)["v"]) < LONG.num_samples
    wait_until_idle(sampler)


def test_tasks_without_a_thread_give_no_samples_at_once() -> None:
    sampler = ThreadSampler()
    assert totals(sampler.begin({"a": "v"}, LONG).result(60)) == {}
    assert totals(sampler.begin({}, LONG).result(60)) == {}
    wait_until_idle(sampler)


def test_callers_share_the_ticks_and_each_gets_its_own_depth() -> None:
    sampler = ThreadSampler()

    def deep() -> None:
        def descend(depth: int) -> None:
            if depth:
                descend(depth - 1)
            else:
                time.sleep(0.005)

        descend(30)

    with task("a", deep):
        shallow = sampler.begin({"a": "v"}, SamplingOptions(num_samples=10, delay_ms=5, max_depth=3))
        whole = sampler.begin({"a": "w"}, SamplingOptions(num_samples=10, delay_ms=5, max_depth=100))
        cut, full = fold(shallow.result(60), "tm-1"), fold(whole.result(60), "tm-1")
    assert {len(each.frames) for each in cut.stacks} == {4}, "three frames below the mark"
    assert max(len(each.frames) for each in full.stacks) > 30
    wait_until_idle(sampler)


def test_a_caller_that_gives_up_ends_its_sampling_and_too_many_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_sampler, "MAX_SAMPLINGS", 1)
    sampler = ThreadSampler()
    with task("a", doze_a_while):
        result = sampler.begin({"a": "v"}, LONG)
        with pytest.raises(ExternalError):
            sampler.begin({"a": "v"}, QUICK)
        assert result.cancel()
        wait_until_idle(sampler)
        assert totals(sampler.begin({"a": "v"}, QUICK).result(60))
    wait_until_idle(sampler)


def test_a_failing_sampler_tells_its_callers_and_can_be_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    sampler = ThreadSampler()
    with task("a", doze_a_while):
        with monkeypatch.context() as patch:

            def fail() -> dict[int, FrameType]:
                raise MemoryError("no frames")

            patch.setattr(sys, "_current_frames", fail)
            with pytest.raises(MemoryError):
                sampler.begin({"a": "v"}, QUICK).result(60)
        wait_until_idle(sampler)
        assert totals(sampler.begin({"a": "v"}, QUICK).result(60))
    wait_until_idle(sampler)


def test_expensive_ticks_become_rarer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_sampler, "MAX_LOAD", 1e-6)
    sampler = ThreadSampler()
    with task("a", doze_a_while):
        begun_s = time.monotonic()
        samples = sampler.begin({"a": "v"}, SamplingOptions(num_samples=10, delay_ms=5, max_depth=50)).result(60)
    assert sum(totals(samples)["v"]) == 1
    assert time.monotonic() - begun_s < 30
    wait_until_idle(sampler)
