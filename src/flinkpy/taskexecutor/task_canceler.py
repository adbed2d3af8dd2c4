"""TaskCanceler: how hard a task that was told to stop is pushed, and when.

Told once (by `cancel` of its invokable, which is a mail); after a short grace, interrupted where it is in user
code; then interrupted every `task.cancellation.interval`, wherever it is; after `task.cancellation.timeout` the
process is given up, because a thread that cannot be stopped holds its slot, its state and its memory for ever.

Pure: `next_step` is asked what to do and when to ask again. Source: TaskCanceler, TaskInterrupter and
TaskCancelerWatchDog of org.apache.flink.runtime.taskmanager.Task.
Differs: Flink interrupts at once; here a task that is between batches or cleaning up sees the mail, so it gets a
grace.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

#: A batch takes milliseconds; a task that has not seen the cancel mail after this is stuck in one call.
FIRST_INTERRUPT_MS = 1_000


class CancelStep(enum.Enum):
    WAIT = "nothing yet"
    INTERRUPT_USER_CODE = "interrupt, if the thread is in user code"
    INTERRUPT = "interrupt"
    GIVE_UP = "end the process"


@dataclass(slots=True)
class TaskCanceler:
    """Args: monotonic time of the cancel call, `task.cancellation.{interval,timeout}` (timeout 0: never give up)."""

    started_ms: int
    interval_ms: int
    timeout_ms: int
    _next_interrupt_ms: int = -1
    _interrupts: int = 0

    def __post_init__(self) -> None:
        self._next_interrupt_ms = self.started_ms + min(FIRST_INTERRUPT_MS, self.interval_ms)

    def next_step(self, now_ms: int) -> tuple[CancelStep, int]:
        """What is due now, and in how many ms to ask again (at least 1)."""
        gives_up_ms = self.started_ms + self.timeout_ms if self.timeout_ms > 0 else None
        if gives_up_ms is not None and now_ms >= gives_up_ms:
            return CancelStep.GIVE_UP, self.interval_ms
        step = CancelStep.WAIT
        if now_ms >= self._next_interrupt_ms:
            step = CancelStep.INTERRUPT if self._interrupts else CancelStep.INTERRUPT_USER_CODE
            self._interrupts += 1
            self._next_interrupt_ms = now_ms + self.interval_ms
        wake_ms = self._next_interrupt_ms if gives_up_ms is None else min(self._next_interrupt_ms, gives_up_ms)
        return step, max(1, wake_ms - now_ms)
