"""DispatcherServices: what one leadership of a Dispatcher works with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from flinkpy._proto import dispatcher_pb2 as pb
from flinkpy.common.ids import JobID, JobMasterId
from flinkpy.dispatcher.blob_store import BlobStore
from flinkpy.dispatcher.job_master_sessions import JobMasterProcesses
from flinkpy.highavailability.job_recovery_directories import JobRecoveryDirectories
from flinkpy.highavailability.job_stores import JobGraphStore, JobResultStore
from flinkpy.highavailability.leader_election import LeaderRetrieval


class Gateways(Protocol):
    """What is used of RpcClient; tests hand in their own."""

    def gateway(self, service: str, address: str, fencing_token: str | None = None) -> Any: ...

    async def drop(self, address: str) -> None: ...


@dataclass(frozen=True, slots=True)
class DispatcherServices:
    """What a Dispatcher works with."""

    gateways: Gateways
    launcher: Callable[[Callable[[str, str], None]], JobMasterProcesses]
    job_graphs: JobGraphStore
    job_results: JobResultStore
    recovery_directories: JobRecoveryDirectories
    blobs: BlobStore
    on_shutdown_requested: Callable[[str], None]
    dispose_savepoint: Callable[[str], None]
    #: what the JobMasters of an ended job left of its checkpoints; blocking
    clean_up_checkpoints: Callable[[pb.JobTerminated, Path], None]
    new_job_master_id: Callable[[], JobMasterId] = JobMasterId.generate
    #: whether JobMasters outlive a Dispatcher; then the retrieval says who leads a job
    is_highly_available: bool = False
    job_master_retrieval: Callable[[JobID], LeaderRetrieval] | None = None
    #: what is kept of an ended job beside its result and files; blocking
    clean_up_job: Callable[[JobID], None] = lambda job_id: None
    #: a JobMaster's process has ended while it may still be taken for the leader; does not block
    release_dead_leader: Callable[[JobID, str], None] = lambda job_id, job_master_id: None
    #: where the ResourceManager is, if it is not the configured one; None where none is known
    resource_manager_address: Callable[[], str | None] | None = None

    def clean_up(self, terminated: pb.JobTerminated) -> None:
        """Remove all that is kept of the job beside its result. Blocking; may be repeated."""
        job_id = JobID(terminated.job_id)
        self.clean_up_checkpoints(terminated, self.recovery_directories.path_of(job_id))
        self.clean_up_job(job_id)
        self.recovery_directories.remove(job_id)
        self.job_results.mark_clean(job_id)
