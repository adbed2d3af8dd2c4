"""Bodies of the operations of TaskManagers.

Source: org.apache.flink.runtime.rest.messages.taskmanager,
org.apache.flink.runtime.{instance.HardwareDescription,taskexecutor.TaskExecutorMemoryConfiguration}.
"""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType


class ResourceProfileInfo(msgspec.Struct, kw_only=True, rename="camel"):
    """Resources in CPU cores and megabytes; 0 where there is no limit."""

    cpu_cores: float
    task_heap_memory: int
    task_off_heap_memory: int
    managed_memory: int
    network_memory: int
    extended_resources: dict[str, float]


class HardwareDescription(msgspec.Struct, kw_only=True, rename="camel"):
    """The host of a TaskManager. Memory in bytes."""

    cpu_cores: int
    physical_memory: int
    free_memory: int
    managed_memory: int


class TaskExecutorMemoryConfiguration(msgspec.Struct, kw_only=True, rename="camel"):
    """The memory of a TaskManager in bytes, as configured or derived. `totalProcessMemory` is its lowest limit.

    Parts that nothing reports are null.
    """

    framework_heap: int | None = None
    task_heap: int | None = None
    framework_off_heap: int | None = None
    task_off_heap: int | None = None
    network_memory: int | None = None
    managed_memory: int | None = None
    jvm_metaspace: int | None = None
    jvm_overhead: int | None = None
    total_flink_memory: int | None = None
    total_process_memory: int | None = None


class TaskManagerInfo(msgspec.Struct, kw_only=True, rename="camel"):
    """A TaskManager. `timeSinceLastHeartbeat` is the time of its last heartbeat, as in Flink."""

    id: str
    path: str
    data_port: int
    jmx_port: int
    time_since_last_heartbeat: int
    slots_number: int
    free_slots: int
    assigned_tasks: int
    total_resource: ResourceProfileInfo
    free_resource: ResourceProfileInfo
    hardware: HardwareDescription
    memory_configuration: TaskExecutorMemoryConfiguration
    blocked: bool


class TaskManagersInfo(msgspec.Struct, kw_only=True):
    taskmanagers: list[TaskManagerInfo]


class SlotInfo(msgspec.Struct, kw_only=True, rename="camel"):
    """A slot that a job has."""

    resource: ResourceProfileInfo
    job_id: str
    assigned_tasks: int


class GarbageCollectorInfo(msgspec.Struct, kw_only=True):
    name: str
    count: int
    time: int


class TaskManagerMetricsInfo(msgspec.Struct, kw_only=True, rename="camel"):
    """The resources that a TaskManager uses. The heap is the memory of the process. Figures of a JVM are -1."""

    heap_used: int
    heap_committed: int
    heap_max: int
    non_heap_used: int = -1
    non_heap_committed: int = -1
    non_heap_max: int = -1
    direct_count: int = -1
    direct_used: int = -1
    direct_max: int = -1
    mapped_count: int = -1
    mapped_used: int = -1
    mapped_max: int = -1
    netty_shuffle_memory_segments_available: int = -1
    netty_shuffle_memory_segments_used: int = -1
    netty_shuffle_memory_segments_total: int = -1
    netty_shuffle_memory_available: int = -1
    netty_shuffle_memory_used: int = -1
    netty_shuffle_memory_total: int = -1
    garbage_collectors: list[GarbageCollectorInfo]


class TaskManagerDetailsInfo(TaskManagerInfo, kw_only=True, rename="camel"):
    """A TaskManager with its slots and metrics.

    `stale` is there, and true, if the TaskManager did not answer in time. Its metrics are -1 then.
    """

    metrics: TaskManagerMetricsInfo
    allocated_slots: list[SlotInfo]
    stale: bool | UnsetType = UNSET
