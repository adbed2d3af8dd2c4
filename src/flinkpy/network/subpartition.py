"""PipelinedSubpartition: the queue between one producing task and one consumer.

Lock-free on purpose: the producer's task thread only appends, one consumer end at a time only pops, and both are
atomic on a deque. The backlog is the difference of two counters with one writer each.

A priority barrier overtakes what is queued, which becomes part of its checkpoint, captured once: by the producer where
the consumer is in another process or has not come yet, else by the consumer, which takes the items from this queue.

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
    """Where the segments of a batch come from."""

    def reserve(self, segments: int) -> None: ...

    def recycle(self, segments: int) -> None: ...


class SharedEncoding:
    """The wire form of a broadcast batch, made once for all channels."""

    __slots__ = ("_encoded",)

    def __init__(self) -> None:
        self._encoded: EncodedBatch | None = None

    def get(self, encode: Callable[[], EncodedBatch]) -> EncodedBatch:
        """Two threads may both encode at first: the results are equal."""
        if self._encoded is None:
            self._encoded = encode()
        return self._encoded


class BufferedBatch:
    """A batch in a queue, with the segments that it occupies in its partition's pool.

    Invariant: `recycle` is called once, by whoever took it out of the queue.
    """

    __slots__ = ("batch", "encoded", "pool", "segments", "shared", "size_bytes")

    def __init__(self, batch: Batch, size_bytes: int, segments: int, pool: SegmentPool) -> None:
        self.batch = batch
        self.size_bytes = size_bytes
        self.segments = segments
        self.pool = pool
        #: The wire form, where the producer's task has made it already.
        self.encoded: EncodedBatch | None = None
        #: Where the first of several channels that send the same batch leaves the wire form.
        self.shared: SharedEncoding | None = None

    def recycle(self) -> None:
        segments, self.segments = self.segments, 0
        if segments:
            self.pool.recycle(segments)

    def charge(self, segments: int) -> None:
        """It turned out to be larger than was thought."""
        self.segments += segments
        self.pool.reserve(segments)

    def split(self, rows: int, segment_size_bytes: int) -> tuple[BufferedBatch, BufferedBatch]:
        """The first `rows` and the rest, which take this one's place in the pool."""
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
    """The batches among items of a queue, as they are now."""
    return [freeze(item.batch, item.encoded) for item in items if isinstance(item, BufferedBatch)]


def recycle_all(items: list[BufferedBatch]) -> None:
    """Recycle many, with one call per run of the same pool."""
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
    """The consumer's end."""

    @property
    def is_remote(self) -> bool:
        """Whether batches leave the process, so that rows are better pickled by the producer's task."""
        ...

    def notify_data_available(self) -> None:
        """Something was appended. Thread: the producer's task thread; must not block."""
        ...

    def notify_failed(self, cause: Exception) -> None:
        """The partition was released before its consumer had everything. Thread: any."""
        ...

    def notify_barrier(self, barrier: CheckpointBarrier) -> None:
        """An ordinary barrier was appended. Thread: the producer's task thread."""
        ...

    def notify_priority(self, marker: PriorityMarker) -> None:
        """Deliver this barrier first; its marker is in the queue. Called before this view is attached, or by the
        producer's task thread."""
        ...

    def overtake(self, marker: PriorityMarker, *, append: bool) -> list[InFlightBatch] | None:
        """Deliver this barrier first.

        Args:
            append: put the marker at the end of the queue; else it takes the place of the ordinary barrier of its
                checkpoint.

        Returns:
            What the barrier overtakes; None where the ordinary barrier has left. Empty where the consumer captures it
            itself. Thread: the producer's task thread.
        """
        ...


class Subpartition(Protocol):
    """What one consumer reads of a partition. Thread: any, one at a time; `release` any."""

    @property
    def parent(self) -> ResultPartition: ...

    @property
    def queue(self) -> deque[Any]:
        """What barriers may overtake; not to be taken from."""
        ...

    @property
    def backlog_segments(self) -> int:
        """Segments that wait here: what the consumer is told, so that it can grant credit."""
        ...

    @property
    def has_data(self) -> bool:
        """Whether it should be polled."""
        ...

    def attach(self, view: SubpartitionView) -> bool:
        """Make `view` the consumer. False where there is or was one, or the partition was released."""
        ...

    def poll(self) -> BufferedBatch | PriorityMarker | Element | None: ...

    def unpoll(self, item: BufferedBatch) -> None:
        """Put a batch that was polled, or the rest of it, back in front."""
        ...

    def release(self) -> None:
        """The consumer has gone or has everything. Idempotent. Thread: any."""
        ...


class PipelinedSubpartition:
    """Thread: `add` on the producer's task thread, `poll` on the one that drives the attached view."""

    def __init__(self, parent: ResultPartition, index: int) -> None:
        self.parent = parent
        self.index = index
        self.queue: deque[BufferedBatch | PriorityMarker | Element] = deque()
        self._view: SubpartitionView | None = None
        #: Guards the attaching of a consumer against a priority barrier; not taken for anything else.
        self._view_lock = threading.Lock()
        #: Priority barriers for the consumer that has not come yet.
        self._waiting_priority: list[PriorityMarker] = []
        self._released = False
        #: Whether a consumer in another process is attached.
        self.is_remote = False
        self._added_segments = 0
        self._removed_segments = 0

    @property
    def backlog_segments(self) -> int:
        """Segments that wait here: what the consumer is told, so that it can grant credit."""
        return self._added_segments - self._removed_segments

    @property
    def has_data(self) -> bool:
        return bool(self.queue)

    @property
    def is_released(self) -> bool:
        return self._released

    @property
    def has_view(self) -> bool:
        """Whether a consumer is attached, or was."""
        return self._view is not None

    def add(self, item: BufferedBatch | Element) -> None:
        """Append; dropped where the consumer has gone (its failure is on its way to the JobMaster)."""
        if isinstance(item, BufferedBatch):
            self._added_segments += item.segments
        self.queue.append(item)
        view = self._view
        if self._released:
            self._discard()
        elif view is not None:
            view.notify_data_available()

    def add_barrier(self, barrier: CheckpointBarrier) -> None:
        """Append it behind everything."""
        self.add(barrier)
        view = self._view
        if view is not None:
            view.notify_barrier(barrier)

    def add_priority(self, barrier: CheckpointBarrier) -> list[InFlightBatch]:
        """Have the barrier overtake everything queued; what the producer has to persist of that.

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
        """Have the ordinary barrier of that checkpoint, if it is still queued, overtake what is in front of it.

        Returns: as `SubpartitionView.overtake`. Thread: the producer's task thread.
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
        """Put the rest of a batch that was polled, and sent in part, back in front."""
        self._removed_segments -= item.segments
        self.queue.appendleft(item)
        if self._released:
            self._discard()

    def attach(self, view: SubpartitionView) -> bool:
        """Make `view` the consumer. False where there is or was one: a pipelined subpartition is consumed once."""
        with self._view_lock:
            if self._view is not None or self._released:
                return False
            for marker in self._waiting_priority:
                view.notify_priority(marker)
            self._waiting_priority.clear()
            self.is_remote = view.is_remote
            self._view = view  # last: nothing is sent before those
        if self.queue:
            view.notify_data_available()
        return True

    def release(self) -> None:
        """The consumer has gone or has everything. Idempotent. Thread: any."""
        if self._released:
            return
        self._released = True
        self._discard()
        self.parent.on_subpartition_consumed(self.index)

    def fail(self, cause: Exception) -> None:
        """Drop what is queued and tell the consumer. Thread: any."""
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
