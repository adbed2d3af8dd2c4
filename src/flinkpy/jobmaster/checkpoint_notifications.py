"""CheckpointNotifications: the ends of checkpoints on their way to one TaskExecutor, in order, one call at a time.

A confirmation is never dropped, except for a newer one, which says the same of all before it. Pure.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from flinkpy._proto import checkpoint_pb2

#: Aborts that may wait for a TaskExecutor that does not answer; the oldest goes first, a task survives without it.
MAX_WAITING_ABORTS = 32

_CONFIRM = "confirm_checkpoints"
_ABORT = "abort_checkpoints"

Send = Callable[[str, checkpoint_pb2.CheckpointNotification], None]


class CheckpointNotifications:
    """`send(method, notification)` is followed by `answered` or `repeat`."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._waiting: deque[tuple[str, checkpoint_pb2.CheckpointNotification]] = deque()
        self._on_its_way: tuple[str, checkpoint_pb2.CheckpointNotification] | None = None

    def confirm(self, notification: checkpoint_pb2.CheckpointNotification) -> None:
        # A task that has been replaced meanwhile is not told by the newer one, and need not be.
        self._waiting = deque(waiting for waiting in self._waiting if waiting[0] != _CONFIRM)
        self._waiting.append((_CONFIRM, notification))
        self._send_next()

    def abort(self, notification: checkpoint_pb2.CheckpointNotification) -> None:
        aborts = [waiting for waiting in self._waiting if waiting[0] == _ABORT]
        if len(aborts) >= MAX_WAITING_ABORTS:
            self._waiting.remove(aborts[0])
        self._waiting.append((_ABORT, notification))
        self._send_next()

    def answered(self) -> None:
        """By the TaskExecutor, in whatever way."""
        self._on_its_way = None
        self._send_next()

    def repeat(self) -> None:
        """Nobody knows whether it arrived."""
        if self._on_its_way is not None:
            self._waiting.appendleft(self._on_its_way)
            self._on_its_way = None
        self._send_next()

    def clear(self) -> None:
        self._waiting.clear()
        self._on_its_way = None

    def _send_next(self) -> None:
        if self._on_its_way is None and self._waiting:
            self._on_its_way = self._waiting.popleft()
            self._send(*self._on_its_way)
