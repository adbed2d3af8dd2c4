"""MailboxProcessor: the loop of a task thread.

```
   while running:  urgent mail -> mail -> due timers and flushes -> default action (one batch)
                                                                      |
                        suspended until mail, wake-up or deadline  <--+  NOTHING_AVAILABLE (idle) | BLOCKED (no credit)
```

Idle and back-pressured time count the time in which the loop is suspended. All other time is busy time.

Source: org.apache.flink.streaming.runtime.tasks.mailbox.MailboxProcessor.
"""

from __future__ import annotations

import enum
from collections.abc import Callable

from flinkpy.common.clock import Clock
from flinkpy.streaming.mailbox.task_mailbox import MAX_WAIT_S, TaskMailbox


class ActionStatus(enum.Enum):
    """The result of one default action."""

    MORE = "it processed something and may be called again immediately"
    NOTHING_AVAILABLE = "no input is available: idle"
    BLOCKED = "an output has no credit or the sink accepts nothing: back-pressured"
    END = "the whole input has been processed"


class TaskTimes:
    """Idle and back-pressured time of one task, in ns. Thread: written by the task thread, read by any."""

    __slots__ = (
        "_clock",
        "_wait_started_ns",
        "_wait_status",
        "back_pressured_ns",
        "idle_ns",
        "longest_back_pressure_ns",
        "started_ns",
        "stopped_ns",
    )

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.idle_ns = 0
        self.back_pressured_ns = 0
        #: The longest single wait for an output since a reader last reset it.
        self.longest_back_pressure_ns = 0
        self.started_ns: int | None = None
        self.stopped_ns: int | None = None
        self._wait_started_ns = 0
        self._wait_status: ActionStatus | None = None

    def start(self) -> None:
        self.started_ns = self._clock.monotonic_ns()

    def stop(self) -> None:
        self.stopped_ns = self._clock.monotonic_ns()

    def begin_wait(self, status: ActionStatus, now_ns: int) -> None:
        self._wait_started_ns = now_ns
        self._wait_status = status

    def end_wait(self) -> None:
        waited_ns = self._clock.monotonic_ns() - self._wait_started_ns
        if self._wait_status is ActionStatus.BLOCKED:
            self.back_pressured_ns += waited_ns
            if waited_ns > self.longest_back_pressure_ns:
                self.longest_back_pressure_ns = waited_ns
        else:
            self.idle_ns += waited_ns
        self._wait_status = None

    def read_ms(self) -> tuple[int, int, int]:
        """Returns (idle, busy, back-pressured) so far, including a wait in progress."""
        if self.started_ns is None:
            return 0, 0, 0
        now_ns = self._clock.monotonic_ns() if self.stopped_ns is None else self.stopped_ns
        idle_ns, blocked_ns, status = self.idle_ns, self.back_pressured_ns, self._wait_status
        if status is not None:
            current_ns = max(0, now_ns - self._wait_started_ns)
            if status is ActionStatus.BLOCKED:
                blocked_ns += current_ns
            else:
                idle_ns += current_ns
        busy_ns = max(0, now_ns - self.started_ns - idle_ns - blocked_ns)
        return idle_ns // 1_000_000, busy_ns // 1_000_000, blocked_ns // 1_000_000


class MailboxProcessor:
    """Runs the loop. Thread: `run` and everything it calls run on the task thread.

    Args:
        default_action: processes at most one batch.
        on_idle: called before the task sleeps because it has no input. It flushes the outputs.
        next_deadline_ns: returns the monotonic time at which to call `on_deadline`, or None.
        on_deadline: fires due timers and flushes.
    """

    def __init__(
        self,
        mailbox: TaskMailbox,
        times: TaskTimes,
        clock: Clock,
        *,
        default_action: Callable[[], ActionStatus],
        on_idle: Callable[[], None],
        next_deadline_ns: Callable[[], int | None],
        on_deadline: Callable[[int], None],
    ) -> None:
        self._mailbox = mailbox
        self._times = times
        self._clock = clock
        self._default_action = default_action
        self._on_idle = on_idle
        self._next_deadline_ns = next_deadline_ns
        self._on_deadline = on_deadline
        self._is_stopped = False
        self._is_paused = False

    def set_paused(self, is_paused: bool) -> None:
        """Stops or continues calling the default action. Mail and timers are still processed. Thread: any."""
        if is_paused is not self._is_paused:
            self._is_paused = is_paused
            self._mailbox.wake()

    def stop(self) -> None:
        """Makes `run` return before the next default action."""
        self._is_stopped = True

    def run(self) -> None:
        """Loops until the default action returns END or `stop` is called. Later mail waits for `run_until`."""
        mailbox = self._mailbox
        default_action = self._default_action
        next_deadline_ns = self._next_deadline_ns
        monotonic_ns = self._clock.monotonic_ns
        while True:
            if mailbox.has_mail:
                self.run_mails()
            deadline_ns = next_deadline_ns()
            if deadline_ns is not None:
                now_ns = monotonic_ns()
                if deadline_ns <= now_ns:
                    self._on_deadline(now_ns)
            if self._is_stopped:
                return
            if self._is_paused:
                self._suspend(ActionStatus.BLOCKED)
                continue
            status = default_action()
            if status is ActionStatus.MORE:
                continue
            if status is ActionStatus.END:
                return
            if status is ActionStatus.NOTHING_AVAILABLE:
                self._on_idle()
            self._suspend(status)

    def run_until(self, condition: Callable[[], bool]) -> None:
        """Processes mail and timers, but no input, until `condition()` is true.

        The code that makes it true on another thread must wake the mailbox.
        """
        while True:
            if self._mailbox.has_mail:
                self.run_mails()
            deadline_ns = self._next_deadline_ns()
            now_ns = self._clock.monotonic_ns()
            if deadline_ns is not None and deadline_ns <= now_ns:
                self._on_deadline(now_ns)
            if condition():
                return
            self._suspend(ActionStatus.BLOCKED)

    def run_mails(self) -> None:
        take = self._mailbox.take
        while (mail := take()) is not None:
            mail.action()

    def _suspend(self, status: ActionStatus) -> None:
        now_ns = self._clock.monotonic_ns()
        deadline_ns = self._next_deadline_ns()
        timeout_s = MAX_WAIT_S if deadline_ns is None else (deadline_ns - now_ns) / 1e9
        self._times.begin_wait(status, now_ns)
        try:
            self._mailbox.wait(timeout_s)
        finally:
            self._times.end_wait()
