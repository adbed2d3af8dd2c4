"""ResultPartition: the output of one task attempt for one data set, with one subpartition per consumer.

`emit` never blocks. The task checks `is_available` before it processes more input. If it is False, the task suspends
until the availability listener is called. This is how backpressure works.

Source: org.apache.flink.runtime.io.network.partition.{ResultPartition, PipelinedResultPartition}.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from flinkpy.common.errors import ClosedError, PartitionConnectionError
from flinkpy.network.batch_size import batch_bytes
from flinkpy.network.buffer_pool import LocalBufferPool
from flinkpy.network.codec import encode_rows, encode_small_columns
from flinkpy.network.in_flight import InFlightBatch
from flinkpy.network.priority import as_unaligned
from flinkpy.network.subpartition import BufferedBatch, PipelinedSubpartition, SharedEncoding, Subpartition
from flinkpy.records.batch import Batch
from flinkpy.records.elements import CheckpointBarrier, Element, EndOfPartition

#: The overtaken batches that the producer has to persist, as (subpartition, batches in order).
Overtaken = list[tuple[int, list[InFlightBatch]]]

# Columns up to this size are encoded by the producer's task, in one piece. Larger ones are encoded without a copy when
# they are sent.
_SMALL_BYTES = 1 << 17


class ResultPartition:
    """A pipelined partition. Its data is dropped once it has been consumed.

    Thread: the producer's task thread, except where a method says "any".

    Args:
        pool: the memory for queued batches; the partition destroys it.
        owner: the name of the producing task, for messages.
        on_released: called once, on any thread, when all data was consumed or dropped.
    """

    def __init__(
        self,
        partition_id: str,
        num_subpartitions: int,
        pool: LocalBufferPool,
        segment_size_bytes: int,
        *,
        partition_type: str = "PIPELINED_BOUNDED",
        owner: str = "",
        on_released: Callable[[ResultPartition], None] | None = None,
    ) -> None:
        if num_subpartitions < 1:
            raise ValueError(f"partition {partition_id} needs at least one subpartition")
        self.partition_id = partition_id
        self.partition_type = partition_type
        self.owner = owner
        self.num_subpartitions = num_subpartitions
        self.subpartitions = self._make_subpartitions(num_subpartitions)
        self.bytes_out = 0
        self._pool = pool
        self._segment_size_bytes = segment_size_bytes
        self._on_released = on_released
        self._lock = threading.Lock()
        self._open_subpartitions = num_subpartitions
        self._finished = False
        self._released = threading.Event()
        self._failure: Exception | None = None
        #: The last ordinary barrier that was emitted.
        self._last_barrier: CheckpointBarrier | None = None

    def _make_subpartitions(self, count: int) -> list[PipelinedSubpartition]:
        return [PipelinedSubpartition(self, index) for index in range(count)]

    def open_subpartitions(self, first: int, count: int) -> Subpartition | None:
        """Returns the data for a consumer of `count` subpartitions from `first` on; None if they do not exist.

        A pipelined partition offers only single subpartitions. Thread: any.
        """
        return self.subpartitions[first] if count == 1 and 0 <= first < len(self.subpartitions) else None

    @property
    def pool(self) -> LocalBufferPool:
        """The pool that accounts for the memory of queued batches."""
        return self._pool

    @property
    def is_available(self) -> bool:
        """True if the task may produce more records. Thread: any."""
        return self._pool.is_available

    @property
    def is_finished(self) -> bool:
        """True once `finish` was called; consumers may still be reading. Thread: any."""
        return self._finished

    @property
    def is_released(self) -> bool:
        """True once all data was consumed or dropped. Thread: any."""
        return self._released.is_set()

    @property
    def num_queued(self) -> int:
        """The number of batches and elements that wait for consumers. Thread: any."""
        return sum(len(subpartition.queue) for subpartition in self.subpartitions)

    @property
    def queued_bytes(self) -> int:
        """The memory of batches that are queued, or not yet completely sent. Thread: any."""
        return self._pool.used * self._segment_size_bytes

    def wait_released(self, timeout_s: float) -> bool:
        """Waits until all data was consumed or dropped. Returns False on timeout. Thread: any but an I/O thread."""
        return self._released.wait(timeout_s)

    def set_availability_listener(self, listener: Callable[[], None]) -> None:
        """Sets the function that is called, on any thread, each time the partition becomes available again."""
        self._pool.on_available = listener

    def emit(self, subpartition: int, batch: Batch) -> None:
        """Queues a batch for one consumer. A batch larger than the headroom of the pool is queued in slices.

        Raises:
            ClosedError: the partition is finished.
            PartitionConnectionError: the partition was released while its producer was running.
        """
        if self._failure is not None or self._finished:
            self._check_open()
        target = self.subpartitions[subpartition]
        for buffered in self._buffers_of(batch, 1, target.is_remote):
            target.add(buffered)

    def emit_parts(self, parts: Sequence[tuple[int, Batch]], whole: Batch) -> None:
        """Emits the parts of the batch `whole`, given as (subpartition, batch)."""
        for subpartition, part in parts:
            self.emit(subpartition, part)

    def emit_broadcast(self, batch: Batch) -> None:
        """Queues a batch for every consumer. The batch is encoded once."""
        self._check_open()
        fan_out = len(self.subpartitions)
        any_remote = any(target.is_remote for target in self.subpartitions)
        for shared in self._buffers_of(batch, fan_out, any_remote):
            encoding = SharedEncoding()
            for target in self.subpartitions:
                own = BufferedBatch(shared.batch, shared.size_bytes, shared.segments, self._pool)
                own.encoded, own.shared = shared.encoded, encoding
                target.add(own)

    def emit_element(self, element: Element, subpartition: int | None = None) -> None:
        """Queues a control element for one consumer, or for all if `subpartition` is None. Elements use no segments."""
        self._check_open()
        targets = self.subpartitions if subpartition is None else (self.subpartitions[subpartition],)
        if isinstance(element, CheckpointBarrier):
            self._last_barrier = element
            for target in targets:
                target.add_barrier(element)
            return
        for target in targets:
            target.add(element)

    def emit_priority(self, barrier: CheckpointBarrier) -> Overtaken:
        """Sends the barrier to every consumer ahead of the batches that are queued for it.

        Returns:
            The overtaken batches that this task has to persist; they are still delivered, after the barrier. Batches
            for a consumer in this process are not included, because that consumer persists them itself.
        """
        self._check_open()
        barrier = as_unaligned(barrier)
        overtaken = ((target.index, target.add_priority(barrier)) for target in self.subpartitions)
        return [(index, batches) for index, batches in overtaken if batches]

    def convert_to_unaligned(self, checkpoint_id: int) -> Overtaken | None:
        """Moves the ordinary barrier of `checkpoint_id` ahead of the batches that are queued before it.

        Returns: see `emit_priority`; None if no queue contains such a barrier any more.
        """
        barrier = self._last_barrier
        if self._failure is not None or barrier is None or barrier.checkpoint_id != checkpoint_id:
            return None
        barrier = as_unaligned(barrier)
        converted = [(target.index, target.convert_to_unaligned(barrier)) for target in self.subpartitions]
        if all(batches is None for _, batches in converted):
            return None
        return [(index, batches) for index, batches in converted if batches]

    def has_queued_barrier(self, checkpoint_id: int) -> bool:
        """True if the ordinary barrier of `checkpoint_id` is still in some queue."""
        return any(_contains_barrier(target.queue, checkpoint_id) for target in self.subpartitions)

    def finish(self) -> None:
        """Ends the output by sending `EndOfPartition` to every consumer.

        The partition is released when the consumers have read all of it.
        """
        if self._finished:
            return
        self._check_open()
        self._finished = True  # first: a consumer may have read all data before this method returns
        for target in self.subpartitions:
            target.add(EndOfPartition())
        with self._lock:
            if self._open_subpartitions > 0 or self._released.is_set():
                return
            self._released.set()
        self._after_release()

    def release(self, cause: Exception | None = None) -> None:
        """Drops all data. Consumers that have not received all of it fail with `cause`. Idempotent. Thread: any."""
        failure = cause or self._released_error()
        with self._lock:
            if self._released.is_set():
                return
            self._failure = failure
            self._released.set()
        for subpartition in self.subpartitions:
            subpartition.fail(failure)
        self._after_release()

    def _released_error(self) -> Exception:
        return PartitionConnectionError(
            f"partition {self.partition_id} was released by its producer {self.owner}",
            details={"partition_id": self.partition_id},
        )

    def on_subpartition_consumed(self, index: int) -> None:
        """Counts a consumer that is done. The last one releases the finished partition. Thread: any."""
        with self._lock:
            self._open_subpartitions -= 1
            if self._open_subpartitions > 0 or self._released.is_set() or not self._finished:
                return
            self._released.set()
        self._after_release()

    def _after_release(self) -> None:
        self._pool.destroy()
        if self._on_released is not None:
            self._on_released(self)

    def _check_open(self) -> None:
        if self._failure is not None:
            raise PartitionConnectionError(
                f"partition {self.partition_id} was released while its producer was emitting: {self._failure}",
                details={"partition_id": self.partition_id},
            ) from self._failure
        if self._finished:
            raise ClosedError(f"partition {self.partition_id} is finished")

    def _buffers_of(self, batch: Batch, copies: int, is_remote: bool) -> list[BufferedBatch]:
        """Returns the batch as buffers and reserves their segments `copies` times.

        A batch larger than the headroom of the pool is cut into slices. Rows for another process are pickled here. So
        their size is known, and an object that cannot be pickled fails the task that emits it.
        """
        encoded = None
        if isinstance(batch.values, list):
            if is_remote:
                encoded = encode_rows(batch)
                size = encoded.size_bytes
            else:
                size = batch_bytes(batch)
        else:
            size = batch_bytes(batch)
            if is_remote and size <= _SMALL_BYTES:
                encoded = encode_small_columns(batch)
        unit = self._segment_size_bytes
        segments = -(-size // unit) or 1
        rows = batch.num_rows
        limit = self._pool.headroom
        if segments > limit and rows > 1:
            slices = min(rows, -(-segments // limit))
            bounds = [rows * i // slices for i in range(slices + 1)]
            pieces = [batch.slice(start, end - start) for start, end in itertools.pairwise(bounds)]
            return [buffer for piece in pieces for buffer in self._buffers_of(piece, copies, is_remote)]
        self.bytes_out += size * copies
        self._pool.reserve(segments * copies)
        buffered = BufferedBatch(batch, size, segments, self._pool)
        buffered.encoded = encoded
        return [buffered]


def _contains_barrier(queue: deque[Any], checkpoint_id: int) -> bool:
    """True if the ordinary barrier of the checkpoint is in the queue.

    The search starts at the end: only this thread appends there, and items that are removed at the front do not change
    the distance from the end.
    """
    for distance in range(1, len(queue) + 1):
        try:
            item = queue[-distance]
        except IndexError:
            return False
        if isinstance(item, CheckpointBarrier) and item.checkpoint_id == checkpoint_id:
            return True
    return False
