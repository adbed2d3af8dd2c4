"""The producer's side of a connection, frame by frame, without threads or a network."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from flinkpy.network.result_partition import ResultPartition
from flinkpy.network.transport import frames, greeting
from flinkpy.network.transport.authenticator import LoopbackAuthenticator
from flinkpy.network.transport.producer_connection import ProducerConnection
from flinkpy.records.batch import Batch

from .network_fakes import UNIT, LocalNetwork, ManualTimer, ManualTimers

CHANNEL = 7


class LoopThatDoesNothing:
    """An I/O loop without events: the socket always has room, and the test passes the frames."""

    def __init__(self) -> None:
        self._timers = ManualTimers()

    def call_soon(self, action: Callable[[], None]) -> None:
        return

    def call_later(self, delay_ms: int, action: Callable[[], None]) -> ManualTimer:
        return self._timers(delay_ms, action)

    def register(self, fd: int, handler: object, events: int) -> None:
        return

    def modify(self, fd: int, events: int) -> None:
        return


class LockWithCompany:
    """A lock, and another thread that acts at a chosen moment: while the lock is held, or when it is released."""

    def __init__(self) -> None:
        self._is_held = False
        self.while_held: Callable[[], None] | None = None
        self.once_free: Callable[[], None] | None = None

    def acquire(self, blocking: bool = True) -> bool:
        if self._is_held:
            assert not blocking, "a deadlock"
            return False
        self._is_held = True
        action, self.while_held = self.while_held, None
        if action is not None:
            action()
        return True

    def release(self) -> None:
        self._is_held = False
        action, self.once_free = self.once_free, None
        if action is not None:
            action()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class Producer:
    """An authenticated connection, the partitions of its process, and the other end of its socket."""

    def __init__(self) -> None:
        self.network = LocalNetwork()
        ours, self._theirs = socket.socketpair()
        self._theirs.setblocking(False)
        self.connection = ProducerConnection(
            LoopThatDoesNothing(),  # type: ignore[arg-type]
            ours,
            "127.0.0.1",
            manager=self.network.manager,
            authenticator=LoopbackAuthenticator(),
            segment_size_bytes=UNIT,
            request_timeout_ms=1000,
            handshake_timeout_ms=1000,
            on_closed=lambda connection: ours.close(),
            on_authenticated=lambda connection: None,
        )
        self.lock = LockWithCompany()
        self.connection._write_lock = self.lock  # type: ignore[assignment]
        self.connection.start()
        version = frames.PROTOCOL_VERSION
        hello = greeting.Hello(version, version, bytes(frames.NONCE_BYTES), "", "")
        for frame in (hello.to_frame(), greeting.proof_frame(b"")):
            _, kind, _, _, _, a, b, c, d, _ = frames.HEADER.unpack_from(frame)
            self.hand_over(kind, 0, a, b, c=c, d=d, body=frame[frames.HEADER_BYTES :])
        self.sent()

    def hand_over(self, kind: int, channel: int = CHANNEL, a: int = 0, b: int = 0, **fields: Any) -> None:
        self.connection.on_frame(
            kind, 0, channel, a, b, fields.get("c", 0), fields.get("d", 0), 0, fields.get("body", b"")
        )

    def request(self, partition_id: str, credits: int, window: int) -> None:
        self.hand_over(frames.PARTITION_REQUEST, b=credits, c=window, d=len(partition_id), body=partition_id.encode())

    def sent(self) -> list[tuple[int, int, int]]:
        """Returns kind, `a` and `b` of the frames that were sent since the last call."""
        try:
            data = self._theirs.recv(1 << 20)
        except BlockingIOError:
            return []
        found = []
        while data:
            body_bytes, kind, _, _, _, a, b, *_ = frames.HEADER.unpack_from(data)
            found.append((kind, a, b))
            data = data[frames.HEADER_BYTES + body_bytes :]
        return found

    def kinds_sent(self) -> list[int]:
        return [kind for kind, _, _ in self.sent()]

    def close(self) -> None:
        self.connection._socket.close()
        self._theirs.close()


@pytest.fixture
def producer() -> Iterator[Producer]:
    made = Producer()
    yield made
    made.close()


def emit(partition: ResultPartition, segments: int) -> None:
    partition.emit(0, Batch([bytes(segments * UNIT - UNIT // 2)]))


def test_credit_granted_before_the_partition_appears_can_be_spent(producer: Producer) -> None:
    producer.request("late", credits=1, window=1)
    producer.hand_over(frames.CREDIT, a=2, b=8)

    partition = producer.network.partition("late")
    emit(partition, 3)

    assert producer.kinds_sent() == [frames.DATA]


def test_credit_reclaimed_before_the_partition_appears_is_returned(producer: Producer) -> None:
    producer.request("late", credits=5, window=8)
    producer.hand_over(frames.RECLAIM, a=2)

    assert producer.sent() == [(frames.RETURNED, 3, 0)]
    emit(producer.network.partition("late"), 3)
    assert producer.sent() == [(frames.BACKLOG, 3, 3)]


def test_credit_for_a_closed_channel_is_ignored(producer: Producer) -> None:
    producer.request("late", credits=1, window=1)
    producer.hand_over(frames.CLOSE)
    producer.hand_over(frames.CREDIT, a=1, b=1)
    producer.hand_over(frames.RECLAIM, a=0)

    producer.network.partition("late").finish()

    assert producer.sent() == []


def test_credit_is_returned_before_the_sender_reports_its_backlog(producer: Producer) -> None:
    partition = producer.network.partition("p")
    producer.request("p", credits=8, window=8)
    producer.lock.once_free = lambda: emit(partition, 4)

    producer.hand_over(frames.RECLAIM, a=2)

    assert producer.kinds_sent() == [frames.RETURNED, frames.BACKLOG]


def test_data_emitted_while_credit_is_reclaimed_is_sent(producer: Producer) -> None:
    partition = producer.network.partition("p")
    producer.request("p", credits=8, window=8)
    producer.lock.while_held = lambda: emit(partition, 4)

    producer.hand_over(frames.RECLAIM, a=8)

    assert producer.kinds_sent() == [frames.DATA]
