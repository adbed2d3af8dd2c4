"""Input channels: the consumer's end of subpartitions; here what they have in common, and that in this process.

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
    """Pauses between requests of a partition that its producer does not have (yet)."""

    def __init__(self, initial_ms: int, maximum_ms: int) -> None:
        self._next_ms = max(1, initial_ms)
        self._maximum_ms = maximum_ms

    def next_pause_ms(self) -> int | None:
        """The next pause, twice the last; None when the largest has been made."""
        pause = self._next_ms
        if pause > self._maximum_ms:
            return None
        self._next_ms = self._maximum_ms if pause < self._maximum_ms < pause * 2 else pause * 2
        return pause


class InputChannel:
    """Common part. Thread: `take` on the consumer's task thread."""

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
        #: How many of the partition's subpartitions it reads.
        self.num_subpartitions = num_subpartitions
        #: Whether the partition has been finished: if it is not there, it will not come.
        self.is_blocking = is_blocking
        self.index = index
        self.partition_id = partition_id
        #: Whether the gate has it in its line of channels with data, or acts as if it had. Set and cleared by the gate
        #: only.
        self.is_queued = False
        #: Whether nothing is to be taken from it until the gate unblocks its channels.
        self.is_blocked = False
        self.is_finished = False
        #: The newest checkpoint whose barrier the task has got from it. Set by the gate.
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

    def request_subpartition(self) -> None:
        """Ask the producer for the data. Returns at once."""
        raise NotImplementedError

    @property
    def starts_with_batch(self) -> bool:
        """Whether `take` would give a batch; False where that cannot be told. Thread: task thread."""
        raise NotImplementedError

    def take(self) -> Batch | Element | None:
        raise NotImplementedError

    def put_back(self, rest: Batch) -> None:
        """Have `rest`, the end of the batch that was taken last, taken next. Thread: task thread."""
        raise NotImplementedError

    def take_frozen(self) -> tuple[Batch | Element | None, InFlightBatch | None]:
        """`take`, and a batch also as it is now."""
        queue = self._queued_items()
        try:
            head = queue[0]
        except IndexError:
            return None, None  # not `take`: it might find something by now
        frozen = self._freeze(head)
        item = self.take()
        return item, frozen if isinstance(item, Batch) else None

    def overtake_queue(self, marker: PriorityMarker) -> list[InFlightBatch] | None:
        """Deliver the marker's barrier now: what it overtakes here, and has not been captured by its producer.

        None where the task has got the barrier before. Thread: task thread.
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
        """A marker in the place of the ordinary barrier of that checkpoint; None where it is not here, or has to stay
        in order. Thread: task thread."""
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
        """The queue that `take` takes from."""
        raise NotImplementedError

    def _freeze(self, item: Any) -> InFlightBatch | None:
        """None for what is not a batch."""
        raise NotImplementedError

    def close(self) -> None:
        """Let go of the subpartition. Idempotent. Thread: any."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()

    def on_partition_not_found(self) -> None:
        """Ask again after a pause, or give up. Thread: I/O."""
        if self._is_closed:
            return
        if self.is_blocking:
            self._fail(
                PartitionNotFoundError(
                    f"partition {self.partition_id} is not at its producer any more",
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
                f"the subpartition of {self.partition_id} that was asked for has already been consumed",
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
    """Takes batches by reference out of a subpartition of this process; the producer's pool bounds it."""

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
        """Attach as soon as the producer has registered its partition."""
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
            subpartition.unpoll(BufferedBatch(rest, 0, 0, subpartition.parent.pool))  # its memory was given back

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
        """Only this consumer can tell what is in front of the barrier when it gets it, so it captures that."""
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
        self._subpartition = subpartition  # before attaching: data may be announced at once
        if not subpartition.attach(self):
            self._subpartition = None
            self.on_already_consumed()
        elif self._is_closed:
            subpartition.release()
