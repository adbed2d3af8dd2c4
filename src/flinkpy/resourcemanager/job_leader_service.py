"""JobLeaderService: which JobMaster leads each job, as far as the ResourceManager has been told.

```
   unknown -- register(id) --> CONNECTED -- contact lost --> LOST -- timed out --> unknown (the job is over)
                                 ^   |                        |
                                 |   +---- disconnected ------|--------------> unknown (the job is over)
                                 +------- register(any id) ---+
```

A registration under a new JobMasterId replaces the former leader, whose id is then *retired*: everything still sent
under it, registrations included, is stale. Without a leader election this is how the younger of two leaders is told.
It may be told wrongly, by a message that a dead JobMaster left behind and that came after its successor's. So who was
replaced may come back where contact to its replacement is lost: the one that lives gets the job.

Pure. Source: org.apache.flink.runtime.resourcemanager.{DefaultJobLeaderIdService, registration.JobManagerRegistration}.
"""

from __future__ import annotations

import enum
from collections import OrderedDict
from dataclasses import dataclass

from flinkpy.common.errors import NotRegisteredError, StaleFencingTokenError
from flinkpy.common.ids import JobID, JobMasterId, ResourceID

#: Replaced leaderships remembered in all; a job has one per failover of its JobMaster.
MAX_RETIRED_IDS = 4096


class ConnectionState(enum.Enum):
    CONNECTED = 1
    LOST = 2


@dataclass(slots=True)
class JobLeader:
    job_id: JobID
    job_master_id: JobMasterId
    resource_id: ResourceID
    address: str
    state: ConnectionState = ConnectionState.CONNECTED
    lost_since_ms: int | None = None


class JobLeaderService:
    def __init__(self, job_timeout_ms: int) -> None:
        self._job_timeout_ms = job_timeout_ms
        self._leaders: dict[JobID, JobLeader] = {}
        self._retired: OrderedDict[JobMasterId, JobID] = OrderedDict()

    def register(
        self, job_id: JobID, job_master_id: JobMasterId, resource_id: ResourceID, address: str
    ) -> JobLeader | None:
        """Make this JobMaster the leader of its job; answers the leader it replaced (None: first, or the same again).

        Raises: StaleFencingTokenError where that leadership was replaced before, and by one that lives, or has ended.
        """
        former = self._leaders.get(job_id)
        if job_master_id in self._retired and (former is None or former.state is ConnectionState.CONNECTED):
            raise StaleFencingTokenError(
                f"JobMaster {job_master_id} of job {job_id} was replaced by another leader",
                details={"job_id": str(job_id), "got": str(job_master_id)},
            )
        self._retired.pop(job_master_id, None)
        self._leaders[job_id] = JobLeader(job_id, job_master_id, resource_id, address)
        if former is None or former.job_master_id == job_master_id:
            return None
        self._retire(former)
        return former

    def check(self, job_id: JobID, job_master_id: JobMasterId) -> JobLeader:
        """The leader of the job, if it is that one.

        Raises: NotRegisteredError (the caller must register), StaleFencingTokenError (the caller is of the past).
        """
        leader = self._leaders.get(job_id)
        if leader is not None and leader.job_master_id == job_master_id:
            return leader
        if leader is None and job_master_id not in self._retired:
            raise NotRegisteredError(f"no JobMaster of job {job_id} is registered", details={"job_id": str(job_id)})
        current = "none" if leader is None else str(leader.job_master_id)
        raise StaleFencingTokenError(
            f"JobMaster {job_master_id} does not lead job {job_id} (any more)",
            details={"job_id": str(job_id), "expected": current, "got": str(job_master_id)},
        )

    def find(self, job_id: JobID) -> JobLeader | None:
        return self._leaders.get(job_id)

    def find_by_resource(self, job_id: JobID, resource_id: ResourceID) -> JobLeader | None:
        """The leader of the job if it is that process."""
        leader = self._leaders.get(job_id)
        return leader if leader is not None and leader.resource_id == resource_id else None

    def contact_lost(self, job_id: JobID, job_master_id: JobMasterId, now_ms: int) -> bool:
        """False where that JobMaster does not lead the job, or was lost before."""
        leader = self._leaders.get(job_id)
        if leader is None or leader.job_master_id != job_master_id or leader.state is ConnectionState.LOST:
            return False
        leader.state = ConnectionState.LOST
        leader.lost_since_ms = now_ms
        return True

    def disconnected(self, job_id: JobID) -> JobLeader | None:
        """The job is over by its JobMaster's own word."""
        leader = self._leaders.pop(job_id, None)
        if leader is not None:
            self._retire(leader)
        return leader

    def timed_out(self, now_ms: int) -> list[JobID]:
        """Jobs that have been without a leader for `resourcemanager.job.timeout`; each is forgotten."""
        over = [
            leader.job_id
            for leader in self._leaders.values()
            if leader.lost_since_ms is not None and now_ms - leader.lost_since_ms >= self._job_timeout_ms
        ]
        for job_id in over:
            del self._leaders[job_id]
        for replaced in [one for one, job_id in self._retired.items() if job_id in over]:
            del self._retired[replaced]
        return over

    def _retire(self, leader: JobLeader) -> None:
        self._retired[leader.job_master_id] = leader.job_id
        while len(self._retired) > MAX_RETIRED_IDS:
            self._retired.popitem(last=False)
