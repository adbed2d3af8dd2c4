"""TaskMailbox: the only thing other threads may touch of a running task.

A mail is an action to run on the task thread. Priority mails (cancel, barrier) run before ordinary ones, and any mail
before the next batch. Within one priority mails keep their order.

The implementation takes no Python-level lock: deque operations are atomic, and the wake-up is one raw lock used as a
binary semaphore. So a task thread that is interrupted at any point (an exception injected into it) cannot leave a lock
held that another thread would then wait for.

Source: org.apache.flink.streaming.runtime.tasks.mailbox.TaskMailboxImpl.
"""

from __future__ import annotations

import enum
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from flinkpy.common.errors import InternalError

#: Operator events, timers and control together never come near this; a mailbox that is this full has a runaway sender.
MAX_MAILS = 1 << 16

#: The longest a waiting task sleeps without looking again, so that a lost wake-up is a delay and never a hang.
MAX_WAIT_S = 60.0


class MailPriority(enum.IntEnum):
    """URGENT mails overtake all others: cancel and checkpoint barriers."""

    DEFAULT = 0
    URGENT = 1


@dataclass(frozen=True, slots=True)
class Mail:
    """`description` says in thread dumps and errors what the action is."""

    description: str
    action: Callable[[], None]
    priority: MailPriority = MailPriority.DEFAULT


class TaskMailbox:
    """Thread: `put`, `wake` and `close` from any thread; everything else only from the task thread.

    Attributes:
        has_mail: the one thing the hot path looks at. May be True with nothing to take, never False with a mail waiting
            that was put before the last `take_all`.
    """

    __slots__ = ("_closed", "_ordinary", "_signal", "_urgent", "has_mail")

    def __init__(self) -> None:
        self.has_mail = False
        self._urgent: deque[Mail] = deque()
        self._ordinary: deque[Mail] = deque()
        self._closed = False
        self._signal = threading.Lock()
        self._signal.acquire()

    def put(self, mail: Mail) -> bool:
        """Deliver `mail`; False where the mailbox is closed and the mail was dropped.

        Raises:
            InternalError: more than MAX_MAILS are waiting.
        """
        if self._closed:
            return False
        queue = self._urgent if mail.priority is MailPriority.URGENT else self._ordinary
        if len(queue) >= MAX_MAILS:
            raise InternalError(f"mailbox full: {MAX_MAILS} mails wait, the newest being {mail.description!r}")
        queue.append(mail)
        self.has_mail = True
        self.wake()
        return True

    def wake(self) -> None:
        """End the current `wait`, or the next one at once."""
        if self._signal.locked():
            try:
                self._signal.release()
            except RuntimeError:  # another thread released it first: the task is awake, which is all we want
                return

    def wait(self, timeout_s: float) -> None:
        """Sleep until a mail is put, `wake` is called, or the time is over."""
        if not self.has_mail:
            self._signal.acquire(timeout=min(max(timeout_s, 0.0), MAX_WAIT_S))

    def take(self) -> Mail | None:
        """The next mail, urgent ones first, or None."""
        if self._urgent:
            return self._urgent.popleft()
        if self._ordinary:
            return self._ordinary.popleft()
        # Cleared first, looked at again after: a put between the two leaves it True.
        self.has_mail = False
        if self._urgent or self._ordinary:
            self.has_mail = True
            return self.take()
        return None

    def take_urgent(self) -> Mail | None:
        """The next urgent mail, or None: for who waits in the middle of something that ordinary mail must not see."""
        return self._urgent.popleft() if self._urgent else None

    @property
    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> list[Mail]:
        """Refuse further mails; returns those that were never run."""
        self._closed = True
        dropped = [*self._urgent, *self._ordinary]
        self._urgent.clear()
        self._ordinary.clear()
        self.has_mail = False
        return dropped
