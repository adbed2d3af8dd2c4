"""Invalid bytes in every state of a data connection and as Arrow messages.

Nothing crashes or hangs, and memory stays bounded. The connection continues or ends with one typed error, and other
connections are not affected. FLINKPY_FUZZ_CASES is the number of all cases, FLINKPY_FUZZ_SEED the number of the first.
A failure names its case.
"""

from __future__ import annotations

import decimal
import pickle
import ssl
from collections.abc import Callable, Iterator
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pytest
from data_plane_fuzzing import (
    HELLO,
    ConsumerUnderTest,
    Peer,
    ProducerUnderTest,
    TlsProducerUnderTest,
    mutate_frames,
    touch,
)
from fuzzing import cases, cut, mutate, number_of_cases

from flinkpy.common.errors import BrokenError, ExternalError, PartitionConnectionError, PartitionNotFoundError
from flinkpy.network.codec import ColumnEncoder, EncodedBatch, encode_element, encode_priority_barrier, encode_rows
from flinkpy.network.received import receive_batch, receive_schema
from flinkpy.network.transport import frames
from flinkpy.network.transport.socket_transport import TlsTransports
from flinkpy.records.batch import Batch
from flinkpy.records.elements import (
    CheckpointBarrier,
    EndOfData,
    EndOfPartition,
    LatencyMarker,
    Watermark,
    WatermarkStatus,
)
from flinkpy.security import PEER_NAME
from tests.certificates import authority

CASES = number_of_cases("FLINKPY_FUZZ_CASES", 6000)
#: `make chaos` asks for a million cases, which take hours.
pytestmark = pytest.mark.timeout(max(120, CASES // 20))
#: The memory that one connection may hold for frames that it is not entitled to, plus a margin.
MEMORY_BYTES = 16 << 20


def columns() -> pa.RecordBatch:
    """Returns a batch with columns of every Arrow layout."""
    return pa.record_batch(
        {
            "n": pa.array([1, None, 3, 4], pa.int64()),
            "b": pa.array([True, False, None, True]),
            "s": pa.array(["a", None, "ü" * 9, ""]),
            "l": pa.array([[1, 2], [], None, [3]], pa.list_(pa.int32())),
            "t": pa.array([{"x": 1, "y": "z"}, None, {"x": None, "y": ""}, {"x": 4, "y": "w"}]),
            "d": pa.array([decimal.Decimal("1.25"), None, None, decimal.Decimal("-3.50")], pa.decimal128(9, 2)),
            "m": pa.array([[("k", 1)], [], None, [("q", 2)]], pa.map_(pa.string(), pa.int64())),
            "f": pa.array([b"12", None, b"34", b"56"], pa.binary(2)),
            "v": pa.array(["short", "longer than twelve bytes", None, ""], pa.string_view()),
            "z": pa.nulls(4),
        }
    )


def encoded(compression: str | None = None) -> tuple[bytes, EncodedBatch]:
    encoder = ColumnEncoder(compression)
    batch = Batch(columns(), np.arange(4, dtype=np.int64), np.zeros(4, dtype=np.int8))
    schema = encoder.open_schema(batch.values)
    assert schema is not None
    return schema, encoder.encode(batch)


def body_of(batch: EncodedBatch) -> bytes:
    return b"".join(bytes(memoryview(part)) for part in batch.parts)


def data_frame(batch: EncodedBatch, channel: int = 1, cost: int = 1) -> bytes:
    flags = frames.PICKLED if batch.is_pickled else 0
    return frames.data_header(flags, channel, 3, cost, batch, batch.size_bytes) + body_of(batch)


def element_frame(kind: int, body: bytes) -> bytes:
    return frames.frame(frames.ELEMENT, 1, len(body), flags=kind, body=body)


def from_producer() -> list[bytes]:
    """Returns the messages of a producer on one channel."""
    schema, batch = encoded()
    barrier = CheckpointBarrier(7, 1000)
    elements = [Watermark(5), WatermarkStatus(True), barrier, LatencyMarker(3, "op", 1), EndOfData(True)]
    return [
        frames.frame(frames.SCHEMA, 1, len(schema), body=schema),
        data_frame(batch),
        *(element_frame(*encode_element(element)) for element in elements),
        element_frame(*encode_priority_barrier(CheckpointBarrier(8, 1001))),
        frames.frame(frames.BACKLOG, 1, 4, 2),
        frames.frame(frames.RETURNED, 1, 1),
        data_frame(batch, cost=2),
        data_frame(encode_rows(Batch([1, 2]))),
        frames.frame(frames.ERROR, 1, frames.PRODUCER_FAILED, 4, body=b"boom"),
        element_frame(*encode_element(EndOfPartition())),
    ]


def from_consumer() -> list[bytes]:
    """Returns the messages of a consumer after its greeting."""
    return [
        frames.frame(frames.PARTITION_REQUEST, 1, 0, 4, 4, d=1, e=1, body=b"p"),
        frames.frame(frames.PARTITION_REQUEST, 2, 1, 4, 4, d=1, e=1, body=b"p"),
        frames.frame(frames.PARTITION_REQUEST, 3, 0, 4, 4, d=4, e=1, body=b"none"),
        frames.frame(frames.CREDIT, 1, 3, 8),
        frames.frame(frames.CREDIT, 2, 3, 8, flags=frames.FINAL),
        frames.frame(frames.RECLAIM, 1, 2),
        frames.frame(frames.CLOSE, 2),
    ]


class Witness:
    """A valid connection beside those that receive invalid bytes."""

    def __init__(self) -> None:
        self._peer = ConsumerUnderTest(is_authenticated=True)
        self._peer.feed(from_producer()[0])
        self._batch = data_frame(encoded()[1])

    def is_well(self) -> None:
        self._peer.feed(self._batch)
        item = self._peer.gate.poll()
        assert item is not None
        assert isinstance(item[1], Batch)
        assert item[1].num_rows == 4

    def close(self) -> None:
        self._peer.close()


@pytest.fixture
def witness() -> Iterator[Witness]:
    """A connection that must still work after the test, although others in the process got invalid bytes."""
    made = Witness()
    made.is_well()
    yield made
    made.is_well()
    made.close()


def run(peer: Peer, pieces: list[bytes], what: str) -> None:
    before = pa.total_allocated_bytes()
    try:
        peer.feed(*pieces)
    except BaseException as error:
        raise AssertionError(f"{what} raised {error!r}") from error
    held = pa.total_allocated_bytes() - before
    assert held < MEMORY_BYTES, f"{what} made us hold {held} bytes"
    assert peer.failure is None or isinstance(peer.failure, PartitionConnectionError), what


def never_unpickles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if a random pickle is loaded."""

    def loads(*_: object) -> object:
        raise pickle.UnpicklingError("not in this test")

    monkeypatch.setattr("flinkpy.network.codec.pickle.loads", loads)


def test_mutated_greetings_are_never_accepted(witness: Witness) -> None:
    for number, rng in cases(int(CASES * 0.2)):
        peer = ProducerUnderTest(is_authenticated=False)
        right = HELLO.to_frame()
        if rng.random() < 0.5:
            peer.feed(right)
            right = peer.proof()
        wrong = mutate(right, rng)
        run(peer, cut(wrong, rng), f"case {number}")
        assert not peer.connection.is_authenticated or _says_the_same(wrong, right, _PROOF), f"case {number}"
        peer.close()


def test_mutated_answers_to_a_greeting_are_never_accepted(witness: Witness) -> None:
    for number, rng in cases(int(CASES * 0.2)):
        peer = ConsumerUnderTest(is_authenticated=False)
        right = peer.challenge()
        wrong = mutate(right, rng)
        run(peer, cut(wrong, rng), f"case {number}")
        is_in = peer.connection._is_authenticated
        assert not is_in or _says_the_same(wrong, right, _CHALLENGE), f"case {number}"
        peer.close()


#: The bytes of a PROOF and a CHALLENGE that the receiver uses: not the header fields that only other frames use, and
#: not the padding. A challenge also contains the segment size.
_PROOF = (slice(0, 5), slice(16, 20), slice(32, 32 + 32))
_CHALLENGE = (slice(0, 5), slice(12, 24), slice(32, 32 + 32 + 32 + len("producer")))


def _says_the_same(wrong: bytes, right: bytes, fields: tuple[slice, ...]) -> bool:
    return all(wrong[field] == right[field] for field in fields)


def test_invalid_bytes_of_a_consumer_fail_only_its_own_connection(witness: Witness) -> None:
    for number, rng in cases(int(CASES * 0.2)):
        peer = ProducerUnderTest(is_authenticated=True)
        peer.partition.emit(0, Batch([1, 2]))
        peer.partition.emit(1, Batch(columns()))
        run(peer, cut(b"".join(mutate_frames(from_consumer(), rng)), rng), f"case {number}")
        peer.close()


@pytest.mark.parametrize("is_blocking", [False, True])
def test_invalid_bytes_of_a_producer_fail_only_its_own_connection(
    witness: Witness, is_blocking: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    never_unpickles(monkeypatch)
    for number, rng in cases(int(CASES * 0.1)):
        peer = ConsumerUnderTest(is_authenticated=True, is_blocking=is_blocking)
        run(peer, cut(b"".join(mutate_frames(from_producer(), rng)), rng), f"case {number}")
        _take_all(peer, number)
        peer.close()


def _take_all(peer: ConsumerUnderTest, number: int) -> None:
    try:
        while peer.channel.has_data:
            peer.channel.take()
    except (PartitionConnectionError, PartitionNotFoundError, pickle.UnpicklingError):
        return
    except Exception as error:
        raise AssertionError(f"case {number}: receiving the data raised {error!r}") from error


def test_mutated_schemas_are_read_or_refused() -> None:
    schema, _ = encoded()
    for number, rng in cases(int(CASES * 0.1)):
        _refused_or(lambda rng=rng: str(receive_schema(mutate(schema, rng))), number)  # type: ignore[misc]


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_mutated_arrow_messages_are_usable_or_refused(compression: str | None) -> None:
    message, batch = encoded(compression)
    schema, right = receive_schema(message), body_of(batch)
    for number, rng in cases(int(CASES * 0.1)):
        wrong = mutate(right, rng)
        before = pa.total_allocated_bytes()

        def use(wrong: bytes = wrong) -> None:
            received = receive_batch(
                schema,
                pa.py_buffer(wrong),
                min(batch.payload_bytes, len(wrong)),
                batch.timestamps_bytes,
                batch.kinds_bytes,
                is_member=False,
                may_be_compressed=True,
            )
            touch(received.values)  # type: ignore[arg-type]

        _refused_or(use, number)
        assert pa.total_allocated_bytes() - before < MEMORY_BYTES, f"case {number}"


def _refused_or(use: Callable[[], object], number: int) -> None:
    try:
        use()
    except BrokenError:
        return
    except ExternalError:
        raise
    except Exception as error:
        raise AssertionError(f"case {number} raised {error!r}") from error


def test_mutated_tls_records_fail_only_their_own_connection(witness: Witness) -> None:
    material = authority().member()
    transports, client_context = TlsTransports(material), material.client_context()
    for number, rng in cases(int(CASES * 0.02)):
        peer = TlsProducerUnderTest(transports)
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = client_context.wrap_bio(incoming, outgoing, server_hostname=PEER_NAME)
        wrong_flight = rng.randrange(3)
        try:
            for flight in range(5):
                with suppress(ssl.SSLWantReadError):
                    client.do_handshake()
                    client.write(HELLO.to_frame())
                data = outgoing.read()
                peer.receive(mutate(data, rng) if flight == wrong_flight else data)
                incoming.write(peer.answer())
        except ssl.SSLError:
            pass  # a client does not understand the answer to invalid bytes
        except BaseException as error:
            raise AssertionError(f"case {number} raised {error!r}") from error
        peer.end()
        assert isinstance(peer.failure, PartitionConnectionError), f"case {number}: {peer.failure!r}"
        peer.close()
