"""The wire form of batches and elements."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from flinkpy._proto import checkpoint_pb2
from flinkpy.common.errors import BrokenError, TypeMismatchError
from flinkpy.network.codec import (
    PRIORITY_BARRIER,
    ColumnEncoder,
    EncodedBatch,
    decode_batch,
    decode_element,
    decode_schema,
    encode_element,
    encode_priority_barrier,
    encode_rows,
    encode_small_columns,
)
from flinkpy.records.batch import Batch
from flinkpy.records.elements import (
    CancelCheckpointMarker,
    CheckpointBarrier,
    EndOfData,
    EndOfPartition,
    LatencyMarker,
    Watermark,
    WatermarkStatus,
)


def body_of(encoded: EncodedBatch) -> pa.Buffer:
    body = b"".join(bytes(part) for part in encoded.parts)
    assert len(body) == encoded.size_bytes
    assert len(body) % 8 == 0
    return pa.py_buffer(body)


def decoded(schema: pa.Schema | None, encoded: EncodedBatch) -> Batch:
    return decode_batch(schema, body_of(encoded), encoded.payload_bytes, encoded.timestamps_bytes, encoded.kinds_bytes)


TABLE = pa.record_batch(
    {
        "i": pa.array([1, None, 3], pa.int64()),
        "s": ["a", "", None],
        "l": [[1], [], None],
        "b": [True, False, None],
    }
)


@pytest.mark.parametrize("values", [TABLE, TABLE.slice(1, 2), TABLE.slice(2)], ids=["whole", "slice", "row"])
@pytest.mark.parametrize("small", [True, False], ids=["in one piece", "by reference"])
def test_columns_survive_a_round_trip(values: pa.RecordBatch, small: bool) -> None:
    rows = values.num_rows
    batch = Batch(values, np.arange(rows, dtype=np.int64), np.zeros(rows, np.int8))
    encoder = ColumnEncoder()
    schema = encoder.open_schema(values)
    assert schema is not None
    assert encoder.open_schema(values) is None, "the schema travels once"

    encoded = encode_small_columns(batch) if small else encoder.encode(batch)
    assert encoded is not None
    result = decoded(decode_schema(schema), encoded)

    assert result.values.equals(values)
    assert result.timestamps.tolist() == list(range(rows))
    assert result.kinds.tolist() == [0] * rows


def test_large_columns_are_sent_by_reference() -> None:
    values = pa.record_batch({"a": np.arange(10_000, dtype=np.int64)})
    encoder = ColumnEncoder()
    encoder.open_schema(values)

    parts = encoder.encode(Batch(values)).parts

    assert any(isinstance(part, pa.Buffer) and part.address == values.column(0).buffers()[1].address for part in parts)


def test_dictionary_columns_are_sent_decoded() -> None:
    values = pa.record_batch({"a": pa.array(["x", "y", "x"]).dictionary_encode()})
    encoder = ColumnEncoder()
    schema = encoder.open_schema(values)
    assert schema is not None
    assert encode_small_columns(Batch(values)) is None

    result = decoded(decode_schema(schema), encoder.encode(Batch(values)))

    assert result.values.to_pydict() == {"a": ["x", "y", "x"]}
    assert decode_schema(schema).field("a").type == pa.string()


def test_rows_survive_a_round_trip() -> None:
    rows = [{"a": 1}, (1, "x"), None]
    batch = Batch(rows, np.array([1, 2, 3]))

    result = decoded(None, encode_rows(batch))

    assert result.values == rows
    assert result.timestamps.tolist() == [1, 2, 3]


def test_rows_of_a_class_without_a_module_are_pickled_by_value() -> None:
    class Local:
        def __init__(self, number: int) -> None:
            self.number = number

    result = decoded(None, encode_rows(Batch([Local(5)])))

    assert result.values[0].number == 5


def test_a_row_that_cannot_be_pickled_is_named() -> None:
    class Stubborn:
        def __reduce__(self) -> Any:
            raise TypeError("no")

        def __repr__(self) -> str:
            return "<stubborn>"

    with pytest.raises(TypeMismatchError, match=r"row 1 of a batch .* <stubborn>: no"):
        encode_rows(Batch([1, Stubborn()]))


@pytest.mark.parametrize(
    "element",
    [
        Watermark(-5),
        Watermark((1 << 63) - 1),
        WatermarkStatus(True),
        CheckpointBarrier(7, 1234),
        CheckpointBarrier(7, 1234, checkpoint_pb2.CheckpointOptions()),
        CheckpointBarrier(7, 1234, checkpoint_pb2.CheckpointOptions(kind="SAVEPOINT", alignment="ALIGNED")),
        CancelCheckpointMarker(8),
        LatencyMarker(99, "operator-ü", 3),
        EndOfData(),
        EndOfData(drain=False),
        EndOfPartition(),
    ],
    ids=repr,
)
def test_elements_survive_a_round_trip(element: Any) -> None:
    kind, body = encode_element(element)

    assert decode_element(kind, body) == element


def test_an_invalid_element_is_refused() -> None:
    with pytest.raises(BrokenError, match="unknown kind 99"):
        decode_element(99, b"")
    with pytest.raises(BrokenError, match="does not parse"):
        decode_element(encode_element(Watermark(1))[0], b"123")
    with pytest.raises(BrokenError, match="does not parse"):
        decode_element(encode_element(CheckpointBarrier(1, 2))[0], struct.pack("<qqB", 1, 2, 1) + b"\xff\xff")


def test_a_priority_barrier_is_a_kind_of_its_own() -> None:
    barrier = CheckpointBarrier(7, 1234, checkpoint_pb2.CheckpointOptions(alignment="UNALIGNED"))

    kind, body = encode_priority_barrier(barrier)

    assert kind == PRIORITY_BARRIER != encode_element(barrier)[0]
    assert decode_element(kind, body) == barrier
