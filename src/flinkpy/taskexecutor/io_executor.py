"""IoExecutor: the threads that write snapshots and remove files, so that neither task threads nor the main thread do.

Source: the ioExecutor of org.apache.flink.runtime.taskexecutor.TaskManagerRunner.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

#: Per core, as in Flink: such work waits for disks and networks more than it computes.
THREADS_PER_CORE = 4
MAX_THREADS = 64


class IoExecutor(Executor):
    """A pool that can say whether its work has ended. Thread: any.

    Args:
        size: most threads at a time; None: by the number of cores.
    """

    def __init__(self, size: int | None = None) -> None:
        threads = size or min(MAX_THREADS, THREADS_PER_CORE * (os.cpu_count() or 1))
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="taskexecutor-io")
        self._lock = threading.Lock()
        self._running: set[Future[Any]] = set()

    def submit(self, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Raises: RuntimeError after `shutdown`."""
        future = self._pool.submit(call, *args, **kwargs)
        with self._lock:
            self._running.add(future)
        future.add_done_callback(self._done)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._pool.shutdown(wait=wait, cancel_futures=cancel_futures)

    def close(self, timeout_s: float) -> bool:
        """Take no more work and drop what has not begun; False where work still runs after `timeout_s`."""
        with self._lock:
            running = set(self._running)
        self._pool.shutdown(wait=False, cancel_futures=True)
        return not wait(running, timeout_s).not_done

    def _done(self, future: Future[Any]) -> None:
        with self._lock:
            self._running.discard(future)
