"""The interfaces between state and checkpoint storage: snapshots, the streams they are written to, and their files.

A snapshot has two phases. A short synchronous phase on the task thread freezes the state. A long asynchronous phase on
another thread writes it. `flinkpy.checkpoint.storage` implements the streams. Handles are messages of checkpoint.proto.

Source: org.apache.flink.runtime.state.{CheckpointStreamFactory,SnapshotStrategy,Snapshotable}.
"""

from __future__ import annotations

import enum
from pathlib import Path
from typing import BinaryIO, Generic, Protocol, TypeVar

from flinkpy._proto import checkpoint_pb2


class CheckpointedStateScope(enum.Enum):
    """The checkpoints that may use a file. Source: org.apache.flink.runtime.state.CheckpointedStateScope."""

    EXCLUSIVE = "used by one checkpoint"
    SHARED = "used by several checkpoints"


class CheckpointOutputStream(Protocol):
    """A file that is being written. Thread: one at a time.

    The writer calls either `close_and_get_handle` or `abort`. `abort` is idempotent.
    """

    def write(self, data: bytes | bytearray | memoryview) -> int: ...

    def tell(self) -> int:
        """Returns the number of bytes written so far."""
        ...

    def close_and_get_handle(self) -> checkpoint_pb2.StreamStateHandle:
        """Makes the file durable (first its data, then its directory) and returns its handle.

        Small content is stored in the handle itself.

        Raises: CheckpointStorageError. The file is removed then.
        """
        ...

    def abort(self) -> None:
        """Discards the file and leaves nothing behind."""
        ...


class CheckpointStreams(Protocol):
    """Creates the files of one task in one checkpoint. Thread: any, because the asynchronous phase uses it."""

    def create(self, scope: CheckpointedStateScope = CheckpointedStateScope.EXCLUSIVE) -> CheckpointOutputStream: ...

    def store_file(self, source: Path, scope: CheckpointedStateScope) -> checkpoint_pb2.StreamStateHandle:
        """Copies a local file into a new file of the checkpoint, and returns its handle."""
        ...

    @property
    def can_share(self) -> bool:
        """True if SHARED files outlive this checkpoint. False for savepoints and without directories."""
        ...


class StateFiles(Protocol):
    """Reads the files of handles. Thread: any."""

    def open(self, handle: checkpoint_pb2.StreamStateHandle) -> BinaryIO:
        """Returns a seekable file. Its whole content has been verified against its length and checksum.

        Raises: CorruptStateError, CheckpointStorageError. Both name the file.
        """
        ...

    def fetch(
        self,
        handle: checkpoint_pb2.StreamStateHandle,
        target: Path,
        *,
        never_changes: bool = False,
        checks_itself: bool = False,
    ) -> None:
        """Copies the verified content to a local file.

        Args:
            never_changes: the caller will not write to `target`, so that it may be a hard link to the original.
            checks_itself: the caller checks what it reads with checksums of its own, so that a linked file is only
                verified by its length.
        """
        ...


H_co = TypeVar("H_co", covariant=True)


class StateSnapshot(Protocol, Generic[H_co]):
    """The state at the moment of the snapshot. Later changes by the task do not affect it.

    `write` is called at most once. `release` is called exactly once, after `write` or instead of it, also after a
    failure or an abort. Both may be called on any thread. Changes of the state are more expensive until `release`.
    """

    def write(self, streams: CheckpointStreams) -> H_co | None:
        """Writes the state and returns its handle, or None if the state is empty.

        Raises: CheckpointStorageError, or another FlinkError that names the state.
        """
        ...

    def release(self) -> None: ...
