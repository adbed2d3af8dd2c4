"""DispatcherServices: the stores and collaborators of a Dispatcher in one term."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from flinkpy._proto import dispatcher_pb2 as pb
from flinkpy.common.ids import JobID, JobMasterId
from flinkpy.dispatcher.blob_server import BlobStore
from flinkpy.dispatcher.job_master_sessions import JobMasterProcesses
from flinkpy.highavailability.job_recovery_directories import JobRecoveryDirectories
from flinkpy.highavailability.job_stores import JobGraphStore, JobResultStore
from flinkpy.highavailability.leader_election import LeaderRetrieval
from flinkpy.metrics.metric_registry import MetricRegistry
from flinkpy.rpc.peer_connection import Peers


@dataclass(frozen=True, slots=True)
class DispatcherServices:
    """The stores and collaborators of a Dispatcher."""

    gateways: Peers
    launcher: Callable[[Callable[[str, str], None]], JobMasterProcesses]
    job_graphs: JobGraphStore
    job_results: JobResultStore
    recovery_directories: JobRecoveryDirectories
    blobs: BlobStore
    on_shutdown_requested: Callable[[str], None]
    dispose_savepoint: Callable[[str], None]
    #: removes the checkpoints of an ended job; blocking
    clean_up_checkpoints: Callable[[pb.JobTerminated, Path], None]
    new_job_master_id: Callable[[], JobMasterId] = JobMasterId.generate
    #: whether JobMasters outlive a Dispatcher; the retrieval then tells who leads a job
    is_highly_available: bool = False
    job_master_retrieval: Callable[[JobID], LeaderRetrieval] | None = None
    #: removes the high-availability data of an ended job; blocking
    clean_up_job: Callable[[JobID], None] = lambda job_id: None
    #: writes the archive of an ended job for the history server; blocking
    archive_job: Callable[[pb.JobTerminated], None] = lambda terminated: None
    #: releases the leadership of a JobMaster whose process has ended; does not block
    release_dead_leader: Callable[[JobID, str], None] = lambda job_id, job_master_id: None
    #: returns the address of the leading ResourceManager, or None; unset: the configured address is used
    resource_manager_address: Callable[[], str | None] | None = None
    #: the URL of this process's REST server; empty if it has none
    rest_url: str = ""
    #: the metrics of this process
    metrics: MetricRegistry = field(default_factory=MetricRegistry)

    def clean_up(self, terminated: pb.JobTerminated) -> None:
        """Removes everything of the job except its result, and archives it. Blocks. Can be repeated."""
        job_id = JobID(terminated.job_id)
        self.clean_up_checkpoints(terminated, self.recovery_directories.path_of(job_id))
        self.clean_up_job(job_id)
        self.recovery_directories.remove(job_id)
        # A result that is not clean is archived by the next Dispatcher.
        self.archive_job(terminated)
        self.job_results.mark_clean(job_id)
