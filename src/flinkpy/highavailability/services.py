"""HighAvailabilityServices: creates the elections, retrievals and stores of a process.

Every process creates one instance at its start. Stores block, so they are used on I/O threads. Elections and retrievals
belong to one event loop and call back there.

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
from flinkpy.highavailability.checkpoint_stores import CheckpointIDCounter, CheckpointPointerStore
from flinkpy.highavailability.job_recovery_directories import JobRecoveryDirectories
from flinkpy.highavailability.job_stores import JobGraphStore, JobResultStore
from flinkpy.highavailability.leader_election import LeaderElection, LeaderInformation, LeaderRetrieval, Leadership

if TYPE_CHECKING:
    from flinkpy.security import SecurityContext


class HighAvailabilityServices(Protocol):
    """The services of one process. Stores that take a `Leadership` write only while it lasts.

    All calls that use ZooKeeper or the storage directory raise HighAvailabilityError. Writes after the end of the
    leadership raise LeadershipLostError.
    """

    @property
    def is_highly_available(self) -> bool:
        """False if there is one Dispatcher and one ResourceManager, and no JobMaster outlives its Dispatcher."""
        ...

    def dispatcher_election(self) -> LeaderElection: ...

    def dispatcher_retrieval(self) -> LeaderRetrieval: ...

    def resource_manager_election(self) -> LeaderElection: ...

    def resource_manager_retrieval(self) -> LeaderRetrieval: ...

    def job_master_election(self, job_id: JobID, job_master_id: str) -> LeaderElection:
        """Returns the election of a job. The contender leads at most once, under `job_master_id`."""
        ...

    def job_master_retrieval(self, job_id: JobID) -> LeaderRetrieval:
        """Returns the retrieval of a job. It also calls back at the start if nobody leads the job."""
        ...

    def find_dispatcher(self, timeout_s: float) -> LeaderInformation:
        """Returns the current leader, for callers without a loop. Blocking. Raises: HighAvailabilityError."""
        ...

    def job_graph_store(self, leadership: Leadership) -> JobGraphStore: ...

    def job_result_store(self, leadership: Leadership) -> JobResultStore: ...

    def checkpoint_pointer_store(self, job_id: JobID, leadership: Leadership) -> CheckpointPointerStore: ...

    def checkpoint_id_counter(
        self, job_id: JobID, leadership: Leadership, at_least: int = 1
    ) -> CheckpointIDCounter: ...

    def recovery_directories(self, leadership: Leadership | None = None) -> JobRecoveryDirectories:
        """Returns the directories for files of JobMasters: event logs, and checkpoints of jobs without a directory.

        With the `leadership` of a Dispatcher, directories of unknown jobs are removed only while it leads.
        """
        ...

    def blob_directory(self) -> Path: ...

    def release_dead_leader(self, job_id: JobID, job_master_id: str) -> None:
        """Ends the leadership of a JobMaster whose process has ended, so that another leads at once.

        Blocking. Idempotent.
        """
        ...

    def clean_up_job(self, job_id: JobID) -> None:
        """Removes the nodes of an ended job: its graph, checkpoints, counter and election. Keeps its files.

        Blocking. Idempotent: the caller repeats it after an error, until it succeeds.
        """
        ...

    def close(self) -> None:
        """Ends all leaderships and the session. Blocking."""
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
    """Creates the services that `high-availability.type` names. Blocking: with ZooKeeper, waits for the connection.

    Args:
        loop: elections and retrievals call back there; None if the process uses neither.
        process: `dispatcher`, `jobmaster`, `resourcemanager`, `taskexecutor` or `client`. The first two use the storage
            directory, and check that all masters use the same.
        dispatcher_address, resource_manager_address: the configured addresses, used without high availability.
        directory: the Dispatcher's directory for data that survives a restart, used without high availability:
            `jobgraphs`, `results`, `recovery` and `blobs` are in it.

    Raises: ConfigurationError, HighAvailabilityError.
    """
    if is_highly_available(configuration):
        from flinkpy.highavailability.zookeeper.services import ZooKeeperHaServices

        return ZooKeeperHaServices.connect(configuration, security, loop, process=process)
    from flinkpy.highavailability.standalone_services import StandaloneHaServices

    return StandaloneHaServices(configuration, dispatcher_address, resource_manager_address, directory)
