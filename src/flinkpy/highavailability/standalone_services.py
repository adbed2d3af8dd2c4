"""StandaloneHaServices: services without high availability, with configured addresses and files of one Dispatcher.

Source: org.apache.flink.runtime.highavailability.nonha.standalone.StandaloneHaServices.
Differs: accepted jobs survive the process of the Dispatcher. In Flink they do so with high availability only.
"""

from __future__ import annotations

from pathlib import Path

from flinkpy.common.errors import HighAvailabilityError
from flinkpy.common.ids import JobID
from flinkpy.configuration import read_option
from flinkpy.configuration.cluster_options import BLOB_STORAGE_DIRECTORY
from flinkpy.configuration.options import AnyConfiguration
from flinkpy.highavailability.checkpoint_stores import CheckpointIDCounter, CheckpointPointerStore
from flinkpy.highavailability.file_job_graph_store import FileJobGraphStore
from flinkpy.highavailability.file_job_result_store import FileJobResultStore
from flinkpy.highavailability.job_recovery_directories import JobRecoveryDirectories
from flinkpy.highavailability.job_stores import JobGraphStore, JobResultStore
from flinkpy.highavailability.leader_election import LeaderElection, LeaderInformation, LeaderRetrieval, Leadership
from flinkpy.highavailability.standalone import StandaloneLeaderElection, StandaloneLeaderRetrieval


class StandaloneHaServices:
    """Grants leadership to every contender at once. See `HighAvailabilityServices`."""

    is_highly_available = False

    def __init__(
        self,
        configuration: AnyConfiguration,
        dispatcher_address: str | None = None,
        resource_manager_address: str | None = None,
        directory: Path | None = None,
    ) -> None:
        self._configuration = configuration
        self._dispatcher_address = dispatcher_address
        self._resource_manager_address = resource_manager_address
        self._directory = directory

    def dispatcher_election(self) -> LeaderElection:
        return StandaloneLeaderElection()

    def dispatcher_retrieval(self) -> LeaderRetrieval:
        return StandaloneLeaderRetrieval(self.find_dispatcher(0).address)

    def resource_manager_election(self) -> LeaderElection:
        return StandaloneLeaderElection()

    def resource_manager_retrieval(self) -> LeaderRetrieval:
        return StandaloneLeaderRetrieval(_known(self._resource_manager_address, "ResourceManager"))

    def job_master_election(self, job_id: JobID, job_master_id: str) -> LeaderElection:
        return StandaloneLeaderElection(lambda: job_master_id)

    def job_master_retrieval(self, job_id: JobID) -> LeaderRetrieval:
        raise HighAvailabilityError(
            f"only its Dispatcher knows the JobMaster of job {job_id}, because high-availability.type is NONE"
        )

    def find_dispatcher(self, timeout_s: float) -> LeaderInformation:
        return LeaderInformation(_known(self._dispatcher_address, "Dispatcher"))

    def job_graph_store(self, leadership: Leadership) -> JobGraphStore:
        return FileJobGraphStore(self._subdirectory("jobgraphs"))

    def job_result_store(self, leadership: Leadership) -> JobResultStore:
        return FileJobResultStore(self._subdirectory("results"))

    def checkpoint_pointer_store(self, job_id: JobID, leadership: Leadership) -> CheckpointPointerStore:
        from flinkpy.highavailability.file_checkpoint_stores import FileCheckpointPointerStore

        return FileCheckpointPointerStore(self._checkpoint_directory(job_id))

    def checkpoint_id_counter(self, job_id: JobID, leadership: Leadership, at_least: int = 1) -> CheckpointIDCounter:
        from flinkpy.highavailability.file_checkpoint_stores import FileCheckpointIDCounter

        return FileCheckpointIDCounter(self._checkpoint_directory(job_id), at_least)

    def recovery_directories(self, leadership: Leadership | None = None) -> JobRecoveryDirectories:
        return JobRecoveryDirectories(self._subdirectory("recovery"))

    def blob_directory(self) -> Path:
        configured = read_option(self._configuration, BLOB_STORAGE_DIRECTORY)
        return Path(configured) if configured else self._subdirectory("blobs")

    def release_dead_leader(self, job_id: JobID, job_master_id: str) -> None:
        """Does nothing: a JobMaster that has ended does not lead."""

    def clean_up_job(self, job_id: JobID) -> None:
        """Does nothing: there are no nodes."""

    def close(self) -> None:
        """Does nothing."""

    def _subdirectory(self, name: str) -> Path:
        if self._directory is None:
            raise HighAvailabilityError(
                f"this process has no directory for {name}, because high-availability.type is NONE"
            )
        path = self._directory / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    def _checkpoint_directory(self, job_id: JobID) -> Path:
        path = self.recovery_directories().path_of(job_id)
        path.mkdir(parents=True, exist_ok=True)
        return path


def _known(address: str | None, service: str) -> str:
    if address is None:
        raise HighAvailabilityError(f"this process does not know the address of the {service}")
    return address
