"""Options of the TaskExecutor and its network stack.

Source: org.apache.flink.configuration.{TaskManagerOptions,NettyShuffleEnvironmentOptions}.
"""

from __future__ import annotations

from flinkpy.configuration.options import (
    bool_option,
    duration_option,
    enum_option,
    float_option,
    int_option,
    memory_option,
    string_option,
)

HOST = string_option(
    "taskmanager.host", None, "Host under which other processes reach this TaskExecutor. Default: its bind address."
)
BIND_HOST = string_option(
    "taskmanager.bind-host", None, "Address that this TaskExecutor binds to. Default: the loopback address."
)
RPC_PORT = int_option("taskmanager.rpc.port", 0, "RPC port. 0 chooses a free port.", minimum=0, maximum=65535)
DATA_PORT = int_option(
    "taskmanager.data.port", 0, "Port of the data plane. 0 chooses a free port.", minimum=0, maximum=65535
)
NUM_TASK_SLOTS = int_option(
    "taskmanager.numberOfTaskSlots", 1, "Number of slots of one TaskExecutor process.", minimum=1, maximum=1024
)
SYSTEM_OUT_MODE = enum_option(
    "taskmanager.system-out.mode",
    ("DEFAULT", "LOG", "IGNORE"),
    "DEFAULT",
    "What happens to the output of functions, e.g. of `print`: `LOG` makes each line a log record that names its task, "
    "`IGNORE` drops it. `DEFAULT` is `LOG` if the TaskExecutor writes a log file; otherwise the output appears "
    "unchanged.",
)
SYSTEM_OUT_LOG_CACHE_SIZE = memory_option(
    "taskmanager.system-out.log.cache-upper-size",
    "100 kb",
    "A line of output that is longer becomes several log records.",
    minimum_bytes=1,
)
RESOURCE_ID = string_option("taskmanager.resource-id", None, "Id of this process in messages. Default: a generated id.")
REGISTRATION_TIMEOUT = duration_option(
    "taskmanager.registration.timeout",
    "5 min",
    "How long a TaskExecutor tries to register at a ResourceManager before it ends.",
)
SLOT_TIMEOUT = duration_option(
    "taskmanager.slot.timeout",
    "10 s",
    "How long an allocated slot may stay without a task before it is freed.",
)
LOAD_BALANCE_MODE = enum_option(
    "taskmanager.load-balance.mode",
    ("NONE", "SLOTS", "MIN_RESOURCES", "TASKS"),
    "NONE",
    "How slots are chosen among TaskExecutors: `NONE` fills one TaskExecutor after the other, `SLOTS` and `TASKS` "
    "spread them evenly.",
)
WORKING_DIR = string_option(
    "process.taskmanager.working-dir",
    None,
    "Directory for the files of running jobs. Default: a temporary directory.",
)
SWITCH_INTERVAL_MS = float_option(
    "flinkpy.taskmanager.switch-interval-ms",
    0.5,
    "Maximum time in milliseconds that a task thread running pure Python keeps the interpreter while another thread "
    "waits for it. A lower value reduces the latency of network and control threads, a higher value reduces the "
    "number of thread switches.",
    minimum=0.005,
)
NICENESS = int_option(
    "flinkpy.taskmanager.niceness",
    0,
    "How much TaskExecutors give way to other processes of their host. Where tasks use all CPUs, e.g. 5 lets the "
    "Dispatcher, the ResourceManager and JobMasters on the same host answer faster. Each step gives tasks about a "
    "fifth less of a CPU that processes of niceness 0 want, too.",
    minimum=0,
    maximum=19,
)

TASK_CANCELLATION_INTERVAL = duration_option(
    "task.cancellation.interval",
    "30 s",
    "Interval between two attempts to interrupt a task that does not stop.",
    minimum_ms=1,
)
TASK_CANCELLATION_TIMEOUT = duration_option(
    "task.cancellation.timeout",
    "3 min",
    "Time after which a task that does not stop makes its whole TaskExecutor process exit. 0 disables this.",
)

MEMORY_SEGMENT_SIZE = memory_option(
    "taskmanager.memory.segment-size",
    "32 kb",
    "Size of a network buffer, the unit of credits.",
    minimum_bytes=256,
)
NETWORK_MEMORY_MIN = memory_option("taskmanager.memory.network.min", "64 mb", "Minimum memory for network buffers.")
NETWORK_MEMORY_MAX = memory_option(
    "taskmanager.memory.network.max", "9223372036854775807 bytes", "Maximum memory for network buffers."
)
NETWORK_BUFFERS_PER_CHANNEL = int_option(
    "taskmanager.network.memory.buffers-per-channel",
    2,
    "Number of exclusive buffers of a remote input channel. This is a key of Flink 1.x.",
    minimum=0,
)
NETWORK_REQUEST_BACKOFF_INITIAL_MS = int_option(
    "taskmanager.network.request-backoff.initial",
    100,
    "Initial pause in milliseconds before a partition request is repeated.",
    minimum=1,
)
NETWORK_REQUEST_BACKOFF_MAX_MS = int_option(
    "taskmanager.network.request-backoff.max",
    10_000,
    "Maximum pause in milliseconds before a partition request is repeated.",
    minimum=1,
)
NETWORK_DETAILED_METRICS = bool_option(
    "taskmanager.network.detailed-metrics",
    False,
    "Also report the shortest, longest, average and total queue of each gate and each result partition.",
)
PARTITION_REQUEST_TIMEOUT = duration_option(
    "taskmanager.network.partition-request-timeout",
    "10 s",
    "How long the producer's TaskExecutor waits for a requested partition to be created.",
)
NETWORK_SORT_SHUFFLE_MIN_BUFFERS = int_option(
    "taskmanager.network.sort-shuffle.min-buffers",
    512,
    "Number of network buffers that a blocking result partition fills before it sorts them and writes them to its "
    "file. It uses fewer if the network memory does not have as many.",
    minimum=1,
)
NETWORK_BATCH_SHUFFLE_READ_MEMORY = memory_option(
    "taskmanager.memory.framework.off-heap.batch-shuffle.size",
    "64 mb",
    "Memory for data that was read from blocking result partitions and not yet taken by a consumer.",
    minimum_bytes=1 << 20,
)
SHUFFLE_COMPRESSION_CODEC = enum_option(
    "taskmanager.network.compression.codec",
    ("LZ4", "ZSTD", "NONE"),
    "LZ4",
    "Compression of blocking result partitions. Flink's LZO is not supported.",
)
CONNECT_TIMEOUT_S = int_option(
    "taskmanager.network.netty.client.connectTimeoutSec",
    120,
    "Timeout in seconds for connecting to another TaskExecutor.",
    minimum=1,
)
