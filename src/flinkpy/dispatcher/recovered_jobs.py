"""Recovers the jobs of a former Dispatcher from the stores. Blocking; runs once, before the Dispatcher serves.

| graph | result | meaning                                           | action                                         |
|-------|--------|---------------------------------------------------|------------------------------------------------|
| yes   | no     | the job was accepted and has not ended            | it is run again                                |
| yes   | dirty  | it has ended; the clean-up was interrupted        | graph and recovery directory are removed       |
| no    | dirty  | the same, the graph was removed before            | the same                                       |
| no    | clean  | it has ended                                      | its result is archived                         |
| bad   | no     | the job's graph is damaged                        | archived as FAILED, with the damage as reason; |
|       |        |                                                   | its recovery directory stays for a while       |

Source: org.apache.flink.runtime.dispatcher.runner.SessionDispatcherLeaderProcess.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from flinkpy._proto import dispatcher_pb2, job_pb2
from flinkpy.common.durable_file import CorruptFileError
from flinkpy.common.errors import FlinkError
from flinkpy.common.ids import JobID
from flinkpy.common.states import JobState
from flinkpy.dispatcher.job_archive import terminated_without_job_master
from flinkpy.highavailability.job_recovery_directories import JobRecoveryDirectories
from flinkpy.highavailability.job_stores import JobGraphStore, JobResultStore

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RecoveredJobs:
    """The jobs of a former Dispatcher.

    Attributes:
        ended: results, the oldest first.
        unfinished: graphs of jobs to run again, in the order of their creation.
        dirty: the results in `ended` whose jobs must be cleaned up or archived.
    """

    ended: list[dispatcher_pb2.JobTerminated]
    unfinished: list[job_pb2.JobGraph]
    dirty: list[dispatcher_pb2.JobTerminated]


CleanUpCheckpoints = Callable[[dispatcher_pb2.JobTerminated, Path], None]


def recover(
    graphs: JobGraphStore,
    results: JobResultStore,
    directories: JobRecoveryDirectories,
    now_ms: int,
    clean_up_checkpoints: CleanUpCheckpoints = lambda terminated, directory: None,
    *,
    has_archives: bool = False,
) -> RecoveredJobs:
    """Finishes interrupted clean-ups and returns the jobs. A damaged file affects only the job it belongs to.

    Args:
        has_archives: ended jobs are archived for the history server. Those that may not have been are `dirty`.
    """
    to_archive = results.dirty_job_ids() if has_archives else []
    for job_id in results.dirty_job_ids():
        try:
            terminated = results.load(job_id)
        except CorruptFileError as error:
            logger.error("cannot remove the checkpoints of job %s: %s", job_id, error)
        else:
            if terminated is not None:
                clean_up_checkpoints(terminated, directories.path_of(job_id))
        _clean_up(job_id, graphs, results, directories)
    unfinished = []
    for job_id in graphs.job_ids():
        if results.contains(job_id):
            _clean_up(job_id, graphs, results, directories)
            continue
        graph = _graph_of(job_id, graphs, results, now_ms)
        if graph is not None:
            logger.warning("running job %s ('%s') again: it has not ended", job_id, graph.name)
            directories.create(job_id)
            unfinished.append(graph)
    # The directory of a job with a damaged graph may contain its only checkpoint. It stays as long as the job's result.
    directories.remove_others({JobID(graph.job_id) for graph in unfinished} | set(results.clean_job_ids()))
    unfinished.sort(key=lambda graph: graph.created_ms)
    ended = _ended(results, results.clean_job_ids(), now_ms)
    return RecoveredJobs(ended, unfinished, [one for one in ended if JobID(one.job_id) in to_archive])


def recover_shared(
    graphs: JobGraphStore, results: JobResultStore, directories: JobRecoveryDirectories, now_ms: int
) -> RecoveredJobs:
    """Returns the jobs from stores that all Dispatchers of a cluster share.

    Interrupted clean-ups are returned as `dirty`, and not finished here: they may take long, and the cluster waits for
    its leader.
    """
    unfinished = []
    for job_id in graphs.job_ids():
        if results.contains(job_id):
            graphs.remove(job_id)
            continue
        graph = _graph_of(job_id, graphs, results, now_ms)
        if graph is not None:
            logger.warning("continuing job %s ('%s'): it has not ended", job_id, graph.name)
            directories.create(job_id)
            unfinished.append(graph)
    unfinished.sort(key=lambda graph: graph.created_ms)
    ended = {*results.clean_job_ids(), *results.dirty_job_ids()}
    directories.remove_others({JobID(graph.job_id) for graph in unfinished} | ended)
    dirty = _ended(results, results.dirty_job_ids(), now_ms)
    return RecoveredJobs([*_ended(results, results.clean_job_ids(), now_ms), *dirty], unfinished, dirty)


def _clean_up(
    job_id: JobID, graphs: JobGraphStore, results: JobResultStore, directories: JobRecoveryDirectories
) -> None:
    graphs.remove(job_id)
    directories.remove(job_id)
    results.mark_clean(job_id)


def _graph_of(job_id: JobID, graphs: JobGraphStore, results: JobResultStore, now_ms: int) -> job_pb2.JobGraph | None:
    """Returns the graph of a job; None if it is damaged, which makes the job FAILED."""
    try:
        return graphs.recover(job_id)
    except CorruptFileError as error:
        logger.error("job %s cannot be recovered: %s", job_id, error)
        results.create_dirty(_without_graph(job_id, error, now_ms))
        graphs.remove(job_id)
        results.mark_clean(job_id)
        return None


def _ended(results: JobResultStore, job_ids: list[JobID], now_ms: int) -> list[dispatcher_pb2.JobTerminated]:
    ended = []
    for job_id in job_ids:
        try:
            terminated = results.load(job_id)
        except CorruptFileError as error:
            logger.error("the result of job %s is lost: %s", job_id, error)
            terminated = _without_graph(job_id, error, now_ms)
        if terminated is not None:
            ended.append(terminated)
    return ended


def _without_graph(job_id: JobID, error: FlinkError, now_ms: int) -> dispatcher_pb2.JobTerminated:
    details = job_pb2.JobDetails(job_id=str(job_id), name="(unknown)", start_time_ms=now_ms)
    return terminated_without_job_master(details, JobState.FAILED, error, now_ms)
