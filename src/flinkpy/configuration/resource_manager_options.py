"""Options of the ResourceManager and its SlotManager.

Source: org.apache.flink.configuration.ResourceManagerOptions.
"""

from __future__ import annotations

from flinkpy.configuration.options import (
    ConfigOption,
    OptionType,
    duration_option,
    enum_option,
    float_option,
    int_option,
    memory_option,
    string_option,
)

ADDRESS = string_option(
    "resourcemanager.rpc.address",
    None,
    "Host under which the ResourceManager is reached. Default: `jobmanager.rpc.address`.",
    "jobmanager.rpc.address",
)
IPC_PORT = int_option(
    "resourcemanager.rpc.port", 0, "Port of the ResourceManager. 0 chooses a free port.", minimum=0, maximum=65535
)
BIND_HOST = string_option(
    "resourcemanager.bind-host",
    None,
    "Address that the ResourceManager binds to. Default: `jobmanager.bind-host`, or the loopback address.",
    "jobmanager.bind-host",
)
JOB_TIMEOUT = duration_option(
    "resourcemanager.job.timeout", "5 min", "How long a job without a JobMaster leader keeps its registration."
)
MIN_SLOT_NUM = int_option(
    "slotmanager.number-of-slots.min",
    0,
    "Minimum number of slots that the local driver keeps available, even without demand.",
    minimum=0,
)
MAX_SLOT_NUM = int_option(
    "slotmanager.number-of-slots.max",
    2_147_483_647,
    "Maximum number of slots. No TaskExecutor is started beyond it.",
    minimum=0,
)
MIN_TOTAL_CPU: ConfigOption[float | None] = ConfigOption(
    "slotmanager.min-total-resource.cpu",
    OptionType.FLOAT,
    None,
    "CPU cores of the TaskExecutors that the driver keeps available, even without demand.",
)
MIN_TOTAL_MEMORY = memory_option(
    "slotmanager.min-total-resource.memory",
    None,
    "Memory of the TaskExecutors that the driver keeps available, even without demand.",
)
MAX_TOTAL_CPU: ConfigOption[float | None] = ConfigOption(
    "slotmanager.max-total-resource.cpu",
    OptionType.FLOAT,
    None,
    "Maximum of CPU cores of all TaskExecutors. One that would exceed it is neither started nor registered.",
)
MAX_TOTAL_MEMORY = memory_option(
    "slotmanager.max-total-resource.memory",
    None,
    "Maximum of memory of all TaskExecutors. One that would exceed it is neither started nor registered.",
)
STANDALONE_START_UP_TIME = duration_option(
    "resourcemanager.standalone.start-up-time",
    None,
    "How long TaskExecutors may take to come, where the ResourceManager starts none itself, before jobs that need more "
    "than there is fail. Default: `slot.request.timeout`.",
)
REDUNDANT_TASK_MANAGER_NUM = int_option(
    "slotmanager.redundant-taskmanager-num", 0, "Number of spare TaskExecutors, which speed up recovery.", minimum=0
)
REQUIREMENTS_CHECK_DELAY = duration_option(
    "slotmanager.requirement-check.delay",
    "50 ms",
    "How long declared requirements are collected before they are checked.",
)
START_WORKER_MAX_FAILURE_RATE = float_option(
    "resourcemanager.start-worker.max-failure-rate",
    10.0,
    "Maximum number of failed TaskExecutor starts per minute. After that, starts pause for "
    "`resourcemanager.start-worker.retry-interval`.",
    minimum=0.0,
)
START_WORKER_RETRY_INTERVAL = duration_option(
    "resourcemanager.start-worker.retry-interval", "3 s", "Pause after too many failed TaskExecutor starts."
)
TASK_MANAGER_TIMEOUT = duration_option(
    "resourcemanager.taskmanager-timeout", "30 s", "How long the driver keeps an idle TaskExecutor that it started."
)
TASK_MANAGER_REGISTRATION_TIMEOUT = duration_option(
    "resourcemanager.taskmanager-registration.timeout",
    "5 min",
    "How long a TaskExecutor that the driver started may take to register.",
)
DRIVERS = ("standalone", "local", "kubernetes")
DRIVER = enum_option(
    "flinkpy.resourcemanager.driver",
    DRIVERS,
    "standalone",
    "Who starts TaskExecutors. `standalone`: other means. `local`: the ResourceManager starts them as processes of its "
    "own host, when slots are missing. `kubernetes`: it starts them as pods.",
)
DECLARE_NEEDED_RESOURCE_DELAY = duration_option(
    "slotmanager.declare-needed-resource.delay",
    "50 ms",
    "How long needed TaskExecutors are collected before they are started.",
)
