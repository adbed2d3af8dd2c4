"""TaskDeployments: everything a TaskExecutor needs to run a subtask, beyond its JobVertex.

Source: org.apache.flink.runtime.deployment.TaskDeploymentDescriptorFactory.
"""

from __future__ import annotations

from flinkpy._proto import taskexecutor_pb2
from flinkpy.jobmaster.executiongraph.execution import Execution
from flinkpy.jobmaster.executiongraph.execution_vertex import ConsumedPartitions, ExecutionVertex


def task_deployment(vertex: ExecutionVertex, execution: Execution) -> taskexecutor_pb2.TaskDeployment:
    """Of an attempt of `vertex`. Every producer it reads from must have a slot."""
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
            )
            for partition in vertex.produced
        ],
        input_gates=[_input_gate(consumed) for consumed in vertex.consumed],
        restore=execution.restore,
    )


def _input_gate(consumed: ConsumedPartitions) -> taskexecutor_pb2.InputGateDeployment:
    gate = taskexecutor_pb2.InputGateDeployment(
        data_set_id=str(consumed.partitions[0].result.id),
        input_index=consumed.input_index,
        edge_index=consumed.edge_index,
        subpartition_index=consumed.subpartition_index,
        num_subpartitions=consumed.num_subpartitions,
        is_blocking=consumed.partitions[0].result.is_blocking,
    )
    for partition in consumed.partitions:
        slot = partition.producer.current.slot
        assert slot is not None, f"{partition.producer} has no slot, and a consumer of it is being deployed"
        gate.partitions.add(
            result_partition_id=str(partition.current_id),
            resource_id=str(slot.location.resource_id),
            data_address=slot.location.data_address,
            partition_index=partition.index,
        )
    return gate
