r"""MemoryGuard: decides what happens when a process outgrows its memory budget. Pure.

```
               push-back level,                       fail level, and
               and it grows                           a task has grown
   WATCHING ------------------> PUSHING_BACK -----------------------> FAILING
      ^                           |      ^                               |
      +-- no growth, or enough ---+      +---- SETTLING <----------------+
      |   room again                              |       the task has ended
      +-------------------------------------------+
```

Python does not tell which thread allocated what. So the growth of the process between two readings is attributed to
the tasks whose threads have used the CPU in that time, after what tasks say about their own data. While it pushes
back, tasks take turns: only one processes batches at a time. It slows the growth down, and growth in a turn is that
task's alone.

Attributed growth fades as further memory is allocated, not with time: it describes the last tenth of the budget,
whether that was allocated in a second or in a day.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from flinkpy.common.memory_use import MemoryReading

#: Growth counts as one task's alone if its threads have used this share of the CPU time of all tasks.
_ALONE = 0.9
#: The memory whose allocation attributed growth describes, as a share of the budget.
_WINDOW = 0.1
#: The least growth by which a task is failed, and its least share of the growth of all tasks.
_MIN_GROWTH, _MIN_SHARE = 0.01, 0.25
#: Growth below this share of the budget within `_CALM_MS` is none.
_STEADY, _CALM_MS = 0.005, 3_000
#: How far below the level the use must fall until tasks need not take turns any more.
_HYSTERESIS = 0.03
#: How much more memory than after the last calm makes the guard push back again.
_REARM = 0.01
#: The length of a turn, and the share of a reading's interval below which the task of the turn has nothing to do.
_TURN_MS, _IDLE_SHARE = 100, 0.1
#: How long others wait for the end of a task that has failed, and for what its end frees.
_END_MS, _SETTLE_MS = 30_000, 500

_SHORT_INTERVAL_MS, _LONG_INTERVAL_MS = 25, 200


class GuardPhase(enum.Enum):
    WATCHING = "all tasks run"
    PUSHING_BACK = "tasks take turns"
    FAILING = "a task that has failed must end"
    SETTLING = "memory of the ended task is returned"


@dataclass(frozen=True, slots=True)
class TaskUse:
    """The facts about one task: CPU time of all its threads, and the bytes of data that its operators report.

    `reported_bytes` is None while nobody asks the operators.
    """

    cpu_ns: int
    reported_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class ReleaseMemory:
    """Collect garbage, write to files what operators can, and return free memory to the system."""


@dataclass(frozen=True, slots=True)
class FailTask:
    """Fail the task.

    Attributes:
        grown_bytes: its part of `total_bytes`, the growth of all tasks that is remembered.
        is_certain: False if other tasks ran while it grew.
    """

    attempt: str
    grown_bytes: int
    total_bytes: int
    is_certain: bool


@dataclass(frozen=True, slots=True)
class ReportNoCulprit:
    """The process is at the level at which tasks fail, and none of them has grown."""


GuardAction = ReleaseMemory | FailTask | ReportNoCulprit


@dataclass(slots=True)
class _Growth:
    """The growth of each task, fading."""

    of: dict[str, float] = field(default_factory=dict)

    def add(self, task: str, grown: float) -> None:
        self.of[task] = self.of.get(task, 0.0) + grown

    def scale(self, factor: float) -> None:
        for task in self.of:
            self.of[task] *= factor

    def keep(self, tasks: Mapping[str, TaskUse]) -> None:
        for task in self.of.keys() - tasks.keys():
            del self.of[task]

    @property
    def total(self) -> float:
        return sum(self.of.values())

    def largest(self) -> tuple[str, float] | None:
        return max(self.of.items(), key=lambda item: item[1], default=None)


class MemoryGuard:
    """Decides from readings. The caller carries out the actions.

    Args:
        push_back: the share of the budget from which on tasks take turns.
        fail: the share from which on a task that has grown fails.
    """

    def __init__(self, push_back: float = 0.85, fail: float = 0.95) -> None:
        self._push_back = push_back
        self._fail = fail
        self.phase = GuardPhase.WATCHING
        #: The task whose turn it is; None: all tasks may run.
        self.turn: str | None = None
        self._turn_since_ms = 0
        self._alone, self._shared = _Growth(), _Growth()
        self._last: MemoryReading | None = None
        self._last_ms = 0
        self._last_tasks: Mapping[str, TaskUse] = {}
        self._grown = 0
        self._since_ms = 0
        #: The use, and its time, since which the process has not grown by `_STEADY`.
        self._mark_bytes, self._mark_ms = 0, 0
        self._rearm_bytes = 0
        self._failed: str | None = None

    def grown_bytes(self, task: str) -> int:
        """Returns the growth that is attributed to a task."""
        return int(self._alone.of.get(task, 0.0) + self._shared.of.get(task, 0.0))

    def observe(self, now_ms: int, reading: MemoryReading, tasks: Mapping[str, TaskUse]) -> list[GuardAction]:
        """Takes a reading, and the tasks of the process by their attempts. Returns what is to be done."""
        self._attribute(reading, tasks)
        elapsed_ms = max(1, now_ms - self._last_ms)
        step = {
            GuardPhase.WATCHING: self._watch,
            GuardPhase.PUSHING_BACK: self._go_on_pushing_back,
            GuardPhase.FAILING: self._await_end,
            GuardPhase.SETTLING: self._settle,
        }[self.phase]
        actions = step(now_ms, reading, tasks)
        if self.phase is GuardPhase.PUSHING_BACK:
            self._take_turns(now_ms, elapsed_ms, tasks)
        elif self.phase is GuardPhase.WATCHING:
            self.turn = None
        self._last, self._last_ms, self._last_tasks = reading, now_ms, dict(tasks)
        return actions

    def next_interval_ms(self, elapsed_ms: int) -> int:
        """Returns when to take the next reading: sooner the faster the room that is left gets used up.

        Args:
            elapsed_ms: the time between the last two readings.
        """
        if self.phase is not GuardPhase.WATCHING or self._last is None:
            return _SHORT_INTERVAL_MS
        if self._grown <= 0:
            return _LONG_INTERVAL_MS
        full_in_ms = max(0, self._last.room_bytes) * elapsed_ms // self._grown
        return max(_SHORT_INTERVAL_MS, min(_LONG_INTERVAL_MS, full_in_ms // 8))

    # ---- attribution

    def _attribute(self, reading: MemoryReading, tasks: Mapping[str, TaskUse]) -> None:
        for growth in (self._alone, self._shared):
            growth.keep(tasks)
        if self._last is None:
            return
        self._grown = grown = reading.used_bytes - self._last.used_bytes
        if grown < 0:
            known = self._alone.total + self._shared.total
            for growth in (self._alone, self._shared):
                growth.scale(max(0.0, 1 + grown / known) if known else 0.0)
        elif grown > 0:
            for growth in (self._alone, self._shared):
                growth.scale(math.exp(-grown / (_WINDOW * reading.budget_bytes)))
            rest = grown - self._attribute_reported(grown, tasks)
            self._attribute_by_cpu(rest, tasks)

    def _attribute_reported(self, grown: int, tasks: Mapping[str, TaskUse]) -> float:
        """Attributes what operators know of their data. Returns how much that is."""
        more = {}
        for task, use in tasks.items():
            before = self._last_tasks.get(task, use).reported_bytes
            if use.reported_bytes is not None and before is not None and use.reported_bytes > before:
                more[task] = use.reported_bytes - before
        total = sum(more.values())
        part = min(1.0, grown / total) if total else 0.0
        for task, size in more.items():
            self._alone.add(task, size * part)
        return total * part

    def _attribute_by_cpu(self, rest: float, tasks: Mapping[str, TaskUse]) -> None:
        used = self._cpu_used(tasks)
        total = sum(used.values())
        if rest <= 0 or not total:
            return
        for task, cpu_ns in used.items():
            share = cpu_ns / total
            (self._alone if share >= _ALONE else self._shared).add(task, rest * share)

    def _cpu_used(self, tasks: Mapping[str, TaskUse]) -> dict[str, int]:
        none = TaskUse(0)
        # The threads of a task may end, with their CPU time.
        return {task: max(0, use.cpu_ns - self._last_tasks.get(task, none).cpu_ns) for task, use in tasks.items()}

    def _culprit(self, budget_bytes: int) -> FailTask | None:
        """Returns the task to fail: growth that is certain counts first."""
        for growth in (self._alone, self._shared):
            largest, total = growth.largest(), growth.total
            if largest is None:
                continue
            task, grown = largest
            if grown >= _MIN_GROWTH * budget_bytes and grown >= _MIN_SHARE * total:
                return FailTask(task, int(grown), int(total), is_certain=growth is self._alone)
        return None

    # ---- phases

    def _is_at(self, level: float, reading: MemoryReading, ahead: int = 0) -> bool:
        """True if the use has reached a share of the budget, or has when it has grown `ahead` times as much again."""
        room = reading.room_bytes - ahead * max(0, self._grown)
        return room <= (1 - level) * reading.budget_bytes

    def _enter(self, phase: GuardPhase, now_ms: int, reading: MemoryReading) -> None:
        self.phase = phase
        self._since_ms = self._mark_ms = now_ms
        self._mark_bytes = reading.used_bytes

    def _watch(self, now_ms: int, reading: MemoryReading, tasks: Mapping[str, TaskUse]) -> list[GuardAction]:
        if not self._is_at(self._push_back, reading):
            self._rearm_bytes = 0
        # Others in the container may have filled it: what this process has not allocated, it cannot push back.
        has_grown = self._alone.total + self._shared.total >= _STEADY * reading.budget_bytes
        if not has_grown or reading.used_bytes < self._rearm_bytes:
            return []
        if not self._is_at(self._push_back, reading, ahead=2):
            return []
        self._enter(GuardPhase.PUSHING_BACK, now_ms, reading)
        return [ReleaseMemory()]

    def _go_on_pushing_back(
        self, now_ms: int, reading: MemoryReading, tasks: Mapping[str, TaskUse]
    ) -> list[GuardAction]:
        if not tasks or not self._is_at(self._push_back - _HYSTERESIS, reading):
            self._enter(GuardPhase.WATCHING, now_ms, reading)
            return []
        is_full = self._is_at(self._fail, reading) or (
            self._is_at(self._push_back, reading) and self._is_at(1.0, reading, ahead=2)
        )
        culprit = self._culprit(reading.budget_bytes) if is_full else None
        if culprit is not None:
            self._enter(GuardPhase.FAILING, now_ms, reading)
            self._failed = self.turn = culprit.attempt
            return [culprit]
        if reading.used_bytes >= self._mark_bytes + _STEADY * reading.budget_bytes:
            self._mark_bytes, self._mark_ms = reading.used_bytes, now_ms
        elif now_ms - self._mark_ms >= _CALM_MS:
            self._enter(GuardPhase.WATCHING, now_ms, reading)
            self._rearm_bytes = reading.used_bytes + int(_REARM * reading.budget_bytes)
            return [ReportNoCulprit()] if is_full else []
        return []

    def _await_end(self, now_ms: int, reading: MemoryReading, tasks: Mapping[str, TaskUse]) -> list[GuardAction]:
        if self._failed in tasks and now_ms - self._since_ms < _END_MS:
            return []
        self._failed = None
        # A task that has only run beside it is not to blame for what it leaves behind.
        self._alone, self._shared = _Growth(), _Growth()
        self._enter(GuardPhase.SETTLING, now_ms, reading)
        return [ReleaseMemory()]

    def _settle(self, now_ms: int, reading: MemoryReading, tasks: Mapping[str, TaskUse]) -> list[GuardAction]:
        if now_ms - self._since_ms >= _SETTLE_MS:
            is_low = not self._is_at(self._push_back, reading)
            self._enter(GuardPhase.WATCHING if is_low else GuardPhase.PUSHING_BACK, now_ms, reading)
        return []

    # ---- turns

    def _take_turns(self, now_ms: int, elapsed_ms: int, tasks: Mapping[str, TaskUse]) -> None:
        """Lets the next task run if the current one has had its time, or has nothing to do."""
        order, turn = list(tasks), self.turn
        following = 0
        if turn is not None and turn in tasks:
            is_idle = self._cpu_used(tasks)[turn] < _IDLE_SHARE * elapsed_ms * 1_000_000
            if now_ms - self._turn_since_ms < (_SHORT_INTERVAL_MS if is_idle else _TURN_MS):
                return
            following = (order.index(turn) + 1) % len(order)
        self.turn, self._turn_since_ms = (order[following] if order else None), now_ms
