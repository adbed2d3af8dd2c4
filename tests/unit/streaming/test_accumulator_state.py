"""Restored accumulators lose nothing and count nothing twice at any parallelism."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from streaming_fakes import FakeTaskEnvironment

from flinkpy._proto import checkpoint_pb2, job_pb2
from flinkpy.common.accumulators import IntCounter
from flinkpy.state.operator_state import OperatorStateBackend
from flinkpy.streaming.tasks.operator_chain import keep_accumulators, restore_accumulators


def environment(files: Any, **overrides: Any) -> FakeTaskEnvironment:
    made = FakeTaskEnvironment(job_pb2.JobVertex(id="v", name="v"), **overrides)
    made.state.files = files
    return made


@pytest.fixture
def files() -> Any:
    return FakeTaskEnvironment(job_pb2.JobVertex()).state.files


def checkpointed(files: Any, count: int, restored: checkpoint_pb2.OperatorSubtaskState | None = None) -> Any:
    """Returns the state of a subtask that continued from `restored` and counted further records."""
    subtask = environment(files)
    restore_accumulators(subtask, restored)
    subtask.accumulators.get_or_add("n", IntCounter).add(count)
    backend = OperatorStateBackend(() if restored is None else tuple(restored.operator), files, "v")
    keep_accumulators(subtask, backend)
    snapshot = backend.snapshot(1, checkpoint_pb2.CheckpointOptions())
    assert snapshot is not None
    handle = snapshot.write(files)
    snapshot.release()
    return checkpoint_pb2.OperatorSubtaskState(operator=[handle])


def counted(files: Any, restored: checkpoint_pb2.OperatorSubtaskState | None, **overrides: Any) -> int:
    subtask = environment(files, **overrides)
    restore_accumulators(subtask, restored)
    subtask.accumulators.get_or_add("n", IntCounter)
    subtask.accumulators.take_snapshot()
    value: int = pickle.loads(subtask.accumulators.snapshot["n"]).get_local_value()
    return value


def test_restored_subtask_continues_its_accumulators(files: Any) -> None:
    first = checkpointed(files, 3)
    assert counted(files, first) == 3
    second = checkpointed(files, 4, first)
    assert counted(files, second) == 7
    assert counted(files, checkpointed(files, 0, second)) == 7


def test_subtask_merges_the_accumulators_of_two(files: Any) -> None:
    both = checkpoint_pb2.OperatorSubtaskState()
    for count in (3, 40):
        both.operator.extend(checkpointed(files, count).operator)
    assert counted(files, both) == 43


def test_subtask_without_restored_accumulators_starts_at_zero(files: Any) -> None:
    assert counted(files, None) == 0
    assert counted(files, checkpoint_pb2.OperatorSubtaskState()) == 0


def test_another_job_ignores_the_accumulators_of_a_savepoint(files: Any) -> None:
    assert counted(files, checkpointed(files, 3), job_id="another") == 0
