"""SortMergeResultPartition: the output of a task attempt for a blocking data set, in a file.

While the task runs, its batches are gathered in memory. When the memory is full, they are sorted by subpartition and
appended to the file as a region. The task's thread writes, which is the backpressure. So the partition is always
available, and nothing can wait for memory that only this partition could free.

A finished partition can be read any number of times, by several consumers at once. Each consumer reads a range of
neighbouring subpartitions from the start. The partition lives until it is released, not until it was consumed.

The content of a finished partition can be copied to another process (`content`, `restore`), for partitions that have to
outlive the one that wrote them.

A consumer of several subpartitions is one task that replaces several. It gets data that was emitted to *all*
subpartitions, broadcast batches and control elements, only once: after all earlier data of its subpartitions and before
all later data. Therefore such data ends the region.

Source: org.apache.flink.runtime.io.network.partition.SortMergeResultPartition.
Differs: records are not spread by hash over free regions of one buffer; whole batches are gathered by reference.
"""

from __future__ import annotations

import itertools
import logging
import struct
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from flinkpy.common.errors import PartitionWriteError, UnsupportedOperationError
from flinkpy.network.batch_size import batch_bytes
from flinkpy.network.blocking.frame_encoder import FrameEncoder, SizedItem
from flinkpy.network.blocking.partition_file import (
    PartitionFileWriter,
    PartitionIndex,
    Region,
    compact,
    corrupted,
    needs_compaction,
)
from flinkpy.network.blocking.range_reader import SubpartitionRangeReader
from flinkpy.network.buffer_pool import LocalBufferPool
from flinkpy.network.result_partition import Overtaken, ResultPartition
from flinkpy.network.subpartition import PipelinedSubpartition
from flinkpy.records.batch import Batch
from flinkpy.records.elements import CheckpointBarrier, Element, LatencyMarker

if TYPE_CHECKING:
    from typing import Any

    from flinkpy.network.blocking.read_scheduler import SortMergeReadScheduler

_log = logging.getLogger(__name__)

#: The maximum number of gathered control elements before a region is written. They are not counted as memory, and take
#: some hundred bytes each.
_MAX_ELEMENTS = 10_000
#: A copy begins with the size of the index file.
_INDEX_BYTES = struct.Struct("<Q")


class SortMergeResultPartition(ResultPartition):
    """A blocking partition, which is stored in a file until it is released.

    Thread: the producer's task thread, except where a method says "any".

    Args:
        path: the path of the files, without suffixes.
        compression: "lz4", "zstd" or None.
        parallel_map: used like `map` to encode the runs of different subpartitions, possibly at the same time.
    """

    def __init__(
        self,
        partition_id: str,
        num_subpartitions: int,
        pool: LocalBufferPool,
        segment_size_bytes: int,
        *,
        path: Path,
        scheduler: SortMergeReadScheduler,
        compression: str | None = "lz4",
        parallel_map: Callable[..., Iterable[Any]] = map,
        owner: str = "",
        on_released: Callable[[ResultPartition], None] | None = None,
    ) -> None:
        super().__init__(
            partition_id,
            num_subpartitions,
            pool,
            segment_size_bytes,
            partition_type="BLOCKING",
            owner=owner,
            on_released=on_released,
        )
        self.data_path = path.with_name(path.name + ".data")
        self.index_path = path.with_name(path.name + ".index")
        #: The size of the files on the disk.
        self.bytes_written = 0
        #: int64[n]: the bytes of each subpartition before compression. Broadcast data counts for each of them.
        self.subpartition_bytes = np.zeros(num_subpartitions, np.int64)
        self._scheduler = scheduler
        self._map = parallel_map
        self._encoder = FrameEncoder(compression)
        self._index = PartitionIndex(num_subpartitions)
        self._gathered: dict[int, list[SizedItem]] = {}
        self._broadcast: list[SizedItem] = []
        self._gathered_segments = 0
        self._gathered_elements = 0
        #: Held while the file is written or closed.
        self._file_lock = threading.Lock()
        self._writer = PartitionFileWriter(self.data_path, partition_id)
        #: Consumers that attached before the partition was finished.
        self._early_readers: list[SubpartitionRangeReader] = []
        self._readers: set[SubpartitionRangeReader] = set()
        self._is_readable = False
        #: Called at the end of `finish`. May block; an error fails the task.
        self.on_finished: Callable[[], None] | None = None

    def _make_subpartitions(self, count: int) -> list[PipelinedSubpartition]:
        return []

    @property
    def is_available(self) -> bool:
        """Always True. Thread: any."""
        return True

    # ---- writing

    def emit(self, subpartition: int, batch: Batch) -> None:
        """Gathers a batch for one consumer.

        Raises:
            ClosedError: the partition is finished.
            PartitionConnectionError: the partition was released while its producer was running.
            PartitionWriteError: the file cannot be written; it has been removed.
        """
        self.emit_parts([(subpartition, batch)], batch)

    def emit_parts(self, parts: Sequence[tuple[int, Batch]], whole: Batch) -> None:
        """Gathers the parts of a batch. Only the size of the whole is measured: parts are many and small.

        Raises: see `emit`.
        """
        if self._failure is not None or self._finished:
            self._check_open()
        if self._broadcast:
            self._write_region()
        size, rows = batch_bytes(whole), max(1, whole.num_rows)
        gathered, sizes = self._gathered, self.subpartition_bytes
        for subpartition, part in parts:
            part_size = size * part.num_rows // rows
            gathered.setdefault(subpartition, []).append((part, part_size))
            sizes[subpartition] += part_size
        self._count(size, 1)

    def emit_broadcast(self, batch: Batch) -> None:
        """Gathers a batch for every consumer. It is stored once. Raises: see `emit`."""
        self._check_open()
        if self._gathered:
            self._write_region()
        size = batch_bytes(batch)
        self._broadcast.append((batch, size))
        self.subpartition_bytes += size
        self._count(size, self.num_subpartitions)

    def emit_element(self, element: Element, subpartition: int | None = None) -> None:
        """Gathers a control element for one consumer, or for all if `subpartition` is None. Raises: see `emit`."""
        self._check_open()
        if isinstance(element, LatencyMarker):
            return  # the time until the file is read is not a latency of the job
        if isinstance(element, CheckpointBarrier):
            self._refuse_barrier()
        if subpartition is None:
            if self._gathered:
                self._write_region()
            self._broadcast.append((element, 0))
        else:
            if self._broadcast:
                self._write_region()
            self._gathered.setdefault(subpartition, []).append((element, 0))
        self._gathered_elements += 1
        if self._gathered_elements >= _MAX_ELEMENTS:
            self._write_region()

    def emit_priority(self, barrier: CheckpointBarrier) -> Overtaken:
        self._refuse_barrier()

    def convert_to_unaligned(self, checkpoint_id: int) -> Overtaken | None:
        return None

    def has_queued_barrier(self, checkpoint_id: int) -> bool:
        return False

    def finish(self) -> None:
        """Writes the gathered data and lets consumers read. Raises: see `emit`."""
        if self._finished:
            return
        self._check_open()
        self._write_region()
        self._run_guarded(self._write_index)
        self._become_readable()
        if self.on_finished is not None:
            self.on_finished()

    def _become_readable(self) -> None:
        self._finished = True
        self._pool.destroy()
        with self._lock:
            self._is_readable = not self._released.is_set()
            early, self._early_readers = self._early_readers, []
        for reader in early:
            reader.start()

    # ---- copies

    def content(self, piece_bytes: int) -> Iterator[bytes]:
        """Yields the content of the finished partition in pieces, for `restore`. Raises: OSError."""
        index = self.index_path.read_bytes()
        piece = _INDEX_BYTES.pack(len(index)) + index
        with open(self.data_path, "rb") as data:
            while piece:
                missing = piece_bytes - len(piece)
                if missing > 0:
                    piece += data.read(missing)
                yield piece[:piece_bytes]
                piece = piece[piece_bytes:] or data.read(piece_bytes)

    def restore(self, pieces: Iterable[bytes]) -> None:
        """Fills the partition with the `content` of another one, and finishes it.

        Raises:
            PartitionCorruptedError: the content is damaged.
            PartitionWriteError: the file cannot be written; it has been removed.
        """
        self._check_open()
        self._run_guarded(lambda: self._write_copy(pieces))
        self._become_readable()

    def _write_copy(self, pieces: Iterable[bytes]) -> None:
        rest = iter(pieces)
        head = b""
        while len(head) < _INDEX_BYTES.size or len(head) < self._end_of_index(head):
            piece = next(rest, b"")
            if not piece:
                raise corrupted(self.partition_id, "its copy ends within the index")
            head += piece
        end = self._end_of_index(head)
        self.index_path.write_bytes(head[_INDEX_BYTES.size : end])
        index = PartitionIndex.load(self.index_path, self.partition_id)
        for piece in itertools.chain([head[end:]], rest):
            self._writer.append([piece], len(piece))
        self._writer.flush()
        if self._writer.position != index.data_bytes:
            raise corrupted(self.partition_id, f"its copy has {self._writer.position} bytes, not {index.data_bytes}")
        self._index = index
        self.num_subpartitions = index.num_subpartitions
        self._writer.close()

    @staticmethod
    def _end_of_index(head: bytes) -> int:
        return _INDEX_BYTES.size + int(_INDEX_BYTES.unpack_from(head)[0])

    def _refuse_barrier(self) -> NoReturn:
        raise UnsupportedOperationError(
            f"{self.owner or self.partition_id}: a task with a blocking result cannot take part in checkpoints"
        )

    def _count(self, size: int, copies: int) -> None:
        """Accounts for gathered data, and writes it if the memory is full."""
        self.bytes_out += size * copies
        segments = -(-size // self._segment_size_bytes) or 1
        self._pool.reserve(segments)
        with self._lock:
            self._gathered_segments += segments
        if self._released.is_set():
            self._recycle()
        elif self._pool.used >= self._pool.quota:
            self._write_region()

    def _write_region(self) -> None:
        self._gathered_elements = 0
        if self._gathered or self._broadcast:
            try:
                self._run_guarded(self._append_region)
            finally:
                self._gathered.clear()
                self._broadcast.clear()
        self._recycle()

    def _recycle(self) -> None:
        """Returns the segments of gathered data. Thread: any."""
        with self._lock:
            segments, self._gathered_segments = self._gathered_segments, 0
        if segments:
            self._pool.recycle(segments)

    def _append_region(self) -> None:
        writer = self._writer
        if self._broadcast:
            offsets = np.array([writer.position] * 2, np.int64)
            for parts, size in self._encoder.frames(self._broadcast):
                writer.append(parts, size)
            offsets[1] = writer.position
            self._index.regions.append(Region(True, offsets))
            return
        offsets = np.empty(self.num_subpartitions + 1, np.int64)
        position = 0
        subpartitions = sorted(self._gathered)
        # The results are in the given order. The task waits, so no other thread changes the gathered data.
        runs = self._map(self._encoder.frames, [self._gathered[subpartition] for subpartition in subpartitions])
        for subpartition, frames in zip(subpartitions, runs, strict=True):
            offsets[position : subpartition + 1] = writer.position
            position = subpartition + 1
            for parts, size in frames:
                writer.append(parts, size)
        offsets[position:] = writer.position
        self._index.regions.append(Region(False, offsets))

    def _write_index(self) -> None:
        writer, index = self._writer, self._index
        writer.flush()
        index.data_bytes = writer.position
        index.schemas = self._encoder.schemas
        if needs_compaction(index):
            try:
                memory_bytes = self._pool.quota * self._segment_size_bytes
                index = compact(self.data_path, index, self.partition_id, memory_bytes)
            except (OSError, PartitionWriteError) as error:
                _log.warning(
                    "partition %s is not compacted and keeps its %d regions: %s",
                    self.partition_id,
                    len(index.regions),
                    error,
                )
        self._index = index
        self.bytes_written = index.data_bytes + writer.write_index(self.index_path, index)
        writer.close()

    def _run_guarded(self, action: Callable[[], None]) -> None:
        """Runs an action that writes. If it fails, the partition is released and its files are removed."""
        with self._file_lock:
            failure: Exception | None = None
            if self._failure is None:
                try:
                    action()
                except Exception as error:  # noqa: BLE001 - raised below
                    self._failure = failure = error  # under the lock, so that no thread writes to the broken file
        if failure is not None:
            self.release(failure)
            raise failure
        if self._failure is not None:  # released by another thread while the file was in use
            self._writer.close()
            self._remove_files()
            self._check_open()

    # ---- reading. Thread: any

    def open_subpartitions(self, first: int, count: int) -> SubpartitionRangeReader | None:
        """Returns a reader of `count` subpartitions from `first` on, or None if they do not exist.

        The reader begins at the start of the subpartitions.
        """
        if not 0 <= first < first + count <= self.num_subpartitions:
            return None
        return SubpartitionRangeReader(self, first, count, self._scheduler)

    def attach_reader(self, reader: SubpartitionRangeReader) -> bool:
        """Starts the reader, immediately or when the partition is finished. Returns False if it was released."""
        with self._lock:
            if self._released.is_set():
                return False
            self._readers.add(reader)
            if not self._is_readable:
                self._early_readers.append(reader)
                return True
        reader.start()
        return True

    def detach_reader(self, reader: SubpartitionRangeReader) -> None:
        with self._lock:
            self._readers.discard(reader)

    def release(self, cause: Exception | None = None) -> None:
        """Removes the files. Consumers that have not received all data fail with `cause`. Idempotent. Thread: any."""
        failure = cause or self._released_error()
        with self._lock:
            if self._released.is_set():
                return
            self._failure = failure
            self._released.set()
            readers = list(self._readers)
            self._readers.clear()
            self._early_readers.clear()
        if self._file_lock.acquire(blocking=False):  # otherwise the task is writing and will see the failure
            self._writer.close()
            self._file_lock.release()
        self._remove_files()
        for reader in readers:
            reader.release(failure)
        self._recycle()
        self._after_release()

    def _remove_files(self) -> None:
        self._scheduler.remove_files(self.partition_id, [self.data_path, self.index_path])
