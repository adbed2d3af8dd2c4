"""Checks that a checkpoint fits a job, before anything is deployed. Pure.

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
    """The result of `check_restore`.

    Attributes:
        vertices: the vertices of the job. A max parallelism that the user did not set is replaced by that of the state.
        unclaimed: the operators whose state is ignored.
        warnings: sentences for the log.
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
    """Checks that the job can be restored from the checkpoint.

    Args:
        path: the path of the checkpoint, for messages.
        allow_non_restored_state: ignores state of operators that the job does not have.
        python_version: the Python version of the job; empty for that of this process.

    Raises: StateRestoreError, which names the path and the operator.
    """
    _check_version(metadata, path)
    check_operator_ids(vertices)
    stored = {operator.operator_id: operator for operator in metadata.operators}
    unclaimed = _unclaimed(metadata, vertices)
    if unclaimed and not allow_non_restored_state:
        listed = "; ".join(str(operator) for operator in unclaimed)
        raise StateRestoreError(
            f"{path} has state of operators that the job does not have: {listed}. Give the operators their former "
            "uids, or ignore their state with `execution.state-recovery.ignore-unclaimed-state` "
            "(--allowNonRestoredState)",
            details={"path": path, "operator": unclaimed[0].operator_id},
        )
    adopted = [_with_stored_max_parallelism(vertex, stored, path) for vertex in vertices]
    _check_finished(adopted, stored, path)
    warnings = [f"the state of {operator} is ignored" for operator in unclaimed]
    warnings += _python_warning(metadata, path, python_version or platform.python_version())
    return RestoreChecks(adopted, unclaimed, warnings)


def check_operator_ids(vertices: Sequence[VertexDescription]) -> None:
    """Checks that operator ids and uids are unique. Raises: StateRestoreError."""
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
    """Returns the operators that have state and that the job does not have."""
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
    """Returns the vertex with the max parallelism of its state, which determines the key groups of keys."""
    for operator in vertex.operators:
        state = stored.get(operator.operator_id)
        if state is None:
            continue
        wanted = state.max_parallelism
        details = {"path": path, "operator": operator.operator_id}
        if vertex.parallelism > wanted:
            raise StateRestoreError(
                f"{operator} of {vertex.name!r} cannot run with parallelism {vertex.parallelism}: its state in {path} "
                f"has the max parallelism {wanted}, which cannot be changed",
                details=details,
            )
        if vertex.max_parallelism != wanted and vertex.is_max_parallelism_configured:
            raise StateRestoreError(
                f"the max parallelism of {operator} of {vertex.name!r} was {wanted} in {path} and is now "
                f"{vertex.max_parallelism}; it cannot be changed for an operator with state",
                details=details,
            )
        # Now it is fixed: the other operators of the chain must have the same max parallelism.
        vertex = replace(vertex, max_parallelism=wanted, is_max_parallelism_configured=True)
    return vertex


def _check_finished(
    vertices: Sequence[VertexDescription], stored: dict[str, checkpoint_pb2.OperatorState], path: str
) -> None:
    """Checks that all producers of finished operators had finished too, because these process no more records."""
    is_finished: dict[str, bool] = {}
    for vertex in vertices:
        states = {
            bool(stored[o.operator_id].is_fully_finished) if o.operator_id in stored else False
            for o in vertex.operators
        }
        if len(states) > 1:
            raise StateRestoreError(
                f"some operators of {vertex.name!r} had finished when {path} was taken and others had not: the "
                "operator chain has changed",
                details={"path": path},
            )
        is_finished[vertex.vertex_id] = states == {True}
    for vertex in vertices:
        running = [i for i in vertex.inputs if not is_finished.get(i.producer_vertex_id, False)]
        if is_finished[vertex.vertex_id] and running:
            raise StateRestoreError(
                f"{vertex.name!r} had finished when {path} was taken, and now has an input that had not finished: its "
                "records would be lost",
                details={"path": path},
            )


def _python_warning(metadata: checkpoint_pb2.CheckpointMetadata, path: str, python_version: str) -> list[str]:
    written, current = metadata.python_version.split(".")[:2], python_version.split(".")[:2]
    if not metadata.python_version or written == current:
        return []
    text = f"{path} was written by Python {'.'.join(written)} and is read by Python {'.'.join(current)}"
    return [f"{text}: pickled state may not be readable"]
