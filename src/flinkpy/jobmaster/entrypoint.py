"""The JobMaster process: opens a session at the Dispatcher, runs one job, and ends.

All modules that a job needs are imported before the session is opened, so that a standby process starts its job without
delay.

Without high availability the session is the lease: if it breaks while the job runs, the job is suspended and the
process ends with status 1. With high availability the lease is the leadership of the job, which the process acquires
before it starts the job. The process ends when the leadership is revoked, but continues when its Dispatcher ends
(`dispatcher_sessions`).
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
import tempfile
from pathlib import Path
from random import Random
from typing import Any

from flinkpy._proto import common_pb2, dispatcher_pb2, job_pb2
from flinkpy.checkpoint.storage.file_systems import initialize_file_systems
from flinkpy.common.configuration import Configuration
from flinkpy.common.errors import FlinkError
from flinkpy.common.ids import JobID
from flinkpy.common.process import ShutdownRequest
from flinkpy.common.python_environment import environments_root
from flinkpy.common.service_host import ServiceHost
from flinkpy.configuration import pipeline_options, read_option
from flinkpy.highavailability.checkpoint_stores import CheckpointIDCounter, CheckpointPointerStore
from flinkpy.highavailability.leader_election import LeaderElection, LeaderInformation, Leadership
from flinkpy.highavailability.services import HighAvailabilityServices, create_high_availability_services
from flinkpy.jobmaster.conversions import job_status
from flinkpy.jobmaster.dispatcher_connection import DispatcherConnection
from flinkpy.jobmaster.dispatcher_sessions import DispatcherSessions, SessionEnd
from flinkpy.jobmaster.job_master import JobMaster
from flinkpy.jobmaster.job_master_environment import JobMasterEnvironment
from flinkpy.jobmaster.leader_blobs import LeaderBlobs
from flinkpy.jobmaster.options import JobMasterOptions, advertised_host, bind_address, resource_id, rpc_port
from flinkpy.jobmaster.servicer import JobMasterServicer
from flinkpy.logs.context import LogContext
from flinkpy.logs.setup import begin_job
from flinkpy.metrics.scope_formats import GroupKind
from flinkpy.metrics.service_metrics import ServiceMetrics
from flinkpy.rpc.client import RpcClient
from flinkpy.rpc.endpoint import RpcEndpoint
from flinkpy.rpc.error_codec import error_to_proto
from flinkpy.rpc.server import RpcServer
from flinkpy.security import SecurityContext
from flinkpy.traces.tracer_slot import current_tracer

logger = logging.getLogger(__name__)

#: How long a suspended job may take to cancel its tasks and return its slots before the process ends. TaskExecutors and
#: the ResourceManager notice the end of the process themselves.
SUSPEND_TIMEOUT_S = 1.5

#: How long the process of an ended job may take to delete checkpoints.
CLEANUP_TIMEOUT_S = 10.0

#: sysexits.h EX_SOFTWARE: an internal error.
EXIT_STATUS_FAILED = 70


async def run_jobmaster(
    configuration: Configuration,
    *,
    dispatcher_address: str,
    job_id: str | None = None,
    ready_file: str | None = None,
    host: ServiceHost | None = None,
) -> int:
    """Runs one job, or waits for one first. Returns the exit status.

    0: the Dispatcher or a signal ended this process. 1: the Dispatcher, or the leadership of the job, was lost.
    70: an internal error.
    """
    host = host or ServiceHost(ready_file)
    security = SecurityContext.of_service(configuration)
    loop = asyncio.get_running_loop()
    services = await asyncio.to_thread(
        create_high_availability_services,
        configuration,
        security,
        loop,
        process="jobmaster",
        dispatcher_address=dispatcher_address,
    )
    try:
        with tempfile.TemporaryDirectory(prefix="flinkpy-jobmaster-") as directory:
            process = _JobMasterProcess(configuration, security, services, dispatcher_address, Path(directory), host)
            return await process.run(job_id)
    finally:
        await asyncio.to_thread(services.close)


class HaCheckpointRecovery:
    """A CheckpointRecovery in the high-availability store, which only the leading JobMaster of the job can write.

    Source: org.apache.flink.runtime.checkpoint.ZooKeeperCheckpointRecoveryFactory. Thread: I/O threads.
    """

    def __init__(self, services: HighAvailabilityServices, job_id: JobID, leadership: Leadership) -> None:
        self._services = services
        self._job_id = job_id
        self._leadership = leadership

    def pointers(self) -> CheckpointPointerStore:
        return self._services.checkpoint_pointer_store(self._job_id, self._leadership)

    def counter(self, at_least: int) -> CheckpointIDCounter:
        return self._services.checkpoint_id_counter(self._job_id, self._leadership, at_least)


class _JobMasterProcess:
    """The process: the contender in the election of its job, and the holder of its sessions. Thread: the event loop."""

    def __init__(
        self,
        configuration: Configuration,
        security: SecurityContext,
        services: HighAvailabilityServices,
        dispatcher_address: str,
        working_directory: Path,
        host: ServiceHost,
    ) -> None:
        self._services = services
        self._host_process = host
        self._working_directory = working_directory
        self._job_id = ""
        self._host = socket.gethostname()
        self._resource_id = resource_id(configuration)
        self._client = RpcClient(security=security)
        self._servicer = JobMasterServicer(self._resource_id)
        self._server = RpcServer(
            bind_address=bind_address(configuration),
            port=rpc_port(configuration, dispatcher_address),
            advertised_host=advertised_host(configuration),
            security=security,
            on_end=host.on_server_end(),
        )
        self._server.add_endpoint("JobMaster", self._servicer)
        self._shutdown = ShutdownRequest()
        self._command: dispatcher_pb2.StartJob | None = None
        self._election: LeaderElection | None = None
        self._job_master: JobMaster | None = None
        self._job_graph_error: FlinkError | None = None
        self._status = 0
        #: The metrics of this process, once it has a job.
        self._metrics: ServiceMetrics | None = None
        leaders = services.dispatcher_retrieval() if services.is_highly_available else None
        self._sessions = DispatcherSessions(self._client, self, dispatcher_address, leaders)
        self._configuration = configuration
        #: Reports a job for which no JobMaster could be created.
        self._reporter = RpcEndpoint(asyncio.get_running_loop())

    async def run(self, job_id: str | None) -> int:
        self._job_id = job_id or ""
        self._host_process.listen(self._shutdown)
        await self._server.start()
        if self._host_process.ready_file is None:  # the Dispatcher gets the address from the session
            logger.info("serving at %s", self._server.address)
        else:
            self._host_process.announce_ready("jobmaster", self._server.address)
        loop = asyncio.get_running_loop()
        session = loop.create_task(self._sessions.run(), name="sessions with Dispatchers")
        ended = loop.create_task(self._shutdown.wait(), name="shutdown request")
        try:
            await asyncio.wait({session, ended}, return_when=asyncio.FIRST_COMPLETED)
            if self._status == EXIT_STATUS_FAILED:
                return self._status
            end = SessionEnd(ended.result(), self._status) if ended.done() else session.result()
            await self._end(end.reason)
            return end.status
        finally:
            for task in (session, ended):
                task.cancel()
            await asyncio.gather(session, ended, return_exceptions=True)
            if self._job_master is not None:
                await self._job_master.close()
            if self._election is not None:
                self._election.close()
            await self._reporter.close()
            await self._server.stop()
            await self._client.close()
            if self._metrics is not None:
                await asyncio.to_thread(self._metrics.close)

    # ---- SessionHolder

    def hello(self) -> dispatcher_pb2.JobMasterHello:
        hello = dispatcher_pb2.JobMasterHello(
            resource_id=self._resource_id, pid=self._host_process.pid, host=self._host, job_id=self._job_id
        )
        if self._job_master is not None and self._command is not None:
            hello.job_id = self._job_master.job_id
            hello.job_master_id = self._command.job_master_id
            hello.address = self._server.address
            hello.status = job_status(self._job_master.state)
        return hello

    @property
    def is_done(self) -> bool:
        if self._command is None:
            return True
        job_master = self._job_master
        if job_master is None:
            return self._job_graph_error is not None
        return job_master.terminated.is_set() if self._services.is_highly_available else job_master.state.is_terminal

    @property
    def outlives_its_dispatcher(self) -> bool:
        return self._services.is_highly_available and self._job_master is not None

    def start_job(self, command: dispatcher_pb2.StartJob) -> None:
        """Stands for the leadership of the job, and starts the job once it is granted.

        It is granted at once unless an earlier JobMaster may still lead.
        """
        if self._command is not None:  # a repetition: this process has a job
            return
        self._command = command
        if not self._host_process.is_shared:
            begin_job(self._configuration, LogContext(command.job_graph.job_id, command.job_graph.name))
        self._election = self._services.job_master_election(JobID(command.job_graph.job_id), command.job_master_id)
        self._election.start(self)

    def adopted(self, dispatcher: LeaderInformation) -> None:
        if self._job_master is None:
            return
        logger.info("the Dispatcher at %s adopted job %s", dispatcher.address, self._job_master.job_id)
        gateway = self._client.gateway("Dispatcher", dispatcher.address, dispatcher.fencing_token)
        self._job_master.dispatcher_moved(gateway, dispatcher.address)

    # ---- LeaderContender

    def grant_leadership(self, fencing_token: str) -> None:
        command = self._command
        election = self._election
        assert command is not None and election is not None
        self._lead_job(command, election)
        election.confirm_leadership(fencing_token, self._server.address)

    def revoke_leadership(self) -> None:
        self._leadership_lost("its leadership was revoked")

    def _leadership_lost(self, reason: str) -> None:
        self._suspend(reason)
        self._status = 1
        self._shutdown.request(reason)

    # ---- the job

    def _lead_job(self, command: dispatcher_pb2.StartJob, election: LeaderElection) -> None:
        loop = asyncio.get_running_loop()
        present = self._sessions.dispatcher
        dispatcher = self._client.gateway("Dispatcher", present.address, present.fencing_token)
        is_highly_available = self._services.is_highly_available
        leadership = election.leadership
        assert leadership is not None
        recovery = HaCheckpointRecovery(self._services, JobID(command.job_graph.job_id), leadership)
        blobs = LeaderBlobs(
            self._client,
            self._reporter.clock,
            lambda: self._sessions.dispatcher.address,
            self._sessions.changed,
            others_may_lead=is_highly_available,
        )
        cluster_configuration = {**self._configuration.to_dict(), **command.configuration.entries}
        graph = command.job_graph
        host = advertised_host(self._configuration)
        variables = {"<host>": host, "<job_id>": graph.job_id, "<job_name>": graph.name}
        self._metrics = ServiceMetrics(self._configuration, GroupKind.JOB_MANAGER_JOB, variables)
        self._metrics.start()
        environment = JobMasterEnvironment(
            peers=self._client,
            resource_id=self._resource_id,
            address=self._server.address,
            dispatcher=dispatcher,
            dispatcher_address=present.address,
            fetch_blob=blobs.fetch,
            working_directory=self._working_directory,
            random=Random(),
            graph_id=secrets.token_hex(8),
            recovery_directory=Path(command.recovery_directory) if command.recovery_directory else None,
            checkpoint_recovery=recovery if is_highly_available else None,
            is_recovery=command.is_recovery,
            outlives_dispatcher=is_highly_available,
            resource_manager=self._services.resource_manager_retrieval() if is_highly_available else None,
            python_environments=environments_root(
                read_option(cluster_configuration, pipeline_options.PYTHON_ENVIRONMENT_DIR)
            ),
            metrics=self._metrics.registry,
            tracer=current_tracer(),
            host=host,
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
            self._job_graph_error = error
            self._report_failed(dispatcher, command, error)
            return
        job_master.on_fatal_error = self._on_fatal_error
        job_master.on_leadership_lost = lambda error: self._leadership_lost(str(error))
        self._job_master = job_master
        self._servicer.attach(job_master, command.job_master_id)
        job_master.start()
        self._sessions.follow()

    def _report_failed(self, dispatcher: Any, command: dispatcher_pb2.StartJob, error: FlinkError) -> None:
        """Reports the job as FAILED, because no ExecutionGraph could be created for it."""
        graph = command.job_graph
        info = error_to_proto(error)
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
        connection.terminated(result, details, None, lambda: None)

    async def _end(self, reason: str) -> None:
        job_master = self._job_master
        if job_master is None:
            if self._election is not None:
                self._election.close()  # the leadership was never granted
            return
        self._suspend(reason)
        timeout_s = CLEANUP_TIMEOUT_S if job_master.state.is_globally_terminal else SUSPEND_TIMEOUT_S
        try:
            await asyncio.wait_for(job_master.terminated.wait(), timeout_s)
        except TimeoutError:
            logger.warning("job %s did not return all resources in time", job_master.job_id)

    def _suspend(self, reason: str) -> None:
        """Suspends the job unless it has ended."""
        job_master = self._job_master
        if job_master is not None and not job_master.state.is_terminal:
            logger.error("job %s is suspended: %s", job_master.job_id, reason)
            job_master.suspend(reason)

    def _on_fatal_error(self, error: BaseException) -> None:
        """Ends the process after an internal error, so that the Dispatcher can start another JobMaster."""
        logger.critical("the JobMaster failed with an internal error", exc_info=error)
        self._status = EXIT_STATUS_FAILED
        self._shutdown.request("it failed")
