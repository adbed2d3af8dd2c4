"""Invalid gRPC requests as bytes on a connection, and a server process that receives them.

A case is one connection: a preface, settings, and a few requests with an error. The error may be in a header, in a
message, in a frame, in the order of frames, or in single bytes of the connection.
"""

from __future__ import annotations

import base64
import gzip
import random
import select
import signal
import socket
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from hpack import Encoder
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    PriorityFrame,
    PushPromiseFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from flinkpy._proto import dispatcher_pb2, jobmaster_pb2, resourcemanager_pb2, taskexecutor_pb2
from flinkpy.rpc.services import service_methods

_FILES = (dispatcher_pb2, jobmaster_pb2, resourcemanager_pb2, taskexecutor_pb2)
SERVICES = [service for file in _FILES for service in file.DESCRIPTOR.services_by_name]
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
#: All methods of all services, including those of gRPC itself.
PATHS = [
    *(method.path.encode() for service in SERVICES for method in service_methods(service).values()),
    b"/grpc.health.v1.Health/Check",
    b"/grpc.health.v1.Health/Watch",
    b"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
]
#: Bytes that are not text, or that have a special meaning to some reader.
_STRANGE = [
    b"",
    b"\x00",
    b"\xff\xfe",
    b"\xed\xa0\x80",
    b"\xc3",
    b"a\r\nb: c",
    b"\x1b[2J\x1b]0;owned\x07",
    "\u202etxt.exe".encode(),
    "\u2028".encode(),
    b"%",
    b"%zz%00",
    b"../" * 20,
    b"-1",
    b"9" * 400,
    b"1e999",
    b"x" * 4000,
    b"\xf0\x9f\x98\x80" * 50,
]
_HEADERS = [
    b":authority",
    b":method",
    b":path",
    b":scheme",
    b":status",
    b"authorization",
    b"connection",
    b"content-length",
    b"content-type",
    b"cookie",
    b"grpc-accept-encoding",
    b"grpc-encoding",
    b"grpc-message",
    b"grpc-previous-rpc-attempts",
    b"grpc-status",
    b"grpc-timeout",
    b"grpc-trace-bin",
    b"host",
    b"te",
    b"transfer-encoding",
    b"user-agent",
    b"x-bin",
    b"flinkpy-fencing-token",
    b"flinkpy-protocol",
    b"flinkpy-version",
    b"Upper",
    b"",
    b"\xff",
    b"a b",
]
_ENCODINGS = [b"identity", b"gzip", b"deflate", b"snappy", b"unknown", b"gzip,gzip", b"\xff"]
#: The expanded size of a message. A server that inflates all of it must be detected.
_BOMB_BYTES = 64 << 20
_BOMBS = (gzip.compress(bytes(_BOMB_BYTES), 9), zlib.compress(bytes(_BOMB_BYTES), 9))

#: A program that serves all services with endpoints that return empty responses. It prints its address.
SERVER = """
import asyncio, sys, time
from pathlib import Path
from flinkpy.cli.services import importing, serve
with importing():
    from flinkpy.common.configuration import Configuration
    from flinkpy.rpc.server import RpcServer
    from flinkpy.rpc.services import service_methods
    from flinkpy.security import Audience, Role, SecurityContext
    from flinkpy.security.cluster_secret import ClusterSecret

def endpoint_of(service):
    def behaviour(method):
        def answer(self, request, context):
            return method.response_class()
        async def answers(self, request, context):
            yield method.response_class()
        return answers if method.server_streaming else answer
    methods = service_methods(service).values()
    return type(service, (), {method.name: behaviour(method) for method in methods})()

async def main():
    secret = ClusterSecret.load_or_create(Path(sys.argv[1]))
    # Without TLS, so that what comes is HTTP/2 at once; tokens are asked for all the same.
    security = SecurityContext(secret, None, None, True, None)
    server = RpcServer(bind_address="127.0.0.1", port=0, security=security)
    for service in sys.argv[2:]:
        server.add_endpoint(service, endpoint_of(service))
    await server.start()
    print(server.address, secret.token(Role.CLUSTER, Audience.DISPATCHER, int(time.time()) + 86400), flush=True)
    await asyncio.Event().wait()

serve(main(), Configuration(), name="dispatcher")
"""


class ServerUnderTest:
    """A process that serves every service, with a caller whose connection must keep working."""

    def __init__(self, directory: Path) -> None:
        self._log = directory / "server.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", SERVER, str(directory / "secret"), *SERVICES], stdout=subprocess.PIPE, stderr=log
            )
        assert self._process.stdout is not None
        address, token = self._process.stdout.readline().decode().split()
        host, _, port = address.partition(":")
        self.address, self.token = (host, int(port)), token.encode()
        self._shown = (("authorization", f"Bearer {token}"),)
        self._witness = grpc.insecure_channel(address)
        self._health = health_pb2_grpc.HealthStub(self._witness)
        self.check()
        self._peak_at_start = self._peak_bytes()

    def _peak_bytes(self) -> int:
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmHWM"))

    @property
    def peak_growth_bytes(self) -> int:
        """Returns the peak memory of the process above its memory when it began to serve."""
        return self._peak_bytes() - self._peak_at_start

    @property
    def log_bytes(self) -> int:
        return self._log.stat().st_size

    def log_tail(self) -> str:
        return self._log.read_bytes()[-4000:].decode(errors="replace")

    def check(self) -> None:
        """Raises AssertionError if the server fails to serve its first connection or a new one."""
        try:
            answer = self._health.Check(
                health_pb2.HealthCheckRequest(), timeout=20, wait_for_ready=True, metadata=self._shown
            )
            socket.create_connection(self.address, 20).close()
        except (grpc.RpcError, OSError) as error:
            ended = self._process.poll()
            raise AssertionError(f"the server is not well ({error}); ended: {ended}\n{self.log_tail()}") from error
        assert answer.status == health_pb2.HealthCheckResponse.SERVING

    def send(self, data: bytes, *, wait_s: float) -> bytes:
        """Opens a connection, and returns the answer of the server until it is silent for `wait_s` seconds or closes
        the connection.
        """
        answer = bytearray()
        with socket.create_connection(self.address, 20) as connection:
            connection.settimeout(20)
            try:
                connection.sendall(data)
                while select.select([connection], [], [], wait_s)[0]:
                    piece = connection.recv(65536)
                    if not piece:
                        break
                    answer += piece
            except (ConnectionError, BrokenPipeError):
                pass
            # Closes without the waiting time of closed connections. Otherwise the ports would run out.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return bytes(answer)

    def close(self) -> None:
        self._witness.close()
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


def one_case(rng: random.Random, token: bytes) -> bytes:
    """Returns the bytes of one connection."""
    encoder = Encoder()
    frames: list[bytes] = [SettingsFrame(0, settings=_settings(rng)).serialize()]
    for number in range(rng.randint(1, 6)):
        frames += _request(rng, encoder, 2 * number + 1, token)
    if rng.random() < 0.3:
        for _ in range(rng.randint(1, 4)):
            frames.insert(rng.randint(0, len(frames)), rng.choice(_CONTROL)(rng))
    if rng.random() < 0.15:
        rng.shuffle(frames)
    data = (PREFACE if rng.random() < 0.98 else b"GET / HTTP/1.1\r\n\r\n") + b"".join(frames)
    return _damaged(data, rng) if rng.random() < 0.2 else data


def _settings(rng: random.Random) -> dict[int, int]:
    if rng.random() < 0.7:
        return {}
    values = [0, 1, 16383, 16384, 65535, 1 << 24, (1 << 31) - 1, 1 << 31, (1 << 32) - 1]
    return {rng.choice([1, 2, 3, 4, 5, 6, 0xFE03, 0xFFFF]): rng.choice(values) for _ in range(rng.randint(1, 4))}


def _request(rng: random.Random, encoder: Encoder, stream: int, token: bytes) -> list[bytes]:
    headers = [
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", rng.choice(PATHS)),
        (b":authority", b"localhost"),
        (b"content-type", b"application/grpc"),
        (b"te", b"trailers"),
    ]
    if rng.random() < 0.6:
        headers.append((b"authorization", b"Bearer " + token))
    encoding = rng.choice(_ENCODINGS)
    if rng.random() < 0.3:
        headers.append((b"grpc-encoding", encoding))
    for _ in range(rng.choice([0, 1, 1, 2, 4])):
        _spoil_header(rng, headers)
    block = encoder.encode(headers)
    frames = _header_frames(rng, stream, block)
    body = _message(rng, encoding)
    window = 65535
    for start in range(0, min(len(body), window), 16384):
        frames.append(DataFrame(stream, body[start : start + 16384][:window]).serialize())
    ending = rng.random()
    if ending < 0.6:
        frames.append(DataFrame(stream, flags=["END_STREAM"]).serialize())
    elif ending < 0.8:
        frames.append(RstStreamFrame(stream, error_code=rng.randrange(1 << 32)).serialize())
    elif ending < 0.9:  # trailers, which requests must not have
        trailers = encoder.encode([(rng.choice(_HEADERS) or b"x", rng.choice(_STRANGE))])
        frames.append(HeadersFrame(stream, trailers, flags=["END_HEADERS", "END_STREAM"]).serialize())
    return frames


def _spoil_header(rng: random.Random, headers: list[tuple[bytes, bytes]]) -> None:
    kind = rng.random()
    position = rng.randrange(len(headers)) if headers else 0
    if kind < 0.35:
        headers.append((rng.choice(_HEADERS), rng.choice([*_STRANGE, rng.randbytes(rng.randint(0, 60))])))
    elif kind < 0.5:
        value = rng.choice([*PATHS, b"/", b"x", b"/" + rng.choice(_STRANGE), rng.choice(PATHS) + rng.choice(_STRANGE)])
        headers[:] = [(name, value if name == b":path" else old) for name, old in headers]
    elif kind < 0.6:
        headers.append(
            (rng.choice([b"x-bin", b"grpc-trace-bin", b"flinkpy-bin"]), base64.b64encode(rng.randbytes(9))[:7])
        )
    elif kind < 0.7:
        headers.append(
            (b"grpc-timeout", rng.choice([b"0n", b"1n", b"99999999H", b"1", b"S", b"-1S", b"1" * 30 + b"u"]))
        )
    elif headers and kind < 0.8:
        headers.pop(position)
    elif headers and kind < 0.9:
        headers.append(headers[position])
    elif headers:
        name, value = headers[position]
        headers[position] = (name, _damaged(value, rng))


def _header_frames(rng: random.Random, stream: int, block: bytes) -> list[bytes]:
    if rng.random() < 0.85:
        return [HeadersFrame(stream, block, flags=["END_HEADERS"]).serialize()]
    pieces = [block[at : at + 40] for at in range(0, len(block), 40)] or [b""]
    frames = [HeadersFrame(stream, pieces[0]).serialize()]
    frames += [ContinuationFrame(stream, piece).serialize() for piece in pieces[1:]]
    frames += [ContinuationFrame(stream, b"").serialize()] * rng.choice([0, 0, 30])
    if rng.random() < 0.8:
        frames.append(ContinuationFrame(stream, b"", flags=["END_HEADERS"]).serialize())
    return frames


def _message(rng: random.Random, encoding: bytes) -> bytes:
    kind = rng.random()
    if kind < 0.1:
        return b""
    if kind < 0.2:
        content = rng.choice(_BOMBS)[: rng.choice([60000, 1000])]
    elif kind < 0.4:
        content = gzip.compress(rng.randbytes(40))
    elif kind < 0.6:
        content = b"\x0a\xff\xff\xff\xff\x0f" + rng.randbytes(rng.randint(0, 40))  # protobuf with a huge length
    elif kind < 0.7:
        content = b"\x0b" * rng.randint(1, 2000)  # nested groups
    else:
        content = rng.randbytes(rng.choice([0, 1, 20, 3000]))
    length = len(content) if rng.random() < 0.85 else rng.choice([0, len(content) + 1, 1 << 20, (1 << 32) - 1])
    is_compressed = rng.choice([0, 1]) if encoding not in (b"identity",) else rng.choice([0, 0, 0, 1, 2, 255])
    return struct.pack(">BI", is_compressed, length) + content


def _control_push(rng: random.Random) -> bytes:
    return PushPromiseFrame(rng.choice([1, 2, 3]), promised_stream_id=2, data=rng.randbytes(9)).serialize()


_CONTROL: list[Callable[[random.Random], bytes]] = [
    lambda rng: PingFrame(0, rng.randbytes(8)).serialize() * rng.choice([1, 1, 200]),
    lambda rng: WindowUpdateFrame(rng.choice([0, 1, 3, 99]), window_increment=(1 << 31) - 1).serialize(),
    lambda rng: PriorityFrame(
        rng.choice([1, 3]), depends_on=rng.choice([1, 3, 0]), stream_weight=rng.randrange(256)
    ).serialize(),
    lambda rng: GoAwayFrame(0, last_stream_id=rng.randrange(9), error_code=2, additional_data=b"x" * 50).serialize(),
    lambda rng: SettingsFrame(0, settings=_settings(rng)).serialize() * rng.choice([1, 1, 100]),
    lambda rng: RstStreamFrame(rng.choice([1, 3, 5, 7]), error_code=8).serialize() * rng.choice([1, 50]),
    lambda rng: DataFrame(rng.choice([1, 2, 9]), rng.randbytes(10)).serialize(),
    _control_push,
    lambda rng: _raw_frame(rng.randrange(256), rng.randrange(256), rng.randrange(1 << 32), rng.randbytes(9)),
]


def _raw_frame(kind: int, flags: int, stream: int, body: bytes) -> bytes:
    return len(body).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + body


def _damaged(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 5])):
        if not changed:
            break
        at = rng.randrange(len(changed))
        kind = rng.random()
        if kind < 0.5:
            changed[at] = rng.randrange(256)
        elif kind < 0.7:
            del changed[at : at + rng.randint(1, 9)]
        elif kind < 0.9:
            changed[at:at] = rng.randbytes(rng.randint(1, 9))
        else:
            del changed[at:]
    return bytes(changed)
