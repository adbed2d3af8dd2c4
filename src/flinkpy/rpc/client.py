"""RpcClient: makes gateways to the endpoints of other processes.

Thread: one asyncio loop; gRPC's aio objects stay on the loop that made them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
import grpc.aio

from flinkpy._proto import common_pb2
from flinkpy.common.errors import (
    FlinkError,
    InternalError,
    RpcTimeoutError,
    RpcUnavailableError,
    TlsError,
    VersionMismatchError,
)
from flinkpy.rpc.authorization import token_metadata
from flinkpy.rpc.error_codec import ERROR_METADATA_KEY, error_from_proto
from flinkpy.rpc.security import open_aio_channel
from flinkpy.rpc.services import MAX_MESSAGE_BYTES, METADATA_FENCING_TOKEN, service_methods
from flinkpy.rpc.tls_diagnosis import may_be_tls
from flinkpy.rpc.versions import CALLER_METADATA, agreed
from flinkpy.security import SecurityContext
from flinkpy.traces.trace_context import TRACEPARENT, current_context

logger = logging.getLogger(__name__)

#: How long a call waits for its answer by default, as Flink's pekko.ask.timeout.
DEFAULT_TIMEOUT_S = 10.0

CHANNEL_OPTIONS: list[tuple[str, object]] = [
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_metadata_size", 64 * 1024),
    # A peer that comes back must be noticed soon: by default gRPC's back-off grows to two minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    # Despite its name this is the time-out of one attempt to connect, the peer's HTTP/2 settings included. A process
    # that is starting, or short of CPU time, needs a while for that.
    ("grpc.min_reconnect_backoff_ms", 5_000),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # Each channel has its own connection. By default all channels of a process to one address share one.
    ("grpc.use_local_subchannel_pool", 1),
]

#: A connection whose packets are lost is given up after 30 s. TCP would retransmit with ever longer pauses, and notice
#: too late that the network works again. Servers accept a ping every 5 s.
_KEEPALIVE: list[tuple[str, object]] = [
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
]


class Gateway:
    """Calls an endpoint: `await gateway.submit_job(request, timeout_s=10.0)`.

    A unary call raises the typed error that the endpoint raised, RpcUnavailableError if the endpoint cannot be reached,
    or RpcTimeoutError after `timeout_s`. A server-streaming call returns an async iterator and has no time-out.
    """

    def __init__(
        self,
        channel: grpc.aio.Channel,
        service: str,
        address: str,
        fencing_token: str | None,
        security: SecurityContext,
    ) -> None:
        self._channel = channel
        self._security = security
        self._service = service
        self._methods = service_methods(service)
        self._stubs: dict[str, Any] = {}
        self.address = address
        self.fencing_token = fencing_token
        #: The protocol version of the endpoint's last answer; None before the first answer.
        self.protocol: int | None = None

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = self._methods.get(name)
        if method is None:
            raise AttributeError(f"service {self._service} has no call {name!r}")
        call = self._stubs.get(name)
        if call is None:
            call = self._stubs[name] = method.stub(self._channel)

        def dropped(error: asyncio.CancelledError) -> BaseException:
            """Returns the error of a call that was cancelled by `drop`, or the cancellation of the calling task."""
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                return error
            where = f"{self._service}.{name} at {self.address}"
            return RpcUnavailableError(f"{where}: the channel was closed before the answer came")

        async def unary(request: Any, timeout_s: float | None = DEFAULT_TIMEOUT_S) -> Any:
            try:
                pending = call(request, timeout=timeout_s, metadata=self._metadata())
                response = await pending
                self.protocol = agreed(await pending.trailing_metadata(), self.address)
                return response
            except grpc.aio.AioRpcError as error:
                raise await self._explained(typed_error(error, self._service, name, self.address)) from None
            except grpc.aio.UsageError as error:
                raise RpcUnavailableError(f"{self._service}.{name} at {self.address}: {error}") from None
            except asyncio.CancelledError as error:
                raise dropped(error) from None

        async def stream(request: Any) -> AsyncIterator[Any]:
            responses = call(request, metadata=self._metadata())
            try:
                is_first = True
                async for response in responses:
                    if is_first:
                        self.protocol = agreed(await responses.initial_metadata(), self.address)
                        is_first = False
                    yield response
            except grpc.aio.AioRpcError as error:
                raise await self._explained(typed_error(error, self._service, name, self.address)) from None
            except asyncio.CancelledError as error:
                raise dropped(error) from None
            finally:
                responses.cancel()

        # Not cached: the function refers to this gateway, so only the cyclic garbage collector could free the gateway.
        return stream if method.server_streaming else unary

    def _metadata(self) -> tuple[tuple[str, str], ...]:
        return call_metadata(self.fencing_token, self._security, self._service)

    async def _explained(self, error: FlinkError) -> FlinkError:
        return await asyncio.to_thread(explained, error, self._security) if _may_be_tls(error) else error

    def __repr__(self) -> str:
        return f"{self._service}Gateway({self.address})"


class RpcClient:
    """The channels of a process, one per address. Every call carries the token of `security`."""

    def __init__(self, *, security: SecurityContext) -> None:
        self.security = security
        self._channels: dict[str, grpc.aio.Channel] = {}
        self._watches: set[asyncio.Task[None]] = set()

    def gateway(self, service: str, address: str, fencing_token: str | None = None) -> Gateway:
        return Gateway(self._channel(address), service, address, fencing_token, self.security)

    def watch_peer(self, address: str, on_lost: Callable[[], None]) -> PeerWatch:
        """Calls `on_lost()` once, on this loop, when the connection to `address` breaks or cannot be made.

        The death of a process closes its sockets, so it is noticed at once. A process that hangs is detected by
        heartbeats; therefore this connection has no keepalive.
        """
        channel = open_aio_channel(address, CHANNEL_OPTIONS, self.security)
        task = asyncio.get_running_loop().create_task(_watch(channel, on_lost), name=f"watch {address}")
        self._watches.add(task)
        task.add_done_callback(self._watches.discard)
        return PeerWatch(task)

    def _channel(self, address: str) -> grpc.aio.Channel:
        channel = self._channels.get(address)
        if channel is None:
            options = [*CHANNEL_OPTIONS, *_KEEPALIVE]
            channel = self._channels[address] = open_aio_channel(address, options, self.security)
        return channel

    async def drop(self, address: str) -> None:
        """Closes the channel to a peer that will not come back."""
        channel = self._channels.pop(address, None)
        if channel is not None:
            await channel.close()

    async def close(self) -> None:
        for task in list(self._watches):
            task.cancel()
        await asyncio.gather(*self._watches, return_exceptions=True)
        for address in list(self._channels):
            await self.drop(address)


class PeerWatch:
    """Handle of `RpcClient.watch_peer`."""

    def __init__(self, task: asyncio.Task[None]) -> None:
        self._task = task

    def cancel(self) -> None:
        """Stops watching. `on_lost` is not called any more."""
        self._task.cancel()


async def _watch(channel: grpc.aio.Channel, on_lost: Callable[[], None]) -> None:
    lost = (grpc.ChannelConnectivity.TRANSIENT_FAILURE, grpc.ChannelConnectivity.SHUTDOWN)
    was_ready = False
    try:
        state = channel.get_state(try_to_connect=True)
        while True:
            if state in lost or (was_ready and state is grpc.ChannelConnectivity.IDLE):
                break
            was_ready = was_ready or state is grpc.ChannelConnectivity.READY
            await channel.wait_for_state_change(state)
            # On a busy loop, READY may come and go unseen. An idle channel tells nothing until it connects again.
            state = channel.get_state(try_to_connect=not was_ready)
    finally:
        await channel.close()
    on_lost()


def call_metadata(fencing_token: str | None, security: SecurityContext, service: str) -> tuple[tuple[str, str], ...]:
    """Returns the metadata of one call of `service`. Made for every call, because tokens expire."""
    metadata = (*CALLER_METADATA, *token_metadata(security, service))
    if (context := current_context()) is not None:
        metadata = (*metadata, (TRACEPARENT, context.traceparent))
    if fencing_token is None:
        return metadata
    return (*metadata, (METADATA_FENCING_TOKEN, fencing_token))


def _may_be_tls(error: FlinkError) -> bool:
    return type(error) is RpcUnavailableError and may_be_tls(error.message)


def explained(error: FlinkError, security: SecurityContext) -> FlinkError:
    """Returns a TlsError if TLS is why the peer cannot be reached, otherwise `error`. Blocks: connects to the peer."""
    if not _may_be_tls(error):
        return error
    from flinkpy.rpc.tls_diagnosis import diagnose

    address = error.details["address"]
    reason = diagnose(address, security.control_tls)
    return error if reason is None else TlsError(f"no connection to {address}: {reason}", details=error.details)


def typed_error(error: Any, service: str, call: str, address: str) -> FlinkError:
    """Returns the error that the endpoint raised, or one that says why the call failed."""
    for key, value in error.trailing_metadata() or ():
        if key == ERROR_METADATA_KEY:
            return error_from_proto(common_pb2.ErrorInfo.FromString(value))
    where = f"{service}.{call} at {address}"
    code = error.code()
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return RpcTimeoutError(f"{where} gave no answer in time", details={"address": address})
    if code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED):
        return RpcUnavailableError(f"{where} is not reachable: {error.details()}", details={"address": address})
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return VersionMismatchError(
            f"{where}: the service does not have this call. It is an older release than this process, or not flinkpy",
            details={"address": address},
        )
    return InternalError(f"{where} failed: {code.name}: {error.details()}", details={"address": address})
