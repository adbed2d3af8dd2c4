"""InFlightBatch: a batch on its way between two tasks, as it was when a barrier overtook it.

The batch itself goes on to be processed, perhaps by a function that changes its rows, before its copy is written. So
rows are pickled when they are frozen; columns cannot change and are encoded when they are written. What came over the
network is kept in its wire form and neither decoded nor encoded again.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from flinkpy.network.batch_size import batch_bytes
from flinkpy.network.codec import ColumnEncoder, EncodedBatch, decode_batch, encode_rows
from flinkpy.records.batch import Batch


class WireBatch:
    """Attributes: schema: of the columns, None for pickled rows; the others as in `decode_batch`."""

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
    """Thread: any; never changes."""

    __slots__ = ("_columns", "_wire")

    def __init__(self, columns: Batch | None, wire: WireBatch | None) -> None:
        self._columns = columns
        self._wire = wire

    @classmethod
    def of_wire(
        cls, schema: pa.Schema | None, body: Any, payload_bytes: int, timestamps_bytes: int, kinds_bytes: int
    ) -> InFlightBatch:
        """What came from another process."""
        return cls(None, WireBatch(schema, [body], payload_bytes, timestamps_bytes, kinds_bytes))

    @property
    def size_bytes(self) -> int:
        """Of columns an estimate."""
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
        """Decoded anew: shares no row with the batch that was frozen."""
        if self._wire is None:
            assert self._columns is not None
            return self._columns
        wire = self._wire
        body = pa.py_buffer(b"".join(bytes(part) for part in wire.parts))
        return decode_batch(wire.schema, body, wire.payload_bytes, wire.timestamps_bytes, wire.kinds_bytes)


def freeze(batch: Batch, encoded: EncodedBatch | None = None) -> InFlightBatch:
    """The batch as it is now.

    Args:
        encoded: its wire form, where it has been made already; looked at for rows only.

    Raises:
        TypeMismatchError: a row cannot be pickled.
    """
    if batch.is_columnar:
        return InFlightBatch(batch, None)
    return InFlightBatch(None, _wire_of(None, encoded or encode_rows(batch)))


def _wire_of(schema: pa.Schema | None, encoded: EncodedBatch) -> WireBatch:
    return WireBatch(schema, encoded.parts, encoded.payload_bytes, encoded.timestamps_bytes, encoded.kinds_bytes)
