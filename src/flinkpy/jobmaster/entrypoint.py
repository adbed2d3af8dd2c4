"""The JobMaster process: opens a session at the Dispatcher, runs the one job it is given, and ends.

Everything a job needs is imported before the session is opened, so that a standby starts its job at once.
The session is the lease: when it breaks while the job runs, the job is suspended and the process ends with status 1.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import Any

from flinkpy._proto import common_pb2, dispatcher_pb2, job_pb2
from flinkpy.checkpoint.storage.file_systems import initialize_file_systems
from flinkpy.common.configuration import Configuration
from flinkpy.common.errors import FlinkError
from flinkpy.common.process import announce_ready
from flinkpy.common.python_environment import environments_root
from flinkpy.common.shutdown import ShutdownRequest
from flinkpy.configuration import python_options, read_option
from flinkpy.jobmaster.dispatcher_connection import DispatcherConnection
from flinkpy.jobmaster.job_master import JobMaster
from flinkpy.jobmaster.job_master_environment import JobMasterEnvironment
from flinkpy.jobmaster.options import JobMasterOptions, advertised_host, bind_address, resource_id, rpc_port
from flinkpy.jobmaster.servicer import JobMasterServicer
from flinkpy.rpc.client import RpcClient
from flinkpy.rpc.endpoint import RpcEndpoint
from flinkpy.rpc.error_codec import error_to_proto
from flinkpy.rpc.server import RpcServer
from flinkpy.security import SecurityContext

logger = logging.getLogger(__name__)

#: How long a suspended job may take to cancel its tasks and give its slots back before the process ends anyway;
#: TaskExecutors and the ResourceManager notice the end of the process by themselves.
SUSPEND_TIMEOUT_S = 1.5

#: How long the process of a job that is over may take to delete checkpoints that nobody needs any more.
CLEANUP_TIMEOUT_S = 10.0

#: sysexits.h EX_SOFTWARE: an internal error.
EXIT_STATUS_FAILED = 70


async def run_jobmaster(
    configuration: Configuration,
    *,
    dispatcher_address: str,
    job_id: str | None = None,
    ready_file: str | None = None,
) -> int:
    """Run one job, or wait for one; returns the exit status.

    0: the Dispatcher or a signal ended this process. 1: the Dispatcher was lost. 70: an error of flinkpy's own.
    """
    with tempfile.TemporaryDirectory(prefix="flinkpy-jobmaster-") as directory:
        process = _JobMasterProcess(configuration, dispatcher_address, Path(directory))
        return await process.run(job_id, ready_file)


class _JobMasterProcess:
    """Thread: the loop that runs it."""

    def __init__(self, configuration: Configuration, dispatcher_address: str, working_directory: Path) -> None:
        self._dispatcher_address = dispatcher_address
        self._working_directory = working_directory
        self._host = socket.gethostname()
        self._resource_id = resource_id(configuration)
        security = SecurityContext.of_service(configuration)
        self._client = RpcClient(security=security)
        self._servicer = JobMasterServicer(self._resource_id)
        self._server = RpcServer(
            bind_address=bind_address(configuration),
            port=rpc_port(configuration, dispatcher_address),
            advertised_host=advertised_host(configuration),
            security=security,
        )
        self._server.add_endpoint("JobMaster", self._servicer)
        self._shutdown = ShutdownRequest()
        self._job_master: JobMaster | None = None
        self._has_failed = False
        self._configuration = configuration
        #: Runs the report of a job that no JobMaster could be made for.
        self._reporter = RpcEndpoint(asyncio.get_running_loop())

    async def run(self, job_id: str | None, ready_file: str | None) -> int:
        self._shutdown.listen_to_signals()
        await self._server.start()
        announce_ready("jobmaster", self._server.address, ready_file=ready_file)
        loop = asyncio.get_running_loop()
        session = loop.create_task(self._session(job_id), name="session with the Dispatcher")
        ended = loop.create_task(self._shutdown.wait(), name="shutdown request")
        try:
            await asyncio.wait({session, ended}, return_when=asyncio.FIRST_COMPLETED)
            if self._has_failed:
                return EXIT_STATUS_FAILED
            if ended.done():
                reason, status = ended.result(), 0
            else:
                reason, status = session.result()
            await self._end(reason)
            return status
        finally:
            for task in (session, ended):
                task.cancel()
            await asyncio.gather(session, ended, return_exceptions=True)
            if self._job_master is not None:
                await self._job_master.close()
            await self._reporter.close()
            await self._server.stop()
            await self._client.close()

    async def _session(self, job_id: str | None) -> tuple[str, int]:
        """Until the Dispatcher ends this process, or is lost; returns why, and the exit status."""
        hello = dispatcher_pb2.JobMasterHello(
            resource_id=self._resource_id, pid=os.getpid(), host=self._host, job_id=job_id or ""
        )
        gateway = self._client.gateway("Dispatcher", self._dispatcher_address)
        try:
            async for command in gateway.open_job_master_session(hello):
                match command.WhichOneof("command"):
                    case "start":
                        self._start_job(command.start)
                    case "stop":
                        return command.stop.reason or "the Dispatcher asked for it", 0
        except FlinkError as error:
            logger.error("the session with the Dispatcher at %s is lost: %s", self._dispatcher_address, error)
            return f"the Dispatcher is lost: {error}", 1
        if self._job_master is None or self._job_master.state.is_terminal:
            return "the Dispatcher closed the session", 0
        logger.error("the Dispatcher at %s closed the session while the job runs", self._dispatcher_address)
        return "the Dispatcher closed the session", 1

    def _start_job(self, command: dispatcher_pb2.StartJob) -> None:
        if self._job_master is not None:  # repeated: this process has its job
            return
        loop = asyncio.get_running_loop()
        dispatcher = self._client.gateway("Dispatcher", self._dispatcher_address, command.dispatcher_id or None)
        cluster_configuration = {**self._configuration.to_dict(), **command.configuration.entries}
        environment = JobMasterEnvironment(
            peers=self._client,
            resource_id=self._resource_id,
            address=self._server.address,
            dispatcher=dispatcher,
            dispatcher_address=self._dispatcher_address,
            fetch_blob=self._fetch_blob,
            working_directory=self._working_directory,
            random=Random(),
            graph_id=secrets.token_hex(8),
            recovery_directory=Path(command.recovery_directory) if command.recovery_directory else None,
            python_environments=environments_root(read_option(cluster_configuration, python_options.ENVIRONMENT_DIR)),
        )
        initialize_file_systems({**cluster_configuration, **command.job_graph.configuration.entries})
        try:
            job_master = JobMaster(
                loop,
                job_graph=command.job_graph,
                job_master_id=command.job_master_id,
                resource_manager_address=command.resource_manager_address,
                cluster_configuration=cluster_configuration,
                submitted_ms=command.submitted_ms,
                environment=environment,
            )
        except FlinkError as error:
            logger.error("job %s cannot be executed: %s", command.job_graph.job_id, error)
            self._report_failed(dispatcher, command, error)
            return
        job_master.on_fatal_error = self._on_fatal_error
        self._job_master = job_master
        self._servicer.attach(job_master, command.job_master_id)
        job_master.start()

    def _report_failed(self, dispatcher: Any, command: dispatcher_pb2.StartJob, error: FlinkError) -> None:
        """The job could not even become an ExecutionGraph: it FAILED, with that error."""
        graph, info = command.job_graph, error_to_proto(error)
        now_ms = self._reporter.clock.now_ms()
        details = job_pb2.JobDetails(
            job_id=graph.job_id,
            name=graph.name,
            status=common_pb2.FAILED,
            start_time_ms=command.submitted_ms or now_ms,
            end_time_ms=now_ms,
            exception_history=[job_pb2.ExceptionHistoryEntry(timestamp_ms=now_ms, error=info)],
            configuration=graph.configuration,
        )
        result = job_pb2.JobResult(job_id=graph.job_id, name=graph.name, status=common_pb2.FAILED, error=info)
        connection = DispatcherConnection(
            self._reporter,
            dispatcher,
            job_id=graph.job_id,
            job_master_id=command.job_master_id,
            rpc_timeout_ms=JobMasterOptions().rpc_timeout_ms,
        )
        connection.terminated(result, details, lambda: None)

    async def _end(self, reason: str) -> None:
        job_master = self._job_master
        if job_master is None:
            return
        if job_master.state.is_terminal:
            await self._wait_for_the_end(job_master, CLEANUP_TIMEOUT_S)
            return
        logger.error("job %s is suspended: %s", job_master.job_id, reason)
        job_master.suspend(reason)
        await self._wait_for_the_end(job_master, SUSPEND_TIMEOUT_S)

    async def _wait_for_the_end(self, job_master: JobMaster, timeout_s: float) -> None:
        try:
            await asyncio.wait_for(job_master.terminated.wait(), timeout_s)
        except TimeoutError:
            logger.warning("job %s: not everything was given back in time", job_master.job_id)

    def _on_fatal_error(self, error: BaseException) -> None:
        """A bug: go down loudly, so that the Dispatcher decides about the job instead of a JobMaster half gone."""
        logger.critical("the JobMaster cannot go on", exc_info=error)
        self._has_failed = True
        self._shutdown.request("it failed")

    async def _fetch_blob(self, blob_key: str) -> AsyncIterator[bytes]:
        gateway = self._client.gateway("BlobServer", self._dispatcher_address)
        async for chunk in gateway.get_blob(dispatcher_pb2.BlobKey(sha256=blob_key)):
            yield chunk.data
