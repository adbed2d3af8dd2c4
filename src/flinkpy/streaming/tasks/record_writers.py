"""Creates the record writers of a task, one per result of its vertex."""

from __future__ import annotations

from flinkpy.streaming.io.record_writer_output import RecordWriterOutput
from flinkpy.streaming.tasks.environment import TaskEnvironment

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
