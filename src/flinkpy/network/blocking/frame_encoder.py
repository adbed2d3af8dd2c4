"""FrameEncoder: encodes batches and control elements as frames of a partition file."""

from __future__ import annotations

import itertools
import threading
from typing import Any

import pyarrow as pa

from flinkpy.network.blocking.partition_file import COLUMNS, ELEMENT, ROWS, frame_parts
from flinkpy.network.codec import ColumnEncoder, EncodedBatch, compress_rows, encode_element, encode_rows
from flinkpy.network.record_writer import can_follow, concat_batches
from flinkpy.records.batch import Batch
from flinkpy.records.elements import Element

#: Batches are joined up to this size before they are compressed: enough for the codec to find repetitions and to make
#: the cost per batch negligible, and little enough that the share of a reader in the read memory holds several.
FRAME_BYTES = 1 << 19
#: The maximum batch size of a record writer.
_FRAME_ROWS = 65_536
#: Smaller batches are not compressed: the codec costs more than it saves.
_SMALL_BYTES = 1 << 12

#: An item with its estimated bytes.
SizedItem = tuple[Batch | Element, int]


class FrameEncoder:
    """Encodes frames and numbers their schemas. Thread: any, several at once.

    Args:
        compression: "lz4", "zstd" or None.
    """

    def __init__(self, compression: str | None) -> None:
        self._compression = compression
        #: Serialised schemas, in the order of their numbers.
        self.schemas: list[bytes] = []
        self._lock = threading.Lock()
        self._known: list[pa.Schema] = []
        #: The encoders of each thread, by the number of the schema.
        self._own = threading.local()

    def frames(self, items: list[SizedItem]) -> list[tuple[list[Any], int]]:
        """Returns the items as frames (parts, bytes), in order.

        Small consecutive batches of the same form share a frame.

        Raises:
            TypeMismatchError: a row cannot be pickled.
        """
        frames = []
        gathered: list[Batch] = []
        size = rows = 0
        for item, item_bytes in items:
            if not isinstance(item, Batch):
                frames += self._joined(gathered, size)
                gathered, size, rows = [], 0, 0
                frames.append(_element_frame(item))
                continue
            item_rows = item.num_rows
            is_full = size + item_bytes > FRAME_BYTES or rows + item_rows > _FRAME_ROWS
            if gathered and (is_full or not can_follow(gathered[-1], item)):
                frames += self._joined(gathered, size)
                gathered, size, rows = [], 0, 0
            gathered.append(item)
            size += item_bytes
            rows += item_rows
        return frames + self._joined(gathered, size)

    def _joined(self, batches: list[Batch], size: int) -> list[tuple[list[Any], int]]:
        if not batches:
            return []
        batch = batches[0] if len(batches) == 1 else concat_batches(batches)
        rows = batch.num_rows
        pieces = min(rows, max(-(-size // (2 * FRAME_BYTES)), -(-rows // _FRAME_ROWS)))
        if pieces <= 1:
            return [self._batch_frame(batch, size)]
        bounds = [rows * i // pieces for i in range(pieces + 1)]
        return [
            self._batch_frame(batch.slice(begin, end - begin), size // pieces)
            for begin, end in itertools.pairwise(bounds)
        ]

    def _batch_frame(self, batch: Batch, size: int) -> tuple[list[Any], int]:
        schema = 0
        encoded: EncodedBatch
        if isinstance(batch.values, list):
            kind = ROWS
            encoded = encode_rows(batch)
            if self._compression is not None:
                payload = compress_rows(encoded.parts[0], self._compression)
                encoded = EncodedBatch(True, [payload], len(payload), batch)
        else:
            kind = COLUMNS
            schema = self._number_of(batch.values)
            encoded = self._encoder(schema, batch.values, is_small=size < _SMALL_BYTES).encode(batch)
        return frame_parts(
            kind,
            encoded.parts,
            schema=schema,
            payload_bytes=encoded.payload_bytes,
            timestamps_bytes=encoded.timestamps_bytes,
            kinds_bytes=encoded.kinds_bytes,
            rows=batch.num_rows,
            decoded_bytes=size,
        )

    def _number_of(self, values: pa.RecordBatch) -> int:
        with self._lock:
            for number, schema in enumerate(self._known):
                if schema.equals(values.schema):
                    return number
            message = ColumnEncoder().open_schema(values)
            assert message is not None
            self._known.append(values.schema)
            self.schemas.append(message)
            return len(self.schemas) - 1

    def _encoder(self, schema: int, values: pa.RecordBatch, *, is_small: bool) -> ColumnEncoder:
        """Returns this thread's encoder for a schema.

        It does not compress the columns of a batch in parallel: several batches are compressed at once, and a hand-over
        between threads costs time.
        """
        encoders: dict[tuple[int, bool], ColumnEncoder] = self._own.__dict__.setdefault("encoders", {})
        encoder = encoders.get((schema, is_small))
        if encoder is None:
            encoder = ColumnEncoder(None if is_small else self._compression, use_threads=False)
            encoder.open_schema(values)
            encoders[schema, is_small] = encoder
        return encoder


def _element_frame(element: Element) -> tuple[list[Any], int]:
    kind, body = encode_element(element)
    padded = body + bytes(-len(body) % 8)
    return frame_parts(ELEMENT, [padded] if padded else [], element_kind=kind, payload_bytes=len(body))
