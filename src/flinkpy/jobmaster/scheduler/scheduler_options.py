"""What the configuration says about scheduling."""

from __future__ import annotations

from dataclasses import dataclass, field

from flinkpy.checkpoint.coordinator.coordinator_configuration import CheckpointCoordinatorOptions
from flinkpy.jobmaster.scheduler.adaptive_batch.adaptive_parallelism import AdaptiveParallelismOptions
from flinkpy.jobmaster.scheduler.deployment_reconciler import ABSENCE_GRACE_MS
from flinkpy.jobmaster.scheduler.speculative.slow_task_detector import SpeculativeExecutionOptions
from flinkpy.jobmaster.slotpool.declarative_slot_pool import SlotPoolOptions


@dataclass(frozen=True, slots=True)
class SchedulerOptions:
    """Defaults are Flink's."""

    slot_pool: SlotPoolOptions = field(default_factory=SlotPoolOptions)
    failover_strategy: str = "region"
    releases_partitions_during_execution: bool = True
    attempts_history_size: int = 16
    exception_history_size: int = 16
    absence_grace_ms: int = ABSENCE_GRACE_MS
    #: Whether the job's next JobMaster is to go on with what has finished.
    records_events: bool = False
    speculative: SpeculativeExecutionOptions = field(default_factory=SpeculativeExecutionOptions)
    adaptive: AdaptiveParallelismOptions = field(default_factory=AdaptiveParallelismOptions)
    checkpoints: CheckpointCoordinatorOptions = field(default_factory=CheckpointCoordinatorOptions)
