"""CompletedCheckpoint: one that can be restored from; and what becomes of checkpoints when their job ends.

Source: org.apache.flink.runtime.checkpoint.{CompletedCheckpoint,CheckpointProperties}.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from flinkpy._proto import checkpoint_pb2
from flinkpy.checkpoint.state_handles import handles_of_metadata, shared_paths_of_metadata, state_size_bytes
from flinkpy.common.errors import CommittablesLostError, is_caused_by
from flinkpy.common.job_status import JobStatus

_CHECKPOINT_KINDS = frozenset({checkpoint_pb2.CHECKPOINT, checkpoint_pb2.FULL_CHECKPOINT})


def is_savepoint(metadata: checkpoint_pb2.CheckpointMetadata) -> bool:
    return metadata.kind not in _CHECKPOINT_KINDS


@dataclass(frozen=True, slots=True)
class CompletedCheckpoint:
    """Attributes:
    metadata: with absolute paths only.
    external_path: the directory that has `_metadata`.
    is_owned: the job may delete it when it is no longer needed; false where it was restored with NO_CLAIM.
    """

    metadata: checkpoint_pb2.CheckpointMetadata
    external_path: str
    is_owned: bool = True

    @property
    def checkpoint_id(self) -> int:
        return self.metadata.checkpoint_id

    @property
    def is_savepoint(self) -> bool:
        return is_savepoint(self.metadata)

    @property
    def shared_paths(self) -> set[str]:
        return shared_paths_of_metadata(self.metadata)

    @property
    def state_size_bytes(self) -> int:
        return state_size_bytes(handles_of_metadata(self.metadata))

    def __repr__(self) -> str:
        kind = "savepoint" if self.is_savepoint else "checkpoint"
        return f"{kind} {self.checkpoint_id} at {self.external_path}"


class CheckpointRetention(enum.Enum):
    """Which ends of the job its checkpoints outlive. Values of `...externalized-checkpoint-retention`."""

    NO_EXTERNALIZED_CHECKPOINTS = frozenset[str]()
    DELETE_ON_CANCELLATION = frozenset({"FAILED"})
    RETAIN_ON_CANCELLATION = frozenset({"FAILED", "CANCELED"})

    def keeps_after(self, status: JobStatus, cause: BaseException | None = None) -> bool:
        """Returns whether the checkpoints of a job that ended in `status`, because of `cause`, are kept.

        A suspended job goes on elsewhere and needs them. So does the user of a job that failed because a sink has
        lost records: a checkpoint is the only way to write them again, or to go on without them.
        """
        return (
            not status.is_globally_terminal_state()
            or status.name in self.value
            or (status is JobStatus.FAILED and is_caused_by(cause, CommittablesLostError))
        )
