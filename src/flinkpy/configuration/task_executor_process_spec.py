"""TaskExecutorProcessSpec: how the memory of a TaskExecutor is divided, derived from the options.

```
  process = flink + interpreter (jvm-metaspace) + reserves (jvm-overhead)
  flink   = framework heap + framework off-heap + task heap + task off-heap + managed + network
```

Source: org.apache.flink.runtime.clusterframework.TaskExecutorProcessUtils,
runtime.util.config.memory.{ProcessMemoryUtils,taskmanager.TaskExecutorFlinkMemoryUtils}.
Differs: the parts that Flink keeps for the JVM are those of the interpreter. If no total is configured there is no
limit, where Flink refuses to start; the resources of slots are then derived from the memory of the host.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from flinkpy.common.cgroup import memory_limit_bytes
from flinkpy.common.configuration import Configuration
from flinkpy.common.errors import ConfigurationError
from flinkpy.common.resource_profile import ResourceProfile
from flinkpy.configuration import memory_options as options
from flinkpy.configuration import state_backend_options, taskmanager_options
from flinkpy.configuration.external_resources import external_resource_amounts
from flinkpy.configuration.options import AnyConfiguration, is_set, read_option

_MANAGED = state_backend_options.MANAGED_MEMORY_SIZE


@dataclass(frozen=True, slots=True)
class TaskExecutorProcessSpec:
    """The parts of the memory of a TaskExecutor, in bytes."""

    framework_heap: int
    framework_off_heap: int
    task_heap: int
    task_off_heap: int
    managed: int
    network: int
    interpreter: int
    reserves: int

    @property
    def total_flink(self) -> int:
        framework = self.framework_heap + self.framework_off_heap
        return framework + self.task_heap + self.task_off_heap + self.managed + self.network

    @property
    def total_process(self) -> int:
        return self.total_flink + self.interpreter + self.reserves


def process_spec(configuration: AnyConfiguration) -> TaskExecutorProcessSpec | None:
    """Returns the configured memory of a TaskExecutor; None if no total is configured, so that there is no limit.

    Raises:
        ConfigurationError: the options contradict each other. The message has every part and its size.
    """
    heap = read_option(configuration, options.TASK_HEAP_MEMORY)
    managed = read_option(configuration, _MANAGED)
    flink = read_option(configuration, options.TOTAL_FLINK_MEMORY)
    process = read_option(configuration, options.TOTAL_PROCESS_MEMORY)
    if heap is not None and managed is not None:
        spec = _from_task_heap_and_managed(configuration, heap, managed, flink)
    elif flink is not None:
        spec = _from_total_flink(configuration, flink)
    elif process is not None:
        return _from_total_process(configuration, process)
    else:
        return None
    return _with_reserves(configuration, spec, process)


def total_resource(configuration: AnyConfiguration) -> ResourceProfile:
    """Returns the resources that the slots of a TaskExecutor share: what is configured, or else what the host has.

    Raises: ConfigurationError.
    """
    num_slots = read_option(configuration, taskmanager_options.NUM_TASK_SLOTS)
    cores = read_option(configuration, options.CPU_CORES) or float(max(num_slots, len(os.sched_getaffinity(0))))
    external = tuple((name, float(amount)) for name, amount in external_resource_amounts(configuration).items())
    spec = process_spec(configuration)
    if spec is None:
        available = available_memory_bytes()
        try:
            spec = _from_total_process(configuration, available)
        except ConfigurationError:  # a tiny host: its memory is that of the tasks, undivided
            return ResourceProfile(cores, available, external=external)
    return ResourceProfile(cores, spec.task_heap, spec.task_off_heap, spec.managed, spec.network, external)


def with_derived_sizes(configuration: Configuration) -> Configuration:
    """Returns the options with the sizes of managed and network memory that follow from the others.

    Source: org.apache.flink.runtime.clusterframework.TaskExecutorProcessUtils#generateDynamicConfigsStr.
    Raises: ConfigurationError.
    """
    spec = process_spec(configuration)
    if spec is None:
        return configuration
    derived = Configuration(configuration)
    derived.set_string(_MANAGED.key, f"{spec.managed} bytes")
    for option in (taskmanager_options.NETWORK_MEMORY_MIN, taskmanager_options.NETWORK_MEMORY_MAX):
        derived.set_string(option.key, f"{spec.network} bytes")
    return derived


def available_memory_bytes() -> int:
    """Returns the memory of the host, or the limit of the container if that is lower."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = memory_limit_bytes()
    return physical if limit is None else min(physical, limit)


def _from_task_heap_and_managed(
    configuration: AnyConfiguration, heap: int, managed: int, flink: int | None
) -> TaskExecutorProcessSpec:
    fixed = _framework(configuration)
    off_heap = read_option(configuration, options.TASK_OFF_HEAP_MEMORY)
    others = sum(fixed) + off_heap + heap + managed
    if flink is None:
        fraction = read_option(configuration, options.NETWORK_MEMORY_FRACTION)
        network = _network(configuration, int(others * fraction / (1 - fraction)) if fraction < 1 else others)
    else:
        network = flink - others
        if network < 0:
            raise _exceeds(configuration, "Total Flink Memory", flink, heap=heap, managed=managed)
        _check_network(configuration, network)
    return TaskExecutorProcessSpec(*fixed, heap, off_heap, managed, network, 0, 0)


def _from_total_flink(configuration: AnyConfiguration, flink: int) -> TaskExecutorProcessSpec:
    fixed = _framework(configuration)
    off_heap = read_option(configuration, options.TASK_OFF_HEAP_MEMORY)
    heap = read_option(configuration, options.TASK_HEAP_MEMORY)
    managed = read_option(configuration, _MANAGED)
    if managed is None:
        managed = int(flink * read_option(configuration, options.MANAGED_MEMORY_FRACTION))
    if heap is None:
        network = _network(configuration, int(flink * read_option(configuration, options.NETWORK_MEMORY_FRACTION)))
        heap = flink - sum(fixed) - off_heap - managed - network
        if heap < 0:
            raise _exceeds(configuration, "Total Flink Memory", flink, managed=managed, network=network)
    else:
        network = flink - sum(fixed) - off_heap - heap - managed
        if network < 0:
            raise _exceeds(configuration, "Total Flink Memory", flink, heap=heap, managed=managed)
        _check_network(configuration, network)
    return TaskExecutorProcessSpec(*fixed, heap, off_heap, managed, network, 0, 0)


def _from_total_process(configuration: AnyConfiguration, process: int) -> TaskExecutorProcessSpec:
    interpreter = read_option(configuration, options.JVM_METASPACE)
    reserves = _reserves(configuration, int(process * read_option(configuration, options.JVM_OVERHEAD_FRACTION)))
    if interpreter + reserves > process:
        raise ConfigurationError(
            f"Sum of configured JVM Metaspace ({_size(interpreter)}) and JVM Overhead ({_size(reserves)}) exceed "
            f"configured Total Process Memory ({_size(process)}): raise `{options.TOTAL_PROCESS_MEMORY.key}`",
            details={"option": options.TOTAL_PROCESS_MEMORY.key},
        )
    spec = _from_total_flink(configuration, process - interpreter - reserves)
    return TaskExecutorProcessSpec(*_parts_of_flink(spec), interpreter, reserves)


def _with_reserves(
    configuration: AnyConfiguration, spec: TaskExecutorProcessSpec, process: int | None
) -> TaskExecutorProcessSpec:
    """Adds the memory of the interpreter and the reserves to what Flink's part is known to be."""
    interpreter = read_option(configuration, options.JVM_METASPACE)
    known = spec.total_flink + interpreter
    if process is None:
        fraction = read_option(configuration, options.JVM_OVERHEAD_FRACTION)
        reserves = _reserves(configuration, int(known * fraction / (1 - fraction)) if fraction < 1 else known)
    else:
        reserves = process - known
        if reserves < 0:
            raise ConfigurationError(
                f"Configured and/or derived Total Flink Memory ({_size(spec.total_flink)}) and JVM Metaspace "
                f"({_size(interpreter)}) exceed configured Total Process Memory ({_size(process)})",
                details={"option": options.TOTAL_PROCESS_MEMORY.key},
            )
        _check_range(
            "JVM Overhead",
            reserves,
            read_option(configuration, options.JVM_OVERHEAD_MIN),
            read_option(configuration, options.JVM_OVERHEAD_MAX),
        )
    return TaskExecutorProcessSpec(*_parts_of_flink(spec), interpreter, reserves)


def _parts_of_flink(spec: TaskExecutorProcessSpec) -> tuple[int, int, int, int, int, int]:
    heap, off_heap = spec.framework_heap, spec.framework_off_heap
    return heap, off_heap, spec.task_heap, spec.task_off_heap, spec.managed, spec.network


def _framework(configuration: AnyConfiguration) -> tuple[int, int]:
    heap = read_option(configuration, options.FRAMEWORK_HEAP_MEMORY)
    return heap, read_option(configuration, options.FRAMEWORK_OFF_HEAP_MEMORY)


def _network(configuration: AnyConfiguration, derived: int) -> int:
    """Returns the derived network memory within its bounds."""
    least = read_option(configuration, taskmanager_options.NETWORK_MEMORY_MIN)
    return max(least, min(derived, read_option(configuration, taskmanager_options.NETWORK_MEMORY_MAX)))


def _reserves(configuration: AnyConfiguration, derived: int) -> int:
    least = read_option(configuration, options.JVM_OVERHEAD_MIN)
    return max(least, min(derived, read_option(configuration, options.JVM_OVERHEAD_MAX)))


def _check_network(configuration: AnyConfiguration, network: int) -> None:
    bounds = (taskmanager_options.NETWORK_MEMORY_MIN, taskmanager_options.NETWORK_MEMORY_MAX)
    if any(is_set(configuration, option) for option in bounds):
        _check_range("Network Memory", network, *(read_option(configuration, option) for option in bounds))


def _check_range(name: str, derived: int, least: int, most: int) -> None:
    if not least <= derived <= most:
        raise ConfigurationError(
            f"Derived {name} ({_size(derived)}) is not in configured range [{_size(least)}, {_size(most)}]."
        )


def _exceeds(configuration: AnyConfiguration, name: str, total: int, **derived: int) -> ConfigurationError:
    framework_heap, framework_off_heap = _framework(configuration)
    parts = {
        "Framework Heap Memory": framework_heap,
        "Framework Off-Heap Memory": framework_off_heap,
        "Task Heap Memory": derived.get("heap"),
        "Task Off-Heap Memory": read_option(configuration, options.TASK_OFF_HEAP_MEMORY),
        "Managed Memory": derived.get("managed"),
        "Network Memory": derived.get("network"),
    }
    named = ", ".join(f"{part} ({_size(size)})" for part, size in parts.items() if size is not None)
    return ConfigurationError(
        f"Sum of configured {named} exceed configured {name} ({_size(total)}).",
        details={"option": options.TOTAL_FLINK_MEMORY.key},
    )


def _size(size_bytes: int) -> str:
    return f"{size_bytes / (1 << 20):.3f}mb ({size_bytes} bytes)"
