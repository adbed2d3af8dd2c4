"""What a pass puts out: rows of its DataFrame, made from the batches that the chain emits."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from flinkpy.common.clock import Clock
from flinkpy.network.record_writer import RecordWriter
from flinkpy.records.batch import Batch
from flinkpy.records.elements import Element
from flinkpy.spark.blocks import encode_block
from flinkpy.spark.stream_frame import Layout, encode_rows
from flinkpy.spark.translation.program import PASS_SCHEMA, PassWriter

if TYPE_CHECKING:
    from flinkpy.network.result_partition import ResultPartition

#: Blocks are handed to Spark in groups of about this size.
_GROUP_BYTES = 4 << 20

EmitRows = Callable[[pa.RecordBatch], None]


class BlockRows:
    """Rows of PASS_SCHEMA. Thread: the chain's."""

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


class _BlockPartition:
    """The surface of a ResultPartition that a RecordWriter uses. What goes to a channel becomes a block at once."""

    is_available = True
    pool = None
    bytes_out = 0

    def __init__(self, rows: BlockRows, output: int, targets: list[int]) -> None:
        self._rows = rows
        self._output = output
        self._targets = targets
        self.num_subpartitions = len(targets)

    def emit(self, subpartition: int, batch: Batch, type_info: Any = None) -> None:
        self._rows.add(self._output, self._targets[subpartition], encode_block(batch))

    def emit_broadcast(self, batch: Batch) -> None:
        block = encode_block(batch)
        for target in self._targets:
            self._rows.add(self._output, target, block)

    def emit_element(self, element: Element) -> None:
        return


class ExchangeOutput:
    """An output whose records are routed to subtasks. Stands for a RecordWriterOutput in a chain."""

    def __init__(self, writer: PassWriter, rows: BlockRows, subtask_index: int, parallelism: int, clock: Clock) -> None:
        from flinkpy.network.partitioner import ForwardPartitioner

        partitioner = writer.partitioner or ForwardPartitioner()
        targets = consumers_of(partitioner, subtask_index, parallelism, writer.num_channels)
        #: A ResultPartition to the chain and to the record writer.
        self.partition: Any = _BlockPartition(rows, writer.output, targets)
        self.writer = RecordWriter(
            cast("ResultPartition", self.partition),
            partitioner,
            writer.type_info,
            subtask_index=subtask_index,
            max_parallelism=writer.max_parallelism,
            buffer_timeout_ms=-1,
            clock=clock,
        )
        self.num_records = 0

    def emit(self, batch: Batch) -> None:
        self.num_records += batch.num_rows
        self.writer.emit(batch)

    def emit_element(self, element: Element) -> None:
        return

    def flush(self) -> None:
        self.writer.flush()


class ColumnsOutput:
    """An output that Spark's own operators read."""

    partition: Any = _BlockPartition

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


def consumers_of(partitioner: Any, producer: int, num_producers: int, num_consumers: int) -> list[int]:
    """The subtask behind each channel of a producer. See `jobmaster.executiongraph.edge_manager` for POINTWISE; where
    Spark has more partitions than the producer was to have subtasks, those beyond are dealt out in turn.
    """
    if not partitioner.is_pointwise:
        return list(range(num_consumers))
    if producer >= num_producers:
        return [producer % num_consumers]
    if num_producers >= num_consumers:
        return [((producer + 1) * num_consumers - 1) // num_producers]
    return [one for one in range(num_consumers) if one * num_producers // num_consumers == producer]
