"""The side of an application that runs its program: which ids its jobs have, and what the Dispatcher is told of it.

The n-th job that the program submits has an id that is made of the application's id and n: the first has the
application's own id, as in Flink. So when the program runs again, because another master leads now, its jobs are known:
what has finished is not run again, and what runs is joined. For that a program has to submit the same jobs in the same
order each time; where a job of another name is found under an id, the program is told so.

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
from flinkpy.configuration import pipeline_options
from flinkpy.configuration.options import read_option


def nth_job_id(application_id: str, number: int) -> str:
    """The id of the job that the application submits as its `number`-th, from 0 on."""
    if number == 0:
        return application_id
    return hashlib.sha256(f"job {number} of application {application_id}".encode()).hexdigest()[:32]


class ApplicationContext:
    """What `execute()` does differently in the program of an application.

    Args:
        address: of the Dispatcher whose cluster this is; wherever the program would submit its jobs, they go there.
        report: told of every job, on the thread that submits it.
    """

    def __init__(self, application_id: str, address: str, report: Callable[[JobSubmitted], None]) -> None:
        self.address = address
        self._application_id = application_id
        self._report = report
        self._lock = threading.Lock()
        self._num_jobs = 0
        self._used: set[str] = set()

    def fix_job_id(self, job_graph: job_pb2.JobGraph, configuration: Configuration) -> None:
        """Give the job its place among the application's jobs; an id that the program configured is kept."""
        configured = (read_option(configuration, pipeline_options.JOB_ID) or "").lower()
        with self._lock:
            job_id = nth_job_id(self._application_id, self._num_jobs)
            self._num_jobs += 1
            if configured and configured not in self._used:
                job_id = configured
            self._used.add(job_id)
        job_graph.job_id = job_id

    def submitted(self, job_graph: job_pb2.JobGraph) -> None:
        self._report(JobSubmitted(job_graph.job_id, job_graph.name))

    def join(self, client: ClusterClient, job_graph: job_pb2.JobGraph) -> None:
        """The job was submitted when the program ran before. Raises: ApplicationError where it was another one."""
        try:
            name = client.request_job(job_graph.job_id).name
        except JobNotFoundError:
            raise ApplicationError(
                f"job '{job_graph.name}' ({job_graph.job_id}) has ended when the program ran before, and how is not "
                "known any more: keep results for longer (`jobstore.expiration-time`)"
            ) from None
        if name != job_graph.name:
            raise ApplicationError(
                f"the program submits job '{job_graph.name}' where it submitted '{name}' ({job_graph.job_id}) when it "
                "ran before: a program of an application has to submit the same jobs in the same order each time"
            )
        self.submitted(job_graph)


_context: ApplicationContext | None = None


def enter_application(context: ApplicationContext) -> None:
    """This process runs the program of an application, from now on."""
    global _context
    _context = context


def current_application() -> ApplicationContext | None:
    """None in a program that is no application."""
    return _context
