"""EffectBuffer: collects the effects of one event and batches those for one TaskExecutor.

Python gRPC makes a few thousand calls a second, and a job may have thousands of tasks.

Source (task_deployment): org.apache.flink.runtime.deployment.TaskDeploymentDescriptorFactory.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from flinkpy._proto import taskexecutor_pb2
from flinkpy.common.ids import ExecutionAttemptID, JobVertexID, ResourceID, ResultPartitionID
from flinkpy.common.resource_profile import ResourceCounter
from flinkpy.jobmaster.executiongraph.execution import Execution
from flinkpy.jobmaster.executiongraph.execution_vertex import ConsumedPartitions, ExecutionVertex
from flinkpy.jobmaster.scheduler import effects as fx
from flinkpy.jobmaster.slotpool.physical_slot import TaskManagerLocation


@dataclass(frozen=True, slots=True)
class _Submission:
    vertex: ExecutionVertex
    execution: Execution
    deployment: taskexecutor_pb2.TaskDeployment


@dataclass(slots=True)
class _Gathered:
    """The effects of one event."""

    effects: list[fx.SchedulerEffect] = field(default_factory=list)
    cancels: dict[TaskManagerLocation, dict[ExecutionAttemptID, None]] = field(default_factory=dict)
    submissions: dict[TaskManagerLocation, list[_Submission]] = field(default_factory=dict)
    releases: dict[TaskManagerLocation, list[str]] = field(default_factory=dict)
    requirements: ResourceCounter | None = None
    terminated: fx.JobTerminated | None = None


class EffectBuffer:
    """Collects effects. `drain` returns them in a fixed order.

    The order is: cancels, releases of partitions, other effects in the order they were added, the slot declaration,
    submissions, the end of the job.
    """

    def __init__(self) -> None:
        self._gathered = _Gathered()
        #: TaskExecutors of which the job wants no new slots.
        self.blocked: frozenset[ResourceID] = frozenset()

    def add(self, effect: fx.SchedulerEffect) -> None:
        self._gathered.effects.append(effect)

    def cancel(self, execution: Execution) -> None:
        """Cancels the attempt at its TaskExecutor. No effect if it never had a slot."""
        if execution.slot is not None:
            self.cancel_at(execution.slot.location, execution.attempt_id)

    def cancel_at(self, location: TaskManagerLocation, attempt_id: ExecutionAttemptID) -> None:
        self._gathered.cancels.setdefault(location, {})[attempt_id] = None

    def submit(self, vertices: list[ExecutionVertex]) -> None:
        for vertex in vertices:
            self.submit_attempt(vertex, vertex.current)

    def submit_attempt(self, vertex: ExecutionVertex, execution: Execution) -> None:
        assert execution.slot is not None
        submission = _Submission(vertex, execution, task_deployment(vertex, execution))
        self._gathered.submissions.setdefault(execution.slot.location, []).append(submission)

    def declare(self, requirements: ResourceCounter) -> None:
        """Declares the slots that the job needs. Only the last declaration within one event is kept."""
        self._gathered.requirements = requirements

    def release_partitions(self, vertex: ExecutionVertex, execution: Execution | None = None) -> None:
        """Releases the blocking results of `execution`.

        By default, releases those of the current attempt, which is about to be replaced.
        """
        execution = execution or vertex.current
        slot = execution.slot
        if slot is None:
            return
        blocking = [partition for partition in vertex.produced if partition.result.is_blocking]
        held = [str(partition.id_of(execution)) for partition in blocking if not partition.result.is_kept]
        if held:
            self._gathered.releases.setdefault(slot.location, []).extend(held)
        unused = [
            str(partition.id_of(execution))
            for partition in blocking
            if partition.result.is_kept
            and not (partition.result.is_final and partition.id_of(execution) == partition.current_id)
        ]
        if unused:
            self.add(fx.RemoveKeptResults(tuple(unused)))

    def release(self, location: TaskManagerLocation, partition_id: ResultPartitionID) -> None:
        """Releases a result that all consumers have read."""
        self._gathered.releases.setdefault(location, []).append(str(partition_id))

    def terminated(self, effect: fx.JobTerminated) -> None:
        self._gathered.terminated = effect

    def drain(self) -> list[fx.SchedulerEffect]:
        """Returns the collected effects and empties the buffer."""
        gathered = self._gathered
        self._gathered = _Gathered()
        drained: list[fx.SchedulerEffect] = []
        drained += [fx.CancelTasks(location, tuple(ids)) for location, ids in gathered.cancels.items()]
        drained += [fx.ReleasePartitions(location, tuple(ids)) for location, ids in gathered.releases.items()]
        drained += gathered.effects
        if gathered.requirements is not None:
            drained.append(fx.DeclareRequirements(gathered.requirements, self.blocked))
        for location, submissions in gathered.submissions.items():
            # An attempt that failed again within the same event has not been sent and is dropped.
            alive = [submission for submission in submissions if not submission.execution.state.is_terminal]
            if alive:
                drained.append(_submit_tasks(location, alive))
        if gathered.terminated is not None:
            drained.append(gathered.terminated)
        return drained


def _submit_tasks(location: TaskManagerLocation, submissions: list[_Submission]) -> fx.SubmitTasks:
    job_vertices: dict[JobVertexID, None] = {submission.vertex.job_vertex.id: None for submission in submissions}
    return fx.SubmitTasks(
        location,
        tuple(job_vertices),
        tuple(submission.deployment for submission in submissions),
        tuple(submission.execution.attempt_id for submission in submissions),
    )


def task_deployment(vertex: ExecutionVertex, execution: Execution) -> taskexecutor_pb2.TaskDeployment:
    """Returns the message that deploys an attempt of `vertex`. All its producers must have slots.

    It has everything that a TaskExecutor needs to run the subtask, except for the JobVertex.
    """
    assert execution.slot is not None, f"{vertex} has no slot"
    return taskexecutor_pb2.TaskDeployment(
        execution_attempt_id=str(execution.attempt_id),
        vertex_id=str(vertex.job_vertex.id),
        subtask_index=vertex.subtask_index,
        attempt_number=execution.attempt_id.attempt_number,
        allocation_id=str(execution.slot.allocation_id),
        produced_partitions=[
            taskexecutor_pb2.ResultPartitionDeployment(
                data_set_id=str(partition.result.id),
                result_partition_id=str(partition.id_of(execution)),
                partition_index=partition.index,
                num_subpartitions=partition.num_subpartitions,
                result_index=partition.result.result_index,
                is_kept_by_job_master=partition.result.is_kept,
                is_final=partition.result.is_final,
            )
            for partition in vertex.produced
        ],
        input_gates=[_input_gate(consumed) for consumed in vertex.consumed],
        restore=execution.restore,
    )


def _input_gate(consumed: ConsumedPartitions) -> taskexecutor_pb2.InputGateDeployment:
    result = consumed.partitions[0].result
    gate = taskexecutor_pb2.InputGateDeployment(
        data_set_id=str(result.id),
        input_index=consumed.input_index,
        edge_index=consumed.edge_index,
        subpartition_index=consumed.subpartition_index,
        num_subpartitions=consumed.num_subpartitions,
        is_blocking=result.is_blocking,
        is_kept_by_job_master=result.is_kept,
    )
    for partition in consumed.partitions:
        if result.is_kept:
            gate.partitions.add(result_partition_id=str(partition.current_id), partition_index=partition.index)
            continue
        slot = partition.producer.current.slot
        assert slot is not None, f"a consumer of {partition.producer} is deployed, but the producer has no slot"
        gate.partitions.add(
            result_partition_id=str(partition.current_id),
            resource_id=str(slot.location.resource_id),
            data_address=slot.location.data_address,
            partition_index=partition.index,
        )
    return gate
