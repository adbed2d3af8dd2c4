"""Removes the checkpoints of an ended job whose JobMaster did not live to do it. Blocking.

Source: org.apache.flink.runtime.dispatcher.cleanup.CheckpointResourcesCleanupRunner.
"""

from __future__ import annotations

import logging
from pathlib import Path

from flinkpy._proto import dispatcher_pb2
from flinkpy.common.errors import FlinkError
from flinkpy.common.job_status import JobStatus
from flinkpy.common.states import JobState
from flinkpy.configuration import checkpointing_options, read_option

logger = logging.getLogger(__name__)


def clean_up_checkpoints(
    terminated: dispatcher_pb2.JobTerminated, recovery_directory: Path, cluster_configuration: dict[str, str]
) -> None:
    """Remove what the job's retention does not keep. What cannot be removed is logged, and stays."""
    if not recovery_directory.is_dir() or not any(recovery_directory.iterdir()):
        return  # the JobMaster has done it, or there never were any
    # What reads and writes checkpoints is imported where it is needed: a Dispatcher must start fast.
    from flinkpy.checkpoint.completed_checkpoint import CheckpointRetention
    from flinkpy.checkpoint.completed_checkpoint_store import CompletedCheckpointStore
    from flinkpy.checkpoint.file_checkpoint_recovery import FileCheckpointIDCounter, FileCheckpointPointerStore
    from flinkpy.checkpoint.storage.checkpoint_storage import CheckpointStorage

    configuration = {**cluster_configuration, **terminated.details.configuration.entries}
    status = JobStatus[JobState(terminated.result.status).name]
    try:
        store = CompletedCheckpointStore(
            FileCheckpointPointerStore(recovery_directory),
            CheckpointStorage.from_configuration(configuration, terminated.job_id, recovery_directory),
            read_option(configuration, checkpointing_options.NUM_RETAINED),
        )
        store.recover()
        retention = read_option(configuration, checkpointing_options.EXTERNALIZED_CHECKPOINT_RETENTION)
        store.shut_down(status, CheckpointRetention[retention])
        FileCheckpointIDCounter(recovery_directory).remove()
    except (FlinkError, OSError) as error:
        logger.error("checkpoints of job %s, which is %s, are left behind: %s", terminated.job_id, status.name, error)
