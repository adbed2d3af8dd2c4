"""JobLeaderService: the JobMaster that leads each job, as registered at the ResourceManager.

```
   unknown -- register(id) --> CONNECTED -- contact lost --> LOST -- timed out --> unknown (job terminated)
                                 ^   |                        |
                                 |   +---- disconnected ------|--------------> unknown (job terminated)
                                 +------- register(any id) ---+
```

A registration under a new JobMasterId replaces the former leader and *retires* its id: every later message with a
retired id, registrations included, is stale. Without a leader election, the order of registrations decides which of two
JobMasters is the younger one. That order is wrong if a late registration of a dead JobMaster arrives after the one of
its successor. Therefore a retired JobMaster may register again once contact to its replacement is lost.

Pure. Source: org.apache.flink.runtime.resourcemanager.{DefaultJobLeaderIdService, registration.JobManagerRegistration}.
"""

from __future__ import annotations

import enum
from collections import OrderedDict
from dataclasses import dataclass

from flinkpy.common.errors import NotRegisteredError, StaleFencingTokenError
from flinkpy.common.ids import JobID, JobMasterId, ResourceID

#: The maximum number of retired ids, over all jobs; a job retires one per failover of its JobMaster.
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
        """Makes this JobMaster the leader of its job.

        Returns: the leader that it replaced; None if it is the first one or registers again.
        Raises: StaleFencingTokenError if its id is retired and its replacement is connected or has disconnected.
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
        """Returns the leader of the job if it has this id.

        Raises: NotRegisteredError: the caller must register. StaleFencingTokenError: another JobMaster leads the job.
        """
        leader = self._leaders.get(job_id)
        if leader is not None and leader.job_master_id == job_master_id:
            return leader
        if leader is None and job_master_id not in self._retired:
            raise NotRegisteredError(f"no JobMaster of job {job_id} is registered", details={"job_id": str(job_id)})
        current = "none" if leader is None else str(leader.job_master_id)
        raise StaleFencingTokenError(
            f"JobMaster {job_master_id} does not lead job {job_id}",
            details={"job_id": str(job_id), "expected": current, "got": str(job_master_id)},
        )

    def find(self, job_id: JobID) -> JobLeader | None:
        return self._leaders.get(job_id)

    def find_by_resource(self, job_id: JobID, resource_id: ResourceID) -> JobLeader | None:
        """Returns the leader of the job if it runs in the process with this ResourceID."""
        leader = self._leaders.get(job_id)
        return leader if leader is not None and leader.resource_id == resource_id else None

    def contact_lost(self, job_id: JobID, job_master_id: JobMasterId, now_ms: int) -> bool:
        """Marks the leader as lost. Returns False if it does not lead the job or was lost before."""
        leader = self._leaders.get(job_id)
        if leader is None or leader.job_master_id != job_master_id or leader.state is ConnectionState.LOST:
            return False
        leader.state = ConnectionState.LOST
        leader.lost_since_ms = now_ms
        return True

    def disconnected(self, job_id: JobID) -> JobLeader | None:
        """Removes and returns the leader of a job whose JobMaster said that the job has terminated."""
        leader = self._leaders.pop(job_id, None)
        if leader is not None:
            self._retire(leader)
        return leader

    def timed_out(self, now_ms: int) -> list[JobID]:
        """Removes and returns the jobs that have had no leader for `resourcemanager.job.timeout`."""
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
