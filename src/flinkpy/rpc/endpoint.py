"""RpcEndpoint: a service whose state is used on one event loop only, its main thread.

Handlers are plain `def`s without an await, so that their preconditions stay true until they return. Work that takes
time is started with `run_async` or `run_blocking`; its result comes back in a call on the main thread.

Source: org.apache.flink.runtime.rpc.RpcEndpoint. Thread: one asyncio loop.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from flinkpy.common.clock import Clock, SystemClock
from flinkpy.common.error_text import describe, format_user_traceback
from flinkpy.common.errors import FunctionError

logger = logging.getLogger(__name__)

T = TypeVar("T")
OnDone = Callable[[Any, BaseException | None], None]

#: Blocking work of a control-path endpoint is file I/O and user-defined enumerators; a few threads are enough.
MAX_BLOCKING_THREADS = 8

#: A timer that fires later than this did not wait for other work: the whole process was suspended.
STALL_MS = 1_000


class TimerHandle:
    """A scheduled action. After `cancel` it does not run."""

    def __init__(self, handle: asyncio.TimerHandle, timers: set[TimerHandle]) -> None:
        self._handle = handle
        self._timers = timers
        timers.add(self)

    def cancel(self) -> None:
        self._handle.cancel()
        self._timers.discard(self)


class RpcEndpoint:
    """Base of the four services."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock | None = None) -> None:
        self._loop = loop
        self.clock: Clock = clock or SystemClock()
        self._main_thread_id = threading.get_ident()
        self._timers: set[TimerHandle] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._executor: ThreadPoolExecutor | None = None
        self._is_closed = False
        #: The total time for which this process was suspended, and the loop time up to which it is counted.
        self._stalled_s = 0.0
        self._stalls_known_until_s = 0.0
        #: Called with an unexpected error of a handler. By default it is logged; a service may make it fatal.
        self.on_fatal_error: Callable[[BaseException], None] = _log_unexpected

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    def validate_runs_in_main_thread(self) -> None:
        assert threading.get_ident() == self._main_thread_id, "endpoint state touched outside its main thread"

    def run_in_main_thread(self, action: Callable[..., None], *args: Any) -> None:
        """Runs `action(*args)` on the main thread soon. Does nothing when the endpoint is closed. Thread: any."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._guarded, action, *args)

    def run_from_thread(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Starts `coroutine` on the main thread. Returns its future result. Thread: any but the main thread."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def schedule(self, delay_ms: float, action: Callable[[], None]) -> TimerHandle:
        """Runs `action()` on the main thread after `delay_ms`."""
        due_s = self._loop.time() + delay_ms / 1000

        def fire() -> None:
            self._note_stall(due_s)
            self._timers.discard(handle)
            self._guarded(action)

        handle = TimerHandle(self._loop.call_later(delay_ms / 1000, fire), self._timers)
        return handle

    def awake_ms(self) -> int:
        """Returns monotonic time without the times in which this process was suspended (stopped, swapped out).

        The silence of peers is measured in it: a suspended process cannot hear its peers.
        """
        return self.clock.monotonic_ms() - round(self._stalled_s * 1000)

    def _note_stall(self, due_s: float) -> None:
        """Counts the delay of a timer that fires now as suspension if it is too long."""
        now_s = self._loop.time()
        late_s = now_s - max(due_s, self._stalls_known_until_s)
        if late_s * 1000 > STALL_MS:
            self._stalled_s += late_s
            self._stalls_known_until_s = now_s
            logger.warning("this process was suspended for %d ms", late_s * 1000)

    def run_async(self, coroutine: Coroutine[Any, Any, T], on_done: OnDone | None, name: str) -> asyncio.Task[T]:
        """Starts `coroutine`, then calls `on_done(result, None)` or `on_done(None, error)` on the main thread.

        Without `on_done` an error is logged. `close` cancels running work, whose `on_done` is then not called.
        """
        task: asyncio.Task[T] = self._loop.create_task(coroutine, name=name)
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._finished(done, on_done, name))
        return task

    def start_task(self, coroutine: Coroutine[Any, Any, None], name: str) -> None:
        """Starts a coroutine that handles the errors it expects. Other errors are fatal, as those of handlers."""

        def done(_: None, error: BaseException | None) -> None:
            if error is not None:
                self.on_fatal_error(error)

        self.run_async(coroutine, done, name)

    def run_blocking(self, call: Callable[[], T], on_done: OnDone | None, name: str) -> None:
        """Runs a blocking `call()` on an I/O thread; otherwise as `run_async`."""
        self.run_async(self.blocking(call, name), on_done, name)

    async def blocking(self, call: Callable[[], T], name: str = "a blocking call") -> T:
        """Runs a blocking `call()` on an I/O thread and returns its result."""
        if self._executor is None:
            self._executor = ThreadPoolExecutor(MAX_BLOCKING_THREADS, thread_name_prefix=f"{type(self).__name__}-io")

        def guarded() -> T:
            try:
                return call()
            except (SystemExit, KeyboardInterrupt, GeneratorExit) as error:
                # User code called sys.exit(). asyncio would let this exception end the loop, and with it the process.
                raise FunctionError(
                    f"{name}: {describe(error)}", remote_traceback=format_user_traceback(error)
                ) from error

        return await self._loop.run_in_executor(self._executor, guarded)

    async def close(self) -> None:
        """Cancels timers and running work. Idempotent."""
        self._is_closed = True
        for timer in list(self._timers):
            timer.cancel()
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)

    def _finished(self, task: asyncio.Task[Any], on_done: OnDone | None, name: str) -> None:
        self._tasks.discard(task)
        if task.cancelled() or self._is_closed:
            if not task.cancelled():
                task.exception()  # mark it as retrieved: asyncio logs it otherwise
            return
        error = task.exception()
        if on_done is not None:
            self._guarded(on_done, None if error is not None else task.result(), error)
        elif error is not None:
            logger.warning("%s failed: %s", name, error)

    def _guarded(self, action: Callable[..., None], *args: Any) -> None:
        if self._is_closed:
            return
        try:
            action(*args)
        except Exception as error:  # noqa: BLE001 - an event handler must not take the loop down unseen
            self.on_fatal_error(error)


def _log_unexpected(error: BaseException) -> None:
    logger.error("unexpected error on the main thread", exc_info=error)
