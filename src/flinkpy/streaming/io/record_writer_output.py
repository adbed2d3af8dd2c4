"""RecordWriterOutput: the end of a chain, which writes batches into a result partition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flinkpy._proto import checkpoint_pb2
from flinkpy.records.batch import Batch
from flinkpy.records.elements import CheckpointBarrier, Element, LatencyMarker
from flinkpy.streaming.io.checkpointing.barrier_handler import aligned_timeout_ms, alignment_of, with_alignment

if TYPE_CHECKING:
    from flinkpy.network.record_writer import RecordWriter
    from flinkpy.network.result_partition import ResultPartition
    from flinkpy.streaming.tasks.environment import TaskEnvironment


class RecordWriterOutput:
    """Writes batches into a result partition. Thread: task thread; any thread may read the counters.

    Attributes:
        num_records: the number of records emitted. A record that went to several channels counts once.
    """

    __slots__ = ("_next_marker", "num_batches", "num_records", "partition", "supports_unaligned", "writer")

    def __init__(self, writer: RecordWriter, partition: ResultPartition, *, supports_unaligned: bool = False) -> None:
        self.writer = writer
        self.partition = partition
        #: True if barriers may overtake records on this edge.
        self.supports_unaligned = supports_unaligned
        self.num_records = 0
        self.num_batches = 0
        self._next_marker = -1

    def emit(self, batch: Batch) -> None:
        self.num_records += batch.num_rows
        self.num_batches += 1
        self.writer.emit(batch)

    def emit_element(self, element: Element) -> None:
        if isinstance(element, LatencyMarker):
            # A marker goes to one channel, and the channels take turns. Sent to all, markers would multiply.
            self.writer.flush()
            self._next_marker = (self._next_marker + 1) % self.partition.num_subpartitions
            self.partition.emit_element(element, self._next_marker)
            return
        self.writer.emit_element(element)

    def emit_barrier(self, barrier: CheckpointBarrier) -> list[tuple[int, list[Any]]]:
        """Sends the barrier. Returns (subpartition, overtaken batches); an empty list if the barrier stays in order."""
        self.writer.flush()
        alignment = alignment_of(barrier)
        if self.supports_unaligned:
            if alignment == checkpoint_pb2.UNALIGNED:
                return self.partition.emit_priority(barrier)
        elif alignment == checkpoint_pb2.UNALIGNED:
            barrier = _forced(barrier, 0)
        elif alignment == checkpoint_pb2.ALIGNED and aligned_timeout_ms(barrier) > 0:
            barrier = _forced(barrier, aligned_timeout_ms(barrier))
        self.partition.emit_element(barrier)
        return []

    @property
    def flush_deadline_ns(self) -> int | None:
        """The monotonic time at which to flush the gathered records; None if there are none."""
        deadline_ms = self.writer.next_flush_deadline
        return None if deadline_ms is None else deadline_ms * 1_000_000


def _forced(barrier: CheckpointBarrier, timeout_ms: int) -> CheckpointBarrier:
    """Returns the barrier for an edge where it must stay in order.

    The timeout shows the alignment of the barrier on other edges; 0 means unaligned.
    """
    forced = with_alignment(barrier, checkpoint_pb2.FORCED_ALIGNED)
    forced.options.aligned_timeout_ms = timeout_ms
    return forced


#: Partitionings on which a barrier may overtake records. After a restore, any subtask that receives the overtaken
#: records could also have received them before. Others are excluded: forward and rescale connect fixed subtasks,
#: broadcast copies records, and a custom partitioner knows no key groups.
UNALIGNED_PARTITIONERS = frozenset({"HASH", "REBALANCE", "SHUFFLE", "GLOBAL"})


def create_record_writers(environment: TaskEnvironment) -> list[RecordWriterOutput]:
    """Returns the writers, by position in `vertex.results`."""
    if not environment.result_partitions:
        return []
    from flinkpy.network.record_writer import RecordWriter

    outputs = []
    for data_set, partition in zip(environment.vertex.results, environment.result_partitions, strict=True):
        writer = RecordWriter(
            partition,
            environment.load_pickle(data_set.partitioner_pickle),
            environment.load_pickle(data_set.type_pickle) if data_set.type_pickle else None,
            subtask_index=environment.subtask_index,
            max_parallelism=data_set.consumer_max_parallelism or environment.max_parallelism,
            buffer_timeout_ms=data_set.buffer_timeout_ms,
            clock=environment.clock,
            owner=environment.task_name,
        )
        supports_unaligned = data_set.partitioner_name in UNALIGNED_PARTITIONERS
        outputs.append(RecordWriterOutput(writer, partition, supports_unaligned=supports_unaligned))
    return outputs
