"""Checkpoint streams and state files in memory, for tests of backends."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from flinkpy._proto import checkpoint_pb2
from flinkpy.common.clock import Clock, ManualClock
from flinkpy.common.configuration import Configuration
from flinkpy.common.errors import CheckpointStorageError, CorruptStateError
from flinkpy.common.key_groups import KeyGroupRange
from flinkpy.state.backend import KeyContext, KeyedStateBackendParameters
from flinkpy.state.checkpoint_streams import CheckpointedStateScope

OPTIONS = checkpoint_pb2.CheckpointOptions()
ALL_KEY_GROUPS = KeyGroupRange(0, 127)


class MemoryOutputStream:
    def __init__(self, owner: MemoryStreams) -> None:
        self._owner = owner
        self.content = io.BytesIO()

    def write(self, data: bytes | bytearray | memoryview) -> int:
        if self._owner.fails_after is not None and self.tell() + len(data) > self._owner.fails_after:
            raise CheckpointStorageError("the disk is full")
        return self.content.write(data)

    def tell(self) -> int:
        return self.content.tell()

    def close_and_get_handle(self) -> checkpoint_pb2.StreamStateHandle:
        data = self.content.getvalue()
        self._owner.open_streams.remove(self)
        path = f"memory:{len(self._owner.files)}"
        self._owner.files[path] = data
        return checkpoint_pb2.StreamStateHandle(path=path, size_bytes=len(data), sha256=hashlib.sha256(data).digest())

    def abort(self) -> None:
        if self in self._owner.open_streams:
            self._owner.open_streams.remove(self)


class MemoryStreams:
    """Implements both CheckpointStreams and StateFiles in memory."""

    can_share = False

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.open_streams: list[MemoryOutputStream] = []
        #: Writing beyond this many bytes of a file fails.
        self.fails_after: int | None = None

    def create(self, scope: CheckpointedStateScope = CheckpointedStateScope.EXCLUSIVE) -> MemoryOutputStream:
        stream = MemoryOutputStream(self)
        self.open_streams.append(stream)
        return stream

    def store_file(self, source: Path, scope: CheckpointedStateScope) -> checkpoint_pb2.StreamStateHandle:
        stream = self.create(scope)
        stream.write(source.read_bytes())
        return stream.close_and_get_handle()

    def open(self, handle: checkpoint_pb2.StreamStateHandle) -> BinaryIO:
        data = self.files[handle.path]
        if hashlib.sha256(data).digest() != handle.sha256:
            raise CorruptStateError(handle.path)
        return io.BytesIO(data)

    def damage(self, handle: checkpoint_pb2.StreamStateHandle, change: Callable[[bytes], bytes]) -> None:
        """Changes a file and its checksum, as another release or a bug would write it."""
        self.files[handle.path] = change(self.files[handle.path])
        handle.sha256 = hashlib.sha256(self.files[handle.path]).digest()

    def fetch(
        self,
        handle: checkpoint_pb2.StreamStateHandle,
        target: Path,
        *,
        never_changes: bool = False,
        checks_itself: bool = False,
    ) -> None:
        target.write_bytes(self.open(handle).read())


def parameters(
    *handles: checkpoint_pb2.KeyedStateHandle,
    files: MemoryStreams | None = None,
    key_groups: KeyGroupRange = ALL_KEY_GROUPS,
    max_parallelism: int = 128,
    key_type: Any = None,
    clock: Clock | None = None,
    configuration: dict[str, str] | None = None,
    directory: Path | None = None,
) -> KeyedStateBackendParameters:
    return KeyedStateBackendParameters(
        configuration=Configuration.from_dict(configuration or {}),
        key_context=KeyContext(),
        key_group_range=key_groups,
        max_parallelism=max_parallelism,
        key_type=key_type,
        operator_name="count words",
        restored=handles,
        files=files,
        directory=directory,
        clock=clock or ManualClock(1_000),
    )
