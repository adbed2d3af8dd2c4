"""LeaderEndpoint: the service of a contender, which answers NotLeaderError while the contender does not lead.

The endpoints of a server are set once, but a process gains and loses leadership. Therefore the server serves this
object, and each term of leadership attaches a new endpoint to it.

Thread: the asyncio loop of the server.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable
from typing import Any

from flinkpy.common.errors import NotLeaderError
from flinkpy.rpc.server import CallContext, check_fencing_token, unfenced
from flinkpy.rpc.services import Method, service_methods


class LeaderEndpoint:
    """Serves `service` (e.g. "Dispatcher") with the attached endpoint.

    While no endpoint is attached, every call raises NotLeaderError, with the leader's address if it is known. Calls
    that are running when the endpoint is detached end at once with the same error.
    """

    def __init__(self, service: str) -> None:
        self.service = service
        self._endpoint: Any | None = None
        self._detached: asyncio.Future[None] | None = None
        #: the address of the leader, if this process knows it
        self.leader_address: str | None = None
        for method in service_methods(service).values():
            make = self._streaming if method.server_streaming else self._unary
            setattr(self, method.name, unfenced(make(method)))

    @property
    def endpoint(self) -> Any | None:
        return self._endpoint

    @property
    def is_serving(self) -> bool:
        """True if an endpoint is attached."""
        return self._endpoint is not None

    def attach(self, endpoint: Any) -> None:
        """Serves with `endpoint` from now on. Raises: TypeError if it lacks a method of the service."""
        for method in service_methods(self.service).values():
            if not callable(getattr(endpoint, method.name, None)):
                raise TypeError(f"{type(endpoint).__name__} does not implement {method.path}")
        if self._endpoint is not None:
            self.detach()
        self._endpoint = endpoint
        self._detached = asyncio.get_running_loop().create_future()

    def detach(self) -> None:
        """Detaches the endpoint. Idempotent."""
        self._endpoint = None
        if self._detached is not None:
            self._detached.set_result(None)
            self._detached = None

    def _unary(self, method: Method) -> Callable[..., Any]:
        def call(request: Any, context: CallContext) -> Any:
            function, detached = self._begin(method, context)
            result = function(request, context)
            return self._finish(result, detached) if inspect.isawaitable(result) else result

        return call

    async def _finish(self, result: Any, detached: asyncio.Future[None]) -> Any:
        work = asyncio.ensure_future(result)
        try:
            await asyncio.wait({work, detached}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                raise self._not_leader()
        finally:
            _abandon(work)
        return work.result()

    def _streaming(self, method: Method) -> Callable[..., Any]:
        async def call(request: Any, context: CallContext) -> AsyncIterator[Any]:
            function, detached = self._begin(method, context)
            responses = function(request, context)
            try:
                while True:
                    following = asyncio.ensure_future(anext(responses, _END))
                    try:
                        await asyncio.wait({following, detached}, return_when=asyncio.FIRST_COMPLETED)
                        if not following.done():
                            raise self._not_leader()
                    finally:
                        await _abandoned(following)
                    response = following.result()
                    if response is _END:
                        return
                    yield response
            finally:
                await responses.aclose()

        return call

    def _begin(self, method: Method, context: CallContext) -> tuple[Callable[..., Any], asyncio.Future[None]]:
        endpoint, detached = self._endpoint, self._detached
        if endpoint is None or detached is None:
            raise self._not_leader()
        function = getattr(endpoint, method.name)
        check_fencing_token(endpoint, function, context, method.path)
        return function, detached

    def _not_leader(self) -> NotLeaderError:
        where = "" if self.leader_address is None else f"; the leader is at {self.leader_address}"
        details = {} if self.leader_address is None else {"leader_address": self.leader_address}
        return NotLeaderError(f"this {self.service} does not lead{where}", details=details)


_END: Any = object()


def _abandon(work: asyncio.Future[Any]) -> None:
    """Cancels `work` if it has not ended; its outcome is ignored."""
    if not work.done():
        work.cancel()
        work.add_done_callback(_seen)


async def _abandoned(work: asyncio.Future[Any]) -> None:
    """Cancels `work` and waits for its end: a generator can be closed only after its last step has ended."""
    if not work.done():
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)


def _seen(work: asyncio.Future[Any]) -> None:
    if not work.cancelled():
        work.exception()
