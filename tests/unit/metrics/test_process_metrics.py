"""The metrics of a process, its registry and its rates."""

from __future__ import annotations

import gc
import threading

import pyarrow as pa

from flinkpy.common.clock import ManualClock
from flinkpy.common.configuration import Configuration
from flinkpy.common.memory_use import MemoryMeter
from flinkpy.metrics.metric_registry import MetricValue, NamedMetricGroup, ScopeKind, read_metric
from flinkpy.metrics.process_metrics import GarbageCollectionTimes
from flinkpy.metrics.scope_formats import GroupKind
from flinkpy.metrics.service_metrics import ServiceMetrics
from flinkpy.network.buffer_pool import NetworkBufferPool
from flinkpy.taskexecutor.task_executor_metrics import register_task_executor_metrics


def read(metrics: ServiceMetrics) -> dict[str, MetricValue]:
    return {name: reading for _, name, reading in metrics.registry.read(kinds=[ScopeKind.PROCESS])}


def test_a_service_has_the_metrics_of_its_process() -> None:
    metrics = ServiceMetrics(Configuration(), GroupKind.TASK_MANAGER, {"<host>": "h", "<tm_id>": "te-1"})
    values = {name: reading.value for name, reading in read(metrics).items()}
    assert int(values["Status.JVM.Threads.Count"]) >= threading.active_count()
    assert 0 < int(values["Status.JVM.Memory.Heap.Used"]) < int(values["Status.JVM.Memory.Heap.Max"])
    assert 0 < int(values["Status.FileDescriptor.Open"]) <= int(values["Status.FileDescriptor.Max"])
    assert int(values["Status.JVM.CPU.Time"]) > 0 and 0 <= float(values["Status.JVM.CPU.Load"]) <= 1
    assert int(values["Status.JVM.GarbageCollector.All.Count"]) >= 0
    heap = metrics.group.add_group("Status").add_group("JVM").add_group("Memory").add_group("Heap")
    assert heap.get_metric_identifier("Used") == "h.taskmanager.te-1.Status.JVM.Memory.Heap.Used"
    assert heap.logical_scope == ("taskmanager", "Status", "JVM", "Memory", "Heap")
    assert not any(name.startswith("System.") for name in values)


def test_resources_of_the_host_are_metrics_if_they_are_asked_for() -> None:
    configuration = Configuration.from_dict({"metrics.system-resource": "true"})
    metrics = ServiceMetrics(configuration, GroupKind.JOB_MANAGER, {"<host>": "h"}, group="ResourceManager")
    values = {name: reading.value for name, reading in read(metrics).items()}
    assert float(values["ResourceManager.System.Memory.Total"]) > 0
    assert 0 <= float(values["ResourceManager.System.CPU.Idle"]) <= 100
    assert "ResourceManager.System.CPU.UsageCPU0" in values and "ResourceManager.System.Network.lo.SendRate" in values
    assert "ResourceManager.Status.JVM.CPU.Load" in values


def test_the_time_of_garbage_collections_is_measured_until_it_is_removed() -> None:
    clock = ManualClock(1_000)
    times = GarbageCollectionTimes(clock)

    class Slow:
        """Takes 7 ms of the test's clock to be collected."""

        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            clock.advance(7)

    times.install()
    before = times.count
    Slow()
    gc.collect()
    times.remove()
    assert times.count > before and times.total_ms == 7
    Slow()
    gc.collect()
    assert times.total_ms == 7


def test_a_task_executor_tells_its_network_and_managed_memory() -> None:
    group = NamedMetricGroup()
    pool = NetworkBufferPool(4 * 1024, 1024)
    configuration = Configuration.from_dict({"taskmanager.memory.managed.size": "64 mb"})
    register_task_executor_metrics(group, configuration, pool, MemoryMeter(1 << 40, None))
    local = pool.create_local_pool("x", 2)
    local.reserve(1)
    values = {name: read_metric(metric).value for name, metric in group.metrics()}
    netty = {name: values[f"Status.Shuffle.Netty.{name}"] for name in ("TotalMemory", "UsedMemory", "AvailableMemory")}
    assert netty == {"TotalMemory": 4096, "UsedMemory": 1024, "AvailableMemory": 3072}
    segments = [values[f"Status.Shuffle.Netty.{name}MemorySegments"] for name in ("Total", "Used", "Available")]
    assert segments == [4, 1, 3] and values["Status.Shuffle.Netty.RequestedMemoryUsage"] == 50
    assert (values["Status.Flink.Memory.Managed.Total"], values["Status.Flink.Memory.Managed.Used"]) == (64 << 20, 0)
    assert values["Status.Flink.Memory.Process.Total"] == 1 << 40 > values["Status.Flink.Memory.Process.Used"] > 0
    kept = pa.array([7] * 1000)
    used = read_metric(dict(group.metrics())["Status.JVM.Memory.Direct.MemoryUsed"]).value
    assert isinstance(used, int) and used >= kept.nbytes
