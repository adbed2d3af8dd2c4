"""The metrics of a TaskExecutor's network stack and memory, under Flink's names.

Source: org.apache.flink.runtime.io.network.metrics.NettyShuffleMetricFactory,
runtime.metrics.util.MetricUtils#instantiateFlinkMemoryMetricGroup.
"""

from __future__ import annotations

from flinkpy.common.configuration import Configuration
from flinkpy.common.memory_use import MemoryMeter
from flinkpy.configuration import read_option, state_backend_options
from flinkpy.metrics.metric_registry import NamedMetricGroup
from flinkpy.network.buffer_pool import NetworkBufferPool
from flinkpy.state.rocksdb.settings import shared_memory_in_use
from flinkpy.taskexecutor.memory_watchdog import MemoryWatchdog

#: The budget of a process without a limit, as in Flink's metrics of memory whose size is undefined.
UNKNOWN_BYTES = -1


def register_task_executor_metrics(
    group: NamedMetricGroup, configuration: Configuration, pool: NetworkBufferPool, meter: MemoryMeter
) -> None:
    """Registers `Status.Shuffle.Netty.*`, `Status.Flink.Memory.*` and `Status.JVM.Memory.Direct.*`.

    Flink has no name for the memory of the process against its budget: here it is `Status.Flink.Memory.Process.*`.
    """
    status = group.add_group("Status")
    _register_network(status.add_group("Shuffle").add_group("Netty"), pool)
    memory = status.add_group("Flink").add_group("Memory")
    process = memory.add_group("Process")
    process.gauge("Used", meter.used_bytes)
    process.gauge("Total", lambda: UNKNOWN_BYTES if meter.limit_bytes is None else meter.limit_bytes)
    managed = memory.add_group("Managed")
    size = read_option(configuration, state_backend_options.MANAGED_MEMORY_SIZE) or 0
    managed.gauge("Total", lambda: size)
    managed.gauge("Used", shared_memory_in_use)
    direct = status.add_group("JVM").add_group("Memory").add_group("Direct")
    direct.gauge("MemoryUsed", _arrow_bytes)
    direct.gauge("TotalCapacity", _arrow_bytes)


def register_memory_watchdog(group: NamedMetricGroup, watchdog: MemoryWatchdog) -> None:
    """Registers how often the process pushed back, and how many of its tasks failed for their memory."""
    process = group.add_group("Status").add_group("Flink").add_group("Memory").add_group("Process")
    process.count_only("numPushBacks", lambda: watchdog.num_push_backs)
    process.count_only("numFailedTasks", lambda: watchdog.num_failed_tasks)


def _register_network(group: NamedMetricGroup, pool: NetworkBufferPool) -> None:
    unit = pool.segment_size_bytes

    def available() -> int:
        return max(0, pool.total - pool.used)  # overdrafts can use more than the total

    group.gauge("TotalMemorySegments", lambda: pool.total)
    group.gauge("UsedMemorySegments", lambda: pool.used)
    group.gauge("AvailableMemorySegments", available)
    group.gauge("TotalMemory", lambda: pool.total * unit)
    group.gauge("UsedMemory", lambda: pool.used * unit)
    group.gauge("AvailableMemory", lambda: available() * unit)
    group.gauge("RequestedMemoryUsage", lambda: 100 * pool.required // pool.total)


def _arrow_bytes() -> int:
    """Returns the memory that Arrow has allocated outside Python's heap, e.g. for columns."""
    import pyarrow as pa  # a TaskExecutor imports it with its first task

    return int(pa.total_allocated_bytes())
