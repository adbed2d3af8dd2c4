"""Checkpoint storages as objects. `env.configure(storage.to_configuration())` sets the storage of a job.

Source: pyflink.datastream.checkpoint_storage.
"""

from __future__ import annotations

from typing import Any

from flinkpy.common.configuration import Configuration
from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.configuration import checkpointing_options as options

__all__ = [
    "CheckpointStorage",
    "CustomCheckpointStorage",
    "FileSystemCheckpointStorage",
    "JobManagerCheckpointStorage",
]


class CheckpointStorage:
    """The base of checkpoint storages."""

    def __init__(self, j_checkpoint_storage: Any = None) -> None:
        if j_checkpoint_storage is not None:
            raise _no_java(type(self).__name__, j_checkpoint_storage)

    def to_configuration(self) -> Configuration:
        """Returns the options that select this storage, for `env.configure`. Beyond PyFlink."""
        raise NotImplementedError


class JobManagerCheckpointStorage(CheckpointStorage):
    """Sends state to the JobMaster, which stores it in the checkpoint's metadata. It suits small state."""

    DEFAULT_MAX_STATE_SIZE = 5 * 1024 * 1024

    def __init__(
        self,
        checkpoint_path: str | None = None,
        max_state_size: int | None = None,
        j_jobmanager_checkpoint_storage: Any = None,
    ) -> None:
        super().__init__(j_jobmanager_checkpoint_storage)
        self._checkpoint_path = _directory(checkpoint_path)
        self._max_state_size = self.DEFAULT_MAX_STATE_SIZE if max_state_size is None else max_state_size
        if self._max_state_size <= 0:
            raise ValueError("maxStateSize must be > 0")

    def get_checkpoint_path(self) -> str | None:
        """Returns the directory of the metadata; None for a directory of the cluster."""
        return self._checkpoint_path

    def get_max_state_size(self) -> int:
        """Returns the largest size of one task's state in bytes."""
        return self._max_state_size

    def get_savepoint_path(self) -> str | None:
        return None

    def to_configuration(self) -> Configuration:
        if self._max_state_size != self.DEFAULT_MAX_STATE_SIZE:
            raise UnsupportedOperationError(
                f"JobManagerCheckpointStorage: max_state_size must be {self.DEFAULT_MAX_STATE_SIZE} bytes, not "
                f"{self._max_state_size}: no option changes it"
            )
        configuration = Configuration().set_string(options.STORAGE.key, "jobmanager")
        if self._checkpoint_path is not None:
            configuration.set_string(options.DIRECTORY.key, self._checkpoint_path)
        return configuration

    def __str__(self) -> str:
        return f"JobManagerCheckpointStorage(maxStateSize: {self._max_state_size})"


class FileSystemCheckpointStorage(CheckpointStorage):
    """Writes state to files, and small state into the checkpoint's metadata.

    Args:
        checkpoint_path: the directory of the checkpoints, a path or a URI such as `s3://bucket/checkpoints`.
        file_state_size_threshold: the size in bytes below which state goes into the metadata, up to 1 MiB.
        write_buffer_size: the size in bytes of the buffer of a file. -1 is the default.
    """

    MAX_FILE_STATE_THRESHOLD = 1024 * 1024

    def __init__(
        self,
        checkpoint_path: str | None = None,
        file_state_size_threshold: int | None = None,
        write_buffer_size: int = -1,
        j_filesystem_checkpoint_storage: Any = None,
    ) -> None:
        super().__init__(j_filesystem_checkpoint_storage)
        path = _directory(checkpoint_path)
        if path is None:
            raise ValueError("checkpoint_path must not be None")
        threshold = -1 if file_state_size_threshold is None else file_state_size_threshold
        if not -1 <= threshold <= self.MAX_FILE_STATE_THRESHOLD:
            raise ValueError("The threshold for file state size must be in [-1, 1048576].")
        if write_buffer_size < -1:
            raise ValueError("The write buffer size must be not less than '-1'.")
        self._checkpoint_path = path
        self._threshold = threshold
        self._write_buffer_size = write_buffer_size

    def get_checkpoint_path(self) -> str:
        return self._checkpoint_path

    def get_savepoint_path(self) -> str | None:
        return None

    def get_min_file_size_threshold(self) -> int:
        """Returns the size in bytes below which state is part of the metadata."""
        return options.DATA_INLINE_THRESHOLD.default if self._threshold < 0 else self._threshold

    def get_write_buffer_size(self) -> int:
        return options.WRITE_BUFFER_SIZE.default if self._write_buffer_size < 0 else self._write_buffer_size

    def to_configuration(self) -> Configuration:
        configuration = Configuration()
        configuration.set_string(options.STORAGE.key, "filesystem")
        configuration.set_string(options.DIRECTORY.key, self._checkpoint_path)
        configuration.set_string(options.DATA_INLINE_THRESHOLD.key, f"{self.get_min_file_size_threshold()} bytes")
        configuration.set_integer(options.WRITE_BUFFER_SIZE.key, self.get_write_buffer_size())
        return configuration

    def __str__(self) -> str:
        return (
            f"FileSystemCheckpointStorage(checkpointDirectory: {self._checkpoint_path}, fileStateThreshold: "
            f"{self.get_min_file_size_threshold()}, writeBufferSize: {self.get_write_buffer_size()})"
        )


class CustomCheckpointStorage(CheckpointStorage):
    """PyFlink's wrapper of a Java object. It always raises, because flinkpy has no JVM."""

    def __init__(self, j_custom_checkpoint_storage: Any) -> None:
        raise _no_java("CustomCheckpointStorage", j_custom_checkpoint_storage)


def _directory(path: str | None) -> str | None:
    if path is None:
        return None
    if not isinstance(path, str) or not path:
        raise ValueError(f"a checkpoint path must be a non-empty string, not {path!r}")
    return path.rstrip("/") or path


def _no_java(name: str, storage: Any) -> UnsupportedOperationError:
    return UnsupportedOperationError(
        f"{name}({storage!r}): a custom storage is a Java object, and flinkpy has no JVM; set "
        "execution.checkpointing.storage to `filesystem` (any file system that pyarrow or fsspec knows) or `jobmanager`"
    )
