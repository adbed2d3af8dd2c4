"""CheckpointProperties: what kind of checkpoint is wanted, and what follows from that.

Source: org.apache.flink.runtime.checkpoint.CheckpointProperties.
"""

from __future__ import annotations

from dataclasses import dataclass

from flinkpy._proto import checkpoint_pb2 as pb

_SYNC_KINDS = frozenset({pb.SYNC_SAVEPOINT_SUSPEND, pb.SYNC_SAVEPOINT_TERMINATE})


@dataclass(frozen=True, slots=True)
class CheckpointProperties:
    """`format` is of savepoints only."""

    kind: pb.SnapshotKind
    format: pb.SavepointFormatType = pb.SAVEPOINT_FORMAT_TYPE_UNSPECIFIED

    @property
    def is_savepoint(self) -> bool:
        """It belongs to the user: it is never deleted by the job."""
        return self.kind == pb.SAVEPOINT or self.is_synchronous

    @property
    def is_synchronous(self) -> bool:
        """The job ends with it."""
        return self.kind in _SYNC_KINDS

    @property
    def is_forced(self) -> bool:
        """It neither waits for a pause nor for room among the concurrent ones, and is not subsumed."""
        return self.is_savepoint

    @property
    def counts_for_recovery(self) -> bool:
        """A failed job may go on from it, and side effects up to it are committed.

        A savepoint taken in between is only the user's: the job neither restarts from it nor commits by it.
        """
        return not self.is_savepoint or self.is_synchronous

    @property
    def description(self) -> str:
        if self.is_synchronous:
            return "stop-with-savepoint"
        return "savepoint" if self.is_savepoint else "checkpoint"


PERIODIC = CheckpointProperties(pb.CHECKPOINT)
FULL = CheckpointProperties(pb.FULL_CHECKPOINT)


def savepoint(format_type: pb.SavepointFormatType) -> CheckpointProperties:
    return CheckpointProperties(pb.SAVEPOINT, format_type or pb.CANONICAL)


def stop_with_savepoint(format_type: pb.SavepointFormatType, *, drain: bool) -> CheckpointProperties:
    kind = pb.SYNC_SAVEPOINT_TERMINATE if drain else pb.SYNC_SAVEPOINT_SUSPEND
    return CheckpointProperties(kind, format_type or pb.CANONICAL)
