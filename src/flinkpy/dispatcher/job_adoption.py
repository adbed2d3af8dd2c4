"""JobAdoptions: waits for JobMasters that may lead their jobs without having a session here.

That a JobMaster will come is not certain: its process may be dead, and its leadership last until ZooKeeper notices. So
whatever shows that it will not is taken, and not only the time-out: nobody leads the job, or not any more, or nobody
listens at the address that the leader has published. A mistake costs a restart and no more: whoever is started instead
cannot lead while another does.

Thread: the Dispatcher's loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from flinkpy._proto import dispatcher_pb2 as pb
from flinkpy.common.errors import RpcUnavailableError
from flinkpy.common.ids import JobID
from flinkpy.dispatcher.runner_effects import AwaitJobMaster
from flinkpy.highavailability.leader_election import LeaderInformation, LeaderRetrieval
from flinkpy.rpc.endpoint import RpcEndpoint, TimerHandle

logger = logging.getLogger(__name__)

#: How long a JobMaster may take to answer the question whether it lives. One that does not answer may still live.
PROBE_TIMEOUT_S = 5.0

#: How long it may take to hear who leads a job, or that nobody does.
LOOKUP_TIMEOUT_MS = 5_000


class JobAdoptions:
    """Calls `on_failed(job_id, adoption, reason)`, at most once for each `wait_for` that was not `settled`."""

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
        """One wait for a job at a time: another replaces it."""
        self.settled(job_id)
        wait = self._waits[job_id] = _Wait(job_id, effect.adoption, self._retrieval(job_id))
        reason = f"it did not report within {effect.timeout_ms} ms"
        wait.timer = self._endpoint.schedule(effect.timeout_ms, lambda: self._fail(wait, reason))
        wait.lookup = self._endpoint.schedule(LOOKUP_TIMEOUT_MS, lambda: self._fail(wait, "nobody leads the job"))
        wait.retrieval.start(lambda leader: self._leader_changed(wait, leader))

    def settled(self, job_id: JobID) -> None:
        """It has come, or is not wanted any more; idempotent."""
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
        call = gateway.request_job_details(pb.JobIdMessage(job_id=str(wait.job_id)), timeout_s=PROBE_TIMEOUT_S)
        self._endpoint.run_async(call, answered, f"ask the JobMaster of {wait.job_id}")

    def _fail(self, wait: _Wait, reason: str) -> None:
        if self._waits.get(wait.job_id) is wait:
            self.settled(wait.job_id)
            logger.warning("the JobMaster of job %s is not waited for any more: %s", wait.job_id, reason)
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
