"""InFlightBatch: a batch on its way between two tasks, as it was when a barrier overtook it.

The batch itself is processed before its copy is written, perhaps by a function that changes its rows. Therefore rows
are pickled when they are frozen. Columns cannot change, so they are encoded when they are written. Data from the
network is kept in its wire form; it is neither decoded nor encoded again.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from flinkpy.network.batch_size import batch_bytes
from flinkpy.network.codec import ColumnEncoder, EncodedBatch, decode_batch, encode_rows
from flinkpy.records.batch import Batch


class WireBatch:
    """A batch in its wire form.

    Attributes:
        schema: the schema of the columns; None for pickled rows.
        parts, payload_bytes, timestamps_bytes, kinds_bytes: see `decode_batch`.
    """

    __slots__ = ("kinds_bytes", "parts", "payload_bytes", "schema", "size_bytes", "timestamps_bytes")

    def __init__(
        self, schema: pa.Schema | None, parts: list[Any], payload_bytes: int, timestamps_bytes: int, kinds_bytes: int
    ) -> None:
        self.schema = schema
        self.parts = parts
        self.payload_bytes = payload_bytes
        self.timestamps_bytes = timestamps_bytes
        self.kinds_bytes = kinds_bytes
        self.size_bytes = sum(memoryview(part).nbytes for part in parts)


class InFlightBatch:
    """An immutable copy of a batch. Thread: any."""

    __slots__ = ("_columns", "_wire")

    def __init__(self, columns: Batch | None, wire: WireBatch | None) -> None:
        self._columns = columns
        self._wire = wire

    @classmethod
    def of_wire(
        cls, schema: pa.Schema | None, body: Any, payload_bytes: int, timestamps_bytes: int, kinds_bytes: int
    ) -> InFlightBatch:
        """Returns a copy of a batch that another process sent."""
        return cls(None, WireBatch(schema, [body], payload_bytes, timestamps_bytes, kinds_bytes))

    @property
    def size_bytes(self) -> int:
        """The size of the batch; an estimate for columns."""
        if self._wire is not None:
            return self._wire.size_bytes
        assert self._columns is not None
        return batch_bytes(self._columns)

    def to_wire(self) -> WireBatch:
        if self._wire is not None:
            return self._wire
        batch = self._columns
        assert batch is not None
        encoder = ColumnEncoder()
        encoder.open_schema(batch.values)
        return _wire_of(encoder.wire_schema, encoder.encode(batch))

    def to_batch(self) -> Batch:
        """Returns the batch. Decoded rows are new objects, not shared with the batch that was frozen."""
        if self._wire is None:
            assert self._columns is not None
            return self._columns
        wire = self._wire
        body = pa.py_buffer(b"".join(bytes(part) for part in wire.parts))
        return decode_batch(wire.schema, body, wire.payload_bytes, wire.timestamps_bytes, wire.kinds_bytes)


def freeze(batch: Batch, encoded: EncodedBatch | None = None) -> InFlightBatch:
    """Returns a copy of the batch.

    Args:
        encoded: the wire form of the rows, if it has been made already.

    Raises:
        TypeMismatchError: a row cannot be pickled.
    """
    if batch.is_columnar:
        return InFlightBatch(batch, None)
    return InFlightBatch(None, _wire_of(None, encoded or encode_rows(batch)))


def _wire_of(schema: pa.Schema | None, encoded: EncodedBatch) -> WireBatch:
    return WireBatch(schema, encoded.parts, encoded.payload_bytes, encoded.timestamps_bytes, encoded.kinds_bytes)
