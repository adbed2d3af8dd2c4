"""RecordWriter: sends the batches at the end of an operator chain to the subpartitions.

Small batches are gathered until there are enough rows for every channel, and then routed in one pass. Gathered rows are
sent when there are enough, when the buffer timeout has passed (the task reads `next_flush_deadline`), when the idle
task flushes, and before any control element.

Source: org.apache.flink.runtime.io.network.api.writer.{RecordWriter, BroadcastRecordWriter}.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from flinkpy.common.clock import Clock, SystemClock
from flinkpy.common.errors import FunctionError, TypeMismatchError
from flinkpy.network.batch_size import batch_bytes
from flinkpy.network.partitioner import Partitioner
from flinkpy.network.result_partition import Overtaken, ResultPartition
from flinkpy.records.batch import Batch
from flinkpy.records.elements import CheckpointBarrier, Element

# Batches of this size are not gathered: beyond some thousand rows the cost per batch is negligible compared to the cost
# per row.
_ENOUGH_ROWS_PER_CHANNEL = 4096
# The maximum number of rows to gather or send at once, so that a consumer handles control elements between batches.
MAX_BATCH_ROWS = 65_536
# The number of gathered bytes at which they are flushed: a batch of this size costs 32 segments of the default size.
_ENOUGH_BYTES = 1 << 20


class RecordWriter:
    """Gathers, routes and emits the output of an operator chain.

    Thread: the producer's task thread.

    Args:
        type_info: TypeInformation of the records. Rows are checked against it and sent as columns. If None, rows are
            sent as they are: by reference within a process, pickled between processes.
        subtask_index: the index of the producer.
        max_parallelism: of the consumers of the data set.
        buffer_timeout_ms: 0: flush after every `emit`; -1: flush only when there are enough rows; see
            execution.buffer-timeout.
        owner: the name of the task, for messages.
    """

    def __init__(
        self,
        partition: ResultPartition,
        partitioner: Partitioner,
        type_info: Any = None,
        *,
        subtask_index: int = 0,
        max_parallelism: int = 128,
        buffer_timeout_ms: int = 100,
        clock: Clock | None = None,
        owner: str = "",
    ) -> None:
        self._owner = owner
        self.partition = partition
        self.partitioner = partitioner
        self.type_info = type_info
        # A blocking result is not read before its end, so it needs no timeout.
        self.buffer_timeout_ms = -1 if partition.partition_type == "BLOCKING" else buffer_timeout_ms
        partitioner.setup(partition.num_subpartitions, subtask_index=subtask_index, max_parallelism=max_parallelism)
        self._clock = clock or SystemClock()
        fan_out = 1 if partitioner.is_broadcast else partition.num_subpartitions
        self._enough_rows = min(MAX_BATCH_ROWS, _ENOUGH_ROWS_PER_CHANNEL * fan_out)
        self._is_typed = _has_arrow_form(type_info)
        self._has_exact_columns = self._is_typed and _has_exact_columns(type_info)
        self._pending: list[Batch] = []
        self._pending_rows = 0
        self._pending_bytes = 0
        self._deadline_ms: int | None = None

    @property
    def is_available(self) -> bool:
        """True if the task may produce more records."""
        return self.partition.is_available

    @property
    def next_flush_deadline(self) -> int | None:
        """The time of the next `flush` in ms of the monotonic clock.

        None if nothing is gathered or there is no timeout.
        """
        return self._deadline_ms

    def emit(self, batch: Batch) -> None:
        """Sends the records, now or together with later ones.

        Raises:
            TypeMismatchError: a row does not match the declared type.
            FunctionError: the key selector or custom partitioner raised.
        """
        rows = batch.num_rows
        if not rows:
            return
        if self._pending and not can_follow(self._pending[-1], batch):
            self.flush()
        if not self._pending and (rows >= self._enough_rows or self.buffer_timeout_ms == 0):
            self._send(batch)
            return
        self._pending.append(batch)
        self._pending_rows += rows
        self._pending_bytes += batch_bytes(batch)
        if self._pending_rows >= self._enough_rows or self._pending_bytes >= _ENOUGH_BYTES:
            self.flush()
        elif self._deadline_ms is None and self.buffer_timeout_ms > 0:
            self._deadline_ms = self._clock.monotonic_ms() + self.buffer_timeout_ms

    def emit_element(self, element: Element) -> None:
        """Sends a control element to every channel, after all records emitted so far."""
        self.flush()
        self.partition.emit_element(element)

    def emit_priority(self, barrier: CheckpointBarrier) -> Overtaken:
        """Sends the barrier ahead of queued batches. Gathered rows count as queued. See `ResultPartition`."""
        self.flush()
        return self.partition.emit_priority(barrier)

    def convert_to_unaligned(self, checkpoint_id: int) -> Overtaken | None:
        """Lets the ordinary barrier of that checkpoint overtake queued batches. See `ResultPartition`."""
        return self.partition.convert_to_unaligned(checkpoint_id)

    def flush(self) -> None:
        """Sends the gathered rows."""
        pending = self._pending
        if not pending:
            return
        self._pending = []
        self._pending_rows = self._pending_bytes = 0
        self._deadline_ms = None
        self._send(pending[0] if len(pending) == 1 else concat_batches(pending))

    def finish(self) -> None:
        """Sends the gathered rows and ends the partition."""
        self.flush()
        self.partition.finish()

    def _send(self, batch: Batch) -> None:
        rows = batch.num_rows
        if rows <= MAX_BATCH_ROWS:
            self._route(batch)
            return
        for start in range(0, rows, MAX_BATCH_ROWS):
            self._route(batch.slice(start, min(MAX_BATCH_ROWS, rows - start)))

    def _route(self, batch: Batch) -> None:
        try:
            self._route_rows(batch)
        except (TypeMismatchError, FunctionError) as error:
            if self._owner and "task" not in error.details:
                error.message = f"{self._owner}: {error.message}"
                error.details["task"] = self._owner
            raise

    def _route_rows(self, batch: Batch) -> None:
        partitioner, partition = self.partitioner, self.partition
        if partitioner.is_broadcast:
            partition.emit_broadcast(self._converted(batch))
            return
        if partitioner.prefers_columns or (partitioner.reads_state_keys and self._changes(batch)):
            batch = self._converted(batch)
            routing = partitioner.route(batch, self.type_info)
        else:
            routing = partitioner.route(batch, self.type_info)
            batch = self._converted(batch)
        partition.emit_parts(routing.apply(batch), batch)

    def _changes(self, batch: Batch) -> bool:
        """True if a conversion to columns may change a record: an int in a DOUBLE field, for instance."""
        if not self._is_typed or batch.is_columnar:
            return False
        from flinkpy.records.declared_keys import are_declared

        return not are_declared(batch.values, self.type_info)

    def _converted(self, batch: Batch) -> Batch:
        """Returns columns if the stream is typed and columns keep its values.

        Otherwise returns rows of the declared type, or the batch unchanged if the stream is untyped.
        """
        if not self._is_typed or batch.is_columnar:
            return batch
        from flinkpy.records.lanes import declared_rows, to_columns

        if not self._has_exact_columns:
            return batch.with_values(declared_rows(batch.values, self.type_info))
        return to_columns(batch, self.type_info)


def concat_batches(batches: list[Batch]) -> Batch:
    """Joins consecutive batches of the same form and schema."""
    first = batches[0]
    values: Any
    if first.is_columnar:
        values = pa.concat_batches([batch.values for batch in batches])
    else:
        values = [row for batch in batches for row in batch.values]
    timestamps = None
    if first.timestamps is not None:
        timestamps = np.concatenate([batch.timestamps for batch in batches])
    kinds = None if first.kinds is None else np.concatenate([batch.kinds for batch in batches])
    return Batch(values, timestamps, kinds)


def can_follow(last: Batch, batch: Batch) -> bool:
    """True if `concat_batches` can join the two batches."""
    if (last.timestamps is None) != (batch.timestamps is None) or (last.kinds is None) != (batch.kinds is None):
        return False
    if isinstance(last.values, list) or isinstance(batch.values, list):
        return isinstance(last.values, list) and isinstance(batch.values, list)
    return last.values.schema == batch.values.schema


def _has_exact_columns(type_info: Any) -> bool:
    from flinkpy.records.lanes import has_exact_columns

    return has_exact_columns(type_info)


def _has_arrow_form(type_info: Any) -> bool:
    if type_info is None:
        return False
    from flinkpy.records.lanes import arrow_schema

    return arrow_schema(type_info) is not None
