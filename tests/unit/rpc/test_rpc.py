"""RPC over a real loopback socket: typed errors, fencing, streams, loss of a peer."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from flinkpy import __version__
from flinkpy._proto import common_pb2, dispatcher_pb2
from flinkpy._proto import resourcemanager_pb2 as rm
from flinkpy.common.errors import (
    AddressInUseError,
    FlinkError,
    FunctionError,
    InternalError,
    JobNotFoundError,
    RemoteError,
    RpcTimeoutError,
    RpcUnavailableError,
    StaleFencingTokenError,
    UserError,
    error_class,
)
from flinkpy.rpc.client import RpcClient
from flinkpy.rpc.endpoint import RpcEndpoint
from flinkpy.rpc.error_codec import bounded_error_metadata, error_from_proto, error_to_proto
from flinkpy.rpc.server import CallContext, RpcServer, unfenced
from flinkpy.security import SecurityContext

INSECURE = SecurityContext.insecure()


class BlobServerDouble:
    async def put_blob(self, chunks: AsyncIterator[Any], context: CallContext) -> Any:
        size = 0
        async for chunk in chunks:
            size += len(chunk.data)
        return dispatcher_pb2.BlobKey(sha256=str(size))

    async def get_blob(self, request: Any, context: CallContext) -> AsyncIterator[Any]:
        if request.sha256 == "missing":
            raise JobNotFoundError("no such blob", details={"key": "missing"})
        for part in (b"a", b"b"):
            yield dispatcher_pb2.BlobChunk(data=part)


class ResourceManagerDouble:
    fencing_token = "t1"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)

        def handler(request: Any, context: CallContext) -> Any:
            raise ValueError(f"{name} is broken")

        return handler

    @unfenced
    def request_resource_overview(self, request: Any, context: CallContext) -> Any:
        return rm.ResourceOverview(resource_manager_id=context.client_version)

    def declare_required_resources(self, request: Any, context: CallContext) -> Any:
        return common_pb2.Acknowledge()

    async def disconnect_task_executor(self, request: Any, context: CallContext) -> Any:
        await asyncio.Event().wait()


async def serve(service: str, endpoint: object) -> RpcServer:
    server = RpcServer(bind_address="127.0.0.1", port=0, security=INSECURE)
    server.add_endpoint(service, endpoint)
    await server.start()
    return server


def test_streams_go_both_ways_and_errors_in_a_stream_are_typed() -> None:
    async def scenario() -> None:
        server, client = await serve("BlobServer", BlobServerDouble()), RpcClient(security=INSECURE)
        gateway = client.gateway("BlobServer", server.address)

        async def chunks() -> AsyncIterator[Any]:
            for _ in range(3):
                yield dispatcher_pb2.BlobChunk(data=b"xx")

        assert (await gateway.put_blob(chunks())).sha256 == "6"
        got = [chunk.data async for chunk in gateway.get_blob(dispatcher_pb2.BlobKey(sha256="k"))]
        assert got == [b"a", b"b"]
        with pytest.raises(JobNotFoundError) as raised:
            async for _ in gateway.get_blob(dispatcher_pb2.BlobKey(sha256="missing")):
                pass
        assert raised.value.details == {"key": "missing"}
        await client.close()
        await server.stop()

    asyncio.run(scenario())


def test_a_stale_fencing_token_is_refused_and_the_right_one_accepted() -> None:
    async def scenario() -> None:
        server, client = (
            await serve("ResourceManager", ResourceManagerDouble()),
            RpcClient(security=INSECURE),
        )
        for token in (None, "t0"):
            with pytest.raises(StaleFencingTokenError):
                await client.gateway("ResourceManager", server.address, token).declare_required_resources(
                    rm.ResourceRequirements()
                )
        fenced = client.gateway("ResourceManager", server.address, "t1")
        await fenced.declare_required_resources(rm.ResourceRequirements())
        open_gateway = client.gateway("ResourceManager", server.address)
        overview = await open_gateway.request_resource_overview(rm.ResourceOverviewRequest())
        assert overview.resource_manager_id == __version__
        with pytest.raises(InternalError, match="ValueError: send_slot_report is broken"):
            await fenced.send_slot_report(rm.SendSlotReportRequest())
        with pytest.raises(RpcTimeoutError):
            await fenced.disconnect_task_executor(rm.DisconnectRequest(), timeout_s=0.05)
        await client.close()
        await server.stop()

    asyncio.run(scenario())


def test_a_peer_that_goes_away_is_noticed_without_any_call() -> None:
    async def scenario() -> None:
        server, client = await serve("BlobServer", BlobServerDouble()), RpcClient(security=INSECURE)
        gateway = client.gateway("BlobServer", server.address)
        _ = [c async for c in gateway.get_blob(dispatcher_pb2.BlobKey(sha256="k"))]
        lost = asyncio.Event()
        client.watch_peer(server.address, lost.set)
        address = server.address
        _ = [c async for c in gateway.get_blob(dispatcher_pb2.BlobKey(sha256="k"))]
        assert not lost.is_set()
        await server.stop(0)
        await asyncio.wait_for(lost.wait(), 5)
        with pytest.raises(RpcUnavailableError):
            await client.gateway("Dispatcher", address).request_job(dispatcher_pb2.JobIdMessage())
        await client.close()

    asyncio.run(scenario())


class ChannelWhoseConnectionWasNotSeen:
    """Has connected and lost its peer between two looks. It learns that the peer is gone when it connects again."""

    def __init__(self) -> None:
        self._looks = 0
        self._change = asyncio.Event()

    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:
        self._looks += 1
        self._change.clear()
        if self._looks <= 2 and try_to_connect:
            self._change.set()
        return grpc.ChannelConnectivity.IDLE if self._looks <= 2 else grpc.ChannelConnectivity.TRANSIENT_FAILURE

    async def wait_for_state_change(self, last_observed_state: grpc.ChannelConnectivity) -> None:
        await self._change.wait()

    async def close(self) -> None: ...


def test_a_peer_that_goes_away_before_its_connection_is_seen_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        channel = ChannelWhoseConnectionWasNotSeen()
        monkeypatch.setattr("flinkpy.rpc.client.open_aio_channel", lambda *_: channel)
        client, lost = RpcClient(security=INSECURE), asyncio.Event()
        client.watch_peer("127.0.0.1:1", lost.set)
        await asyncio.wait_for(lost.wait(), 5)
        await client.close()

    asyncio.run(scenario())


def test_a_peer_with_a_slow_handshake_is_not_declared_lost() -> None:
    async def scenario() -> None:
        client, lost = RpcClient(security=INSECURE), asyncio.Event()
        with socket.create_server(("127.0.0.1", 0)) as slow:  # the kernel accepts, and no process answers
            client.watch_peer(f"127.0.0.1:{slow.getsockname()[1]}", lost.set)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(lost.wait(), 0.5)
            await client.close()

    asyncio.run(scenario())


class ForwardingResourceManager(ResourceManagerDouble):
    """Calls another endpoint and waits for its answer."""

    def __init__(self, client: RpcClient, address: str) -> None:
        self.client = client
        self.address = address
        self.has_asked = asyncio.Event()

    async def disconnect_task_executor(self, request: Any, context: CallContext) -> Any:
        answer = self.client.gateway("ResourceManager", self.address, "t1").disconnect_task_executor(request)
        self.has_asked.set()
        return await answer


def test_running_and_waiting_calls_fail_when_their_channel_is_dropped() -> None:
    async def scenario() -> None:
        clients = RpcClient(security=INSECURE), RpcClient(security=INSECURE)
        behind = await serve("ResourceManager", ResourceManagerDouble())
        forwarding = ForwardingResourceManager(clients[0], behind.address)
        front = await serve("ResourceManager", forwarding)
        gateway = clients[1].gateway("ResourceManager", front.address, "t1")
        try:
            call = asyncio.ensure_future(gateway.disconnect_task_executor(rm.DisconnectRequest(), timeout_s=10.0))
            await forwarding.has_asked.wait()
            await clients[0].drop(behind.address)
            with pytest.raises(RpcUnavailableError, match="channel was closed"):
                await call

            cancelled = asyncio.ensure_future(gateway.disconnect_task_executor(rm.DisconnectRequest()))
            await asyncio.sleep(0)
            cancelled.cancel()
            with pytest.raises(asyncio.CancelledError):
                await cancelled
        finally:
            for client in clients:
                await client.close()
            for server in (front, behind):
                await server.stop(0)

    asyncio.run(scenario())


def test_a_port_in_use_is_a_typed_error_that_names_it() -> None:
    async def scenario() -> None:
        server = await serve("BlobServer", BlobServerDouble())
        port = int(server.address.rpartition(":")[2])
        second = RpcServer(bind_address="127.0.0.1", port=port, security=INSECURE)
        with pytest.raises(AddressInUseError, match=str(port)):
            await second.start()
        await server.stop()

    asyncio.run(scenario())


def test_errors_keep_class_details_traceback_and_cause_across_the_wire() -> None:
    error = FunctionError("boom", details={"operator": "Map"}, remote_traceback="File user.py")
    error.__cause__ = RpcUnavailableError("gone")
    back = error_from_proto(error_to_proto(error))
    assert type(back) is FunctionError
    assert (back.message, back.details, back.remote_traceback) == ("boom", {"operator": "Map"}, "File user.py")
    assert type(back.__cause__) is RpcUnavailableError


class UsersError(UserError):
    """An error class as a program may define it: other arguments, and no call of the base constructor."""

    def __init__(self, first: int, second: int) -> None:
        self.first = first


@pytest.mark.parametrize(
    "error",
    [
        FunctionError(
            "\ud800" * 1_000_000, details={"\udfff": "\ud800" * 100_000}, remote_traceback="\udc80" * 1_000_000
        ),
        FunctionError(
            "€" * 1_000_000, details={str(i): "€" * 10_000 for i in range(100)}, remote_traceback="€" * 10**6
        ),
        FunctionError(b"\xff"),  # type: ignore[arg-type]
        UsersError(1, 2),
        ValueError("\ud800"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_every_error_has_a_bounded_wire_form(error: Exception) -> None:
    info = error_to_proto(error)

    assert info.ByteSize() < 1_000_000
    assert isinstance(error_from_proto(info), FlinkError)
    ((_, data),) = bounded_error_metadata(error)
    # gRPC sends it as base64, and a channel accepts 64 KiB.
    assert len(data) * 4 / 3 < 64 * 1024


def test_error_class_of_a_program_does_not_replace_one_of_flinkpy() -> None:
    kind = type("RpcTimeoutError", (UserError,), {"__module__": "users_program"})

    assert error_class("RpcTimeoutError") is RpcTimeoutError
    assert type(error_from_proto(error_to_proto(kind("slow")))) is UserError


def test_long_chain_of_errors_is_truncated_across_the_wire() -> None:
    error = UserError("last")
    for number in range(1_000):
        cause, error = error, UserError(str(number))
        error.__cause__ = cause

    assert error_to_proto(error).ByteSize() < 1_000


def test_exit_of_blocking_code_is_an_error_and_does_not_end_the_loop() -> None:
    async def scenario() -> BaseException | None:
        loop = asyncio.get_running_loop()
        endpoint = RpcEndpoint(loop)
        done: asyncio.Future[BaseException | None] = loop.create_future()
        endpoint.run_blocking(lambda: sys.exit("bye"), lambda _, error: done.set_result(error), "run user code")
        error = await done
        await endpoint.close()
        return error

    error = asyncio.run(scenario())
    assert isinstance(error, FunctionError) and error.message == "run user code: SystemExit: bye"


def test_an_error_raised_from_itself_has_no_cause_across_the_wire() -> None:
    error = FunctionError("boom")
    error.__cause__ = error
    assert error_from_proto(error_to_proto(error)).__cause__ is None


def test_an_unknown_error_class_of_a_newer_peer_arrives_as_remote_error_with_its_name() -> None:
    info = common_pb2.ErrorInfo(type="FromTheFuture", message="m")
    back = error_from_proto(info)
    assert type(back) is RemoteError
    assert error_to_proto(back).type == "FromTheFuture"


def test_calls_whose_caller_has_gone_have_ended_when_the_server_has_stopped() -> None:
    """gRPC writes a traceback to the standard error of a process whose loop ends just when such a call does."""

    class SlowToGiveUp(ResourceManagerDouble):
        fencing_token = None  # type: ignore[assignment]

        def __init__(self) -> None:
            self.began = asyncio.Event()
            self.has_ended = False

        @unfenced
        async def request_resource_overview(self, request: Any, context: CallContext) -> Any:
            self.began.set()
            try:
                await asyncio.Event().wait()
            finally:
                for _ in range(1_000):
                    await asyncio.sleep(0)
                self.has_ended = True

    async def scenario() -> None:
        endpoint = SlowToGiveUp()
        server, client = await serve("ResourceManager", endpoint), RpcClient(security=INSECURE)
        gateway = client.gateway("ResourceManager", server.address)
        call = asyncio.ensure_future(gateway.request_resource_overview(rm.ResourceOverviewRequest()))
        await endpoint.began.wait()
        call.cancel()
        await server.stop(0.0)
        assert endpoint.has_ended
        await client.close()

    asyncio.run(scenario())
