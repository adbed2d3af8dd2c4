"""Options that choose the scheduler of a job, and options of the adaptive scheduler.

Source: org.apache.flink.configuration.{JobManagerOptions,WebOptions,PipelineOptions}.
"""

from __future__ import annotations

from flinkpy.configuration.options import bool_option, duration_option, enum_option, int_option, map_option

SCHEDULER = enum_option(
    "jobmanager.scheduler",
    ("Default", "Adaptive", "AdaptiveBatch"),
    "Default",
    "The scheduler of streaming jobs. `Adaptive` runs a job with the slots that there are, and changes its parallelism "
    "when slots come or go (see [Elasticity](elasticity.md)). Batch jobs decide it while they run in any case.",
)
SCHEDULER_MODE = enum_option(
    "scheduler-mode",
    ("REACTIVE",),
    None,
    "`REACTIVE`: the job of a standalone application uses all slots of its cluster. It implies the scheduler "
    "`Adaptive`.",
)
RESOURCE_WAIT_TIMEOUT = duration_option(
    "jobmanager.adaptive-scheduler.submission.resource-wait-timeout",
    "5 min",
    "How long a job waits for all desired slots after its submission or a failure. After that it runs with those that "
    "there are, or fails if they do not suffice. Without effect where `scheduler-mode` is `REACTIVE` and the option is "
    "not set: the job waits for the first slots without end.",
    "jobmanager.adaptive-scheduler.resource-wait-timeout",
)
SUBMISSION_STABILIZATION_TIMEOUT = duration_option(
    "jobmanager.adaptive-scheduler.submission.resource-stabilization-timeout",
    "10 s",
    "How long a job that has enough slots to run waits for the rest of the desired ones. The default for "
    "`scheduler-mode: REACTIVE` is 0.",
    "jobmanager.adaptive-scheduler.resource-stabilization-timeout",
)
COOLDOWN_AFTER_RESCALING = duration_option(
    "jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling",
    "30 s",
    "Minimum time between two changes of the parallelism of a running job.",
    "jobmanager.adaptive-scheduler.scaling-interval.min",
)
EXECUTING_STABILIZATION_TIMEOUT = duration_option(
    "jobmanager.adaptive-scheduler.executing.resource-stabilization-timeout",
    "1 min",
    "How long a running job with new slots or new requirements waits for the rest of the desired slots before it "
    "changes its parallelism. With all desired slots it does not wait. 0 by default for `scheduler-mode: REACTIVE`.",
    "jobmanager.adaptive-scheduler.scaling-interval.max",
)
RESCALE_MAX_CHECKPOINT_FAILURES = int_option(
    "jobmanager.adaptive-scheduler.rescale-trigger.max-checkpoint-failures",
    2,
    "A running job changes its parallelism right after a completed checkpoint, or after this number of failed ones in "
    "a row.",
    minimum=1,
)
RESCALE_MAX_DELAY = duration_option(
    "jobmanager.adaptive-scheduler.rescale-trigger.max-delay",
    None,
    "How long a change of the parallelism waits for a completed checkpoint. Default: 0 for a job without periodic "
    "checkpoints, otherwise their interval times one more than `rescale-trigger.max-checkpoint-failures`.",
)
PREFER_MINIMAL_TASKMANAGERS = bool_option(
    "jobmanager.adaptive-scheduler.prefer-minimal-taskmanagers",
    True,
    "Use the slots of as few TaskExecutors as possible, so that the others can be released.",
)
PARALLELISM_OVERRIDES = map_option(
    "pipeline.jobvertex-parallelism-overrides",
    "The parallelism of vertices by their ids, which replaces the one of the program when the job is submitted.",
)
