"""SubpartitionRangeReader: one consumer that reads its subpartitions of a finished partition.

The read scheduler fills the queue of the reader from the file. The consumer's view, a local channel or a sender to
another process, takes from it. Queued data can be dropped and read again later (`revoke`), so a consumer that makes no
progress holds no memory.

Source: org.apache.flink.runtime.io.network.partition.SortMergeSubpartitionReader.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from flinkpy.network.blocking.partition_file import ROWS, FrameHeader, PartitionIndex
from flinkpy.network.codec import decode_batch
from flinkpy.network.priority import PriorityMarker
from flinkpy.network.subpartition import BufferedBatch, SubpartitionView
from flinkpy.records.batch import Batch
from flinkpy.records.elements import Element, EndOfPartition

if TYPE_CHECKING:
    from flinkpy.network.blocking.read_scheduler import SortMergeReadScheduler
    from flinkpy.network.blocking.sort_merge_result_partition import SortMergeResultPartition

# The maximum backlog reported to a sender: enough to get the full credit window, whatever the size of the file.
_MAX_BACKLOG_SEGMENTS = 256

#: The position of a frame: the number of the extent and the offset in the file.
Position = tuple[int, int]


class Chunk:
    """The data of one read call. Its memory is freed when its last batch was taken.

    A chunk is the `SegmentPool` of its batches. Thread: any.
    """

    __slots__ = ("_lock", "_on_freed", "_segments", "size_bytes")

    def __init__(self, size_bytes: int, on_freed: Callable[[int], None]) -> None:
        self.size_bytes = size_bytes
        self._on_freed = on_freed
        self._lock = threading.Lock()
        #: One extra segment until all batches of the chunk are known.
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
    """A frame of a partition file in the queue of a reader, not decoded yet.

    Attributes:
        body: payload, timestamps and kinds, in the form of `decode_batch` and the wire.
        schema: the schema of the columns; None for pickled rows.
        schema_number, schema_message: the number of the schema in the file, and its serialised form.
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
        """The batch, decoded at each access."""
        return decode_batch(self.schema, self.body, self.payload_bytes, self.timestamps_bytes, self.kinds_bytes)

    def split(self, rows: int, segment_size_bytes: int) -> Any:
        raise NotImplementedError("a stored batch is sent in fragments, so it cannot be split")


class SubpartitionRangeReader:
    """Reads a range of subpartitions; implements `Subpartition`.

    Thread: any; `_lock` is held for a few instructions only.
    """

    def __init__(
        self, parent: SortMergeResultPartition, first: int, count: int, scheduler: SortMergeReadScheduler
    ) -> None:
        self.parent = parent
        self.first = first
        self.count = count
        #: Always empty: a blocking partition has no barriers.
        self.queue: deque[Any] = deque()
        #: The time when the consumer last took an item or the scheduler last added items, in ms of the scheduler's
        #: clock.
        self.last_progress_ms = 0
        #: True while it is in the scheduler's queue. Changed under the scheduler's lock.
        self.is_scheduled = False
        self._scheduler = scheduler
        self._lock = threading.Lock()
        self._items: deque[tuple[Position, StoredBatch | BufferedBatch | Element]] = deque()
        self._last_polled: Position = (0, 0)
        self._view: SubpartitionView | None = None
        self._is_released = False
        self._is_revoked = False
        #: The bytes in `_items`.
        self._queued_bytes = 0
        # Set by `open`, on the scheduler's thread:
        self.extents: list[tuple[int, int]] = []
        self._unread_bytes = 0
        #: The position to read next; after the last extent if everything was read.
        self._position: Position = (0, 0)
        self.is_open = False

    # ---- the consumer's end

    @property
    def backlog_segments(self) -> int:
        size = self._queued_bytes + self._unread_bytes
        return min(_MAX_BACKLOG_SEGMENTS, -(-size // self._scheduler.segment_size_bytes))

    @property
    def has_data(self) -> bool:
        return bool(self._items) or self._is_revoked

    @property
    def is_released(self) -> bool:
        return self._is_released

    def attach(self, view: SubpartitionView) -> bool:
        self._view = view
        return self.parent.attach_reader(self)

    def start(self) -> None:
        """Starts to read, because the partition is finished."""
        self._scheduler.add(self)

    def poll(self) -> BufferedBatch | PriorityMarker | Element | None:
        with self._lock:
            if not self._items:
                self._is_revoked = False
                item = None
            else:
                position, item = self._items.popleft()
                self._last_polled = position
                if isinstance(item, BufferedBatch):
                    self._queued_bytes -= item.size_bytes
            wants_more = not self._is_released and self.is_open and not self.is_at_end
        self.last_progress_ms = self._scheduler.now_ms
        if wants_more and not self.is_scheduled and self._queued_bytes <= self._scheduler.read_ahead_bytes // 2:
            self._scheduler.schedule(self)
        return item

    def unpoll(self, item: BufferedBatch) -> None:
        with self._lock:
            if not self._is_released:
                self._items.appendleft((self._last_polled, item))
                self._queued_bytes += item.size_bytes
                return
        item.recycle()

    def release(self, cause: Exception | None = None) -> None:
        """Ends reading. Idempotent. Reports `cause` to the consumer unless it has all data or has gone."""
        with self._lock:
            if self._is_released:
                return
            self._is_released = True
            dropped = self._take_all()
        self._drop(dropped)
        self.parent.detach_reader(self)
        self._scheduler.remove(self)
        if cause is not None and self._view is not None:
            self._view.notify_failed(cause)

    # ---- the scheduler's end. Thread: the scheduler's; `revoke` any

    def open(self, index: PartitionIndex) -> None:
        self.extents = index.extents(self.first, self.count)
        self._unread_bytes = sum(end - begin for begin, end in self.extents)
        if self.extents:
            self._position = (0, self.extents[0][0])
        self.is_open = True

    @property
    def is_at_end(self) -> bool:
        """True once everything was read."""
        return self._position[0] > len(self.extents)

    @property
    def has_items(self) -> bool:
        return bool(self._items)

    @property
    def queued_bytes(self) -> int:
        return self._queued_bytes

    @property
    def next_extent(self) -> tuple[int, int] | None:
        """The offset to read next and the end of that run, or None if only the end of the partition is left."""
        number, offset = self._position
        return (offset, self.extents[number][1]) if number < len(self.extents) else None

    def add(self, offset: int, items: list[tuple[int, StoredBatch | Element]], next_offset: int) -> None:
        """Queues the items that were read at `offset`, given with their offsets.

        The next read is at `next_offset`.
        """
        with self._lock:
            number, expected = self._position
            if self._is_released or expected != offset:  # it was revoked meanwhile
                dropped = [item for _, item in items]
            else:
                dropped = []
                was_empty = not self._items
                for at, item in items:
                    self._items.append(((number, at), item))
                    if isinstance(item, BufferedBatch):
                        self._queued_bytes += item.size_bytes
                self._unread_bytes -= next_offset - offset
                self._move_to(number, next_offset)
                self.last_progress_ms = self._scheduler.now_ms
        self._drop(dropped)
        if not dropped and was_empty:
            self._notify()

    def add_end(self) -> None:
        with self._lock:
            if self._is_released or self._position != (len(self.extents), 0):
                return
            self._items.append(((len(self.extents), 0), EndOfPartition()))
            self._position = (len(self.extents) + 1, 0)
        self._notify()

    def revoke(self) -> None:
        """Drops the queued items. They are read again when the consumer polls."""
        with self._lock:
            if self._is_released or not self._items:
                return
            if any(type(item) is BufferedBatch for _, item in self._items):
                return  # the consumer has put back a rest, which cannot be read again
            position = self._items[0][0]
            self._unread_bytes = self._bytes_from(position)
            self._position = position
            dropped = self._take_all()
            self._is_revoked = True
        self._drop(dropped)

    def _move_to(self, number: int, offset: int) -> None:
        if offset >= self.extents[number][1]:
            number += 1
            offset = self.extents[number][0] if number < len(self.extents) else 0
        self._position = (number, offset)

    def _bytes_from(self, position: Position) -> int:
        number, offset = position
        if number >= len(self.extents):
            return 0
        return self.extents[number][1] - offset + sum(end - begin for begin, end in self.extents[number + 1 :])

    def _notify(self) -> None:
        view = self._view
        if view is not None:
            view.notify_data_available()

    def _take_all(self) -> list[StoredBatch | BufferedBatch | Element]:
        dropped = [item for _, item in self._items]
        self._items.clear()
        self._queued_bytes = 0
        return dropped

    @staticmethod
    def _drop(items: list[Any]) -> None:
        for item in items:
            if isinstance(item, BufferedBatch):
                item.recycle()
