"""IoLoop: the I/O thread for the data plane of a process.

It accepts and connects sockets, receives, continues sends that a socket did not take immediately, and runs timers. Task
threads send directly if the socket allows it, so outgoing data usually does not wait for this thread.

There is one thread for all connections instead of one for each: under the GIL more threads would not receive faster,
and a process with a hundred peers would have hundreds of them. The system calls of the thread release the GIL.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import os
import select
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from flinkpy.common.clock import Clock, SystemClock

_log = logging.getLogger(__name__)

READ = select.EPOLLIN | select.EPOLLRDHUP
WRITE = select.EPOLLOUT
BROKEN = select.EPOLLERR | select.EPOLLHUP

_CLOSE_TIMEOUT_S = 5.0


class Selectable(Protocol):
    """A handler of socket events."""

    def on_events(self, events: int) -> None:
        """Handles epoll events. Thread: I/O."""
        ...


class Timer:
    """A scheduled action. Thread: `cancel` from any."""

    __slots__ = ("action",)

    def __init__(self, action: Callable[[], None]) -> None:
        self.action: Callable[[], None] | None = action

    def cancel(self) -> None:
        self.action = None


class IoLoop:
    """Runs socket handlers, timers and actions on one thread.

    Thread: `call_soon`, `call_later`, `register`, `modify` from any. Handlers and actions run on the I/O thread.
    """

    def __init__(self, name: str = "network-io", clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._epoll = select.epoll()
        self._wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._epoll.register(self._wake_fd, select.EPOLLIN)
        self._handlers: dict[int, Selectable] = {}
        self._soon: deque[Callable[[], None]] = deque()
        self._timers: list[tuple[int, int, Timer]] = []
        self._timer_lock = threading.Lock()
        self._sequence = itertools.count()
        self._stopping = False
        self._closed = False
        self._close_lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def is_current_thread(self) -> bool:
        return threading.get_ident() == self._thread.ident

    @property
    def now_ms(self) -> int:
        return self._clock.monotonic_ms()

    def call_soon(self, action: Callable[[], None]) -> None:
        """Runs `action()` on the I/O thread."""
        self._soon.append(action)
        self._wake()

    def call_later(self, delay_ms: int, action: Callable[[], None]) -> Timer:
        """Runs `action()` on the I/O thread after `delay_ms`."""
        timer = Timer(action)
        due = self._clock.monotonic_ms() + delay_ms
        with self._timer_lock:
            heapq.heappush(self._timers, (due, next(self._sequence), timer))
            is_first = self._timers[0][2] is timer
        if is_first:
            self._wake()
        return timer

    def register(self, fd: int, handler: Selectable, events: int) -> None:
        self._handlers[fd] = handler
        self._epoll.register(fd, events)

    def modify(self, fd: int, events: int) -> None:
        self._epoll.modify(fd, events)

    def unregister(self, fd: int) -> None:
        if self._handlers.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    def close(self) -> None:
        """Runs the actions of `call_soon`, ends the thread and closes its descriptors. Not on the I/O thread."""
        if self.is_current_thread:
            raise AssertionError("the I/O thread cannot wait for its own end")
        self._stopping = True
        self._wake()
        if self._thread.ident is not None:
            self._thread.join(_CLOSE_TIMEOUT_S)
            if self._thread.is_alive():
                raise TimeoutError(f"thread {self._thread.name} did not end within {_CLOSE_TIMEOUT_S} s")
        with self._close_lock:
            if self._closed:
                return
            self._closed = True
            self._epoll.close()
            os.close(self._wake_fd)

    def _wake(self) -> None:
        with self._close_lock:
            if not self._closed:
                os.eventfd_write(self._wake_fd, 1)

    def _run(self) -> None:
        handlers = self._handlers
        while not (self._stopping and not self._soon):
            for fd, events in self._epoll.poll(self._timeout_s()):
                if fd == self._wake_fd:
                    self._drain_wakeups()
                    continue
                handler = handlers.get(fd)
                if handler is not None:
                    self._guarded(handler.on_events, events)
            self._run_soon()
            if self._timers:
                self._run_due_timers()

    def _drain_wakeups(self) -> None:
        try:
            os.eventfd_read(self._wake_fd)
        except BlockingIOError:
            return

    def _run_soon(self) -> None:
        for _ in range(len(self._soon)):
            self._guarded(self._soon.popleft())

    def _run_due_timers(self) -> None:
        now = self._clock.monotonic_ms()
        due: list[Timer] = []
        with self._timer_lock:
            while self._timers and (self._timers[0][0] <= now or self._timers[0][2].action is None):
                due.append(heapq.heappop(self._timers)[2])
        for timer in due:
            action = timer.action
            if action is not None:
                self._guarded(action)

    def _timeout_s(self) -> float:
        with self._timer_lock:
            if not self._timers:
                return -1
            return max(0, self._timers[0][0] - self._clock.monotonic_ms()) / 1000

    def _guarded(self, action: Callable[..., None], *args: Any) -> None:
        """Runs an action. An error of one connection must not end the thread that all connections need."""
        try:
            action(*args)
        except Exception:  # noqa: BLE001 - see above; logged with its traceback
            _log.exception("the network I/O thread caught an error of %r", action)
