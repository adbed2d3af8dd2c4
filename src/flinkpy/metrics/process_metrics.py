"""The metrics of a process and its host, under Flink's names.

`Status.JVM` is this process. The heap is its resident memory, and the garbage collector is Python's. Names without a
meaning outside a JVM are left out; docs/metrics.md lists them.

Source: org.apache.flink.runtime.metrics.util.{MetricUtils,SystemResourcesMetricsInitializer,SystemResourcesCounter}.
"""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from flinkpy.common.cgroup import memory_limit_bytes
from flinkpy.common.clock import Clock, SystemClock
from flinkpy.metrics.metric_registry import NamedMetricGroup

if TYPE_CHECKING:
    import psutil

__all__ = ["GarbageCollectionTimes", "register_process_metrics", "register_system_resource_metrics"]

#: How long one reading of the process serves all gauges.
_READING_MAX_AGE_MS = 1_000
#: The shortest time over which a load is computed. A shorter one shows the resolution of the kernel's counters.
_MIN_LOAD_INTERVAL_MS = 900
#: Python has one collector. Flink adds up all collectors of a JVM under `All`.
_COLLECTORS = ("Python", "All")


class GarbageCollectionTimes:
    """Measures the time that Python's cyclic garbage collector takes in this process. Thread: any."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._started_ns = 0
        self._total_ns = 0
        self._count = 0

    def install(self) -> None:
        gc.callbacks.append(self._on_collection)

    def remove(self) -> None:
        """Stops measuring. Idempotent."""
        if self._on_collection in gc.callbacks:
            gc.callbacks.remove(self._on_collection)

    @property
    def total_ms(self) -> int:
        return self._total_ns // 1_000_000

    @property
    def count(self) -> int:
        """The number of collections of all generations since the start of the process."""
        return sum(generation["collections"] for generation in gc.get_stats())

    def _on_collection(self, phase: str, info: Mapping[str, int]) -> None:
        # The collecting thread holds the interpreter lock, so no other collection begins meanwhile.
        if phase == "start":
            self._started_ns = self._clock.monotonic_ns()
        else:
            self._total_ns += self._clock.monotonic_ns() - self._started_ns


class _Readings:
    """The last reading of the process, which all gauges share. Thread: any."""

    def __init__(self, read: Callable[[], dict[str, Any]], max_age_ms: int, clock: Clock) -> None:
        self._read = read
        self._max_age_ms = max_age_ms
        self._clock = clock
        self._lock = threading.Lock()
        self._values: dict[str, Any] = {}
        self._read_ms: int | None = None

    def get(self, name: str) -> Any:
        with self._lock:
            now_ms = self._clock.monotonic_ms()
            if self._read_ms is None or now_ms - self._read_ms >= self._max_age_ms:
                self._values = self._read()
                self._read_ms = now_ms
            return self._values.get(name, 0)

    def gauge(self, name: str) -> Callable[[], Any]:
        return lambda: self.get(name)


class _ProcessReader:
    """Reads the facts of this process."""

    def __init__(self, clock: Clock, limit_bytes: int | None) -> None:
        self._clock = clock
        self._limit_bytes = limit_bytes
        self._cpu_before: tuple[int, int] | None = None
        self._load = 0.0
        #: psutil's object of this process and the memory of the host, which do not change.
        self._process: psutil.Process | None = None
        self._host_bytes = 0

    def read(self) -> dict[str, Any]:
        import psutil

        if self._process is None:
            self._process = psutil.Process()
            self._host_bytes = psutil.virtual_memory().total
        process = self._process
        with process.oneshot():
            memory, times = process.memory_info(), process.cpu_times()
            threads, descriptors = process.num_threads(), process.num_fds()
            created_s = process.create_time()
        cpu_ns = int((times.user + times.system) * 1e9)
        return {
            "CPU.Load": self._cpu_load(cpu_ns, created_s),
            "CPU.Time": cpu_ns,
            "Heap.Used": memory.rss,
            "Heap.Committed": memory.rss,
            "Heap.Max": self._host_bytes if self._limit_bytes is None else min(self._limit_bytes, self._host_bytes),
            "Threads": threads,
            "Descriptors": descriptors,
            "MaxDescriptors": process.rlimit(psutil.RLIMIT_NOFILE)[0],
        }

    def _cpu_load(self, cpu_ns: int, created_s: float) -> float:
        """Returns the share of all cores that the process used since the last reading, or since its start."""
        now_ms = self._clock.monotonic_ms()
        if self._cpu_before is None:
            elapsed_ms = max(1, self._clock.now_ms() - int(created_s * 1000))
            before_ns = 0
        else:
            before_ms, before_ns = self._cpu_before
            elapsed_ms = now_ms - before_ms
            if elapsed_ms < _MIN_LOAD_INTERVAL_MS:
                return self._load
        self._cpu_before = (now_ms, cpu_ns)
        cores = os.cpu_count() or 1
        self._load = max(0.0, min(1.0, (cpu_ns - before_ns) / 1e6 / elapsed_ms / cores))
        return self._load


def register_process_metrics(
    group: NamedMetricGroup,
    collections: GarbageCollectionTimes,
    clock: Clock | None = None,
    limit_bytes: int | None = None,
) -> None:
    """Registers `Status.JVM.*` and `Status.FileDescriptor.*` of this process.

    Args:
        limit_bytes: the memory that the process may use; None: the limit of its container, or that of the host.
    """
    clock = clock or SystemClock()
    readings = _Readings(_ProcessReader(clock, limit_bytes or memory_limit_bytes()).read, _READING_MAX_AGE_MS, clock)
    status = group.add_group("Status")
    jvm = status.add_group("JVM")
    cpu = jvm.add_group("CPU")
    cpu.gauge("Load", readings.gauge("CPU.Load"))
    cpu.gauge("Time", readings.gauge("CPU.Time"))
    heap = jvm.add_group("Memory").add_group("Heap")
    for name in ("Used", "Committed", "Max"):
        heap.gauge(name, readings.gauge(f"Heap.{name}"))
    jvm.add_group("Threads").gauge("Count", readings.gauge("Threads"))
    for name in _COLLECTORS:
        collector = jvm.add_group("GarbageCollector").add_group(name)
        collector.gauge("Count", lambda: collections.count)
        collector.gauge("Time", lambda: collections.total_ms)
        collector.time_of("TimeMsPerSecond", lambda: collections.total_ms)
    descriptors = status.add_group("FileDescriptor")
    descriptors.gauge("Open", readings.gauge("Descriptors"))
    descriptors.gauge("Max", readings.gauge("MaxDescriptors"))


def register_system_resource_metrics(
    group: NamedMetricGroup, probing_interval_ms: int, clock: Clock | None = None
) -> None:
    """Registers `System.*`, the use of the host's CPU, memory and network."""
    import psutil

    clock = clock or SystemClock()
    network_cards = sorted(psutil.net_io_counters(pernic=True))
    num_cores = psutil.cpu_count() or 1
    readings = _Readings(_HostReader(clock).read, probing_interval_ms, clock)
    system = group.add_group("System")
    cpu = system.add_group("CPU")
    names = [*_CPU_TIMES, "Usage", *_LOADS, *(f"UsageCPU{core}" for core in range(num_cores))]
    for name in names:
        cpu.gauge(name, readings.gauge(f"CPU.{name}"))
    for name in ("Available", "Total"):
        system.add_group("Memory").gauge(name, readings.gauge(f"Memory.{name}"))
    for name in ("Used", "Total"):
        system.add_group("Swap").gauge(name, readings.gauge(f"Swap.{name}"))
    for card in network_cards:
        of_card = system.add_group("Network").add_group(card)
        for name in ("ReceiveRate", "SendRate"):
            of_card.gauge(name, readings.gauge(f"Network.{card}.{name}"))


#: Flink's names of the times of a CPU, and psutil's.
_CPU_TIMES = {
    "User": "user",
    "Nice": "nice",
    "Sys": "system",
    "Idle": "idle",
    "IOWait": "iowait",
    "Irq": "irq",
    "SoftIrq": "softirq",
}
_LOADS = ("Load1min", "Load5min", "Load15min")


class _HostReader:
    """Reads the use of the host's resources. Percentages and rates are those since the last reading."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._network_before: tuple[int, dict[str, Any]] | None = None

    def read(self) -> dict[str, Any]:
        import psutil

        memory, swap = psutil.virtual_memory(), psutil.swap_memory()
        times = psutil.cpu_times_percent()
        values: dict[str, Any] = {f"CPU.{name}": getattr(times, field, 0.0) for name, field in _CPU_TIMES.items()}
        values["CPU.Usage"] = max(0.0, 100.0 - times.idle)
        values |= {f"CPU.{name}": load for name, load in zip(_LOADS, psutil.getloadavg(), strict=True)}
        values |= {f"CPU.UsageCPU{core}": use for core, use in enumerate(psutil.cpu_percent(percpu=True))}
        values |= {"Memory.Available": memory.available, "Memory.Total": memory.total}
        values |= {"Swap.Used": swap.used, "Swap.Total": swap.total}
        return values | self._network_rates(psutil.net_io_counters(pernic=True))

    def _network_rates(self, now: dict[str, Any]) -> dict[str, int]:
        """Returns bytes per second since the last reading."""
        now_ms = self._clock.monotonic_ms()
        before_ms, before = self._network_before or (now_ms, now)
        self._network_before = (now_ms, now)
        elapsed_s = max(now_ms - before_ms, 1) / 1000
        rates = {}
        for card, counters in now.items():
            former = before.get(card, counters)
            rates[f"Network.{card}.ReceiveRate"] = int((counters.bytes_recv - former.bytes_recv) / elapsed_s)
            rates[f"Network.{card}.SendRate"] = int((counters.bytes_sent - former.bytes_sent) / elapsed_s)
        return rates
