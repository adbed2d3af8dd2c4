"""Makes the archives of ended jobs and applications: the answers that the REST API gives for them.

The operations themselves answer, so an archive shows what the page of a running cluster shows. Importing this module
loads the web libraries.

Source: org.apache.flink.runtime.webmonitor.history.{JsonArchivist,ApplicationJsonArchivist}.
Thread: any; one call at a time per object.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from http import HTTPStatus
from typing import Any

import msgspec

from flinkpy._proto import checkpoint_pb2, job_pb2
from flinkpy.common.clock import Clock
from flinkpy.common.configuration import Configuration
from flinkpy.common.errors import FlinkError
from flinkpy.rest.access import RestAccess
from flinkpy.rest.applications import Application
from flinkpy.rest.archive_format import APPLICATIONS_OVERVIEW, JOBS_OVERVIEW, ArchivedAnswer
from flinkpy.rest.asynchronous_operations import AsynchronousOperations
from flinkpy.rest.context import RestContext
from flinkpy.rest.errors import RestError, as_rest_error
from flinkpy.rest.forms.job_checkpoints import task_checkpoint_statistics
from flinkpy.rest.forms.job_details import subtask_info
from flinkpy.rest.handlers import all_operations
from flinkpy.rest.handlers.job_vertices import attempt_accumulators_info
from flinkpy.rest.operation import Operation, RestCall
from flinkpy.rest.options import RestOptions
from flinkpy.rest.programs import Programs
from flinkpy.security import Role

_JOB = "/jobs/:jobid"
_VERTEX = f"{_JOB}/vertices/:vertexid"
#: The archived operations: of a job, of each of its vertices, and of an application. Metrics end with the tasks.
_JOB_OPERATIONS = (
    JOBS_OVERVIEW,
    _JOB,
    f"{_JOB}/plan",
    f"{_JOB}/config",
    f"{_JOB}/options",
    f"{_JOB}/status",
    f"{_JOB}/diagnosis",
    f"{_JOB}/exceptions",
    f"{_JOB}/accumulators",
    f"{_JOB}/execution-result",
    f"{_JOB}/checkpoints",
    f"{_JOB}/checkpoints/config",
    f"{_JOB}/jobmanager/config",
    f"{_JOB}/jobmanager/environment",
    f"{_JOB}/resource-requirements",
    f"{_JOB}/rescales/config",
    f"{_JOB}/rescales/overview",
    f"{_JOB}/rescales/summary",
    f"{_JOB}/rescales/history",
)
_VERTEX_OPERATIONS = (
    _VERTEX,
    f"{_VERTEX}/accumulators",
    f"{_VERTEX}/subtasks/accumulators",
    f"{_VERTEX}/subtasktimes",
    f"{_VERTEX}/former-attempts",
    f"{_VERTEX}/taskmanagers",
)
_APPLICATION = "/applications/:applicationid"
_APPLICATION_OPERATIONS = (
    APPLICATIONS_OVERVIEW,
    _APPLICATION,
    f"{_APPLICATION}/exceptions",
    f"{_APPLICATION}/jobmanager/config",
)
#: Exceptions that an archive shows. The page asks for as many as its user wants.
_MAX_EXCEPTIONS = 1_000


class ArchivedAnswers:
    """The answers about ended jobs and applications.

    Args:
        services: answers `request_job`, `request_job_status`, `request_job_result`, `request_accumulators`,
            `request_checkpoint_statistics`, `request_diagnosis` and `list_jobs`, as the gateway of a Dispatcher does.
        applications: the applications that the archives may show.
    """

    def __init__(
        self, services: Any, applications: Mapping[str, Application], configuration: Configuration, clock: Clock
    ) -> None:
        operations = {one.path: one for one in all_operations() if one.verb == "GET"}
        self._operations: dict[str, Operation] = operations
        self._context = RestContext(
            cluster=_OneGateway(services),
            options=RestOptions(),
            configuration=configuration,
            access=RestAccess(None, frozenset(), "http", clock),
            operations=AsynchronousOperations(0, clock),
            programs=Programs(_no_directory, 0),
            applications=_EndedApplications(applications),
            clock=clock,
        )

    async def of_job(
        self, details: job_pb2.JobDetails, statistics: checkpoint_pb2.CheckpointStatisticsResponse
    ) -> AsyncIterator[ArchivedAnswer]:
        """Yields all answers about a job that `services` know."""
        path = {"jobid": details.job_id}
        for operation in _JOB_OPERATIONS:
            yield await self._answer(operation, path)
        for vertex in details.vertices:
            for operation in _VERTEX_OPERATIONS:
                yield await self._answer(operation, {**path, "vertexid": vertex.id})
            for answer in self._attempts(details.job_id, vertex):
                yield answer
        async for answer in self._checkpoints(path, statistics):
            yield answer

    def _attempts(self, job_id: str, vertex: job_pb2.VertexDetails) -> list[ArchivedAnswer]:
        """Returns the answers about attempts. There may be many thousands, so their operations are not called."""
        now_ms = self._context.clock.now_ms()
        found = []
        for subtask in vertex.subtasks:
            base = f"/jobs/{job_id}/vertices/{vertex.id}/subtasks/{subtask.subtask_index}"
            found.append(_answer(base, subtask_info(subtask, now_ms)))
            for attempt in (subtask, *subtask.concurrent_attempts, *subtask.prior_attempts):
                path = f"{base}/attempts/{attempt.attempt_number}"
                accumulators = subtask.accumulators if attempt is subtask else ()
                found.append(_answer(path, subtask_info(attempt, now_ms)))
                found.append(_answer(f"{path}/accumulators", attempt_accumulators_info(attempt, accumulators)))
        return found

    async def _checkpoints(
        self, path: dict[str, Any], statistics: checkpoint_pb2.CheckpointStatisticsResponse
    ) -> AsyncIterator[ArchivedAnswer]:
        latest = (statistics.latest_completed, statistics.latest_savepoint, statistics.latest_failed)
        known = {one.checkpoint_id: one for one in (*latest, *statistics.history) if one.checkpoint_id}
        for checkpoint_id, one in known.items():
            details = {**path, "checkpointid": checkpoint_id}
            answer = await self._answer(f"{_JOB}/checkpoints/details/:checkpointid", details)
            yield answer
            for task in one.vertices:
                yield _answer(f"{answer.path}/subtasks/{task.vertex_id}", task_checkpoint_statistics(one, task))

    async def of_application(self, application: Application) -> AsyncIterator[ArchivedAnswer]:
        """Yields all answers about an application."""
        for operation in _APPLICATION_OPERATIONS:
            yield await self._answer(operation, {"applicationid": application.id})

    async def _answer(self, path: str, parameters: dict[str, Any]) -> ArchivedAnswer:
        """Returns what the operation answers. An error is archived like any other answer, as in Flink."""
        operation = self._operations[path]
        query = {one.name: one.default for one in operation.query}
        if "maxExceptions" in query:
            query["maxExceptions"] = _MAX_EXCEPTIONS
        try:
            body = await operation.handler(RestCall(self._context, Role.READ, path=parameters, query=query))
        except (RestError, FlinkError) as error:
            answer = as_rest_error(error, operation.name)
            if answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                raise
            body = {"errors": [answer.message]}
        parts = [str(parameters[part[1:]]) if part.startswith(":") else part for part in path.split("/")]
        return _answer("/".join(parts), body)


def _answer(path: str, body: Any) -> ArchivedAnswer:
    return ArchivedAnswer(path, msgspec.json.encode(body).decode())


def _no_directory() -> Any:
    raise AssertionError("archives contain no programs")


class _OneGateway:
    """A cluster whose Dispatcher is `services`, and which has no other process."""

    def __init__(self, services: Any) -> None:
        self._services = services

    def dispatcher(self) -> Any:
        return self._services

    def dispatcher_address(self) -> str:
        return ""

    async def resource_manager(self) -> Any:
        raise AssertionError("archives show no ResourceManager")

    def task_executor(self, address: str) -> Any:
        raise AssertionError("archives show no TaskExecutors")


class _EndedApplications:
    """Implements `flinkpy.rest.applications.Applications` for those that an archive is made of."""

    def __init__(self, applications: Mapping[str, Application]) -> None:
        self._applications = applications

    def all(self) -> list[Application]:
        return list(self._applications.values())

    def find(self, application_id: str) -> Application:
        return self._applications[application_id]

    def start(
        self, application_id: str, program: str, name: str, arguments: tuple[str, ...], configuration: dict[str, str]
    ) -> Application:
        raise AssertionError("archives start nothing")

    def cancel(self, application_id: str) -> None:
        raise AssertionError("archives cancel nothing")

    async def close(self) -> None:
        """Does nothing."""
