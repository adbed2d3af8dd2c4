"""SharedJobResultStore: the results of ended jobs in the directory that all Dispatchers share.

Source: org.apache.flink.runtime.highavailability.nonha.embedded.EmbeddedJobResultStore, FileSystemJobResultStore.
Differs: the first result of a job is kept (Flink overwrites it), and only the leading Dispatcher adds one.
Blocking.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

from flinkpy._proto import dispatcher_pb2
from flinkpy.common.durable_file import sync_directory, unfinished_path, write_checksummed
from flinkpy.common.errors import LeadershipLostError
from flinkpy.common.ids import JobID
from flinkpy.highavailability.file_job_result_store import FileJobResultStore
from flinkpy.highavailability.zookeeper.fenced_writes import FencedWrites

logger = logging.getLogger(__name__)


class SharedJobResultStore(FileJobResultStore):
    """A FileJobResultStore whose methods also raise LeadershipLostError and HighAvailabilityError."""

    def __init__(self, directory: Path, writes: FencedWrites) -> None:
        # A former leader may still be writing. Its unfinished files are removed.
        writes.check("use the results of jobs")
        super().__init__(directory)
        self._writes = writes

    def create_dirty(self, terminated: dispatcher_pb2.JobTerminated) -> None:
        job_id = JobID(terminated.job_id)
        aside = unfinished_path(self._directory / f"{job_id}.whole")
        write_checksummed(aside, terminated.SerializeToString())
        try:
            self._writes.check(f"store the result of job {job_id}")
            if self.contains(job_id):
                logger.warning("keeping the result that job %s has already", job_id)
                return
            os.link(aside, self.dirty_path(job_id))
        except FileExistsError:
            logger.warning("keeping the result that job %s has already", job_id)
            return
        finally:
            aside.unlink(missing_ok=True)
        try:
            # This process may have been suspended after the check, so another leader may have the job by now.
            self._writes.check(f"store the result of job {job_id}")
        except LeadershipLostError:
            self.dirty_path(job_id).unlink(missing_ok=True)
            raise
        sync_directory(self._directory)

    def mark_clean(self, job_id: JobID) -> None:
        self._writes.check(f"mark the result of job {job_id} as clean")
        super().mark_clean(job_id)

    def remove(self, job_id: JobID) -> None:
        self._writes.check(f"remove the result of job {job_id}")
        super().remove(job_id)
