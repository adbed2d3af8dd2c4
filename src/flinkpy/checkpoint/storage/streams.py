"""CheckpointStreamFactory: writes the state of one task to the location of one checkpoint.

A handle is returned only when its file is durable. Its checksum is computed over the bytes that the caller writes, so
any later damage is detected.

Source: org.apache.flink.runtime.state.filesystem.FsCheckpointStreamFactory,
org.apache.flink.runtime.state.memory.MemCheckpointStreamFactory.
"""

from __future__ import annotations

import hashlib
import uuid
from pathlib import Path

from flinkpy._proto import checkpoint_pb2
from flinkpy.checkpoint.storage.compression import CODEC, CompressingOutput
from flinkpy.checkpoint.storage.file_system import AtomicOutput, join, storage_error
from flinkpy.checkpoint.storage.file_systems import FileSystems
from flinkpy.common.errors import CheckpointStorageError
from flinkpy.common.failpoints import failpoint
from flinkpy.configuration.checkpointing_options import SNAPSHOT_COMPRESSION, WRITE_BUFFER_SIZE
from flinkpy.configuration.options import AnyConfiguration, read_option
from flinkpy.state.checkpoint_streams import CheckpointedStateScope

#: Flink's default of 4 KiB would cost a system call every few records. 256 KiB is little memory for a task.
MIN_WRITE_BUFFER_BYTES = 256 << 10
_COPY_BYTES = 1 << 20


class CheckpointStreamFactory:
    """Implements `flinkpy.state.checkpoint_streams.CheckpointStreams`. Thread: any.

    Args:
        location: the location in the CheckpointOptions of the barrier. Its exclusive directory exists.
        configuration: the configuration of the job; the configuration of the cluster supplies the other values.
    """

    def __init__(
        self,
        location: checkpoint_pb2.CheckpointLocation,
        configuration: AnyConfiguration,
        file_systems: FileSystems | None = None,
    ) -> None:
        self._location = location
        self._file_systems = file_systems or FileSystems(configuration)
        wanted = read_option(configuration, WRITE_BUFFER_SIZE)
        self._buffer_bytes = max(wanted, MIN_WRITE_BUFFER_BYTES, location.inline_threshold_bytes)
        self._is_compressed = read_option(configuration, SNAPSHOT_COMPRESSION)

    @property
    def can_share(self) -> bool:
        return bool(self._location.shared_directory)

    def create(self, scope: CheckpointedStateScope = CheckpointedStateScope.EXCLUSIVE) -> StateOutputStream:
        return self._create(scope, is_compressed=self._is_compressed)

    def _create(self, scope: CheckpointedStateScope, *, is_compressed: bool) -> StateOutputStream:
        location = self._location
        is_shared = scope is CheckpointedStateScope.SHARED and self.can_share
        directory = location.shared_directory if is_shared else location.exclusive_directory
        if not directory:
            return StateOutputStream(self._file_systems, None, location.max_inline_bytes, self._buffer_bytes)
        return StateOutputStream(
            self._file_systems,
            directory,
            location.inline_threshold_bytes,
            self._buffer_bytes,
            is_compressed=is_compressed,
        )

    def store_file(self, source: Path, scope: CheckpointedStateScope) -> checkpoint_pb2.StreamStateHandle:
        # The backend compresses its files itself.
        stream = self._create(scope, is_compressed=False)
        try:
            with open(source, "rb", buffering=0) as file:
                while chunk := file.read(_COPY_BYTES):
                    stream.write(chunk)
        except OSError as error:
            stream.abort()
            raise storage_error("read", str(source), error) from error
        except BaseException:
            stream.abort()
            raise
        return stream.close_and_get_handle()


class StateOutputStream:
    """A CheckpointOutputStream.

    Content up to `inline_bytes` stays in memory and becomes part of the handle. Longer content is written to a file. If
    there is no directory, it is an error.
    """

    def __init__(
        self,
        file_systems: FileSystems,
        directory: str | None,
        inline_bytes: int,
        buffer_bytes: int,
        *,
        is_compressed: bool = False,
    ) -> None:
        self._file_systems = file_systems
        self._directory = directory
        self._inline_bytes = inline_bytes
        self._buffer_bytes = buffer_bytes
        self._buffer = bytearray()
        self._digest = hashlib.sha256()
        self._written = 0
        self._output: AtomicOutput | None = None
        self._compressing: CompressingOutput | None = None
        self._is_compressed = is_compressed
        self._path = ""
        self._is_closed = False

    def write(self, data: bytes | bytearray | memoryview) -> int:
        if self._is_closed:
            raise CheckpointStorageError(f"the state stream {self._path or '(in memory)'} is closed")
        size = data.nbytes if isinstance(data, memoryview) else len(data)
        self._written += size
        if self._directory is None and self._written > self._inline_bytes:
            self.abort()
            raise CheckpointStorageError(
                f"the state of a task is larger than {self._inline_bytes:,} bytes, the limit of the checkpoint storage "
                "`jobmanager`: set `execution.checkpointing.dir`"
            )
        if len(self._buffer) + size > self._buffer_bytes:
            self._flush()
            if size >= self._buffer_bytes:
                self._put(data)
                return size
        self._buffer += data
        return size

    def tell(self) -> int:
        return self._written

    def close_and_get_handle(self) -> checkpoint_pb2.StreamStateHandle:
        if self._is_closed:
            raise CheckpointStorageError(f"the state stream {self._path or '(in memory)'} is closed")
        if self._output is None and self._written <= self._inline_bytes:
            self._is_closed = True
            content = bytes(self._buffer)
            self._buffer = bytearray()
            digest = hashlib.sha256(content).digest()
            return checkpoint_pb2.StreamStateHandle(data=content, size_bytes=len(content), sha256=digest)
        try:
            self._flush()
            assert self._output is not None
            if self._compressing is not None:
                self._compressing.finish()
            self._output.commit()
        except BaseException:
            self.abort()
            raise
        self._is_closed = True
        handle = checkpoint_pb2.StreamStateHandle(
            path=self._path, size_bytes=self._written, sha256=self._digest.digest()
        )
        if self._compressing is not None:
            handle.compression = CODEC
            handle.stored_size_bytes = self._compressing.stored_bytes
        try:
            failpoint("state_file.before_handle")
        except OSError as error:
            self._file_systems.of(self._path).delete_file(self._path)
            raise storage_error("write", self._path, error) from error
        return handle

    def abort(self) -> None:
        self._is_closed = True
        self._buffer = bytearray()
        output, self._output = self._output, None
        if output is not None:
            output.abort()

    def _flush(self) -> None:
        if self._buffer:
            self._put(self._buffer)
            self._buffer = bytearray()

    def _put(self, data: bytes | bytearray | memoryview) -> None:
        """Writes to the file. Creates the file at the first call."""
        if self._output is None:
            assert self._directory is not None
            self._path = join(self._directory, uuid.uuid4().hex)
            self._output = self._file_systems.of(self._path).create(self._path, "state_file")
            self._compressing = CompressingOutput(self._output) if self._is_compressed else None
        self._digest.update(data)
        try:
            (self._compressing or self._output).write(data)
        except BaseException:
            self.abort()
            raise
