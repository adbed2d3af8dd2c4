"""JobGraphStore on disk: one checksummed file per accepted job. Blocking.

Source: org.apache.flink.runtime.jobmanager.DefaultExecutionPlanStore.
"""

from __future__ import annotations

from pathlib import Path

from google.protobuf.message import DecodeError

from flinkpy._proto import job_pb2
from flinkpy.common.durable_file import (
    CorruptFileError,
    read_checksummed,
    remove_durably,
    remove_unfinished,
    write_checksummed,
)
from flinkpy.common.ids import JobID
from flinkpy.common.safe_paths import safe_join

_SUFFIX = ".jobgraph"


class FileJobGraphStore:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        remove_unfinished(directory)

    def put(self, job_graph: job_pb2.JobGraph) -> None:
        write_checksummed(self._path(JobID(job_graph.job_id)), job_graph.SerializeToString())

    def remove(self, job_id: JobID) -> None:
        remove_durably(self._path(job_id))

    def job_ids(self) -> list[JobID]:
        return [JobID(path.stem) for path in sorted(self._directory.glob(f"*{_SUFFIX}"))]

    def recover(self, job_id: JobID) -> job_pb2.JobGraph:
        """Raises: FileNotFoundError, CorruptFileError."""
        path = self._path(job_id)
        try:
            return job_pb2.JobGraph.FromString(read_checksummed(path))
        except DecodeError as error:
            raise CorruptFileError(f"{path} holds no JobGraph: {error}", details={"path": str(path)}) from error

    def _path(self, job_id: JobID) -> Path:
        return safe_join(self._directory, f"{job_id}{_SUFFIX}")
