"""Versions of the protocol: the version that two processes choose, and the errors if they have none in common."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import grpc
import grpc.aio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkpy import __version__
from flinkpy._proto import dispatcher_pb2
from flinkpy.common.errors import VersionMismatchError
from flinkpy.rpc.client import RpcClient, typed_error
from flinkpy.rpc.server import CallContext, RpcServer
from flinkpy.rpc.sync_client import SyncGateway
from flinkpy.rpc.versions import (
    METADATA_PROTOCOL,
    METADATA_VERSION,
    MIN_PROTOCOL,
    OURS,
    PROTOCOL,
    ProtocolRange,
    agreed,
    are_compatible_releases,
    negotiate,
)
from flinkpy.security import SecurityContext


def on_a_loop(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    @functools.wraps(test)
    def run() -> None:
        asyncio.run(test())

    return run


_RANGES = st.tuples(st.integers(1, 40), st.integers(0, 40)).map(lambda one: ProtocolRange(one[0], one[0] + one[1]))


@given(ours=_RANGES, theirs=_RANGES)
def test_two_processes_speak_the_newest_version_both_know(ours: ProtocolRange, theirs: ProtocolRange) -> None:
    common = set(range(ours.oldest, ours.newest + 1)) & set(range(theirs.oldest, theirs.newest + 1))
    if not common:
        with pytest.raises(VersionMismatchError):
            negotiate(str(theirs), "9", ours=ours)
        return
    chosen = negotiate(str(theirs), "9", ours=ours)
    assert chosen == max(common)
    # The caller understands the answer.
    assert agreed(((METADATA_PROTOCOL, str(chosen)),), "there", ours=theirs) == chosen


def test_a_mismatch_names_both_releases_and_what_to_do() -> None:
    with pytest.raises(VersionMismatchError) as caught:
        negotiate("1-2", "0.3.1", ours=ProtocolRange(4, 6), our_release="0.9.0")
    message = str(caught.value)
    for part in ("0.3.1", "protocol 1 to 2", "0.9.0", "protocol 4 to 6", "install the same release"):
        assert part in message
    with pytest.raises(VersionMismatchError, match=r"service at there runs flinkpy 7\.0\.0 and speaks protocol 9"):
        agreed(((METADATA_VERSION, "7.0.0"), (METADATA_PROTOCOL, "9")), "there")


def test_a_caller_without_a_version_is_served_in_the_newest() -> None:
    assert negotiate(None, None, ours=ProtocolRange(3, 5)) == 5


def test_a_release_older_than_versions_speaks_the_first() -> None:
    assert negotiate(None, "0.1.0", ours=ProtocolRange(1, 5)) == 1
    assert agreed((), "there", ours=ProtocolRange(1, 5)) == 1
    with pytest.raises(VersionMismatchError, match=r"0\.1\.0"):
        negotiate(None, "0.1.0", ours=ProtocolRange(2, 5))
    with pytest.raises(VersionMismatchError):
        agreed((), "there", ours=ProtocolRange(2, 5))


@pytest.mark.parametrize("said", ["", "x", "1", "2-", "0-1", "5-3", "1-99999999999", "-1-2", "1-2\n", "9" * 10_000])
def test_an_invalid_version_range_is_refused(said: str) -> None:
    with pytest.raises(VersionMismatchError):
        negotiate(said, None, ours=ProtocolRange(4, 6))


@pytest.mark.parametrize(
    ("one", "other", "are"),
    [
        ("0.1.0", "0.1.7", True),
        ("1.2.3", "1.2.3.dev4", True),
        ("0.1.0", "0.2.0", False),
        ("1.0.0", "2.0.0", False),
        ("", "", False),
    ],
)
def test_releases_that_differ_in_their_last_number_are_compatible(one: str, other: str, are: bool) -> None:
    assert are_compatible_releases(one, other) is are


def test_this_release_speaks_its_own_versions() -> None:
    assert ProtocolRange(MIN_PROTOCOL, PROTOCOL) == OURS
    assert 1 <= MIN_PROTOCOL <= PROTOCOL


class _Blobs:
    """Counts its calls, and returns the version of each call."""

    def __init__(self) -> None:
        self.calls = 0

    async def put_blob(self, chunks: AsyncIterator[Any], context: CallContext) -> Any:
        self.calls += 1
        return dispatcher_pb2.BlobKey(sha256=str(context.protocol))

    async def get_blob(self, request: Any, context: CallContext) -> AsyncIterator[Any]:
        self.calls += 1
        yield dispatcher_pb2.BlobChunk(data=str(context.protocol).encode())


async def _serve(endpoint: object) -> RpcServer:
    server = RpcServer(bind_address="127.0.0.1", port=0, security=SecurityContext.insecure())
    server.add_endpoint("BlobServer", endpoint)
    await server.start()
    return server


async def _no_chunks() -> AsyncIterator[Any]:
    nothing: tuple[Any, ...] = ()
    for chunk in nothing:
        yield chunk


@on_a_loop
async def test_both_sides_know_the_version_after_a_call() -> None:
    server, client = await _serve(_Blobs()), RpcClient(security=SecurityContext.insecure())
    gateway = client.gateway("BlobServer", server.address)
    assert gateway.protocol is None
    assert (await gateway.put_blob(_no_chunks())).sha256 == str(PROTOCOL)
    assert gateway.protocol == PROTOCOL
    streamed = client.gateway("BlobServer", server.address)
    assert [chunk.data async for chunk in streamed.get_blob(dispatcher_pb2.BlobKey())] == [str(PROTOCOL).encode()]
    assert streamed.protocol == PROTOCOL

    def call_synchronously() -> None:
        with SyncGateway("BlobServer", server.address, security=SecurityContext.insecure()) as plain:
            assert plain.put_blob(iter(())).sha256 == str(PROTOCOL)
            assert plain.protocol == PROTOCOL
        with SyncGateway("BlobServer", server.address, security=SecurityContext.insecure()) as plain:
            assert [chunk.data for chunk in plain.get_blob(dispatcher_pb2.BlobKey())] == [str(PROTOCOL).encode()]
            assert plain.protocol == PROTOCOL

    await asyncio.to_thread(call_synchronously)
    await client.close()
    await server.stop()


async def _call_as(address: str, metadata: tuple[tuple[str, str], ...]) -> tuple[Any, dict[str, Any]]:
    """Returns the answer to a PutBlob or the typed error, with the version data of the server."""
    async with grpc.aio.insecure_channel(address) as channel:
        stub = channel.stream_unary(
            "/flinkpy.BlobServer/PutBlob",
            request_serializer=dispatcher_pb2.BlobChunk.SerializeToString,
            response_deserializer=dispatcher_pb2.BlobKey.FromString,
        )
        call = stub(_no_chunks(), metadata=metadata)
        try:
            answer: Any = await call
        except grpc.aio.AioRpcError as error:
            return typed_error(error, "BlobServer", "put_blob", address), dict(error.trailing_metadata() or ())
        return answer, dict(await call.trailing_metadata())


@on_a_loop
async def test_a_caller_whose_range_does_not_overlap_is_refused() -> None:
    blobs = _Blobs()
    server = await _serve(blobs)
    newer = f"{PROTOCOL + 1}-{PROTOCOL + 3}"
    error, said = await _call_as(server.address, ((METADATA_VERSION, "77.0"), (METADATA_PROTOCOL, newer)))
    assert isinstance(error, VersionMismatchError)
    assert "77.0" in str(error) and __version__ in str(error)
    assert said[METADATA_VERSION] == __version__
    assert blobs.calls == 0
    await server.stop()


@on_a_loop
async def test_a_caller_of_the_next_release_is_served_in_the_version_of_this_one() -> None:
    server = await _serve(_Blobs())
    answer, said = await _call_as(
        server.address, ((METADATA_VERSION, "77.0"), (METADATA_PROTOCOL, f"{PROTOCOL}-{PROTOCOL + 1}"))
    )
    assert answer.sha256 == said[METADATA_PROTOCOL] == str(PROTOCOL)
    await server.stop()


@on_a_loop
async def test_a_caller_in_another_language_needs_no_version() -> None:
    server = await _serve(_Blobs())
    answer, _ = await _call_as(server.address, ())
    assert answer.sha256 == str(PROTOCOL)
    await server.stop()


class _ForeignServer(grpc.GenericRpcHandler):
    """A service that answers any request in its own version."""

    def __init__(self, said: str | None) -> None:
        self._metadata = () if said is None else ((METADATA_PROTOCOL, said), (METADATA_VERSION, "99.1"))

    def service(self, handler_call_details: Any) -> Any:
        async def put(chunks: Any, context: Any) -> Any:
            context.set_trailing_metadata(self._metadata)
            return dispatcher_pb2.BlobKey(sha256="x")

        async def get(request: Any, context: Any) -> AsyncIterator[Any]:
            await context.send_initial_metadata(self._metadata)
            yield dispatcher_pb2.BlobChunk(data=b"x")

        serializer = {"response_serializer": lambda message: message.SerializeToString()}
        if handler_call_details.method.endswith("PutBlob"):
            return grpc.stream_unary_rpc_method_handler(put, **serializer)
        if handler_call_details.method.endswith("GetBlob"):
            return grpc.unary_stream_rpc_method_handler(get, **serializer)
        return None


async def _serve_foreign(said: str | None) -> tuple[grpc.aio.Server, str]:
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((_ForeignServer(said),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    return server, f"127.0.0.1:{port}"


@on_a_loop
async def test_an_answer_in_an_unsupported_version_is_refused() -> None:
    server, address = await _serve_foreign(str(PROTOCOL + 1))
    client = RpcClient(security=SecurityContext.insecure())
    gateway = client.gateway("BlobServer", address)
    with pytest.raises(VersionMismatchError, match=r"99\.1"):
        await gateway.put_blob(_no_chunks())
    with pytest.raises(VersionMismatchError, match=r"99\.1"):
        async for _ in gateway.get_blob(dispatcher_pb2.BlobKey()):
            raise AssertionError("the call was accepted")

    def call_synchronously() -> None:
        with SyncGateway("BlobServer", address, security=SecurityContext.insecure()) as plain:
            with pytest.raises(VersionMismatchError, match=r"99\.1"):
                plain.put_blob(iter(()))
            with pytest.raises(VersionMismatchError, match=r"99\.1"):
                list(plain.get_blob(dispatcher_pb2.BlobKey()))

    await asyncio.to_thread(call_synchronously)
    await client.close()
    await server.stop(None)


@on_a_loop
async def test_the_error_of_an_unknown_call_says_that_the_service_is_older() -> None:
    server, address = await _serve_foreign(None)
    client = RpcClient(security=SecurityContext.insecure())
    with pytest.raises(VersionMismatchError, match=r"list_jobs .*does not have this call"):
        await client.gateway("Dispatcher", address).list_jobs(dispatcher_pb2.ListJobsRequest())
    await client.close()
    await server.stop(None)
