"""Connections of the data plane that a test feeds with bytes, and changes that make streams of frames invalid."""

from __future__ import annotations

import random
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pyarrow as pa
from fuzzing import mutate

from flinkpy.common.errors import ExternalError
from flinkpy.network.buffer_pool import NetworkBufferPool
from flinkpy.network.credit import CreditManager
from flinkpy.network.input_channel import RequestBackoff
from flinkpy.network.input_gate import InputGate
from flinkpy.network.partition_manager import ResultPartitionManager
from flinkpy.network.remote_input_channel import RemoteInputChannel
from flinkpy.network.result_partition import ResultPartition
from flinkpy.network.transport import frames, greeting
from flinkpy.network.transport.authenticator import HmacAuthenticator, PeerRole
from flinkpy.network.transport.consumer_connection import ConsumerConnection
from flinkpy.network.transport.io_loop import READ, WRITE
from flinkpy.network.transport.producer_connection import ProducerConnection
from flinkpy.network.transport.socket_transport import TlsTransports

UNIT = 32 * 1024
KEY = HmacAuthenticator(b"k" * 32)
ADDRESS = "127.0.0.1:1"


class NoTimer:
    def cancel(self) -> None:
        return


class NoLoop:
    """An event loop that runs nothing by itself."""

    def __init__(self) -> None:
        self._soon: list[Callable[[], None]] = []

    def call_soon(self, action: Callable[[], None]) -> None:
        self._soon.append(action)

    def call_later(self, delay_ms: int, action: Callable[[], None]) -> NoTimer:
        return NoTimer()

    def register(self, fd: int, handler: object, events: int) -> None:
        return

    def modify(self, fd: int, events: int) -> None:
        return

    def unregister(self, fd: int) -> None:
        return

    def run(self) -> None:
        while self._soon:
            self._soon.pop(0)()


class Fed:
    """A socket transport that returns the given bytes in pieces and accepts all output."""

    has_pending = False

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.taken = bytearray()

    def send(self, parts: list[Any]) -> int:
        size = 0
        for part in parts:
            self.taken += part
            size += len(part)
        return size

    def receive_into(self, view: memoryview) -> int:
        if not self.pieces:
            raise BlockingIOError
        piece = self.pieces.pop(0)
        size = min(len(piece), len(view))
        view[:size].cast("B")[:] = piece[:size]
        if size < len(piece):
            self.pieces.insert(0, piece[size:])
        return size


class Peer:
    """A connection under test, and the bytes that a peer sends to it."""

    connection: ProducerConnection | ConsumerConnection

    def __init__(self) -> None:
        self.loop = NoLoop()
        self.fed = Fed()
        self._ours, self._theirs = socket.socketpair()

    def feed(self, *pieces: bytes) -> None:
        """Delivers the pieces until the connection fails."""
        self.fed.pieces = [piece for piece in pieces if piece]
        while self.fed.pieces and not self.connection.is_broken:
            self.connection.on_events(READ)
            self.loop.run()

    @property
    def failure(self) -> ExternalError | None:
        return self.connection.failure

    def close(self) -> None:
        self.connection.fail(ExternalError("the test is over"))
        self.loop.run()
        self._ours.close()
        self._theirs.close()


class ProducerUnderTest(Peer):
    """A producer with a partition `p` of two subpartitions that contains a few batches."""

    def __init__(self, *, is_authenticated: bool) -> None:
        super().__init__()
        self.pool = NetworkBufferPool(256 * UNIT, UNIT)
        self.manager = ResultPartitionManager(lambda delay_ms, action: NoTimer())
        self.partition = ResultPartition(
            "p", 2, self.pool.create_local_pool("p", 3), UNIT, on_released=self.manager.unregister
        )
        self.manager.register(self.partition)
        self.connection = ProducerConnection(
            self.loop,  # type: ignore[arg-type]
            self._ours,
            "127.0.0.1",
            manager=self.manager,
            authenticator=KEY,
            segment_size_bytes=UNIT,
            request_timeout_ms=1000,
            handshake_timeout_ms=1000,
            on_closed=lambda connection: None,
            on_authenticated=lambda connection: None,
            resource_id="producer",
            address=ADDRESS,
        )
        self.connection._transport = self.fed
        self.connection.start()
        if is_authenticated:
            self.feed(HELLO.to_frame())
            self.feed(self.proof())
            assert self.connection.is_authenticated

    def proof(self) -> bytes:
        """Returns the answer of a member to the challenge."""
        size, kind, *_, version, proof_bytes, name_bytes, unit, _ = frames.HEADER.unpack_from(self.fed.taken)
        assert kind == frames.CHALLENGE
        body = bytes(self.fed.taken[frames.HEADER_BYTES : frames.HEADER_BYTES + size])
        challenge = greeting.Challenge.of_frame(version, proof_bytes, name_bytes, unit, body)
        said = greeting.introductions(HELLO, challenge.version, challenge.producer_id, challenge.nonce)
        return greeting.proof_frame(KEY.proof(said, PeerRole.CONSUMER))

    def close(self) -> None:
        super().close()
        self.partition.release()


class TlsProducerUnderTest(Peer):
    """A producer that speaks TLS, over a socket of which the test has the other end."""

    def __init__(self, transports: TlsTransports) -> None:
        super().__init__()
        self._ours.setblocking(False)
        self._theirs.setblocking(False)
        self.connection = ProducerConnection(
            self.loop,  # type: ignore[arg-type]
            self._ours,
            "127.0.0.1",
            manager=ResultPartitionManager(lambda delay_ms, action: NoTimer()),
            authenticator=KEY,
            segment_size_bytes=UNIT,
            request_timeout_ms=1000,
            handshake_timeout_ms=1000,
            on_closed=lambda connection: None,
            on_authenticated=lambda connection: None,
            address=ADDRESS,
            tls=transports,
        )
        self.connection.start()

    def receive(self, data: bytes) -> None:
        with suppress(OSError):  # the producer has closed the connection
            self._theirs.sendall(data)
        self.connection.on_events(READ)
        self.loop.run()

    def answer(self) -> bytes:
        try:
            return self._theirs.recv(1 << 16)
        except OSError:
            return b""

    def end(self) -> None:
        """Ends the input."""
        with suppress(OSError):
            self._theirs.shutdown(socket.SHUT_WR)
        self.connection.on_events(READ)
        self.loop.run()


HELLO = greeting.Hello(frames.PROTOCOL_VERSION, frames.OLDEST_PROTOCOL_VERSION, b"n" * 32, "consumer", ADDRESS)


class ConsumerUnderTest(Peer):
    """A consumer with one channel. The test is its producer."""

    def __init__(self, *, is_authenticated: bool, is_blocking: bool = False) -> None:
        super().__init__()
        self.failures: list[Exception] = []
        self.pool = NetworkBufferPool(256 * UNIT, UNIT)
        self.connection = ConsumerConnection(
            self.loop,  # type: ignore[arg-type]
            self._ours,
            ADDRESS,
            resource_id="consumer",
            authenticator=KEY,
            connect_timeout_ms=1000,
            on_closed=lambda connection: None,
            on_unused=lambda connection: None,
            segment_size_bytes=UNIT,
        )
        self.connection._transport = self.fed
        self.gate = InputGate("consumer", self.failures.append, self.pool.create_local_pool("gate", 2, 64))
        assert self.gate.pool is not None
        self.credits = CreditManager(self.gate.pool, 1, 2)
        self.channel = RemoteInputChannel(
            self.gate,
            0,
            "p",
            RequestBackoff(1, 4),
            lambda delay_ms, action: NoTimer(),
            subpartition_index=0,
            credits=self.credits,
            connect=self._connect,
            is_blocking=is_blocking,
        )
        self.gate.set_channels([self.channel])
        self.gate.request_partitions()
        self.connection.on_events(WRITE)
        if is_authenticated:
            self.feed(self.challenge())
            assert self.failure is None

    def _connect(self, channel: RemoteInputChannel, subpartition: int, initial: Any) -> Any:
        return self.connection, self.connection.request_partition(channel, subpartition, initial)

    def challenge(self) -> bytes:
        """Returns the answer of a member to the greeting."""
        size, kind, *_, newest, oldest, name_bytes, address_bytes, _ = frames.HEADER.unpack_from(self.fed.taken)
        assert kind == frames.HELLO
        body = bytes(self.fed.taken[frames.HEADER_BYTES : frames.HEADER_BYTES + size])
        hello = greeting.Hello.of_frame(newest, oldest, name_bytes, address_bytes, body)
        said = greeting.introductions(hello, frames.PROTOCOL_VERSION, "producer", b"p" * 32)
        proof = KEY.proof(said, PeerRole.PRODUCER)
        return greeting.Challenge(frames.PROTOCOL_VERSION, b"p" * 32, proof, "producer", UNIT).to_frame()

    def close(self) -> None:
        super().close()
        self.gate.close()


def mutate_frames(stream: list[bytes], rng: random.Random) -> list[bytes]:
    """Returns frames of which some are changed, repeated, missing or in another order."""
    changed = list(stream)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(changed))
        match rng.randrange(6):
            case 0:
                changed.insert(at, changed[rng.randrange(len(changed))])
            case 1:
                if len(changed) > 1:
                    del changed[at]
            case 2:
                other = rng.randrange(len(changed))
                changed[at], changed[other] = changed[other], changed[at]
            case _:
                changed[at] = mutate(changed[at], rng)
    return changed


def touch(values: pa.RecordBatch) -> None:
    """Reads every value."""
    values.to_pylist()
