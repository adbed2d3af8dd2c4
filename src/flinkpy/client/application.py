"""ApplicationContext: the jobs of a program that runs in application mode.

The id of the n-th job is derived from the id of the application and n. The first job has the application's own id, as
in Flink. When another Dispatcher becomes leader, the program runs again and its jobs have the same ids: a finished job
does not run again, and the program joins a running job. So a program must submit the same jobs in the same order each
time. If the job with an id has another name, the program gets an error.

Source: org.apache.flink.client.deployment.application.executors.EmbeddedExecutor. Thread: any.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable

from flinkpy._proto import job_pb2
from flinkpy.client.cluster_client import ClusterClient
from flinkpy.common.application_report import JobSubmitted
from flinkpy.common.configuration import Configuration
from flinkpy.common.errors import ApplicationError, JobNotFoundError
from flinkpy.configuration import client_options, pipeline_options
from flinkpy.configuration.options import read_option


def nth_job_id(application_id: str, number: int) -> str:
    """Returns the id of the application's job `number`, counted from 0."""
    if number == 0:
        return application_id
    return hashlib.sha256(f"job {number} of application {application_id}".encode()).hexdigest()[:32]


class ApplicationContext:
    """Changes how `execute()` submits jobs in the program of an application.

    Args:
        application_id: id of the application.
        address: `host:port` of the application's Dispatcher. All jobs of the program go there.
        report: called for each job, on the thread that submits it.
    """

    def __init__(self, application_id: str, address: str, report: Callable[[JobSubmitted], None]) -> None:
        self.address = address
        self._application_id = application_id
        self._report = report
        self._lock = threading.Lock()
        self._num_jobs = 0
        self._used: set[str] = set()

    def fix_job_id(self, job_graph: job_pb2.JobGraph, configuration: Configuration) -> None:
        """Sets the id of the job. An id that the program configured is used once."""
        configured = (read_option(configuration, pipeline_options.JOB_ID) or "").lower()
        with self._lock:
            job_id = nth_job_id(self._application_id, self._num_jobs)
            self._num_jobs += 1
            if configured and configured not in self._used:
                job_id = configured
            self._used.add(job_id)
        job_graph.job_id = job_id
        job_graph.configuration.entries[client_options.APPLICATION_ID.key] = self._application_id

    def submitted(self, job_graph: job_pb2.JobGraph) -> None:
        self._report(JobSubmitted(job_graph.job_id, job_graph.name))

    def join(self, client: ClusterClient, job_graph: job_pb2.JobGraph) -> None:
        """Joins a job that an earlier run of the program submitted.

        Raises:
            ApplicationError: the earlier job had another name, or its result has expired.
        """
        try:
            name = client.request_job(job_graph.job_id).name
        except JobNotFoundError:
            raise ApplicationError(
                f"job '{job_graph.name}' ({job_graph.job_id}) ended in an earlier run of the program, and its result "
                "has expired: increase `jobstore.expiration-time`"
            ) from None
        if name != job_graph.name:
            raise ApplicationError(
                f"the program submits job '{job_graph.name}', but an earlier run submitted '{name}' "
                f"({job_graph.job_id}) at this position: in an application, a program must submit the same jobs in the "
                "same order each time"
            )
        self.submitted(job_graph)


_context: ApplicationContext | None = None


def enter_application(context: ApplicationContext) -> None:
    """Declares that this process runs the program of an application."""
    global _context
    _context = context


def current_application() -> ApplicationContext | None:
    """Returns the context of the application, or None if this program is not one."""
    return _context
