"""Requests cannot end a server, and an unexpected end of a server is reported."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from flinkpy.rpc.server import RpcServer
from flinkpy.security import SecurityContext

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
_HEADERS, _END_HEADERS, _RST_STREAM = 1, 4, 3


def frame(kind: int, flags: int, stream: int, body: bytes) -> bytes:
    return len(body).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + body


def request(path: bytes) -> bytes:
    """Returns the HTTP/2 frames of a gRPC request, with each header as a literal (RFC 7541, 6.2.2)."""
    headers = (
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", path),
        (b":authority", b"localhost"),
        (b"content-type", b"application/grpc"),
        (b"te", b"trailers"),
    )
    block = b"".join(bytes([0, len(name)]) + name + bytes([len(value)]) + value for name, value in headers)
    return _PREFACE + frame(_HEADERS, _END_HEADERS, 1, block)


def serving(scenario: Callable[[RpcServer, list[Any]], Awaitable[None]]) -> None:
    async def main() -> None:
        ends: list[Any] = []
        server = RpcServer(bind_address="127.0.0.1", port=0, security=SecurityContext.insecure(), on_end=ends.append)
        await server.start()
        try:
            await asyncio.wait_for(scenario(server, ends), 30)
        finally:
            await server.stop()

    asyncio.run(main())


async def is_healthy(server: RpcServer) -> bool:
    async with grpc.aio.insecure_channel(server.address) as channel:
        answer = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=10)
        return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)


BAD_PATHS = [b"/flinkpy.Dispatcher/\xff", b"\xff\xfe", b"/" + b"\xc3" * 100, b"/a\x00b", b"/\xed\xa0\x80", b"/", b"x"]


@pytest.mark.parametrize("path", BAD_PATHS)
def test_a_request_with_a_path_that_is_not_text_does_not_affect_the_server(path: bytes) -> None:
    async def scenario(server: RpcServer, ends: list[Any]) -> None:
        host, _, port = server.address.partition(":")
        for _ in range(3):
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(request(path))
            await writer.drain()
            answer = b""
            while b"grpc-status" not in answer and (more := await reader.read(4096)):  # or the connection ends
                answer += more
            writer.close()
            assert await is_healthy(server)
        assert ends == []

    serving(scenario)


def test_a_call_that_is_not_served_is_unimplemented() -> None:
    async def scenario(server: RpcServer, ends: list[Any]) -> None:
        async with grpc.aio.insecure_channel(server.address) as channel:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await channel.unary_unary("/no.Service/Call")(b"", timeout=10)
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED

    serving(scenario)


def test_the_unexpected_end_of_a_server_is_reported() -> None:
    async def scenario(server: RpcServer, ends: list[Any]) -> None:
        server._server._server.interceptors = "no tuple"  # grpcio's code that accepts calls fails with it
        async with grpc.aio.insecure_channel(server.address) as channel:
            call = channel.unary_unary("/no.Service/Call")(b"")
            while not ends:
                await asyncio.sleep(0.005)
            call.cancel()
        assert [type(error) for error in ends] == [TypeError]
        host, _, port = server.address.partition(":")
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((host, int(port))).close()

    serving(scenario)
