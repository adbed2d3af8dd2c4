"""RemoteInputChannel: the consumer's end of subpartitions in another process.

Source: org.apache.flink.runtime.io.network.partition.consumer.RemoteInputChannel.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from flinkpy.common.errors import BrokenError, PartitionAuthenticationError, PartitionConnectionError
from flinkpy.network.credit import CreditManager, Grant
from flinkpy.network.in_flight import InFlightBatch, freeze
from flinkpy.network.input_channel import InputChannel, RequestBackoff
from flinkpy.network.partition_manager import Timers
from flinkpy.network.priority import PriorityMarker
from flinkpy.network.received import receive_batch
from flinkpy.records.batch import Batch
from flinkpy.records.elements import CheckpointBarrier, Element, EndOfPartition

if TYPE_CHECKING:
    from flinkpy.network.input_gate import InputGate


class PartitionRequestClient(Protocol):
    """A connection to a producer's process, as a channel uses it. Thread: any."""

    #: True if that process has to prove that it belongs to this cluster before it may send data.
    verifies_membership: bool

    def send_grant(self, channel_id: int, grant: Grant) -> None: ...

    def send_reclaim(self, channel_id: int, keep: int) -> None: ...

    def close_channel(self, channel_id: int) -> None: ...


#: `connect(channel, subpartition_index, initial)` returns (client, channel id). Raises: PartitionConnectionError.
Connect = Callable[["RemoteInputChannel", int, Grant], tuple[PartitionRequestClient, int]]


#: A batch in its wire form: schema (None for pickled rows), body, bytes of payload, timestamps and kinds, cost. It is a
#: tuple, because one is made for every batch.
_Received = tuple[pa.Schema | None, pa.Buffer, int, int, int, int]


class RemoteInputChannel(InputChannel):
    """Queues received data until the task takes it. The task thread decodes it.

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
        #: The received parts of a record that is larger than the credit window.
        self._fragments: list[Any] = []
        self._fragment_bytes = 0
        #: True if the sender belongs to this cluster. This is known before any data arrives.
        self._is_from_member = False

    @property
    def has_data(self) -> bool:
        return bool(self._queue)

    def request_subpartition(self) -> None:
        initial = self._credits.open_channel(self.index)
        try:
            client, self._channel_id = self._connect(self, self._subpartition_index, initial)
            self._is_from_member = client.verifies_membership
            self._client = client
        except PartitionConnectionError as error:
            self.on_connection_failed(error)
        else:
            self.gate.send_grants(self._credits.resume_channel(self.index))
        if self._is_closed:  # by another thread, which may not have seen this connection
            self._release()

    @property
    def starts_with_batch(self) -> bool:
        try:
            return isinstance(self._queue[0], tuple | Batch)
        except IndexError:
            return False

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
            self.bytes_in += body.size
            self.batches_in += 1
            try:
                return receive_batch(
                    schema,
                    body,
                    payload_bytes,
                    timestamps_bytes,
                    kinds_bytes,
                    is_member=self._is_from_member,
                    may_be_compressed=self.is_blocking,
                )
            except BrokenError as error:
                self.on_connection_failed(error)
                raise PartitionConnectionError(
                    f"partition {self.partition_id} could not be decoded: {error}", details=self._details
                ) from error
        if isinstance(item, EndOfPartition):
            self.is_finished = True
            self._release()
        elif isinstance(item, PriorityMarker):
            return item.take_in_order()
        return item

    def put_back(self, rest: Batch) -> None:
        self._queue.appendleft(rest)

    @property
    def queued_bytes(self) -> int:
        return sum(item[1].size for item in list(self._queue) if isinstance(item, tuple))

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
        self._release()
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
            # Fragments are kept outside the pool, as Flink does for records that span buffers: at most one record per
            # channel.
            grants = grants + self._credits.consumed(self.index, cost)
            cost = 0
            self._add_fragment(body, payload_bytes + timestamps_bytes + kinds_bytes)
            if not is_partial:
                body = pa.py_buffer(b"".join(self._fragments))
                self._fragments = []
                self._fragment_bytes = 0
        if not is_partial:
            if body.size < payload_bytes + timestamps_bytes + kinds_bytes:
                raise BrokenError(f"partition {self.partition_id}: a batch is longer than its frame")
            schema = None if is_pickled else self._schema
            if schema is None and not is_pickled:
                raise BrokenError(f"partition {self.partition_id}: a batch arrived before its schema")
            self._queue.append((schema, body, payload_bytes, timestamps_bytes, kinds_bytes, cost))
            self.gate.on_channel_data(self)
        if grants:
            self.gate.send_grants(grants)

    def _add_fragment(self, body: pa.Buffer, declared_bytes: int) -> None:
        """Adds a part of a large record.

        All parts together must not be longer than declared, because no credit bounds them.
        """
        self._fragment_bytes += body.size
        if self._fragment_bytes > declared_bytes + 2 * 8:  # each part is padded
            raise BrokenError(
                f"partition {self.partition_id}: a record of {declared_bytes} bytes has {self._fragment_bytes} bytes"
            )
        self._fragments.append(body)

    def has_credit(self, cost: int) -> bool:
        """True if the producer may send a buffer of this cost. Thread: I/O."""
        return self._credits.has_credit(self.index, cost)

    def on_element(self, element: Element) -> None:
        self._queue.append(element)
        self.gate.on_channel_data(self)
        if isinstance(element, CheckpointBarrier):
            self.gate.on_barrier_queued(self, element)

    def on_priority(self, barrier: Any) -> None:
        """Queues a barrier that overtakes the batches which were received and not taken."""
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
        error_class: type[PartitionConnectionError] = PartitionConnectionError
        if isinstance(error, PartitionAuthenticationError):
            error_class = PartitionAuthenticationError
        self._fail(error_class(f"channel to partition {self.partition_id} broke: {error}", details=self._details))

    def _release(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close_channel(self._channel_id)
        self.gate.send_grants(self._credits.close_channel(self.index))
