"""JobClients: which jobs need their client, and when it was heard last.

A job whose results only its client reads, or that is to end with its client, is of no use without it. Its JobGraph says
how long the client may be silent; the time begins when a Dispatcher takes the job, so that a Dispatcher that is started
again waits for the client as long as the first one did.

Pure: `now_ms` is always a parameter.

Source: org.apache.flink.runtime.dispatcher.Dispatcher#{initJobClientExpiredTime,checkJobClientAliveness}.
Differs: the client sends how long it may be silent, not when it expires, so that clocks of two hosts need not agree.
"""

from __future__ import annotations

from dataclasses import dataclass

from flinkpy.common.ids import JobID


@dataclass(slots=True)
class _Client:
    timeout_ms: int
    heard_ms: int


class JobClients:
    """Holds an entry for each running job that needs its client."""

    def __init__(self) -> None:
        self._clients: dict[JobID, _Client] = {}

    def expect(self, job_id: JobID, timeout_ms: int, now_ms: int) -> None:
        """The job may be without a sign of its client for `timeout_ms`, from now on. Without effect for 0."""
        if timeout_ms > 0:
            self._clients[job_id] = _Client(timeout_ms, now_ms)

    def heard(self, job_id: JobID, timeout_ms: int, now_ms: int) -> None:
        """The client lives. One that was not expected is from now on."""
        self.expect(job_id, timeout_ms, now_ms)

    def remove(self, job_id: JobID) -> None:
        """The job has ended. Idempotent."""
        self._clients.pop(job_id, None)

    def expired(self, now_ms: int) -> list[tuple[JobID, int]]:
        """The jobs whose client has been silent for too long, each with that time-out; each is told once."""
        gone = [
            (job_id, client.timeout_ms)
            for job_id, client in self._clients.items()
            if now_ms - client.heard_ms >= client.timeout_ms
        ]
        for job_id, _ in gone:
            del self._clients[job_id]
        return gone
