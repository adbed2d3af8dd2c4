"""What each job declared that it needs, and how much of it is missing.

Later declarations replace earlier ones by sequence number, so a duplicate or a late message changes nothing. A job
whose JobMaster is out of contact is *suspended*: its declaration is remembered but not acted upon.

Source: org.apache.flink.runtime.resourcemanager.slotmanager.DefaultResourceTracker.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from flinkpy.common.ids import JobID, JobMasterId, ResourceID


@dataclass(frozen=True, slots=True)
class ResourceRequirement:
    """So many slots, in processes that are dedicated to this profile ("" is that of plain jobs)."""

    num_slots: int
    resource_profile: str = ""


@dataclass(slots=True)
class JobRequirements:
    job_id: JobID
    job_master_id: JobMasterId
    job_master_address: str
    requirements: tuple[ResourceRequirement, ...]
    sequence_number: int
    is_suspended: bool = False
    #: TaskExecutors that the job wants no further slots of.
    blocked: frozenset[ResourceID] = frozenset()
    #: Workers are started for so many slots at most; what is more waits until some are free. 0: for all.
    num_at_once: int = 0

    @property
    def num_slots(self) -> int:
        return sum(requirement.num_slots for requirement in self.requirements)

    def missing_profiles(self, held_profiles: Iterable[str]) -> list[str]:
        """The profile of every slot still missing, given those of the slots held.

        A slot learned of from a report has no profile; it counts against the total, so that a job never gets more
        slots than it declared.
        """
        held = Counter(held_profiles)
        total_missing = self.num_slots - sum(held.values())
        missing: list[str] = []
        for requirement in self.requirements:
            lacking = requirement.num_slots - held[requirement.resource_profile]
            missing.extend([requirement.resource_profile] * max(0, lacking))
        return missing[: max(0, total_missing)]


class ResourceTracker:
    """Requirements by job, in the order in which jobs first declared them (which is the order they are served in)."""

    def __init__(self) -> None:
        self._jobs: dict[JobID, JobRequirements] = {}

    def declare(self, declared: JobRequirements) -> bool:
        """Take a declaration; False where it is older than what is known and was ignored."""
        known = self._jobs.get(declared.job_id)
        if (
            known is not None
            and known.job_master_id == declared.job_master_id
            and declared.sequence_number <= known.sequence_number
        ):
            return False
        self._jobs[declared.job_id] = declared
        return True

    def find(self, job_id: JobID) -> JobRequirements | None:
        return self._jobs.get(job_id)

    def clear(self, job_id: JobID) -> bool:
        """Forget the job's claim; False where it had none."""
        return self._jobs.pop(job_id, None) is not None

    def suspend(self, job_id: JobID) -> None:
        known = self._jobs.get(job_id)
        if known is not None:
            known.is_suspended = True

    def resume(self, job_id: JobID) -> None:
        known = self._jobs.get(job_id)
        if known is not None:
            known.is_suspended = False

    def active(self) -> Iterator[JobRequirements]:
        return (job for job in list(self._jobs.values()) if not job.is_suspended)
