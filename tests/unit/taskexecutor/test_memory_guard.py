"""A process that outgrows its memory slows its tasks down, then fails the one that has grown."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from flinkpy.common.memory_use import MemoryReading
from flinkpy.taskexecutor.memory_guard import (
    FailTask,
    GuardAction,
    GuardPhase,
    MemoryGuard,
    ReleaseMemory,
    ReportNoCulprit,
    TaskUse,
)

MB = 1 << 20
BUDGET = 1000 * MB


class Process:
    """A process of tasks that allocate while they run.

    Args:
        rates: MB per second of each task, while it has the whole CPU.
        freed: the share of what a failed task has allocated that its end frees.
    """

    def __init__(self, rates: dict[str, float], used: float = 300, freed: float = 1.0) -> None:
        self.guard = MemoryGuard()
        self.rates = dict(rates)
        self.busy = dict.fromkeys(rates, 1.0)
        self.owned = dict.fromkeys(rates, 0.0)
        self.reported: dict[str, int | None] = dict.fromkeys(rates)
        self.cpu_ns = dict.fromkeys(rates, 0)
        self.used, self.freed = used * MB, freed
        self.now_ms = 0
        self.ending: dict[str, int] = {}
        self.actions: list[tuple[int, GuardAction]] = []
        self.phases: set[GuardPhase] = set()
        self.peak = 0.0

    def _run(self, milliseconds: int) -> None:
        turn = self.guard.turn
        active = {task: self.busy[task] for task in self.rates if turn in (None, task) and task not in self.ending}
        load = sum(active.values()) or 1
        for task, busy in active.items():
            share = busy / load if load > 1 else busy
            self.cpu_ns[task] += int(share * milliseconds * 1_000_000)
            grown = self.rates[task] * MB * share * milliseconds / 1000
            self.owned[task] += grown
            self.used += grown
        self.peak = max(self.peak, self.used)
        self.now_ms += milliseconds
        for task, end_ms in list(self.ending.items()):
            if self.now_ms >= end_ms:
                del self.ending[task], self.rates[task]
                self.used -= self.owned[task] * self.freed

    def advance(self, milliseconds: int, each: Callable[[], None] = lambda: None) -> list[GuardAction]:
        """Lets time pass; returns the actions."""
        first = len(self.actions)
        until = self.now_ms + milliseconds
        elapsed = 1
        while self.now_ms < until:
            each()
            uses = {task: TaskUse(self.cpu_ns[task], self.reported[task]) for task in self.rates}
            reading = MemoryReading(int(self.used), BUDGET, BUDGET - int(self.used))
            for action in self.guard.observe(self.now_ms, reading, uses):
                self.actions.append((self.now_ms, action))
                if isinstance(action, FailTask):
                    self.ending[action.attempt] = self.now_ms + 200
            self.phases.add(self.guard.phase)
            elapsed = self.guard.next_interval_ms(elapsed)
            self._run(elapsed)
        return [action for _, action in self.actions[first:]]


def failed(actions: list[GuardAction]) -> list[str]:
    return [action.attempt for action in actions if isinstance(action, FailTask)]


@pytest.mark.parametrize("rate", [5, 50, 400, 1000])
def test_the_task_that_leaks_fails_and_its_neighbours_go_on(rate: float) -> None:
    process = Process({"busy": 0, "leak": rate, "other": 0})
    actions = process.advance(700_000 if rate < 10 else 60_000)
    assert failed(actions) == ["leak"] and isinstance(actions[0], ReleaseMemory)
    assert process.peak < BUDGET
    assert process.guard.phase is GuardPhase.WATCHING and process.guard.turn is None


def test_a_small_share_of_the_cpu_does_not_hide_the_task_that_grows() -> None:
    process = Process({"busy": 0, "leak": 300, "busy too": 0})
    process.busy["leak"] = 0.05
    assert failed(process.advance(300_000)) == ["leak"]


def test_memory_that_a_task_has_long_had_is_not_held_against_it() -> None:
    process = Process({"state": 400, "leak": 0}, used=100)
    process.advance(3_000)
    process.rates.update(state=0, leak=40)
    process.advance(60_000)
    assert failed([action for _, action in process.actions]) == ["leak"]


def test_data_that_operators_report_are_theirs() -> None:
    process = Process({"state": 20, "busy": 0})
    process.busy.update(state=0.1, busy=1.0)

    def report() -> None:
        process.reported.update(state=int(process.owned["state"]), busy=0)

    actions = process.advance(600_000, report)
    assert failed(actions) == ["state"]
    (failure,) = (action for action in actions if isinstance(action, FailTask))
    assert failure.is_certain and failure.grown_bytes > 0.9 * failure.total_bytes


def test_a_process_that_is_full_and_steady_runs_freely() -> None:
    process = Process({"a": 300, "b": 0})
    process.busy["b"] = 0.1
    process.advance(2_200)
    process.rates["a"] = 0
    process.advance(10_000)
    assert GuardPhase.PUSHING_BACK in process.phases
    assert process.guard.turn is None and not failed([action for _, action in process.actions])
    first = len(process.actions)
    process.advance(60_000)
    assert process.actions[first:] == [], "it is not slowed down again while it does not grow"


def test_the_memory_of_others_in_the_container_is_not_pushed_back() -> None:
    guard = MemoryGuard()
    for tick in range(100):
        reading = MemoryReading(100 * MB, BUDGET, int((1 - min(0.99, tick / 50)) * BUDGET))
        assert guard.observe(tick * 500, reading, {"a": TaskUse(tick * 10**8)}) == []
    assert guard.phase is GuardPhase.WATCHING


def test_nobody_else_fails_for_memory_that_the_failed_task_leaves() -> None:
    process = Process({"leak": 200, "busy": 0}, freed=0.0)
    actions = process.advance(60_000)
    assert failed(actions) == ["leak"]
    assert sum(isinstance(action, ReportNoCulprit) for action in actions) == 1
    assert process.guard.turn is None


def test_two_leaks_fail_one_after_the_other() -> None:
    process = Process({"a": 300, "b": 60, "busy": 0})
    assert failed(process.advance(120_000)) == ["a", "b"]


def test_turns_go_round_and_a_task_without_work_passes_them_on() -> None:
    process = Process({"a": 30, "b": 30, "idle": 0}, used=840)
    process.busy["idle"] = 0.0
    turns: list[str | None] = []
    process.advance(1_500, lambda: turns.append(process.guard.turn))
    taken = [turn for turn in turns if turn is not None]
    assert set(taken) == {"a", "b", "idle"}
    assert taken.count("idle") * 2 < min(taken.count("a"), taken.count("b"))


@pytest.mark.parametrize("seed", range(6))
def test_the_peak_of_random_tasks_stays_within_the_budget(seed: int) -> None:
    random_ = random.Random(seed)
    leak = random_.choice([80, 300])
    process = Process({f"task {n}": 0 for n in range(random_.randint(0, 6))} | {"leak": leak}, used=400)
    for task in process.busy:
        process.busy[task] = random_.uniform(0.2, 1.0)
    assert failed(process.advance(200_000)) == ["leak"]
    assert process.peak < BUDGET
