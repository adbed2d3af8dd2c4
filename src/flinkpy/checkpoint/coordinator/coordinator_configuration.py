"""CheckpointCoordinatorOptions: the checkpoint options of one job.

Source: org.apache.flink.runtime.jobgraph.tasks.CheckpointCoordinatorConfiguration.
"""

from __future__ import annotations

from dataclasses import dataclass

from flinkpy._proto import checkpoint_pb2 as pb
from flinkpy.checkpoint.coordinator.checkpoint_properties import CheckpointProperties
from flinkpy.common.errors import ConfigurationError
from flinkpy.configuration import checkpointing_options as options
from flinkpy.configuration import jobmanager_options, read_option
from flinkpy.configuration.options import AnyConfiguration


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointCoordinatorOptions:
    """The parsed options. The defaults are those of Flink.

    Attributes:
        interval_ms: the interval of periodic checkpoints; 0: there are none.
        backlog_interval_ms: the interval while a source reads a backlog; None: `interval_ms`.
    """

    interval_ms: int = 0
    backlog_interval_ms: int | None = None
    timeout_ms: int = 600_000
    min_pause_ms: int = 0
    max_concurrent: int = 1
    tolerable_failures: int = 0
    is_exactly_once: bool = True
    is_unaligned: bool = False
    aligned_timeout_ms: int = 0
    after_tasks_finish: bool = True
    history_size: int = 10

    @property
    def is_periodic(self) -> bool:
        return self.interval_ms > 0

    def for_tasks(self, properties: CheckpointProperties, location: pb.CheckpointLocation) -> pb.CheckpointOptions:
        """Returns the options in the barriers of a checkpoint. Savepoints are always aligned."""
        options = pb.CheckpointOptions(
            kind=properties.kind, format=properties.format, location=location, alignment=pb.ALIGNED
        )
        if not self.is_exactly_once:
            options.alignment = pb.AT_LEAST_ONCE
        elif self.is_unaligned and not properties.is_savepoint:
            if self.aligned_timeout_ms > 0:
                options.aligned_timeout_ms = self.aligned_timeout_ms
            else:
                options.alignment = pb.UNALIGNED
        return options


def coordinator_options(configuration: AnyConfiguration) -> CheckpointCoordinatorOptions:
    """Reads the options. Raises: ConfigurationError, which names the wrong or contradictory options."""
    max_concurrent = read_option(configuration, options.MAX_CONCURRENT_CHECKPOINTS)
    is_exactly_once = read_option(configuration, options.MODE) == "EXACTLY_ONCE"
    is_unaligned = read_option(configuration, options.UNALIGNED)
    if is_unaligned and not is_exactly_once:
        raise ConfigurationError(
            f"{options.UNALIGNED.key} needs {options.MODE.key}: EXACTLY_ONCE",
            details={"option": options.UNALIGNED.key},
        )
    return CheckpointCoordinatorOptions(
        interval_ms=read_option(configuration, options.INTERVAL) or 0,
        backlog_interval_ms=read_option(configuration, options.INTERVAL_DURING_BACKLOG),
        timeout_ms=read_option(configuration, options.TIMEOUT),
        min_pause_ms=read_option(configuration, options.MIN_PAUSE),
        max_concurrent=1 if is_unaligned else max_concurrent,
        tolerable_failures=read_option(configuration, options.TOLERABLE_FAILED_CHECKPOINTS),
        is_exactly_once=is_exactly_once,
        is_unaligned=is_unaligned,
        aligned_timeout_ms=read_option(configuration, options.ALIGNED_CHECKPOINT_TIMEOUT),
        after_tasks_finish=read_option(configuration, options.CHECKPOINTS_AFTER_TASKS_FINISH),
        history_size=read_option(configuration, jobmanager_options.CHECKPOINTS_HISTORY_SIZE),
    )
