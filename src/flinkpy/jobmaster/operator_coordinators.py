"""OperatorCoordinators: all coordinators of a job, by operator and by vertex. Thread: main thread."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import cloudpickle

from flinkpy._proto import job_pb2, jobmaster_pb2
from flinkpy.common.error_text import USER_ERRORS, describe, format_user_traceback
from flinkpy.common.errors import FlinkError, FunctionError, JobSubmissionError, UnsupportedOperationError, UserError
from flinkpy.common.ids import ExecutionVertexID, JobVertexID
from flinkpy.connector_api.coordinator import (
    OperatorCoordinator,
    OperatorCoordinatorProvider,
    RecoverableCoordinator,
)
from flinkpy.jobmaster.executiongraph.execution import Execution
from flinkpy.jobmaster.executiongraph.execution_graph import ExecutionGraph
from flinkpy.rpc.endpoint import OnDone

logger = logging.getLogger(__name__)


class CoordinatorHost(Protocol):
    """What the holder needs of the JobMaster."""

    #: Shared by all coordinators of the job.
    coordinator_store: dict[str, Any]

    def deliver_event(self, job_vertex_id: JobVertexID, operator_id: str, subtask_index: int, payload: bytes) -> None:
        """To the running attempt; dropped where there is none."""
        ...

    def fail_job_globally(self, error: FlinkError) -> None: ...

    def set_backlog(self, operator_id: str, has_backlog: bool) -> None: ...

    def schedule_action(self, delay_ms: int, action: Callable[[], None]) -> None: ...

    def run_in_io_thread(self, call: Callable[[], Any], on_done: OnDone) -> None: ...


def load_provider(operator: job_pb2.OperatorDescriptor) -> OperatorCoordinatorProvider:
    """Unpickle the user's coordinator provider. Blocking: imports the user's modules. Thread: any.

    Raises: FunctionError with the user's traceback.
    """
    try:
        return cloudpickle.loads(operator.coordinator_pickle)
    except USER_ERRORS as error:
        raise _user_error(f"the coordinator of operator {operator.name!r} cannot be loaded", error) from error


class OperatorCoordinatorHolder:
    """Is the CoordinatorContext of its coordinator.

    Raises at construction: FunctionError where the provider does not make a coordinator.
    """

    def __init__(
        self,
        operator: job_pb2.OperatorDescriptor,
        job_vertex_id: JobVertexID,
        parallelism: int,
        provider: OperatorCoordinatorProvider,
        host: CoordinatorHost,
    ) -> None:
        self._name = operator.name
        self._operator_id = operator.operator_id
        self._parallelism = parallelism
        self._host = host
        self.job_vertex_id = job_vertex_id
        #: Raised by each reset and by the close; work begun under another number is void.
        self._epoch = 0
        self._is_closed = False
        try:
            self._coordinator: OperatorCoordinator = provider.create(self)
        except USER_ERRORS as error:
            raise _user_error(f"the coordinator of operator {self._name!r} cannot be created", error) from error

    # Told by the JobMaster

    def start(self) -> None:
        self._guarded(self._coordinator.start)

    def handle_event(self, subtask_index: int, attempt_number: int, payload: bytes) -> None:
        """An event of the task half, as it came over the wire."""

        def handle() -> None:
            self._coordinator.handle_event(subtask_index, attempt_number, cloudpickle.loads(payload))

        self._guarded(handle)

    def handle_request(self, payload: bytes) -> bytes:
        """A client's question. Raises: UnsupportedOperationError after the end; what the coordinator raised, typed."""
        if self._is_closed:
            raise UnsupportedOperationError(f"operator {self._name!r} does not answer any more: the job is over")
        try:
            return self._coordinator.handle_request(payload)
        except USER_ERRORS as error:
            raise _user_error(f"operator {self._name!r} could not answer", error) from error

    def subtask_ready(self, subtask_index: int) -> None:
        self._guarded(self._coordinator.subtask_ready, subtask_index)

    def subtask_reset(self, subtask_index: int, checkpoint_id: int | None) -> None:
        self._guarded(self._coordinator.subtask_reset, subtask_index, checkpoint_id)

    def reset(self, checkpoint_id: int | None, state: bytes | None) -> None:
        self._epoch += 1
        self._guarded(self._coordinator.reset_to_checkpoint, checkpoint_id, state)

    def checkpoint(self, checkpoint_id: int) -> bytes | None:
        """Raises: what the coordinator raised, typed; it declines the checkpoint and does not fail the job."""
        if self._is_closed:
            raise UnsupportedOperationError(f"operator {self._name!r} takes no checkpoint any more: the job is over")
        try:
            return self._coordinator.checkpoint(checkpoint_id)
        except USER_ERRORS as error:
            raise _user_error(f"operator {self._name!r} could not be checkpointed", error) from error

    def snapshot_for_recovery(self) -> bytes | None:
        """None: it cannot go on in another JobMaster; its subtasks run again there."""
        if self._is_closed or not isinstance(self._coordinator, RecoverableCoordinator):
            return None
        try:
            return self._coordinator.snapshot_for_recovery()
        except UnsupportedOperationError:
            return None
        except USER_ERRORS as error:  # the job can do without the snapshot
            logger.warning("operator %r cannot be recovered in another JobMaster: %s", self._name, error)
            return None

    def restore_for_recovery(self, state: bytes) -> None:
        assert isinstance(self._coordinator, RecoverableCoordinator)
        self._guarded(self._coordinator.restore_for_recovery, state)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self._guarded(self._coordinator.notify_checkpoint_complete, checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        self._guarded(self._coordinator.notify_checkpoint_aborted, checkpoint_id)

    def close(self) -> None:
        """Idempotent. An error of the coordinator is not worth failing a job that is over."""
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
        return self._host.coordinator_store

    def send_event(self, subtask_index: int, event: Any) -> None:
        self._host.deliver_event(
            self.job_vertex_id, self._operator_id, subtask_index, cloudpickle.dumps(event, protocol=5)
        )

    def set_is_processing_backlog(self, is_processing_backlog: bool) -> None:
        self._host.set_backlog(self._operator_id, is_processing_backlog)

    def fail_job(self, error: BaseException) -> None:
        self._host.fail_job_globally(_user_error(f"the coordinator of operator {self._name!r} failed", error))

    def schedule(self, delay_ms: int, action: Any) -> None:
        epoch = self._epoch
        self._host.schedule_action(delay_ms, lambda: self._guarded_if_current(epoch, action))

    def run_blocking(self, call: Any, on_done: Any) -> None:
        epoch = self._epoch
        self._host.run_in_io_thread(call, lambda result, error: self._guarded_if_current(epoch, on_done, result, error))

    def _guarded_if_current(self, epoch: int, call: Callable[..., None], *args: Any) -> None:
        if epoch == self._epoch:
            self._guarded(call, *args)

    def _guarded(self, call: Callable[..., None], *args: Any) -> None:
        if self._is_closed:
            return
        try:
            call(*args)
        except USER_ERRORS as error:  # user code; it fails the job, not the JobMaster
            self.fail_job(error)


def _user_error(message: str, error: BaseException) -> FlinkError:
    if isinstance(error, FlinkError):
        return error
    return FunctionError(
        f"{message}: {describe(error)}",
        remote_traceback=format_user_traceback(error),
    )


def load_providers(job_graph: job_pb2.JobGraph) -> dict[str, OperatorCoordinatorProvider]:
    """Unpickle the providers of all operators that have one, by operator id. Blocking. Thread: any.

    Raises: FunctionError with the user's traceback.
    """
    return {
        operator.operator_id: load_provider(operator)
        for vertex in job_graph.vertices
        for operator in vertex.chain
        if operator.coordinator_pickle
    }


class OperatorCoordinators:
    """Empty until `create`."""

    def __init__(self) -> None:
        self._holders: dict[str, OperatorCoordinatorHolder] = {}
        self._by_vertex: dict[JobVertexID, list[OperatorCoordinatorHolder]] = {}
        self._started: set[str] = set()

    def create(
        self, graph: ExecutionGraph, providers: Mapping[str, OperatorCoordinatorProvider], host: CoordinatorHost
    ) -> None:
        """Make the coordinators of the vertices that know their parallelism and have none; they do nothing before
        `start`.

        Raises: FunctionError (a provider raised), JobSubmissionError (two operators with one id).
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
                holder = OperatorCoordinatorHolder(operator, vertex.id, vertex.parallelism, provider, host)
                self._holders[operator.operator_id] = holder
                self._by_vertex.setdefault(vertex.id, []).append(holder)

    def start(self) -> None:
        """All that have not been started."""
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
        """`states`: by operator id; one that is missing had none."""
        for holder in self._by_vertex.get(job_vertex_id, ()):
            holder.reset(checkpoint_id, states.get(holder.operator_id))

    def snapshot_for_recovery(self, job_vertex_id: JobVertexID) -> dict[str, bytes] | None:
        """Of all coordinators of the vertex; None where one has none."""
        states = {}
        for holder in self._by_vertex.get(job_vertex_id, ()):
            state = holder.snapshot_for_recovery()
            if state is None:
                return None
            states[holder.operator_id] = state
        return states

    def restore_for_recovery(self, job_vertex_id: JobVertexID, states: Mapping[str, bytes]) -> None:
        """Before `start`."""
        for holder in self._by_vertex.get(job_vertex_id, ()):
            if holder.operator_id in states:
                holder.restore_for_recovery(states[holder.operator_id])

    def checkpoint(self, checkpoint_id: int) -> dict[str, bytes | None]:
        """The state of each as of now. Raises: FunctionError, or what else a coordinator raised, typed."""
        return {operator_id: holder.checkpoint(checkpoint_id) for operator_id, holder in self._holders.items()}

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        for holder in self._holders.values():
            holder.notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        for holder in self._holders.values():
            holder.notify_checkpoint_aborted(checkpoint_id)

    def receive(self, event: jobmaster_pb2.OperatorEvent, execution: Execution | None) -> None:
        """An event of a task half; dropped where its execution (None) is history, or it came before."""
        holder = self._holders.get(event.operator_id)
        if execution is None or not execution.is_reachable or holder is None:
            return
        if execution.received_events.is_new(event.sequence_number):
            holder.handle_event(event.subtask_index, execution.attempt_id.attempt_number, event.payload_pickle)

    def handle_request(self, operator_id: str, payload: bytes) -> bytes:
        """Raises: UserError where no such operator answers requests."""
        holder = self._holders.get(operator_id)
        if holder is None:
            raise UserError(f"no operator {operator_id} of this job answers requests")
        return holder.handle_request(payload)

    def close(self) -> None:
        """Idempotent."""
        for holder in self._holders.values():
            try:
                holder.close()
            except USER_ERRORS:
                logger.exception("closing the coordinator of operator %s failed", holder.operator_id)
