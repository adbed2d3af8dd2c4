"""PipelinedSubpartition: the queue between one producing task and one consumer.

The queue needs no lock. Only the task thread of the producer appends, and only one consumer thread at a time removes
items; both operations are atomic on a deque. The backlog is the difference of two counters with one writer each.

A priority barrier overtakes the queued batches. They become part of its checkpoint and must be captured exactly once.
The producer captures them if the consumer is in another process or has not attached yet. Otherwise the consumer
captures them, because it takes the items from this queue.

Source: org.apache.flink.runtime.io.network.partition.{PipelinedSubpartition, PipelinedSubpartitionView}.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol

from flinkpy.network.batch_size import batch_bytes
from flinkpy.network.codec import EncodedBatch
from flinkpy.network.in_flight import InFlightBatch, freeze
from flinkpy.network.priority import PriorityMarker, items_before, position_of
from flinkpy.records.batch import Batch
from flinkpy.records.elements import CheckpointBarrier, Element

if TYPE_CHECKING:
    from flinkpy.network.result_partition import ResultPartition


class SegmentPool(Protocol):
    """Accounts for the segments of batches."""

    def reserve(self, segments: int) -> None: ...

    def recycle(self, segments: int) -> None: ...


class SharedEncoding:
    """The wire form of a broadcast batch, made once for all channels."""

    __slots__ = ("_encoded",)

    def __init__(self) -> None:
        self._encoded: EncodedBatch | None = None

    def get(self, encode: Callable[[], EncodedBatch]) -> EncodedBatch:
        """Returns the wire form. Two threads may both encode at first; their results are equal."""
        if self._encoded is None:
            self._encoded = encode()
        return self._encoded


class BufferedBatch:
    """A batch in a queue, with the segments that it occupies in the pool of its partition.

    Invariant: `recycle` is called once, by the thread that took the batch out of the queue.
    """

    __slots__ = ("batch", "encoded", "pool", "segments", "shared", "size_bytes")

    def __init__(self, batch: Batch, size_bytes: int, segments: int, pool: SegmentPool) -> None:
        self.batch = batch
        self.size_bytes = size_bytes
        self.segments = segments
        self.pool = pool
        #: The wire form, if the producer's task has made it already.
        self.encoded: EncodedBatch | None = None
        #: Shared by the channels that send the same batch: the first one stores the wire form here.
        self.shared: SharedEncoding | None = None

    def recycle(self) -> None:
        segments, self.segments = self.segments, 0
        if segments:
            self.pool.recycle(segments)

    def charge(self, segments: int) -> None:
        """Reserves more segments, because the batch is larger than estimated."""
        self.segments += segments
        self.pool.reserve(segments)

    def split(self, rows: int, segment_size_bytes: int) -> tuple[BufferedBatch, BufferedBatch]:
        """Returns the first `rows` rows and the rest as two batches, which take over the segments of this one."""
        pieces = []
        for piece in (self.batch.slice(0, rows), self.batch.slice(rows, self.batch.num_rows - rows)):
            size = batch_bytes(piece)
            pieces.append(BufferedBatch(piece, size, -(-size // segment_size_bytes) or 1, self.pool))
        extra = pieces[0].segments + pieces[1].segments - self.segments
        self.segments = 0
        if extra > 0:
            self.pool.reserve(extra)
        elif extra < 0:
            self.pool.recycle(-extra)
        return pieces[0], pieces[1]


def freeze_all(items: Iterable[Any]) -> list[InFlightBatch]:
    """Returns the current contents of the batches among the items of a queue."""
    return [freeze(item.batch, item.encoded) for item in items if isinstance(item, BufferedBatch)]


def recycle_all(items: list[BufferedBatch]) -> None:
    """Recycles batches, with one call per run of batches of the same pool."""
    if len(items) == 1:
        items[0].recycle()
        return
    pool: SegmentPool | None = None
    segments = 0
    for item in items:
        if item.pool is not pool:
            if pool is not None and segments:
                pool.recycle(segments)
            pool, segments = item.pool, 0
        segments += item.segments
        item.segments = 0
    if pool is not None and segments:
        pool.recycle(segments)


class SubpartitionView(Protocol):
    """The consumer's end of a subpartition."""

    @property
    def is_remote(self) -> bool:
        """True if batches leave the process. The producer's task then pickles rows."""
        ...

    def notify_data_available(self) -> None:
        """Reports that an item was appended. Must not block. Thread: the producer's task thread."""
        ...

    def notify_failed(self, cause: Exception) -> None:
        """Reports that the partition was released before its consumer had read all data. Thread: any."""
        ...

    def notify_barrier(self, barrier: CheckpointBarrier) -> None:
        """Reports that an ordinary barrier was appended. Thread: the producer's task thread."""
        ...

    def notify_priority(self, marker: PriorityMarker) -> None:
        """Delivers this barrier before the queued items; its marker is in the queue.

        Called before this view is attached, or on the producer's task thread.
        """
        ...

    def overtake(self, marker: PriorityMarker, *, append: bool) -> list[InFlightBatch] | None:
        """Delivers this barrier before the queued items. Thread: the producer's task thread.

        Args:
            append: True to append the marker to the queue; False to replace the ordinary barrier of its checkpoint.

        Returns:
            The batches that the barrier overtakes; empty if the consumer captures them itself. None if the ordinary
            barrier is not in the queue any more.
        """
        ...


class Subpartition(Protocol):
    """The data that one consumer reads of a partition. Thread: one at a time; `release`: any."""

    @property
    def parent(self) -> ResultPartition: ...

    @property
    def queue(self) -> deque[Any]:
        """The items that barriers may overtake. Items must not be removed through this property."""
        ...

    @property
    def backlog_segments(self) -> int:
        """The segments of the waiting batches. The consumer is told this number, so that it can grant credit."""
        ...

    @property
    def has_data(self) -> bool:
        """True if the subpartition should be polled."""
        ...

    def attach(self, view: SubpartitionView) -> bool:
        """Sets the consumer. Returns False if there is or was another one, or if the partition was released."""
        ...

    def poll(self) -> BufferedBatch | PriorityMarker | Element | None: ...

    def unpoll(self, item: BufferedBatch) -> None:
        """Puts a polled batch, or the rest of it, back to the front."""
        ...

    def release(self) -> None:
        """Ends the consumption: the consumer has gone, or has all data. Idempotent. Thread: any."""
        ...


class PipelinedSubpartition:
    """The queue of one consumer.

    Thread: `add` on the producer's task thread, `poll` on the thread that drives the attached view.
    """

    def __init__(self, parent: ResultPartition, index: int) -> None:
        self.parent = parent
        self.index = index
        self.queue: deque[BufferedBatch | PriorityMarker | Element] = deque()
        self._view: SubpartitionView | None = None
        #: Keeps consumers from attaching while a priority barrier is added. Not used for anything else.
        self._view_lock = threading.Lock()
        #: Priority barriers for a consumer that has not attached yet.
        self._waiting_priority: list[PriorityMarker] = []
        self._released = False
        #: True if a consumer in another process is attached.
        self.is_remote = False
        self._added_segments = 0
        self._removed_segments = 0

    @property
    def backlog_segments(self) -> int:
        return self._added_segments - self._removed_segments

    @property
    def has_data(self) -> bool:
        return bool(self.queue)

    @property
    def is_released(self) -> bool:
        return self._released

    @property
    def has_view(self) -> bool:
        """True if a consumer is or was attached."""
        return self._view is not None

    def add(self, item: BufferedBatch | Element) -> None:
        """Appends an item. It is dropped if the consumer has gone; the JobMaster will learn of its failure."""
        if isinstance(item, BufferedBatch):
            self._added_segments += item.segments
        self.queue.append(item)
        view = self._view
        if self._released:
            self._discard()
        elif view is not None:
            view.notify_data_available()

    def add_barrier(self, barrier: CheckpointBarrier) -> None:
        """Appends an ordinary barrier."""
        self.add(barrier)
        view = self._view
        if view is not None:
            view.notify_barrier(barrier)

    def add_priority(self, barrier: CheckpointBarrier) -> list[InFlightBatch]:
        """Lets the barrier overtake all queued batches. Returns those that the producer has to persist.

        Thread: the producer's task thread.
        """
        marker = PriorityMarker(barrier)
        with self._view_lock:
            if self._released:
                return []
            if self._view is not None:
                return self._view.overtake(marker, append=True) or []
            overtaken = freeze_all(self.queue)
            self.queue.append(marker)
            self._wait_with_priority(marker)
            return overtaken

    def convert_to_unaligned(self, barrier: CheckpointBarrier) -> list[InFlightBatch] | None:
        """Lets the queued ordinary barrier of that checkpoint overtake the batches before it.

        Returns: see `SubpartitionView.overtake`. Thread: the producer's task thread.
        """
        marker = PriorityMarker(barrier)
        with self._view_lock:
            if self._released:
                return None
            if self._view is not None:
                return self._view.overtake(marker, append=False)
            position = position_of(self.queue, marker)
            if position is None:
                return None
            self.queue[position] = marker
            self._wait_with_priority(marker)
            return freeze_all(items_before(self.queue, position))

    def _wait_with_priority(self, marker: PriorityMarker) -> None:
        marker.is_captured = True
        self._waiting_priority.append(marker)

    def poll(self) -> BufferedBatch | PriorityMarker | Element | None:
        try:
            item = self.queue.popleft()
        except IndexError:
            return None
        if isinstance(item, BufferedBatch):
            self._removed_segments += item.segments
        return item

    def unpoll(self, item: BufferedBatch) -> None:
        self._removed_segments -= item.segments
        self.queue.appendleft(item)
        if self._released:
            self._discard()

    def attach(self, view: SubpartitionView) -> bool:
        """Sets the consumer. Returns False if there is or was one: a pipelined subpartition is consumed once."""
        with self._view_lock:
            if self._view is not None or self._released:
                return False
            for marker in self._waiting_priority:
                view.notify_priority(marker)
            self._waiting_priority.clear()
            self.is_remote = view.is_remote
            self._view = view  # last, so that nothing is sent before the priority barriers
        if self.queue:
            view.notify_data_available()
        return True

    def release(self) -> None:
        if self._released:
            return
        self._released = True
        self._discard()
        self.parent.on_subpartition_consumed(self.index)

    def fail(self, cause: Exception) -> None:
        """Drops the queued items and reports the failure to the consumer. Thread: any."""
        view, finished = self._view, self._released
        self._released = True
        self._discard()
        if view is not None and not finished:
            view.notify_failed(cause)

    def _discard(self) -> None:
        while True:
            item = self.poll()
            if item is None:
                return
            if isinstance(item, BufferedBatch):
                item.recycle()
