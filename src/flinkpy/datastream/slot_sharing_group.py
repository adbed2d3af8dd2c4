"""SlotSharingGroup and MemorySize: which operators may share a slot, and the resources of the slot.

Source: pyflink.datastream.slot_sharing_group.
"""

from __future__ import annotations

from typing import Any

from flinkpy.common.resource_profile import ResourceProfile

__all__ = ["MemorySize", "SlotSharingGroup"]

_KIBI = 1 << 10
_MEBI = 1 << 20
_GIBI = 1 << 30
_TEBI = 1 << 40


class MemorySize:
    """A number of bytes."""

    def __init__(self, j_memory_size: Any = None, bytes_size: int | None = None) -> None:
        if bytes_size is None:
            raise ValueError("MemorySize needs bytes_size")
        if bytes_size < 0:
            raise ValueError(f"bytes must be >= 0, not {bytes_size}")
        self._bytes = bytes_size

    @staticmethod
    def of_mebi_bytes(mebi_bytes: int) -> MemorySize:
        return MemorySize(bytes_size=mebi_bytes * _MEBI)

    def get_bytes(self) -> int:
        return self._bytes

    def get_kibi_bytes(self) -> int:
        return self._bytes // _KIBI

    def get_mebi_bytes(self) -> int:
        return self._bytes // _MEBI

    def get_gibi_bytes(self) -> int:
        return self._bytes // _GIBI

    def get_tebi_bytes(self) -> int:
        return self._bytes // _TEBI

    def get_java_memory_size(self) -> Any:
        from flinkpy.common.errors import UnsupportedOperationError

        raise UnsupportedOperationError("MemorySize.get_java_memory_size: flinkpy has no JVM")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MemorySize) and self._bytes == other._bytes

    def __lt__(self, other: MemorySize) -> bool:
        return self._bytes < other._bytes

    def __le__(self, other: MemorySize) -> bool:
        return self._bytes <= other._bytes

    def __hash__(self) -> int:
        return hash(self._bytes)

    def __str__(self) -> str:
        """Returns the size in the largest unit in which it is a whole number."""
        for unit, name in ((_TEBI, "tb"), (_GIBI, "gb"), (_MEBI, "mb"), (_KIBI, "kb")):
            if self._bytes and self._bytes % unit == 0:
                return f"{self._bytes // unit} {name}"
        return f"{self._bytes} bytes"


class SlotSharingGroup:
    """A named group of operators that may share slots. `SlotSharingGroup.builder(name)` creates it.

    A group with resources gets slots of exactly these resources, which are cut from what TaskExecutors have left. A
    group without gets default slots: each is an equal part of a TaskExecutor.

    Example:
        ```
        group = SlotSharingGroup.builder("heavy").set_cpu_cores(1.5).set_task_heap_memory_mb(512).build()
        stream.map(train).slot_sharing_group(group)
        ```
    """

    def __init__(self, j_slot_sharing_group: SlotSharingGroup.Builder) -> None:
        builder = j_slot_sharing_group
        self._name = builder._name
        self._cpu_cores = builder._cpu_cores
        self._task_heap_memory = builder._task_heap_memory
        self._task_off_heap_memory = builder._task_off_heap_memory
        self._managed_memory = builder._managed_memory
        self._external_resources = dict(builder._external_resources)

    def get_name(self) -> str:
        return self._name

    def get_managed_memory(self) -> MemorySize | None:
        return self._managed_memory

    def get_task_heap_memory(self) -> MemorySize | None:
        return self._task_heap_memory

    def get_task_off_heap_memory(self) -> MemorySize | None:
        return self._task_off_heap_memory

    def get_cpu_cores(self) -> float | None:
        return self._cpu_cores

    def get_external_resources(self) -> dict[str, float]:
        return dict(self._external_resources)

    @property
    def resource_profile(self) -> ResourceProfile:
        """The resources of each slot of the group; ResourceProfile.UNKNOWN if none are set."""
        if self._cpu_cores is None or self._task_heap_memory is None:
            return ResourceProfile.UNKNOWN
        off_heap, managed = self._task_off_heap_memory, self._managed_memory
        return ResourceProfile(
            self._cpu_cores,
            self._task_heap_memory.get_bytes(),
            0 if off_heap is None else off_heap.get_bytes(),
            0 if managed is None else managed.get_bytes(),
            external=tuple(self._external_resources.items()),
        )

    def get_java_slot_sharing_group(self) -> Any:
        from flinkpy.common.errors import UnsupportedOperationError

        raise UnsupportedOperationError("SlotSharingGroup.get_java_slot_sharing_group: flinkpy has no JVM")

    @staticmethod
    def builder(name: str) -> SlotSharingGroup.Builder:
        return SlotSharingGroup.Builder(name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SlotSharingGroup) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash(self._name)

    class Builder:
        def __init__(self, j_builder: str) -> None:
            if not isinstance(j_builder, str) or not j_builder:
                raise ValueError(f"a slot sharing group's name must be a non-empty string, not {j_builder!r}")
            self._name = j_builder
            self._cpu_cores: float | None = None
            self._task_heap_memory: MemorySize | None = None
            self._task_off_heap_memory: MemorySize | None = None
            self._managed_memory: MemorySize | None = None
            self._external_resources: dict[str, float] = {}

        def set_cpu_cores(self, cpu_cores: float) -> SlotSharingGroup.Builder:
            if cpu_cores <= 0:
                raise ValueError("The cpu cores should be positive.")
            self._cpu_cores = float(cpu_cores)
            return self

        def set_task_heap_memory(self, task_heap_memory: MemorySize) -> SlotSharingGroup.Builder:
            if task_heap_memory.get_bytes() <= 0:
                raise ValueError("The task heap memory should be positive.")
            self._task_heap_memory = task_heap_memory
            return self

        def set_task_heap_memory_mb(self, task_heap_memory_mb: int) -> SlotSharingGroup.Builder:
            return self.set_task_heap_memory(MemorySize.of_mebi_bytes(task_heap_memory_mb))

        def set_task_off_heap_memory(self, task_off_heap_memory: MemorySize) -> SlotSharingGroup.Builder:
            self._task_off_heap_memory = task_off_heap_memory
            return self

        def set_task_off_heap_memory_mb(self, task_off_heap_memory_mb: int) -> SlotSharingGroup.Builder:
            return self.set_task_off_heap_memory(MemorySize.of_mebi_bytes(task_off_heap_memory_mb))

        def set_managed_memory(self, managed_memory: MemorySize) -> SlotSharingGroup.Builder:
            self._managed_memory = managed_memory
            return self

        def set_managed_memory_mb(self, managed_memory_mb: int) -> SlotSharingGroup.Builder:
            return self.set_managed_memory(MemorySize.of_mebi_bytes(managed_memory_mb))

        def set_external_resource(self, name: str, value: float) -> SlotSharingGroup.Builder:
            self._external_resources[name] = float(value)
            return self

        def build(self) -> SlotSharingGroup:
            """Returns the group.

            Raises:
                ValueError: some resources are set, but not both CPU cores and task heap memory.
            """
            if self._cpu_cores is not None and self._task_heap_memory is not None:
                return SlotSharingGroup(self)
            others = (
                self._cpu_cores,
                self._task_heap_memory,
                self._task_off_heap_memory,
                self._managed_memory,
            )
            if any(value is not None for value in others) or self._external_resources:
                raise ValueError(
                    "The cpu cores and task heap memory are required when specifying the resource of a slot sharing "
                    "group. You need to explicitly configure them with positive value."
                )
            return SlotSharingGroup(self)
