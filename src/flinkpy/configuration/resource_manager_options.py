"""Options of the ResourceManager and its SlotManager.

Source: org.apache.flink.configuration.ResourceManagerOptions.
"""

from __future__ import annotations

from flinkpy.configuration.options import bool_option, duration_option, float_option, int_option, string_option

ADDRESS = string_option(
    "resourcemanager.rpc.address",
    None,
    "Host at which the ResourceManager is reached; that of `jobmanager.rpc.address` where unset.",
    "jobmanager.rpc.address",
)
IPC_PORT = int_option(
    "resourcemanager.rpc.port", 0, "Port of the ResourceManager; 0 takes any free one.", minimum=0, maximum=65535
)
BIND_HOST = string_option(
    "resourcemanager.bind-host",
    None,
    "Address the ResourceManager binds; the loopback address where unset.",
    "jobmanager.bind-host",
)
JOB_TIMEOUT = duration_option(
    "resourcemanager.job.timeout", "5 min", "How long a job without a JobMaster leader keeps its registration."
)
MIN_SLOT_NUM = int_option(
    "slotmanager.number-of-slots.min", 0, "Slots that the local driver keeps available even without demand.", minimum=0
)
MAX_SLOT_NUM = int_option(
    "slotmanager.number-of-slots.max", 2_147_483_647, "Slots beyond which no TaskExecutor is started.", minimum=0
)
REDUNDANT_TASK_MANAGER_NUM = int_option(
    "slotmanager.redundant-taskmanager-num", 0, "Spare TaskExecutors kept to speed up recovery.", minimum=0
)
REQUIREMENTS_CHECK_DELAY = duration_option(
    "slotmanager.requirement-check.delay", "50 ms", "Pause in which declared requirements are gathered before a check."
)
START_WORKER_MAX_FAILURE_RATE = float_option(
    "resourcemanager.start-worker.max-failure-rate",
    10.0,
    "Failed TaskExecutor starts a minute after which no more are started for a while.",
    minimum=0.0,
)
START_WORKER_RETRY_INTERVAL = duration_option(
    "resourcemanager.start-worker.retry-interval", "3 s", "Pause after too many failed TaskExecutor starts."
)
TASK_MANAGER_TIMEOUT = duration_option(
    "resourcemanager.taskmanager-timeout", "30 s", "How long an idle TaskExecutor that the driver started is kept."
)
TASK_MANAGER_REGISTRATION_TIMEOUT = duration_option(
    "resourcemanager.taskmanager-registration.timeout",
    "5 min",
    "How long a TaskExecutor that the driver started may take to register.",
)
LOCAL_DRIVER_ENABLED = bool_option(
    "flinkpy.resourcemanager.local-driver",
    False,
    "Whether the ResourceManager starts TaskExecutor processes on its own host when slots are missing.",
)
DECLARE_NEEDED_RESOURCE_DELAY = duration_option(
    "slotmanager.declare-needed-resource.delay",
    "50 ms",
    "Pause in which needed workers are gathered before they start.",
)
