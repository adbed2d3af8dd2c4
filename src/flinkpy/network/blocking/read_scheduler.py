"""SortMergeReadScheduler: the thread that reads the blocking partitions of a process.

Readers that have room wait in the queue of their file. They are served in the order of their next offsets, as an
elevator serves floors: from the current position to the end of the file, then again from its start. So consumers that
read at the same time read the file in one pass. Files take turns.

```
consumer polls ----> reader has room ----> queued ----> served: read, checked ----> passed to the reader
                           ^                                   |                             |
                           +---- memory is short: postponed <--+                             +--> consumer notified
```

Memory: the bytes that were read and not taken are limited. At the limit, a reader with queued items waits until its
consumer takes them. For a reader without queued items, other readers whose consumers have been idle for a while give up
their items and read them again later. If that frees too little, the reader may read its next frames beyond the limit.
So a slow consumer does not block the others for long, and no reader waits for memory that is never freed.

Source: org.apache.flink.runtime.io.network.partition.SortMergeResultPartitionReadScheduler.
Differs: one thread for all partitions of a process; a consumer that waits long for memory does not fail.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import os
import threading
from collections import deque
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from flinkpy.common.clock import Clock, SystemClock
from flinkpy.common.errors import FlinkError, PartitionCorruptedError
from flinkpy.logs.context import in_no_context
from flinkpy.network.blocking.partition_file import (
    COLUMNS,
    ELEMENT,
    FRAME_HEADER_BYTES,
    ROWS,
    FrameHeader,
    PartitionIndex,
    corrupted,
    unreadable,
)
from flinkpy.network.blocking.range_reader import Chunk, StoredBatch, SubpartitionRangeReader
from flinkpy.network.codec import decode_element, decode_schema
from flinkpy.network.options import MIB
from flinkpy.records.elements import Element

_log = logging.getLogger(__name__)

#: The size of one read call, if the memory allows it. It holds some frames, so the incomplete frame at its end, which
#: is read twice, is small in comparison.
_CHUNK_BYTES = 1 << 20
_MIN_CHUNK_BYTES = 1 << 17
#: The bytes that a reader without items gets beyond the limit: enough for a small frame, or for the header of a long
#: one.
_LEAST_BYTES = 1 << 14
#: A consumer that has not polled for this long may lose its queued items to another one.
_IDLE_MS = 500
#: The number of chunks to read from one file before the next file has its turn.
_TURN_CHUNKS = 16
_CLOSE_TIMEOUT_S = 5.0


class _OpenFile:
    """A data file that has readers. Thread: the scheduler's, except for the queue."""

    def __init__(self, partition_id: str, data_path: Path, index_path: Path) -> None:
        self.partition_id = partition_id
        self.data_path = data_path
        self.index_path = index_path
        self.readers: set[SubpartitionRangeReader] = set()
        #: (offset, number, reader): the readers at or after the current position, and those before it.
        self.ahead: list[tuple[int, int, SubpartitionRangeReader]] = []
        self.behind: list[tuple[int, int, SubpartitionRangeReader]] = []
        self.position = 0
        self.is_queued = False
        self.fd = -1
        self.index: PartitionIndex | None = None
        self.schemas: list[tuple[pa.Schema, bytes]] = []

    def open(self) -> PartitionIndex:
        """Opens the files once. Raises: PartitionCorruptedError, PartitionConnectionError: see `unreadable`."""
        if self.index is None:
            index = PartitionIndex.load(self.index_path, self.partition_id)
            try:
                self.fd = os.open(self.data_path, os.O_RDONLY | os.O_CLOEXEC)
            except OSError as error:
                raise unreadable(self.partition_id, self.data_path, error) from error
            self.schemas = [(decode_schema(message), message) for message in index.schemas]
            self.index = index
        return self.index

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
        self.fd, self.index = -1, None


class SortMergeReadScheduler:
    """Reads blocking partitions for all readers of a process.

    Thread: any; its own thread starts with the first request.

    Args:
        memory_bytes: the limit for bytes that were read and not taken.
    """

    def __init__(self, memory_bytes: int = 64 * MIB, segment_size_bytes: int = 1 << 15, clock: Clock | None = None):
        self.segment_size_bytes = segment_size_bytes
        self.bytes_read = 0
        self._memory_bytes = memory_bytes
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._wake = threading.Condition(self._lock)
        self._files: dict[str, _OpenFile] = {}
        self._queue: deque[_OpenFile] = deque()
        #: Files to be removed by the thread, because unlinking a large file takes a while.
        self._removals: deque[tuple[str, Sequence[Path]]] = deque()
        self._numbers = itertools.count()
        self._num_readers = 0
        self._used_bytes = 0
        self._is_closed = False
        self._thread: threading.Thread | None = None

    @property
    def now_ms(self) -> int:
        return self._clock.monotonic_ms()

    @property
    def used_bytes(self) -> int:
        """The bytes that were read and not taken."""
        return self._used_bytes

    @property
    def chunk_bytes(self) -> int:
        share = self._memory_bytes // (2 * max(1, self._num_readers))
        return max(_MIN_CHUNK_BYTES, min(_CHUNK_BYTES, share))

    @property
    def read_ahead_bytes(self) -> int:
        """The maximum of bytes that one reader has queued, plus one chunk."""
        return max(_MIN_CHUNK_BYTES, min(2 * _CHUNK_BYTES, self._memory_bytes // max(1, self._num_readers)))

    # ---- for partitions and readers. Thread: any

    def add(self, reader: SubpartitionRangeReader) -> None:
        """Starts to read for a reader."""
        parent = reader.parent
        with self._lock:
            file = self._files.get(parent.partition_id)
            if file is None:
                file = _OpenFile(parent.partition_id, parent.data_path, parent.index_path)
                self._files[parent.partition_id] = file
            if reader not in file.readers:
                file.readers.add(reader)
                self._num_readers += 1
        self.schedule(reader)

    def schedule(self, reader: SubpartitionRangeReader) -> None:
        """Queues a reader that has room."""
        extent = reader.next_extent
        offset = 0 if extent is None else extent[0]
        with self._lock:
            file = self._files.get(reader.parent.partition_id)
            if file is None or reader not in file.readers or reader.is_scheduled or self._is_closed:
                return
            self._put(file, reader, offset)
            if not file.is_queued:
                file.is_queued = True
                self._queue.append(file)
            self._start()
            self._wake.notify()

    def remove(self, reader: SubpartitionRangeReader) -> None:
        """Removes a reader that is done."""
        with self._lock:
            file = self._files.get(reader.parent.partition_id)
            if file is None or reader not in file.readers:
                return
            file.readers.discard(reader)
            self._num_readers -= 1
            if not file.readers and not self._is_closed:
                self._removals.append((file.partition_id, ()))  # closes the file
                self._start()
                self._wake.notify()

    def remove_files(self, partition_id: str, paths: Sequence[Path]) -> None:
        """Removes files that will not be read any more."""
        with self._lock:
            if not self._is_closed:
                self._removals.append((partition_id, paths))
                self._start()
                self._wake.notify()
                return
        _unlink(paths)

    def close(self) -> None:
        """Finishes pending removals and ends the thread. Idempotent."""
        with self._lock:
            self._is_closed = True
            self._wake.notify()
            thread = self._thread
        if thread is not None:
            thread.join(_CLOSE_TIMEOUT_S)
            if thread.is_alive():
                raise TimeoutError(f"thread {thread.name} did not end within {_CLOSE_TIMEOUT_S} s")

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=in_no_context(self._run), name="blocking-shuffle-read", daemon=True)
            self._thread.start()

    def _put(self, file: _OpenFile, reader: SubpartitionRangeReader, offset: int) -> None:
        reader.is_scheduled = True
        queue = file.ahead if offset >= file.position else file.behind
        heapq.heappush(queue, (offset, next(self._numbers), reader))

    # ---- the thread

    def _run(self) -> None:
        while True:
            with self._lock:
                while not (self._queue or self._removals or self._is_closed):
                    self._wake.wait()
                removals, self._removals = self._removals, deque()
                if self._is_closed and not removals:
                    files, self._files = list(self._files.values()), {}
                    break
                file = self._queue.popleft() if self._queue else None
                if file is not None:
                    file.is_queued = False
            for partition_id, paths in removals:
                self._remove(partition_id, paths)
            if file is not None:
                self._serve(file)
        for open_file in files:
            open_file.close()

    def _remove(self, partition_id: str, paths: Sequence[Path]) -> None:
        with self._lock:
            file = self._files.get(partition_id)
            if file is not None and not file.readers:
                del self._files[partition_id]
            else:
                file = None
        if file is not None:
            file.close()
        _unlink(paths)

    def _serve(self, file: _OpenFile) -> None:
        for _ in range(_TURN_CHUNKS):
            with self._lock:
                if not file.ahead:
                    file.ahead, file.behind = file.behind, file.ahead
                if not file.ahead or self._is_closed:
                    return
                offset, _, reader = heapq.heappop(file.ahead)
                reader.is_scheduled = False
                file.position = offset
            if reader.is_released:
                self.remove(reader)  # it may have been added after it was released
                continue
            try:
                self._serve_reader(file, reader)
            except FlinkError as error:
                reader.release(error)
            except Exception as error:  # noqa: BLE001 - a bug must fail the task instead of letting it wait
                _log.exception("reading partition %s failed", file.partition_id)
                reader.release(corrupted(file.partition_id, f"{type(error).__name__}: {error}"))
        with self._lock:
            if (file.ahead or file.behind) and not file.is_queued:
                file.is_queued = True
                self._queue.append(file)

    def _serve_reader(self, file: _OpenFile, reader: SubpartitionRangeReader) -> None:
        if not reader.is_open:
            reader.open(file.open())
            self.schedule(reader)  # at its first offset
            return
        extent = reader.next_extent
        if extent is None:
            if not reader.is_at_end:
                reader.add_end()
            return
        size = self._take_memory(min(self.chunk_bytes, extent[1] - extent[0]), reader)
        if not size:
            return  # its consumer has to poll first
        self._read(file, reader, extent[0], extent[1], size)
        if not reader.is_at_end and (reader.next_extent is None or reader.queued_bytes < self.read_ahead_bytes):
            self.schedule(reader)

    def _read(self, file: _OpenFile, reader: SubpartitionRangeReader, begin: int, end: int, size: int) -> None:
        """Reads `size` bytes, for which memory was taken, and queues the frames in them.

        If the first frame is longer, reads that frame.
        """
        buffer = self._pread(file, begin, size)
        needed = FRAME_HEADER_BYTES
        if size >= FRAME_HEADER_BYTES:
            needed += FrameHeader.unpack_from(buffer, 0).body_bytes
        if needed > end - begin:
            self._free(size)
            raise corrupted(
                file.partition_id, f"the frame at byte {begin} of {file.data_path} is longer than its region"
            )
        if needed > size:
            self._take_beyond(needed - size)
            size = needed
            buffer = self._pread(file, begin, size)
        chunk = Chunk(size, self._free)
        try:
            items, used = self._cut(file, buffer, begin, chunk)
        finally:
            chunk.recycle(1)
        self.bytes_read += used
        reader.add(begin, items, begin + used)

    def _pread(self, file: _OpenFile, offset: int, size: int) -> pa.Buffer:
        """Reads `size` bytes, for which memory was taken. If that fails, it returns the memory."""
        buffer = pa.allocate_buffer(size)
        view = memoryview(buffer)
        try:
            done = 0
            while done < size:
                got = os.preadv(file.fd, [view[done:]], offset + done)
                if not got:
                    raise corrupted(file.partition_id, f"{file.data_path} ends at byte {offset + done}")
                done += got
        except (OSError, PartitionCorruptedError) as error:
            self._free(size)
            if isinstance(error, PartitionCorruptedError):
                raise
            raise unreadable(file.partition_id, file.data_path, error) from error
        return buffer

    def _cut(
        self, file: _OpenFile, buffer: pa.Buffer, begin: int, chunk: Chunk
    ) -> tuple[list[tuple[int, StoredBatch | Element]], int]:
        """Returns the complete frames of `buffer` with their offsets, and their total bytes.

        Raises: PartitionCorruptedError; the frames made until then are recycled.
        """
        items: list[tuple[int, StoredBatch | Element]] = []
        position, size = 0, buffer.size
        try:
            while size - position >= FRAME_HEADER_BYTES:
                header = FrameHeader.unpack_from(buffer, position)
                body_begin = position + FRAME_HEADER_BYTES
                body_end = body_begin + header.body_bytes
                if body_end > size:
                    break
                if not header.matches(buffer, position):
                    raise corrupted(
                        file.partition_id, f"{file.data_path} has a wrong checksum at byte {begin + position}"
                    )
                item: StoredBatch | Element
                if header.kind == ELEMENT:
                    body = buffer.slice(body_begin, header.payload_bytes).to_pybytes()
                    item = decode_element(header.element_kind, body)
                elif header.kind in (COLUMNS, ROWS):
                    schema, message = file.schemas[header.schema] if header.kind == COLUMNS else (None, b"")
                    body = buffer.slice(body_begin, header.body_bytes)
                    item = StoredBatch(header, body, schema, message, self.segment_size_bytes, chunk)
                else:
                    raise corrupted(
                        file.partition_id, f"the frame at byte {begin + position} has the unknown kind {header.kind}"
                    )
                items.append((begin + position, item))
                position = body_end
        except FlinkError:
            for _, item in items:
                if isinstance(item, StoredBatch):
                    item.recycle()
            raise
        return items, position

    # ---- memory

    def _take_memory(self, size: int, reader: SubpartitionRangeReader) -> int:
        """Returns how much memory the reader may use now.

        Returns 0 if its consumer has to take queued items first.
        """
        if self._try_take(size):
            return size
        if reader.has_items:
            return 0
        self._revoke_idle(size)
        if not self._try_take(size):
            size = min(size, _LEAST_BYTES)
            self._take_beyond(size)
        return size

    def _try_take(self, size: int) -> bool:
        with self._lock:
            if self._used_bytes + size > self._memory_bytes:
                return False
            self._used_bytes += size
            return True

    def _take_beyond(self, size: int) -> None:
        with self._lock:
            self._used_bytes += size

    def _free(self, size: int) -> None:
        """Returns memory. Thread: any."""
        with self._lock:
            self._used_bytes -= size

    def _revoke_idle(self, size: int) -> None:
        """Revokes the items of the readers that have been idle longest, until there is enough memory."""
        before_ms = self.now_ms - _IDLE_MS
        with self._lock:
            readers = [reader for file in self._files.values() for reader in file.readers]
        idle = [reader for reader in readers if reader.has_items and reader.last_progress_ms <= before_ms]
        for reader in sorted(idle, key=lambda reader: reader.last_progress_ms):
            if self._used_bytes + size <= self._memory_bytes:
                return
            reader.revoke()


def _unlink(paths: Sequence[Path]) -> None:
    for path in paths:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            _log.warning("%s cannot be removed: %s", path, error.strerror)
