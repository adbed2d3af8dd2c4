"""OrderedWorker: runs the requests of a SinkWriter in their order on one thread, while the task goes on."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from flinkpy.logs.context import in_current_context

T = TypeVar("T")

#: One request is being sent while the next one waits, so that the service never waits for the task.
MAX_REQUESTS = 2


class OrderedWorker:
    """Runs requests one after the other on a thread of its own.

    After a request has failed, no later one runs: the next call of `submit`, `call` or `wait_until_done` raises its
    error.

    Thread: the task thread calls the methods. Requests run on the worker's thread, all on the same one, because some
    clients belong to the thread that made them.

    Args:
        name: the prefix of the thread's name.
        max_requests: the number of unfinished requests above which `submit` waits.
    """

    def __init__(self, name: str, max_requests: int = MAX_REQUESTS) -> None:
        self._executor = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._max_requests = max_requests
        self._unfinished: deque[Future[Any]] = deque()
        #: True if requests that have not begun are dropped.
        self._is_stopped = False

    def submit(self, request: Callable[[], Any]) -> None:
        """Runs a request after all earlier ones. Waits while too many are unfinished. Raises: an earlier error."""
        while self._unfinished and (self._unfinished[0].done() or len(self._unfinished) >= self._max_requests):
            self._unfinished.popleft().result()
        self._unfinished.append(self._executor.submit(in_current_context(self._run), request))

    def call(self, request: Callable[[], T]) -> T:
        """Runs a request after all earlier ones, and returns its result. Raises: its error, or an earlier one."""
        self.wait_until_done()
        found: Future[T] = self._executor.submit(in_current_context(self._run), request)
        return found.result()

    def wait_until_done(self) -> None:
        """Waits for all requests. Raises: the error of the first one that failed."""
        while self._unfinished:
            self._unfinished.popleft().result()

    def close(self, last: Callable[[], Any]) -> None:
        """Drops the requests that have not begun, waits for the others, and runs `last` on the worker's thread.

        Raises: the error of `last`.
        """
        self._is_stopped = True
        self._unfinished.clear()
        try:
            self._executor.submit(in_current_context(last)).result()
        finally:
            self._executor.shutdown(wait=True)

    def _run(self, request: Callable[[], Any]) -> Any:
        """Thread: the worker's."""
        if self._is_stopped:
            return None
        try:
            return request()
        except BaseException:
            self._is_stopped = True
            raise
