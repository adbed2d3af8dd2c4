"""Input channels: the consumer's end of subpartitions. This module has the base class and the local channel.

Source: org.apache.flink.runtime.io.network.partition.consumer.{InputChannel, LocalInputChannel}.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import (
    PartitionConnectionError,
    PartitionCorruptedError,
    PartitionNotFoundError,
)
from flinkpy.network.in_flight import InFlightBatch, freeze
from flinkpy.network.partition_manager import PartitionRequest, ResultPartitionManager, TimerHandle, Timers
from flinkpy.network.priority import (
    PriorityMarker,
    as_unaligned,
    items_before,
    may_overtake,
    position_of,
    position_of_barrier,
)
from flinkpy.network.subpartition import BufferedBatch, Subpartition
from flinkpy.records.batch import Batch
from flinkpy.records.elements import CheckpointBarrier, Element, EndOfPartition

if TYPE_CHECKING:
    from flinkpy.network.input_gate import InputGate
    from flinkpy.network.result_partition import ResultPartition


class RequestBackoff:
    """The pauses between requests for a partition that its producer does not have yet."""

    def __init__(self, initial_ms: int, maximum_ms: int) -> None:
        first_ms = max(1, initial_ms)
        self._next_ms: int | None = first_ms if first_ms <= maximum_ms else None
        self._maximum_ms = maximum_ms

    def next_pause_ms(self) -> int | None:
        """Returns the next pause, twice the previous one up to the maximum. None after the longest pause."""
        pause = self._next_ms
        if pause is not None:
            self._next_ms = min(2 * pause, self._maximum_ms) if pause < self._maximum_ms else None
        return pause


class InputChannel:
    """Base class of channels. Thread: `take` on the consumer's task thread."""

    def __init__(
        self,
        gate: InputGate,
        index: int,
        partition_id: str,
        backoff: RequestBackoff,
        timers: Timers,
        *,
        num_subpartitions: int = 1,
        is_blocking: bool = False,
    ) -> None:
        self.gate = gate
        #: The number of subpartitions that it reads.
        self.num_subpartitions = num_subpartitions
        #: True if the partition is finished already. If it does not exist now, it never will.
        self.is_blocking = is_blocking
        self.index = index
        self.partition_id = partition_id
        #: True while the channel is in the gate's queue of channels, or must not enter it. Changed by the gate only.
        self.is_queued = False
        #: True while the gate does not read from it, until the gate unblocks its channels.
        self.is_blocked = False
        self.is_finished = False
        #: The newest checkpoint whose barrier this channel has delivered to the task. Set by the gate.
        self.last_barrier_id = -1
        self.bytes_in = 0
        self.batches_in = 0
        self._is_closed = False
        self._backoff = backoff
        self._timers = timers
        self._timer: TimerHandle | None = None

    @property
    def has_data(self) -> bool:
        raise NotImplementedError

    @property
    def is_remote(self) -> bool:
        """True if the producer is in another process."""
        return True

    @property
    def num_queued(self) -> int:
        """The number of batches and elements that wait. Thread: any."""
        return len(self._queued_items())

    @property
    def queued_bytes(self) -> int:
        """The size of the batches that wait. Thread: any."""
        raise NotImplementedError

    def request_subpartition(self) -> None:
        """Requests the data from the producer. Returns immediately."""
        raise NotImplementedError

    @property
    def starts_with_batch(self) -> bool:
        """True if `take` would return a batch; False if that is not known. Thread: task thread."""
        raise NotImplementedError

    def take(self) -> Batch | Element | None:
        raise NotImplementedError

    def put_back(self, rest: Batch) -> None:
        """Puts `rest`, the end of the batch that was taken last, back to the front. Thread: task thread."""
        raise NotImplementedError

    def take_frozen(self) -> tuple[Batch | Element | None, InFlightBatch | None]:
        """Takes an item. For a batch, also returns a copy of its current contents."""
        queue = self._queued_items()
        try:
            head = queue[0]
        except IndexError:
            return None, None  # do not call `take`: an item may have arrived by now
        frozen = self._freeze(head)
        item = self.take()
        return item, frozen if isinstance(item, Batch) else None

    def overtake_queue(self, marker: PriorityMarker) -> list[InFlightBatch] | None:
        """Delivers the barrier of the marker now. Thread: task thread.

        Returns: the overtaken batches that the producer has not captured; None if the task already has the barrier.
        """
        if marker.is_delivered:
            return None
        queue = self._queued_items()
        position = position_of(queue, marker)
        if position is None:
            return None
        queue[position] = marker
        marker.is_delivered = True
        if marker.is_captured:
            return []
        return [frozen for item in items_before(queue, position) if (frozen := self._freeze(item)) is not None]

    def queued_barrier(self, checkpoint_id: int) -> PriorityMarker | None:
        """Replaces the ordinary barrier of that checkpoint by a marker and returns the marker. Thread: task thread.

        Returns None if the barrier is not queued or has to keep its place.
        """
        queue = self._queued_items()
        position = position_of_barrier(queue, checkpoint_id)
        if position is None:
            return None
        try:
            barrier = queue[position]
            if not may_overtake(barrier):
                return None
            marker = PriorityMarker(as_unaligned(barrier))
            queue[position] = marker
        except IndexError:  # closed meanwhile
            return None
        return marker

    def _queued_items(self) -> deque[Any]:
        """Returns the queue that `take` reads."""
        raise NotImplementedError

    def _freeze(self, item: Any) -> InFlightBatch | None:
        """Returns None if the item is not a batch."""
        raise NotImplementedError

    def close(self) -> None:
        """Releases the subpartition. Idempotent. Thread: any."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()

    def on_partition_not_found(self) -> None:
        """Requests the partition again after a pause, or fails. Thread: I/O."""
        if self._is_closed:
            return
        if self.is_blocking:
            self._fail(
                PartitionNotFoundError(
                    f"partition {self.partition_id} does not exist at its producer any more",
                    details=self._details,
                )
            )
            return
        pause = self._backoff.next_pause_ms()
        if pause is None:
            self.gate.on_channel_failure(
                PartitionNotFoundError(
                    f"partition {self.partition_id} did not appear at its producer within the time allowed",
                    details=self._details,
                )
            )
        else:
            self._timer = self._timers(pause, self._request_again)

    def on_already_consumed(self) -> None:
        self._fail(
            PartitionNotFoundError(
                f"the requested subpartition of {self.partition_id} has already been consumed",
                details=self._details,
            )
        )

    def on_producer_failed(self, reason: str) -> None:
        self._fail(
            PartitionConnectionError(
                f"the producer of partition {self.partition_id} is gone: {reason}",
                details=self._details,
            )
        )

    def on_partition_corrupted(self, message: str) -> None:
        self._fail(PartitionCorruptedError(message, details=self._details))

    @property
    def _details(self) -> dict[str, str]:
        return {"partition_id": self.partition_id, "result_partition_id": self.partition_id}

    def _fail(self, error: Exception) -> None:
        if not (self._is_closed or self.is_finished):
            self.gate.on_channel_failure(error)

    def _request_again(self) -> None:
        if not self._is_closed:
            self.request_subpartition()


class LocalInputChannel(InputChannel):
    """Takes batches by reference from a subpartition in this process. The producer's pool bounds their number."""

    def __init__(
        self,
        gate: InputGate,
        index: int,
        partition_id: str,
        backoff: RequestBackoff,
        timers: Timers,
        *,
        subpartition_index: int,
        manager: ResultPartitionManager,
        request_timeout_ms: int,
        num_subpartitions: int = 1,
        is_blocking: bool = False,
    ) -> None:
        super().__init__(
            gate, index, partition_id, backoff, timers, num_subpartitions=num_subpartitions, is_blocking=is_blocking
        )
        self._subpartition_index = subpartition_index
        self._manager = manager
        self._request_timeout_ms = request_timeout_ms
        self._request: PartitionRequest | None = None
        self._subpartition: Subpartition | None = None

    @property
    def is_remote(self) -> bool:
        return False

    @property
    def has_data(self) -> bool:
        subpartition = self._subpartition
        return subpartition is not None and subpartition.has_data

    def request_subpartition(self) -> None:
        """Attaches as soon as the producer has registered its partition."""
        self._request = self._manager.request(
            self.partition_id,
            self._on_partition,
            self.on_partition_not_found,
            0 if self.is_blocking else self._request_timeout_ms,
        )

    @property
    def starts_with_batch(self) -> bool:
        try:
            return isinstance(self._queued_items()[0], BufferedBatch)
        except IndexError:
            return False

    def take(self) -> Batch | Element | None:
        subpartition = self._subpartition
        item = None if subpartition is None else subpartition.poll()
        if isinstance(item, BufferedBatch):
            self.bytes_in += item.size_bytes
            self.batches_in += 1
            batch = item.batch
            item.recycle()
            return batch
        if isinstance(item, EndOfPartition):
            self.is_finished = True
            assert subpartition is not None
            subpartition.release()
        elif isinstance(item, PriorityMarker):
            return item.take_in_order()
        return item

    def put_back(self, rest: Batch) -> None:
        subpartition = self._subpartition
        if subpartition is not None:
            subpartition.unpoll(BufferedBatch(rest, 0, 0, subpartition.parent.pool))  # uses no segments

    @property
    def queued_bytes(self) -> int:
        """0: the batches are in the queue of the producer, which counts them."""
        return 0

    def _queued_items(self) -> deque[Any]:
        subpartition = self._subpartition
        return deque() if subpartition is None else subpartition.queue

    def _freeze(self, item: Any) -> InFlightBatch | None:
        return freeze(item.batch, item.encoded) if isinstance(item, BufferedBatch) else None

    def notify_data_available(self) -> None:
        self.gate.on_channel_data(self)

    def notify_barrier(self, barrier: CheckpointBarrier) -> None:
        self.gate.on_barrier_queued(self, barrier)

    def notify_priority(self, marker: PriorityMarker) -> None:
        self.gate.on_channel_priority(self, marker)

    def overtake(self, marker: PriorityMarker, *, append: bool) -> list[InFlightBatch] | None:
        """Returns no batches. The gate captures them, because only the task knows which ones it has not taken."""
        subpartition = self._subpartition
        if append and subpartition is not None:
            subpartition.queue.append(marker)
        self.gate.on_channel_priority(self, marker)
        return []

    def notify_failed(self, cause: Exception) -> None:
        if isinstance(cause, PartitionCorruptedError):
            self.on_partition_corrupted(cause.message)
        else:
            self.on_producer_failed(str(cause))

    def close(self) -> None:
        super().close()
        if self._request is not None:
            self._request.cancel()
        if self._subpartition is not None:
            self._subpartition.release()

    def _on_partition(self, partition: ResultPartition) -> None:
        if self._is_closed:
            return
        subpartition = partition.open_subpartitions(self._subpartition_index, self.num_subpartitions)
        if subpartition is None:
            self.on_partition_not_found()
            return
        self._subpartition = subpartition  # before attaching, because data may be announced immediately
        if not subpartition.attach(self):
            self._subpartition = None
            self.on_already_consumed()
        elif self._is_closed:
            subpartition.release()
