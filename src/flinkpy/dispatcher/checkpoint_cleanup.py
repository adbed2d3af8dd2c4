"""Removes the checkpoints of an ended job whose JobMaster did not live to do it. Blocking.

Source: org.apache.flink.runtime.dispatcher.cleanup.CheckpointResourcesCleanupRunner.
"""

from __future__ import annotations

import logging
from pathlib import Path

from flinkpy._proto import dispatcher_pb2
from flinkpy.common.errors import FlinkError, HighAvailabilityError, LeadershipLostError
from flinkpy.common.ids import JobID
from flinkpy.common.job_status import JobStatus
from flinkpy.common.states import JobState
from flinkpy.configuration import checkpointing_options, read_option
from flinkpy.highavailability.leader_election import Leadership
from flinkpy.highavailability.services import HighAvailabilityServices
from flinkpy.rpc.error_codec import error_from_proto

logger = logging.getLogger(__name__)


def clean_up_checkpoints(
    terminated: dispatcher_pb2.JobTerminated,
    recovery_directory: Path,
    cluster_configuration: dict[str, str],
    services: HighAvailabilityServices,
    leadership: Leadership,
) -> None:
    """Remove what the job's retention does not keep. What cannot be removed is logged, and stays.

    Raises: HighAvailabilityError, LeadershipLostError: it is not known what there is.
    """
    is_shared = services.is_highly_available
    if not is_shared and (not recovery_directory.is_dir() or not any(recovery_directory.iterdir())):
        return  # the JobMaster has done it, or there never were any
    job_id = JobID(terminated.job_id)
    pointers = services.checkpoint_pointer_store(job_id, leadership)
    if is_shared and not pointers.load().ByteSize():
        return
    # What reads and writes checkpoints is imported where it is needed: a Dispatcher must start fast.
    from flinkpy.checkpoint.completed_checkpoint import CheckpointRetention
    from flinkpy.checkpoint.completed_checkpoint_store import CompletedCheckpointStore
    from flinkpy.checkpoint.storage.checkpoint_storage import CheckpointStorage

    configuration = {**cluster_configuration, **terminated.details.configuration.entries}
    status = JobStatus[JobState(terminated.result.status).name]
    try:
        store = CompletedCheckpointStore(
            pointers,
            CheckpointStorage.from_configuration(configuration, terminated.job_id, recovery_directory),
            read_option(configuration, checkpointing_options.NUM_RETAINED),
        )
        store.recover()
        retention = read_option(configuration, checkpointing_options.EXTERNALIZED_CHECKPOINT_RETENTION)
        cause = error_from_proto(terminated.result.error) if terminated.result.HasField("error") else None
        store.shut_down(status, CheckpointRetention[retention], cause)
        services.checkpoint_id_counter(job_id, leadership).remove()
    except (HighAvailabilityError, LeadershipLostError):
        raise
    except (FlinkError, OSError) as error:
        logger.error("checkpoints of job %s, which is %s, are left behind: %s", terminated.job_id, status.name, error)
