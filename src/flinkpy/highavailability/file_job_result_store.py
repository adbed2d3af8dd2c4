"""JobResultStore on disk: one checksummed file per ended job. Blocking.

```
   create_dirty: <job>_DIRTY.result      the result is stored; other data of the job may still exist
   mark_clean:   <job>.result            all other data of the job has been removed
```

A job that has an entry, dirty or clean, is not run again.

Source: org.apache.flink.runtime.highavailability.nonha.embedded.EmbeddedJobResultStore, FileSystemJobResultStore.
Differs: an entry also holds the job's archived details (Flink: ExecutionGraphInfoStore), so that both are kept or lost
together.
"""

from __future__ import annotations

import os
from pathlib import Path

from google.protobuf.message import DecodeError

from flinkpy._proto import dispatcher_pb2
from flinkpy.common.durable_file import (
    CorruptFileError,
    read_checksummed,
    remove_durably,
    remove_unfinished,
    sync_directory,
    write_checksummed,
)
from flinkpy.common.ids import JobID
from flinkpy.common.safe_paths import safe_join

_CLEAN = ".result"
_DIRTY = "_DIRTY.result"


class FileJobResultStore:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        remove_unfinished(directory)

    def create_dirty(self, terminated: dispatcher_pb2.JobTerminated) -> None:
        write_checksummed(self.dirty_path(JobID(terminated.job_id)), terminated.SerializeToString())

    def mark_clean(self, job_id: JobID) -> None:
        """Idempotent."""
        dirty = safe_join(self._directory, f"{job_id}{_DIRTY}")
        if dirty.exists():
            os.replace(dirty, safe_join(self._directory, f"{job_id}{_CLEAN}"))
            sync_directory(self._directory)

    def remove(self, job_id: JobID) -> None:
        """Removes the entry. Idempotent."""
        for suffix in (_CLEAN, _DIRTY):
            remove_durably(safe_join(self._directory, f"{job_id}{suffix}"))

    def contains(self, job_id: JobID) -> bool:
        return any((safe_join(self._directory, f"{job_id}{suffix}")).exists() for suffix in (_CLEAN, _DIRTY))

    def load(self, job_id: JobID) -> dispatcher_pb2.JobTerminated | None:
        """Returns the result; None if there is no entry. Raises: CorruptFileError."""
        for suffix in (_CLEAN, _DIRTY):
            path = safe_join(self._directory, f"{job_id}{suffix}")
            try:
                return dispatcher_pb2.JobTerminated.FromString(read_checksummed(path))
            except FileNotFoundError:
                continue
            except DecodeError as error:
                raise CorruptFileError(f"{path} holds no job result: {error}", details={"path": str(path)}) from error
        return None

    def dirty_job_ids(self) -> list[JobID]:
        return sorted(JobID(path.name.removesuffix(_DIRTY)) for path in self._directory.glob(f"*{_DIRTY}"))

    def clean_job_ids(self) -> list[JobID]:
        """Returns the jobs with clean entries, oldest first."""
        return [JobID(path.name.removesuffix(_CLEAN)) for path in self._clean_paths()]

    def dirty_path(self, job_id: JobID) -> Path:
        """Returns the path of the result while the entry is dirty."""
        return safe_join(self._directory, f"{job_id}{_DIRTY}")

    def _clean_paths(self) -> list[Path]:
        paths = [path for path in self._directory.glob(f"*{_CLEAN}") if not path.name.endswith(_DIRTY)]
        return sorted(paths, key=lambda path: path.stat().st_mtime_ns)
