"""IntermediateResult: the parallel version of an IntermediateDataSet.

Source: org.apache.flink.runtime.executiongraph.{IntermediateResult,IntermediateResultPartition}.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from flinkpy._proto import job_pb2
from flinkpy.common.ids import IntermediateDataSetID, ResultPartitionID
from flinkpy.common.states import ExecutionState

if TYPE_CHECKING:
    from flinkpy.jobmaster.executiongraph.execution import Execution
    from flinkpy.jobmaster.executiongraph.execution_job_vertex import ExecutionJobVertex
    from flinkpy.jobmaster.executiongraph.execution_vertex import ExecutionVertex


class IntermediateResult:
    """All partitions that one JobVertex produces for one data set.

    A pipelined result has one consumer, whose subtask i reads subpartition i. A blocking result may have several
    consumers. Each consumer reads the whole result, and each of its subtasks reads a range of subpartitions. Each
    partition of a blocking result has as many subpartitions as a consumer may have subtasks. If the distribution is
    POINTWISE, all partitions together have about that many. A partition has one subpartition if each subtask reads the
    whole of it (broadcast), or if only one subtask reads it (forward).

    A *kept* result holds committables: it is blocking, and only committers read it. The JobMaster stores its partitions
    (`kept_results`). When it has all of them, the result is *final*: its committables are the ones that are committed,
    and later attempts of its producers cannot change that.
    """

    def __init__(self, data_set: job_pb2.IntermediateDataSet, result_index: int, producer: ExecutionJobVertex) -> None:
        self.id = IntermediateDataSetID(data_set.id)
        self.result_index = result_index
        self.producer = producer
        self.is_blocking = data_set.type == job_pb2.BLOCKING
        self.is_pointwise = data_set.distribution == job_pb2.POINTWISE
        self.partitioner_name = data_set.partitioner_name
        self.is_broadcast = data_set.partitioner_name == "BROADCAST"
        self.is_forward = data_set.partitioner_name == "FORWARD"
        #: One per subtask of the producer, in order.
        self.partitions: list[IntermediateResultPartition] = []
        #: In topological order. Includes consumers whose parallelism is undecided.
        self.consumers: list[ExecutionJobVertex] = []
        #: The ids of the stored partitions of a final result; None if it is not final.
        self._final_ids: list[ResultPartitionID] | None = None

    @property
    def is_kept(self) -> bool:
        """True if the JobMaster stores the partitions."""
        return self.is_blocking and bool(self.consumers) and all(one.job_vertex.is_committer for one in self.consumers)

    @property
    def is_final(self) -> bool:
        """True if the JobMaster has all partitions of a kept result. It stays true."""
        return self._final_ids is not None

    @property
    def final_ids(self) -> list[ResultPartitionID]:
        """The ids of the stored partitions of a final result, in order."""
        assert self._final_ids is not None, f"result {self.id} is not final"
        return self._final_ids

    def make_final(self, partition_ids: Sequence[ResultPartitionID]) -> None:
        """Makes the result final. The JobMaster must have these partitions, one per subtask of the producer."""
        assert self.is_kept and not self.is_final and len(partition_ids) == len(self.partitions)
        self._final_ids = list(partition_ids)

    @property
    def consumer_bound(self) -> int:
        """The maximum number of subtasks of a consumer."""
        return max((consumer.parallelism_bound for consumer in self.consumers), default=1)


class IntermediateResultPartition:
    """The partition that one ExecutionVertex produces for one data set.

    Attributes:
        consumers: the subtasks that read from the partition, as far as their vertices are initialized. In a pipelined
            partition, `consumers[i]` reads subpartition i.
    """

    __slots__ = ("consumers", "index", "producer", "result")

    def __init__(self, result: IntermediateResult, index: int, producer: ExecutionVertex) -> None:
        self.result = result
        self.index = index
        self.producer = producer
        self.consumers: list[ExecutionVertex] = []

    @property
    def num_subpartitions(self) -> int:
        result = self.result
        if not result.is_blocking:
            return max(1, len(self.consumers))
        if result.is_broadcast or result.is_forward:
            return 1
        if result.is_pointwise:
            return -(-result.consumer_bound // len(result.partitions))
        return result.consumer_bound

    @property
    def current_id(self) -> ResultPartitionID:
        """The id of the partition to read: of the current attempt, or the stored one if the result is final."""
        if self.result.is_final:
            return self.result.final_ids[self.index]
        return self.id_of(self.producer.current)

    def id_of(self, execution: Execution) -> ResultPartitionID:
        """Returns the id of the partition that the given attempt of the producer writes."""
        return ResultPartitionID(self.result.id, self.index, execution.attempt_id)

    @property
    def is_consumable(self) -> bool:
        """True once the producer is scheduled (pipelined partition) or has finished (blocking partition)."""
        state = self.producer.current.state
        if self.result.is_blocking:
            return state is ExecutionState.FINISHED
        return state not in (ExecutionState.CREATED, ExecutionState.CANCELED, ExecutionState.FAILED)
