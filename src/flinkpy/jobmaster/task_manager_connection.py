"""TaskManagerConnection: the JobMaster's connection to one registered TaskExecutor.

It makes the calls and reports their outcomes to a listener. The TaskExecutor is lost if it cannot be reached, if it
does not know this JobMaster, or if the watched connection breaks.

Thread: main thread.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from flinkpy._proto import (
    checkpoint_pb2,
    jobmaster_pb2,
    metrics_pb2,
    resourcemanager_pb2,
    taskexecutor_pb2,
    thread_samples_pb2,
)
from flinkpy.common.errors import (
    FlinkError,
    RpcTimeoutError,
    RpcUnavailableError,
    TaskManagerLostError,
    TaskSubmissionError,
    UserError,
)
from flinkpy.common.ids import ExecutionAttemptID, ResourceID
from flinkpy.jobmaster.conversions import as_flink_error
from flinkpy.jobmaster.slotpool.physical_slot import PhysicalSlot, TaskManagerLocation
from flinkpy.rpc.endpoint import OnDone, RpcEndpoint
from flinkpy.rpc.error_codec import error_from_proto, error_to_proto
from flinkpy.rpc.peer_connection import PeerConnection, PeerOptions, Peers

logger = logging.getLogger(__name__)

#: The maximum number of operator events that wait for one TaskExecutor. Only a broken coordinator gets this far ahead.
MAX_WAITING_EVENTS = 65_536
#: The maximum size of one call: large enough to be efficient, and far below the maximum size of a message.
MAX_EVENTS_PER_CALL = 512
MAX_EVENT_BYTES_PER_CALL = 4 * 1024 * 1024
#: The pause before a failed call is repeated that must be answered: to cancel tasks, to release partitions, and to
#: notify of checkpoints. It is repeated until the TaskExecutor is lost.
RETRY_DELAY_MS = 500
#: How long metrics wait for a TaskExecutor. One that hangs must not keep those of the others from viewers.
METRICS_TIMEOUT_S = 3.0
#: How much longer than planned a TaskExecutor may take for thread samples. It takes fewer if they cost too much.
SAMPLING_STRETCH = 1.5

#: The maximum number of aborts that wait for a TaskExecutor. The oldest is dropped first: a task can do without it.
MAX_WAITING_ABORTS = 32

_CONFIRM = "confirm_checkpoints"
_ABORT = "abort_checkpoints"

Send = Callable[[str, checkpoint_pb2.CheckpointNotification], None]


class CheckpointNotifications:
    """Sends notifications about the ends of checkpoints to one TaskExecutor, in order, one call at a time.

    Each `send(method, notification)` is followed by a call to `answered` or `repeat`. A confirmation is dropped only if
    a newer one replaces it, because a confirmation includes all earlier ones. Pure.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self._waiting: deque[tuple[str, checkpoint_pb2.CheckpointNotification]] = deque()
        self._in_flight: tuple[str, checkpoint_pb2.CheckpointNotification] | None = None

    def confirm(self, notification: checkpoint_pb2.CheckpointNotification) -> None:
        # A newer confirmation does not name tasks that have been replaced since. They do not need it.
        self._waiting = deque(waiting for waiting in self._waiting if waiting[0] != _CONFIRM)
        self._waiting.append((_CONFIRM, notification))
        self._send_next()

    def abort(self, notification: checkpoint_pb2.CheckpointNotification) -> None:
        aborts = [waiting for waiting in self._waiting if waiting[0] == _ABORT]
        if len(aborts) >= MAX_WAITING_ABORTS:
            self._waiting.remove(aborts[0])
        self._waiting.append((_ABORT, notification))
        self._send_next()

    def answered(self) -> None:
        """Handles the answer of the TaskExecutor, positive or not."""
        self._in_flight = None
        self._send_next()

    def repeat(self) -> None:
        """Sends the current notification again, because it may not have arrived."""
        if self._in_flight is not None:
            self._waiting.appendleft(self._in_flight)
            self._in_flight = None
        self._send_next()

    def clear(self) -> None:
        self._waiting.clear()
        self._in_flight = None

    def _send_next(self) -> None:
        if self._in_flight is None and self._waiting:
            self._in_flight = self._waiting.popleft()
            self._send(*self._in_flight)


class TaskManagerListener(Protocol):
    def on_tasks_submitted(
        self,
        attempts: tuple[ExecutionAttemptID, ...],
        rejections: tuple[tuple[ExecutionAttemptID, FlinkError], ...],
    ) -> None: ...

    def on_operator_events_lost(self, attempts: tuple[ExecutionAttemptID, ...], cause: FlinkError) -> None: ...

    def on_heartbeat(self, heartbeat: jobmaster_pb2.TaskManagerToJobMasterHeartbeat) -> None: ...

    def allocations_of(self, resource_id: ResourceID) -> list[str]:
        """Returns the slots that the job holds there."""
        ...

    def on_task_manager_lost(self, connection: TaskManagerConnection, cause: FlinkError, reason: str) -> None: ...


class TaskManagerConnection(PeerConnection):
    """The connection to one TaskExecutor. Reports its loss at most once, and nothing after `close`."""

    def __init__(
        self,
        endpoint: RpcEndpoint,
        peers: Peers,
        listener: TaskManagerListener,
        options: PeerOptions,
        location: TaskManagerLocation,
        *,
        job_id: str,
        job_master_id: str,
    ) -> None:
        super().__init__(
            endpoint,
            peers,
            options,
            service="TaskExecutor",
            name=str(location.resource_id),
            address=location.address,
            fencing_token=job_master_id,
        )
        self.location = location
        self._listener = listener
        self._job_id = job_id
        self._timeout_s = options.rpc_timeout_s
        self._waiting_events: deque[jobmaster_pb2.OperatorEvent] = deque()
        self._is_sending_events = False
        #: The number of events accepted from coordinators so far, and the number of those whose outcome is known.
        self._num_events_taken = 0
        self._num_events_settled = 0
        #: Actions that wait until the given number of events is settled.
        self._waiting_for_events: deque[tuple[int, Callable[[], None]]] = deque()
        #: The callbacks of trigger calls that have not been answered, by checkpoint id.
        self._open_triggers: dict[int, Callable[[FlinkError | None], None]] = {}
        self._notifications = CheckpointNotifications(self._send_notification)
        self.peer_registered()

    def submit_tasks(
        self, request: taskexecutor_pb2.SubmitTasksRequest, attempts: tuple[ExecutionAttemptID, ...]
    ) -> None:
        """Deploys tasks. The listener gets `on_tasks_submitted` or `on_task_manager_lost`."""

        def done(response: Any, error: BaseException | None) -> None:
            if error is None:
                rejections = tuple(
                    (ExecutionAttemptID.parse(rejection.execution_attempt_id), _rejection_error(rejection))
                    for rejection in response.rejections
                )
            else:
                cause = as_flink_error(error)
                rejections = tuple((attempt, cause) for attempt in attempts)
            self._listener.on_tasks_submitted(attempts, rejections)

        self.call(self._gateway.submit_tasks(request, timeout_s=self._timeout_s), done, "submit tasks to")

    def cancel_tasks(self, attempts: tuple[ExecutionAttemptID, ...]) -> None:
        """Cancels tasks. Repeats the call until it is answered. The ends of the tasks arrive as state updates."""
        request = taskexecutor_pb2.CancelTasksRequest(
            job_id=self._job_id, execution_attempt_ids=[str(attempt) for attempt in attempts]
        )
        self.call_until_answered(self._gateway.cancel_tasks, request, "cancel tasks at", retry_delay_ms=RETRY_DELAY_MS)

    def free_slot(self, slot: PhysicalSlot, cause: FlinkError) -> None:
        """Returns the slot. If the call fails, the next heartbeat tells the TaskExecutor."""
        request = taskexecutor_pb2.FreeSlotRequest(
            allocation_id=str(slot.allocation_id), job_id=self._job_id, cause=error_to_proto(cause)
        )
        self.call(self._gateway.free_slot(request, timeout_s=self._timeout_s), self._log_error, "free a slot at")

    def release_partitions(self, partition_ids: tuple[str, ...]) -> None:
        """Releases results. Repeats the call until it is answered, because results occupy disk space."""
        request = taskexecutor_pb2.ReleasePartitionsRequest(job_id=self._job_id, result_partition_ids=partition_ids)
        release = self._gateway.release_partitions
        self.call_until_answered(release, request, "release partitions at", retry_delay_ms=RETRY_DELAY_MS)

    def send_operator_event(self, event: jobmaster_pb2.OperatorEvent) -> None:
        """Sends an event to a task, in the order of the calls. Reports lost events to `on_operator_events_lost`."""
        if self.is_closed:
            return
        if len(self._waiting_events) >= MAX_WAITING_EVENTS:
            cause = TaskSubmissionError(
                f"more than {MAX_WAITING_EVENTS} operator events wait for TaskExecutor {self.location.resource_id}"
            )
            self._listener.on_operator_events_lost((ExecutionAttemptID.parse(event.execution_attempt_id),), cause)
            return
        self._waiting_events.append(event)
        self._num_events_taken += 1
        self._send_waiting_events()

    def when_events_settled(self, action: Callable[[], None]) -> None:
        """Calls `action()` once all events accepted so far have arrived or are lost. May call it at once."""
        if self.is_closed or self._num_events_settled >= self._num_events_taken:
            action()
        else:
            self._waiting_for_events.append((self._num_events_taken, action))

    # Checkpoints

    def trigger_checkpoint(
        self, request: checkpoint_pb2.TriggerCheckpointsRequest, on_answered: Callable[[FlinkError | None], None]
    ) -> None:
        """Triggers a checkpoint at tasks of this TaskExecutor.

        `on_answered(None)` means that the mailbox of each task has the trigger. An error means that this is unknown.
        """
        self._open_triggers[request.checkpoint_id] = on_answered

        def done(_: Any, error: BaseException | None) -> None:
            answered = self._open_triggers.pop(request.checkpoint_id, None)
            if answered is not None:
                answered(None if error is None else as_flink_error(error))

        self.call(self._gateway.trigger_checkpoints(request, timeout_s=self._timeout_s), done, "trigger tasks of")

    def confirm_checkpoint(self, notification: checkpoint_pb2.CheckpointNotification) -> None:
        """Confirms a checkpoint. Repeats the call until it is answered or the TaskExecutor is lost."""
        self._notifications.confirm(notification)

    def abort_checkpoint(self, notification: checkpoint_pb2.CheckpointNotification) -> None:
        """Aborts a checkpoint.

        Repeats the call until it is answered, the TaskExecutor is lost, or too many aborts wait.
        """
        self._notifications.abort(notification)

    def _send_notification(self, method: str, notification: checkpoint_pb2.CheckpointNotification) -> None:
        def done(_: Any, error: BaseException | None) -> None:
            if error is None or not isinstance(error, RpcTimeoutError):
                self._log_error(None, error)
                self._notifications.answered()
            else:
                self._endpoint.schedule(RETRY_DELAY_MS, retry)

        def retry() -> None:
            if not self.is_closed:
                self._notifications.repeat()

        call = getattr(self._gateway, method)(notification, timeout_s=self._timeout_s)
        self.call(call, done, f"{method} at")

    async def request_metrics(self, request: metrics_pb2.MetricsRequest) -> metrics_pb2.MetricsDump:
        """Returns the metrics of the TaskExecutor. Empty if it does not answer."""
        try:
            timeout_s = min(self._timeout_s, METRICS_TIMEOUT_S)
            dump: metrics_pb2.MetricsDump = await self._gateway.request_metrics(request, timeout_s=timeout_s)
            return dump
        except FlinkError as error:
            logger.debug("requesting the metrics of %s failed: %s", self.location.resource_id, error)
            return metrics_pb2.MetricsDump()

    async def request_thread_samples(
        self, request: thread_samples_pb2.ThreadSamplesRequest
    ) -> thread_samples_pb2.ThreadSamples | None:
        """Returns what the TaskExecutor has sampled. None if it does not answer, or cannot sample now.

        Raises: UserError for a request that no TaskExecutor accepts.
        """
        duration_s = request.num_samples * request.delay_ms / 1000 * SAMPLING_STRETCH
        try:
            samples: thread_samples_pb2.ThreadSamples = await self._gateway.request_thread_samples(
                request, timeout_s=duration_s + METRICS_TIMEOUT_S
            )
            return samples
        except UserError:
            raise
        except FlinkError as error:
            logger.info("TaskExecutor %s returned no thread samples: %s", self.location.resource_id, error)
            return None

    async def disconnect(self, reason: str) -> None:
        """Tells the TaskExecutor that the job does not need it any more. Best effort."""
        request = resourcemanager_pb2.DisconnectRequest(job_id=self._job_id, reason=reason)
        try:
            await self._gateway.disconnect_job_master(request, timeout_s=self._timeout_s)
        except FlinkError as error:
            logger.debug("disconnecting from %s failed: %s", self.location.resource_id, error)

    def close(self) -> None:
        super().close()
        self._waiting_events.clear()
        self._notifications.clear()

    # ---- PeerConnection

    async def _send_heartbeat(self) -> Any:
        report = taskexecutor_pb2.AllocatedSlotReport(
            job_id=self._job_id, allocation_ids=self._listener.allocations_of(self.location.resource_id)
        )
        return await self._gateway.heartbeat_from_job_master(report, timeout_s=self._timeout_s)

    def _on_heartbeat_answer(self, answer: Any) -> None:
        self._listener.on_heartbeat(answer)

    def _on_lost(self, reason: str) -> None:
        location = self.location
        cause = TaskManagerLostError(
            f"TaskExecutor {location.resource_id} at {location.address} is lost: {reason}",
            details={"resource_id": str(location.resource_id), "address": location.address},
        )
        self._listener.on_task_manager_lost(self, cause, reason)
        for answered in list(self._open_triggers.values()):
            answered(cause)
        for _, action in list(self._waiting_for_events):
            action()

    # ---- inside

    def _send_waiting_events(self) -> None:
        if self._is_sending_events or not self._waiting_events:
            return
        batch: list[jobmaster_pb2.OperatorEvent] = []
        size_bytes = 0
        while self._waiting_events and len(batch) < MAX_EVENTS_PER_CALL and size_bytes < MAX_EVENT_BYTES_PER_CALL:
            batch.append(self._waiting_events.popleft())
            size_bytes += len(batch[-1].payload_pickle)
        self._is_sending_events = True
        request = taskexecutor_pb2.OperatorEventsToTasks(job_id=self._job_id, events=batch)

        def done(_: Any, error: BaseException | None) -> None:
            self._is_sending_events = False
            if error is not None:
                attempts = dict.fromkeys(ExecutionAttemptID.parse(event.execution_attempt_id) for event in batch)
                self._listener.on_operator_events_lost(tuple(attempts), as_flink_error(error))
            self._num_events_settled += len(batch)
            while self._waiting_for_events and self._waiting_for_events[0][0] <= self._num_events_settled:
                self._waiting_for_events.popleft()[1]()
            self._send_waiting_events()

        call = self._gateway.send_operator_events_to_tasks(request, timeout_s=self._timeout_s)
        self.call(call, done, "send operator events to")

    def call(self, coroutine: Coroutine[Any, Any, Any], on_done: OnDone, name: str) -> None:
        """Makes a call. One that cannot be delivered ends the connection."""

        def done(result: Any, error: BaseException | None) -> None:
            if isinstance(error, RpcUnavailableError):
                self.lose(str(error))
            else:
                on_done(result, error)

        super().call(coroutine, done, name)

    def _log_error(self, _: Any, error: BaseException | None) -> None:
        if error is not None and not isinstance(error, RpcTimeoutError):
            logger.warning("a call to %s failed: %s", self.location.resource_id, error)


def _rejection_error(rejection: taskexecutor_pb2.SubmitTasksResponse.Rejection) -> FlinkError:
    return error_from_proto(rejection.error)
