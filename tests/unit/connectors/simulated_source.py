"""A source with its coordinator and all its subtasks on one thread, through checkpoints and failures."""

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
    #: How many rows each subtask had emitted.
    emitted: list[int]


class SimulatedSource:
    """What has been emitted since the restored checkpoint is forgotten in a failure, as it is by those downstream.

    Args:
        batch_rows: so many rows per batch, so that there is something between them.
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
        """Emit a batch, or do what else there is to do; whether there was anything."""
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
            assert any(moved) or all(self.ended), "nobody has anything to do, and the source has not ended"
        raise AssertionError("the source does not end")

    def checkpoint(self) -> Checkpoint:
        """Take one; it is not complete."""
        self._deliver()
        self.taken += 1
        state = self.coordinator.checkpoint(self.taken)
        states = [life.checkpoint(self.taken) for life in self.subtasks]
        # What a reader still had in its hands comes before the barrier.
        self._take_emitted()
        return Checkpoint(self.taken, state, states, [len(rows) for rows in self.emitted])

    def complete(self, checkpoint: Checkpoint) -> None:
        self.completed = checkpoint
        self.coordinator.notify_checkpoint_complete(checkpoint.checkpoint_id)
        for life in self.subtasks:
            life.operator.notify_checkpoint_complete(checkpoint.checkpoint_id)

    def fail_subtask(self, index: int) -> None:
        """One subtask begins anew from the last completed checkpoint; the coordinator goes on."""
        checkpoint = self.completed
        self.subtasks[index].operator.close()
        self.coordinator.subtask_reset(index, None if checkpoint is None else checkpoint.checkpoint_id)
        self._restart(index)

    def fail_all(self) -> None:
        """Everything begins anew, on a new JobMaster."""
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
        """All events both ways, until there are none; what was raised by the enumerator is raised here."""
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
