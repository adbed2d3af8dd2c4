"""JobClients: the jobs that need their client, and the times of the clients' last heartbeats.

A job is useless without its client if only the client reads its results, or if the job is to end with the client. The
JobGraph of such a job says how long the client may be silent. The time starts when a Dispatcher takes the job, so a
restarted Dispatcher waits for the client again.

Pure: `now_ms` is always a parameter.

Source: org.apache.flink.runtime.dispatcher.Dispatcher#{initJobClientExpiredTime,checkJobClientAliveness}.
Differs: the client sends a duration instead of a time, so the clocks of two hosts need not agree.
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
        """Expects heartbeats of the job's client, at most `timeout_ms` apart. Does nothing if `timeout_ms` is 0."""
        if timeout_ms > 0:
            self._clients[job_id] = _Client(timeout_ms, now_ms)

    def heard(self, job_id: JobID, timeout_ms: int, now_ms: int) -> None:
        """Records a heartbeat. Expects further ones from now on."""
        self.expect(job_id, timeout_ms, now_ms)

    def remove(self, job_id: JobID) -> None:
        """Removes an ended job. Idempotent."""
        self._clients.pop(job_id, None)

    def expired(self, now_ms: int) -> list[tuple[JobID, int]]:
        """Removes and returns the jobs whose client was silent for too long, each with its time-out."""
        gone = [
            (job_id, client.timeout_ms)
            for job_id, client in self._clients.items()
            if now_ms - client.heard_ms >= client.timeout_ms
        ]
        for job_id, _ in gone:
            del self._clients[job_id]
        return gone
