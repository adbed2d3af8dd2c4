"""HighAvailabilityServices: who leads, where leaders are found, and what a leader leaves for the one after it.

Every process makes one of them at its start. Stores block, so they are used on I/O threads; elections and retrievals
belong to the loop that the services were made with, and call back there.

Source: org.apache.flink.runtime.highavailability.{HighAvailabilityServices,HighAvailabilityServicesUtils}.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from flinkpy.common.ids import JobID
from flinkpy.configuration import high_availability_options as options
from flinkpy.configuration import read_option
from flinkpy.configuration.options import AnyConfiguration
from flinkpy.highavailability.checkpoint_recovery import CheckpointIDCounter, CheckpointPointerStore
from flinkpy.highavailability.job_recovery_directories import JobRecoveryDirectories
from flinkpy.highavailability.job_stores import JobGraphStore, JobResultStore
from flinkpy.highavailability.leader_election import LeaderElection, LeaderInformation, LeaderRetrieval, Leadership

if TYPE_CHECKING:
    from flinkpy.security import SecurityContext


class HighAvailabilityServices(Protocol):
    """Services of one process. Stores that take a `Leadership` write only while it lasts.

    Raises, wherever it touches ZooKeeper or the storage directory: HighAvailabilityError, and LeadershipLostError for
    a write after the leadership has ended.
    """

    @property
    def is_highly_available(self) -> bool:
        """False: one Dispatcher, one ResourceManager, and no JobMaster outlives its Dispatcher."""
        ...

    def dispatcher_election(self) -> LeaderElection: ...

    def dispatcher_retrieval(self) -> LeaderRetrieval: ...

    def resource_manager_election(self) -> LeaderElection: ...

    def resource_manager_retrieval(self) -> LeaderRetrieval: ...

    def job_master_election(self, job_id: JobID, job_master_id: str) -> LeaderElection:
        """The contender is granted leadership at most once, and under `job_master_id`."""
        ...

    def job_master_retrieval(self, job_id: JobID) -> LeaderRetrieval:
        """It also calls back at the start where nobody leads the job."""
        ...

    def find_dispatcher(self, timeout_s: float) -> LeaderInformation:
        """Who leads now, for callers without a loop. Blocking. Raises: HighAvailabilityError where nobody does."""
        ...

    def job_graph_store(self, leadership: Leadership) -> JobGraphStore: ...

    def job_result_store(self, leadership: Leadership) -> JobResultStore: ...

    def checkpoint_pointer_store(self, job_id: JobID, leadership: Leadership) -> CheckpointPointerStore: ...

    def checkpoint_id_counter(
        self, job_id: JobID, leadership: Leadership, at_least: int = 1
    ) -> CheckpointIDCounter: ...

    def recovery_directories(self, leadership: Leadership | None = None) -> JobRecoveryDirectories:
        """With the `leadership` of a Dispatcher, those of jobs that it does not know are removed only while it leads.

        What the JobMasters of a job leave in files: event logs, and checkpoints without a place of their own.
        """
        ...

    def blob_directory(self) -> Path: ...

    def release_dead_leader(self, job_id: JobID, job_master_id: str) -> None:
        """The JobMaster's process is known to have ended: another may lead at once. Blocking; idempotent."""
        ...

    def clean_up_job(self, job_id: JobID) -> None:
        """Remove the nodes of an ended job: its graph, checkpoints, counter and election. Its files are left.

        Blocking; idempotent: the caller repeats it after an error, until it succeeds.
        """
        ...

    def close(self) -> None:
        """Give up what is led and end the session. Blocking."""
        ...


def is_highly_available(configuration: AnyConfiguration) -> bool:
    return read_option(configuration, options.HA_MODE) != "NONE"


def create_high_availability_services(
    configuration: AnyConfiguration,
    security: SecurityContext | Any,
    loop: asyncio.AbstractEventLoop | None,
    *,
    process: str,
    dispatcher_address: str | None = None,
    resource_manager_address: str | None = None,
    directory: Path | None = None,
) -> HighAvailabilityServices:
    """The services that `high-availability.type` names. Blocking: with ZooKeeper it waits for the connection.

    Args:
        loop: elections and retrievals call back there; None where the process needs neither.
        process: `dispatcher`, `jobmaster`, `resourcemanager`, `taskexecutor` or `client`; the first two use the storage
            directory and refuse one that is not the same for all.
        dispatcher_address, resource_manager_address: the configured ones, used without high availability.
        directory: of this Dispatcher's own, used without high availability for what survives a restart: `jobgraphs`,
            `results`, `recovery` and `blobs` lie in it.

    Raises: ConfigurationError, HighAvailabilityError.
    """
    if is_highly_available(configuration):
        from flinkpy.highavailability.zookeeper.services import ZooKeeperHaServices

        return ZooKeeperHaServices.connect(configuration, security, loop, process=process)
    from flinkpy.highavailability.standalone_services import StandaloneHaServices

    return StandaloneHaServices(configuration, dispatcher_address, resource_manager_address, directory)
