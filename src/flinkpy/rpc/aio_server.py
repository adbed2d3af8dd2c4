"""A gRPC server that no request can stop.

grpcio 1.84 and later decode a request's path as UTF-8 in the loop that accepts calls. A path that is not UTF-8 raises
there, and grpcio then closes the port: a single request from anybody who can connect stops the server, while its
process keeps running. Older releases decode the path in the task of the call, where it does no harm.

Therefore this module accepts the calls itself. Each served method is registered with gRPC's core, which compares paths
as bytes, and has a task that accepts its calls. One more task accepts all other calls, and never reads their paths.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import grpc
import grpc.aio
from grpc._cython import cygrpc

#: The path that interceptors see for a call of a method that is not served. The real path may not be valid text.
UNKNOWN_METHOD = "(a call that this process does not serve)"


def make_server(
    interceptors: Sequence[grpc.aio.ServerInterceptor],
    options: Sequence[tuple[str, object]],
    on_end: Callable[[BaseException | None], None],
) -> grpc.aio.Server:
    """Returns a server that serves registered methods (`add_handlers`) and survives bad requests.

    Args:
        on_end: called on the server's loop if the server ends without having been stopped.
    """
    stock = cygrpc.AioServer
    cygrpc.AioServer = _AcceptingServer  # grpc.aio offers no other way to choose the class
    try:
        server = grpc.aio.server(interceptors=interceptors, options=options)
    finally:
        cygrpc.AioServer = stock
    server._server.interceptors = tuple(interceptors)
    server._server.on_end = on_end
    return server


class _AcceptingServer(cygrpc.AioServer):  # type: ignore[misc]
    """Accepts calls in its own tasks. The loop of grpcio only waits for the end of these tasks.

    Thread: the server's loop.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.interceptors: tuple[grpc.aio.ServerInterceptor, ...] = ()
        self.on_end: Callable[[BaseException | None], None] = lambda error: None
        self._methods = _Methods()
        self._calls: set[asyncio.Task[None]] = set()

    def add_registered_method_handlers(self, method_handlers: dict[str, grpc.RpcMethodHandler]) -> None:
        super().add_registered_method_handlers(method_handlers)
        self._methods.handlers.update(method_handlers)

    def _make_request_call_future(self, method: bytes | None) -> asyncio.Task[None]:
        """Called by grpcio once for each registered method, and once with None for all other calls."""
        return asyncio.get_running_loop().create_task(self._accept(method))

    def _serving_task_crash_handler(self, task: asyncio.Task[None]) -> None:
        """Called by grpcio when its loop has ended, for any reason."""
        if self.is_running():
            self.on_end(None if task.cancelled() else task.exception())
        super()._serving_task_crash_handler(task)

    async def _accept(self, method: bytes | None) -> None:
        """Accepts calls for ever. Raises: cygrpc._RequestCallError when the server has been shut down."""
        loop = asyncio.get_running_loop()
        name = UNKNOWN_METHOD if method is None else method.decode()
        while True:
            try:
                state = await (self._request_call() if method is None else self._request_registered_call(method))
            except cygrpc._RequestCallError:
                if self.is_running():
                    continue  # the caller cancelled its call before it was accepted
                raise
            call = cygrpc._handle_rpc(name, self._methods, self.interceptors, state, loop, False)
            task = loop.create_task(cygrpc._schedule_rpc_coro(call, state, loop, name), name="rpc_task")
            self._calls.add(task)
            task.add_done_callback(self._calls.discard)


class _Methods:
    """Finds the handler of a call by its path."""

    def __init__(self) -> None:
        self.handlers: dict[str, grpc.RpcMethodHandler] = {}

    def resolve_handler(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        return self.handlers.get(details.method)


def add_handlers(server: grpc.aio.Server, service: str, handlers: Mapping[str, grpc.RpcMethodHandler]) -> None:
    """Serves `service` (its full name) with `handlers`, which are keyed by method name."""
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, dict(handlers)),))
    server.add_registered_method_handlers(service, dict(handlers))
