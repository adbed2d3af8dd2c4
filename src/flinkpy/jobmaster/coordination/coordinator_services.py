"""CoordinatorServices: what the coordinators of a job get of their JobMaster. Thread: JobMaster main thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from flinkpy._proto import jobmaster_pb2
from flinkpy.checkpoint.coordinator.events import BacklogChanged
from flinkpy.common.errors import FlinkError
from flinkpy.common.ids import ExecutionAttemptID, ExecutionVertexID, JobVertexID
from flinkpy.jobmaster.coordination.event_valve import AddressedEvent, EventValve
from flinkpy.jobmaster.scheduler.default_scheduler import DefaultScheduler
from flinkpy.jobmaster.scheduler.events import GlobalFailure
from flinkpy.jobmaster.task_manager_connection import TaskManagerConnection
from flinkpy.rpc.endpoint import OnDone, RpcEndpoint


class ServicesHost(Protocol):
    """What this needs of the JobMaster."""

    scheduler: DefaultScheduler

    def handle(self, event: GlobalFailure | BacklogChanged) -> None: ...

    def connection_of_attempt(self, attempt: ExecutionAttemptID) -> TaskManagerConnection | None: ...


class CoordinatorServices:
    """Is the CoordinatorHost of every coordinator."""

    def __init__(self, endpoint: RpcEndpoint, host: ServicesHost) -> None:
        self._endpoint = endpoint
        self._host = host
        #: What coordinators send goes through it.
        self.valve = EventValve(self._deliver)
        self.coordinator_store: dict[str, Any] = {}

    def deliver_event(self, job_vertex_id: JobVertexID, operator_id: str, subtask_index: int, payload: bytes) -> None:
        execution = self._host.scheduler.reachable_execution(ExecutionVertexID(job_vertex_id, subtask_index))
        if execution is not None:
            self.valve.send(AddressedEvent(execution.attempt_id, operator_id, payload))

    def fail_job_globally(self, error: FlinkError) -> None:
        self._host.handle(GlobalFailure(error))

    def set_backlog(self, operator_id: str, has_backlog: bool) -> None:
        self._host.handle(BacklogChanged(operator_id, has_backlog))

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
                )
            )
