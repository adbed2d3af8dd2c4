"""Chooses the scheduler of a job.

Source: org.apache.flink.runtime.jobmaster.DefaultSlotPoolServiceSchedulerFactory.
"""

from __future__ import annotations

import logging

from flinkpy._proto import job_pb2
from flinkpy.common.key_groups import UNDECIDED_PARALLELISM
from flinkpy.jobmaster.scheduler.adaptive.adaptive_scheduler import AdaptiveScheduler
from flinkpy.jobmaster.scheduler.default_scheduler import DefaultScheduler, SchedulerOptions
from flinkpy.jobmaster.scheduler.speculative_scheduler import SpeculativeScheduler

logger = logging.getLogger(__name__)


def scheduler_class(options: SchedulerOptions, job_graph: job_pb2.JobGraph) -> type[DefaultScheduler]:
    """Returns the scheduler class of the job.

    A job with blocking results, as batch jobs have, keeps the scheduler that decides the parallelism from the volume of
    its data: it runs in stages with any number of slots, and cannot restart from a checkpoint.
    """
    if options.adaptive_scheduler.is_enabled:
        if any(vertex.HasField("slot_resources") for vertex in job_graph.vertices):
            logger.warning(
                "job %s has slot sharing groups with resources, which the scheduler Adaptive cannot divide, so it is "
                "not used for it",
                job_graph.job_id,
            )
        elif not _has_stages(job_graph):
            return AdaptiveScheduler
        else:
            logger.info("job %s runs in stages, so the scheduler Adaptive is not used for it", job_graph.job_id)
    return SpeculativeScheduler if options.speculative.is_enabled else DefaultScheduler


def _has_stages(job_graph: job_pb2.JobGraph) -> bool:
    return any(
        vertex.parallelism == UNDECIDED_PARALLELISM or any(result.type == job_pb2.BLOCKING for result in vertex.results)
        for vertex in job_graph.vertices
    )
