"""JobAdoptions: waits for JobMasters that may lead their jobs but have no session with this Dispatcher.

It is not certain that such a JobMaster will open a session: its process may be dead while ZooKeeper still shows its
leadership. Therefore the wait ends not only by the time-out, but also when no JobMaster leads the job, or when nothing
listens at the address that the leader has published. A wrong decision costs a restart only, because another JobMaster
cannot lead while the former one does.

Thread: the Dispatcher's loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from flinkpy._proto import job_pb2
from flinkpy.common.errors import RpcUnavailableError
from flinkpy.common.ids import JobID
from flinkpy.dispatcher.job_manager_runner import AwaitJobMaster
from flinkpy.highavailability.leader_election import LeaderInformation, LeaderRetrieval
from flinkpy.rpc.endpoint import RpcEndpoint, TimerHandle

logger = logging.getLogger(__name__)

#: How long to wait for the answer to a probe. A JobMaster that does not answer may still be alive.
PROBE_TIMEOUT_S = 5.0

#: How long to wait for the leader retrieval to tell who leads a job.
LOOKUP_TIMEOUT_MS = 5_000


class JobAdoptions:
    """Calls `on_failed(job_id, adoption, reason)` at most once for each `wait_for`, and not after `settled`."""

    def __init__(
        self,
        endpoint: RpcEndpoint,
        *,
        retrieval: Callable[[JobID], LeaderRetrieval],
        gateway: Callable[[str, str, str | None], Any],
        on_failed: Callable[[JobID, int, str], None],
    ) -> None:
        self._endpoint = endpoint
        self._retrieval = retrieval
        self._gateway = gateway
        self._on_failed = on_failed
        self._waits: dict[JobID, _Wait] = {}

    def wait_for(self, job_id: JobID, effect: AwaitJobMaster) -> None:
        """Waits for the JobMaster of a job. Replaces an earlier wait for the same job."""
        self.settled(job_id)
        wait = self._waits[job_id] = _Wait(job_id, effect.adoption, self._retrieval(job_id))
        reason = f"it did not report within {effect.timeout_ms} ms"
        wait.timer = self._endpoint.schedule(effect.timeout_ms, lambda: self._fail(wait, reason))
        wait.lookup = self._endpoint.schedule(LOOKUP_TIMEOUT_MS, lambda: self._fail(wait, "nobody leads the job"))
        wait.retrieval.start(lambda leader: self._leader_changed(wait, leader))

    def settled(self, job_id: JobID) -> None:
        """Ends the wait: the JobMaster has arrived, or is not needed any more. Idempotent."""
        wait = self._waits.pop(job_id, None)
        if wait is not None:
            wait.close()

    def close(self) -> None:
        for job_id in list(self._waits):
            self.settled(job_id)

    def _leader_changed(self, wait: _Wait, leader: LeaderInformation | None) -> None:
        if self._waits.get(wait.job_id) is not wait:
            return
        wait.end_lookup()
        if leader is None:
            self._fail(wait, "nobody leads the job")
            return

        def answered(_: Any, error: BaseException | None) -> None:
            if isinstance(error, RpcUnavailableError):
                self._fail(wait, f"nobody answers at {leader.address}")

        gateway = self._gateway("JobMaster", leader.address, leader.fencing_token)
        request = job_pb2.JobDetailsRequest(job_id=str(wait.job_id), without_subtasks=True)
        call = gateway.request_job_details(request, timeout_s=PROBE_TIMEOUT_S)
        self._endpoint.run_async(call, answered, f"ask the JobMaster of {wait.job_id}")

    def _fail(self, wait: _Wait, reason: str) -> None:
        if self._waits.get(wait.job_id) is wait:
            self.settled(wait.job_id)
            logger.warning("not waiting for the JobMaster of job %s any more: %s", wait.job_id, reason)
            self._on_failed(wait.job_id, wait.adoption, reason)


class _Wait:
    def __init__(self, job_id: JobID, adoption: int, retrieval: LeaderRetrieval) -> None:
        self.job_id = job_id
        self.adoption = adoption
        self.retrieval = retrieval
        self.timer: TimerHandle | None = None
        self.lookup: TimerHandle | None = None

    def end_lookup(self) -> None:
        if self.lookup is not None:
            self.lookup.cancel()
            self.lookup = None

    def close(self) -> None:
        self.retrieval.close()
        self.end_lookup()
        if self.timer is not None:
            self.timer.cancel()
