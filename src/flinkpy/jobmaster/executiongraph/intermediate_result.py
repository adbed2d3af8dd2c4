"""IntermediateResult: the parallel version of an IntermediateDataSet.

Source: org.apache.flink.runtime.executiongraph.{IntermediateResult,IntermediateResultPartition}.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flinkpy._proto import job_pb2
from flinkpy.common.ids import IntermediateDataSetID, ResultPartitionID
from flinkpy.common.states import ExecutionState

if TYPE_CHECKING:
    from flinkpy.jobmaster.executiongraph.execution import Execution
    from flinkpy.jobmaster.executiongraph.execution_job_vertex import ExecutionJobVertex
    from flinkpy.jobmaster.executiongraph.execution_vertex import ExecutionVertex


class IntermediateResult:
    """What one JobVertex produces for its consumers, all partitions of it.

    A pipelined one has one consumer, whose subtask i reads subpartition i. A blocking one may have several, each of
    which reads all of it, every subtask a range of its subpartitions. It has as many of these as a consumer may have
    subtasks; one alone where every subtask reads everything, or a single one does.
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
        #: In topological order, those that do not know their parallelism yet included.
        self.consumers: list[ExecutionJobVertex] = []

    @property
    def consumer_bound(self) -> int:
        """The most subtasks that a consumer may have."""
        return max((consumer.parallelism_bound for consumer in self.consumers), default=1)


class IntermediateResultPartition:
    """What one ExecutionVertex produces for one data set.

    `consumers`: every subtask that reads any of it, once its vertex is initialized. Of a pipelined partition
    `consumers[i]` reads subpartition i.
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
        """The partition as the producer's current attempt makes it."""
        return self.id_of(self.producer.current)

    def id_of(self, execution: Execution) -> ResultPartitionID:
        """The partition as that attempt of the producer makes it."""
        return ResultPartitionID(self.result.id, self.index, execution.attempt_id)

    @property
    def is_consumable(self) -> bool:
        """A pipelined partition can be read as soon as its producer is deployed, a blocking one when it is finished."""
        state = self.producer.current.state
        if self.result.is_blocking:
            return state is ExecutionState.FINISHED
        return state not in (ExecutionState.CREATED, ExecutionState.CANCELED, ExecutionState.FAILED)
