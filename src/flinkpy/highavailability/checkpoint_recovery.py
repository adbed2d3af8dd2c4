"""What a JobMaster finds its job's checkpoints by after the death of the one before it.

Source: org.apache.flink.runtime.checkpoint.{CheckpointRecoveryFactory,CheckpointIDCounter,CompletedCheckpointStore}.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import Protocol

from flinkpy._proto import checkpoint_pb2


class CheckpointPointerStore(Protocol):
    """The completed checkpoints of one job. Blocking; what `save` stored survives a crash of process and host."""

    def load(self) -> checkpoint_pb2.CompletedCheckpointPointers:
        """What was saved last; an empty message where nothing was. Raises: CorruptFileError."""
        ...

    def save(self, pointers: checkpoint_pb2.CompletedCheckpointPointers) -> None:
        """Replace all. After an error it is open whether the old or the new ones are there."""
        ...

    def remove(self) -> None:
        """The job has ended; idempotent."""
        ...


class CheckpointIDCounter(Protocol):
    """Draws checkpoint ids: none twice in the life of a job, whatever crashes. Blocking."""

    @property
    def next_id(self) -> int:
        """What would be drawn next. Does not block."""
        ...

    def get_and_increment(self) -> int:
        """The next id, noted durably before this returns."""
        ...

    def advance_to(self, next_id: int) -> None:
        """The next id is at least `next_id`."""
        ...

    def remove(self) -> None:
        """The job has ended; idempotent."""
        ...


class StoredCheckpointIDCounter(ABC):
    """A CheckpointIDCounter over a number that is stored before it is given out. Thread: any.

    Args:
        at_least: the lowest id there may be, from what else is known.
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
        """What was stored last, or the first id. Called once, by the constructor."""

    @abstractmethod
    def _store(self, next_id: int) -> None:
        """Durable when this returns."""


class CheckpointRecovery(Protocol):
    """Of one job, for the JobMaster that leads it. Blocking."""

    def pointers(self) -> CheckpointPointerStore: ...

    def counter(self, at_least: int) -> CheckpointIDCounter: ...
