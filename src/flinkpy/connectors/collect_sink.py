"""CollectSink: brings the records of a stream back to the program that submitted the job (`execute_and_collect`).

A result that nobody reads holds the job up: a writer has at most `MAX_UNACKED_BYTES` on the way, and the coordinator
holds nothing but what writers have on the way.

There are no checkpoints yet, so a restarted sink emits its result from the beginning. What the client had not read of
it is dropped; where it had read some already, the result cannot be continued without giving records twice, and the
client gets an error that says so.

Source: org.apache.flink.streaming.api.operators.collect.{CollectSinkFunction, CollectSinkOperatorCoordinator}. Differs:
results go through operator events instead of a socket of the sink's own, and any parallelism is possible.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import InternalError
from flinkpy.connector_api.sink import SinkBase, SinkWriter, WriterContext
from flinkpy.connectors.collect_payload import encode_payload
from flinkpy.connectors.collect_protocol import CollectAck, CollectBatch, CollectCancel, CollectEnd

if TYPE_CHECKING:
    from flinkpy.connector_api.coordinator import CoordinatorContext
    from flinkpy.connectors.collect_coordinator import CollectCoordinator
    from flinkpy.records.batch import Batch

#: A writer with this much unread is not writable. Large enough to cover the round trip to a client that reads at speed.
MAX_UNACKED_BYTES = 4 << 20
#: ... or with this many batches, however small: each is an RPC of its own.
MAX_UNACKED_BATCHES = 1_024
#: A larger batch is sent in halves: well below the message limit of the RPC layer.
MAX_PAYLOAD_BYTES = 1 << 20


class CollectSink(SinkBase):
    """Give it a job; read the result with `CollectIterator` through requests to this operator's coordinator."""

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return CollectWriter(context)

    @property
    def coordinator_provider(self) -> CollectCoordinatorProvider:
        return CollectCoordinatorProvider()


@dataclass(frozen=True)
class CollectCoordinatorProvider:
    def create(self, context: CoordinatorContext) -> CollectCoordinator:
        from flinkpy.connectors.collect_coordinator import CollectCoordinator

        return CollectCoordinator(context)


class CollectWriter(SinkWriter):
    """Thread: task thread."""

    def __init__(self, context: WriterContext) -> None:
        self._context = context
        self._next_sequence = 0
        #: Sizes of the batches that the client does not hold yet, the oldest first.
        self._unacked_bytes: deque[int] = deque()
        self._total_unacked_bytes = 0
        self._is_released = False
        self._is_cancelled = False

    def write(self, batch: Batch) -> None:
        if self._is_cancelled or not batch.num_rows:
            return
        payload = encode_payload(batch, self._context.input_type)
        if len(payload) > MAX_PAYLOAD_BYTES and batch.num_rows > 1:
            half = batch.num_rows // 2
            self.write(batch.slice(0, half))
            self.write(batch.slice(half, batch.num_rows - half))
            return
        self._context.send_event_to_coordinator(CollectBatch(self._next_sequence, payload))
        self._next_sequence += 1
        self._unacked_bytes.append(len(payload))
        self._total_unacked_bytes += len(payload)

    def flush(self, end_of_input: bool) -> None:
        if end_of_input and not self._is_cancelled:
            self._context.send_event_to_coordinator(CollectEnd(self._next_sequence))

    def handle_event(self, event: Any) -> None:
        match event:
            case CollectAck(attempt_number, sequence, is_final):
                if attempt_number == self._context.attempt_number:
                    self._on_ack(sequence, is_final)
            case CollectCancel():
                self._is_cancelled = True
                self._unacked_bytes.clear()
                self._total_unacked_bytes = 0
            case _:
                raise InternalError(f"the collect sink got an unknown event: {event!r}")
        self._context.notify_writable()

    def _on_ack(self, sequence: int, is_final: bool) -> None:
        first_unacked = self._next_sequence - len(self._unacked_bytes)
        for _ in range(sequence - first_unacked):
            self._total_unacked_bytes -= self._unacked_bytes.popleft()
        self._is_released = self._is_released or is_final

    @property
    def is_writable(self) -> bool:
        return (
            self._total_unacked_bytes < MAX_UNACKED_BYTES and len(self._unacked_bytes) < MAX_UNACKED_BATCHES
        ) or self._is_cancelled

    @property
    def has_finished(self) -> bool:
        """True once the client has everything or wants no more."""
        return self._is_released or self._is_cancelled
