"""The simulation detects mistakes that are put into the product on purpose, within a few seeds.

Each mistake breaks a basic rule: a leader proves its leadership with each write, one contender leads at a time, a
checkpoint is complete when its completion is recorded, and tasks commit only then.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from simulated_tasks import SimulatedTask
from test_high_availability_simulation import simulate

from flinkpy.checkpoint.completed_checkpoint_store import CompletedCheckpointStore
from flinkpy.highavailability.leader_latch import Grant, LatchState, LeaderLatch
from flinkpy.highavailability.zookeeper.fenced_writes import FencedWrites
from flinkpy.rpc.leader_runner import LeaderRunner

#: The number of seeds in which a mistake must be detected.
MAX_SEEDS = 25


@contextmanager
def replaced(owner: type, name: str, function: Any) -> Iterator[None]:
    original = owner.__dict__[name]
    setattr(owner, name, function)
    try:
        yield
    finally:
        setattr(owner, name, original)


@contextmanager
def writes_are_not_fenced() -> Iterator[None]:
    def write(self: Any, operations: Any, what: str) -> None:
        if operations:
            self._client.transact_and_wait(list(operations), what)

    with replaced(FencedWrites, "write", write):
        yield


@contextmanager
def everybody_leads() -> Iterator[None]:
    """Lets a contender lead without a look at the contenders before it."""

    def decide(self: Any, names: Any) -> list[Any]:
        self._watched_name = self._name
        self.state = LatchState.LEADING
        return [Grant(self._token, self._name)]

    with replaced(LeaderLatch, "_decide", decide):
        yield


@contextmanager
def a_leader_does_not_step_down() -> Iterator[None]:
    with replaced(LeaderRunner, "revoke_leadership", lambda self: None):
        yield


@contextmanager
def checkpoints_count_before_they_are_noted() -> Iterator[None]:
    """Confirms checkpoints before they are recorded, so that the next JobMaster does not know them."""

    def add(self: Any, checkpoint: Any) -> tuple[Any, ...]:
        return ()

    with replaced(CompletedCheckpointStore, "add", add):
        yield


@contextmanager
def tasks_commit_when_they_snapshot() -> Iterator[None]:
    """Lets tasks commit at their snapshot instead of at the completion of the checkpoint."""
    original = SimulatedTask.snapshot

    def snapshot(self: Any, checkpoint_id: int, options: Any) -> None:
        original(self, checkpoint_id, options)
        self.plane.confirm(self, checkpoint_id)

    with replaced(SimulatedTask, "snapshot", snapshot):
        yield


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "mutant",
    [
        writes_are_not_fenced,
        everybody_leads,
        a_leader_does_not_step_down,
        checkpoints_count_before_they_are_noted,
        tasks_commit_when_they_snapshot,
    ],
)
def test_the_simulation_catches_the_mistake(mutant: Callable[[], Any]) -> None:
    with mutant():
        for seed in range(MAX_SEEDS):
            try:
                simulate(seed, num_masters=2)
            except Exception:  # noqa: BLE001 - however it shows
                return
    raise AssertionError(f"{mutant.__name__} lives after {MAX_SEEDS} seeds")
