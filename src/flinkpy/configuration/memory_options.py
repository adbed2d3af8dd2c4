"""Options of the memory and the resources of processes.

Source: org.apache.flink.configuration.{TaskManagerOptions,JobManagerOptions,ExternalResourceOptions}.
"""

from __future__ import annotations

from flinkpy.configuration.options import (
    ConfigOption,
    OptionType,
    bool_option,
    float_option,
    list_option,
    memory_option,
    string_option,
)

CPU_CORES: ConfigOption[float | None] = ConfigOption(
    "taskmanager.cpu.cores",
    OptionType.FLOAT,
    None,
    "CPU cores that the slots of a TaskExecutor share. Default: the cores of the host, or the number of slots if that "
    "is higher.",
)
CPU_AFFINITY = string_option(
    "flinkpy.taskmanager.cpu-affinity",
    None,
    "CPUs that a TaskExecutor uses, such as `0-3,8`. Its memory is then near them, and TaskExecutors of a host do not "
    "move to the CPUs of one another. Default: those that the process was started with.",
)
TOTAL_PROCESS_MEMORY = memory_option(
    "taskmanager.memory.process.size",
    None,
    "Memory of a TaskExecutor process. Its parts are derived from it, and those of its slots. Default: not limited.",
)
TOTAL_FLINK_MEMORY = memory_option(
    "taskmanager.memory.flink.size",
    None,
    "Memory of a TaskExecutor process without that of the interpreter (`jvm-metaspace`) and reserves (`jvm-overhead`).",
)
FRAMEWORK_HEAP_MEMORY = memory_option(
    "taskmanager.memory.framework.heap.size", "128 mb", "Memory for the objects of the TaskExecutor itself."
)
FRAMEWORK_OFF_HEAP_MEMORY = memory_option(
    "taskmanager.memory.framework.off-heap.size", "128 mb", "Memory for buffers of the TaskExecutor itself."
)
TASK_HEAP_MEMORY = memory_option(
    "taskmanager.memory.task.heap.size",
    None,
    "Memory for Python objects of tasks: functions, heap state, windows. Default: what the other parts leave.",
)
TASK_OFF_HEAP_MEMORY = memory_option(
    "taskmanager.memory.task.off-heap.size", "0 bytes", "Memory for what functions allocate outside of Python's heap."
)
MANAGED_MEMORY_FRACTION = float_option(
    "taskmanager.memory.managed.fraction",
    0.4,
    "Managed memory as a fraction of the total Flink memory, if `taskmanager.memory.managed.size` is not set.",
    minimum=0.0,
    maximum=1.0,
)
NETWORK_MEMORY_FRACTION = float_option(
    "taskmanager.memory.network.fraction",
    0.1,
    "Network memory as a fraction of the total Flink memory, within `taskmanager.memory.network.min` and `.max`.",
    minimum=0.0,
    maximum=1.0,
)
JVM_METASPACE = memory_option(
    "taskmanager.memory.jvm-metaspace.size", "256 mb", "Memory of the interpreter and the modules that it has imported."
)
JVM_OVERHEAD_MIN = memory_option("taskmanager.memory.jvm-overhead.min", "192 mb", "Minimum of the reserves.")
JVM_OVERHEAD_MAX = memory_option("taskmanager.memory.jvm-overhead.max", "1 gb", "Maximum of the reserves.")
JVM_OVERHEAD_FRACTION = float_option(
    "taskmanager.memory.jvm-overhead.fraction",
    0.1,
    "Reserves as a fraction of the process memory: stacks of threads, and memory that allocators keep.",
    minimum=0.0,
    maximum=1.0,
)
WATCHDOG_ENABLED = bool_option(
    "flinkpy.taskmanager.memory.watchdog.enabled",
    True,
    "Whether a TaskExecutor slows its tasks down and fails the one that grows, before it exceeds "
    "`taskmanager.memory.process.size` or the limit of its container. Without both there is nothing to watch.",
)
WATCHDOG_PUSH_BACK = float_option(
    "flinkpy.taskmanager.memory.watchdog.push-back-fraction",
    0.85,
    "Fraction of the limit from which on memory is released, and growing tasks take turns.",
    minimum=0.1,
    maximum=1.0,
)
WATCHDOG_FAIL = float_option(
    "flinkpy.taskmanager.memory.watchdog.fail-fraction",
    0.95,
    "Fraction of the limit from which on the task that has grown most fails.",
    minimum=0.1,
    maximum=1.0,
)
EXTERNAL_RESOURCES = list_option(
    "external-resources",
    (),
    "Names of external resources. `external-resource.<name>.amount` is how much of each a TaskExecutor has.",
)
