"""What a JobMaster finds its job's checkpoints by after the death of the one before it.

Source: org.apache.flink.runtime.checkpoint.{CheckpointRecoveryFactory,CheckpointIDCounter,CompletedCheckpointStore}.
"""

from __future__ import annotations

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


class CheckpointRecovery(Protocol):
    """Of one job, for the JobMaster that leads it. Blocking."""

    def pointers(self) -> CheckpointPointerStore: ...

    def counter(self, at_least: int) -> CheckpointIDCounter: ...
