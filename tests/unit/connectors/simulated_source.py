"""Runs a source with its coordinator and all its subtasks on one thread, with checkpoints and failures."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any

import cloudpickle
from connector_fakes import TestingCoordinatorContext
from operator_fakes import SourceLife

from flinkpy.connector_api.source import SourceBase
from flinkpy.connector_api.source_coordinator import SourceCoordinator, SourceCoordinatorProvider
from flinkpy.streaming.mailbox.mailbox_processor import ActionStatus


@dataclass
class Checkpoint:
    checkpoint_id: int
    coordinator: bytes | None
    subtasks: list[Any]
    #: The number of rows that each subtask had emitted.
    emitted: list[int]


class SimulatedSource:
    """A source and all its subtasks. A failure discards the rows emitted since the restored checkpoint.

    Args:
        batch_rows: the rows per batch; small, so that checkpoints and failures fall between batches.
    """

    def __init__(self, source: SourceBase, parallelism: int = 2, batch_rows: int = 2) -> None:
        self.source = source
        self.parallelism = parallelism
        self.batch_rows = batch_rows
        self.context = TestingCoordinatorContext(parallelism)
        provider = pickle.loads(cloudpickle.dumps(SourceCoordinatorProvider(source)))
        self.coordinator: SourceCoordinator = provider.create(self.context)
        self.coordinator.start()
        self.attempts = [0] * parallelism
        self.emitted: list[list[Any]] = [[] for _ in range(parallelism)]
        self.ended = [False] * parallelism
        self.subtasks = [self._start(index, None) for index in range(parallelism)]
        self.taken = 0
        self.completed: Checkpoint | None = None

    @property
    def rows(self) -> list[Any]:
        return [row for rows in self.emitted for row in rows]

    def step(self, subtask_index: int) -> bool:
        """Delivers events and emits a batch. Returns True if there was anything to do."""
        delivered = self._deliver()
        if self.ended[subtask_index]:
            return delivered
        life = self.subtasks[subtask_index]
        status = life.operator.emit_next()
        self._take_emitted()
        if status is ActionStatus.END:
            self.ended[subtask_index] = True
        return self._deliver() or delivered or status is not ActionStatus.NOTHING_AVAILABLE

    def run_to_end(self) -> list[Any]:
        for _ in range(100_000):
            if all(self.ended):
                return self.rows
            moved = [self.step(index) for index in range(self.parallelism)]
            assert any(moved) or all(self.ended), "the source has not ended, but no subtask has anything to do"
        raise AssertionError("the source does not end")

    def checkpoint(self) -> Checkpoint:
        """Takes a checkpoint without completing it."""
        self._deliver()
        self.taken += 1
        state = self.coordinator.checkpoint(self.taken)
        states = [life.checkpoint(self.taken) for life in self.subtasks]
        # Rows that a reader still held come before the barrier.
        self._take_emitted()
        return Checkpoint(self.taken, state, states, [len(rows) for rows in self.emitted])

    def complete(self, checkpoint: Checkpoint) -> None:
        self.completed = checkpoint
        self.coordinator.notify_checkpoint_complete(checkpoint.checkpoint_id)
        for life in self.subtasks:
            life.operator.notify_checkpoint_complete(checkpoint.checkpoint_id)

    def fail_subtask(self, index: int) -> None:
        """Restarts one subtask from the last completed checkpoint. The coordinator continues."""
        checkpoint = self.completed
        self.subtasks[index].operator.close()
        self.coordinator.subtask_reset(index, None if checkpoint is None else checkpoint.checkpoint_id)
        self._restart(index)

    def fail_all(self) -> None:
        """Restarts everything on a new JobMaster."""
        checkpoint = self.completed
        for life in self.subtasks:
            life.operator.close()
        self.context.take_sent()
        self.coordinator = SourceCoordinatorProvider(self.source).create(self.context)
        if checkpoint is not None:
            self.coordinator.reset_to_checkpoint(checkpoint.checkpoint_id, checkpoint.coordinator)
        self.coordinator.start()
        for index in range(self.parallelism):
            self._restart(index)

    def _take_emitted(self) -> None:
        for life, rows in zip(self.subtasks, self.emitted, strict=True):
            rows += life.output.rows
            life.output.batches.clear()

    def _restart(self, index: int) -> None:
        checkpoint = self.completed
        self.attempts[index] += 1
        self.ended[index] = False
        del self.emitted[index][0 if checkpoint is None else checkpoint.emitted[index] :]
        self.context.sent = [sent for sent in self.context.sent if sent[0] != index]
        self.subtasks[index] = self._start(index, checkpoint)

    def _start(self, index: int, checkpoint: Checkpoint | None) -> SourceLife:
        restored = None if checkpoint is None else checkpoint.subtasks[index]
        life = SourceLife(
            pickle.loads(cloudpickle.dumps(self.source)),
            restored,
            restored_id=None if checkpoint is None else checkpoint.checkpoint_id,
            batch_rows=self.batch_rows,
            subtask_index=index,
            parallelism=self.parallelism,
            attempt_number=self.attempts[index],
        )
        self.coordinator.subtask_ready(index)
        return life

    def _deliver(self) -> bool:
        """Delivers events in both directions until there are none. Raises errors of the enumerator."""
        moved = False
        while True:
            self.context.finish_blocking()
            sent = self.context.take_sent()
            for index, event in sent:
                self.subtasks[index].operator.handle_operator_event(pickle.loads(cloudpickle.dumps(event)))
            told = False
            for index, life in enumerate(self.subtasks):
                events, life.sent[:] = list(life.sent), []
                for event in events:
                    told = True
                    event = pickle.loads(cloudpickle.dumps(event))
                    self.coordinator.handle_event(index, self.attempts[index], event)
            if self.context.failures:
                raise self.context.failures[0]
            if not sent and not told:
                return moved
            moved = True
