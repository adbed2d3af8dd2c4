"""RunningJobs: the unfinished jobs, and the effects of their JobManagerRunners.

Thread: the Dispatcher's loop; files are written on I/O threads.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from flinkpy._proto import common_pb2, job_pb2
from flinkpy._proto import dispatcher_pb2 as pb
from flinkpy.common.errors import (
    ConfigurationError,
    FlinkError,
    JobNotFoundError,
    LeadershipLostError,
    RpcTimeoutError,
    RpcUnavailableError,
    StaleFencingTokenError,
)
from flinkpy.common.ids import JobID, JobMasterId
from flinkpy.common.states import JobState
from flinkpy.configuration import checkpointing_options, jobmanager_options, read_option
from flinkpy.configuration.execution_options import JOB_RECOVERY_ENABLED, RUNTIME_MODE
from flinkpy.dispatcher import job_manager_runner as wanted
from flinkpy.dispatcher.dispatcher_services import DispatcherServices
from flinkpy.dispatcher.job_adoption import JobAdoptions
from flinkpy.dispatcher.job_archive import JobArchive, job_not_found, status_to_proto, terminated_without_job_master
from flinkpy.dispatcher.job_clean_up import JobCleanUp
from flinkpy.dispatcher.job_clients import JobClients
from flinkpy.dispatcher.job_manager_runner import JobManagerRunner, RecoveryPolicy, RunnerState
from flinkpy.dispatcher.job_master_sessions import JobMasterSessions
from flinkpy.dispatcher.options import DispatcherOptions
from flinkpy.dispatcher.stored_job_graphs import StoredJobGraphs
from flinkpy.rpc.endpoint import RpcEndpoint
from flinkpy.rpc.peer_connection import PeerConnection, PeerOptions, Peers

logger = logging.getLogger(__name__)

#: Attempts to store a result and the pause between them. After the last attempt it is kept in memory only.
STORE_ATTEMPTS = 3
STORE_RETRY_DELAY_MS = 1_000

#: Pause before another check whether this process leads, if ZooKeeper did not answer.
LEADERSHIP_CHECK_DELAY_MS = 500

#: How often expired results are removed.
EXPIRATION_CHECK_INTERVAL_MS = 60_000

#: How often jobs without clients are looked for; much less than any sensible client.heartbeat.timeout.
CLIENT_CHECK_INTERVAL_MS = 1_000

#: How long the end of a Dispatcher waits for the clean-up, with the archives, of jobs that have just ended.
LAST_CLEAN_UPS_TIMEOUT_S = 10.0
#: How long a Dispatcher that ends waits for results that are being stored.
LAST_RESULTS_TIMEOUT_S = 1.0


#: The maximum number of changes that wait for a slow client. The oldest ones are skipped, never the last one.
MAX_BACKLOG = 64


class JobStatusWatchers:
    """The clients that watch the status of one job. Thread: the Dispatcher's loop."""

    def __init__(self) -> None:
        self._queues: set[asyncio.Queue[JobState]] = set()

    def publish(self, status: JobState) -> None:
        for queue in self._queues:
            if queue.full():
                queue.get_nowait()
            queue.put_nowait(status)

    async def watch(self, present: JobState) -> AsyncIterator[JobState]:
        """Yields the current status and then every change, up to and including a terminal status."""
        queue: asyncio.Queue[JobState] = asyncio.Queue(MAX_BACKLOG)
        self._queues.add(queue)
        try:
            status = present
            yield status
            while not status.is_terminal:
                status = await queue.get()
                yield status
        finally:
            self._queues.discard(queue)


@dataclass(slots=True)
class RunningJob:
    runner: JobManagerRunner
    ended: asyncio.Future[pb.JobTerminated]
    #: set when the JobMaster runs, or will never run
    decided: asyncio.Event = field(default_factory=asyncio.Event)
    watchers: JobStatusWatchers = field(default_factory=JobStatusWatchers)
    stored: list[asyncio.Future[None]] = field(default_factory=list)


class JobMasterConnection(PeerConnection):
    """The connection to the JobMaster of a job. Thread: the Dispatcher's loop.

    Its heartbeats request the details of the job, which are shown if the JobMaster is lost.
    """

    lost_by = ()  # the runner knows who leads the job
    is_watched = False  # the session of the process shows its end

    def __init__(
        self,
        endpoint: RpcEndpoint,
        peers: Peers,
        options: PeerOptions,
        runner: JobManagerRunner,
        *,
        on_lost: Callable[[str], None],
    ) -> None:
        assert runner.job_master_address is not None
        super().__init__(
            endpoint,
            peers,
            options,
            service="JobMaster",
            name=f"JobMaster of job {runner.job_id}",
            address=runner.job_master_address,
            fencing_token=str(runner.job_master_id),
        )
        self._runner = runner
        self._timeout_s = options.rpc_timeout_s
        self._when_lost = on_lost
        self.peer_registered()

    async def _send_heartbeat(self) -> Any:
        # Without the subtasks, which are many in a large job: the answer is kept in case that the JobMaster is lost.
        request = job_pb2.JobDetailsRequest(job_id=str(self._runner.job_id), without_subtasks=True)
        return await self._gateway.request_job_details(request, timeout_s=self._timeout_s)

    def _on_heartbeat_answer(self, answer: Any) -> None:
        self.heard()
        self._runner.details_reported(answer)

    def _on_lost(self, reason: str) -> None:
        self._when_lost(reason)


class RunningJobs:
    """Owns a RunningJob for each job, from its submission until its terminal status is published.

    After that the job is in the archive.
    """

    def __init__(
        self,
        endpoint: RpcEndpoint,
        *,
        options: DispatcherOptions,
        services: DispatcherServices,
        dispatcher_id: str,
        configuration: dict[str, str],
    ) -> None:
        self._endpoint = endpoint
        self._options = options
        self._services = services
        self._dispatcher_id = dispatcher_id
        self._configuration = configuration
        self.archive = JobArchive(
            services.job_results,
            max_entries=options.max_kept_results,
            expiration_ms=options.result_expiration_ms,
            cache_bytes=options.result_cache_bytes,
        )
        self.job_masters = JobMasterSessions(
            num_standbys=options.num_standbys,
            events=self,
            make_launcher=services.launcher,
            schedule=endpoint.schedule,
            dispatcher_id=dispatcher_id,
            is_highly_available=services.is_highly_available,
        )
        self._clean_up = JobCleanUp(endpoint, services.clean_up, options.clean_up_policy)
        self._adoptions: JobAdoptions | None = None
        if services.is_highly_available:
            assert services.job_master_retrieval is not None
            self._adoptions = JobAdoptions(
                endpoint,
                retrieval=services.job_master_retrieval,
                gateway=services.gateways.gateway,
                on_failed=self._adoption_failed,
            )
        self.stored_graphs = StoredJobGraphs(endpoint, services.job_graphs)
        self._jobs: dict[JobID, RunningJob] = {}
        #: the connections to the JobMasters that run
        self._job_masters: dict[JobID, JobMasterConnection] = {}
        self._clients = JobClients()
        #: ended jobs with stored results whose JobMaster processes are still cleaning up
        self._to_clean_up: dict[JobID, pb.JobTerminated] = {}

    def find(self, job_id: JobID) -> RunningJob | None:
        return self._jobs.get(job_id)

    def __iter__(self) -> Iterator[RunningJob]:
        return iter(list(self._jobs.values()))

    def __len__(self) -> int:
        return len(self._jobs)

    def start(
        self,
        address: str,
        ended: Iterable[pb.JobTerminated] = (),
        unfinished: Iterable[job_pb2.JobGraph] = (),
        dirty: Iterable[pb.JobTerminated] = (),
    ) -> None:
        """Starts JobMaster processes, which report to `address`, and recovers the jobs of a former Dispatcher.

        Args:
            ended: the results that it stored.
            unfinished: its jobs that have no result. They are run again.
            dirty: the results in `ended` whose jobs have not been cleaned up.
        """
        for terminated in ended:
            self._add_to_archive(terminated)
        self.expire_results()
        for terminated in dirty:
            self._clean_up.start(terminated)
        self.job_masters.start(address)
        for graph in unfinished:
            self.run(graph, is_recovered=True)
        self._endpoint.schedule(CLIENT_CHECK_INTERVAL_MS, self._cancel_jobs_without_clients)

    def run(self, graph: job_pb2.JobGraph, *, is_recovered: bool = False) -> None:
        """Runs a job that has been stored."""
        now_ms = self._endpoint.clock.now_ms()
        runner = JobManagerRunner(
            graph,
            min(graph.created_ms or now_ms, now_ms) if is_recovered else now_ms,
            self._services.new_job_master_id,
            policy=recovery_policy(graph, self._configuration, self._options),
            is_recovered=is_recovered,
            adoption_timeout_ms=self._options.adoption_timeout_ms if self._services.is_highly_available else None,
        )
        job = RunningJob(runner, asyncio.get_running_loop().create_future())
        self._jobs[runner.job_id] = job
        self._clients.expect(runner.job_id, graph.initial_client_heartbeat_timeout_ms, self._endpoint.awake_ms())
        logger.info("job %s ('%s') %s", runner.job_id, graph.name, "is recovered" if is_recovered else "was submitted")
        self.run_effects(job, runner.submitted())

    def cancel(self, job: RunningJob) -> None:
        self.run_effects(job, job.runner.cancel(self._endpoint.clock.now_ms()))

    def client_heard(self, job_id: JobID, timeout_ms: int) -> None:
        """Records a heartbeat of the job's client. Raises: JobNotFoundError, also if the job has ended."""
        if job_id not in self._jobs:
            raise job_not_found(job_id)
        self._clients.heard(job_id, timeout_ms, self._endpoint.awake_ms())

    def _cancel_jobs_without_clients(self) -> None:
        for job_id, timeout_ms in self._clients.expired(self._endpoint.awake_ms()):
            self._if_leading(partial(self._cancel_without_client, job_id, timeout_ms))
        self._endpoint.schedule(CLIENT_CHECK_INTERVAL_MS, self._cancel_jobs_without_clients)

    def _cancel_without_client(self, job_id: JobID, timeout_ms: int) -> None:
        job = self._jobs.get(job_id)
        if job is None or job.runner.is_over:
            return
        logger.warning(
            "canceling job %s ('%s'): its client sent no heartbeat for %d ms (client.heartbeat.timeout)",
            job_id,
            job.runner.job_graph.name,
            timeout_ms,
        )
        self.cancel(job)
        self._endpoint.run_async(
            self.stored_graphs.keep_cancellation(job.runner, job.ended), None, f"keep the cancellation of {job_id}"
        )

    def job_master_started(self, job: RunningJob, request: pb.JobMasterStarted) -> None:
        self.run_effects(job, job.runner.job_master_started(JobMasterId(request.job_master_id), request.address))

    async def stop(self, reason: str) -> None:
        """Ends all JobMaster processes and suspends running jobs."""
        for job in self:
            self.run_effects(job, job.runner.suspend(reason, self._endpoint.clock.now_ms()))
        if self._jobs:
            await asyncio.wait([job.ended for job in self], timeout=LAST_RESULTS_TIMEOUT_S)
        await self.job_masters.close(reason)
        # There may be no next Dispatcher that could archive jobs which have just ended.
        for job_id in list(self._to_clean_up):
            self.job_master_gone(job_id)
        await self._clean_up.wait_for_first_attempts(LAST_CLEAN_UPS_TIMEOUT_S)

    def leave(self) -> None:
        """Stops because another Dispatcher leads. JobMasters with a job keep running."""
        self.job_masters.leave()
        if self._adoptions is not None:
            self._adoptions.close()

    # --- events of the JobMaster processes --------------------------------------------------------------------------

    def start_command(self, job_id: JobID) -> pb.StartJob | None:
        job = self._jobs.get(job_id)
        if job is None or job.runner.state is not RunnerState.WAITING:
            return None
        is_recovery = job.runner.is_recovery
        return pb.StartJob(
            job_graph=job.runner.job_graph,
            job_master_id=str(job.runner.process_assigned(self._endpoint.clock.now_ms())),
            resource_manager_address=self._options.resource_manager_address,  # empty with high availability
            configuration=common_pb2.Configuration(entries=self._configuration),
            dispatcher_id=self._dispatcher_id,
            submitted_ms=job.runner.submitted_ms,
            recovery_directory=str(self._services.recovery_directories.path_of(job_id)),
            is_recovery=is_recovery,
        )

    def job_master_hello(self, hello: pb.JobMasterHello) -> bool:
        job = self._jobs.get(JobID(hello.job_id))
        if job is None:
            return False
        status = JobState(hello.status) if hello.status else None
        with suppress(StaleFencingTokenError):
            effects = job.runner.hello(
                JobMasterId(hello.job_master_id), hello.address, status, self._endpoint.clock.now_ms()
            )
            self.run_effects(job, effects)
            return True
        return False

    def job_master_disconnected(self, job_id: JobID) -> None:
        job = self._jobs.get(job_id)
        if job is not None:
            self.run_effects(job, job.runner.job_master_disconnected())

    def job_master_exited(self, job_id: JobID, job_master_id: str) -> None:
        self._services.release_dead_leader(job_id, job_master_id)

    def _adoption_failed(self, job_id: JobID, adoption: int, reason: str) -> None:
        def fail() -> None:
            job = self._jobs.get(job_id)
            if job is not None:
                self.run_effects(job, job.runner.adoption_failed(adoption, reason, self._endpoint.clock.now_ms()))

        self._if_leading(fail)

    def _if_leading(self, action: Callable[[], None]) -> None:
        """Runs the action of a time-out, unless another Dispatcher leads and this one does not know it yet."""
        if not self._services.is_highly_available:
            action()
            return

        self._endpoint.start_task(self._run_if_leading(action), "check the leadership")

    async def _run_if_leading(self, action: Callable[[], None]) -> None:
        while True:
            try:
                await self._endpoint.blocking(self._services.recovery_directories.check_leadership)
            except LeadershipLostError as error:
                logger.warning("ignoring a time-out: %s", error)
                return
            except Exception as error:  # noqa: BLE001 - until the check succeeds, nobody knows who leads
                logger.debug("checking the leadership failed: %s", error)
                await asyncio.sleep(LEADERSHIP_CHECK_DELAY_MS / 1000)
            else:
                action()
                return

    def job_master_lost(self, job_id: JobID, reason: str) -> None:
        job = self._jobs.get(job_id)
        if job is not None:
            self.run_effects(job, job.runner.job_master_lost(reason, self._endpoint.clock.now_ms()))

    def job_master_gone(self, job_id: JobID) -> None:
        """Removes what is left of a job whose result is stored and whose JobMaster has ended."""
        terminated = self._to_clean_up.pop(job_id, None)
        if terminated is None:
            return  # suspended, or its result is not stored: the next Dispatcher needs the files
        self._clean_up.start(terminated)

    def job_master_cannot_start(self, job_id: JobID, reason: str) -> None:
        job = self._jobs.get(job_id)
        if job is not None:
            self.run_effects(job, job.runner.failed_to_start(reason, self._endpoint.clock.now_ms()))

    def job_master_gateway(self, job: RunningJob) -> Any | None:
        """Returns the gateway of the job's JobMaster; None while the job has none."""
        if job.runner.state is not RunnerState.RUNNING:
            return None
        address, token = job.runner.job_master_address, str(job.runner.job_master_id)
        assert address is not None
        return self._services.gateways.gateway("JobMaster", address, token)

    async def leader_of(self, job_id: JobID) -> Any:
        """Returns the gateway of the job's JobMaster. Waits for a JobMaster that is starting.

        Raises: JobNotFoundError if the job is unknown or has ended, RpcUnavailableError.
        """
        job = self.find(job_id)
        if job is not None and not job.decided.is_set():
            try:
                await asyncio.wait_for(job.decided.wait(), self._options.rpc_timeout_s)
            except TimeoutError:
                raise RpcUnavailableError(f"the JobMaster of job {job_id} is still starting") from None
        gateway = None if job is None else self.job_master_gateway(job)
        if gateway is None:
            status = self.status_of(job_id)
            raise JobNotFoundError(
                f"job {job_id} is not running: it is {status.name}",
                details={"job_id": str(job_id), "status": status.name},
            )
        return gateway

    def status_of(self, job_id: JobID) -> JobState:
        """Returns the status that clients see, of a running or ended job. Raises: JobNotFoundError."""
        job = self.find(job_id)
        if job is not None:
            return job.runner.status
        overview = self.archive.overview(job_id)
        if overview is None:
            raise job_not_found(job_id)
        return JobState(overview.status)

    def show_failed(self, job_id: JobID, name: str, error: FlinkError) -> None:
        """Adds a job that never ran to the failed jobs, for as long as this Dispatcher leads."""
        now_ms = self._endpoint.clock.now_ms()
        details = job_pb2.JobDetails(job_id=str(job_id), name=name, start_time_ms=now_ms)
        terminated = terminated_without_job_master(details, JobState.FAILED, error, now_ms)
        self._add_to_archive(terminated, is_stored=False)

    def overviews(self) -> list[pb.JobOverview]:
        """Returns all running and archived jobs, in the order in which they started."""
        running = [
            pb.JobOverview(
                job_id=str(job.runner.job_id),
                name=job.runner.job_graph.name,
                status=status_to_proto(job.runner.status),
                start_time_ms=job.runner.submitted_ms,
                end_time_ms=-1,
                is_batch=_is_batch({**self._configuration, **job.runner.job_graph.configuration.entries}),
            )
            for job in self
        ]
        return sorted([*self.archive.overviews(), *running], key=lambda job: job.start_time_ms)

    def _connect(self, job: RunningJob) -> None:
        """Starts to exchange heartbeats with the JobMaster of a job."""
        job_id = job.runner.job_id
        self._disconnect(job_id)
        self._job_masters[job_id] = JobMasterConnection(
            self._endpoint,
            self._services.gateways,
            self._options,
            job.runner,
            on_lost=lambda reason: self._if_leading(partial(self.job_master_lost, job_id, reason)),
        )

    def _disconnect(self, job_id: JobID) -> None:
        connection = self._job_masters.pop(job_id, None)
        if connection is not None:
            connection.close()

    # --- effects ----------------------------------------------------------------------------------------------------

    def run_effects(self, job: RunningJob, effects: Iterable[wanted.RunnerEffect]) -> None:
        job_id = job.runner.job_id
        for effect in effects:
            match effect:
                case wanted.RequestJobMaster():
                    self._request_job_master(job)
                case wanted.AwaitJobMaster():
                    job.decided.clear()
                    self._disconnect(job_id)
                    assert self._adoptions is not None
                    self._adoptions.wait_for(job_id, effect)
                case wanted.JobMasterReady():
                    self._stop_waiting(job)
                    self._connect(job)
                case wanted.AbandonJobMaster():
                    self._abandon_job_master(job, effect)
                case wanted.RecoverAfter():
                    self._recover_after(job, effect)
                case wanted.WithdrawRequest():
                    self.job_masters.withdraw(job_id)
                case wanted.CancelAtJobMaster():
                    self._endpoint.start_task(self._cancel_at_job_master(job, effect), f"cancel job {job_id}")
                case wanted.StoreResult():
                    self._stop_waiting(job)
                    self._disconnect(job_id)
                    store = partial(self._start_storing, job, effect.terminated)
                    self.stored_graphs.after(job_id, store)
                case wanted.PublishStatus():
                    logger.info("job %s is %s", job_id, effect.status.name)
                    job.watchers.publish(effect.status)
                    if effect.status.is_terminal:
                        self._archive(job)
                case wanted.ReleaseJobMaster():
                    self.job_masters.release(job_id)

    def _stop_waiting(self, job: RunningJob) -> None:
        job.decided.set()
        if self._adoptions is not None:
            self._adoptions.settled(job.runner.job_id)

    def _request_job_master(self, job: RunningJob) -> None:
        job_id = job.runner.job_id
        if self._services.is_highly_available and job.runner.is_recovery:
            self._endpoint.start_task(self._request_unless_ended(job), f"look for a result of {job_id}")
        else:
            self.job_masters.request(job_id)

    async def _request_unless_ended(self, job: RunningJob) -> None:
        """Requests a JobMaster unless a Dispatcher that did not know the end of its leadership stored a result."""
        job_id = job.runner.job_id
        terminated = None
        try:
            load = partial(self._services.job_results.load, job_id)
            terminated = await self._endpoint.blocking(load)
        except Exception as error:  # noqa: BLE001 - the job runs again in any case
            logger.warning("running job %s again, although it may have ended: %s", job_id, error)
        if terminated is not None:
            self.run_effects(job, job.runner.result_found(terminated))
        elif job.runner.state is RunnerState.WAITING:
            self.job_masters.request(job_id)

    def _abandon_job_master(self, job: RunningJob, effect: wanted.AbandonJobMaster) -> None:
        job_id = job.runner.job_id
        logger.warning("lost the JobMaster of job %s, starting another one: %s", job_id, effect.reason)
        job.decided.clear()
        self._disconnect(job_id)
        if self._adoptions is not None:
            self._adoptions.settled(job_id)
        self.job_masters.abandon(job_id, effect.reason)
        if effect.address is not None:
            self._endpoint.run_async(self._services.gateways.drop(effect.address), None, "drop JobMaster channel")

    def _recover_after(self, job: RunningJob, effect: wanted.RecoverAfter) -> None:
        if effect.delay_ms == 0:
            self.run_effects(job, job.runner.recover(effect.recovery))
            return
        logger.info("starting another JobMaster of job %s in %d ms", job.runner.job_id, effect.delay_ms)
        self._endpoint.schedule(effect.delay_ms, lambda: self.run_effects(job, job.runner.recover(effect.recovery)))

    async def _cancel_at_job_master(self, job: RunningJob, effect: wanted.CancelAtJobMaster) -> None:
        """Cancels a job. Repeats a call that timed out. A JobMaster that cannot be reached will be found lost soon."""
        gateway = self._services.gateways.gateway("JobMaster", effect.address, str(effect.job_master_id))
        request = pb.JobIdMessage(job_id=str(job.runner.job_id))
        while True:
            try:
                await gateway.cancel(request, timeout_s=self._options.rpc_timeout_s)
                return
            except RpcTimeoutError:
                if job.runner.job_master_id != effect.job_master_id or job.runner.is_over:
                    return
            except FlinkError as error:
                logger.debug("canceling job %s failed: %s", job.runner.job_id, error)
                return

    def _start_storing(self, job: RunningJob, terminated: pb.JobTerminated) -> None:
        self._endpoint.start_task(self._store_result(job, terminated), f"store result of {job.runner.job_id}")

    async def _store_result(self, job: RunningJob, terminated: pb.JobTerminated) -> None:
        job_id = job.runner.job_id

        def store() -> None:
            self._services.job_results.create_dirty(terminated)
            self._services.job_graphs.remove(job_id)

        for attempt in itertools.count(1):
            failure: Exception | None = None
            try:
                await self._endpoint.blocking(store, f"store result of {job_id}")
            except Exception as error:  # noqa: BLE001 - any failure is tried again
                failure = error
            if job.runner.state is not RunnerState.ARCHIVING:
                return  # the job has been suspended meanwhile
            if failure is None:
                self._to_clean_up[job_id] = terminated
                break
            logger.error("could not store the result of job %s (attempt %d): %s", job_id, attempt, failure)
            # With high availability it never gives up: the next leader would run a job without a stored result again.
            if attempt >= STORE_ATTEMPTS and not self._services.is_highly_available:
                self._add_to_archive(terminated, is_stored=False)
                break
            await asyncio.sleep(STORE_RETRY_DELAY_MS / 1000)
        self.run_effects(job, job.runner.result_stored())

    def _add_to_archive(self, terminated: pb.JobTerminated, *, is_stored: bool = True) -> None:
        self._remove_results(self.archive.add(terminated, is_stored=is_stored))

    def expire_results(self) -> None:
        """Removes the results of jobs that ended long ago. Runs periodically."""
        self._remove_results(self.archive.expire(self._endpoint.clock.now_ms()))
        self._endpoint.schedule(EXPIRATION_CHECK_INTERVAL_MS, self.expire_results)

    def _remove_results(self, job_ids: list[JobID]) -> None:
        def remove() -> None:
            for job_id in job_ids:
                self._services.job_results.remove(job_id)

        if job_ids:
            self._endpoint.run_blocking(remove, None, f"remove {len(job_ids)} old results")

    def _archive(self, job: RunningJob) -> None:
        """Moves a job with a terminal status to the archive."""
        terminated = job.runner.terminated
        assert terminated is not None
        del self._jobs[job.runner.job_id]
        self._disconnect(job.runner.job_id)
        self._clients.remove(job.runner.job_id)
        if not self.archive.contains(job.runner.job_id):
            self._add_to_archive(terminated)
        job.ended.set_result(terminated)
        for answer in job.stored:
            if not answer.done():
                answer.set_result(None)
        if job.runner.job_master_address is not None:
            self._endpoint.run_async(
                self._services.gateways.drop(job.runner.job_master_address), None, "drop JobMaster channel"
            )


_NO_RESTART = (None, "none", "disable", "off")


def recovery_policy(
    job_graph: job_pb2.JobGraph, cluster_configuration: dict[str, str], options: DispatcherOptions
) -> RecoveryPolicy:
    """Returns what happens when a JobMaster of this job is lost.

    A job with checkpoints continues from the last one, and a batch job with `execution.batch.job-recovery.enabled` from
    its finished results. Any other job starts again and writes its output twice, so it must have a restart strategy, as
    for any other failure.

    Differs: with high availability Flink restarts any job.
    """
    return RecoveryPolicy(
        max_attempts=options.job_master_recovery_attempts if _may_run_again(job_graph, cluster_configuration) else 0,
        initial_delay_ms=options.job_master_recovery_initial_backoff_ms,
        max_delay_ms=options.job_master_recovery_max_backoff_ms,
        reset_after_ms=options.job_master_recovery_reset_ms,
    )


def _may_run_again(job_graph: job_pb2.JobGraph, cluster_configuration: dict[str, str]) -> bool:
    configuration = {**cluster_configuration, **job_graph.configuration.entries}
    try:
        if read_option(configuration, checkpointing_options.INTERVAL):
            return True
        if _is_batch(configuration) and read_option(configuration, JOB_RECOVERY_ENABLED):
            return True
        return read_option(configuration, jobmanager_options.RESTART_STRATEGY) not in _NO_RESTART
    except ConfigurationError:
        return False  # its JobMaster will refuse it with this error


def _is_batch(configuration: dict[str, str]) -> bool:
    try:
        return read_option(configuration, RUNTIME_MODE) == "BATCH"
    except ConfigurationError:
        return False  # its JobMaster will refuse it with this error
