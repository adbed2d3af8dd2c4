"""ResourceProfile: the resources that a slot needs or has.

A profile has CPU cores, task heap, task off-heap, managed and network memory, and external resources such as GPUs. Two
profiles are special: UNKNOWN is a requirement without numbers, which any default slot meets; ANY is a slot without
limits, which meets every requirement.

Source: org.apache.flink.runtime.clusterframework.types.ResourceProfile, runtime.slots.ResourceRequirement,
runtime.util.ResourceCounter.
Differs: the heap of a task is memory of Python's interpreter, because there is no JVM.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

#: Digits of a number of CPU cores or external resources after the point. More would be noise of binary fractions.
SCALE = 8
_MEBI = 1 << 20
_Scale = Callable[[float], float]


class ProfileKind(enum.Enum):
    """Whether a profile has numbers (SPECIFIC), or none (UNKNOWN), or no limits (ANY)."""

    SPECIFIC = 1
    UNKNOWN = 2
    ANY = 3


@dataclass(frozen=True, slots=True)
class ResourceProfile:
    """Resources of a slot or of a TaskExecutor. Memory in bytes. Raises ValueError if a number is negative."""

    cpu_cores: float = 0.0
    task_heap_bytes: int = 0
    task_off_heap_bytes: int = 0
    managed_bytes: int = 0
    network_bytes: int = 0
    #: Name and amount of each external resource, sorted by name, without amounts of 0.
    external: tuple[tuple[str, float], ...] = ()
    kind: ProfileKind = field(default=ProfileKind.SPECIFIC, repr=False)

    UNKNOWN: ClassVar[ResourceProfile]
    ANY: ClassVar[ResourceProfile]
    ZERO: ClassVar[ResourceProfile]

    def __post_init__(self) -> None:
        object.__setattr__(self, "cpu_cores", round(float(self.cpu_cores), SCALE))
        amounts = ((name, round(float(amount), SCALE)) for name, amount in self.external)
        object.__setattr__(self, "external", tuple(sorted((name, amount) for name, amount in amounts if amount)))
        negative = [name for name, amount in self.amounts().items() if amount < 0]
        if negative:
            raise ValueError(f"{', '.join(negative)} of a resource profile must not be negative: {self!r}")

    @property
    def is_unknown(self) -> bool:
        return self.kind is ProfileKind.UNKNOWN

    @property
    def is_any(self) -> bool:
        return self.kind is ProfileKind.ANY

    @property
    def total_memory_bytes(self) -> int:
        return self.task_heap_bytes + self.task_off_heap_bytes + self.managed_bytes + self.network_bytes

    def external_amount(self, name: str) -> float:
        return dict(self.external).get(name, 0.0)

    def amounts(self) -> dict[str, float]:
        """Returns every resource by its name in messages. Memory in bytes."""
        return {
            "CPU cores": self.cpu_cores,
            "task heap memory": self.task_heap_bytes,
            "task off-heap memory": self.task_off_heap_bytes,
            "managed memory": self.managed_bytes,
            "network memory": self.network_bytes,
            **dict(self.external),
        }

    def is_matching(self, required: ResourceProfile) -> bool:
        """True if a slot of this profile may serve the requirement: it has no limits, is equal, or any slot will do.

        Raises:
            ValueError: this profile is UNKNOWN, so it is not that of a slot.
        """
        self._check_known("matching")
        return self.is_any or required.is_unknown or self == required

    def all_fields_no_less_than(self, other: ResourceProfile) -> bool:
        """True if this profile has at least as much of every resource. Raises: ValueError if either is UNKNOWN."""
        self._check_known("comparing")
        other._check_known("comparing")
        if self.is_any:
            return True
        if other.is_any:
            return False
        ours = self.amounts()
        return all(ours.get(name, 0.0) >= amount for name, amount in other.amounts().items())

    def merge(self, other: ResourceProfile) -> ResourceProfile:
        """Returns the sum. The sum with ANY is ANY; the sum with UNKNOWN is UNKNOWN."""
        if self.is_any or other.is_any:
            return ResourceProfile.ANY
        if self.is_unknown or other.is_unknown:
            return ResourceProfile.UNKNOWN
        return self._combined(other, 1)

    def subtract(self, other: ResourceProfile) -> ResourceProfile:
        """Returns what is left of this profile without `other`.

        Raises:
            ValueError: `other` has more of a resource.
        """
        if self.is_any or other.is_any:
            return ResourceProfile.ANY
        if self.is_unknown or other.is_unknown:
            return ResourceProfile.UNKNOWN
        if not self.all_fields_no_less_than(other):
            raise ValueError(f"cannot subtract {other} from {self}")
        return self._combined(other, -1)

    def remaining_after(self, used: ResourceProfile) -> ResourceProfile:
        """Returns what is left beside `used`; 0 of a resource of which `used` has more."""
        if self.kind is not ProfileKind.SPECIFIC or used.kind is not ProfileKind.SPECIFIC:
            return self
        return ResourceProfile(
            max(0.0, self.cpu_cores - used.cpu_cores),
            max(0, self.task_heap_bytes - used.task_heap_bytes),
            max(0, self.task_off_heap_bytes - used.task_off_heap_bytes),
            max(0, self.managed_bytes - used.managed_bytes),
            max(0, self.network_bytes - used.network_bytes),
            tuple((name, max(0.0, amount - used.external_amount(name))) for name, amount in self.external),
        )

    def multiply(self, multiplier: int) -> ResourceProfile:
        """Returns the resources of `multiplier` such profiles. Raises: ValueError if the multiplier is negative."""
        if multiplier < 0:
            raise ValueError(f"the multiplier must be >= 0, not {multiplier}")
        if self.kind is not ProfileKind.SPECIFIC:
            return self
        return self._scaled(lambda amount: amount * multiplier)

    def divide(self, parts: int) -> ResourceProfile:
        """Returns one of `parts` equal parts, memory rounded down to bytes. ANY and UNKNOWN stay what they are.

        Source: org.apache.flink.runtime.taskexecutor.TaskExecutorResourceUtils#generateDefaultSlotResourceProfile.
        """
        if parts < 1:
            raise ValueError(f"the number of parts must be >= 1, not {parts}")
        if self.kind is not ProfileKind.SPECIFIC:
            return self
        return self._scaled(lambda amount: amount // parts if isinstance(amount, int) else _floor(amount / parts))

    def num_slots_within(self, slot: ResourceProfile, at_most: int) -> int:
        """Returns how many slots of the profile `slot` fit into this profile, but not more than `at_most`."""
        fitting = 0
        total = slot
        while fitting < at_most and self.all_fields_no_less_than(total):
            fitting += 1
            total = total.merge(slot)
        return fitting

    def lacks_of(self, required: ResourceProfile) -> dict[str, float]:
        """Returns by how much each resource falls short of `required`; empty if none does."""
        if self.is_any or required.is_unknown:
            return {}
        ours = self.amounts()
        lacking = {name: amount - ours.get(name, 0.0) for name, amount in required.amounts().items()}
        return {name: round(amount, SCALE) for name, amount in lacking.items() if amount > 0}

    def _check_known(self, what: str) -> None:
        if self.is_unknown:
            raise ValueError(f"{what} is not defined for an UNKNOWN resource profile")

    def _combined(self, other: ResourceProfile, sign: int) -> ResourceProfile:
        external = Counter(dict(self.external))
        for name, amount in other.external:
            external[name] += sign * amount  # type: ignore[assignment]  # amounts may be fractions
        return ResourceProfile(
            self.cpu_cores + sign * other.cpu_cores,
            self.task_heap_bytes + sign * other.task_heap_bytes,
            self.task_off_heap_bytes + sign * other.task_off_heap_bytes,
            self.managed_bytes + sign * other.managed_bytes,
            self.network_bytes + sign * other.network_bytes,
            tuple(external.items()),
        )

    def _scaled(self, scale: _Scale) -> ResourceProfile:
        return ResourceProfile(
            scale(self.cpu_cores),
            int(scale(self.task_heap_bytes)),
            int(scale(self.task_off_heap_bytes)),
            int(scale(self.managed_bytes)),
            int(scale(self.network_bytes)),
            tuple((name, scale(amount)) for name, amount in self.external),
        )

    def __str__(self) -> str:
        if self.kind is not ProfileKind.SPECIFIC:
            return f"ResourceProfile{{{self.kind.name}}}"
        return f"ResourceProfile{{{format_amounts(self.amounts()) or 'nothing'}}}"


ResourceProfile.UNKNOWN = ResourceProfile(kind=ProfileKind.UNKNOWN)
ResourceProfile.ANY = ResourceProfile(kind=ProfileKind.ANY)
ResourceProfile.ZERO = ResourceProfile()


class ResourceCounter:
    """An immutable number of slots per profile. The order is that of the first mention; counts of 0 are left out."""

    def __init__(self, counts: Mapping[ResourceProfile, int] | Iterable[ResourceProfile] = ()) -> None:
        self._counts = {profile: count for profile, count in Counter(counts).items() if count}
        if any(count < 0 for count in self._counts.values()):
            raise ValueError(f"numbers of slots must not be negative: {self._counts}")

    @staticmethod
    def with_resource(profile: ResourceProfile, count: int) -> ResourceCounter:
        return ResourceCounter({profile: count})

    @property
    def total(self) -> int:
        """The number of slots of all profiles."""
        return sum(self._counts.values())

    def __getitem__(self, profile: ResourceProfile) -> int:
        return self._counts.get(profile, 0)

    def __iter__(self) -> Iterator[tuple[ResourceProfile, int]]:
        return iter(self._counts.items())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ResourceCounter) and self._counts == other._counts

    def __hash__(self) -> int:
        return hash(frozenset(self._counts.items()))

    def __repr__(self) -> str:
        return f"ResourceCounter({self._counts})"


def format_amounts(amounts: Mapping[str, float]) -> str:
    """Returns resources as text, e.g. `CPU cores: 1.5, managed memory: 64.000mb (67108864 bytes)`, without zeros.

    Source: org.apache.flink.configuration.MemorySize#toHumanReadableString.
    """
    return ", ".join(f"{name}: {format_amount(name, amount)}" for name, amount in amounts.items() if amount)


def format_amount(name: str, amount: float) -> str:
    """Returns the amount of one resource as text; memory in megabytes and bytes."""
    if not name.endswith("memory"):
        return f"{amount:g}"
    return f"{amount / _MEBI:.3f}mb ({int(amount)} bytes)"


def _floor(amount: float) -> float:
    """Returns the amount rounded down to SCALE digits, so that parts never add up to more than the whole."""
    unit = 10**SCALE
    return int(amount * unit) / unit
