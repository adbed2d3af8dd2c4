"""JobMasterOptions: the typed configuration of one JobMaster."""

from __future__ import annotations

import os
import secrets
import socket
from dataclasses import dataclass, field
from random import Random

from flinkpy._proto import job_pb2
from flinkpy.checkpoint.coordinator.coordinator_configuration import coordinator_options
from flinkpy.common.addresses import LOOPBACK
from flinkpy.configuration import (
    checkpointing_options,
    execution_options,
    jobmanager_options,
    read_option,
    scheduler_options,
)
from flinkpy.configuration import jobmanager_options as restart_options
from flinkpy.configuration.options import AnyConfiguration, ConfigOption, is_set
from flinkpy.jobmaster.failover.restart_strategy import (
    ExponentialDelayOptions,
    ExponentialDelayRestartStrategy,
    FailureRateRestartStrategy,
    FixedDelayRestartStrategy,
    NoRestartStrategy,
    RestartBackoffTimeStrategy,
)
from flinkpy.jobmaster.job_event_store.batch_job_recovery_handler import JobRecoveryOptions
from flinkpy.jobmaster.scheduler.adaptive.states import AdaptiveSchedulerOptions
from flinkpy.jobmaster.scheduler.adaptive_parallelism import AdaptiveParallelismOptions
from flinkpy.jobmaster.scheduler.default_scheduler import SchedulerOptions
from flinkpy.jobmaster.scheduler.job_checkpoints import StateAssigner
from flinkpy.jobmaster.scheduler.slow_task_detector import (
    SlowTaskDetectorOptions,
    SpeculativeExecutionOptions,
)
from flinkpy.jobmaster.slotpool.declarative_slot_pool import SlotPoolOptions
from flinkpy.jobmaster.task_adoption import AdoptionOptions
from flinkpy.rpc.peer_connection import PeerOptions, read_peer_options

ANY_ADDRESSES = ("0.0.0.0", "::", "[::]")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobMasterOptions(PeerOptions):
    """The options of one job: the configuration of the cluster, overridden by that of the job."""

    scheduler: SchedulerOptions = field(default_factory=SchedulerOptions)
    recovery: JobRecoveryOptions = field(default_factory=JobRecoveryOptions)
    adoption: AdoptionOptions = field(default_factory=AdoptionOptions)
    is_batch: bool = False


def job_master_options(configuration: AnyConfiguration) -> JobMasterOptions:
    """Reads all options of a JobMaster. Raises: ConfigurationError naming the option."""
    recovery = job_recovery_options(configuration)
    return JobMasterOptions(
        **read_peer_options(configuration),
        recovery=recovery,
        adoption=adoption_options(configuration),
        is_batch=read_option(configuration, execution_options.RUNTIME_MODE) == "BATCH",
        scheduler=SchedulerOptions(
            slot_pool=SlotPoolOptions(
                request_timeout_ms=read_option(configuration, jobmanager_options.SLOT_REQUEST_TIMEOUT),
                idle_timeout_ms=read_option(configuration, jobmanager_options.SLOT_IDLE_TIMEOUT),
                are_requests_in_turn=read_option(configuration, execution_options.RUNTIME_MODE) == "BATCH",
            ),
            failover_strategy=read_option(configuration, jobmanager_options.FAILOVER_STRATEGY),
            releases_partitions_during_execution=read_option(
                configuration, jobmanager_options.RELEASE_PARTITIONS_DURING_EXECUTION
            ),
            attempts_history_size=read_option(configuration, jobmanager_options.ATTEMPTS_HISTORY_SIZE),
            exception_history_size=read_option(configuration, jobmanager_options.EXCEPTION_HISTORY_SIZE),
            adaptive=adaptive_parallelism_options(configuration),
            adaptive_scheduler=adaptive_scheduler_options(configuration),
            speculative=speculative_execution_options(configuration),
            records_events=recovery.is_enabled,
            checkpoints=coordinator_options(configuration),
        ),
    )


def speculative_execution_options(configuration: AnyConfiguration) -> SpeculativeExecutionOptions:
    """Reads the options of speculative execution. Raises: ConfigurationError naming the option."""
    is_batch = read_option(configuration, execution_options.RUNTIME_MODE) == "BATCH"
    return SpeculativeExecutionOptions(
        is_enabled=is_batch and read_option(configuration, execution_options.SPECULATIVE_ENABLED),
        max_concurrent_executions=read_option(configuration, execution_options.SPECULATIVE_MAX_ATTEMPTS),
        block_slow_node_duration_ms=read_option(configuration, execution_options.BLOCK_SLOW_NODE_DURATION),
        detector=SlowTaskDetectorOptions(
            check_interval_ms=read_option(configuration, execution_options.SLOW_TASK_CHECK_INTERVAL),
            baseline_lower_bound_ms=read_option(configuration, execution_options.SLOW_TASK_BASELINE_LOWER_BOUND),
            baseline_ratio=read_option(configuration, execution_options.SLOW_TASK_BASELINE_RATIO),
            baseline_multiplier=read_option(configuration, execution_options.SLOW_TASK_BASELINE_MULTIPLIER),
        ),
    )


def job_recovery_options(configuration: AnyConfiguration) -> JobRecoveryOptions:
    """Reads the options of the recovery of batch jobs. Raises: ConfigurationError naming the option."""
    is_batch = read_option(configuration, execution_options.RUNTIME_MODE) == "BATCH"
    return JobRecoveryOptions(
        is_enabled=is_batch and read_option(configuration, execution_options.JOB_RECOVERY_ENABLED),
        worker_timeout_ms=read_option(configuration, execution_options.JOB_RECOVERY_WORKER_TIMEOUT),
        snapshot_min_pause_ms=read_option(configuration, execution_options.JOB_RECOVERY_SNAPSHOT_MIN_PAUSE),
        buffer_bytes=read_option(configuration, execution_options.EVENT_STORE_BUFFER_SIZE),
        flush_interval_ms=read_option(configuration, execution_options.EVENT_STORE_FLUSH_INTERVAL),
    )


def adoption_options(configuration: AnyConfiguration) -> AdoptionOptions:
    """Reads the options of the adoption of running tasks. Raises: ConfigurationError naming the option."""
    is_batch = read_option(configuration, execution_options.RUNTIME_MODE) == "BATCH"
    return AdoptionOptions(
        is_enabled=not is_batch and read_option(configuration, jobmanager_options.TASK_ADOPTION_TIMEOUT) > 0,
        report_timeout_ms=read_option(configuration, jobmanager_options.TASK_ADOPTION_REPORT_TIMEOUT),
    )


def adaptive_parallelism_options(configuration: AnyConfiguration) -> AdaptiveParallelismOptions:
    """Reads the options of the adaptive parallelism. Raises: ConfigurationError naming the option."""
    return AdaptiveParallelismOptions(
        is_enabled=read_option(configuration, execution_options.AUTO_PARALLELISM_ENABLED),
        min_parallelism=read_option(configuration, execution_options.AUTO_PARALLELISM_MIN),
        max_parallelism=read_option(configuration, execution_options.AUTO_PARALLELISM_MAX),
        bytes_per_task=read_option(configuration, execution_options.AUTO_PARALLELISM_DATA_VOLUME),
        source_parallelism=read_option(configuration, execution_options.AUTO_PARALLELISM_SOURCES),
    )


def adaptive_scheduler_options(configuration: AnyConfiguration) -> AdaptiveSchedulerOptions:
    """Reads the options of the adaptive scheduler. Raises: ConfigurationError naming the option."""
    is_reactive = read_option(configuration, scheduler_options.SCHEDULER_MODE) == "REACTIVE"
    is_batch = read_option(configuration, execution_options.RUNTIME_MODE) == "BATCH"
    max_failures = read_option(configuration, scheduler_options.RESCALE_MAX_CHECKPOINT_FAILURES)
    max_delay_ms = read_option(configuration, scheduler_options.RESCALE_MAX_DELAY)
    if max_delay_ms is None:
        max_delay_ms = (read_option(configuration, checkpointing_options.INTERVAL) or 0) * (max_failures + 1)

    def unless_reactive(option: ConfigOption[int], reactive: int | None) -> int | None:
        """Returns the option, whose default is another one in reactive mode."""
        return reactive if is_reactive and not is_set(configuration, option) else read_option(configuration, option)

    return AdaptiveSchedulerOptions(
        is_enabled=not is_batch
        and (is_reactive or read_option(configuration, scheduler_options.SCHEDULER) == "Adaptive"),
        is_reactive=is_reactive,
        resource_wait_timeout_ms=unless_reactive(scheduler_options.RESOURCE_WAIT_TIMEOUT, None),
        submission_stabilization_timeout_ms=unless_reactive(scheduler_options.SUBMISSION_STABILIZATION_TIMEOUT, 0) or 0,
        executing_cooldown_ms=read_option(configuration, scheduler_options.COOLDOWN_AFTER_RESCALING),
        executing_stabilization_timeout_ms=unless_reactive(scheduler_options.EXECUTING_STABILIZATION_TIMEOUT, 0) or 0,
        rescale_max_checkpoint_failures=max_failures,
        rescale_max_delay_ms=max_delay_ms,
        prefers_minimal_task_managers=read_option(configuration, scheduler_options.PREFER_MINIMAL_TASKMANAGERS),
    )


def state_assigner(configuration: AnyConfiguration, job_graph: job_pb2.JobGraph) -> StateAssigner:
    """Creates the StateAssigner of a job. Raises: ConfigurationError."""
    return StateAssigner(
        job_graph, allow_non_restored_state=read_option(configuration, checkpointing_options.IGNORE_UNCLAIMED_STATE)
    )


def restart_strategy(configuration: AnyConfiguration, random: Random) -> RestartBackoffTimeStrategy:
    """Creates the strategy that `restart-strategy.type` selects. Raises: ConfigurationError.

    The default is exponential-delay for a job with periodic checkpoints, and none for a job without them.
    """
    chosen = read_option(configuration, restart_options.RESTART_STRATEGY)
    if chosen is None and (read_option(configuration, checkpointing_options.INTERVAL) or 0) > 0:
        chosen = "exponential-delay"
    match chosen:
        case "fixed-delay":
            return FixedDelayRestartStrategy(
                read_option(configuration, restart_options.FIXED_DELAY_ATTEMPTS),
                read_option(configuration, restart_options.FIXED_DELAY_DELAY),
            )
        case "failure-rate":
            return FailureRateRestartStrategy(
                read_option(configuration, restart_options.FAILURE_RATE_MAX_FAILURES_PER_INTERVAL),
                read_option(configuration, restart_options.FAILURE_RATE_INTERVAL),
                read_option(configuration, restart_options.FAILURE_RATE_DELAY),
            )
        case "exponential-delay":
            return ExponentialDelayRestartStrategy(
                ExponentialDelayOptions(
                    initial_backoff_ms=read_option(configuration, restart_options.EXPONENTIAL_DELAY_INITIAL_BACKOFF),
                    max_backoff_ms=read_option(configuration, restart_options.EXPONENTIAL_DELAY_MAX_BACKOFF),
                    backoff_multiplier=read_option(configuration, restart_options.EXPONENTIAL_DELAY_BACKOFF_MULTIPLIER),
                    reset_backoff_threshold_ms=read_option(
                        configuration, restart_options.EXPONENTIAL_DELAY_RESET_BACKOFF_THRESHOLD
                    ),
                    jitter_factor=read_option(configuration, restart_options.EXPONENTIAL_DELAY_JITTER_FACTOR),
                    attempts_before_reset_backoff=read_option(
                        configuration, restart_options.EXPONENTIAL_DELAY_ATTEMPTS
                    ),
                ),
                random,
            )
        case _:
            return NoRestartStrategy()


def bind_address(configuration: AnyConfiguration) -> str:
    return read_option(configuration, jobmanager_options.BIND_HOST) or LOOPBACK


def advertised_host(configuration: AnyConfiguration) -> str:
    """Returns the host at which other processes reach this JobMaster."""
    address = bind_address(configuration)
    return socket.gethostname() if address in ANY_ADDRESSES else address


def rpc_port(configuration: AnyConfiguration, dispatcher_address: str) -> int:
    """Returns the port to bind. 0, any free port, if the configured port is the default or that of the Dispatcher."""
    port = read_option(configuration, jobmanager_options.PORT)
    is_default = port == jobmanager_options.PORT.default
    return 0 if is_default or dispatcher_address.endswith(f":{port}") else port


def resource_id(configuration: AnyConfiguration) -> str:
    """Returns the name of this process: the configured one, or one with its host and process id."""
    configured = read_option(configuration, jobmanager_options.RESOURCE_ID)
    return configured or f"jobmaster-{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"
