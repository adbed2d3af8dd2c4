"""Stores by which a JobMaster finds the checkpoints of its job after the death of an earlier JobMaster.

Source: org.apache.flink.runtime.checkpoint.{CheckpointRecoveryFactory,CheckpointIDCounter,CompletedCheckpointStore}.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import Protocol

from flinkpy._proto import checkpoint_pb2


class CheckpointPointerStore(Protocol):
    """Stores pointers to the completed checkpoints of one job. Durable when `save` returns. Blocking."""

    def load(self) -> checkpoint_pb2.CompletedCheckpointPointers:
        """Returns the pointers saved last; an empty message if there are none. Raises: CorruptFileError."""
        ...

    def save(self, pointers: checkpoint_pb2.CompletedCheckpointPointers) -> None:
        """Replaces all pointers. After an error, either the old or the new ones are stored."""
        ...

    def remove(self) -> None:
        """Removes everything, because the job has ended. Idempotent."""
        ...


class CheckpointIDCounter(Protocol):
    """Draws checkpoint ids. No id is drawn twice for a job, even after crashes. Blocking."""

    @property
    def next_id(self) -> int:
        """The id that is drawn next. Does not block."""
        ...

    def get_and_increment(self) -> int:
        """Returns the next id, after storing durably that it is used."""
        ...

    def advance_to(self, next_id: int) -> None:
        """Makes sure that no id below `next_id` is drawn."""
        ...

    def remove(self) -> None:
        """Removes everything, because the job has ended. Idempotent."""
        ...


class StoredCheckpointIDCounter(ABC):
    """A CheckpointIDCounter that stores a number before it returns it. Thread: any.

    Args:
        at_least: the lowest id that may be drawn.
    """

    def __init__(self, at_least: int) -> None:
        self._lock = threading.Lock()
        self._next = max(at_least, self._load())

    @property
    def next_id(self) -> int:
        return self._next

    def get_and_increment(self) -> int:
        with self._lock:
            drawn = self._next
            self._advance(drawn + 1)
            return drawn

    def advance_to(self, next_id: int) -> None:
        with self._lock:
            if next_id > self._next:
                self._advance(next_id)

    def _advance(self, next_id: int) -> None:
        self._store(next_id)
        self._next = next_id

    @abstractmethod
    def _load(self) -> int:
        """Returns the number stored last, or the first id. Called once, by the constructor."""

    @abstractmethod
    def _store(self, next_id: int) -> None:
        """Stores the number durably."""


class CheckpointRecovery(Protocol):
    """The checkpoint stores of one job, for the JobMaster that leads it. Blocking."""

    def pointers(self) -> CheckpointPointerStore: ...

    def counter(self, at_least: int) -> CheckpointIDCounter: ...
