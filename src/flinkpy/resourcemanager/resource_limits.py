"""ResourceLimits: the least and the most resources of a cluster. WorkerPlan: how many workers requirements need.

Pure. Source: org.apache.flink.runtime.resourcemanager.slotmanager.{SlotManagerConfiguration,
DefaultResourceAllocationStrategy}.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from flinkpy.common.resource_profile import ResourceProfile


@dataclass(frozen=True, slots=True)
class ResourceLimits:
    """`slotmanager.{min,max}-total-resource.{cpu,memory}`. Memory in bytes; None: no maximum."""

    min_cpu_cores: float = 0.0
    min_memory_bytes: int = 0
    max_cpu_cores: float | None = None
    max_memory_bytes: int | None = None

    def exceeded_by(self, total: ResourceProfile) -> str | None:
        """Returns the maximum that a cluster of these resources exceeds, as text; None if it exceeds none."""
        if total.is_any:
            return None
        if self.max_cpu_cores is not None and total.cpu_cores > self.max_cpu_cores:
            return f"slotmanager.max-total-resource.cpu = {self.max_cpu_cores:g}"
        if self.max_memory_bytes is not None and total.total_memory_bytes > self.max_memory_bytes:
            return f"slotmanager.max-total-resource.memory = {self.max_memory_bytes} bytes"
        return None

    def workers_within(
        self, present: ResourceProfile, num_slots: int, worker: ResourceProfile, slots_per_worker: int, max_slots: int
    ) -> int:
        """Returns how many workers may be started beside what is present."""
        room = max(0, max_slots - num_slots) // slots_per_worker
        if not worker.is_any and not present.is_any:
            if self.max_cpu_cores is not None and worker.cpu_cores:
                room = min(room, int(max(0.0, self.max_cpu_cores - present.cpu_cores) / worker.cpu_cores))
            if self.max_memory_bytes is not None and worker.total_memory_bytes:
                left = max(0, self.max_memory_bytes - present.total_memory_bytes)
                room = min(room, left // worker.total_memory_bytes)
        return room

    def is_below_minimum(self, total: ResourceProfile) -> bool:
        """True if a cluster of these resources has less than the minimum."""
        if total.is_any:
            return False
        return total.cpu_cores < self.min_cpu_cores or total.total_memory_bytes < self.min_memory_bytes

    def workers_below_minimum(self, present: ResourceProfile, worker: ResourceProfile) -> int:
        """Returns how many workers are missing until the cluster has the minimum."""
        if present.is_any or worker.is_any:
            return 0
        missing = 0
        if worker.cpu_cores:
            missing = math.ceil(max(0.0, self.min_cpu_cores - present.cpu_cores) / worker.cpu_cores)
        if worker.total_memory_bytes:
            lacking = max(0, self.min_memory_bytes - present.total_memory_bytes)
            missing = max(missing, math.ceil(lacking / worker.total_memory_bytes))
        return missing

    def reason(self, max_slots: int) -> str:
        """Returns why no further worker may be started, as text."""
        parts = [f"slotmanager.number-of-slots.max = {max_slots}"]
        if self.max_cpu_cores is not None:
            parts.append(f"slotmanager.max-total-resource.cpu = {self.max_cpu_cores:g}")
        if self.max_memory_bytes is not None:
            parts.append(f"slotmanager.max-total-resource.memory = {self.max_memory_bytes} bytes")
        return f"the cluster's maximum resources are reached ({', '.join(parts)})"


@dataclass(slots=True)
class _Bin:
    """The resources of a TaskExecutor that comes or is to be started."""

    left: ResourceProfile
    default_slot: ResourceProfile
    num_slots_left: int
    is_new: bool

    def take(self, resources: ResourceProfile) -> bool:
        is_default = resources.is_unknown
        wanted = self.default_slot if is_default else resources
        if (is_default and self.num_slots_left == 0) or not self.left.all_fields_no_less_than(wanted):
            return False
        self.num_slots_left -= is_default
        self.left = self.left.remaining_after(wanted)
        return True


class WorkerPlan:
    """Packs requirements into TaskExecutors that are coming, and into new workers, first fit."""

    def __init__(self, worker_total: ResourceProfile, worker_slot: ResourceProfile, slots_per_worker: int) -> None:
        self._worker = (worker_total, worker_slot, slots_per_worker)
        self._bins: list[_Bin] = []

    @property
    def num_workers(self) -> int:
        """The number of workers to start."""
        return sum(one.is_new for one in self._bins)

    @property
    def num_spare_slots(self) -> int:
        """The number of default slots that no requirement has taken."""
        return sum(one.left.num_slots_within(one.default_slot, one.num_slots_left) for one in self._bins)

    def add_coming(self, total: ResourceProfile, default_slot: ResourceProfile, num_slots: int) -> None:
        self._bins.append(_Bin(total, default_slot, num_slots, is_new=False))

    def place(self, resources: ResourceProfile, max_workers: int) -> bool:
        """Packs a slot of these resources. Returns False if that would need more than `max_workers` workers."""
        if any(one.take(resources) for one in self._bins):
            return True
        if self.num_workers >= max_workers:
            return False
        total, slot, num_slots = self._worker
        added = _Bin(total, slot, num_slots, is_new=True)
        self._bins.append(added)
        return added.take(resources)
