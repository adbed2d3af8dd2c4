"""The checks of data from another process."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from flinkpy.common.errors import BrokenError
from flinkpy.network.codec import ColumnEncoder, EncodedBatch, compress_rows, encode_rows
from flinkpy.network.credit import is_undercharged, most_bytes
from flinkpy.network.received import check_decoded_size, receive_batch, receive_schema
from flinkpy.records.batch import Batch


def encoded(values: pa.RecordBatch, compression: str | None = None) -> tuple[pa.Schema, EncodedBatch]:
    encoder = ColumnEncoder(compression)
    schema = encoder.open_schema(values)
    assert schema is not None
    return receive_schema(schema), encoder.encode(Batch(values))


def body_of(batch: EncodedBatch) -> bytes:
    return b"".join(bytes(memoryview(part)) for part in batch.parts)


def received(
    schema: pa.Schema | None, body: bytes, payload: int, timestamps: int = 0, kinds: int = 0, **how: Any
) -> Batch:
    options = {"is_member": True, "may_be_compressed": False, **how}
    return receive_batch(schema, pa.py_buffer(body), payload, timestamps, kinds, **options)


STRINGS = pa.record_batch({"s": ["ab", "cd", "ef"]})


def corrupted_offsets() -> tuple[pa.Schema, bytes]:
    """Returns strings with one offset that points far outside."""
    schema, batch = encoded(STRINGS)
    body = body_of(batch)
    right, wrong = struct.pack("<iiii", 0, 2, 4, 6), struct.pack("<iiii", 0, 2, 1 << 30, 6)
    assert body.count(right) == 1
    return schema, body.replace(right, wrong)


@pytest.mark.parametrize("is_member", [True, False])
def test_a_valid_batch_is_decoded(is_member: bool) -> None:
    schema, batch = encoded(STRINGS)

    assert received(schema, body_of(batch), batch.payload_bytes, is_member=is_member).values == STRINGS


def test_a_column_that_is_shorter_than_its_batch_is_refused() -> None:
    _, batch = encoded(pa.record_batch({"n": np.arange(100)}))
    shorter, _ = encoded(pa.record_batch({"n": np.arange(100), "m": np.arange(100)}))

    with pytest.raises(BrokenError, match="a batch of columns does not parse"):
        received(shorter, body_of(batch), batch.payload_bytes)


def test_every_offset_from_an_unproven_peer_is_checked() -> None:
    schema, body = corrupted_offsets()

    with pytest.raises(BrokenError, match="does not parse"):
        received(schema, body, len(body), is_member=False)


@pytest.mark.parametrize(("timestamps", "kinds"), [(16, 0), (32, 0), (0, 2), (0, 4), (20, 0)])
def test_the_numbers_of_timestamps_and_kinds_must_match_the_rows(timestamps: int, kinds: int) -> None:
    schema, batch = encoded(STRINGS)
    body = body_of(batch) + bytes(64)

    with pytest.raises(BrokenError):
        received(schema, body, batch.payload_bytes, timestamps, kinds)


def test_timestamps_beyond_the_end_are_refused() -> None:
    schema, batch = encoded(STRINGS)

    with pytest.raises(BrokenError):
        received(schema, body_of(batch), batch.payload_bytes, 24)


def test_an_empty_payload_of_rows_is_refused() -> None:
    with pytest.raises(BrokenError, match="empty payload"):
        received(None, b"", 0)


# ---------------------------------------------------------------- decompression bombs


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_compressed_columns_are_decoded(codec: str) -> None:
    values = pa.record_batch({"n": np.zeros(100_000, dtype=np.int64), "s": ["x" * 10] * 100_000})
    schema, batch = encoded(values, codec)
    body = body_of(batch)
    assert len(body) < values.nbytes / 4

    assert received(schema, body, batch.payload_bytes, may_be_compressed=True).values == values


@pytest.mark.parametrize("declared", [1 << 40, (1 << 62) + 5, 4 << 30])
def test_columns_with_a_huge_declared_size_are_refused_before_memory_is_allocated(declared: int) -> None:
    values = pa.record_batch({"n": np.zeros(100_000, dtype=np.int64)})
    schema, batch = encoded(values, "zstd")
    body = body_of(batch)
    right = struct.pack("<q", 800_000)
    assert body.count(right) == 1
    bomb = body.replace(right, struct.pack("<q", declared))
    before = pa.total_allocated_bytes()

    with pytest.raises(BrokenError, match="declares a decoded size"):
        received(schema, bomb, len(bomb), may_be_compressed=True)
    assert pa.total_allocated_bytes() == before


def test_rows_with_a_huge_declared_size_are_refused() -> None:
    pickled = encode_rows(Batch([bytes(100_000)])).parts[0]
    small = compress_rows(pickled, "zstd")
    assert received(None, small, len(small), may_be_compressed=True).values == [bytes(100_000)]
    bomb = struct.pack("<Q", 1 << 45 | small[0]) + small[8:]

    with pytest.raises(BrokenError, match="declares a decoded size"):
        received(None, bomb, len(bomb), may_be_compressed=True)


def test_a_long_batch_may_be_decoded_to_more_than_a_gigabyte() -> None:
    head = struct.pack("<Q", (3 << 30) << 8 | 1)

    with pytest.raises(BrokenError):
        check_decoded_size(True, head, 1 << 20)
    check_decoded_size(True, head, 64 << 20)


# ---------------------------------------------------------------- schemas and credit


def nested(depth: int) -> pa.DataType:
    kind: pa.DataType = pa.int32()
    for _ in range(depth):
        kind = pa.list_(kind)
    return kind


def test_the_nesting_of_types_is_limited() -> None:
    fine = pa.schema([pa.field("x", nested(20))])
    assert receive_schema(fine.serialize().to_pybytes()) == fine

    with pytest.raises(BrokenError, match=r"nested deeper than 32|does not parse"):
        receive_schema(pa.schema([pa.field("x", nested(40))]).serialize().to_pybytes())


@pytest.mark.parametrize("message", [b"", b"\xff" * 64, bytes(64), b"GET / HTTP/1.1\r\n\r\n"])
def test_an_invalid_schema_is_refused(message: bytes) -> None:
    with pytest.raises(BrokenError, match="a schema does not parse"):
        receive_schema(message)


@pytest.mark.parametrize("cost", [1, 2, 64, 128])
def test_the_receiver_accepts_every_size_that_a_sender_may_undercharge(cost: int) -> None:
    segments = most_bytes(cost, 1)

    assert not is_undercharged(cost, segments)
    assert is_undercharged(cost, segments + 1)
    assert most_bytes(cost, 32 * 1024) == segments * 32 * 1024
