"""What the configuration says of batch jobs, for the parts of the JobMaster that adapt and recover them."""

from __future__ import annotations

from flinkpy.configuration import batch_options, execution_options, read_option
from flinkpy.configuration.options import AnyConfiguration
from flinkpy.jobmaster.job_event_store.job_recovery import JobRecoveryOptions
from flinkpy.jobmaster.scheduler.adaptive_batch.adaptive_parallelism import AdaptiveParallelismOptions
from flinkpy.jobmaster.scheduler.speculative.slow_task_detector import (
    SlowTaskDetectorOptions,
    SpeculativeExecutionOptions,
)


def speculative_execution_options(configuration: AnyConfiguration) -> SpeculativeExecutionOptions:
    """Raises: ConfigurationError naming the option."""
    is_batch = read_option(configuration, execution_options.RUNTIME_MODE) == "BATCH"
    return SpeculativeExecutionOptions(
        is_enabled=is_batch and read_option(configuration, batch_options.SPECULATIVE_ENABLED),
        max_concurrent_executions=read_option(configuration, batch_options.SPECULATIVE_MAX_ATTEMPTS),
        block_slow_node_duration_ms=read_option(configuration, batch_options.BLOCK_SLOW_NODE_DURATION),
        detector=SlowTaskDetectorOptions(
            check_interval_ms=read_option(configuration, batch_options.SLOW_TASK_CHECK_INTERVAL),
            baseline_lower_bound_ms=read_option(configuration, batch_options.SLOW_TASK_BASELINE_LOWER_BOUND),
            baseline_ratio=read_option(configuration, batch_options.SLOW_TASK_BASELINE_RATIO),
            baseline_multiplier=read_option(configuration, batch_options.SLOW_TASK_BASELINE_MULTIPLIER),
        ),
    )


def job_recovery_options(configuration: AnyConfiguration) -> JobRecoveryOptions:
    """Raises: ConfigurationError naming the option."""
    is_batch = read_option(configuration, execution_options.RUNTIME_MODE) == "BATCH"
    return JobRecoveryOptions(
        is_enabled=is_batch and read_option(configuration, batch_options.JOB_RECOVERY_ENABLED),
        worker_timeout_ms=read_option(configuration, batch_options.JOB_RECOVERY_WORKER_TIMEOUT),
        snapshot_min_pause_ms=read_option(configuration, batch_options.JOB_RECOVERY_SNAPSHOT_MIN_PAUSE),
        buffer_bytes=read_option(configuration, batch_options.EVENT_STORE_BUFFER_SIZE),
        flush_interval_ms=read_option(configuration, batch_options.EVENT_STORE_FLUSH_INTERVAL),
    )


def adaptive_parallelism_options(configuration: AnyConfiguration) -> AdaptiveParallelismOptions:
    """Raises: ConfigurationError naming the option."""
    most = read_option(configuration, batch_options.AUTO_PARALLELISM_MAX)
    sources = read_option(configuration, batch_options.AUTO_PARALLELISM_SOURCES)
    return AdaptiveParallelismOptions(
        is_enabled=read_option(configuration, batch_options.AUTO_PARALLELISM_ENABLED),
        min_parallelism=read_option(configuration, batch_options.AUTO_PARALLELISM_MIN),
        max_parallelism=most,
        bytes_per_task=read_option(configuration, batch_options.AUTO_PARALLELISM_DATA_VOLUME),
        source_parallelism=sources,
    )
