"""IntermediateResult: the parallel version of an IntermediateDataSet.

Source: org.apache.flink.runtime.executiongraph.{IntermediateResult,IntermediateResultPartition}.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flinkpy._proto import job_pb2
from flinkpy.common.ids import IntermediateDataSetID, ResultPartitionID
from flinkpy.common.states import ExecutionState

if TYPE_CHECKING:
    from flinkpy.jobmaster.executiongraph.execution_job_vertex import ExecutionJobVertex
    from flinkpy.jobmaster.executiongraph.execution_vertex import ExecutionVertex


class IntermediateResult:
    """What one JobVertex produces for its consumers, all partitions of it.

    A pipelined one has one consumer. All consumers of a blocking one have the same parallelism, so that each finds its
    subpartitions in it.
    """

    def __init__(self, data_set: job_pb2.IntermediateDataSet, result_index: int, producer: ExecutionJobVertex) -> None:
        self.id = IntermediateDataSetID(data_set.id)
        self.result_index = result_index
        self.producer = producer
        self.is_blocking = data_set.type == job_pb2.BLOCKING
        self.is_pointwise = data_set.distribution == job_pb2.POINTWISE
        self.partitioner_name = data_set.partitioner_name
        #: One per subtask of the producer, in order.
        self.partitions: list[IntermediateResultPartition] = []
        self.consumers: list[ExecutionJobVertex] = []


class IntermediateResultPartition:
    """What one ExecutionVertex produces for one data set.

    `consumer_groups[k][i]` reads subpartition i for the k-th consumer of the data set.
    """

    __slots__ = ("consumer_groups", "index", "producer", "result")

    def __init__(self, result: IntermediateResult, index: int, producer: ExecutionVertex) -> None:
        self.result = result
        self.index = index
        self.producer = producer
        self.consumer_groups: list[list[ExecutionVertex]] = []

    @property
    def consumers(self) -> list[ExecutionVertex]:
        """All that read it."""
        return [consumer for group in self.consumer_groups for consumer in group]

    @property
    def num_subpartitions(self) -> int:
        return max(1, len(self.consumer_groups[0])) if self.consumer_groups else 1

    @property
    def current_id(self) -> ResultPartitionID:
        """The partition as the producer's current attempt makes it."""
        return ResultPartitionID(self.result.id, self.index, self.producer.current.attempt_id)

    @property
    def is_consumable(self) -> bool:
        """A pipelined partition can be read as soon as its producer is deployed, a blocking one when it is finished."""
        state = self.producer.current.state
        if self.result.is_blocking:
            return state is ExecutionState.FINISHED
        return state not in (ExecutionState.CREATED, ExecutionState.CANCELED, ExecutionState.FAILED)
