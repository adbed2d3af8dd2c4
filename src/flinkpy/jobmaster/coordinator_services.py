"""CoordinatorServices: the services of the JobMaster for operator coordinators.

Source: org.apache.flink.runtime.operators.coordination.{OperatorCoordinatorHolder,SubtaskGatewayImpl}.
Thread: JobMaster main thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ParamSpec, Protocol

from flinkpy._proto import jobmaster_pb2
from flinkpy.checkpoint.coordinator.checkpoint_coordinator import CheckpointCoordinator, CoordinatorMethod
from flinkpy.common.errors import FlinkError
from flinkpy.common.ids import ExecutionAttemptID, ExecutionVertexID, JobVertexID
from flinkpy.jobmaster.job_metrics import JobMetrics
from flinkpy.jobmaster.scheduler.default_scheduler import DefaultScheduler
from flinkpy.jobmaster.scheduler.events import GlobalFailure
from flinkpy.jobmaster.task_manager_connection import TaskManagerConnection
from flinkpy.rpc.endpoint import OnDone, RpcEndpoint

P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class AddressedEvent:
    """An event for one attempt: the one that was reachable when the coordinator sent it. No other may receive it."""

    attempt: ExecutionAttemptID
    operator_id: str
    payload: bytes
    #: False if another JobMaster that continues the task need not know of the event.
    is_kept: bool = True


class EventValve:
    """Holds back the events of coordinators while a checkpoint is being triggered.

    So the barrier divides the events of a coordinator in the same way as the coordinator's own state: events sent
    before `coordinator.checkpoint` arrive at the task before the trigger, and later ones arrive behind the barrier.

    Invariant: the events of one coordinator leave in the order in which they were sent.
    """

    def __init__(self, deliver: Callable[[AddressedEvent], None]) -> None:
        self._deliver = deliver
        self._held: deque[AddressedEvent] = deque()
        #: The checkpoint that is being triggered; None: the valve is open.
        self._closed_for: int | None = None

    @property
    def is_open(self) -> bool:
        return self._closed_for is None

    def send(self, event: AddressedEvent) -> None:
        if self._closed_for is None and not self._held:
            self._deliver(event)
        else:
            self._held.append(event)

    def close(self, checkpoint_id: int) -> None:
        """Closes the valve for a checkpoint. A newer checkpoint replaces an older one."""
        self._closed_for = checkpoint_id

    def open(self, checkpoint_id: int) -> None:
        """Opens the valve and sends the held events, unless another checkpoint has closed it since."""
        if self._closed_for != checkpoint_id:
            return
        self._closed_for = None
        while self._held and self._closed_for is None:
            self._deliver(self._held.popleft())


class ServicesHost(Protocol):
    """The part of the JobMaster that CoordinatorServices uses."""

    scheduler: DefaultScheduler

    def handle(self, event: GlobalFailure) -> None: ...

    @property
    def metrics(self) -> JobMetrics: ...

    def coordinate(self, method: CoordinatorMethod[P], *args: P.args, **kwargs: P.kwargs) -> None: ...

    def connection_of_attempt(self, attempt: ExecutionAttemptID) -> TaskManagerConnection | None: ...


class CoordinatorServices:
    """The services for all coordinators of a job."""

    def __init__(self, endpoint: RpcEndpoint, host: ServicesHost) -> None:
        self._endpoint = endpoint
        self._host = host
        #: All events of coordinators pass through it.
        self.valve = EventValve(self._deliver)
        #: Shared by all coordinators of the job.
        self.coordinator_store: dict[str, Any] = {}

    @property
    def metrics(self) -> JobMetrics:
        """The metrics of the job and of its coordinators."""
        return self._host.metrics

    def deliver_event(
        self, job_vertex_id: JobVertexID, operator_id: str, subtask_index: int, payload: bytes, *, is_kept: bool = True
    ) -> None:
        """Sends an event to the running attempt of the subtask. Drops it if there is none."""
        execution = self._host.scheduler.reachable_execution(ExecutionVertexID(job_vertex_id, subtask_index))
        if execution is not None:
            self.valve.send(AddressedEvent(execution.attempt_id, operator_id, payload, is_kept))

    def fail_job_globally(self, error: FlinkError) -> None:
        self._host.handle(GlobalFailure(error))

    def set_backlog(self, operator_id: str, has_backlog: bool) -> None:
        self._host.coordinate(CheckpointCoordinator.backlog_changed, operator_id, has_backlog)

    def schedule_action(self, delay_ms: int, action: Callable[[], None]) -> None:
        self._endpoint.schedule(delay_ms, action)

    def run_in_io_thread(self, call: Callable[[], Any], on_done: OnDone) -> None:
        self._endpoint.run_blocking(call, on_done, "coordinator I/O")

    def _deliver(self, event: AddressedEvent) -> None:
        execution = self._host.scheduler.graph.find_execution(event.attempt)
        connection = self._host.connection_of_attempt(event.attempt)
        if execution is not None and execution.is_reachable and connection is not None:
            connection.send_operator_event(
                jobmaster_pb2.OperatorEvent(
                    operator_id=event.operator_id,
                    execution_attempt_id=str(event.attempt),
                    subtask_index=event.attempt.vertex.subtask_index,
                    payload_pickle=event.payload,
                    sequence_number=execution.sent_events.next_number(),
                    is_kept=event.is_kept,
                )
            )
