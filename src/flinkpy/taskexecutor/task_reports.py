"""What a TaskExecutor reports of its tasks to their JobMaster."""

from __future__ import annotations

from collections.abc import Iterable

import cloudpickle

from flinkpy._proto import common_pb2, jobmaster_pb2
from flinkpy.common.accumulators import AccumulatorFailure
from flinkpy.common.error_text import bounded_text
from flinkpy.common.errors import FlinkError
from flinkpy.common.states import ExecutionState
from flinkpy.rpc.error_codec import error_to_proto, reduced_error
from flinkpy.taskexecutor.task import Task

#: Of the accumulators in one report: far below the largest message. Tasks beyond it are told in the next report, and
#: with their end.
MAX_ACCUMULATOR_BYTES = 8 * 1024 * 1024

#: Text that a reduced report says of why it is reduced.
MAX_REDUCED_CHARS = 1_000


def state_update(task: Task, state: ExecutionState, error: FlinkError | None) -> jobmaster_pb2.TaskExecutionStateUpdate:
    """A change of state, with all there is to tell of the task."""
    return jobmaster_pb2.TaskExecutionStateUpdate(
        execution_attempt_id=task.execution_attempt_id,
        state=common_pb2.ExecutionState.Name(state.value),
        error=None if error is None else error_to_proto(error),
        metrics=common_pb2.IOMetrics(**task.metrics),
        accumulators_pickle=task.accumulators,
        result_partition_bytes=[
            jobmaster_pb2.ResultPartitionBytes(result_partition_id=partition_id, subpartition_bytes=sizes)
            for partition_id, sizes in task.deployed.subpartition_bytes().items()
        ]
        if state is ExecutionState.FINISHED
        else (),
    )


def reduced_update(
    update: jobmaster_pb2.TaskExecutionStateUpdate, refusal: str
) -> jobmaster_pb2.TaskExecutionStateUpdate:
    """Returns the update without what may be large: for a JobMaster that could not take it as it was.

    Each accumulator becomes an AccumulatorFailure that says why, so that none is missing unnoticed.
    """
    reduced = jobmaster_pb2.TaskExecutionStateUpdate()
    reduced.CopyFrom(update)
    reason = bounded_text(f"the report of it was refused: {refusal}", MAX_REDUCED_CHARS)
    for name in update.accumulators_pickle:
        reduced.accumulators_pickle[name] = cloudpickle.dumps(AccumulatorFailure(name, reason))
    if reduced.HasField("error"):
        reduced.error.CopyFrom(reduced_error(reduced.error))
    return reduced


def task_reports(tasks: Iterable[Task], *, is_full: bool) -> list[jobmaster_pb2.TaskExecutionStateUpdate]:
    """Metrics and accumulators of running tasks. Not `is_full`: accumulators only where they have changed since they
    were last told; that report may have been lost, so a full one must follow now and then."""
    reports = []
    room = MAX_ACCUMULATOR_BYTES
    for task in tasks:
        accumulators = task.accumulators
        size = sum(map(len, accumulators.values()))
        is_told = (is_full or accumulators is not task.reported_accumulators) and size <= room
        if is_told:
            task.reported_accumulators = accumulators
            room -= size
        reports.append(
            jobmaster_pb2.TaskExecutionStateUpdate(
                execution_attempt_id=task.execution_attempt_id,
                state=common_pb2.ExecutionState.Name(task.state.value),
                metrics=common_pb2.IOMetrics(**task.metrics),
                accumulators_pickle=accumulators if is_told else None,
            )
        )
    return reports
