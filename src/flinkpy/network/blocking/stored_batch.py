"""StoredBatch: a batch as it was read from a partition file, not decoded yet."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from flinkpy.network.blocking.partition_file import ROWS, FrameHeader
from flinkpy.network.codec import decode_batch
from flinkpy.network.subpartition import BufferedBatch
from flinkpy.records.batch import Batch


class Chunk:
    """What one read call has read. Its memory is given back when the last of its batches was taken.

    It is a `SegmentPool` of its batches. Thread: any.
    """

    __slots__ = ("_lock", "_on_freed", "_segments", "size_bytes")

    def __init__(self, size_bytes: int, on_freed: Callable[[int], None]) -> None:
        self.size_bytes = size_bytes
        self._on_freed = on_freed
        self._lock = threading.Lock()
        #: One more, until all its batches are known.
        self._segments = 1

    def reserve(self, segments: int) -> None:
        with self._lock:
            self._segments += segments

    def recycle(self, segments: int) -> None:
        with self._lock:
            self._segments -= segments
            is_free = not self._segments
        if is_free:
            self._on_freed(self.size_bytes)


class StoredBatch(BufferedBatch):
    """A frame of a partition file in a reader's queue.

    Attributes:
        body: payload, timestamps and kinds, as `decode_batch` and the wire have them.
        schema: of the columns, None for pickled rows; `schema_number` and `schema_message` are its number in the file
            and its serialised form.
    """

    __slots__ = (
        "body",
        "is_pickled",
        "kinds_bytes",
        "payload_bytes",
        "schema",
        "schema_message",
        "schema_number",
        "timestamps_bytes",
    )

    def __init__(
        self,
        header: FrameHeader,
        body: pa.Buffer,
        schema: pa.Schema | None,
        schema_message: bytes,
        segment_size_bytes: int,
        chunk: Chunk,
    ) -> None:
        self.size_bytes = header.body_bytes
        self.segments = -(-header.body_bytes // segment_size_bytes) or 1
        self.pool = chunk
        self.encoded = None
        self.shared = None
        self.body = body
        self.is_pickled = header.kind == ROWS
        self.payload_bytes = header.payload_bytes
        self.timestamps_bytes = header.timestamps_bytes
        self.kinds_bytes = header.kinds_bytes
        self.schema = schema
        self.schema_number = header.schema
        self.schema_message = schema_message
        chunk.reserve(self.segments)

    @property
    def batch(self) -> Batch:  # type: ignore[override]
        """Decoded anew at each call."""
        return decode_batch(self.schema, self.body, self.payload_bytes, self.timestamps_bytes, self.kinds_bytes)

    def split(self, rows: int, segment_size_bytes: int) -> Any:
        raise NotImplementedError("a stored batch is sent in fragments")
