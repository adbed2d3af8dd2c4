"""CheckpointStorage: the directories of a job's checkpoints and savepoints.

    <execution.checkpointing.dir>/<job id>/chk-<n>/      the files that only checkpoint n needs, and its _metadata
                                          shared/        files of several checkpoints
                                          taskowned/
    <savepoint directory>/savepoint-<job id, first 6>-<12 hex>/

Without a directory (storage `jobmanager`) the acknowledgements contain the state, and `_metadata` is stored with the
other files of the JobMaster. So a JobMaster can be replaced after a crash in both cases.

Source: org.apache.flink.runtime.state.filesystem.{AbstractFsCheckpointStorageAccess,FsCheckpointStorageAccess}.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from pathlib import Path

from flinkpy._proto import checkpoint_pb2
from flinkpy.checkpoint.metadata import CHECKPOINT_DIRECTORY_PREFIX, METADATA_FILE_NAME, write_metadata
from flinkpy.checkpoint.storage.file_system import FileSystem, join
from flinkpy.checkpoint.storage.file_systems import FileSystems, normalized
from flinkpy.common.errors import CheckpointStorageError, ConfigurationError
from flinkpy.configuration.checkpointing_options import (
    CREATE_SUBDIR,
    DATA_INLINE_THRESHOLD,
    DIRECTORY,
    SAVEPOINT_DIRECTORY,
    STORAGE,
)
from flinkpy.configuration.options import AnyConfiguration, read_option

SHARED_DIRECTORY = "shared"
TASK_OWNED_DIRECTORY = "taskowned"
#: Flink's maximum of the inline threshold. The metadata is read as a whole, and contains the inlined state of all
#: subtasks.
MAX_INLINE_THRESHOLD_BYTES = 1 << 20
#: Flink's maximum for the state of one kind of one subtask without a checkpoint directory.
MAX_STATE_BYTES_WITHOUT_DIRECTORY = 5 << 20


@dataclass(frozen=True, slots=True)
class CheckpointStorageLocation:
    """The location of one checkpoint or savepoint.

    Attributes:
        directory: the directory of `_metadata`, which is the external path.
        for_tasks: the location in the barriers. It has no directories if all state is inlined.
    """

    directory: str
    for_tasks: checkpoint_pb2.CheckpointLocation
    is_savepoint: bool = False


class CheckpointStorage:
    """The checkpoint directories of one job. Blocking, except `location_of`. Thread: any.

    Attributes:
        job_directory: contains the directories chk-<n>.
        owns_job_directory: True if no other job writes into it.
    """

    def __init__(
        self,
        file_systems: FileSystems,
        job_id: str,
        job_directory: str,
        *,
        inlines_everything: bool,
        owns_job_directory: bool = True,
        savepoint_directory: str | None = None,
        inline_threshold_bytes: int = 20 << 10,
    ) -> None:
        self.file_systems = file_systems
        self.job_id = job_id
        self.job_directory = job_directory
        self.owns_job_directory = owns_job_directory
        self.inlines_everything = inlines_everything
        self._savepoint_directory = savepoint_directory
        self._inline_threshold_bytes = min(inline_threshold_bytes, MAX_INLINE_THRESHOLD_BYTES)

    @classmethod
    def from_configuration(
        cls,
        configuration: AnyConfiguration,
        job_id: str,
        recovery_directory: Path | str,
        file_systems: FileSystems | None = None,
    ) -> CheckpointStorage:
        """Reads the options. Accesses no file. Raises: ConfigurationError."""
        configured = read_option(configuration, DIRECTORY)
        storage = read_option(configuration, STORAGE) or ("filesystem" if configured else "jobmanager")
        if storage == "filesystem" and not configured:
            raise ConfigurationError(
                "`execution.checkpointing.storage` is `filesystem`, which needs `execution.checkpointing.dir`"
            )
        owns_job_directory = True
        if configured:
            owns_job_directory = read_option(configuration, CREATE_SUBDIR)
            base = normalized(configured)
            job_directory = join(base, job_id) if owns_job_directory else base
        else:
            job_directory = join(normalized(str(Path(recovery_directory).absolute())), "checkpoints")
        savepoints = read_option(configuration, SAVEPOINT_DIRECTORY)
        return cls(
            file_systems or FileSystems(configuration),
            job_id,
            job_directory,
            inlines_everything=storage == "jobmanager",
            owns_job_directory=owns_job_directory,
            savepoint_directory=normalized(savepoints) if savepoints else None,
            inline_threshold_bytes=read_option(configuration, DATA_INLINE_THRESHOLD),
        )

    @property
    def shared_directory(self) -> str:
        return join(self.job_directory, SHARED_DIRECTORY)

    @property
    def _file_system(self) -> FileSystem:
        return self.file_systems.of(self.job_directory)

    def check_writable(self) -> None:
        """Makes the directories of the job and writes a file there, as a test.

        Raises: CheckpointStorageError, which names the directory.
        """
        directories = [self.job_directory]
        if not self.inlines_everything:
            directories += [self.shared_directory, join(self.job_directory, TASK_OWNED_DIRECTORY)]
        path = join(self.job_directory, f".writable-{uuid.uuid4().hex}")
        try:
            for directory in directories:
                self._file_system.make_directories(directory)
            output = self._file_system.create(path, "state_file")
            output.write(b"flinkpy")
            output.commit()
            self._file_system.delete_file(path)
        except CheckpointStorageError as error:
            raise CheckpointStorageError(
                f"checkpoints cannot be written to {self.job_directory}: {error}", details={"path": self.job_directory}
            ) from error

    def location_of(self, checkpoint_id: int) -> CheckpointStorageLocation:
        directory = self.directory_of(checkpoint_id)
        if self.inlines_everything:
            return CheckpointStorageLocation(directory, _inline_location())
        for_tasks = checkpoint_pb2.CheckpointLocation(
            exclusive_directory=directory,
            shared_directory=self.shared_directory,
            task_owned_directory=join(self.job_directory, TASK_OWNED_DIRECTORY),
            inline_threshold_bytes=self._inline_threshold_bytes,
        )
        return CheckpointStorageLocation(directory, for_tasks)

    def directory_of(self, checkpoint_id: int) -> str:
        return join(self.job_directory, f"{CHECKPOINT_DIRECTORY_PREFIX}{checkpoint_id}")

    def initialize(self, location: CheckpointStorageLocation) -> None:
        """Makes the directories of a checkpoint, before its barriers are sent.

        Raises: CheckpointStorageError, also if the directory contains a complete checkpoint, which is another job's.
        """
        file_system = self.file_systems.of(location.directory)
        if file_system.exists(join(location.directory, METADATA_FILE_NAME)):
            raise CheckpointStorageError(
                f"{location.directory} already contains a complete checkpoint, which is not overwritten; does another "
                "job write to this directory (`execution.checkpointing.create-subdir`)?",
                details={"path": location.directory},
            )
        tasks = location.for_tasks
        for directory in (location.directory, tasks.shared_directory, tasks.task_owned_directory):
            if directory:
                file_system.make_directories(directory)

    def savepoint_location(self, target_directory: str | None = None) -> CheckpointStorageLocation:
        """Makes a new directory for a savepoint.

        Args:
            target_directory: the parent directory; None or empty: that of `execution.checkpointing.savepoint-dir`.

        Raises: CheckpointStorageError; ConfigurationError if there is neither.
        """
        base = normalized(target_directory) if target_directory else self._savepoint_directory
        if base is None:
            raise ConfigurationError(
                "no directory for savepoints: name one, or set `execution.checkpointing.savepoint-dir`"
            )
        directory = join(base, f"savepoint-{self.job_id[:6]}-{uuid.uuid4().hex[:12]}")
        self.file_systems.of(directory).make_directories(directory)
        for_tasks = checkpoint_pb2.CheckpointLocation(
            exclusive_directory=directory, inline_threshold_bytes=self._inline_threshold_bytes
        )
        return CheckpointStorageLocation(directory, for_tasks, is_savepoint=True)

    def write_metadata(self, location: CheckpointStorageLocation, metadata: checkpoint_pb2.CheckpointMetadata) -> str:
        """Writes `_metadata` and returns the external path.

        Raises: CheckpointStorageError. No `_metadata` exists then.
        """
        return write_metadata(self.file_systems, location.directory, metadata)

    def discard_location(self, location: CheckpointStorageLocation) -> None:
        """Deletes the directory of an aborted checkpoint. Raises: CheckpointStorageError."""
        self.file_systems.of(location.directory).delete_directory(location.directory)


def _inline_location() -> checkpoint_pb2.CheckpointLocation:
    return checkpoint_pb2.CheckpointLocation(
        inline_threshold_bytes=MAX_STATE_BYTES_WITHOUT_DIRECTORY, max_inline_bytes=MAX_STATE_BYTES_WITHOUT_DIRECTORY
    )
