"""Local recovery: a second copy of what the tasks of a job write for checkpoints, on this host's disk.

A restore reads a file from its copy where there is one and its content is what was written, else from the
checkpoint's own storage. Copies are a convenience: one that cannot be written or read is dropped and nothing else
happens.

Source: org.apache.flink.runtime.state.{TaskLocalStateStore,TaskExecutorLocalStateStoresManager}.
"""

from __future__ import annotations

import itertools
import logging
import os
import shutil
import threading
from collections.abc import Hashable, Iterable, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import BinaryIO

from flinkpy._proto import checkpoint_pb2
from flinkpy.common.errors import CheckpointStorageError
from flinkpy.state.checkpoint_streams import (
    CheckpointedStateScope,
    CheckpointOutputStream,
    CheckpointStreams,
    StateFiles,
)
from flinkpy.taskexecutor.local_state_index import LocalStateIndex

logger = logging.getLogger(__name__)

_StreamStateHandle = checkpoint_pb2.StreamStateHandle


class LocalStateStore:
    """The copies of one job on this TaskExecutor. Thread: any.

    Args:
        directories: created when the first copy is written, removed by `close`; copies are spread over them.
        executor: removes files.
    """

    def __init__(self, directories: Sequence[Path], executor: Executor) -> None:
        self._directories = tuple(directories)
        self._executor = executor
        self._index = LocalStateIndex()
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._is_closed = False

    def __len__(self) -> int:
        with self._lock:
            return len(self._index)

    def find(self, original: str) -> Path | None:
        with self._lock:
            return self._index.find(original)

    def new_path(self) -> Path:
        """Of a copy about to be written. Raises: OSError where its directory cannot be made."""
        number = next(self._numbers)
        directory = self._directories[number % len(self._directories)]
        directory.mkdir(parents=True, exist_ok=True)
        return directory / f"{number:08d}"

    def add(self, owner: Hashable, checkpoint_id: int, original: str, copy: Path) -> None:
        with self._lock:
            if not self._is_closed:
                replaced = self._index.add(owner, checkpoint_id, original, copy)
                self._remove(() if replaced is None else (replaced,))
                return
        copy.unlink(missing_ok=True)

    def acknowledged(self, owner: Hashable, checkpoint_id: int, originals: Iterable[str]) -> None:
        with self._lock:
            self._remove(self._index.acknowledged(owner, checkpoint_id, originals))

    def completed(self, owner: Hashable, checkpoint_id: int) -> None:
        with self._lock:
            self._remove(self._index.completed(owner, checkpoint_id))

    def aborted(self, owner: Hashable, checkpoint_id: int) -> None:
        with self._lock:
            self._remove(self._index.aborted(owner, checkpoint_id))

    def restored(self, owner: Hashable, checkpoint_id: int) -> None:
        with self._lock:
            self._remove(self._index.restored(owner, checkpoint_id))

    def drop(self, original: str) -> None:
        with self._lock:
            copy = self._index.drop(original)
            self._remove(() if copy is None else (copy,))

    def close(self) -> None:
        """Remove everything. Idempotent."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            self._index = LocalStateIndex()
        remove_in_background(self._executor, self._directories)

    def _remove(self, paths: Sequence[Path]) -> None:
        if paths:
            remove_in_background(self._executor, paths)


class LocalBackupStreams:
    """Streams that write a copy too. Implements `flinkpy.state.checkpoint_streams.CheckpointStreams`."""

    def __init__(
        self, streams: CheckpointStreams, store: LocalStateStore, owner: Hashable, checkpoint_id: int, buffer_bytes: int
    ) -> None:
        self._streams = streams
        self._store = store
        self._owner = owner
        self._checkpoint_id = checkpoint_id
        self._buffer_bytes = buffer_bytes

    @property
    def can_share(self) -> bool:
        return self._streams.can_share

    def create(self, scope: CheckpointedStateScope = CheckpointedStateScope.EXCLUSIVE) -> CheckpointOutputStream:
        return _BackupStream(self._streams.create(scope), self, self._store, self._buffer_bytes)

    def store_file(self, source: Path, scope: CheckpointedStateScope) -> checkpoint_pb2.StreamStateHandle:
        handle = self._streams.store_file(source, scope)
        if handle.WhichOneof("location") == "path":
            try:
                self.keep(handle.path, _link_or_copy(source, self._store.new_path()))
            except OSError as error:
                _no_copy(handle.path, error)
        return handle

    def keep(self, original: str, copy: Path) -> None:
        self._store.add(self._owner, self._checkpoint_id, original, copy)


class _BackupStream:
    """Writes to both. The copy begins when there is more than what would be inlined. Thread: one at a time."""

    def __init__(
        self,
        stream: CheckpointOutputStream,
        streams: LocalBackupStreams,
        store: LocalStateStore,
        buffer_bytes: int,
    ) -> None:
        self._stream = stream
        self._streams = streams
        self._store = store
        self._buffer_bytes = buffer_bytes
        self._buffer = bytearray()
        self._path: Path | None = None
        self._copy: BinaryIO | None = None
        self._has_failed = False

    def write(self, data: bytes | bytearray | memoryview) -> int:
        written = self._stream.write(data)
        if not self._has_failed:
            try:
                self._write_copy(data)
            except OSError as error:
                self._drop_copy()
                _no_copy("a state file", error)
        return written

    def tell(self) -> int:
        return self._stream.tell()

    def close_and_get_handle(self) -> checkpoint_pb2.StreamStateHandle:
        try:
            handle = self._stream.close_and_get_handle()
        except BaseException:
            self._drop_copy()
            raise
        if handle.WhichOneof("location") != "path" or self._has_failed:
            self._drop_copy()
            return handle
        try:
            if self._copy is None:
                self._open_copy()
            assert self._copy is not None and self._path is not None
            self._copy.close()
        except OSError as error:
            self._drop_copy()
            _no_copy(handle.path, error)
        else:
            self._streams.keep(handle.path, self._path)
        return handle

    def abort(self) -> None:
        self._drop_copy()
        self._stream.abort()

    def _write_copy(self, data: bytes | bytearray | memoryview) -> None:
        if self._copy is None:
            if len(self._buffer) + len(data) <= self._buffer_bytes:
                self._buffer += data
                return
            self._open_copy()
        assert self._copy is not None
        self._copy.write(data)

    def _open_copy(self) -> None:
        self._path = self._store.new_path()
        self._copy = self._path.open("wb")
        self._copy.write(self._buffer)
        self._buffer.clear()

    def _drop_copy(self) -> None:
        self._has_failed = True
        self._buffer.clear()
        try:
            if self._copy is not None:
                self._copy.close()
        except OSError as error:
            logger.debug("closing a dropped local copy: %s", error)
        if self._path is not None:
            self._path.unlink(missing_ok=True)
        self._copy = self._path = None


class LocalFirstStateFiles:
    """Reads from copies where they are right. Implements `flinkpy.state.checkpoint_streams.StateFiles`.

    Attributes:
        num_local, local_bytes: files that were read from copies; num_remote, remote_bytes: from where they lie.
    """

    def __init__(self, files: StateFiles, store: LocalStateStore | None) -> None:
        self._files = files
        self._store = store
        self._lock = threading.Lock()
        self.num_local = self.num_remote = 0
        self.local_bytes = self.remote_bytes = 0

    def open(self, handle: checkpoint_pb2.StreamStateHandle) -> BinaryIO:
        local = self._local(handle)
        if local is not None:
            try:
                opened = self._files.open(local)
            except CheckpointStorageError as error:
                self._not_usable(handle, error)
            else:
                self._count(handle, is_local=True)
                return opened
        opened = self._files.open(handle)
        self._count(handle, is_local=False)
        return opened

    def fetch(self, handle: checkpoint_pb2.StreamStateHandle, target: Path) -> None:
        local = self._local(handle)
        if local is not None:
            try:
                self._files.fetch(local, target)
            except CheckpointStorageError as error:
                self._not_usable(handle, error)
            else:
                self._count(handle, is_local=True)
                return
        self._files.fetch(handle, target)
        self._count(handle, is_local=False)

    def _local(self, handle: checkpoint_pb2.StreamStateHandle) -> checkpoint_pb2.StreamStateHandle | None:
        """The handle of the copy, which is checked like any other file."""
        if self._store is None or handle.WhichOneof("location") != "path":
            return None
        copy = self._store.find(handle.path)
        if copy is None:
            return None
        return _StreamStateHandle(path=str(copy), size_bytes=handle.size_bytes, sha256=handle.sha256)

    def _not_usable(self, handle: checkpoint_pb2.StreamStateHandle, error: CheckpointStorageError) -> None:
        logger.warning("the local copy of %s cannot be used, reading the original: %s", handle.path, error)
        assert self._store is not None
        self._store.drop(handle.path)

    def _count(self, handle: checkpoint_pb2.StreamStateHandle, *, is_local: bool) -> None:
        if handle.WhichOneof("location") != "path":
            return  # it came with the deployment
        with self._lock:
            if is_local:
                self.num_local += 1
                self.local_bytes += handle.size_bytes
            else:
                self.num_remote += 1
                self.remote_bytes += handle.size_bytes


def remove_in_background(executor: Executor, paths: Iterable[Path]) -> None:
    """Remove files and directories on an I/O thread; here, where no thread takes work any more."""
    targets = list(paths)
    try:
        executor.submit(_remove_all, targets)
    except RuntimeError:  # shut down: the process is ending
        _remove_all(targets)


def _remove_all(paths: list[Path]) -> None:
    for path in paths:
        try:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        except OSError as error:
            logger.warning("%s cannot be removed: %s", path, error)


def _link_or_copy(source: Path, target: Path) -> Path:
    """A hard link costs nothing; the files of an LSM backend never change."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
    return target


def _no_copy(what: str, error: OSError) -> None:
    logger.warning("no local copy of %s is kept: %s", what, error)
