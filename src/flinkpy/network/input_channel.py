"""Input channels: the consumer's end of one subpartition, in this process or in another.

Source: org.apache.flink.runtime.io.network.partition.consumer.{LocalInputChannel, RemoteInputChannel}.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from flinkpy.common.errors import (
    BrokenError,
    PartitionConnectionError,
    PartitionCorruptedError,
    PartitionNotFoundError,
)
from flinkpy.network.codec import decode_batch
from flinkpy.network.credit import CreditManager, Grant
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


class PartitionRequestClient(Protocol):
    """A connection to a producer's process, as a channel sees it. Thread: any."""

    def send_grant(self, channel_id: int, grant: Grant) -> None: ...

    def send_reclaim(self, channel_id: int, keep: int) -> None: ...

    def close_channel(self, channel_id: int) -> None: ...


#: `connect(channel, subpartition_index, initial) -> (client, channel id)`; raises PartitionConnectionError.
Connect = Callable[["RemoteInputChannel", int, Grant], tuple[PartitionRequestClient, int]]


#: A batch in its wire form: schema (None: pickled rows), body, bytes of payload, timestamps and kinds, cost. A tuple,
#: because one is made for every batch.
_Received = tuple[pa.Schema | None, pa.Buffer, int, int, int, int]


class RemoteInputChannel(InputChannel):
    """Holds what another process sent until the task takes it; decoding is the task's work.

    Thread: `on_*` on the I/O thread, `take` on the task thread, `send_*` and `close` on any.
    """

    def __init__(
        self,
        gate: InputGate,
        index: int,
        partition_id: str,
        backoff: RequestBackoff,
        timers: Timers,
        *,
        subpartition_index: int,
        credits: CreditManager,
        connect: Connect,
        num_subpartitions: int = 1,
        is_blocking: bool = False,
    ) -> None:
        super().__init__(
            gate, index, partition_id, backoff, timers, num_subpartitions=num_subpartitions, is_blocking=is_blocking
        )
        self._subpartition_index = subpartition_index
        self._credits = credits
        self._connect = connect
        self._client: PartitionRequestClient | None = None
        self._channel_id = 0
        self._schema: pa.Schema | None = None
        self._queue: deque[_Received | Batch | PriorityMarker | Element] = deque()
        #: The parts so far of a record too large for the credit window.
        self._fragments: list[Any] = []

    @property
    def has_data(self) -> bool:
        return bool(self._queue)

    def request_subpartition(self) -> None:
        initial = self._credits.open_channel(self.index)
        try:
            self._client, self._channel_id = self._connect(self, self._subpartition_index, initial)
        except PartitionConnectionError as error:
            self.on_connection_failed(error)
        else:
            self.gate.send_grants(self._credits.resume_channel(self.index))
        if self._is_closed:  # meanwhile, and `close` may not have seen what was opened here
            self._let_go()

    def take(self) -> Batch | Element | None:
        try:
            item = self._queue.popleft()
        except IndexError:
            return None
        if isinstance(item, tuple):
            schema, body, payload_bytes, timestamps_bytes, kinds_bytes, cost = item
            grants = self._credits.consumed(self.index, cost)
            if grants:
                self.gate.send_grants(grants)
            self.batches_in += 1
            self.bytes_in += body.size
            return decode_batch(schema, body, payload_bytes, timestamps_bytes, kinds_bytes)
        if isinstance(item, EndOfPartition):
            self.is_finished = True
            self._let_go()
        elif isinstance(item, PriorityMarker):
            return item.take_in_order()
        return item

    def put_back(self, rest: Batch) -> None:
        self._queue.appendleft(rest)

    def _queued_items(self) -> deque[Any]:
        return self._queue

    def _freeze(self, item: Any) -> InFlightBatch | None:
        if isinstance(item, tuple):
            return InFlightBatch.of_wire(*item[:5])
        return freeze(item) if isinstance(item, Batch) else None

    def send_grant(self, grant: Grant) -> None:
        client = self._client
        if client is not None:
            client.send_grant(self._channel_id, grant)

    def send_reclaim(self, keep: int) -> None:
        client = self._client
        if client is not None:
            client.send_reclaim(self._channel_id, keep)

    def close(self) -> None:
        super().close()
        self._let_go()
        self._queue.clear()

    def on_data(
        self,
        is_pickled: bool,
        is_partial: bool,
        body: pa.Buffer,
        backlog: int,
        payload_bytes: int,
        timestamps_bytes: int,
        kinds_bytes: int,
        cost: int,
    ) -> None:
        try:
            grants = self._credits.received(self.index, cost, backlog)
        except ValueError as error:
            raise BrokenError(f"partition {self.partition_id}: {error}") from error
        if is_partial or self._fragments:
            # Kept outside the pool, as Flink keeps records that span buffers: one record per channel at most.
            grants = grants + self._credits.consumed(self.index, cost)
            cost = 0
            self._fragments.append(body)
            if not is_partial:
                body = pa.py_buffer(b"".join(self._fragments))
                self._fragments = []
        if not is_partial:
            if body is None or body.size < payload_bytes + timestamps_bytes + kinds_bytes:
                raise BrokenError(f"partition {self.partition_id}: a batch is longer than its frame")
            schema = None if is_pickled else self._schema
            if schema is None and not is_pickled:
                raise BrokenError(f"partition {self.partition_id}: a batch came before its schema")
            self._queue.append((schema, body, payload_bytes, timestamps_bytes, kinds_bytes, cost))
            self.gate.on_channel_data(self)
        if grants:
            self.gate.send_grants(grants)

    def on_element(self, element: Element) -> None:
        self._queue.append(element)
        self.gate.on_channel_data(self)
        if isinstance(element, CheckpointBarrier):
            self.gate.on_barrier_queued(self, element)

    def on_priority(self, barrier: Any) -> None:
        """A barrier that overtakes what has been received and not been taken."""
        marker = PriorityMarker(barrier)
        self._queue.append(marker)
        self.gate.on_channel_priority(self, marker)

    def on_schema(self, schema: pa.Schema) -> None:
        self._schema = schema

    def on_backlog(self, backlog: int, next_cost: int) -> None:
        self.gate.send_grants(self._credits.starving(self.index, backlog, next_cost))

    def on_returned(self, credits: int) -> None:
        self.gate.send_grants(self._credits.returned(self.index, credits))

    def on_partition_not_found(self) -> None:
        self._credits.suspend_channel(self.index)
        self._client = None
        super().on_partition_not_found()

    def on_connection_failed(self, error: Exception) -> None:
        self._fail(
            PartitionConnectionError(
                f"channel to partition {self.partition_id} broke: {error}",
                details=self._details,
            )
        )

    def _let_go(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close_channel(self._channel_id)
        self.gate.send_grants(self._credits.close_channel(self.index))
