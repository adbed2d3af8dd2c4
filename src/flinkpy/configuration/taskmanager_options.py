"""Options of the TaskExecutor and its network stack.

Source: org.apache.flink.configuration.{TaskManagerOptions,NettyShuffleEnvironmentOptions}.
"""

from __future__ import annotations

from flinkpy.configuration.options import (
    duration_option,
    enum_option,
    float_option,
    int_option,
    memory_option,
    string_option,
)

HOST = string_option(
    "taskmanager.host", None, "Host at which this TaskExecutor is reached by others; its bind address where unset."
)
BIND_HOST = string_option(
    "taskmanager.bind-host", None, "Address this TaskExecutor binds; the loopback address where unset."
)
RPC_PORT = int_option("taskmanager.rpc.port", 0, "RPC port; 0 takes any free one.", minimum=0, maximum=65535)
DATA_PORT = int_option(
    "taskmanager.data.port", 0, "Port of the data plane; 0 takes any free one.", minimum=0, maximum=65535
)
NUM_TASK_SLOTS = int_option(
    "taskmanager.numberOfTaskSlots", 1, "Slots of one TaskExecutor process.", minimum=1, maximum=1024
)
RESOURCE_ID = string_option("taskmanager.resource-id", None, "Name of this process in messages; made up where unset.")
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
    "How slots are chosen among TaskExecutors: `SLOTS` and `TASKS` spread them out, `NONE` fills one after the other.",
)
WORKING_DIR = string_option(
    "process.taskmanager.working-dir",
    None,
    "Directory for the files of running jobs; a temporary one where unset.",
)
SWITCH_INTERVAL_MS = float_option(
    "flinkpy.taskmanager.switch-interval-ms",
    0.5,
    "Longest time that a task thread running pure Python keeps the interpreter while another thread of the "
    "TaskExecutor waits for it. Shorter: lower latency of network and control threads; longer: fewer switches.",
    minimum=0.005,
)

TASK_CANCELLATION_INTERVAL = duration_option(
    "task.cancellation.interval",
    "30 s",
    "Time between two attempts to interrupt a task that does not stop.",
    minimum_ms=1,
)
TASK_CANCELLATION_TIMEOUT = duration_option(
    "task.cancellation.timeout",
    "3 min",
    "Time after which a task that does not stop takes its whole TaskExecutor down; 0 never.",
)

MEMORY_SEGMENT_SIZE = memory_option(
    "taskmanager.memory.segment-size",
    "32 kb",
    "Size of one network buffer, the unit that credits count.",
    minimum_bytes=256,
)
NETWORK_MEMORY_MIN = memory_option("taskmanager.memory.network.min", "64 mb", "Least memory of network buffers.")
NETWORK_MEMORY_MAX = memory_option(
    "taskmanager.memory.network.max", "9223372036854775807 bytes", "Most memory of network buffers."
)
NETWORK_BUFFERS_PER_CHANNEL = int_option(
    "taskmanager.network.memory.buffers-per-channel",
    2,
    "Exclusive buffers of a remote input channel (a key of Flink 1.x).",
    minimum=0,
)
NETWORK_REQUEST_BACKOFF_INITIAL_MS = int_option(
    "taskmanager.network.request-backoff.initial",
    100,
    "First pause before a partition is asked for again, in ms.",
    minimum=1,
)
NETWORK_REQUEST_BACKOFF_MAX_MS = int_option(
    "taskmanager.network.request-backoff.max",
    10_000,
    "Longest pause before a partition is asked for again, in ms.",
    minimum=1,
)
PARTITION_REQUEST_TIMEOUT = duration_option(
    "taskmanager.network.partition-request-timeout", "10 s", "How long a producer may take to make a partition known."
)
NETWORK_SORT_SHUFFLE_MIN_BUFFERS = int_option(
    "taskmanager.network.sort-shuffle.min-buffers",
    512,
    "Network buffers that a blocking result partition gathers before it writes them sorted to its file. It gets fewer "
    "where the network memory does not have as many.",
    minimum=1,
)
NETWORK_BATCH_SHUFFLE_READ_MEMORY = memory_option(
    "taskmanager.memory.framework.off-heap.batch-shuffle.size",
    "64 mb",
    "Memory for data that was read from blocking result partitions and that no consumer has taken yet.",
    minimum_bytes=1 << 20,
)
SHUFFLE_COMPRESSION_CODEC = enum_option(
    "taskmanager.network.compression.codec",
    ("LZ4", "ZSTD", "NONE"),
    "LZ4",
    "How blocking result partitions are compressed. (Flink also knows LZO.)",
)
CONNECT_TIMEOUT_S = int_option(
    "taskmanager.network.netty.client.connectTimeoutSec",
    120,
    "Time to connect to another TaskExecutor, in seconds.",
    minimum=1,
)
