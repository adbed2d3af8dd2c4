"""ApplicationRunner: runs the program of an application cluster while the Dispatcher of this process leads.

The program runs in its own process, because the Dispatcher never imports user code. It submits its jobs to the
Dispatcher like any client, with fixed ids (see `flinkpy.client.application`), and reports them on a pipe. When the
Dispatcher loses its leadership, the program is killed and its jobs keep running. The program runs again on the next
leader, where it finds its finished and running jobs.

```
   leads ----> [claim the cluster id] ----> [process of the program] ---- reports ----> ApplicationStatus
                                                                                             |
   loses leadership: the process is killed                                result: cancel the other jobs, store it,
                                                                          shut the cluster down
```

Source: org.apache.flink.client.deployment.application.ApplicationDispatcherBootstrap. Differs: Flink runs `main` on a
thread of the JobManager. Thread: one asyncio loop.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from flinkpy._proto import dispatcher_pb2 as pb
from flinkpy.common.application_report import JobSubmitted, decode
from flinkpy.common.child_process import ChildOutput, ChildProcess, spawn_child
from flinkpy.common.clock import SystemClock
from flinkpy.common.errors import ApplicationError, FlinkError, JobNotFoundError
from flinkpy.common.states import JobState
from flinkpy.configuration import client_options, cluster_options, jobmanager_options
from flinkpy.configuration.high_availability_options import HA_MODE
from flinkpy.configuration.loading import CONFIG_DIR_VARIABLES, DYNAMIC_PROPERTIES_VARIABLE
from flinkpy.configuration.options import read_option
from flinkpy.dispatcher.application_status import EXIT_FAILED, ApplicationResult, ApplicationState, ApplicationStatus
from flinkpy.dispatcher.application_store import ApplicationDescription, ApplicationStore
from flinkpy.dispatcher.archivist import Archivist
from flinkpy.rest.applications import Application
from flinkpy.rpc.client import Gateway
from flinkpy.security.confidential_settings import settings_for_child

logger = logging.getLogger(__name__)

_CONFIGURATION_VARIABLES = (*CONFIG_DIR_VARIABLES, DYNAMIC_PROPERTIES_VARIABLE)

#: How long a program may run after one of its jobs has failed. Its own error says more than that of the job.
PROGRAM_GRACE_S = 3.0
#: How long a program that is told to end (SIGTERM) may take.
STOP_GRACE_S = 2.0
#: How long an application that is ending may take to finish when the Dispatcher process shuts down.
FINISH_TIMEOUT_S = 10.0
#: How long the archive of the application may take when the jobs have been archived or given up, and the process ends.
ARCHIVE_TIMEOUT_S = 10.0
#: How long one request for a job result waits.
RESULT_POLL_MS = 30_000
#: The exit status if this process is terminated before its application has ended: that of a process killed by SIGTERM.
EXIT_TERMINATED = 143
#: Pause after a call that the Dispatcher did not answer: it may be losing its leadership, or ending.
RETRY_PAUSE_S = 0.5


ShowFailed = Callable[[str, FlinkError], None]


class ApplicationRunner:
    """Runs the program once in each term until the application has ended.

    Args:
        store: None if the result is not stored.
        gateway: makes a gateway to the Dispatcher at an address.
        on_ended: called once, when the application has ended.
        on_job: called with the id of each job that the program submits.
        to_archive: the application that REST shows, and what archives it when it has ended; None if it is not archived,
            or by the caller.
    """

    def __init__(
        self,
        application: ApplicationDescription,
        configuration: Mapping[str, str],
        store: ApplicationStore | None,
        gateway: Callable[[str], Gateway],
        on_ended: Callable[[ApplicationResult], None],
        on_job: Callable[[str], None] = lambda job_id: None,
        to_archive: tuple[Application, Archivist] | None = None,
    ) -> None:
        self._on_job = on_job
        self._to_archive = to_archive
        self._archiving: asyncio.Task[None] | None = None
        #: whether the program has run; it does not if the application had ended before
        self._has_run = False
        self._application = application
        self._configuration = dict(configuration)
        self._store = store
        self._gateway = gateway
        self._on_ended = on_ended
        self._term: asyncio.Task[None] | None = None
        self._is_cancel_requested = False
        #: the run of the program in the current term
        self._current: _Term | None = None
        #: whether the result of the application is known, although it has not ended yet
        self._has_decided = False
        #: the result, once the application has ended
        self.result: ApplicationResult | None = None

    @property
    def exit_status(self) -> int:
        """The exit status of this process; EXIT_TERMINATED if the application has not ended."""
        return EXIT_TERMINATED if self.result is None else self.result.exit_status

    @property
    def name(self) -> str:
        return self._application.name

    def leads(self, address: str, show_failed: ShowFailed) -> None:
        """Starts the program: the Dispatcher of this process leads and serves at `address`.

        Args:
            show_failed: makes the Dispatcher show a failed job, for a program that failed before it submitted one.
        """
        if self._term is None and self.result is None:
            self._has_decided = False
            self._has_run = False
            work = self._run(address, show_failed)
            self._term = asyncio.get_running_loop().create_task(work, name=f"application {self._application.name}")

    async def leads_no_more(self, *, may_finish: bool = False) -> None:
        """Ends the program because the Dispatcher does not lead any more. Returns when its process has ended.

        Args:
            may_finish: let an application finish that is just ending, so that its result is stored.
        """
        term, self._term = self._term, None
        if term is not None:
            if may_finish and self._has_decided:
                await asyncio.wait({term}, timeout=FINISH_TIMEOUT_S)
            term.cancel()
            await asyncio.gather(term, return_exceptions=True)

    def cancel(self) -> bool:
        """Ends the program and cancels its jobs. Then the application is CANCELED, unless it was just ending.

        Returns False if nothing runs here: the application has ended, or this process does not lead.
        """
        if self._term is None or self.result is not None:
            return False
        self._is_cancel_requested = True
        if self._current is not None:
            self._current.cancel()
        return True

    async def close(self) -> None:
        """Waits until the application is archived. Call it when the last Dispatcher has ended."""
        if self._archiving is not None:
            _, unfinished = await asyncio.wait({self._archiving}, timeout=ARCHIVE_TIMEOUT_S)
            if unfinished:
                logger.error("application %s is not in the history: its jobs are not", self._application.application_id)
                self._archiving.cancel()
                await asyncio.gather(self._archiving, return_exceptions=True)

    def _decided(self) -> None:
        self._has_decided = True

    async def _archive(
        self, result: ApplicationResult, address: str, application: Application, archivist: Archivist
    ) -> None:
        """Starts to archive the application. The states of its jobs are taken before, while the Dispatcher answers."""
        application.end(result.state.value, result.message, result.traceback, SystemClock().now_ms())
        try:
            answer = await self._gateway(address).list_jobs(pb.ListJobsRequest())
        except FlinkError as error:
            logger.error("application %s is not in the history: %s", application.id, error)
            return
        work = archivist.archive_with_jobs(application, list(answer.jobs))
        self._archiving = asyncio.get_running_loop().create_task(work, name=f"archive {application.id}")

    async def _run(self, address: str, show_failed: ShowFailed) -> None:
        try:
            result = await self._result_of_term(address, show_failed)
        except FlinkError as error:
            logger.error("cannot run application %s: %s", self._application.name, error)
            result = ApplicationResult(ApplicationState.FAILED, EXIT_FAILED, str(error))
        except Exception as error:
            logger.exception("cannot run the application")
            result = ApplicationResult(ApplicationState.FAILED, EXIT_FAILED, f"{type(error).__name__}: {error}")
        if self._to_archive is not None and self._has_run:
            await self._archive(result, address, *self._to_archive)
        self.result = result
        self._on_ended(result)

    async def _result_of_term(self, address: str, show_failed: ShowFailed) -> ApplicationResult:
        if self._store is not None:
            earlier = await asyncio.to_thread(self._store.claim, self._application)
            if earlier is not None:
                logger.info("the application has already ended: %s", earlier.state.value)
                return earlier
        term = _Term(
            self._application, self._configuration, self._gateway(address), address, self._decided, self._on_job
        )
        self._current = term
        if self._is_cancel_requested:
            term.cancel()
        try:
            result = await term.run()
        finally:
            self._current = None
            self._has_run = True
            await asyncio.shield(term.close())
        if self._store is not None:
            await asyncio.to_thread(self._store.put_result, self._application, result)
        is_wanted = read_option(self._configuration, client_options.SUBMIT_FAILED_JOB_ON_APPLICATION_ERROR)
        if is_wanted and result.state is ApplicationState.FAILED and not term.jobs:
            error = ApplicationError(result.message, remote_traceback=result.traceback)
            show_failed(self._application.application_id, error)
        return result


class _Term:
    """One run of the program, in one term."""

    def __init__(
        self,
        application: ApplicationDescription,
        configuration: dict[str, str],
        dispatcher: Gateway,
        address: str,
        on_decided: Callable[[], None],
        on_job: Callable[[str], None],
    ) -> None:
        self._on_decided = on_decided
        self._on_job = on_job
        self._application = application
        self._configuration = configuration
        self._dispatcher = dispatcher
        self._address = address
        self._child: ChildProcess | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._decided = asyncio.Event()
        self._pipe: asyncio.ReadTransport | None = None
        self._reports: asyncio.Task[None] | None = None
        self._status = ApplicationStatus(
            terminates_on_any_exception=read_option(configuration, client_options.TERMINATE_ON_ANY_JOB_EXCEPTION)
        )

    @property
    def jobs(self) -> list[str]:
        return self._status.jobs

    def cancel(self) -> None:
        self._status.cancel()
        self._look()

    async def run(self) -> ApplicationResult:
        """Runs the program. Returns the result of the application when all of its jobs have ended."""
        reader = await self._start_program()
        self._reports = self._spawn(self._read_reports(reader), "reports of the program")
        await self._decided.wait()
        result = self._status.result
        assert result is not None
        logger.log(
            # Not every failure has been logged: a program may exit with a status, or continue after a job has failed.
            logging.INFO if result.state is ApplicationState.FINISHED else logging.ERROR,
            "application %s (%s): %s%s",
            self._application.name,
            self._application.application_id,
            result.state.value,
            # The program has printed its own error, with the traceback, where this process logs.
            f": {result.message}" if result.message and not result.traceback else "",
        )
        await self._end_program()
        await self._cancel_rest()
        return result

    async def close(self) -> None:
        """Kills the program if it still runs. Its jobs keep running."""
        if self._child is not None and not self._child.has_ended:
            self._child.kill()
            await self._child.wait()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._pipe is not None:
            self._pipe.close()

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("%s: %s", task.get_name(), error, exc_info=error)
            self._status.is_broken(f"{task.get_name()}: {type(error).__name__}: {error}")
            self._look()

    async def _start_program(self) -> asyncio.StreamReader:
        application = self._application
        read_end, write_end = os.pipe()
        try:
            command = [sys.executable, "-m", "flinkpy.cli.main", "application-main"]
            command += ["--report-fd", str(write_end), "--application-id", application.application_id]
            with settings_for_child(self._settings()) as settings:
                self._child = await spawn_child(
                    [*command, *settings.arguments, "--", application.program, *application.arguments],
                    name=f"program {application.name}",
                    output=ChildOutput.INHERIT,
                    # The settings contain what this process read from files and its environment.
                    environment={**settings.environment, **dict.fromkeys(_CONFIGURATION_VARIABLES, "")},
                    pass_fds=(write_end, *settings.descriptors),
                )
        finally:
            os.close(write_end)
        logger.info("running the program %s (pid %d)", application.program, self._child.pid)
        reader = asyncio.StreamReader(limit=1 << 20)
        self._pipe, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(read_end, "rb")
        )
        return reader

    def _settings(self) -> dict[str, str]:
        """Returns the cluster's configuration with the address of this Dispatcher."""
        entries = dict(self._configuration)
        # The program always calls this process, even if another one is elected later.
        for key in (*HA_MODE.keys, *jobmanager_options.RPC_BIND_PORT.keys):
            entries.pop(key, None)
        host, _, port = self._address.rpartition(":")
        entries.update({"jobmanager.rpc.address": host, "jobmanager.rpc.port": port, "execution.target": "remote"})
        # `execute()` waits for the job in an application, however the cluster was started.
        entries["execution.attached"] = "true"
        return entries

    async def _read_reports(self, reader: asyncio.StreamReader) -> None:
        while line := await reader.readline():
            try:
                report = decode(line)
            except ValueError as error:  # user code wrote to the descriptor
                logger.warning("ignoring an invalid report of the program: %s", error)
                continue
            if isinstance(report, JobSubmitted):
                if self._status.job_submitted(report.job_id, report.name):
                    self._on_job(report.job_id)
                    self._spawn(self._await_job(report.job_id), f"result of {report.job_id}")
            else:
                self._status.program_ended(report)
                self._look()
        assert self._child is not None
        ending = await self._child.wait()
        self._status.program_died(ending.description)
        self._look()

    async def _await_job(self, job_id: str) -> None:
        request = pb.RequestJobResultRequest(job_id=job_id, timeout_ms=RESULT_POLL_MS)
        while True:
            try:
                answer = await self._dispatcher.request_job_result(request, timeout_s=RESULT_POLL_MS / 1000 + 30)
            except JobNotFoundError as error:
                logger.warning("the result of job %s has expired: %s", job_id, error)
                self._status.job_ended(job_id, JobState.FINISHED)
                break
            except FlinkError as error:
                logger.debug("result of %s: %s", job_id, error)
                await asyncio.sleep(RETRY_PAUSE_S)
                continue
            state = JobState(answer.result.status) if answer.finished else None
            if state is not None and state.is_globally_terminal:
                self._status.job_ended(job_id, state, answer.result.error.message)
                break
            if state is not None:  # suspended: this Dispatcher is ending or losing its leadership
                await asyncio.sleep(RETRY_PAUSE_S)
        if self._status.is_waiting_for_program:
            self._spawn(self._hurry(), "wait for the program to end")
        self._look()

    async def _hurry(self) -> None:
        assert self._child is not None
        await asyncio.wait({asyncio.ensure_future(self._child.wait())}, timeout=PROGRAM_GRACE_S)
        self._status.program_is_overdue()
        self._look()

    def _look(self) -> None:
        if self._status.result is not None:
            self._on_decided()
            self._decided.set()

    async def _end_program(self) -> None:
        """Waits for the process, whose interpreter may still be ending, then stops it."""
        assert self._child is not None
        if self._status.has_program_ended:
            await asyncio.wait({asyncio.ensure_future(self._child.wait())}, timeout=PROGRAM_GRACE_S)
        if not self._child.has_ended:
            await self._child.stop(STOP_GRACE_S)
        if self._reports is not None:  # the program may have submitted a job just before it was stopped
            await asyncio.wait({self._reports}, timeout=STOP_GRACE_S)

    async def _cancel_rest(self) -> None:
        jobs = self._status.unfinished_jobs
        for job_id in jobs:
            try:
                await self._dispatcher.cancel_job(pb.JobIdMessage(job_id=job_id), timeout_s=10.0)
            except FlinkError as error:
                logger.warning("job %s of an application that has ended was not canceled: %s", job_id, error)
        waits = [task for task in self._tasks if task.get_name() in {f"result of {job_id}" for job_id in jobs}]
        if waits:
            timeout_ms = read_option(self._configuration, cluster_options.CLUSTER_SERVICES_SHUTDOWN_TIMEOUT)
            _, pending = await asyncio.wait(waits, timeout=timeout_ms / 1000)
            if pending:
                logger.warning("%d job(s) of an application that has ended were not canceled in time", len(pending))
