"""Whether a job outlives its JobMaster, by its own configuration. Pure."""

from __future__ import annotations

from flinkpy._proto import job_pb2
from flinkpy.common.errors import ConfigurationError
from flinkpy.configuration import checkpointing_options, read_option, restart_strategy_options
from flinkpy.configuration.batch_options import JOB_RECOVERY_ENABLED
from flinkpy.configuration.execution_options import RUNTIME_MODE
from flinkpy.dispatcher.job_manager_runner import RecoveryPolicy
from flinkpy.dispatcher.options import DispatcherOptions

_NO_RESTART = (None, "none", "disable", "off")


def recovery_policy(
    job_graph: job_pb2.JobGraph, cluster_configuration: dict[str, str], options: DispatcherOptions
) -> RecoveryPolicy:
    """What follows when a JobMaster of this job is lost.

    A job that takes checkpoints goes on from the last one, and a batch job with `execution.batch.job-recovery.enabled`
    with what has finished. Any other begins again, which writes its output twice: so it
    must have a restart strategy, as it must for any other failure. Differs: Flink with high availability begins any job
    again.
    """
    return RecoveryPolicy(
        max_attempts=options.job_master_recovery_attempts if _may_run_again(job_graph, cluster_configuration) else 0,
        initial_delay_ms=options.job_master_recovery_initial_backoff_ms,
        max_delay_ms=options.job_master_recovery_max_backoff_ms,
        reset_after_ms=options.job_master_recovery_reset_ms,
    )


def _may_run_again(job_graph: job_pb2.JobGraph, cluster_configuration: dict[str, str]) -> bool:
    configuration = {**cluster_configuration, **job_graph.configuration.entries}
    try:
        if read_option(configuration, checkpointing_options.INTERVAL):
            return True
        if read_option(configuration, RUNTIME_MODE) == "BATCH" and read_option(configuration, JOB_RECOVERY_ENABLED):
            return True
        return read_option(configuration, restart_strategy_options.RESTART_STRATEGY) not in _NO_RESTART
    except ConfigurationError:
        return False  # its JobMaster will refuse it, and say why
