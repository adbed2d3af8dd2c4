"""TaskMailbox: the only part of a running task that other threads may touch.

A mail is an action to run on the task thread. All mail runs before the next batch. Urgent mail (cancel, barrier) runs
before other mail. Mail of one priority keeps its order.

The implementation holds no Python lock: deque operations are atomic, and a raw lock serves as a binary semaphore for
the wake-up. So a task thread that is interrupted by an injected exception cannot leave a lock held that another thread
waits for.

Source: org.apache.flink.streaming.runtime.tasks.mailbox.TaskMailboxImpl.
"""

from __future__ import annotations

import enum
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from flinkpy.common.clock import Clock, SystemClock
from flinkpy.common.errors import InternalError
from flinkpy.metrics.metricbase import Histogram

#: Operator events, timers and control messages stay far below this number. A mailbox with more mail has a faulty
#: sender.
MAX_MAILS = 1 << 16

#: The longest sleep of a waiting task, so that a lost wake-up causes a delay and not a hang.
MAX_WAIT_S = 60.0


class MailPriority(enum.IntEnum):
    """Cancellations and checkpoint barriers are URGENT and overtake all other mail."""

    DEFAULT = 0
    URGENT = 1


@dataclass(frozen=True, slots=True)
class Mail:
    """An action to run on the task thread. `description` names it in thread dumps and errors."""

    description: str
    action: Callable[[], None]
    priority: MailPriority = MailPriority.DEFAULT


class TaskMailbox:
    """The mail of one task. Thread: any thread may call `put`, `wake` and `close`, only the task thread the rest.

    Attributes:
        has_mail: the only attribute that the hot path reads. It may be True without mail. It is never False while mail
            is left from before the last `take`.
        num_mails: the number of mails that were taken.
        latency_ms: how long the last mails waited until they were taken.
    """

    __slots__ = ("_clock", "_closed", "_ordinary", "_signal", "_urgent", "has_mail", "latency_ms", "num_mails")

    def __init__(self, clock: Clock | None = None) -> None:
        self.has_mail = False
        self.num_mails = 0
        self.latency_ms = Histogram()
        self._clock = clock or SystemClock()
        #: The mails with the monotonic times at which they were put.
        self._urgent: deque[tuple[Mail, int]] = deque()
        self._ordinary: deque[tuple[Mail, int]] = deque()
        self._closed = False
        self._signal = threading.Lock()
        self._signal.acquire()

    def put(self, mail: Mail) -> bool:
        """Delivers `mail`. Returns False if the mailbox is closed and the mail was dropped.

        Raises:
            InternalError: if MAX_MAILS are waiting.
        """
        if self._closed:
            return False
        queue = self._urgent if mail.priority is MailPriority.URGENT else self._ordinary
        if len(queue) >= MAX_MAILS:
            raise InternalError(f"the mailbox is full: {MAX_MAILS} mails wait when {mail.description!r} arrives")
        queue.append((mail, self._clock.monotonic_ns()))
        self.has_mail = True
        self.wake()
        return True

    def wake(self) -> None:
        """Ends the current `wait`, or makes the next one return immediately."""
        if self._signal.locked():
            try:
                self._signal.release()
            except RuntimeError:  # another thread released it first, so the task is awake
                return

    def wait(self, timeout_s: float) -> None:
        """Sleeps until mail is put, `wake` is called or the timeout expires."""
        if not self.has_mail:
            self._signal.acquire(timeout=min(max(timeout_s, 0.0), MAX_WAIT_S))

    def take(self) -> Mail | None:
        """Returns the next mail, urgent mail first, or None."""
        if self._urgent:
            return self._taken(*self._urgent.popleft())
        if self._ordinary:
            return self._taken(*self._ordinary.popleft())
        # Cleared before the queues are checked again, so that a concurrent put leaves it True.
        self.has_mail = False
        if self._urgent or self._ordinary:
            self.has_mail = True
            return self.take()
        return None

    def take_urgent(self) -> Mail | None:
        """Returns the next urgent mail, or None. For waits inside an operation that other mail must not interrupt."""
        return self._taken(*self._urgent.popleft()) if self._urgent else None

    def _taken(self, mail: Mail, put_ns: int) -> Mail:
        self.num_mails += 1
        self.latency_ms.update((self._clock.monotonic_ns() - put_ns) / 1e6)
        return mail

    def __len__(self) -> int:
        """Returns the number of mails that wait. Any thread."""
        return len(self._urgent) + len(self._ordinary)

    @property
    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> list[Mail]:
        """Refuses further mail. Returns the mail that was not run."""
        self._closed = True
        dropped = [mail for mail, _ in (*self._urgent, *self._ordinary)]
        self._urgent.clear()
        self._ordinary.clear()
        self.has_mail = False
        return dropped
