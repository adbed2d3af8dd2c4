"""CheckpointRunner: does what the CheckpointCoordinator wants done, and brings the outcomes back as events.

Writes that change which checkpoints count run one after the other; everything else that blocks runs beside them.

Thread: JobMaster main thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from flinkpy._proto import checkpoint_pb2 as pb
from flinkpy.checkpoint.completed_checkpoint import CompletedCheckpoint
from flinkpy.checkpoint.coordinator import effects as fx
from flinkpy.checkpoint.coordinator import events as ev
from flinkpy.checkpoint.coordinator.checkpoint_properties import CheckpointProperties
from flinkpy.common.checkpoint_failure_reason import CheckpointFailureReason, checkpoint_error, failure_reason
from flinkpy.common.error_text import USER_ERRORS
from flinkpy.common.errors import FlinkError, HighAvailabilityError, LeadershipLostError
from flinkpy.common.ids import ExecutionAttemptID
from flinkpy.common.states import JobState
from flinkpy.jobmaster.checkpoint_io import CheckpointIo, Finalized
from flinkpy.jobmaster.conversions import as_flink_error
from flinkpy.jobmaster.coordinator_services import EventValve
from flinkpy.jobmaster.operator_coordinators import OperatorCoordinators
from flinkpy.jobmaster.task_manager_connection import TaskManagerConnection
from flinkpy.rpc.endpoint import OnDone, RpcEndpoint

logger = logging.getLogger(__name__)

#: Clients' requests remembered with their answers, so that one that is repeated gets the same.
MAX_REMEMBERED_REQUESTS = 256

#: Another one leads the job, or it is open whether what this JobMaster noted last will be found: it must not go on.
LEADERSHIP_ERRORS = (LeadershipLostError, HighAvailabilityError)


class CheckpointHost(Protocol):
    """What the runner needs of the JobMaster."""

    def handle(self, event: ev.CheckpointEvent) -> None: ...

    def connection_of_attempt(self, attempt: ExecutionAttemptID) -> TaskManagerConnection | None:
        """To the TaskExecutor the current attempt runs in; None where it is no longer the current one, or lost."""
        ...

    @property
    def task_manager_connections(self) -> list[TaskManagerConnection]: ...

    @property
    def pending_checkpoints(self) -> list[int]: ...

    def leadership_lost(self, error: FlinkError) -> bool:
        """What only the leader of the job may note was refused. True: nothing is to come of it, the job is left."""
        ...


class CheckpointRunner:
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
        #: Changes of what counts: one is under way where this is not empty.
        self._changes: deque[tuple[Callable[[], Any], OnDone, str]] = deque()
        #: What blocks and was begun: its number, and what waits until it is 0.
        self._under_way = 0
        self._at_rest: Callable[[], None] | None = None
        #: Checkpoints were given up since directories of such were last looked for.
        self._may_have_leftovers = False

    # Requests of clients

    def request(
        self, trigger_id: str, properties: CheckpointProperties, target_directory: str = ""
    ) -> asyncio.Future[pb.CheckpointResult]:
        """Answered when it is complete. The same `trigger_id` gets the same answer.

        Raises: ConfigurationError for a savepoint without a place.
        """
        known = self._requests.get(trigger_id)
        if known is not None:
            return known
        self._io.check_request(properties, target_directory)
        future: asyncio.Future[pb.CheckpointResult] = asyncio.get_running_loop().create_future()
        future.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody may be waiting any more
        self._forget_old_requests()
        self._requests[trigger_id] = future
        self._host.handle(ev.CheckpointRequested(trigger_id, properties, target_directory))
        return future

    def _forget_old_requests(self) -> None:
        for trigger_id in [trigger_id for trigger_id, future in self._requests.items() if future.done()]:
            if len(self._requests) < MAX_REMEMBERED_REQUESTS:
                return
            del self._requests[trigger_id]

    # Messages of tasks

    def acknowledged(self, event: ev.CheckpointAcknowledged) -> None:
        if event.checkpoint_id in self._host.pending_checkpoints:
            self._io.acknowledged(event.checkpoint_id, event.state)
        self._host.handle(event)

    # Effects

    def run(self, effect: fx.CheckpointEffect) -> None:
        match effect:
            case fx.MakeLocation():
                self._make_location(effect)
            case fx.SnapshotCoordinators(checkpoint_id):
                self._snapshot_coordinators(checkpoint_id)
            case fx.TriggerTasks():
                self._trigger(effect)
            case fx.ReleaseEvents(checkpoint_id):
                self._valve.open(checkpoint_id)
            case fx.FinalizeCheckpoint():
                self._finalize(effect)
            case fx.ConfirmCheckpoint(checkpoint_id, timestamp_ms, attempts):
                self._coordinators.notify_checkpoint_complete(checkpoint_id)
                self._tell(attempts, checkpoint_id, timestamp_ms, 0, TaskManagerConnection.confirm_checkpoint)
            case fx.AbortCheckpoint(checkpoint_id, timestamp_ms, latest_id, attempts, reason):
                logger.info("checkpoint %d is given up: %s", checkpoint_id, reason)
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
                raise AssertionError("a failure of the job is the scheduler's to handle")

    def _make_location(self, effect: fx.MakeLocation) -> None:
        def done(location: Any, error: BaseException | None) -> None:
            if error is None:
                self._host.handle(ev.LocationMade(effect.checkpoint_id, location))
            else:
                self._host.handle(ev.LocationFailed(effect.checkpoint_id, as_flink_error(error)))

        self._begin(lambda: self._io.make_location(effect), done, "make the place of a checkpoint")

    def _snapshot_coordinators(self, checkpoint_id: int) -> None:
        """Their states and the closing of the valve are one moment: what they sent before it, and what after."""
        self._valve.close(checkpoint_id)
        try:
            states = self._coordinators.checkpoint(checkpoint_id)
        except USER_ERRORS as error:  # user code; it fails the checkpoint, not the job
            self._host.handle(ev.CoordinatorSnapshotFailed(checkpoint_id, as_flink_error(error)))
            return
        connections = self._host.task_manager_connections

        def all_arrived() -> None:
            self._host.handle(ev.CoordinatorsSnapshotted(checkpoint_id, states))

        arrived = _Countdown(len(connections), all_arrived)
        for connection in connections:
            connection.when_events_settled(arrived.one)

    def _trigger(self, effect: fx.TriggerTasks) -> None:
        by_connection, lost = self._grouped(effect.attempts)

        def all_answered() -> None:
            self._host.handle(ev.TriggersAnswered(effect.checkpoint_id))

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
        """A TaskExecutor that has said why (the last task of the job has ended there) is quoted."""
        for attempt in attempts:
            if cause is None:
                reason = CheckpointFailureReason.CHECKPOINT_DECLINED_TASK_NOT_READY
            elif "failure_reason" in cause.details:
                reason = failure_reason(cause)
            else:
                reason = CheckpointFailureReason.TRIGGER_CHECKPOINT_FAILURE
            error = checkpoint_error(reason, "" if cause is None else str(cause), cause)
            self._host.handle(ev.CheckpointDeclined(attempt, checkpoint_id, error))

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

    def _finalize(self, effect: fx.FinalizeCheckpoint) -> None:
        checkpoint_id = effect.checkpoint_id

        def done(finalized: Finalized | None, error: BaseException | None) -> None:
            if finalized is None:
                assert error is not None
                logger.warning("checkpoint %d could not be written: %s", checkpoint_id, error)
                self._host.handle(ev.FinalizationFailed(checkpoint_id, as_flink_error(error)))
                return
            logger.info(
                "%s %d is complete at %s", effect.properties.description, checkpoint_id, finalized.external_path
            )
            self._host.handle(ev.CheckpointFinalized(checkpoint_id, finalized.external_path, finalized.retained_ids))
            if finalized.replaced:
                self._in_background(lambda: self._io.discard_completed(finalized.replaced), "discard checkpoints")
            if self._may_have_leftovers and effect.properties.counts_for_recovery:
                self._may_have_leftovers = False
                pending = self._host.pending_checkpoints
                self._in_background(lambda: self._io.delete_incomplete(checkpoint_id, pending), "discard leftovers")

        self._change(lambda: self._io.finalize(effect), done, f"finalize checkpoint {checkpoint_id}")

    def drop_damaged(self, on_done: Callable[[CompletedCheckpoint | None, FlinkError | None], None]) -> None:
        """`on_done` gets the newest checkpoint that is whole, or why there is none."""

        def done(latest: Any, error: BaseException | None) -> None:
            on_done(latest, None if error is None else as_flink_error(error))

        self._change(self._io.drop_damaged, done, "look for damaged checkpoints")

    def shut_down(self, state: JobState, cause: FlinkError | None, on_done: Callable[[], None]) -> None:
        """Gives up the checkpoints of a job that ended in `state`, because of `cause`.

        It waits for everything that has been begun: what is still being written would come back after the end.
        """

        def done(_: Any, error: BaseException | None) -> None:
            if error is not None:
                logger.warning("the checkpoints of a job that is %s are left as they are: %s", state.name, error)
            on_done()

        self._at_rest = lambda: self._change(
            lambda: self._io.shut_down(state, cause), done, "shut down the checkpoint store"
        )
        self._look_for_rest()

    def _change(self, call: Callable[[], Any], on_done: OnDone, name: str) -> None:
        self._changes.append((call, on_done, name))
        if len(self._changes) == 1:
            self._next_change()

    def _next_change(self) -> None:
        call, on_done, name = self._changes[0]

        def done(result: Any, error: BaseException | None) -> None:
            try:
                on_done(result, error)
            finally:
                self._changes.popleft()
                if self._changes:
                    self._next_change()

        self._begin(call, done, name)

    def _in_background(self, call: Callable[[], None], name: str) -> None:
        def done(_: Any, error: BaseException | None) -> None:
            if error is not None:
                logger.warning("%s failed: %s", name, error)

        self._begin(call, done, name)

    def _begin(self, call: Callable[[], Any], on_done: OnDone, name: str) -> None:
        def done(result: Any, error: BaseException | None) -> None:
            try:
                if isinstance(error, LEADERSHIP_ERRORS) and self._host.leadership_lost(error):
                    return
                on_done(result, error)
            finally:
                self._under_way -= 1
                self._look_for_rest()

        self._under_way += 1
        self._endpoint.run_blocking(call, done, name)

    def _look_for_rest(self) -> None:
        if self._under_way == 0 and self._at_rest is not None:
            action, self._at_rest = self._at_rest, None
            action()

    def _answer(self, trigger_id: str, result: pb.CheckpointResult | None, error: FlinkError | None) -> None:
        future = self._requests.get(trigger_id)
        if future is None or future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            assert result is not None
            future.set_result(result)


class _Countdown:
    """`action()` when it has been counted down; at once from 0."""

    def __init__(self, count: int, action: Callable[[], None]) -> None:
        self._left = count
        self._action = action
        if count == 0:
            action()

    def one(self) -> None:
        self._left -= 1
        if self._left == 0:
            self._action()
