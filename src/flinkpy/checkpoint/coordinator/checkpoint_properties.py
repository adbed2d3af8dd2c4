"""CheckpointProperties: the kind of a checkpoint, and the rules that follow from it.

Source: org.apache.flink.runtime.checkpoint.CheckpointProperties.
"""

from __future__ import annotations

from dataclasses import dataclass

from flinkpy._proto import checkpoint_pb2 as pb

_SYNC_KINDS = frozenset({pb.SYNC_SAVEPOINT_SUSPEND, pb.SYNC_SAVEPOINT_TERMINATE})


@dataclass(frozen=True, slots=True)
class CheckpointProperties:
    """The kind of a checkpoint. `format` is only set for savepoints."""

    kind: pb.SnapshotKind
    format: pb.SavepointFormatType = pb.SAVEPOINT_FORMAT_TYPE_UNSPECIFIED

    @property
    def is_savepoint(self) -> bool:
        """True if it belongs to the user, so that the job never deletes it."""
        return self.kind == pb.SAVEPOINT or self.is_synchronous

    @property
    def is_synchronous(self) -> bool:
        """True if the job ends with it."""
        return self.kind in _SYNC_KINDS

    @property
    def is_forced(self) -> bool:
        """True if it ignores the minimum pause and the maximum of concurrent checkpoints, and is never subsumed."""
        return self.is_savepoint

    @property
    def counts_for_recovery(self) -> bool:
        """True if a failed job may be restored from it, and sinks commit their results up to it.

        A savepoint that does not end the job only belongs to the user. The job neither restarts from it nor commits.
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
