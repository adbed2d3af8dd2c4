"""OperatorCoordinators: hosts the operator coordinators of a job, which are user code.

A coordinator runs on the main thread of the JobMaster. The OperatorCoordinatorHolder guards each call: an error fails
the job with the traceback of the user's code. Work that a coordinator started before it was reset or closed is ignored
when it completes.

Source: org.apache.flink.runtime.operators.coordination.OperatorCoordinatorHolder.
Thread: main thread, except `load_provider` and `load_providers`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import cloudpickle

from flinkpy._proto import job_pb2, jobmaster_pb2
from flinkpy.common.error_text import USER_ERRORS, describe, format_user_traceback
from flinkpy.common.errors import FlinkError, FunctionError, JobSubmissionError, UnsupportedOperationError, UserError
from flinkpy.common.ids import ExecutionVertexID, JobVertexID
from flinkpy.connector_api.coordinator import (
    AdoptingCoordinator,
    OperatorCoordinator,
    OperatorCoordinatorProvider,
    RecoverableCoordinator,
)
from flinkpy.connector_api.source_coordinator import SourceCoordinator
from flinkpy.jobmaster.coordinator_services import CoordinatorServices
from flinkpy.jobmaster.executiongraph.execution import Execution
from flinkpy.jobmaster.executiongraph.execution_graph import ExecutionGraph
from flinkpy.jobmaster.job_metrics import UNKNOWN, JobMetrics
from flinkpy.jobmaster.scheduler.task_reconciliation import RunningTask

logger = logging.getLogger(__name__)


def load_provider(operator: job_pb2.OperatorDescriptor) -> OperatorCoordinatorProvider:
    """Unpickles the user's coordinator provider. Blocks, because it imports the user's modules. Thread: any.

    Raises: FunctionError with the user's traceback.
    """
    try:
        return cloudpickle.loads(operator.coordinator_pickle)
    except USER_ERRORS as error:
        raise _user_error(f"the coordinator of operator {operator.name!r} cannot be loaded", error) from error


def _or_unknown(number: int | None) -> int:
    return UNKNOWN if number is None else number


class OperatorCoordinatorHolder:
    """Holds the coordinator of one operator, and is its CoordinatorContext.

    Raises at construction: FunctionError if the provider cannot create a coordinator.
    """

    def __init__(
        self,
        operator: job_pb2.OperatorDescriptor,
        job_vertex_id: JobVertexID,
        parallelism: int,
        provider: OperatorCoordinatorProvider,
        services: CoordinatorServices,
    ) -> None:
        self._name = operator.name
        self._operator_id = operator.operator_id
        self._parallelism = parallelism
        self._services = services
        self.job_vertex_id = job_vertex_id
        #: Incremented by each reset and by `close`. Work that was started in an earlier epoch is ignored.
        self._epoch = 0
        self._is_closed = False
        try:
            self._coordinator: OperatorCoordinator = provider.create(self)
        except USER_ERRORS as error:
            raise _user_error(f"the coordinator of operator {self._name!r} cannot be created", error) from error
        self._register_metrics(services.metrics)

    def _register_metrics(self, metrics: JobMetrics) -> None:
        coordinator = self._coordinator
        if isinstance(coordinator, SourceCoordinator):
            group = metrics.add_coordinator(str(self.job_vertex_id), self._operator_id, self._name)
            enumerator = group.add_group("coordinator").add_group("enumerator")
            # Any thread: a number that the enumerator keeps.
            enumerator.gauge("unassignedSplits", lambda: _or_unknown(coordinator.num_unassigned_splits))

    # Calls of the JobMaster

    def start(self) -> None:
        self._guarded(self._coordinator.start)

    def handle_event(self, subtask_index: int, attempt_number: int, payload: bytes) -> None:
        """Passes an event of a subtask to the coordinator. `payload` is the pickled event."""

        def handle() -> None:
            (event,) = _events([payload])
            self._coordinator.handle_event(subtask_index, attempt_number, event)

        self._guarded(handle)

    def handle_request(self, payload: bytes) -> bytes:
        """Answers a request of a client.

        Raises: UnsupportedOperationError after the end of the job; FunctionError if the coordinator raises.
        """
        if self._is_closed:
            raise UnsupportedOperationError(
                f"operator {self._name!r} does not answer requests any more: the job has ended"
            )
        try:
            return self._coordinator.handle_request(payload)
        except USER_ERRORS as error:
            raise _user_error(f"operator {self._name!r} could not answer the request", error) from error

    def subtask_ready(self, subtask_index: int) -> None:
        self._guarded(self._coordinator.subtask_ready, subtask_index)

    def subtask_reset(self, subtask_index: int, checkpoint_id: int | None) -> None:
        self._guarded(self._coordinator.subtask_reset, subtask_index, checkpoint_id)

    def reset(self, checkpoint_id: int | None, state: bytes | None) -> None:
        self._epoch += 1
        self._guarded(self._coordinator.reset_to_checkpoint, checkpoint_id, state)

    def checkpoint(self, checkpoint_id: int) -> bytes | None:
        """Returns the state of the coordinator.

        Raises: FunctionError if the coordinator raises. The error declines the checkpoint and does not fail the job.
        """
        if self._is_closed:
            raise UnsupportedOperationError(f"operator {self._name!r} takes no checkpoints any more: the job has ended")
        try:
            return self._coordinator.checkpoint(checkpoint_id)
        except USER_ERRORS as error:
            raise _user_error(f"operator {self._name!r} could not be checkpointed", error) from error

    def snapshot_for_recovery(self) -> bytes | None:
        """Returns the state for the next JobMaster. None if the coordinator has none: its subtasks run again there."""
        if self._is_closed or not isinstance(self._coordinator, RecoverableCoordinator):
            return None
        try:
            return self._coordinator.snapshot_for_recovery()
        except UnsupportedOperationError:
            return None
        except USER_ERRORS as error:  # the job can continue without the snapshot
            logger.warning("operator %r cannot be recovered in another JobMaster: %s", self._name, error)
            return None

    def restore_for_recovery(self, state: bytes) -> None:
        assert isinstance(self._coordinator, RecoverableCoordinator)
        self._guarded(self._coordinator.restore_for_recovery, state)

    def why_not_adopt(self, state: bytes | None, payloads: Mapping[int, list[bytes]]) -> str:
        """Returns why the coordinator cannot continue the subtasks of a lost JobMaster; empty if it can.

        Args:
            payloads: the events that each subtask got since the state.
        """
        if not isinstance(self._coordinator, AdoptingCoordinator):
            return f"the coordinator of operator {self._name!r} cannot continue tasks"
        try:
            events = {index: _events(received) for index, received in payloads.items()}
            reason = self._coordinator.why_not_adopt(state, events)
        except USER_ERRORS as error:
            reason = describe(error)
        return f"operator {self._name!r}: {reason}" if reason else ""

    def adopt(self, payloads: Mapping[int, list[bytes]]) -> None:
        assert isinstance(self._coordinator, AdoptingCoordinator)
        coordinator = self._coordinator
        self._guarded(lambda: coordinator.adopt({index: _events(received) for index, received in payloads.items()}))

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self._guarded(self._coordinator.notify_checkpoint_complete, checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        self._guarded(self._coordinator.notify_checkpoint_aborted, checkpoint_id)

    @property
    def is_source(self) -> bool:
        return isinstance(self._coordinator, SourceCoordinator)

    @property
    def split_progress(self) -> tuple[int, int] | None:
        """The number of splits of a source and of those not read to their end; None if it is not known."""
        if self._is_closed or not isinstance(self._coordinator, SourceCoordinator):
            return None
        try:
            return self._coordinator.split_progress
        except USER_ERRORS as error:  # an enumerator is user code, and a display must not fail a job
            logger.debug("operator %r cannot tell its splits: %s", self._name, error)
            return None

    def close(self) -> None:
        """Closes the coordinator. Idempotent. Raises what the coordinator raises."""
        if self._is_closed:
            return
        self._epoch += 1
        try:
            self._coordinator.close()
        finally:
            self._is_closed = True

    # CoordinatorContext

    @property
    def operator_id(self) -> str:
        return self._operator_id

    @property
    def parallelism(self) -> int:
        return self._parallelism

    @property
    def coordinator_store(self) -> dict[str, Any]:
        return self._services.coordinator_store

    def send_event(self, subtask_index: int, event: Any) -> None:
        payload = cloudpickle.dumps(event, protocol=5)
        is_kept = getattr(event, "is_kept", True)
        self._services.deliver_event(self.job_vertex_id, self._operator_id, subtask_index, payload, is_kept=is_kept)

    def set_is_processing_backlog(self, is_processing_backlog: bool) -> None:
        self._services.set_backlog(self._operator_id, is_processing_backlog)

    def fail_job(self, error: BaseException) -> None:
        self._services.fail_job_globally(_user_error(f"the coordinator of operator {self._name!r} failed", error))

    def schedule(self, delay_ms: int, action: Any) -> None:
        epoch = self._epoch
        self._services.schedule_action(delay_ms, lambda: self._guarded_if_current(epoch, action))

    def run_blocking(self, call: Any, on_done: Any) -> None:
        epoch = self._epoch
        self._services.run_in_io_thread(
            call, lambda result, error: self._guarded_if_current(epoch, on_done, result, error)
        )

    def _guarded_if_current(self, epoch: int, call: Callable[..., None], *args: Any) -> None:
        if epoch == self._epoch:
            self._guarded(call, *args)

    def _guarded(self, call: Callable[..., None], *args: Any) -> None:
        if self._is_closed:
            return
        try:
            call(*args)
        except USER_ERRORS as error:  # an error of user code fails the job, not the JobMaster
            self.fail_job(error)


def _events(payloads: Iterable[bytes]) -> list[Any]:
    return [cloudpickle.loads(payload) for payload in payloads]


def _user_error(message: str, error: BaseException) -> FlinkError:
    if isinstance(error, FlinkError):
        return error
    return FunctionError(
        f"{message}: {describe(error)}",
        remote_traceback=format_user_traceback(error),
    )


def load_providers(job_graph: job_pb2.JobGraph) -> dict[str, OperatorCoordinatorProvider]:
    """Unpickles the coordinator providers of all operators. Returns them by operator id. Blocks. Thread: any.

    Raises: FunctionError with the user's traceback.
    """
    return {
        operator.operator_id: load_provider(operator)
        for vertex in job_graph.vertices
        for operator in vertex.chain
        if operator.coordinator_pickle
    }


def _payloads_for(holder: OperatorCoordinatorHolder, tasks: Iterable[RunningTask]) -> dict[int, list[bytes]]:
    """Returns the events of the operator that each subtask got."""
    return {
        task.attempt_id.vertex.subtask_index: [
            payload for operator_id, payload in task.events if operator_id == holder.operator_id
        ]
        for task in tasks
    }


class OperatorCoordinators:
    """The coordinators of all operators of a job."""

    def __init__(self) -> None:
        self._holders: dict[str, OperatorCoordinatorHolder] = {}
        self._by_vertex: dict[JobVertexID, list[OperatorCoordinatorHolder]] = {}
        self._started: set[str] = set()

    def create(
        self, graph: ExecutionGraph, providers: Mapping[str, OperatorCoordinatorProvider], services: CoordinatorServices
    ) -> None:
        """Creates the missing coordinators of all vertices with a decided parallelism. `start` starts them.

        Raises: FunctionError if a provider raises; JobSubmissionError if two operators have the same id.
        """
        for vertex in graph.job_vertices.values():
            if vertex.is_undecided or vertex.id in self._by_vertex:
                continue
            for operator in vertex.job_vertex.chain:
                provider = providers.get(operator.operator_id)
                if provider is None:
                    continue
                if operator.operator_id in self._holders:
                    raise JobSubmissionError(f"operator {operator.name!r} ({operator.operator_id}) is defined twice")
                holder = OperatorCoordinatorHolder(operator, vertex.id, vertex.parallelism, provider, services)
                self._holders[operator.operator_id] = holder
                self._by_vertex.setdefault(vertex.id, []).append(holder)

    def discard(self, job_vertex_ids: Iterable[JobVertexID]) -> None:
        """Closes the coordinators of these vertices, so that `create` creates new ones."""
        for vertex_id in job_vertex_ids:
            for holder in self._by_vertex.pop(vertex_id, ()):
                self._close(holder)
                del self._holders[holder.operator_id]
                self._started.discard(holder.operator_id)

    def start(self) -> None:
        """Starts all coordinators that have not been started."""
        for holder in self._holders.values():
            if holder.operator_id not in self._started:
                self._started.add(holder.operator_id)
                holder.start()

    def subtask_ready(self, vertex_id: ExecutionVertexID) -> None:
        for holder in self._by_vertex.get(vertex_id.job_vertex_id, ()):
            holder.subtask_ready(vertex_id.subtask_index)

    def subtask_reset(self, vertex_id: ExecutionVertexID, checkpoint_id: int | None) -> None:
        for holder in self._by_vertex.get(vertex_id.job_vertex_id, ()):
            holder.subtask_reset(vertex_id.subtask_index, checkpoint_id)

    def reset(self, job_vertex_id: JobVertexID, checkpoint_id: int | None, states: Mapping[str, bytes]) -> None:
        """Resets the coordinators of a vertex. `states`: by operator id; an operator without an entry had no state."""
        for holder in self._by_vertex.get(job_vertex_id, ()):
            holder.reset(checkpoint_id, states.get(holder.operator_id))

    def snapshot_for_recovery(self, job_vertex_id: JobVertexID) -> dict[str, bytes] | None:
        """Returns the states of all coordinators of the vertex by operator id. None if one cannot be recovered."""
        states = {}
        for holder in self._by_vertex.get(job_vertex_id, ()):
            state = holder.snapshot_for_recovery()
            if state is None:
                return None
            states[holder.operator_id] = state
        return states

    def restore_for_recovery(self, job_vertex_id: JobVertexID, states: Mapping[str, bytes]) -> None:
        """Restores coordinators of a vertex from an earlier JobMaster. Call it before `start`."""
        for holder in self._by_vertex.get(job_vertex_id, ()):
            if holder.operator_id in states:
                holder.restore_for_recovery(states[holder.operator_id])

    def why_not_adopt(self, tasks: Sequence[RunningTask], states: Mapping[str, bytes]) -> str:
        """Returns why the coordinators cannot continue these tasks of a lost JobMaster; empty if they can.

        Args:
            states: the states that they would restore, by operator id.
        """
        for vertex_id, holders in self._by_vertex.items():
            for holder in holders:
                payloads = _payloads_for(holder, (task for task in tasks if task.job_vertex_id == vertex_id))
                reason = holder.why_not_adopt(states.get(holder.operator_id), payloads)
                if reason:
                    return reason
        return ""

    def adopt(self, job_vertex_id: JobVertexID, tasks: Sequence[RunningTask]) -> None:
        """Continues the subtasks of a vertex that a lost JobMaster has started. Call it before `start`."""
        for holder in self._by_vertex.get(job_vertex_id, ()):
            holder.adopt(_payloads_for(holder, tasks))

    def checkpoint(self, checkpoint_id: int) -> dict[str, bytes | None]:
        """Returns the current states of all coordinators by operator id.

        Raises: FunctionError if a coordinator raises.
        """
        return {operator_id: holder.checkpoint(checkpoint_id) for operator_id, holder in self._holders.items()}

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        for holder in self._holders.values():
            holder.notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        for holder in self._holders.values():
            holder.notify_checkpoint_aborted(checkpoint_id)

    def split_progress(self) -> dict[JobVertexID, tuple[int, int]]:
        """Returns the numbers of splits, and of those not read, of the vertices whose sources all know them."""
        found = {}
        for vertex_id, holders in self._by_vertex.items():
            counts = [holder.split_progress for holder in holders if holder.is_source]
            if counts and None not in counts:
                found[vertex_id] = (sum(one[0] for one in counts if one), sum(one[1] for one in counts if one))
        return found

    def receive(self, event: jobmaster_pb2.OperatorEvent, execution: Execution | None) -> None:
        """Passes an event of a task to its coordinator. Drops repetitions, and events of replaced executions (None)."""
        holder = self._holders.get(event.operator_id)
        if execution is None or not execution.is_reachable or holder is None:
            return
        if execution.received_events.is_new(event.sequence_number):
            holder.handle_event(event.subtask_index, execution.attempt_id.attempt_number, event.payload_pickle)

    def handle_request(self, operator_id: str, payload: bytes) -> bytes:
        """Answers a request of a client. Raises: UserError if the job has no such operator with a coordinator."""
        holder = self._holders.get(operator_id)
        if holder is None:
            raise UserError(f"this job has no operator {operator_id} that answers requests")
        return holder.handle_request(payload)

    def close(self) -> None:
        """Closes all coordinators. Logs their errors, because no task depends on them any more. Idempotent."""
        for holder in self._holders.values():
            self._close(holder)

    @staticmethod
    def _close(holder: OperatorCoordinatorHolder) -> None:
        try:
            holder.close()
        except USER_ERRORS:
            logger.exception("closing the coordinator of operator %s failed", holder.operator_id)
