"""CheckpointRunner: runs the effects of the CheckpointCoordinator and passes the outcomes to it.

Changes of the checkpoint store run one after the other. Other blocking calls run concurrently.

Thread: JobMaster main thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import Any, ParamSpec, Protocol

from flinkpy._proto import checkpoint_pb2 as pb
from flinkpy.checkpoint.completed_checkpoint import CompletedCheckpoint
from flinkpy.checkpoint.coordinator import effects as fx
from flinkpy.checkpoint.coordinator.checkpoint_coordinator import CheckpointCoordinator, CoordinatorMethod
from flinkpy.checkpoint.coordinator.checkpoint_properties import CheckpointProperties
from flinkpy.common.checkpoint_failure_reason import CheckpointFailureReason, checkpoint_error, failure_reason
from flinkpy.common.error_text import USER_ERRORS
from flinkpy.common.errors import FlinkError, HighAvailabilityError, LeadershipLostError
from flinkpy.common.ids import ExecutionAttemptID
from flinkpy.common.states import JobState
from flinkpy.jobmaster.checkpoint_io import CheckpointIo
from flinkpy.jobmaster.conversions import as_flink_error
from flinkpy.jobmaster.coordinator_services import EventValve
from flinkpy.jobmaster.operator_coordinators import OperatorCoordinators
from flinkpy.jobmaster.task_manager_connection import TaskManagerConnection
from flinkpy.rpc.endpoint import RpcEndpoint

logger = logging.getLogger(__name__)

P = ParamSpec("P")

#: The number of client requests that are kept with their answers, so that a repeated request gets the same answer.
MAX_REMEMBERED_REQUESTS = 256

#: Errors after which this JobMaster must not continue: another one leads the job, or it is unknown if its last write to
#: the high-availability store succeeded.
LEADERSHIP_ERRORS = (LeadershipLostError, HighAvailabilityError)


class CheckpointHost(Protocol):
    """The part of the JobMaster that the runner uses."""

    def coordinate(self, method: CoordinatorMethod[P], *args: P.args, **kwargs: P.kwargs) -> None:
        """Calls a method of the CheckpointCoordinator and runs the effects."""
        ...

    def connection_of_attempt(self, attempt: ExecutionAttemptID) -> TaskManagerConnection | None:
        """Returns the connection to the TaskExecutor of the attempt.

        None if that is lost, or the attempt is not current.
        """
        ...

    @property
    def task_manager_connections(self) -> list[TaskManagerConnection]: ...

    @property
    def pending_checkpoints(self) -> list[int]: ...

    def leadership_lost(self, error: FlinkError) -> bool:
        """Handles a write that failed because this JobMaster does not lead.

        True if the job is given up: ignore the write.
        """
        ...


class CheckpointRunner:
    """Runs the checkpoints of one job."""

    def __init__(
        self,
        endpoint: RpcEndpoint,
        host: CheckpointHost,
        io: CheckpointIo,
        coordinators: OperatorCoordinators,
        valve: EventValve,
        *,
        job_id: str,
    ) -> None:
        self._endpoint = endpoint
        self._host = host
        self._io = io
        self._coordinators = coordinators
        self._valve = valve
        self._job_id = job_id
        self._requests: dict[str, asyncio.Future[pb.CheckpointResult]] = {}
        #: Held by the running change of the checkpoint store. The others wait in their order.
        self._change = asyncio.Lock()
        #: The number of calls that run or wait, and the action that waits until there are none.
        self._num_running = 0
        self._when_idle: Callable[[], Coroutine[Any, Any, None]] | None = None
        #: True if a checkpoint was discarded after the last search for leftover directories.
        self._may_have_leftovers = False

    # Requests of clients

    def request(
        self, trigger_id: str, properties: CheckpointProperties, target_directory: str = ""
    ) -> asyncio.Future[pb.CheckpointResult]:
        """Requests a checkpoint or savepoint. The future is done when it is complete.

        A repeated request with the same `trigger_id` gets the same future.

        Raises: ConfigurationError if a savepoint has no directory.
        """
        known = self._requests.get(trigger_id)
        if known is not None:
            return known
        self._io.check_request(properties, target_directory)
        future: asyncio.Future[pb.CheckpointResult] = asyncio.get_running_loop().create_future()
        future.add_done_callback(_retrieve_error)
        self._forget_old_requests()
        self._requests[trigger_id] = future
        self._host.coordinate(CheckpointCoordinator.request, trigger_id, properties, target_directory)
        return future

    def _forget_old_requests(self) -> None:
        for trigger_id in [trigger_id for trigger_id, future in self._requests.items() if future.done()]:
            if len(self._requests) < MAX_REMEMBERED_REQUESTS:
                return
            del self._requests[trigger_id]

    def expect_leftovers(self) -> None:
        """Looks for leftover directories after the next checkpoint: running tasks may still write to an aborted one."""
        self._may_have_leftovers = True

    # Messages of tasks

    def acknowledge(
        self,
        attempt: ExecutionAttemptID,
        checkpoint_id: int,
        state: pb.TaskStateSnapshot,
        metrics: pb.CheckpointMetrics,
    ) -> None:
        if checkpoint_id in self._host.pending_checkpoints:
            self._io.acknowledged(checkpoint_id, state)
        self._host.coordinate(CheckpointCoordinator.acknowledge, attempt, checkpoint_id, state, metrics)

    # Effects

    def run(self, effect: fx.CheckpointEffect) -> None:
        match effect:
            case fx.MakeLocation():
                self._start(self._make_location(effect), "create the location of a checkpoint")
            case fx.SnapshotCoordinators(checkpoint_id):
                self._snapshot_coordinators(checkpoint_id)
            case fx.TriggerTasks():
                self._trigger(effect)
            case fx.ReleaseEvents(checkpoint_id):
                self._valve.open(checkpoint_id)
            case fx.FinalizeCheckpoint():
                self._start(self._finalize(effect), f"finalize checkpoint {effect.checkpoint_id}")
            case fx.ConfirmCheckpoint(checkpoint_id, timestamp_ms, attempts):
                self._coordinators.notify_checkpoint_complete(checkpoint_id)
                self._tell(attempts, checkpoint_id, timestamp_ms, 0, TaskManagerConnection.confirm_checkpoint)
            case fx.AbortCheckpoint(checkpoint_id, timestamp_ms, latest_id, attempts, reason):
                logger.info("checkpoint %d is aborted: %s", checkpoint_id, reason)
                self._coordinators.notify_checkpoint_aborted(checkpoint_id)
                self._tell(attempts, checkpoint_id, timestamp_ms, latest_id, TaskManagerConnection.abort_checkpoint)
            case fx.DiscardState(states):
                self._in_background(lambda: self._io.discard_states(states), "discard state")
            case fx.DiscardCheckpoint(checkpoint_id, location):
                self._may_have_leftovers = True
                self._in_background(lambda: self._io.discard_pending(checkpoint_id, location), "discard a checkpoint")
            case fx.AnswerRequest(trigger_id, result, error):
                self._answer(trigger_id, result, error)
            case fx.FailJob():
                raise AssertionError("the scheduler handles FailJob")

    async def _make_location(self, effect: fx.MakeLocation) -> None:
        try:
            location = await self._endpoint.blocking(lambda: self._io.make_location(effect))
        except Exception as error:  # noqa: BLE001 - any error fails the checkpoint
            if not self._gives_up(error):
                failure = as_flink_error(error)
                self._host.coordinate(CheckpointCoordinator.location_failed, effect.checkpoint_id, failure)
        else:
            self._host.coordinate(CheckpointCoordinator.location_made, effect.checkpoint_id, location)

    def _snapshot_coordinators(self, checkpoint_id: int) -> None:
        """Takes the states of all coordinators and closes the valve at the same moment.

        So the states divide the events of the coordinators into those before and those after the checkpoint.
        """
        self._valve.close(checkpoint_id)
        try:
            states = self._coordinators.checkpoint(checkpoint_id)
        except USER_ERRORS as error:  # an error of user code fails the checkpoint, not the job
            failure = as_flink_error(error)
            self._host.coordinate(CheckpointCoordinator.coordinator_snapshot_failed, checkpoint_id, failure)
            return
        connections = self._host.task_manager_connections

        def all_arrived() -> None:
            self._host.coordinate(CheckpointCoordinator.coordinators_snapshotted, checkpoint_id, states)

        arrived = _Countdown(len(connections), all_arrived)
        for connection in connections:
            connection.when_events_settled(arrived.one)

    def _trigger(self, effect: fx.TriggerTasks) -> None:
        by_connection, lost = self._grouped(effect.attempts)

        def all_answered() -> None:
            self._host.coordinate(CheckpointCoordinator.triggers_answered, effect.checkpoint_id)

        answered = _Countdown(len(by_connection) + 1, all_answered)
        for connection, attempts in by_connection.items():
            request = pb.TriggerCheckpointsRequest(
                job_id=self._job_id,
                checkpoint_id=effect.checkpoint_id,
                timestamp_ms=effect.timestamp_ms,
                options=effect.options,
                execution_attempt_ids=[str(attempt) for attempt in attempts],
            )

            def done(error: FlinkError | None, attempts: tuple[ExecutionAttemptID, ...] = tuple(attempts)) -> None:
                if error is not None:
                    self._decline(effect.checkpoint_id, attempts, error)
                answered.one()

            connection.trigger_checkpoint(request, done)
        self._decline(effect.checkpoint_id, lost, None)
        answered.one()

    def _decline(self, checkpoint_id: int, attempts: Iterable[ExecutionAttemptID], cause: FlinkError | None) -> None:
        """Declines the checkpoint for these attempts. Uses the reason of the TaskExecutor if `cause` has one."""
        for attempt in attempts:
            if cause is None:
                reason = CheckpointFailureReason.CHECKPOINT_DECLINED_TASK_NOT_READY
            elif "failure_reason" in cause.details:
                reason = failure_reason(cause)
            else:
                reason = CheckpointFailureReason.TRIGGER_CHECKPOINT_FAILURE
            error = checkpoint_error(reason, "" if cause is None else str(cause), cause)
            self._host.coordinate(CheckpointCoordinator.decline, attempt, checkpoint_id, error)

    def _grouped(
        self, attempts: Iterable[ExecutionAttemptID]
    ) -> tuple[dict[TaskManagerConnection, list[ExecutionAttemptID]], list[ExecutionAttemptID]]:
        found: dict[TaskManagerConnection, list[ExecutionAttemptID]] = {}
        lost: list[ExecutionAttemptID] = []
        for attempt in attempts:
            connection = self._host.connection_of_attempt(attempt)
            if connection is None:
                lost.append(attempt)
            else:
                found.setdefault(connection, []).append(attempt)
        return found, lost

    def _tell(
        self,
        attempts: Iterable[ExecutionAttemptID],
        checkpoint_id: int,
        timestamp_ms: int,
        latest_completed_id: int,
        send: Callable[[TaskManagerConnection, pb.CheckpointNotification], None],
    ) -> None:
        by_connection, _ = self._grouped(attempts)
        for connection, of_connection in by_connection.items():
            notification = pb.CheckpointNotification(
                job_id=self._job_id,
                checkpoint_id=checkpoint_id,
                timestamp_ms=timestamp_ms,
                latest_completed_checkpoint_id=latest_completed_id,
                execution_attempt_ids=[str(attempt) for attempt in of_connection],
            )
            send(connection, notification)

    async def _finalize(self, effect: fx.FinalizeCheckpoint) -> None:
        checkpoint_id = effect.checkpoint_id
        async with self._change:
            try:
                finalized = await self._endpoint.blocking(lambda: self._io.finalize(effect))
            except Exception as error:  # noqa: BLE001 - any error fails the checkpoint
                if not self._gives_up(error):
                    logger.warning("checkpoint %d could not be written: %s", checkpoint_id, error)
                    failure = as_flink_error(error)
                    self._host.coordinate(CheckpointCoordinator.finalization_failed, checkpoint_id, failure)
                return
            logger.info(
                "%s %d is complete at %s", effect.properties.description, checkpoint_id, finalized.external_path
            )
            self._host.coordinate(
                CheckpointCoordinator.finalized, checkpoint_id, finalized.external_path, finalized.retained_ids
            )
            if finalized.replaced:
                self._in_background(lambda: self._io.discard_completed(finalized.replaced), "discard checkpoints")
            if self._may_have_leftovers and effect.properties.counts_for_recovery:
                self._may_have_leftovers = False
                pending = self._host.pending_checkpoints
                self._in_background(lambda: self._io.delete_incomplete(checkpoint_id, pending), "discard leftovers")

    def drop_damaged(self, on_done: Callable[[CompletedCheckpoint | None, FlinkError | None], None]) -> None:
        """Drops damaged checkpoints. `on_done` gets the newest undamaged one, or the reason why there is none."""
        self._start(self._drop_damaged(on_done), "check for damaged checkpoints")

    async def _drop_damaged(self, on_done: Callable[[CompletedCheckpoint | None, FlinkError | None], None]) -> None:
        async with self._change:
            try:
                latest = await self._endpoint.blocking(self._io.drop_damaged)
            except Exception as error:  # noqa: BLE001 - the scheduler decides
                if not self._gives_up(error):
                    on_done(None, as_flink_error(error))
            else:
                on_done(latest, None)

    def shut_down(self, state: JobState, cause: FlinkError | None, on_done: Callable[[], None]) -> None:
        """Deletes the checkpoints of a job that ended in `state`, because of `cause`, except those to retain.

        It first waits for all running calls, because a pending write could create files after the deletion.
        """
        self._when_idle = partial(self._shut_down, state, cause, on_done)
        self._check_idle()

    async def _shut_down(self, state: JobState, cause: FlinkError | None, on_done: Callable[[], None]) -> None:
        try:
            async with self._change:
                await self._endpoint.blocking(lambda: self._io.shut_down(state, cause))
        except Exception as error:  # noqa: BLE001 - the job has ended
            if self._gives_up(error):
                return
            logger.warning("the checkpoints of the job, which is %s, could not be deleted: %s", state.name, error)
        on_done()

    def _in_background(self, call: Callable[[], None], name: str) -> None:
        self._start(self._logged(call, name), name)

    async def _logged(self, call: Callable[[], None], name: str) -> None:
        try:
            await self._endpoint.blocking(call)
        except Exception as error:  # noqa: BLE001 - it is best effort
            if not self._gives_up(error):
                logger.warning("%s failed: %s", name, error)

    def _gives_up(self, error: Exception) -> bool:
        """True if this JobMaster does not lead any more and has given up the job because of this error."""
        return isinstance(error, LEADERSHIP_ERRORS) and self._host.leadership_lost(error)

    def _start(self, coroutine: Coroutine[Any, Any, None], name: str) -> None:
        def done(_: None, error: BaseException | None) -> None:
            self._num_running -= 1
            self._check_idle()
            if error is not None:
                self._endpoint.on_fatal_error(error)

        self._num_running += 1
        self._endpoint.run_async(coroutine, done, name)

    def _check_idle(self) -> None:
        if self._num_running == 0 and self._when_idle is not None:
            action = self._when_idle
            self._when_idle = None
            self._start(action(), "shut down the checkpoint store")

    def _answer(self, trigger_id: str, result: pb.CheckpointResult | None, error: FlinkError | None) -> None:
        future = self._requests.get(trigger_id)
        if future is None or future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            assert result is not None
            future.set_result(result)


def _retrieve_error(future: asyncio.Future[pb.CheckpointResult]) -> None:
    """Marks the error of a request as seen, because its client may be gone. Otherwise asyncio logs it."""
    if not future.cancelled():
        future.exception()


class _Countdown:
    """Calls `action()` when `count` calls of `one` have been made. At once if `count` is 0."""

    def __init__(self, count: int, action: Callable[[], None]) -> None:
        self._left = count
        self._action = action
        if count == 0:
            action()

    def one(self) -> None:
        self._left -= 1
        if self._left == 0:
            self._action()
