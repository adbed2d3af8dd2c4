"""SnapshotCollector: asks a cluster for what `flinkpy top` shows.

Jobs come from the Dispatcher by gRPC. TaskExecutors come from its REST server, if it has one, because only the
ResourceManager knows them and clients have no token for it.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import quote

from flinkpy._proto import dispatcher_pb2
from flinkpy.cli.job_progress import JobMeter, JobProgress
from flinkpy.cli.rest_call import RestCaller
from flinkpy.cli.top.snapshot import ClusterSnapshot, TaskExecutorUse
from flinkpy.client.cluster_client import ClusterClient
from flinkpy.common.clock import Clock, SystemClock
from flinkpy.common.configuration import Configuration
from flinkpy.common.errors import ExternalError, JobNotFoundError
from flinkpy.common.states import JobState
from flinkpy.security import SecurityContext

#: Jobs whose details are asked for in each round. Their requests take about a millisecond each.
MAX_DETAILED_JOBS = 50
#: Ended jobs that are shown.
MAX_ENDED_JOBS = 20
#: Time for the answer of the REST server. The view goes on without it.
REST_TIMEOUT_S = 3.0
#: TaskExecutors that are asked at the same time.
_NUM_THREADS = 8

_CPU_TIME, _MEMORY = "Status.JVM.CPU.Time", "Status.JVM.Memory.Heap.Used"


class SnapshotCollector:
    """Collects snapshots of one cluster. It keeps what rates need from one to the next. Thread: one at a time."""

    def __init__(
        self,
        client: ClusterClient,
        configuration: Configuration,
        security: SecurityContext,
        clock: Clock | None = None,
    ) -> None:
        self._client = client
        self._configuration = configuration
        self._security = security
        self._clock = clock or SystemClock()
        self._meters: dict[str, JobMeter] = {}
        self._ended: dict[str, JobProgress] = {}
        self._rest: RestCaller | None = None
        #: By TaskExecutor: a monotonic time in ms and the CPU time in ns that it had used then.
        self._cpu: dict[str, tuple[int, int]] = {}
        self._pool = ThreadPoolExecutor(_NUM_THREADS, thread_name_prefix="flinkpy-top")

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)

    def collect(self) -> ClusterSnapshot:
        """Returns the cluster as it is now. Blocks. Raises: FlinkError if the Dispatcher does not answer."""
        overview = self._client.request_cluster_overview()
        jobs = self._client.list_jobs()
        return ClusterSnapshot(
            address=self._client.address,
            now_ms=self._clock.now_ms(),
            num_slots=overview.num_slots_total,
            num_slots_free=overview.num_slots_available,
            num_task_executors=overview.num_task_managers,
            jobs=tuple(self._jobs(jobs)),
            task_executors=self._task_executors(overview.rest_url),
        )

    def _jobs(self, jobs: list[dispatcher_pb2.JobOverview]) -> list[JobProgress]:
        newest = sorted(jobs, key=lambda job: (-job.start_time_ms, job.job_id))
        running = [job for job in newest if not JobState(job.status).is_terminal]
        ended = [job for job in newest if JobState(job.status).is_terminal][:MAX_ENDED_JOBS]
        self._meters = {job.job_id: self._meters.get(job.job_id) or JobMeter() for job in running}
        self._ended = {job.job_id: self._ended[job.job_id] for job in ended if job.job_id in self._ended}
        found = [
            self._progress(job, self._meters[job.job_id]) if position < MAX_DETAILED_JOBS else self._line(job)
            for position, job in enumerate(running)
        ]
        for job in ended:
            if job.job_id not in self._ended:
                self._ended[job.job_id] = self._progress(job, JobMeter())
            found.append(self._ended[job.job_id])
        return found

    def _progress(self, job: dispatcher_pb2.JobOverview, meter: JobMeter) -> JobProgress:
        try:
            details = self._client.request_job(job.job_id, without_subtasks=True)
            statistics = None if details.is_batch else self._client.request_checkpoint_statistics(job.job_id)
        except (JobNotFoundError, ExternalError):  # forgotten since it was listed, or its JobMaster is restarting
            return self._line(job)
        now_s = self._clock.monotonic_ms() / 1000
        return meter.on_details(details, statistics, now_s=now_s, now_ms=self._clock.now_ms())

    def _line(self, job: dispatcher_pb2.JobOverview) -> JobProgress:
        end_ms = job.end_time_ms if job.end_time_ms > 0 else self._clock.now_ms()
        elapsed_ms = max(0, end_ms - job.start_time_ms) if job.start_time_ms > 0 else 0
        return JobProgress(job.job_id, job.name, JobState(job.status), elapsed_ms, ())

    def _task_executors(self, url: str) -> tuple[TaskExecutorUse, ...] | None:
        if not url:
            return None
        if self._rest is None or self._rest.url != url:
            self._rest = RestCaller(url, self._security, self._configuration)
        try:
            listed = self._rest.call("GET", "/v1/taskmanagers", REST_TIMEOUT_S)["taskmanagers"]
        except ExternalError:
            return None
        return tuple(self._pool.map(self._use, listed))

    def _use(self, listed: dict[str, Any]) -> TaskExecutorUse:
        resource_id = listed["id"]
        assert self._rest is not None
        path = f"/v1/taskmanagers/{quote(resource_id, safe='')}/metrics?get={_CPU_TIME},{_MEMORY}"
        try:
            answer = self._rest.call("GET", path, REST_TIMEOUT_S)
        except ExternalError:
            answer = []
        values = {one["id"]: float(one["value"]) for one in answer}
        return TaskExecutorUse(
            id=resource_id,
            address=listed["path"],
            num_slots=listed["slotsNumber"],
            num_slots_free=listed["freeSlots"],
            cores=self._cores(resource_id, values.get(_CPU_TIME)),
            memory_bytes=int(values[_MEMORY]) if _MEMORY in values else None,
        )

    def _cores(self, resource_id: str, cpu_ns: float | None) -> float | None:
        if cpu_ns is None:
            return None
        before, now = self._cpu.get(resource_id), (self._clock.monotonic_ms(), int(cpu_ns))
        self._cpu[resource_id] = now
        if before is None or now[0] == before[0]:
            return None
        return max(0.0, (now[1] - before[1]) / 1e6 / (now[0] - before[0]))
