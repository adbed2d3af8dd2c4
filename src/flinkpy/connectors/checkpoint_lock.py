"""CheckpointLock: held by a source function over what belongs together, and by its task while it takes a checkpoint.

Source: the checkpoint lock of org.apache.flink.streaming.api.functions.source.legacy.SourceFunction.
"""

from __future__ import annotations

import threading
from types import TracebackType


class CheckpointLock:
    """Reentrant. The task goes first: a function that takes the lock again at once would keep it out for ever.

    Args:
        condition: guards this lock's own fields too; its waiters are woken whenever the lock is free.
    """

    def __init__(self, condition: threading.Condition) -> None:
        self._condition = condition
        self._owner: int | None = None
        self._depth = 0
        self._is_wanted_by_task = False

    # -- the function's thread -----------------------------------------------------------------------------------

    def __enter__(self) -> CheckpointLock:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()

    def acquire(self) -> None:
        me = threading.get_ident()
        with self._condition:
            if self._owner != me:
                while self._owner is not None or self._is_wanted_by_task:
                    self._condition.wait()
                self._owner = me
            self._depth += 1

    def is_open_to(self, thread: int) -> bool:
        """Whether that thread has it, or nobody: a step that is taken without letting the condition go needs no lock of
        its own then. Call with the condition held.
        """
        return self._owner == thread or (self._owner is None and not self._is_wanted_by_task)

    def release(self) -> None:
        with self._condition:
            if self._owner != threading.get_ident():
                raise RuntimeError("the checkpoint lock is released by a thread that does not hold it")
            self._depth -= 1
            if not self._depth:
                self._owner = None
                self._condition.notify_all()

    # -- the task's thread ---------------------------------------------------------------------------------------

    def try_acquire_for_task(self) -> bool:
        """Never waits; where it fails, nobody else gets the lock before the task does. Call with the condition held."""
        if self._owner is not None and self._owner != threading.get_ident():
            self._is_wanted_by_task = True
            return False
        self._is_wanted_by_task = False
        self._owner = threading.get_ident()
        self._depth = 1
        return True

    def release_for_task(self) -> None:
        """Idempotent; also gives up on getting it."""
        with self._condition:
            self._is_wanted_by_task = False
            if self._owner == threading.get_ident():
                self._owner = None
                self._depth = 0
            self._condition.notify_all()
