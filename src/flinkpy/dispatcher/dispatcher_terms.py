"""DispatcherTerms: makes a new Dispatcher for each term in which this process leads, with the stored jobs.

| end of a term | without high availability           | with it                                          |
|---------------|-------------------------------------|--------------------------------------------------|
| revoked       | -                                   | JobMasters with a job keep running               |
| shutdown      | JobMasters stop, jobs are suspended | JobMasters of this host stop                     |
| kill -9       | JobMasters end with this process    | JobMasters keep running                          |

Source: org.apache.flink.runtime.dispatcher.runner.{SessionDispatcherLeaderProcess,DefaultDispatcherRunner}.
Thread: the process's loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from flinkpy._proto import dispatcher_pb2 as pb
from flinkpy.common.clock import SystemClock
from flinkpy.common.configuration import Configuration
from flinkpy.common.ids import DispatcherId, JobID
from flinkpy.common.process_template import ProcessTemplate
from flinkpy.dispatcher.archivist import Archivist
from flinkpy.dispatcher.blob_server import BlobStore
from flinkpy.dispatcher.dispatcher import Dispatcher
from flinkpy.dispatcher.dispatcher_services import DispatcherServices
from flinkpy.dispatcher.hosted_job_masters import HostedJobMasters, RunJobMaster
from flinkpy.dispatcher.job_clean_up import clean_up_checkpoints
from flinkpy.dispatcher.job_master_launcher import JobMasterLauncher
from flinkpy.dispatcher.options import DispatcherOptions
from flinkpy.dispatcher.recovered_jobs import RecoveredJobs, recover, recover_shared
from flinkpy.highavailability.leader_election import LeaderInformation, Leadership
from flinkpy.highavailability.services import HighAvailabilityServices
from flinkpy.metrics.metric_registry import MetricRegistry
from flinkpy.rpc.leader_endpoint import LeaderEndpoint
from flinkpy.rpc.peer_connection import Peers

logger = logging.getLogger(__name__)


class DispatcherTerms:
    """Makes and ends Dispatchers.

    Args:
        temporary: the temporary directory of JobMasters; None if they outlive this process.
        template: the process from which JobMasters are forked.
        run_job_master: runs a JobMaster on the loop of this process, instead of a process.
        rest_url: the URL of this process's REST server; empty if it has none.
        metrics: the metrics of this process.
        archivist: writes archives for the history server; None if there is none.
    """

    def __init__(
        self,
        *,
        configuration: Configuration,
        options: DispatcherOptions,
        services: HighAvailabilityServices,
        served: LeaderEndpoint,
        gateways: Peers,
        blobs: BlobStore,
        temporary: Path | None,
        on_shutdown_requested: Callable[[str], None],
        template: ProcessTemplate | None = None,
        run_job_master: RunJobMaster | None = None,
        rest_url: str = "",
        metrics: MetricRegistry | None = None,
        archivist: Archivist | None = None,
    ) -> None:
        self._configuration = configuration
        self._options = options
        self._ha = services
        self._served = served
        self._gateways = gateways
        self._blobs = blobs
        self._temporary = temporary
        self._template = template
        self._run_job_master = run_job_master
        self._rest_url = rest_url
        self._metrics = metrics or MetricRegistry()
        self._archivist = archivist
        self._on_shutdown_requested = on_shutdown_requested
        #: the launchers of all terms whose children may still run
        self._launchers: list[JobMasterLauncher | HostedJobMasters] = []
        self._recovered = RecoveredJobs([], [], [])
        self._last: Dispatcher | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._resource_manager: LeaderInformation | None = None
        if services.is_highly_available:
            self._retrieval = services.resource_manager_retrieval()
            self._retrieval.start(self._resource_manager_changed)

    @property
    def num_running_jobs(self) -> int:
        """The number of jobs that have not ended; 0 while this process does not lead. Any thread."""
        served = self._served.endpoint
        return len(served.jobs) if isinstance(served, Dispatcher) else 0

    async def make(self, leadership: Leadership) -> Dispatcher:
        services = await asyncio.to_thread(self._services, leadership)
        # The jobs of a former leader are recovered before clients can ask for them.
        self._recovered = await asyncio.to_thread(self._recover, services)
        self._last = Dispatcher(
            asyncio.get_running_loop(),
            options=self._options,
            dispatcher_id=DispatcherId(leadership.token),
            services=services,
            configuration=self._configuration.to_dict(),
        )
        return self._last

    def activate(self, endpoint: Dispatcher, address: str) -> None:
        recovered, self._recovered = self._recovered, RecoveredJobs([], [], [])
        endpoint.start(address, recovered.ended, recovered.unfinished, recovered.dirty)

    async def revoked(self, endpoint: Dispatcher) -> None:
        endpoint.leave()
        await endpoint.close()

    async def ended(self, endpoint: Dispatcher) -> None:
        if not self._ha.is_highly_available:
            await endpoint.stop_jobs("the Dispatcher is shutting down")
            return
        # The jobs continue under another leader, so clients must not see them as suspended.
        self._served.detach()
        await self.revoked(endpoint)

    async def close(self) -> None:
        """Ends all children and the last Dispatcher. Called when nothing is served any more."""
        if self._ha.is_highly_available:
            self._retrieval.close()
        await asyncio.gather(*(launcher.close() for launcher in self._launchers))
        if self._last is not None:
            await self._last.close()
        await asyncio.gather(*list(self._tasks), return_exceptions=True)

    def _services(self, leadership: Leadership) -> DispatcherServices:
        """Returns the services of a term. Blocks: some stores read their content."""
        ha = self._ha
        return DispatcherServices(
            gateways=self._gateways,
            launcher=self._launcher,
            job_graphs=ha.job_graph_store(leadership),
            job_results=ha.job_result_store(leadership),
            recovery_directories=ha.recovery_directories(leadership),
            blobs=self._blobs,
            on_shutdown_requested=self._on_shutdown_requested,
            dispose_savepoint=self._dispose_savepoint,
            clean_up_checkpoints=lambda terminated, path: self._clean_up_checkpoints(terminated, path, leadership),
            is_highly_available=ha.is_highly_available,
            job_master_retrieval=ha.job_master_retrieval if ha.is_highly_available else None,
            clean_up_job=ha.clean_up_job,
            archive_job=(lambda terminated: None) if self._archivist is None else self._archivist.archive_job,
            release_dead_leader=self._release_dead_leader,
            resource_manager_address=self.resource_manager_address if ha.is_highly_available else None,
            rest_url=self._rest_url,
            metrics=self._metrics,
        )

    def _recover(self, services: DispatcherServices) -> RecoveredJobs:
        stores = (services.job_graphs, services.job_results, services.recovery_directories, SystemClock().now_ms())
        if self._ha.is_highly_available:
            return recover_shared(*stores)
        return recover(*stores, services.clean_up_checkpoints, has_archives=self._archivist is not None)

    def _launcher(self, on_exited: Callable[[str, str], None]) -> JobMasterLauncher | HostedJobMasters:
        launcher: JobMasterLauncher | HostedJobMasters
        if self._run_job_master is not None:
            launcher = HostedJobMasters(self._configuration.to_dict(), on_exited, self._run_job_master)
        else:
            launcher = JobMasterLauncher(
                self._configuration.to_dict(),
                self._options.bind_address,
                self._temporary,
                on_exited,
                outlive_parent=self._ha.is_highly_available,
                template=self._template,
            )
        self._launchers = [former for former in self._launchers if former.has_children] + [launcher]
        return launcher

    def _release_dead_leader(self, job_id: JobID, job_master_id: str) -> None:
        async def release() -> None:
            try:
                await asyncio.to_thread(self._ha.release_dead_leader, job_id, job_master_id)
            except Exception as error:  # noqa: BLE001 - the session ends without this, only later
                logger.warning(
                    "could not release the leadership of job %s, which ends with its session: %s", job_id, error
                )

        if self._ha.is_highly_available:
            self._run(release())

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _resource_manager_changed(self, leader: LeaderInformation | None) -> None:
        self._resource_manager = leader

    def resource_manager_address(self) -> str | None:
        """Returns the address of the leading ResourceManager, or None if none is known."""
        if not self._ha.is_highly_available:
            return self._options.resource_manager_address
        return None if self._resource_manager is None else self._resource_manager.address

    def _clean_up_checkpoints(self, terminated: pb.JobTerminated, path: Path, leadership: Leadership) -> None:
        clean_up_checkpoints(terminated, path, self._configuration.to_dict(), self._ha, leadership)

    def _dispose_savepoint(self, path: str) -> None:
        """Deletes a savepoint. Blocks. The file systems are imported here, because a Dispatcher must start fast."""
        from flinkpy.checkpoint.savepoint_loader import dispose_savepoint
        from flinkpy.checkpoint.storage.file_systems import FileSystems

        dispose_savepoint(path, FileSystems(self._configuration))
