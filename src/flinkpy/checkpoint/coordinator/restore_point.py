"""RestorePoint: a checkpoint that counts, as far as a restore needs it."""

from __future__ import annotations

from dataclasses import dataclass

from flinkpy._proto import checkpoint_pb2 as pb


@dataclass(frozen=True, slots=True)
class RestorePoint:
    """`is_owned` is false for what the user keeps (NO_CLAIM): the job's own checkpoints may not refer to its files."""

    metadata: pb.CheckpointMetadata
    external_path: str
    is_savepoint: bool = False
    is_owned: bool = True

    @property
    def checkpoint_id(self) -> int:
        return self.metadata.checkpoint_id
