"""The accumulators of a task as part of its checkpoints: list state of the head of its chain."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flinkpy._proto import checkpoint_pb2
from flinkpy.common.typeinfo import Types
from flinkpy.datastream.state import ListStateDescriptor

if TYPE_CHECKING:
    from flinkpy.state.operator_state import OperatorStateBackend
    from flinkpy.streaming.tasks.environment import TaskEnvironment

#: Each element is (job id, accumulators of one subtask).
_DESCRIPTOR = ListStateDescriptor("flinkpy-accumulators", Types.PICKLED_BYTE_ARRAY())


def restore_accumulators(environment: TaskEnvironment, head: checkpoint_pb2.OperatorSubtaskState | None) -> None:
    """Restores the accumulators of the task. Called before the operators are opened and register theirs.

    Ignores the accumulators of another job, whose savepoint this job was started from.

    Raises: StateRestoreError.
    """
    if head is None or not head.operator:
        return
    from flinkpy.state.operator_state import OperatorStateBackend

    # The head operator has not created its own backend yet.
    backend = OperatorStateBackend(tuple(head.operator), environment.state.files, environment.task_name)
    kept = backend.get_list_state(_DESCRIPTOR).get()
    environment.accumulators.restore(snapshot for job_id, snapshot in kept if job_id == environment.job_id)


def keep_accumulators(environment: TaskEnvironment, state: OperatorStateBackend) -> None:
    """Writes the accumulators into the operator state that is about to be snapshotted."""
    registry = environment.accumulators
    registry.take_snapshot()
    state.get_list_state(_DESCRIPTOR).update([(environment.job_id, registry.snapshot)])
