"""Archivist: writes the archives of ended jobs and applications, which the history server shows.

A file is written under another name and then renamed, so readers see whole archives only. The archive of a job is part
of its clean-up: it is tried again after a failure, and the next Dispatcher writes it if this one dies before.

Source: org.apache.flink.runtime.dispatcher.JsonResponseHistoryServerArchivist,
org.apache.flink.runtime.history.FsJsonArchivist. Thread: any; the calls block.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

from flinkpy._proto import checkpoint_pb2, dispatcher_pb2, job_pb2
from flinkpy.common.clock import SystemClock
from flinkpy.common.configuration import Configuration
from flinkpy.common.durable_file import UNFINISHED_SUFFIX
from flinkpy.common.errors import FlinkError
from flinkpy.common.states import JobState
from flinkpy.configuration import client_options, high_availability_options, jobmanager_options
from flinkpy.configuration.options import AnyConfiguration, read_option
from flinkpy.dispatcher.job_archive import archived_accumulators, overview_of
from flinkpy.highavailability.services import is_highly_available
from flinkpy.rest.applications import Application
from flinkpy.rest.archive_format import JOBS, SUMMARY, ArchivedAnswer, application_directory, encode_archive

logger = logging.getLogger(__name__)

#: How long the archive of an application waits for those of its jobs. Flink's history server reads it only once.
JOBS_TIMEOUT_S = 30.0
#: How often it looks for them.
JOBS_INTERVAL_S = 0.2


def read_archivist(configuration: Configuration) -> Archivist | None:
    """Returns what writes archives; None if `jobmanager.archive.fs.dir` is not set. Raises: ConfigurationError."""
    directory = read_option(configuration, jobmanager_options.ARCHIVE_DIRECTORY)
    if directory is None:
        return None
    # Imported here, because a Dispatcher must start fast.
    from flinkpy.checkpoint.storage.file_systems import normalized

    return Archivist(normalized(directory), archive_cluster_id(configuration), configuration)


def archive_cluster_id(configuration: AnyConfiguration) -> str:
    """Returns the directory of this cluster: `cluster.id`, or an id made from `high-availability.cluster-id`."""
    configured = read_option(configuration, client_options.CLUSTER_ID).lower()
    if configured == client_options.NO_CLUSTER_ID and is_highly_available(configuration):
        name = read_option(configuration, high_availability_options.HA_CLUSTER_ID)
        return hashlib.sha256(f"cluster {name}".encode()).hexdigest()[:32]
    return configured


class Archivist:
    """Writes archives below a directory."""

    def __init__(self, directory: str, cluster_id: str, configuration: Configuration) -> None:
        self._directory = directory
        self._cluster_id = cluster_id
        self._configuration = configuration
        self._file_systems: Any = None

    def archive_job(self, terminated: dispatcher_pb2.JobTerminated) -> None:
        """Writes the archive of a job, and that of its application if it has none but this job. Can be repeated.

        Raises: CheckpointStorageError, ConfigurationError.
        """
        from flinkpy.rest.archived_jobs import ArchivedAnswers

        started_s = time.monotonic()
        job_id = terminated.job_id
        application_id = application_of(terminated)
        single = {job_id: _single_job_application(terminated)} if application_id == "" else {}
        answers = ArchivedAnswers(EndedJobs([terminated]), single, self._configuration, SystemClock())
        directory = application_directory(self._directory, self._cluster_id, application_id or job_id)
        content = _collected(answers.of_job(terminated.details, terminated.checkpoint_statistics))
        self._write(f"{directory}/{JOBS}", job_id, content)
        if single:
            # Written last: a reader of the directory takes the jobs that it finds beside it.
            self._write(directory, SUMMARY, _collected(answers.of_application(single[job_id])))
        taken_s = time.monotonic() - started_s
        logger.info("archived job %s below %s (%.1f s, %d bytes)", job_id, directory, taken_s, len(content))

    async def archive_with_jobs(self, application: Application, jobs: list[dispatcher_pb2.JobOverview]) -> None:
        """Writes the archive of an application when those of its jobs are there. A failure is logged.

        Args:
            jobs: the overviews of all jobs that are known.
        """
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(JOBS_TIMEOUT_S):
                    while not await asyncio.to_thread(self.has_jobs_of, application):
                        await asyncio.sleep(JOBS_INTERVAL_S)
            await asyncio.to_thread(self.archive_application, application, jobs)
        except FlinkError as error:
            logger.error("application %s is not in the history: %s", application.id, error)

    def archive_application(self, application: Application, jobs: list[dispatcher_pb2.JobOverview]) -> None:
        """Writes the archive of an application that has ended. Call it when `has_jobs_of` is true.

        Args:
            jobs: the overviews of all jobs that are known.

        Raises: CheckpointStorageError, ConfigurationError.
        """
        from flinkpy.rest.archived_jobs import ArchivedAnswers

        directory = application_directory(self._directory, self._cluster_id, application.id)
        answers = ArchivedAnswers(
            EndedJobs([], jobs), {application.id: application}, self._configuration, SystemClock()
        )
        self._write(directory, SUMMARY, _collected(answers.of_application(application)))

    def has_jobs_of(self, application: Application) -> bool:
        """True if all jobs of an application have been archived. Raises: CheckpointStorageError, ConfigurationError."""
        directory = application_directory(self._directory, self._cluster_id, application.id)
        files = self._files(directory)
        return all(files.exists(f"{directory}/{JOBS}/{job_id}") for job_id in application.jobs)

    def _files(self, path: str) -> Any:
        if self._file_systems is None:
            from flinkpy.checkpoint.storage.file_systems import FileSystems

            self._file_systems = FileSystems(self._configuration)
        return self._file_systems.of(path)

    def _write(self, directory: str, name: str, content: bytes) -> None:
        files = self._files(directory)
        files.make_directories(directory)
        for entry in files.list(directory):
            # A process that died has left it.
            if entry.name.startswith(f"{name}.") and entry.name.endswith(UNFINISHED_SUFFIX):
                files.delete_file(f"{directory}/{entry.name}")
        output = files.create(f"{directory}/{name}", "archive")
        try:
            output.write(content)
            output.commit()
        except BaseException:
            output.abort()
            raise


def _collected(answers: AsyncIterator[ArchivedAnswer]) -> bytes:
    async def collect() -> bytes:
        return encode_archive([one async for one in answers])

    return asyncio.run(collect())


def application_of(terminated: dispatcher_pb2.JobTerminated) -> str:
    """Returns the id of the application whose program submitted the job; empty if it was submitted by itself."""
    return terminated.details.configuration.entries.get(client_options.APPLICATION_ID.key, "")


def _single_job_application(terminated: dispatcher_pb2.JobTerminated) -> Application:
    """Returns the application of a job that was submitted by itself.

    Source: org.apache.flink.runtime.dispatcher.SingleJobApplication.
    """
    details, error = terminated.details, terminated.result.error
    return Application(
        id=terminated.job_id,
        name=f"SingleJobApplication({details.name})",
        configuration=dict(details.configuration.entries),
        started_ms=details.start_time_ms,
        jobs=[terminated.job_id],
        state=JobState(terminated.result.status).name,
        ended_ms=details.end_time_ms,
        message=f"{error.type}: {error.message}" if error.message else "",
        traceback=error.traceback,
    )


class EndedJobs:
    """Answers the questions of the REST server as a Dispatcher does that knows these jobs only.

    Args:
        overviews: of further jobs, which can be listed.
    """

    def __init__(
        self, jobs: list[dispatcher_pb2.JobTerminated], overviews: list[dispatcher_pb2.JobOverview] | None = None
    ) -> None:
        self._jobs = {one.job_id: one for one in jobs}
        self._overviews = [*(overviews or []), *map(overview_of, jobs)]

    async def list_jobs(
        self, request: dispatcher_pb2.ListJobsRequest, timeout_s: float | None = None
    ) -> dispatcher_pb2.ListJobsResponse:
        return dispatcher_pb2.ListJobsResponse(jobs=self._overviews)

    async def request_job(
        self, request: job_pb2.JobDetailsRequest, timeout_s: float | None = None
    ) -> job_pb2.JobDetails:
        return self._jobs[request.job_id].details

    async def request_job_status(
        self, request: dispatcher_pb2.JobIdMessage, timeout_s: float | None = None
    ) -> dispatcher_pb2.JobStatusResponse:
        status = self._jobs[request.job_id].result.status
        return dispatcher_pb2.JobStatusResponse(job_id=request.job_id, status=status)

    async def request_job_result(
        self, request: dispatcher_pb2.RequestJobResultRequest, timeout_s: float | None = None
    ) -> dispatcher_pb2.RequestJobResultResponse:
        return dispatcher_pb2.RequestJobResultResponse(finished=True, result=self._jobs[request.job_id].result)

    async def request_accumulators(
        self, request: job_pb2.AccumulatorsRequest, timeout_s: float | None = None
    ) -> job_pb2.JobAccumulators:
        return archived_accumulators(self._jobs[request.job_id], request)

    async def request_checkpoint_statistics(
        self, request: checkpoint_pb2.CheckpointStatisticsRequest, timeout_s: float | None = None
    ) -> checkpoint_pb2.CheckpointStatisticsResponse:
        return self._jobs[request.job_id].checkpoint_statistics

    async def request_diagnosis(
        self, request: job_pb2.DiagnosisRequest, timeout_s: float | None = None
    ) -> job_pb2.JobDiagnosis:
        return job_pb2.JobDiagnosis(job_id=request.job_id, status=self._jobs[request.job_id].result.status)
