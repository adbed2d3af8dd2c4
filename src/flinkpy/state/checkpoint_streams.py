"""Where state is written to and read from, as backends and operators see it.

`flinkpy.checkpoint.storage` implements both; tests may use files in a directory. Handles are those of checkpoint.proto.
"""

from __future__ import annotations

import enum
from pathlib import Path
from typing import BinaryIO, Protocol

from flinkpy._proto import checkpoint_pb2


class CheckpointedStateScope(enum.Enum):
    """Which checkpoints may use a file. Source: org.apache.flink.runtime.state.CheckpointedStateScope."""

    EXCLUSIVE = "of one checkpoint"
    SHARED = "of several"


class CheckpointOutputStream(Protocol):
    """A file being written. Thread: one at a time. Exactly one of the two ends is called; `abort` is idempotent."""

    def write(self, data: bytes | bytearray | memoryview) -> int: ...

    def tell(self) -> int:
        """Bytes written so far."""
        ...

    def close_and_get_handle(self) -> checkpoint_pb2.StreamStateHandle:
        """Make what was written durable (data, then directory); small content is inlined in the handle.

        Raises: CheckpointStorageError, with nothing left behind.
        """
        ...

    def abort(self) -> None:
        """Drop it; leaves nothing behind."""
        ...


class CheckpointStreams(Protocol):
    """The place of one checkpoint, for one task. Thread: any (the asynchronous part runs elsewhere)."""

    def create(self, scope: CheckpointedStateScope = CheckpointedStateScope.EXCLUSIVE) -> CheckpointOutputStream: ...

    def store_file(self, source: Path, scope: CheckpointedStateScope) -> checkpoint_pb2.StreamStateHandle:
        """Copy a local file; like `create`, `write`, `close_and_get_handle`."""
        ...

    @property
    def can_share(self) -> bool:
        """Whether SHARED files outlive this checkpoint (false for savepoints and without directories)."""
        ...


class StateFiles(Protocol):
    """Reads what handles point at. Thread: any."""

    def open(self, handle: checkpoint_pb2.StreamStateHandle) -> BinaryIO:
        """A seekable file whose whole content has been verified against length and checksum before it is returned.

        Raises: CorruptStateError, CheckpointStorageError; both name the file.
        """
        ...

    def fetch(self, handle: checkpoint_pb2.StreamStateHandle, target: Path) -> None:
        """Copy the verified content to a local file."""
        ...
