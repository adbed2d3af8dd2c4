"""CollectSink: returns the records of a stream to the program that submitted the job (`execute_and_collect`).

An unread result blocks the job: a writer has at most `MAX_UNACKED_BYTES` in flight, and the coordinator holds
only what writers have in flight.

With exactly-once checkpoints the client returns the records of completed checkpoints, and a restart is not visible. A
checkpoint contains the batches that the client had not fetched, and the number with which a restored writer continues.
The client drops fetched batches with higher numbers. Without checkpoints, records are returned immediately, and the
client raises an error if the job restarts after some were returned.

Source: org.apache.flink.streaming.api.operators.collect.{CollectSinkFunction, CollectSinkOperatorCoordinator}. Differs:
results travel as operator events instead of through a socket of the sink, and any parallelism is possible.
"""

from __future__ import annotations

import secrets
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import InternalError, UserError
from flinkpy.connector_api.sink import SinkBase, SinkWriter, StatefulSinkWriter, WriterContext
from flinkpy.connectors.collect_protocol import (
    CollectAck,
    CollectBatch,
    CollectCancel,
    CollectConfirmed,
    CollectEnd,
    CollectStart,
    Guarantee,
    encode_payload,
    is_complete,
    split_payload,
)

if TYPE_CHECKING:
    from flinkpy.connector_api.coordinator import CoordinatorContext
    from flinkpy.connectors.collect_coordinator import CollectCoordinator
    from flinkpy.records.batch import Batch

#: A writer with this much unread is not writable. It covers the round trip to a client that reads at full speed.
MAX_UNACKED_BYTES = 4 << 20
#: A writer with this many unread batches is not writable. Each batch is an RPC.
MAX_UNACKED_BATCHES = 1_024
#: A larger batch is sent in halves, and a larger record in parts: well below the message limit of the RPC layer.
MAX_PAYLOAD_BYTES = 1 << 20
_MAX_RECORD_KEY = "collect-sink.batch-size.max"
#: The default for the largest record, which a JobMaster of the default size can hold in addition to its work.
DEFAULT_MAX_RECORD_BYTES = 256 << 20


class CollectSink(SinkBase):
    """Sends records to the client, which reads them with a CollectIterator from this operator's coordinator.

    Args:
        max_record_bytes: the size of the largest record. A larger one fails the job, because JobMaster and client hold
            each record as a whole.
    """

    def __init__(self, max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES) -> None:
        self._max_record_bytes = max_record_bytes

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return CollectWriter(context, max_record_bytes=self._max_record_bytes)

    def restore_writer(self, context: WriterContext, states: list[Any]) -> SinkWriter:
        return CollectWriter(context, states, max_record_bytes=self._max_record_bytes)

    @property
    def coordinator_provider(self) -> CollectCoordinatorProvider:
        return CollectCoordinatorProvider()


@dataclass(frozen=True)
class CollectCoordinatorProvider:
    """Creates the coordinator in the JobMaster."""

    def create(self, context: CoordinatorContext) -> CollectCoordinator:
        from flinkpy.connectors.collect_coordinator import CollectCoordinator

        return CollectCoordinator(context)


@dataclass(frozen=True, slots=True)
class CollectWriterState:
    """The state of one writer in a checkpoint.

    `unacked` has the batches before `next_sequence` that the client had not confirmed.
    """

    job_id: str
    subtask_index: int
    next_sequence: int
    unacked: tuple[bytes, ...]


class CollectWriter(StatefulSinkWriter):
    """Sends the records of one subtask to the coordinator. Thread: task thread."""

    def __init__(
        self,
        context: WriterContext,
        states: list[CollectWriterState] | None = None,
        *,
        max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
    ) -> None:
        self._context = context
        self._max_record_bytes = max_record_bytes
        self._next_sequence = 0
        #: Batches that the client has not confirmed, oldest first.
        self._unacked: deque[bytes] = deque()
        self._total_unacked_bytes = 0
        #: (checkpoint, number of the first batch after it) for checkpoints that are not complete.
        self._snapshots: deque[tuple[int, int]] = deque()
        self._is_released = False
        self._is_cancelled = False
        self._restore(states or [])

    def _restore(self, states: list[CollectWriterState]) -> None:
        context = self._context
        guarantee = Guarantee.NONE
        if context.is_checkpointing_enabled:
            guarantee = Guarantee.EXACTLY_ONCE if context.is_exactly_once else Guarantee.AT_LEAST_ONCE
        match states:
            case [state] if state.job_id == context.job_id and state.subtask_index == context.subtask_index:
                next_sequence = state.next_sequence
            case _:
                # The state is from another job or subtask, whose client is a different one. Numbers start at 0 again,
                # with the batches that its client did not get.
                next_sequence = sum(len(state.unacked) for state in states)
        payloads = [payload for state in states for payload in state.unacked]
        first = self._next_sequence = next_sequence - len(payloads)
        start = CollectStart(secrets.token_hex(8), first, next_sequence, guarantee)
        context.send_event_to_coordinator(start)
        for payload in payloads:
            self._send(payload)

    def write(self, batch: Batch) -> None:
        if self._is_cancelled or not batch.num_rows:
            return
        payload = encode_payload(batch, self._context.input_type)
        if len(payload) > MAX_PAYLOAD_BYTES and batch.num_rows > 1:
            half = batch.num_rows // 2
            self.write(batch.slice(0, half))
            self.write(batch.slice(half, batch.num_rows - half))
            return
        if len(payload) > self._max_record_bytes:
            raise UserError(
                f"a record of the collected stream has {len(payload)} bytes when it is sent, but {_MAX_RECORD_KEY} "
                f"allows only {self._max_record_bytes}: collect smaller records, write to files, or raise the option",
                details={"option": _MAX_RECORD_KEY, "size_bytes": str(len(payload))},
            )
        for part in split_payload(payload, MAX_PAYLOAD_BYTES):
            self._send(part)

    def _send(self, payload: bytes) -> None:
        self._context.send_event_to_coordinator(CollectBatch(self._next_sequence, payload))
        self._next_sequence += 1
        self._unacked.append(payload)
        self._total_unacked_bytes += len(payload)

    def flush(self, end_of_input: bool) -> None:
        if end_of_input and not self._is_cancelled:
            self._context.send_event_to_coordinator(CollectEnd(self._next_sequence))
            if not self._context.waits_for_final_checkpoint:
                self._context.send_event_to_coordinator(CollectConfirmed(self._next_sequence))

    def suspend(self) -> None:
        """Ends the result, because its job has been stopped. The client gets all records up to the savepoint."""
        if not self._is_cancelled:
            self._context.send_event_to_coordinator(CollectEnd(self._next_sequence, is_suspended=True))

    def snapshot_state(self, checkpoint_id: int) -> list[CollectWriterState]:
        context = self._context
        self._snapshots.append((checkpoint_id, self._next_sequence))
        return [CollectWriterState(context.job_id, context.subtask_index, self._next_sequence, tuple(self._unacked))]

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        confirmed = -1
        while self._snapshots and self._snapshots[0][0] <= checkpoint_id:
            _, confirmed = self._snapshots.popleft()
        if confirmed >= 0 and not self._is_cancelled:
            self._context.send_event_to_coordinator(CollectConfirmed(confirmed))

    def handle_event(self, event: Any) -> None:
        match event:
            case CollectAck(attempt_number, sequence, is_final):
                if attempt_number == self._context.attempt_number:
                    self._on_ack(sequence, is_final)
            case CollectCancel():
                self._is_cancelled = True
                self._unacked.clear()
                self._total_unacked_bytes = 0
            case _:
                raise InternalError(f"the collect sink received an unknown event: {event!r}")
        self._context.notify_writable()

    def _on_ack(self, sequence: int, is_final: bool) -> None:
        first_unacked = self._next_sequence - len(self._unacked)
        acked = sequence - first_unacked
        # All parts of a payload are kept until the client has all of them: a restored writer begins with the first.
        while acked > 0 and not is_complete(self._unacked[acked - 1]):
            acked -= 1
        for _ in range(acked):
            self._total_unacked_bytes -= len(self._unacked.popleft())
        self._is_released = self._is_released or is_final

    @property
    def is_writable(self) -> bool:
        return (
            self._total_unacked_bytes < MAX_UNACKED_BYTES and len(self._unacked) < MAX_UNACKED_BATCHES
        ) or self._is_cancelled

    @property
    def has_finished(self) -> bool:
        """True once the client has all batches or needs no more."""
        return self._is_released or self._is_cancelled
