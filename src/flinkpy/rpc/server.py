"""RpcServer: serves endpoints over gRPC with fencing and typed errors.

The handlers are generic: a call of a method is passed to the endpoint's method of the same name in snake_case. This is
the only place where an exception becomes a gRPC status.

Thread: the asyncio loop that started it.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import socket
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import grpc
import grpc.aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from flinkpy.common.addresses import is_reserved, raise_if_taken
from flinkpy.common.error_text import bounded_text, text_of
from flinkpy.common.errors import (
    AddressInUseError,
    AuthenticationError,
    ErrorDomain,
    ErrorRetry,
    FlinkError,
    StaleFencingTokenError,
    VersionMismatchError,
)
from flinkpy.rpc.aio_server import add_handlers, make_server
from flinkpy.rpc.authorization import AuthorizationInterceptor
from flinkpy.rpc.error_codec import bounded_error_metadata
from flinkpy.rpc.security import bind_port, check_certificate, check_server
from flinkpy.rpc.services import (
    MAX_MESSAGE_BYTES,
    METADATA_FENCING_TOKEN,
    Method,
    full_service_name,
    service_methods,
)
from flinkpy.rpc.versions import (
    METADATA_PROTOCOL,
    METADATA_VERSION,
    PROTOCOL,
    answer_metadata,
    negotiate,
)
from flinkpy.security import SecurityContext
from flinkpy.security.access_token import Audience
from flinkpy.traces.trace_context import TRACEPARENT
from flinkpy.traces.traced_calls import traced_call
from flinkpy.traces.tracer_slot import current_tracer

logger = logging.getLogger(__name__)

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS: list[tuple[str, object]] = [
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_metadata_size", 64 * 1024),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    # Concurrent calls on one connection; further calls wait at the caller.
    ("grpc.max_concurrent_streams", 1_000),
    # Closes a connection that has not completed the TLS and HTTP/2 handshakes; gRPC's default is 2 minutes.
    ("grpc.server_handshake_timeout_ms", 20_000),
]

#: The exit status of a process whose server has ended unexpectedly: EX_SOFTWARE of sysexits.h.
EXIT_STATUS_SERVER_ENDED = 70

#: The maximum length of the text of a gRPC status, which is sent in a header beside the error itself.
MAX_STATUS_CHARS = 500

#: How long cancelled calls may take to end.
_CUT_CALLS_TIMEOUT_S = 2.0


@dataclass(frozen=True, slots=True)
class CallContext:
    """The context of a call, for its handler."""

    fencing_token: str | None
    client_version: str | None
    peer: str
    #: The protocol version that is used with the caller.
    protocol: int = PROTOCOL


def unfenced(method: F) -> F:
    """Marks a method of an endpoint as callable without the endpoint's fencing token."""
    method.__dict__["__unfenced__"] = True
    return method


def check_fencing_token(endpoint: object, function: object, context: CallContext, path: str) -> None:
    """Checks the fencing token of a call of a fenced endpoint. Raises: StaleFencingTokenError."""
    if not hasattr(endpoint, "fencing_token") or getattr(function, "__unfenced__", False):
        return
    expected = endpoint.fencing_token
    if expected is None or context.fencing_token != expected:
        raise StaleFencingTokenError(
            f"{path}: the call's fencing token is {context.fencing_token}, the endpoint's {expected}",
            details={"expected": str(expected), "got": str(context.fencing_token)},
        )


class RpcServer:
    """A gRPC server with any number of endpoints, health checking and reflection."""

    def __init__(
        self,
        *,
        bind_address: str,
        port: int,
        advertised_host: str | None = None,
        security: SecurityContext,
        on_end: Callable[[BaseException | None], None] | None = None,
    ) -> None:
        """Makes a server that does not listen yet.

        Args:
            on_end: called if the server ends without having been stopped. By default the process ends.

        Raises: ConfigurationError if `security` does not allow to bind `bind_address`.
        """
        check_server(bind_address, security)
        self._security = security
        self._bind_address = bind_address
        self._requested_port = port
        self._advertised_host = advertised_host or _advertisable(bind_address)
        self._port: int | None = None
        self._authorization = None if security.secret is None else AuthorizationInterceptor(security)
        interceptors = [] if self._authorization is None else [self._authorization]
        # Without this option two servers could share a port silently. A port is shared only with its reservation.
        options = [*_OPTIONS, ("grpc.so_reuseport", int(is_reserved(port)))]
        self._server = make_server(interceptors, options, on_end or self._end_process)
        self._services: dict[str, object] = {}
        #: The tasks of running calls; `stop` waits for them.
        self._calls: set[asyncio.Task[Any]] = set()
        self._health = health.aio.HealthServicer()

    def add_endpoint(self, service: str, endpoint: object) -> None:
        """Serves `service` (e.g. "Dispatcher") with the methods of `endpoint`, all of which must exist."""
        full_name = full_service_name(service)
        if self._authorization is not None:
            self._authorization.add_audience(Audience.of_service(service))
        handlers = {
            method.path.rpartition("/")[2]: _handler(method, endpoint, self._calls, self._security)
            for method in service_methods(service).values()
        }
        add_handlers(self._server, full_name, handlers)
        self._services[full_name] = endpoint

    async def start(self) -> None:
        """Binds the port and starts to serve. Raises: AddressInUseError, which names host and port."""
        target = f"{self._bind_address}:{self._requested_port}"
        raise_if_taken(self._bind_address, self._requested_port)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        names = (*self._services, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, self._server)
        try:
            port = bind_port(self._server, target, self._security)
        except RuntimeError as error:
            raise AddressInUseError(f"cannot listen on {target}: {error}", details={"address": target}) from error
        if port == 0:
            raise AddressInUseError(f"cannot listen on {target}: address in use", details={"address": target})
        self._port = port
        await self._server.start()
        for name in ("", *self._services):
            await self._set_health(name)

    async def refresh_health(self, service: str) -> None:
        """Updates the health of `service`. The process itself ("") is always healthy."""
        if self._port is not None:
            await self._set_health(full_service_name(service))

    async def _set_health(self, name: str) -> None:
        is_serving = getattr(self._services.get(name), "is_serving", True)
        response = health_pb2.HealthCheckResponse
        await self._health.set(name, response.SERVING if is_serving else response.NOT_SERVING)

    @property
    def address(self) -> str:
        """The `host:port` at which others reach this server. Available after `start`."""
        if self._port is None:
            raise RuntimeError("the server has not been started")
        return f"{self._advertised_host}:{self._port}"

    async def stop(self, grace_s: float = 0.5) -> None:
        """Refuses new calls, lets running calls finish within `grace_s`, then cancels them.

        Cancelled calls have ended when this returns, unless that takes them more than two seconds.
        """
        await self._health.enter_graceful_shutdown()
        await self._server.stop(grace_s)
        if self._calls:
            # gRPC writes a traceback to standard error if the loop ends while a cancelled call is ending.
            await asyncio.wait(self._calls, timeout=_CUT_CALLS_TIMEOUT_S)

    def _end_process(self, error: BaseException | None) -> None:
        """Ends this process, so that its peers notice that its server has gone."""
        logger.critical("FATAL: the server at %s has ended, so this process ends", self.address, exc_info=error)
        sys.stdout.flush()
        sys.stderr.flush()
        logging.shutdown()
        os._exit(EXIT_STATUS_SERVER_ENDED)


def _advertisable(bind_address: str) -> str:
    if bind_address in ("0.0.0.0", "::", "[::]"):
        return socket.gethostname()
    return bind_address


def _traceparent(servicer_context: Any) -> str | None:
    """Returns the `traceparent` of a call, if this process reports spans."""
    if current_tracer() is None:
        return None
    for key, value in servicer_context.invocation_metadata() or ():
        if key == TRACEPARENT:
            return value if isinstance(value, str) else None
    return None


def _handler(
    method: Method, endpoint: object, calls: set[asyncio.Task[Any]], security: SecurityContext
) -> grpc.RpcMethodHandler:
    function = getattr(endpoint, method.name, None)
    if function is None:
        raise TypeError(f"{type(endpoint).__name__} does not implement {method.path}")
    service, _, name = method.path.strip("/").rpartition("/")
    attributes = {"rpc.system": "grpc", "rpc.service": service, "rpc.method": name}

    def check(servicer_context: Any) -> CallContext:
        check_certificate(security, servicer_context.auth_context)
        context = _call_context(servicer_context)
        check_fencing_token(endpoint, function, context, method.path)
        return context

    def begin() -> None:
        task = asyncio.current_task()
        assert task is not None
        calls.add(task)
        task.add_done_callback(calls.discard)

    async def unary(request: Any, servicer_context: Any) -> Any:
        begin()
        try:
            context = check(servicer_context)
            servicer_context.set_trailing_metadata(answer_metadata(context.protocol))
            with traced_call("flinkpy.rpc", f"{service}/{name}", _traceparent(servicer_context), attributes):
                result = function(request, context)
                if inspect.isawaitable(result):
                    result = await result
            return result
        except Exception as error:  # noqa: BLE001 - the boundary where every exception becomes a status
            await _abort(servicer_context, method, error)

    async def streaming(request: Any, servicer_context: Any) -> AsyncIterator[Any]:
        begin()
        try:
            context = check(servicer_context)
            # A stream may last as long as the process, so the protocol version is sent at its start.
            await servicer_context.send_initial_metadata(answer_metadata(context.protocol))
            async for response in function(request, context):
                yield response
        except Exception as error:  # noqa: BLE001 - see above
            await _abort(servicer_context, method, error)

    kinds = {
        (False, False): (grpc.unary_unary_rpc_method_handler, unary),
        (False, True): (grpc.unary_stream_rpc_method_handler, streaming),
        (True, False): (grpc.stream_unary_rpc_method_handler, unary),
        (True, True): (grpc.stream_stream_rpc_method_handler, streaming),
    }
    make, behaviour = kinds[(method.client_streaming, method.server_streaming)]
    return make(
        behaviour,
        request_deserializer=method.request_class.FromString,
        response_serializer=method.response_class.SerializeToString,
    )


def _call_context(servicer_context: Any) -> CallContext:
    """Raises: VersionMismatchError."""
    metadata = dict(servicer_context.invocation_metadata() or ())
    release = metadata.get(METADATA_VERSION)
    return CallContext(
        fencing_token=metadata.get(METADATA_FENCING_TOKEN),
        client_version=release,
        peer=servicer_context.peer(),
        protocol=negotiate(metadata.get(METADATA_PROTOCOL), release),
    )


_STATUS = {
    (ErrorDomain.USER, ErrorRetry.NEVER): grpc.StatusCode.FAILED_PRECONDITION,
    (ErrorDomain.EXTERNAL, ErrorRetry.BACKOFF): grpc.StatusCode.UNAVAILABLE,
    (ErrorDomain.INTERNAL, ErrorRetry.NEVER): grpc.StatusCode.INTERNAL,
}


async def _abort(servicer_context: Any, method: Method, error: Exception) -> None:
    if isinstance(error, grpc.aio.AbortError):
        raise error
    if isinstance(error, AuthenticationError):
        code = grpc.StatusCode.UNAUTHENTICATED
    elif isinstance(error, FlinkError):
        if isinstance(error, VersionMismatchError):  # the caller may run on another host, whose log is not at hand
            logger.warning("refused %s from %s: %s", method.path, servicer_context.peer(), error)
        code = _STATUS.get((error.domain, error.retry), grpc.StatusCode.ABORTED)
    else:
        logger.exception("%s failed", method.path)
        code = grpc.StatusCode.INTERNAL
    metadata = (*bounded_error_metadata(error), *answer_metadata(PROTOCOL))
    await servicer_context.abort(code, bounded_text(text_of(error), MAX_STATUS_CHARS), metadata)
