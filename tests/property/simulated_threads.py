"""Blocking calls on virtual time. Each call runs on its own thread, and only one thread runs at a time.

A call that waits returns control to the loop until its time has come. So time passes during the call, other events
happen, and its process may be killed in the middle, all determined by the seed.
"""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable
from typing import Any

_local = threading.local()
#: The first and the longest interval between checks of a condition.
_FIRST_LOOK_S = 0.002
_LAST_LOOK_S = 0.1


class CallAborted(BaseException):
    """Raised in a blocking call of an ended process when its remains are removed."""


class BlockingCall:
    """A call that blocks its thread but not the loop.

    Args:
        run: the blocking function.
        later: schedules a callback after the given seconds.
        on_done: called on the loop with the result and the error.
    """

    def __init__(
        self,
        run: Callable[[], Any],
        later: Callable[[float, Callable[[], None]], Any],
        on_done: Callable[[Any, BaseException | None], None],
    ) -> None:
        self._run = run
        self._later = later
        self._on_done = on_done
        self._go, self._back = _thread.allocate_lock(), _thread.allocate_lock()
        self._go.acquire()
        self._back.acquire()
        self._pause_s: float | None = None
        self._result: Any = None
        self._error: BaseException | None = None
        self._is_begun = False
        self.is_aborted = False

    def resume(self) -> None:
        """Runs the call until it waits or ends. Called on the loop."""
        if self._is_begun:
            self._go.release()
        else:
            self._is_begun = True
            _workers.run(self)
        self._back.acquire()
        if self._pause_s is not None:
            pause_s, self._pause_s = self._pause_s, None
            self._later(pause_s, self.resume)
        else:
            self._on_done(self._result, self._error)

    def pause(self, seconds: float) -> None:
        """Waits for the given seconds. Called in the blocking call."""
        self._pause_s = seconds
        self._back.release()
        self._go.acquire()
        if self.is_aborted:
            raise CallAborted

    def work(self) -> None:
        _local.call = self
        try:
            self._result = self._run()
        except BaseException as error:  # noqa: BLE001 - handed over, as an executor does
            self._error = error
        _local.call = None


class _Worker:
    def __init__(self, pool: _Workers) -> None:
        self._pool = pool
        self.call: BlockingCall | None = None
        self.go = _thread.allocate_lock()
        self.go.acquire()
        threading.Thread(target=self._loop, name="simulated blocking calls", daemon=True).start()

    def _loop(self) -> None:
        while True:
            self.go.acquire()
            call, self.call = self.call, None
            assert call is not None
            call.work()
            self._pool.idle.append(self)
            call._back.release()


class _Workers:
    def __init__(self) -> None:
        self.idle: list[_Worker] = []

    def run(self, call: BlockingCall) -> None:
        worker = self.idle.pop() if self.idle else _Worker(self)
        worker.call = call
        worker.go.release()


_workers = _Workers()


def present_call() -> BlockingCall | None:
    """Returns the blocking call of this thread, or None on the loop."""
    return getattr(_local, "call", None)


def wait_until(condition: Callable[[], bool], timeout_s: float | None, now_s: Callable[[], float]) -> bool:
    """Waits for the condition in a blocking call. On the loop, which cannot wait, returns its current value."""
    call = present_call()
    if call is None:
        return condition()
    look_s = _FIRST_LOOK_S
    until_s = None if timeout_s is None else now_s() + timeout_s
    while not condition():
        if until_s is not None and now_s() >= until_s:
            return False
        call.pause(look_s)
        look_s = min(look_s * 1.5, _LAST_LOOK_S)
    return True


class SimulatedThreading:
    """Replaces the module `threading` in code that runs in blocking calls."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        outer = self
        self._now_s = now_s

        class Event:
            def __init__(self) -> None:
                self._is_set = False

            def set(self) -> None:
                self._is_set = True

            def clear(self) -> None:
                self._is_set = False

            def is_set(self) -> bool:
                return self._is_set

            def wait(self, timeout: float | None = None) -> bool:
                return wait_until(self.is_set, timeout, outer._now_s)

        class Lock:
            def __init__(self) -> None:
                self._is_locked = False

            def acquire(self) -> bool:
                is_free = wait_until(lambda: not self._is_locked, None, outer._now_s)
                assert is_free, "the loop waits for a lock"
                self._is_locked = True
                return True

            def release(self) -> None:
                self._is_locked = False

            def __enter__(self) -> bool:
                return self.acquire()

            def __exit__(self, *_: object) -> None:
                self.release()

        class Thread:
            """A thread that has done its work when `start` returns."""

            def __init__(self, target: Callable[[], None], **_: Any) -> None:
                self._target = target

            def start(self) -> None:
                self._target()

            def join(self, timeout: float | None = None) -> None:
                return

        self.Event, self.Lock, self.Thread = Event, Lock, Thread

    def __getattr__(self, name: str) -> Any:
        return getattr(threading, name)


class SimulatedTime:
    """Replaces the module `time` in code that runs in blocking calls."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self.monotonic = now_s

    def sleep(self, seconds: float) -> None:
        call = present_call()
        assert call is not None, "the loop sleeps"
        call.pause(seconds)
