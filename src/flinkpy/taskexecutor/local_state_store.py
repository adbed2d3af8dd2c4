"""Local recovery: keeps copies of the checkpoint files of tasks on the disks of this host.

A restore reads a file from its copy if there is one whose content is intact, otherwise from the checkpoint storage. A
copy that cannot be written or read is dropped without further effect.

```
  written for checkpoint n --> acknowledged with n --> n is completed: kept until a later one is
          |                        |
          +---- n is aborted ------+--> dropped, unless a checkpoint that is kept refers to it
```

Source:
org.apache.flink.runtime.state.{TaskLocalStateStore,TaskLocalStateStoreImpl,TaskExecutorLocalStateStoresManager}.
Differs: one index per job, by file and not by checkpoint; copies do not survive a restart of the process.
"""

from __future__ import annotations

import itertools
import logging
import os
import shutil
import threading
import time
from collections.abc import Hashable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple

from flinkpy._proto import checkpoint_pb2
from flinkpy.common.errors import CheckpointStorageError, ConfigurationError
from flinkpy.common.working_directory import WorkingDirectory
from flinkpy.state.checkpoint_streams import (
    CheckpointedStateScope,
    CheckpointOutputStream,
    CheckpointStreams,
    StateFiles,
)

logger = logging.getLogger(__name__)

_StreamStateHandle = checkpoint_pb2.StreamStateHandle


class LocalStateIndex:
    """The copies of checkpoint files, and the checkpoints that refer to them. Pure. Thread: one at a time.

    A file that was written for one checkpoint may be part of later ones (incremental checkpoints), so a copy is kept as
    long as an acknowledged checkpoint refers to its file. Checkpoints are kept per owner, which is a subtask. Copies
    are looked up by the path of the original, so they serve any subtask of the job that is restored on this host.
    """

    def __init__(self) -> None:
        self._copies: dict[str, Path] = {}
        #: The originals to keep, by owner and checkpoint.
        self._kept: dict[Hashable, dict[int, set[str]]] = {}

    def __len__(self) -> int:
        return len(self._copies)

    def find(self, original: str) -> Path | None:
        return self._copies.get(original)

    def add(self, owner: Hashable, checkpoint_id: int, original: str, copy: Path) -> Path | None:
        """Adds a copy. Returns the copy that it replaces, which must be deleted."""
        replaced = self._copies.get(original)
        self._copies[original] = copy
        self._kept.setdefault(owner, {}).setdefault(checkpoint_id, set()).add(original)
        return replaced if replaced != copy else None

    def acknowledged(self, owner: Hashable, checkpoint_id: int, originals: Iterable[str]) -> list[Path]:
        """Keeps the copies of `originals` for the checkpoint. Returns the copies to delete."""
        self._kept.setdefault(owner, {})[checkpoint_id] = {path for path in originals if path in self._copies}
        return self._unused()

    def completed(self, owner: Hashable, checkpoint_id: int) -> list[Path]:
        """Drops older checkpoints, which will not be restored any more. Returns the copies to delete."""
        kept = self._kept.get(owner, {})
        for older in [known for known in kept if known < checkpoint_id]:
            del kept[older]
        return self._unused()

    def aborted(self, owner: Hashable, checkpoint_id: int) -> list[Path]:
        """Drops the checkpoint. Returns the copies to delete."""
        self._kept.get(owner, {}).pop(checkpoint_id, None)
        return self._unused()

    def restored(self, owner: Hashable, checkpoint_id: int) -> list[Path]:
        """Drops all checkpoints but the one that a new attempt starts from. Returns the copies to delete."""
        kept = self._kept.get(owner)
        if kept is not None:
            self._kept[owner] = {known: paths for known, paths in kept.items() if known == checkpoint_id}
        return self._unused()

    def drop(self, original: str) -> Path | None:
        """Removes and returns an unusable copy."""
        for kept in self._kept.values():
            for paths in kept.values():
                paths.discard(original)
        return self._copies.pop(original, None)

    def _unused(self) -> list[Path]:
        used = {path for kept in self._kept.values() for paths in kept.values() for path in paths}
        return [self._copies.pop(path) for path in list(self._copies) if path not in used]

    def validate(self) -> None:
        """Asserts every invariant."""
        used = {path for kept in self._kept.values() for paths in kept.values() for path in paths}
        assert used == set(self._copies), "a copy is kept exactly as long as a checkpoint refers to it"


_NAME = "localState"


class LocalStateDirectories:
    """The directories of local state copies.

    By default they are in the working directory. Configured directories may be shared with other processes of the host,
    so each process has a subdirectory there. The next process removes the subdirectory of a killed one.

    Source: org.apache.flink.configuration.CheckpointingOptions#LOCAL_RECOVERY_TASK_MANAGER_STATE_ROOT_DIRS.
    """

    def __init__(self, roots: Sequence[Path], owned: Sequence[WorkingDirectory]) -> None:
        self._roots = tuple(roots)
        self._owned = tuple(owned)

    @classmethod
    def open(cls, configured: str | None, working_directory: WorkingDirectory) -> LocalStateDirectories:
        """Opens the directories.

        Args:
            configured: directories separated by commas; None: the working directory.

        Raises: ConfigurationError if a directory cannot be used.
        """
        paths = [part.strip() for part in (configured or "").split(",") if part.strip()]
        if not paths:
            return cls([working_directory.subdirectory(_NAME, empty=True)], [])
        owned: list[WorkingDirectory] = []
        try:
            for path in paths:
                Path(path).mkdir(parents=True, exist_ok=True)
                owned.append(WorkingDirectory.open(None, path, _NAME))
        except (OSError, ConfigurationError) as error:
            for directory in owned:
                directory.close()
            raise ConfigurationError(
                f"`execution.checkpointing.local-backup.dirs`: cannot use {path}: {error}",
                details={"option": "execution.checkpointing.local-backup.dirs"},
            ) from error
        return cls([directory.path for directory in owned], owned)

    def of_job(self, name: str) -> list[Path]:
        return [root / name for root in self._roots]

    def close(self) -> None:
        for directory in self._owned:
            directory.close()


class _FileIdentity(NamedTuple):
    device: int
    inode: int
    size: int
    modified_ns: int


def _identity_of(path: Path) -> _FileIdentity:
    status = path.stat()
    return _FileIdentity(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


class LocalStateStore:
    """The copies of one job on this TaskExecutor. Thread: any.

    Args:
        directories: the copies are spread over them. Created with the first copy, removed by `close`.
        executor: runs the removal of files.
    """

    def __init__(self, directories: Sequence[Path], executor: Executor) -> None:
        self._directories = tuple(directories)
        self._executor = executor
        self._index = LocalStateIndex()
        #: The identities of the copies when they were made. A copy with another one has been written to since.
        self._identities: dict[Path, _FileIdentity] = {}
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._is_closed = False

    def __len__(self) -> int:
        with self._lock:
            return len(self._index)

    def find(self, original: str) -> Path | None:
        with self._lock:
            return self._index.find(original)

    def has_linked(self, handle: checkpoint_pb2.StreamStateHandle, target: Path) -> bool:
        """Makes `target` a hard link to the copy of the file, if there is one that is as this process has written it.

        Such a copy needs no verification, which would read it whole.
        """
        with self._lock:
            copy = self._index.find(handle.path)
            identity = None if copy is None else self._identities.get(copy)
        if copy is None or identity is None:
            return False
        try:
            os.link(copy, target)
        except OSError:
            return False
        if _identity_of(target) == identity and identity.size == handle.size_bytes:
            return True
        target.unlink()
        return False

    def new_path(self) -> Path:
        """Returns the path for a new copy. Raises: OSError if its directory cannot be made."""
        number = next(self._numbers)
        directory = self._directories[number % len(self._directories)]
        directory.mkdir(parents=True, exist_ok=True)
        return directory / f"{number:08d}"

    def add(self, owner: Hashable, checkpoint_id: int, original: str, copy: Path) -> None:
        """Raises: OSError if the copy cannot be read."""
        identity = _identity_of(copy)
        with self._lock:
            if not self._is_closed:
                self._identities[copy] = identity
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
        """Removes all copies. Idempotent."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            self._index = LocalStateIndex()
            self._identities.clear()
        remove_in_background(self._executor, self._directories)

    def _remove(self, paths: Sequence[Path]) -> None:
        for path in paths:
            self._identities.pop(path, None)
        if paths:
            remove_in_background(self._executor, paths)


class LocalBackupStreams:
    """Streams that also write a copy. Implements `flinkpy.state.checkpoint_streams.CheckpointStreams`."""

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
    """Writes to the stream and, once the data is too large to be inlined, to a copy. Thread: one at a time."""

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
            self._streams.keep(handle.path, self._path)
        except OSError as error:
            self._drop_copy()
            _no_copy(handle.path, error)
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
    """Reads files from intact copies, others from storage. Implements `flinkpy.state.checkpoint_streams.StateFiles`.

    Attributes:
        num_local, local_bytes: number and size of the files that were read from copies.
        num_remote, remote_bytes: number and size of the files that were read from storage.
        read_ns: the time that opening and fetching the files took, added up.
    """

    def __init__(self, files: StateFiles, store: LocalStateStore | None) -> None:
        self._files = files
        self._store = store
        self._lock = threading.Lock()
        self.num_local = self.num_remote = 0
        self.local_bytes = self.remote_bytes = 0
        self.read_ns = 0

    def open(self, handle: checkpoint_pb2.StreamStateHandle) -> BinaryIO:
        with self._measured():
            return self._open(handle)

    def fetch(
        self,
        handle: checkpoint_pb2.StreamStateHandle,
        target: Path,
        *,
        never_changes: bool = False,
        checks_itself: bool = False,
    ) -> None:
        with self._measured():
            self._fetch(handle, target, never_changes=never_changes, checks_itself=checks_itself)

    @contextmanager
    def _measured(self) -> Iterator[None]:
        begin_ns = time.monotonic_ns()
        try:
            yield
        finally:
            with self._lock:
                self.read_ns += time.monotonic_ns() - begin_ns

    def _open(self, handle: checkpoint_pb2.StreamStateHandle) -> BinaryIO:
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

    def _fetch(
        self, handle: checkpoint_pb2.StreamStateHandle, target: Path, *, never_changes: bool, checks_itself: bool
    ) -> None:
        if never_changes and self._store is not None and self._store.has_linked(handle, target):
            self._count(handle, is_local=True)
            return
        local = self._local(handle)
        if local is not None:
            try:
                self._files.fetch(local, target, never_changes=never_changes, checks_itself=checks_itself)
            except CheckpointStorageError as error:
                self._not_usable(handle, error)
            else:
                self._count(handle, is_local=True)
                return
        self._files.fetch(handle, target, never_changes=never_changes, checks_itself=checks_itself)
        self._count(handle, is_local=False)

    def _local(self, handle: checkpoint_pb2.StreamStateHandle) -> checkpoint_pb2.StreamStateHandle | None:
        """Returns the handle of the copy, which is verified like any file; None if there is no copy."""
        if self._store is None or handle.WhichOneof("location") != "path":
            return None
        copy = self._store.find(handle.path)
        if copy is None:
            return None
        return _StreamStateHandle(path=str(copy), size_bytes=handle.size_bytes, sha256=handle.sha256)

    def _not_usable(self, handle: checkpoint_pb2.StreamStateHandle, error: CheckpointStorageError) -> None:
        logger.warning("cannot use the local copy of %s, reading the original: %s", handle.path, error)
        assert self._store is not None
        self._store.drop(handle.path)

    def _count(self, handle: checkpoint_pb2.StreamStateHandle, *, is_local: bool) -> None:
        if handle.WhichOneof("location") != "path":
            return  # the state was inlined in the deployment
        with self._lock:
            if is_local:
                self.num_local += 1
                self.local_bytes += handle.size_bytes
            else:
                self.num_remote += 1
                self.remote_bytes += handle.size_bytes


def remove_in_background(executor: Executor, paths: Iterable[Path]) -> None:
    """Removes files and directories on an I/O thread, or on this thread if the executor is shut down."""
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
            logger.warning("cannot remove %s: %s", path, error)


def _link_or_copy(source: Path, target: Path) -> Path:
    """Links a file, which never changes in an LSM backend; copies it if that is not possible."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
    return target


def _no_copy(what: str, error: OSError) -> None:
    logger.warning("keeping no local copy of %s: %s", what, error)
