"""CompletedCheckpoint: a checkpoint from which a job can be restored; and the retention of checkpoints.

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
    """A complete checkpoint or savepoint.

    Attributes:
        metadata: its content. All paths are absolute.
        external_path: the directory of `_metadata`.
        is_owned: True if the job may delete it when it is not needed any more. False after a restore with NO_CLAIM.
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
    """Decides after which terminal states of a job its checkpoints are kept.

    The names are the values of `execution.checkpointing.externalized-checkpoint-retention`.
    """

    NO_EXTERNALIZED_CHECKPOINTS = frozenset[str]()
    DELETE_ON_CANCELLATION = frozenset({"FAILED"})
    RETAIN_ON_CANCELLATION = frozenset({"FAILED", "CANCELED"})

    def keeps_after(self, status: JobStatus, cause: BaseException | None = None) -> bool:
        """True if the checkpoints of a job that ended in `status`, because of `cause`, are kept.

        A suspended job continues elsewhere and needs them. If a sink lost records and the job failed because of that,
        the user needs them too: only from a checkpoint can the job write the records again, or continue without them.
        """
        return (
            not status.is_globally_terminal_state()
            or status.name in self.value
            or (status is JobStatus.FAILED and is_caused_by(cause, CommittablesLostError))
        )
