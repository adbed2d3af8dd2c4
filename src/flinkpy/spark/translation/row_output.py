"""The outputs of a pass: make rows of its DataFrame from the batches that the chain emits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from flinkpy.network.batch_size import batch_bytes
from flinkpy.network.partitioner import ForwardPartitioner
from flinkpy.network.record_writer import concat_batches
from flinkpy.records.batch import Batch
from flinkpy.records.elements import Element
from flinkpy.records.lanes import declared_rows, has_columns, has_exact_columns, to_columns
from flinkpy.spark.blocks import encode_block
from flinkpy.spark.stream_frame import Layout, encode_rows
from flinkpy.spark.translation.program import PASS_SCHEMA, PassWriter

#: The rows per channel from which a batch is routed. The cost per batch is then small compared to its records.
_ENOUGH_ROWS = 4096
_ENOUGH_BYTES = 1 << 20
#: The maximum number of records of a block. Its reader holds them in memory.
_MAX_BATCH_ROWS = 65_536
#: Blocks are passed to Spark in groups of about this size.
_GROUP_BYTES = 4 << 20

EmitRows = Callable[[pa.RecordBatch], None]


class BlockRows:
    """Collects rows of PASS_SCHEMA. Thread: the chain's."""

    def __init__(self, producer: int, emit: EmitRows) -> None:
        self._producer = producer
        self._emit = emit
        self._next = 0
        self._rows: list[tuple[int, int, int, bytes]] = []
        self._bytes = 0

    def add(self, output: int, target: int, block: bytes) -> None:
        self._rows.append((output, target, self._next, block))
        self._next += 1
        self._bytes += len(block)
        if self._bytes >= _GROUP_BYTES:
            self.flush()

    def flush(self) -> None:
        rows, self._rows = self._rows, []
        self._bytes = 0
        if not rows:
            return
        outputs, targets, numbers, blocks = zip(*rows)
        arrays = [
            pa.array(outputs, pa.int32()),
            pa.array(targets, pa.int32()),
            pa.array([self._producer] * len(rows), pa.int32()),
            pa.array(numbers, pa.int64()),
            pa.array(blocks, pa.binary()),
        ]
        self._emit(pa.RecordBatch.from_arrays(arrays, schema=PASS_SCHEMA))


class Unlimited:
    """Stands for a result partition that is always available. Back pressure comes from the queue to Spark."""

    is_available = True


class ExchangeOutput:
    """Routes records to subtasks. Stands for a RecordWriterOutput in a chain.

    Small batches are collected until there is enough for every channel, and are then routed together.
    """

    partition = Unlimited

    def __init__(self, writer: PassWriter, rows: BlockRows, subtask_index: int, parallelism: int) -> None:
        self._partitioner = writer.partitioner or ForwardPartitioner()
        self._targets = consumers_of(self._partitioner, subtask_index, parallelism, writer.num_channels)
        self._partitioner.setup(len(self._targets), subtask_index=subtask_index, max_parallelism=writer.max_parallelism)
        self._output = writer.output
        self._rows = rows
        self._type_info = writer.type_info
        self._is_typed = has_columns(writer.type_info)
        self._has_exact_columns = has_exact_columns(writer.type_info)
        self._pending: list[Batch] = []
        self._pending_rows = 0
        self._pending_bytes = 0
        self._enough_rows = min(_MAX_BATCH_ROWS, _ENOUGH_ROWS * len(self._targets))

    def emit(self, batch: Batch) -> None:
        if self._is_typed and not batch.is_columnar:
            if self._has_exact_columns:
                batch = to_columns(batch, self._type_info)
            else:
                batch = batch.with_values(declared_rows(batch.values, self._type_info))
        if self._pending and not can_follow(self._pending[-1], batch):
            self.flush()
        self._pending.append(batch)
        self._pending_rows += batch.num_rows
        self._pending_bytes += batch_bytes(batch)
        if self._pending_rows >= self._enough_rows or self._pending_bytes >= _ENOUGH_BYTES:
            self.flush()

    def emit_element(self, element: Element) -> None:
        return

    def flush(self) -> None:
        pending = self._pending
        if not pending:
            return
        self._pending, self._pending_rows, self._pending_bytes = [], 0, 0
        batch = pending[0] if len(pending) == 1 else concat_batches(pending)
        for start in range(0, batch.num_rows, _MAX_BATCH_ROWS):
            self._route(batch.slice(start, min(_MAX_BATCH_ROWS, batch.num_rows - start)))

    def _route(self, batch: Batch) -> None:
        if self._partitioner.is_broadcast:
            block = encode_block(batch)
            for target in self._targets:
                self._rows.add(self._output, target, block)
            return
        for channel, part in self._partitioner.split(batch, self._type_info):
            self._rows.add(self._output, self._targets[channel], encode_block(part))


class ColumnsOutput:
    """Emits columns for Spark's own operators."""

    partition = Unlimited

    def __init__(self, type_info: Any, emit: EmitRows) -> None:
        self._type_info = type_info
        self._emit = emit
        self.num_records = 0

    def emit(self, batch: Batch) -> None:
        self.num_records += batch.num_rows
        self._emit(encode_rows(batch, self._type_info, Layout.COLUMNS))

    def emit_element(self, element: Element) -> None:
        return

    def flush(self) -> None:
        return


def can_follow(last: Batch, batch: Batch) -> bool:
    """Returns True if the two batches can be concatenated."""
    if (last.timestamps is None) != (batch.timestamps is None) or (last.kinds is None) != (batch.kinds is None):
        return False
    if isinstance(last.values, list) or isinstance(batch.values, list):
        return isinstance(last.values, list) and isinstance(batch.values, list)
    return bool(last.values.schema == batch.values.schema)


def consumers_of(partitioner: Any, producer: int, num_producers: int, num_consumers: int) -> list[int]:
    """Returns the subtask behind each channel of a producer.

    Pointwise channels are those of `jobmaster.executiongraph.edge_manager`. If Spark has more partitions than the
    producer has subtasks, the additional ones are assigned in turn.
    """
    if not partitioner.is_pointwise:
        return list(range(num_consumers))
    if producer >= num_producers:
        return [producer % num_consumers]
    if num_producers >= num_consumers:
        return [((producer + 1) * num_consumers - 1) // num_producers]
    return [one for one in range(num_consumers) if one * num_producers // num_consumers == producer]
