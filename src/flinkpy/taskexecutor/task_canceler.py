"""TaskCanceler: decides when to interrupt a task that has to stop, and when to give up.

A task is first canceled by a mail. After a short grace it is interrupted if it is in user code. Then it is interrupted
every `task.cancellation.interval`, wherever it is. After `task.cancellation.timeout` the process has to end, because a
thread that cannot be stopped would hold its slot, state and memory for ever.

Pure. Source: TaskCanceler, TaskInterrupter and
TaskCancelerWatchDog of org.apache.flink.runtime.taskmanager.Task.
Differs: Flink interrupts at once. Here a task gets a grace, because it sees the mail between two batches.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

#: The grace. A batch takes milliseconds, so a task that has not seen the mail after this time is stuck in a call.
FIRST_INTERRUPT_MS = 1_000


class CancelStep(enum.Enum):
    WAIT = "nothing yet"
    INTERRUPT_USER_CODE = "interrupt, if the thread is in user code"
    INTERRUPT = "interrupt"
    GIVE_UP = "end the process"


@dataclass(slots=True)
class TaskCanceler:
    """Decides for one task.

    Args:
        started_ms: monotonic time of the cancellation.
        interval_ms, timeout_ms: `task.cancellation.{interval,timeout}`; a timeout of 0 never gives up.
    """

    started_ms: int
    interval_ms: int
    timeout_ms: int
    _next_interrupt_ms: int = -1
    _interrupts: int = 0

    def __post_init__(self) -> None:
        self._next_interrupt_ms = self.started_ms + min(FIRST_INTERRUPT_MS, self.interval_ms)

    def next_step(self, now_ms: int) -> tuple[CancelStep, int]:
        """Returns the step to take now, and after how many milliseconds (at least 1) to call this again."""
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
