"""OperationCache: what clients asked for and may ask for again, by the id they gave it.

A client whose connection broke, or whose patience ended, repeats its call with the same id: it is given the answer of
the operation that it began, be that finished or still under way.

Source: org.apache.flink.runtime.dispatcher.DispatcherOperationCaches.
Thread: the Dispatcher's loop.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from flinkpy.common.errors import ErrorRetry, FlinkError, InternalError

T = TypeVar("T")
Key = tuple[str, ...]

#: Finished operations that are remembered; those under way are not limited by this.
MAX_FINISHED = 1_000


class OperationCache:
    """`start(coroutine, on_done, name)` runs an operation, as `RpcEndpoint.run_async` does."""

    def __init__(self, start: Callable[[Coroutine[Any, Any, Any], Any, str], Any]) -> None:
        self._start = start
        self._under_way: dict[Key, asyncio.Future[Any]] = {}
        self._finished: OrderedDict[Key, asyncio.Future[Any]] = OrderedDict()

    async def run(self, key: Key, operation: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The result of the operation of that key, which is started where it has not been. It outlives its caller.

        An error that says that the same call may succeed later is not remembered.
        """
        future = self._under_way.get(key) or self._finished.get(key)
        if future is None:
            future = self._begin(key, operation)
        result: T = await asyncio.shield(future)
        return result

    def _begin(self, key: Key, operation: Callable[[], Coroutine[Any, Any, Any]]) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._under_way[key] = future

        def done(result: Any, error: BaseException | None) -> None:
            del self._under_way[key]
            if not (isinstance(error, FlinkError) and error.retry is ErrorRetry.BACKOFF):
                self._finished[key] = future
                while len(self._finished) > MAX_FINISHED:
                    self._finished.popitem(last=False)
            if error is None:
                future.set_result(result)
                return
            future.set_exception(error if isinstance(error, Exception) else InternalError(str(error)))
            future.exception()  # seen, also where the caller has gone

        self._start(operation(), done, f"operation {'/'.join(key)}")
        return future
