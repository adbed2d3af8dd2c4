"""SessionApplications: runs the applications that were started through the REST server of this process.

Each runs beside the Dispatcher in a process of its own, and submits its jobs to the leading Dispatcher. It ends with
this process or with its last job; its jobs keep running where a Dispatcher keeps them.

| state     | when                                                                         |
|-----------|------------------------------------------------------------------------------|
| RUNNING   | the program or one of its jobs runs                                          |
| FINISHED  | both have ended well                                                         |
| FAILED    | the program raised, died or submitted no job, or a job failed                |
| CANCELED  | the application or a job of it was canceled                                  |

The application of an application cluster is shown beside them. It is run by ApplicationTerms.

Thread: the process's asyncio loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from http import HTTPStatus
from typing import Any

from flinkpy._proto import dispatcher_pb2
from flinkpy.common.clock import Clock
from flinkpy.common.errors import FlinkError
from flinkpy.dispatcher.application_runner import ApplicationRunner
from flinkpy.dispatcher.application_status import EXIT_FAILED, ApplicationResult, ApplicationState
from flinkpy.dispatcher.application_store import ApplicationDescription
from flinkpy.dispatcher.archivist import Archivist
from flinkpy.rest.applications import RUNNING, Application
from flinkpy.rest.cluster_gateways import ClusterGateways
from flinkpy.rest.errors import RestError, bad_request, not_found

logger = logging.getLogger(__name__)

#: Programs that run at once. Each is a process, which takes memory as long as its jobs run.
MAX_RUNNING = 100
#: Applications that have ended and can still be asked about.
MAX_ENDED = 200


class SessionApplications:
    """Implements `flinkpy.rest.applications.Applications`.

    Args:
        archivist: archives the applications that have ended; None if nothing is archived.
        own: the application of this cluster and its runner; None: the cluster is not that of an application.
    """

    def __init__(
        self,
        cluster: ClusterGateways,
        clock: Clock,
        archivist: Archivist | None = None,
        own: tuple[Application, ApplicationRunner] | None = None,
    ) -> None:
        self._archivist = archivist
        self._cluster = cluster
        self._clock = clock
        self._own = own
        self._applications: dict[str, Application] = {} if own is None else {own[0].id: own[0]}
        self._runners: dict[str, ApplicationRunner] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def all(self) -> list[Application]:
        return list(self._applications.values())

    def find(self, application_id: str) -> Application:
        found = self._applications.get(application_id)
        if found is None:
            raise not_found(f"Application {application_id} not found")
        return found

    def start(
        self, application_id: str, program: str, name: str, arguments: tuple[str, ...], configuration: dict[str, str]
    ) -> Application:
        if application_id in self._applications:
            raise bad_request(f"Application {application_id} has been submitted already.")
        if len(self._runners) >= MAX_RUNNING:
            raise RestError(HTTPStatus.SERVICE_UNAVAILABLE, f"{MAX_RUNNING} applications run, which is the maximum.")
        started = Application(application_id, name, configuration, self._clock.now_ms())
        runner = ApplicationRunner(
            ApplicationDescription(application_id, program, arguments),
            configuration,
            None,
            lambda address: self._cluster.dispatcher(),
            lambda result: self._ended(started, result),
            started.job_submitted,
        )
        address = self._cluster.dispatcher_address()
        self._applications[application_id] = started
        self._runners[application_id] = runner
        runner.leads(address, lambda job_id, error: None)
        return started

    def _ended(self, application: Application, result: ApplicationResult) -> None:
        self._runners.pop(application.id, None)
        application.end(result.state.value, result.message, result.traceback, self._clock.now_ms())
        if self._archivist is not None:
            self._spawn(self._archive(application, self._archivist), f"archive {application.id}")
        ended = [one.id for one in self._applications.values() if one.ended_ms is not None]
        for application_id in ended[: max(0, len(ended) - MAX_ENDED)]:
            del self._applications[application_id]

    def cancel(self, application_id: str) -> None:
        application = self.find(application_id)
        if application.state != RUNNING:
            return
        if self._own is not None and application is self._own[0]:
            if not self._own[1].cancel():
                message = "The program of this application runs beside the leading Dispatcher, and not here."
                raise RestError(HTTPStatus.SERVICE_UNAVAILABLE, message)
            return
        self._runners[application_id].cancel()

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _archive(self, application: Application, archivist: Archivist) -> None:
        try:
            jobs = await self._cluster.dispatcher().list_jobs(dispatcher_pb2.ListJobsRequest())
        except FlinkError as error:
            logger.error("application %s is not in the history: %s", application.id, error)
            return
        await archivist.archive_with_jobs(application, list(jobs.jobs))

    async def _end(self, application: Application, result: ApplicationResult) -> None:
        """Ends the program. `result` is that of the application, unless it is just ending by itself."""
        runner = self._runners.get(application.id)
        if runner is not None:
            await runner.leads_no_more(may_finish=True)
            if application.state == RUNNING:
                self._ended(application, result)

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        stopped = ApplicationResult(ApplicationState.FAILED, EXIT_FAILED, "the Dispatcher's process was stopped")
        await asyncio.gather(*(self._end(self._applications[one], stopped) for one in list(self._runners)))
