"""BatchJobRecoveryHandler: records the events of a batch job, and asks for the results of earlier JobMasters.

A TaskExecutor that has lost the JobMaster of a job keeps the finished results of the job for a while. The events tell
the next JobMaster which TaskExecutors have results. It asks each of them to register, and the answer lists the results.
A TaskExecutor that does not answer within `execution.batch.job-recovery.previous-worker.recovery.timeout` counts as
having none.

Source: org.apache.flink.runtime.scheduler.adaptivebatch.DefaultBatchJobRecoveryHandler. Thread: main thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from flinkpy._proto import job_event_pb2, job_pb2, taskexecutor_pb2
from flinkpy.common.errors import CorruptStateError, FlinkError, RpcTimeoutError, RpcUnavailableError
from flinkpy.common.ids import ExecutionVertexID, JobVertexID
from flinkpy.common.states import ExecutionState
from flinkpy.jobmaster.executiongraph.execution_graph import ExecutionGraph
from flinkpy.jobmaster.job_event_store import job_events
from flinkpy.jobmaster.job_event_store.job_event_store import JobEventStore
from flinkpy.jobmaster.kept_results import KeptResults, ResultPiece
from flinkpy.jobmaster.operator_coordinators import OperatorCoordinators
from flinkpy.jobmaster.scheduler import effects as fx
from flinkpy.jobmaster.scheduler.default_scheduler import DefaultScheduler
from flinkpy.jobmaster.slotpool.physical_slot import TaskManagerLocation
from flinkpy.rpc.endpoint import RpcEndpoint
from flinkpy.rpc.peer_connection import Peers

logger = logging.getLogger(__name__)

#: The pause between two attempts to reach a TaskExecutor.
RETRY_PAUSE_S = 0.2


@dataclass(frozen=True, slots=True)
class JobRecoveryOptions:
    """The options of the recovery. Defaults are Flink's."""

    is_enabled: bool = False
    worker_timeout_ms: int = 30_000
    snapshot_min_pause_ms: int = 180_000
    buffer_bytes: int = 1 << 20
    flush_interval_ms: int = 1_000


class JobEventRecorder:
    """Records the events of a job, with the states of coordinators that a recovery needs.

    It takes the state of a coordinator when a subtask of its vertex has finished: always after the last subtask, and
    otherwise at most once per `execution.batch.job-recovery.snapshot.min-pause`. In a recovery, subtasks that finished
    after the last snapshot run again.

    Args:
        now_ms: a monotonic clock.
        takes_snapshots: False if the next JobMaster only needs to know what was committed.
    """

    def __init__(
        self,
        store: JobEventStore,
        graph: ExecutionGraph,
        coordinators: OperatorCoordinators,
        *,
        snapshot_min_pause_ms: int,
        now_ms: Callable[[], int],
        takes_snapshots: bool = True,
    ) -> None:
        self._store = store
        self._graph = graph
        self._coordinators = coordinators
        self._min_pause_ms = snapshot_min_pause_ms
        self._now_ms = now_ms
        self._takes_snapshots = takes_snapshots
        self._last_snapshot_ms: dict[JobVertexID, int] = {}

    def record(self, effect: fx.RecordJobEvent) -> None:
        if effect.finished is None:
            self._store.append(effect.event)
            return
        vertex = self._graph.vertex(effect.finished).job_vertex
        # A task without results has external effects. Write its end now, so that a recovery does not repeat them.
        self._store.append(effect.event, is_urgent=not vertex.results and not vertex.has_coordinators)
        if self._takes_snapshots and vertex.has_coordinators and self._is_snapshot_due(effect.finished):
            states = self._coordinators.snapshot_for_recovery(vertex.id)
            if states is not None:
                self._last_snapshot_ms[vertex.id] = self._now_ms()
                self._store.append(job_events.snapshot(vertex.id, states), is_urgent=not vertex.results)

    def _is_snapshot_due(self, finished: ExecutionVertexID) -> bool:
        vertex = self._graph.job_vertices[finished.job_vertex_id]
        last_ms = self._last_snapshot_ms.get(vertex.id)
        if last_ms is None or self._now_ms() - last_ms >= self._min_pause_ms:
            return True
        return all(task.current.state is ExecutionState.FINISHED for task in vertex.task_vertices)


class BatchJobRecoveryHandler:
    """The recovery of one job.

    Without `execution.batch.job-recovery.enabled` it only recovers which sinks have committed, or are about to (see
    `settled_vertices`), so that no JobMaster commits anything else. For a job without committers it does nothing then.
    """

    def __init__(
        self,
        endpoint: RpcEndpoint,
        scheduler: DefaultScheduler,
        coordinators: OperatorCoordinators,
        options: JobRecoveryOptions,
        job_graph: job_pb2.JobGraph,
        directory: Path,
    ) -> None:
        self._endpoint = endpoint
        self._scheduler = scheduler
        self._options = options
        self._job_graph = job_graph
        self._store = JobEventStore(
            endpoint, directory, buffer_bytes=options.buffer_bytes, flush_interval_ms=options.flush_interval_ms
        )
        self._recorder = JobEventRecorder(
            self._store,
            scheduler.graph,
            coordinators,
            snapshot_min_pause_ms=options.snapshot_min_pause_ms,
            now_ms=endpoint.clock.monotonic_ms,
            takes_snapshots=options.is_enabled,
        )
        #: The committables of the job.
        self.kept_results = KeptResults(directory)
        #: The partitions that earlier JobMasters have stored.
        self._stored: frozenset[str] = frozenset()

    @property
    def is_enabled(self) -> bool:
        return self._options.is_enabled

    @property
    def is_recording(self) -> bool:
        return self._scheduler.records_events

    def read_events(self) -> list[job_event_pb2.JobEvent]:
        """Returns the events of earlier JobMasters. Blocks; any thread.

        Raises:
            OSError.
            CorruptStateError: the events are damaged, and a sink may have committed.
        """
        if not self.is_recording:
            return []
        self._stored = self.kept_results.ids()
        return self._store.open(may_start_over=not self._stored)

    def begin(self, events: Iterable[job_event_pb2.JobEvent]) -> job_events.RecordedJob:
        """Repeats the recorded decisions. Returns the recorded progress.

        Raises:
            CorruptStateError: the events belong to another job, and a sink may have committed.
        """
        if not self.is_recording:
            return job_events.RecordedJob()
        graph = self._scheduler.graph
        coordinated = [vertex.id for vertex in graph.job_vertices.values() if vertex.has_coordinators]
        recorded = job_events.replay(events, coordinated)
        try:
            self._scheduler.adaptive.replay(recorded.decisions)
        except CorruptStateError as error:
            if self._stored:
                raise
            logger.error(
                "the recorded events of job %s cannot be used, so all tasks run again: %s", graph.job_id, error
            )
            recorded = job_events.RecordedJob()
        self._store.append(job_events.started(graph.job_id, graph.graph_id))
        return recorded

    async def ask_task_managers(
        self, recorded: job_events.RecordedJob, peers: Peers, *, job_master_address: str, job_master_id: str
    ) -> frozenset[str]:
        """Asks the TaskExecutors for results. Returns the ids of the partitions that still exist, here or there."""
        if not self.is_enabled:
            return self._stored
        request = taskexecutor_pb2.ConnectJobMasterRequest(
            job_id=self._job_graph.job_id,
            job_master_address=job_master_address,
            job_master_id=job_master_id,
            configuration=self._job_graph.configuration,
        )
        deadline_ms = self._endpoint.clock.monotonic_ms() + self._options.worker_timeout_ms
        asked = [self._ask(peers, location, job_master_id, request, deadline_ms) for location in recorded.locations]
        try:
            answers = await asyncio.gather(*asked)
        except Exception:
            logger.exception("the results of job %s at TaskExecutors could not be determined", self._job_graph.job_id)
            return self._stored
        return self._stored.union(*answers)

    def record(self, effect: fx.RecordJobEvent) -> None:
        self._recorder.record(effect)

    def remove_kept_results(self, partition_ids: Iterable[str]) -> None:
        """Removes results that will not be committed."""
        ids = tuple(partition_ids)
        self._endpoint.run_blocking(lambda: self.kept_results.remove(ids), None, "remove committables")

    async def fetch_result(self, partition_id: str, offset: int) -> ResultPiece:
        """Returns a piece of a kept result, when the next JobMaster would also know that it is final.

        After that the committer may commit.

        Raises:
            CommittablesLostError: the result cannot be read.
            ExternalError: what happened cannot be recorded.
        """
        await self._store.flushed()
        return await self._endpoint.blocking(lambda: self.kept_results.read(partition_id, offset), "read committables")

    def give_up(self, on_done: Callable[[], None]) -> None:
        """Deletes the events and the committables after the end of the job, then calls `on_done()`."""
        if not self.is_recording:
            on_done()
            return

        def remove() -> None:
            self._store.remove()
            self.kept_results.remove_all()

        self._endpoint.run_blocking(remove, lambda _, __: on_done(), "remove the events of the job")

    def close(self) -> None:
        self._store.close()

    async def _ask(
        self,
        peers: Peers,
        location: TaskManagerLocation,
        job_master_id: str,
        request: taskexecutor_pb2.ConnectJobMasterRequest,
        deadline_ms: int,
    ) -> list[str]:
        gateway = peers.gateway("TaskExecutor", location.address, job_master_id)
        while True:
            remaining_ms = deadline_ms - self._endpoint.clock.monotonic_ms()
            if remaining_ms <= 0:
                break
            try:
                response = await gateway.connect_job_master(request, timeout_s=remaining_ms / 1000)
                return list(response.held_result_partition_ids)
            except (RpcUnavailableError, RpcTimeoutError) as error:
                logger.debug("TaskExecutor %s has not answered yet: %s", location.resource_id, error)
                await asyncio.sleep(RETRY_PAUSE_S)
            except FlinkError as error:
                logger.warning("TaskExecutor %s holds no results of the job: %s", location.resource_id, error)
                return []
        logger.warning("TaskExecutor %s did not answer in time; its results are produced again", location.resource_id)
        return []
