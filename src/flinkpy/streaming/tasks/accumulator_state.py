"""The accumulators of a task as part of its checkpoints: list state of the head of its chain."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flinkpy._proto import checkpoint_pb2
from flinkpy.common.typeinfo import Types
from flinkpy.datastream.state import ListStateDescriptor

if TYPE_CHECKING:
    from flinkpy.state.operator_state import OperatorStateBackend
    from flinkpy.streaming.tasks.environment import TaskEnvironment

#: Each element: (job id, a snapshot of one subtask).
_DESCRIPTOR = ListStateDescriptor("flinkpy-accumulators", Types.PICKLED_BYTE_ARRAY())


def restore_accumulators(environment: TaskEnvironment, head: checkpoint_pb2.OperatorSubtaskState | None) -> None:
    """Before the operators are opened, because functions register their accumulators there. Those of another job, whose
    savepoint this one was started from, are left.

    Raises: StateRestoreError.
    """
    if head is None or not head.operator:
        return
    from flinkpy.state.operator_state import OperatorStateBackend

    # Of its own: the head makes its state when its turn comes.
    backend = OperatorStateBackend(tuple(head.operator), environment.state.files, environment.task_name)
    kept = backend.get_list_state(_DESCRIPTOR).get()
    environment.accumulators.restore(snapshot for job_id, snapshot in kept if job_id == environment.job_id)


def keep_accumulators(environment: TaskEnvironment, state: OperatorStateBackend) -> None:
    """Put them into the state that is about to be frozen."""
    registry = environment.accumulators
    registry.take_snapshot()
    state.get_list_state(_DESCRIPTOR).update([(environment.job_id, registry.snapshot)])
