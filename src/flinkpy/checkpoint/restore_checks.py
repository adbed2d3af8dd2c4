"""Whether a checkpoint fits a job, told before anything is deployed. Pure.

Source: org.apache.flink.runtime.checkpoint.{Checkpoints,StateAssignmentOperation,VertexFinishedStateChecker}.
"""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from flinkpy._proto import checkpoint_pb2
from flinkpy.checkpoint.job_description import OperatorDescription, VertexDescription
from flinkpy.checkpoint.metadata import FORMAT_VERSION
from flinkpy.checkpoint.state_handles import has_state
from flinkpy.common.errors import StateRestoreError


@dataclass(frozen=True, slots=True)
class RestoreChecks:
    """Attributes:
    vertices: those given, with the max parallelism that their state has where their own was derived.
    unclaimed: operators whose state is left out. warnings: for the log, one sentence each.
    """

    vertices: list[VertexDescription]
    unclaimed: list[OperatorDescription] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def check_restore(
    metadata: checkpoint_pb2.CheckpointMetadata,
    vertices: Sequence[VertexDescription],
    path: str,
    *,
    allow_non_restored_state: bool = False,
    python_version: str = "",
) -> RestoreChecks:
    """What is to be restored fits the job, or this raises.

    Args:
        path: of the checkpoint, for messages.
        python_version: of this process; empty: found out.

    Raises: StateRestoreError naming the path and the operator.
    """
    _check_version(metadata, path)
    check_operator_ids(vertices)
    stored = {operator.operator_id: operator for operator in metadata.operators}
    unclaimed = _unclaimed(metadata, vertices)
    if unclaimed and not allow_non_restored_state:
        listed = "; ".join(str(operator) for operator in unclaimed)
        raise StateRestoreError(
            f"{path} has state of operators that the job does not have: {listed}. Give the operators the uids they "
            "had, or leave their state out with `execution.state-recovery.ignore-unclaimed-state` "
            "(--allowNonRestoredState)",
            details={"path": path, "operator": unclaimed[0].operator_id},
        )
    adopted = [_with_stored_max_parallelism(vertex, stored, path) for vertex in vertices]
    _check_finished(adopted, stored, path)
    warnings = [f"state of {operator} is left out" for operator in unclaimed]
    warnings += _python_warning(metadata, path, python_version or platform.python_version())
    return RestoreChecks(adopted, unclaimed, warnings)


def check_operator_ids(vertices: Sequence[VertexDescription]) -> None:
    """Raises: StateRestoreError where state would have two owners."""
    operators = [operator for vertex in vertices for operator in vertex.operators]
    for ids, what in (
        ([o.operator_id for o in operators], "operator id"),
        ([o.uid for o in operators if o.uid], "uid"),
    ):
        repeated = [text for text, count in Counter(ids).items() if count > 1]
        if repeated:
            names = ", ".join(repr(o.name) for o in operators if repeated[0] in (o.operator_id, o.uid))
            raise StateRestoreError(
                f"several operators have the {what} {repeated[0]!r}, so their state cannot be told apart: {names}",
                details={"operator": repeated[0]},
            )


def _check_version(metadata: checkpoint_pb2.CheckpointMetadata, path: str) -> None:
    if metadata.version > FORMAT_VERSION:
        raise StateRestoreError(
            f"{path} was written by flinkpy {metadata.flinkpy_version} with format version {metadata.version}; this "
            f"release reads versions up to {FORMAT_VERSION}",
            details={"path": path},
        )


def _unclaimed(
    metadata: checkpoint_pb2.CheckpointMetadata, vertices: Sequence[VertexDescription]
) -> list[OperatorDescription]:
    """Operators that have something, and that the job lacks."""
    known = {operator.operator_id for vertex in vertices for operator in vertex.operators}
    return [
        OperatorDescription(operator.operator_id, operator.uid, operator.name)
        for operator in metadata.operators
        if operator.operator_id not in known
        and (operator.HasField("coordinator") or any(has_state(state) for state in operator.subtasks.values()))
    ]


def _with_stored_max_parallelism(
    vertex: VertexDescription, stored: dict[str, checkpoint_pb2.OperatorState], path: str
) -> VertexDescription:
    """With that of the state, which decides which key group a key is in."""
    for operator in vertex.operators:
        state = stored.get(operator.operator_id)
        if state is None:
            continue
        wanted = state.max_parallelism
        details = {"path": path, "operator": operator.operator_id}
        if vertex.parallelism > wanted:
            raise StateRestoreError(
                f"{operator} of {vertex.name!r} cannot run with parallelism {vertex.parallelism}: its state in {path} "
                f"was made with max parallelism {wanted}, which cannot be changed",
                details=details,
            )
        if vertex.max_parallelism != wanted and vertex.is_max_parallelism_configured:
            raise StateRestoreError(
                f"the max parallelism of {operator} of {vertex.name!r} was {wanted} when {path} was taken and is "
                f"{vertex.max_parallelism} now; it cannot be changed for an operator with state",
                details=details,
            )
        # From here on it is fixed: another operator of the chain must have the same.
        vertex = replace(vertex, max_parallelism=wanted, is_max_parallelism_configured=True)
    return vertex


def _check_finished(
    vertices: Sequence[VertexDescription], stored: dict[str, checkpoint_pb2.OperatorState], path: str
) -> None:
    """An operator that had finished emits nothing again, so everything before it must have finished too."""
    is_finished: dict[str, bool] = {}
    for vertex in vertices:
        states = {
            bool(stored[o.operator_id].is_fully_finished) if o.operator_id in stored else False
            for o in vertex.operators
        }
        if len(states) > 1:
            raise StateRestoreError(
                f"some operators of {vertex.name!r} had finished when {path} was taken and others had not: the chain "
                "is not the one it was",
                details={"path": path},
            )
        is_finished[vertex.vertex_id] = states == {True}
    for vertex in vertices:
        running = [i for i in vertex.inputs if not is_finished.get(i.producer_vertex_id, False)]
        if is_finished[vertex.vertex_id] and running:
            raise StateRestoreError(
                f"{vertex.name!r} had finished when {path} was taken, and now has an input that had not: what it "
                "sends would be lost",
                details={"path": path},
            )


def _python_warning(metadata: checkpoint_pb2.CheckpointMetadata, path: str, python_version: str) -> list[str]:
    written, current = metadata.python_version.split(".")[:2], python_version.split(".")[:2]
    if not metadata.python_version or written == current:
        return []
    text = f"{path} was written by Python {'.'.join(written)} and is read by {'.'.join(current)}"
    return [f"{text}: state of types that are pickled may not be readable"]
