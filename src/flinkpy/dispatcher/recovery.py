"""What a Dispatcher finds of its former life. Blocking; runs once, before it serves.

Source: org.apache.flink.runtime.dispatcher.runner.SessionDispatcherLeaderProcess.
Differs: jobs that were running are not run again (that needs their checkpoints); they are archived as FAILED.
"""

from __future__ import annotations

import logging

from flinkpy._proto import dispatcher_pb2, job_pb2
from flinkpy.common.durable_file import CorruptFileError
from flinkpy.common.errors import FlinkError, JobMasterLostError
from flinkpy.common.ids import JobID
from flinkpy.common.states import JobState
from flinkpy.dispatcher.job_manager_runner import terminated_without_job_master
from flinkpy.highavailability.job_stores import JobGraphStore, JobResultStore

logger = logging.getLogger(__name__)


def recover(graphs: JobGraphStore, results: JobResultStore, now_ms: int) -> list[dispatcher_pb2.JobTerminated]:
    """Finish interrupted clean-ups, fail the jobs that were running, and return all results, the oldest first.

    A damaged file costs only the job it belongs to.
    """
    for job_id in results.dirty_job_ids():
        graphs.remove(job_id)
        results.mark_clean(job_id)
    for job_id in graphs.job_ids():
        if not results.contains(job_id):
            results.create_dirty(_failed(graphs, job_id, now_ms))
        graphs.remove(job_id)
        results.mark_clean(job_id)
    recovered = []
    for job_id in results.clean_job_ids():
        try:
            terminated = results.load(job_id)
        except CorruptFileError as error:
            logger.error("the result of job %s is lost: %s", job_id, error)
            terminated = _without_graph(job_id, error, now_ms)
        if terminated is not None:
            recovered.append(terminated)
    return recovered


def _failed(graphs: JobGraphStore, job_id: JobID, now_ms: int) -> dispatcher_pb2.JobTerminated:
    try:
        graph = graphs.recover(job_id)
    except CorruptFileError as corrupt:
        logger.error("job %s cannot be recovered: %s", job_id, corrupt)
        return _without_graph(job_id, corrupt, now_ms)
    logger.warning("job %s was running when the former Dispatcher ended; it is archived as FAILED", job_id)
    error = JobMasterLostError(
        f"job {job_id} ('{graph.name}') was lost: the Dispatcher was restarted while it ran",
        details={"job_id": str(job_id)},
    )
    details = job_pb2.JobDetails(
        job_id=str(job_id), name=graph.name, start_time_ms=graph.created_ms, configuration=graph.configuration
    )
    return terminated_without_job_master(details, JobState.FAILED, error, now_ms)


def _without_graph(job_id: JobID, error: FlinkError, now_ms: int) -> dispatcher_pb2.JobTerminated:
    details = job_pb2.JobDetails(job_id=str(job_id), name="(unknown)", start_time_ms=now_ms)
    return terminated_without_job_master(details, JobState.FAILED, error, now_ms)
