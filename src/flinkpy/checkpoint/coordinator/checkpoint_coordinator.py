"""CheckpointCoordinator: the state machine that takes the checkpoints of one job.

Methods that change its state take the time first and return the effects to run, in order. At `next_deadline_ms` the
caller calls `check_timers`.

Rules:
* Only one checkpoint at a time is being triggered. At most `max-concurrent-checkpoints` are in progress. Each id is
  used once, and is stored durably before it is used.
* A checkpoint is complete once its metadata and the pointer to it are durable (`finalized`). Only then tasks
  and clients are told, and older checkpoints in progress are subsumed. While both are being written (`is_finalizing`),
  only the result of the writing decides about the checkpoint, and nothing may be restored, because the checkpoint to
  restore from is not known yet.
* When tasks stop for any reason, all checkpoints in progress are aborted. None begins before all tasks run again.
* State that a task reports for a failed checkpoint is deleted.
* A stop-with-savepoint ends the periodic checkpoints. Once tasks may have seen its barrier, the job can only finish or
  restart as a whole, because a task waits after the barrier.
* A job at the end of its data takes one more checkpoint immediately, because its tasks wait for it.
* A client's request is not refused because the job is starting or restarting, or because a task was just finishing. It
  is planned again, for a limited time and number of tries. A stop-with-savepoint whose barrier tasks may have seen
  continues, and treats a finishing task as finished.

Source: org.apache.flink.runtime.checkpoint.CheckpointCoordinator. Pure.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass
from random import Random
from typing import Concatenate, ParamSpec

from flinkpy._proto import checkpoint_pb2 as pb
from flinkpy.checkpoint.completed_checkpoint import CompletedCheckpoint
from flinkpy.checkpoint.coordinator import effects as fx
from flinkpy.checkpoint.coordinator.checkpoint_plan import JobView, calculate_plan, may_have_plan_later
from flinkpy.checkpoint.coordinator.checkpoint_properties import FULL, PERIODIC, CheckpointProperties
from flinkpy.checkpoint.coordinator.checkpoint_request_decider import (
    CheckpointRequest,
    CheckpointRequestDecider,
    RequestRetries,
)
from flinkpy.checkpoint.coordinator.checkpoint_stats_tracker import CheckpointStatsTracker
from flinkpy.checkpoint.coordinator.coordinator_configuration import CheckpointCoordinatorOptions
from flinkpy.checkpoint.coordinator.pending_checkpoint import AckOutcome, PendingCheckpoint, Phase
from flinkpy.checkpoint.storage.checkpoint_storage import CheckpointStorageLocation
from flinkpy.common.checkpoint_failure_reason import CheckpointFailureReason as Reason
from flinkpy.common.checkpoint_failure_reason import checkpoint_error, failure_reason
from flinkpy.common.errors import CheckpointError, FlinkError, StopWithSavepointStoppingError
from flinkpy.common.ids import ExecutionAttemptID
from flinkpy.common.states import ExecutionState


class CheckpointFailureManager:
    """Decides when failed checkpoints fail the job.

    It counts failures in a row: each checkpoint once, and only for the reasons that CheckpointFailureReason marks as
    counting. A completed checkpoint resets the count. Savepoints do not count, because the user learns of their
    failure.

    Source: org.apache.flink.runtime.checkpoint.CheckpointFailureManager.
    """

    def __init__(self, tolerable_failures: int) -> None:
        self._tolerable = tolerable_failures
        self._num_failed = 0
        self._last_completed_id = 0

    def completed(self, checkpoint_id: int) -> None:
        self._last_completed_id = max(self._last_completed_id, checkpoint_id)
        self._num_failed = 0

    def failed(self, checkpoint_id: int, properties: CheckpointProperties, error: CheckpointError) -> FlinkError | None:
        """Counts a failed checkpoint. Returns the failure of the job, if the job must fail."""
        if properties.is_savepoint or not failure_reason(error).counts:
            return None
        if checkpoint_id < self._last_completed_id:
            return None  # a later checkpoint is complete
        self._num_failed += 1
        if self._num_failed <= self._tolerable:
            return None
        self._num_failed = 0
        failure = CheckpointError(
            f"checkpoint {checkpoint_id} failed, and at most {self._tolerable} checkpoints may fail in a row "
            f"(execution.checkpointing.tolerable-failed-checkpoints): {error}",
            details=dict(error.details),
            remote_traceback=error.remote_traceback,
        )
        failure.__cause__ = error
        return failure


#: The number of completed checkpoints that are remembered. Acknowledgements are not repeated for longer.
MAX_COMPLETED_IDS = 1_024


class CompletedIds:
    """The ids of recently completed checkpoints.

    A repeated acknowledgement may arrive after the end of its checkpoint. Its state must be deleted if the checkpoint
    failed, and kept if the checkpoint is complete.
    """

    def __init__(self) -> None:
        self._ids: deque[int] = deque(maxlen=MAX_COMPLETED_IDS)

    def add(self, checkpoint_id: int) -> None:
        self._ids.append(checkpoint_id)

    def is_known_failed(self, checkpoint_id: int) -> bool:
        """True if the checkpoint, which is not in progress any more, is known to have failed."""
        if checkpoint_id in self._ids:
            return False
        return len(self._ids) < MAX_COMPLETED_IDS or checkpoint_id > min(self._ids)


#: The delay after a failed final checkpoint before the next one is requested. The job waits for it.
FINAL_CHECKPOINT_RETRY_MS = 500


class EndOfData:
    """Decides when a job that has processed all its data requests its final checkpoint.

    The checkpoint is requested once, and again if it failed.

    Source: org.apache.flink.runtime.scheduler.VertexEndOfDataListener.
    """

    def __init__(self) -> None:
        self._reached: set[ExecutionAttemptID] = set()
        self._is_requested = False
        self.retry_ms: int | None = None

    def reached(self, attempts: Iterable[ExecutionAttemptID]) -> None:
        self._reached.update(attempts)

    def left(self, attempt: ExecutionAttemptID) -> None:
        self._reached.discard(attempt)

    def clear(self) -> None:
        """Forgets everything, because the tasks are restarted."""
        self._reached.clear()
        self._is_requested = False
        self.retry_ms = None

    def should_request(self, running: Set[ExecutionAttemptID]) -> bool:
        """True if the final checkpoint must be requested now. `running` are all tasks that have not ended."""
        return not self._is_requested and bool(self._reached) and running <= self._reached

    def requested(self) -> None:
        self._is_requested = True
        self.retry_ms = None

    def failed(self, now_ms: int) -> None:
        """Schedules a retry after a failed checkpoint, which may have been the final one."""
        if self._is_requested:
            self._is_requested = False
            self.retry_ms = now_ms + FINAL_CHECKPOINT_RETRY_MS

    def is_retry_due(self, now_ms: int) -> bool:
        if self.retry_ms is None or self.retry_ms > now_ms:
            return False
        self.retry_ms = None
        return True


@dataclass(slots=True)
class StopWithSavepoint:
    """A running stop-with-savepoint, from the request to the end of the last task.

    Source: org.apache.flink.runtime.scheduler.stopwithsavepoint.StopWithSavepointTerminationManager.

    Attributes:
        result: set once the savepoint exists. The tasks finish from then on.
        has_failed: a task ended in another way while the savepoint was being written. The job continues, with or
            without the savepoint.
    """

    trigger_id: str
    result: pb.CheckpointResult | None = None
    has_failed: bool = False
    cause: FlinkError | None = None

    def error(self, cause: FlinkError | None) -> FlinkError:
        """Returns the answer to the client if the job did not finish with the savepoint."""
        if self.result is None:
            reason = Reason.CHECKPOINT_COORDINATOR_SUSPEND
            return checkpoint_error(reason, "The job did not stop.", cause)
        error = StopWithSavepointStoppingError(
            f"savepoint {self.result.path} was written, but the job did not finish with it",
            details={"savepoint_path": self.result.path},
        )
        error.__cause__ = cause
        return error


#: How long to wait for the acknowledgement of a task that has finished. The task sent it before its end, but messages
#: may overtake each other or be sent again.
FINISHED_ACK_GRACE_MS = 10_000

#: The reasons with which a task declines while it is starting or ending.
_STARTING_OR_ENDING = (Reason.CHECKPOINT_DECLINED_TASK_CLOSING, Reason.CHECKPOINT_DECLINED_TASK_NOT_READY)


P = ParamSpec("P")
#: A method of the CheckpointCoordinator that changes its state: `method(coordinator, now_ms, ...)` returns effects.
CoordinatorMethod = Callable[Concatenate["CheckpointCoordinator", int, P], list[fx.CheckpointEffect]]


def _returns_effects(method: Callable[Concatenate[CheckpointCoordinator, P], None]) -> CoordinatorMethod[P]:
    """Makes a method take the current time as its first argument and return the effects to run, in order."""

    @functools.wraps(method)
    def step(self: CheckpointCoordinator, now_ms: int, *args: P.args, **kwargs: P.kwargs) -> list[fx.CheckpointEffect]:
        self._now_ms = max(self._now_ms, now_ms)
        method(self, *args, **kwargs)
        self._trigger_what_may_begin()
        effects = self._out
        self._out = []
        return effects

    return step


class CheckpointCoordinator:
    """Takes the checkpoints of one job.

    Args:
        random: chooses the delay of the first periodic checkpoint.
    """

    def __init__(self, job: JobView, options: CheckpointCoordinatorOptions, random: Random) -> None:
        self._job = job
        self._options = options
        self._random = random
        self._decider = CheckpointRequestDecider(
            max_concurrent=options.max_concurrent, min_pause_ms=options.min_pause_ms
        )
        self._retries = RequestRetries()
        self._failures = CheckpointFailureManager(options.tolerable_failures)
        self.statistics = CheckpointStatsTracker(job, options.history_size)
        #: The checkpoints in progress by id, oldest first.
        self._pending: dict[int, PendingCheckpoint] = {}
        self._completed_ids = CompletedIds()
        self._next_id = 1
        #: The checkpoint from which failed tasks are restored; None: they start without state.
        self.latest: CompletedCheckpoint | None = None
        #: True until the first checkpoint that shares no files with a savepoint of the user (NO_CLAIM) is complete.
        self._must_be_full = False
        #: True if each task runs or has finished, so that checkpoints can be taken.
        self._is_running = False
        self._has_ended = False
        self._stop: StopWithSavepoint | None = None
        #: The trigger ids of clients that wait for an answer.
        self._open_requests: set[str] = set()
        self._next_periodic_ms: int | None = None
        #: The operator ids of sources that read a backlog.
        self._backlogs: set[str] = set()
        self._last_completion_ms: int | None = None
        self._end_of_data = EndOfData()
        self._now_ms = 0
        self._out: list[fx.CheckpointEffect] = []

    def start_from(
        self, checkpoint: CompletedCheckpoint | None, next_checkpoint_id: int, *, must_be_full: bool
    ) -> None:
        """Sets the checkpoint from which the job starts. Called before the job starts.

        Args:
            next_checkpoint_id: the first id that has never been used.
            must_be_full: the first checkpoint must not refer to files of `checkpoint`.
        """
        self._next_id = max(self._next_id, next_checkpoint_id)
        if checkpoint is not None:
            self.latest = checkpoint
            self._must_be_full = must_be_full
            self._next_id = max(self._next_id, checkpoint.checkpoint_id + 1)
            self._completed_ids.add(checkpoint.checkpoint_id)

    def replace_latest(self, checkpoint: CompletedCheckpoint) -> None:
        """Replaces the latest checkpoint, which is damaged.

        Called only while no task runs and no checkpoint is being finalized.
        """
        assert not self._is_running and not self.is_finalizing
        self.latest = checkpoint

    def tasks_restored(self, now_ms: int) -> None:
        """Records in the statistics that tasks are being deployed with the state of `latest`."""
        latest = self.latest
        if latest is not None:
            self.statistics.restored(latest.checkpoint_id, latest.external_path, latest.is_savepoint, now_ms)

    # Queries

    @property
    def is_finalizing(self) -> bool:
        """True while a checkpoint is being written as complete. Nothing may be restored until the result is known."""
        return any(
            pending.phase is Phase.FINALIZING and pending.properties.counts_for_recovery
            for pending in self._pending.values()
        )

    @property
    def is_stopping(self) -> bool:
        """True while a stop-with-savepoint is running."""
        return self._stop is not None

    @property
    def pending_ids(self) -> list[int]:
        return list(self._pending)

    @property
    def next_deadline_ms(self) -> int | None:
        """The time at which the caller must call `check_timers`; None if no timer is set."""
        due = [self._next_periodic_ms, self._end_of_data.retry_ms, self._retries.next_due_ms]
        for pending in self._pending.values():
            if pending.phase is not Phase.FINALIZING:
                due += [pending.deadline_ms, *pending.finished_early.values()]
        if self._is_running and not self._is_triggering:
            due.append(
                self._decider.next_due_ms(
                    num_pending=len(self._pending), last_completion_ms=self._last_completion_ms, now_ms=self._now_ms
                )
            )
        return min((at for at in due if at is not None), default=None)

    def validate(self) -> None:
        """Asserts the invariants."""
        ids = list(self._pending)
        assert ids == sorted(ids)
        assert all(checkpoint_id < self._next_id for checkpoint_id in ids)
        assert sum(pending.is_triggering for pending in self._pending.values()) <= 1
        unforced = [pending for pending in self._pending.values() if not pending.properties.is_forced]
        finalizing = [pending for pending in unforced if pending.phase is Phase.FINALIZING]
        assert len(unforced) - len(finalizing) <= self._options.max_concurrent
        for pending in self._pending.values():
            assert not pending.phase.is_over
            acked = {ack.attempt for ack in pending.acks.values()}
            assert not acked & pending.missing
            assert acked | pending.missing == set(pending.plan.tasks_to_wait_for)
            if not self._is_running:
                assert pending.phase is Phase.FINALIZING, (
                    "only a finalization may be in progress while tasks do not run"
                )
        if not self._is_running or self._stop is not None:
            assert self._next_periodic_ms is None
        waiting = self._retries.trigger_ids
        assert self._open_requests.issuperset(waiting)
        assert not {pending.trigger_id for pending in self._pending.values()}.intersection(waiting)

    # The job

    @_returns_effects
    def all_tasks_running(self) -> None:
        """Allows checkpoints: the job is RUNNING, and each of its tasks is running or has finished."""
        if self._is_running or self._has_ended:
            return
        self._is_running = True
        self._start_periodic()

    def _start_periodic(self) -> None:
        may_begin = self._is_running and self._stop is None and self._next_periodic_ms is None
        if may_begin and self._interval_ms > 0:
            earliest_ms = min(self._options.min_pause_ms, self._interval_ms)
            self._next_periodic_ms = self._now_ms + self._random.randint(earliest_ms, self._interval_ms)

    @property
    def _interval_ms(self) -> int:
        """The current interval of periodic checkpoints; 0 if there are none now.

        It is at least the minimum pause, because checkpoints cannot begin more often.
        """
        interval_ms = self._options.interval_ms
        if interval_ms > 0 and self._backlogs and self._options.backlog_interval_ms is not None:
            interval_ms = self._options.backlog_interval_ms
        return max(interval_ms, self._options.min_pause_ms) if interval_ms > 0 else 0

    def _schedule_periodic(self) -> None:
        """Schedules the next periodic checkpoint after one interval."""
        self._next_periodic_ms = self._now_ms + self._interval_ms if self._interval_ms > 0 else None

    @_returns_effects
    def backlog_changed(self, operator_id: str, has_backlog: bool) -> None:
        """Applies the new interval. A shorter one applies immediately, a longer one after the next checkpoint."""
        before_ms = self._interval_ms
        if has_backlog:
            self._backlogs.add(operator_id)
        else:
            self._backlogs.discard(operator_id)
        interval_ms = self._interval_ms
        if interval_ms == before_ms or not self._is_running or self._stop is not None:
            return
        due_ms = self._next_periodic_ms
        if interval_ms == 0 or due_ms is None or due_ms > self._now_ms + interval_ms:
            self._schedule_periodic()

    @_returns_effects
    def tasks_stopped(self, reason: Reason, cause: FlinkError | None = None) -> None:
        """Aborts the checkpoints in progress, because the job or one of its regions has stopped."""
        self._is_running = False
        self._next_periodic_ms = None
        self._end_of_data.clear()
        stop = self._stop
        synchronous = [pending for pending in self._pending.values() if pending.properties.is_synchronous]
        are_tasks_waiting = stop is not None and (
            stop.result is not None or any(pending.are_tasks_triggered for pending in synchronous)
        )
        self._abort_all(checkpoint_error(reason, cause=cause))
        if stop is None:
            return
        if any(pending.phase is Phase.FINALIZING for pending in synchronous):
            stop.has_failed, stop.cause = True, cause
        else:
            self._stop = None
            self._answer(stop.trigger_id, error=stop.error(cause))
        if are_tasks_waiting:
            self._out.append(fx.FailJob(stop.error(cause)))

    @_returns_effects
    def job_ended(self, is_finished: bool, cause: FlinkError | None = None) -> None:
        """Handles a terminal state of the job. `is_finished` is True if all its tasks have finished."""
        self._has_ended = True
        self._is_running = False
        self._next_periodic_ms = None
        self._end_of_data.clear()
        stop, self._stop = self._stop, None
        if stop is not None and stop.result is not None and is_finished:
            self._answer(stop.trigger_id, result=stop.result)
        elif stop is not None:
            self._answer(stop.trigger_id, error=stop.error(cause))
        self._abort_all(checkpoint_error(Reason.CHECKPOINT_COORDINATOR_SHUTDOWN, cause=cause))

    @_returns_effects
    def task_finished(self, attempt: ExecutionAttemptID) -> None:
        self._end_of_data.left(attempt)
        for pending in list(self._pending.values()):
            if pending.phase is Phase.WAITING and attempt in pending.missing:
                pending.finished_early[attempt] = self._now_ms + FINISHED_ACK_GRACE_MS
            self._proceed_without_finished_tasks(pending)
        self._request_final_checkpoint()

    @_returns_effects
    def end_of_data_reached(self, attempts: Iterable[ExecutionAttemptID]) -> None:
        """Handles tasks that have processed all their data and wait for a checkpoint that contains the results."""
        if not self._options.is_periodic or not self._options.after_tasks_finish:
            return
        self._end_of_data.reached(attempt for attempt in attempts if self._runs(attempt))
        self._request_final_checkpoint()

    def _request_final_checkpoint(self) -> None:
        """Requests the final checkpoint if all running tasks have reached the end of their data."""
        if not self._is_running or self._stop is not None:
            return
        if self._end_of_data.should_request(self._running_tasks()):
            self._end_of_data.requested()
            self._submit(PERIODIC)

    def _running_tasks(self) -> set[ExecutionAttemptID]:
        tasks = (self._job.task(task) for vertex in self._job.vertices for task in vertex.tasks)
        return {attempt for attempt, state in tasks if not state.is_terminal}

    # Requests

    @_returns_effects
    def trigger_for_rescale(self) -> None:
        """Takes a checkpoint from which a rescaled job continues, without a pause after the one before it.

        No effect if the job takes no periodic checkpoints or can take none now, or if a checkpoint is being taken,
        which serves as well.
        """
        if not self._options.is_periodic or not self._is_running or self._stop is not None or self._pending:
            return
        try:
            calculate_plan(self._job, after_tasks_finish=self._options.after_tasks_finish)
        except CheckpointError:
            return
        self._submit(PERIODIC)

    @_returns_effects
    def request(self, trigger_id: str, properties: CheckpointProperties, target_directory: str = "") -> None:
        """Takes a checkpoint for a client, which gets one AnswerRequest. Ignores a repeated `trigger_id`."""
        if trigger_id in self._open_requests:
            return
        self._open_requests.add(trigger_id)
        error = self._check_request(properties)
        if error is not None:
            self._answer(trigger_id, error=error)
            return
        if properties.is_synchronous:
            self._next_periodic_ms = None
            self._abort_all(checkpoint_error(Reason.CHECKPOINT_COORDINATOR_SUSPEND, "The job is being stopped."))
            self._stop = StopWithSavepoint(trigger_id)
        self._submit(properties, trigger_id=trigger_id, target_directory=target_directory)

    def _check_request(self, properties: CheckpointProperties) -> CheckpointError | None:
        """Returns the reason to refuse a request, before it stops anything; None if it can be executed."""
        if self._has_ended:
            return checkpoint_error(Reason.CHECKPOINT_COORDINATOR_SHUTDOWN, "The job has ended.")
        if self._stop is not None:
            return checkpoint_error(Reason.CHECKPOINT_COORDINATOR_SUSPEND, "A stop-with-savepoint is running.")
        if not properties.is_synchronous:
            return None
        try:
            calculate_plan(self._job, after_tasks_finish=self._options.after_tasks_finish)
        except CheckpointError as error:
            return None if self._may_run_later else error
        return None

    @property
    def _may_run_later(self) -> bool:
        """True while the job starts or restarts. Requests wait until it runs."""
        after_tasks_finish = self._options.after_tasks_finish
        return not self._is_running and may_have_plan_later(self._job, after_tasks_finish=after_tasks_finish)

    def _submit(
        self,
        properties: CheckpointProperties,
        *,
        is_periodic: bool = False,
        trigger_id: str = "",
        target_directory: str = "",
    ) -> None:
        number = self._decider.next_number()
        self._enqueue(CheckpointRequest(properties, self._now_ms, number, is_periodic, trigger_id, target_directory))

    def _enqueue(self, request: CheckpointRequest) -> None:
        dropped = self._decider.submit(request)
        if dropped is not None and not dropped.is_periodic:
            self._refuse(dropped, checkpoint_error(Reason.TOO_MANY_CHECKPOINT_REQUESTS))

    def _refuse(self, request: CheckpointRequest, error: CheckpointError) -> None:
        """Refuses a request, which gets no checkpoint id. Refusals never count as failures of the job."""
        self.statistics.refused()
        self._end_of_data.failed(self._now_ms)
        self._answer_failure(request.trigger_id, request.properties, error, are_tasks_triggered=False)

    @property
    def _is_triggering(self) -> bool:
        return any(pending.is_triggering for pending in self._pending.values())

    def _trigger_what_may_begin(self) -> None:
        for ready in self._retries.take_ready(
            self._now_ms, is_running=self._is_running, has_finished=self._has_finished
        ):
            self._enqueue(ready)
        while True:
            request = self._decider.choose(
                now_ms=self._now_ms,
                is_triggering=self._is_triggering,
                num_pending=len(self._pending),
                last_completion_ms=self._last_completion_ms,
            )
            if request is None:
                return
            self._begin(request)

    def _begin(self, request: CheckpointRequest) -> None:
        try:
            plan = calculate_plan(self._job, after_tasks_finish=self._options.after_tasks_finish)
            if not self._is_running:
                raise checkpoint_error(Reason.NOT_ALL_REQUIRED_TASKS_RUNNING, "The job is starting or restarting.")
        except CheckpointError as error:
            timeout_ms = self._options.timeout_ms
            if not (self._may_run_later and self._retries.wait_for_start(request, timeout_ms, self._now_ms)):
                self._refuse(request, error)
            return
        properties = request.properties
        if self._must_be_full and properties == PERIODIC:
            properties = FULL
        if request.is_periodic and request.requested_ms < self._now_ms:
            self._schedule_periodic()
        pending = PendingCheckpoint(
            self._next_id,
            properties,
            plan,
            triggered_ms=self._now_ms,
            deadline_ms=request.deadline_ms or self._now_ms + self._options.timeout_ms,
            request=request,
        )
        self._next_id += 1
        self._pending[pending.checkpoint_id] = pending
        self.statistics.triggered(pending)
        self._out.append(fx.MakeLocation(pending.checkpoint_id, properties, request.target_directory))

    # The course of a checkpoint

    @_returns_effects
    def location_made(self, checkpoint_id: int, location: CheckpointStorageLocation) -> None:
        pending = self._pending.get(checkpoint_id)
        if pending is None:  # it was aborted meanwhile
            self._out.append(fx.DiscardCheckpoint(checkpoint_id, location))
            return
        if pending.phase is not Phase.PREPARING:
            return
        pending.location = location
        pending.options = self._options.for_tasks(pending.properties, location.for_tasks)
        pending.enter(Phase.SNAPSHOTTING_COORDINATORS)
        self._out.append(fx.SnapshotCoordinators(pending.checkpoint_id))

    @_returns_effects
    def location_failed(self, checkpoint_id: int, error: FlinkError) -> None:
        pending = self._pending.get(checkpoint_id)
        if pending is not None and pending.phase is Phase.PREPARING:
            self._abort(pending, checkpoint_error(Reason.IO_EXCEPTION, str(error), error))

    @_returns_effects
    def coordinators_snapshotted(self, checkpoint_id: int, states: Mapping[str, bytes | None]) -> None:
        """Handles the states of all coordinators by operator id. Their earlier events have arrived."""
        pending = self._pending.get(checkpoint_id)
        if pending is None or pending.phase is not Phase.SNAPSHOTTING_COORDINATORS:
            return
        for attempt in pending.plan.tasks_to_wait_for:
            if not self._runs(attempt):
                reason = Reason.NOT_ALL_REQUIRED_TASKS_RUNNING
                error = checkpoint_error(reason, f"{attempt} ended while it was being triggered.")
                self._abort(pending, error, transient_task=attempt)
                return
        assert pending.options is not None
        pending.coordinator_states.update(states)
        pending.enter(Phase.WAITING)
        self._out.append(
            fx.TriggerTasks(pending.checkpoint_id, pending.triggered_ms, pending.options, pending.plan.tasks_to_trigger)
        )

    @_returns_effects
    def coordinator_snapshot_failed(self, checkpoint_id: int, error: FlinkError) -> None:
        pending = self._pending.get(checkpoint_id)
        if pending is not None and pending.phase is Phase.SNAPSHOTTING_COORDINATORS:
            self._abort(pending, checkpoint_error(Reason.TRIGGER_CHECKPOINT_FAILURE, str(error), error))

    @_returns_effects
    def triggers_answered(self, checkpoint_id: int) -> None:
        """Records that each TaskExecutor was told to trigger the checkpoint, or could not be reached."""
        pending = self._pending.get(checkpoint_id)
        if pending is not None and pending.are_tasks_triggered and pending.is_triggering:
            self._triggering_done(pending)
            self._proceed_without_finished_tasks(pending)

    def _triggering_done(self, pending: PendingCheckpoint) -> None:
        if pending.is_triggering:
            pending.is_triggering = False
            if pending.phase is not Phase.PREPARING:
                self._out.append(fx.ReleaseEvents(pending.checkpoint_id))

    @_returns_effects
    def acknowledge(
        self,
        attempt: ExecutionAttemptID,
        checkpoint_id: int,
        state: pb.TaskStateSnapshot,
        metrics: pb.CheckpointMetrics,
    ) -> None:
        pending = self._pending.get(checkpoint_id)
        if pending is None:
            # If the checkpoint is complete, this is a repetition and its state is in use.
            if checkpoint_id < self._next_id and self._completed_ids.is_known_failed(checkpoint_id):
                self._out.append(fx.DiscardState((state,)))
            return
        outcome = pending.acknowledge(attempt, state, metrics, self._now_ms)
        if outcome is AckOutcome.FOREIGN:
            self._out.append(fx.DiscardState((state,)))
        elif outcome is AckOutcome.TAKEN and pending.is_fully_acknowledged:
            self._finalize(pending)

    def _finalize(self, pending: PendingCheckpoint) -> None:
        operator = pending.partly_finished_union(self._job)
        if operator is not None:
            detail = f"Some subtasks of operator {operator!r}, which has union list state, have finished."
            self._abort(pending, checkpoint_error(Reason.CHECKPOINT_DECLINED_TASK_CLOSING, detail))
            return
        if pending.properties.counts_for_recovery and any(
            other.checkpoint_id > pending.checkpoint_id and other.phase is Phase.FINALIZING
            for other in self._pending.values()
        ):
            self._abort(pending, checkpoint_error(Reason.CHECKPOINT_SUBSUMED))
            return
        assert pending.location is not None
        pending.enter(Phase.FINALIZING)
        self._triggering_done(pending)  # every task has received its barrier
        pending.metadata = pending.build_metadata(self._job)
        self._out.append(
            fx.FinalizeCheckpoint(pending.checkpoint_id, pending.properties, pending.location, pending.metadata)
        )

    @_returns_effects
    def decline(self, attempt: ExecutionAttemptID, checkpoint_id: int, error: FlinkError) -> None:
        pending = self._pending.get(checkpoint_id)
        if pending is None or pending.phase is not Phase.WAITING or attempt not in pending.missing:
            return
        reason = failure_reason(error)
        error = checkpoint_error(reason, f"{attempt}: {error}", error)
        if reason not in _STARTING_OR_ENDING:
            self._abort(pending, error)
        elif not pending.properties.is_synchronous:
            self._abort(pending, error, transient_task=attempt)
        else:
            # Other tasks may already wait after their barriers. The job reports how this task ends, and closing its
            # operators may take long. A task that is not ready may never have run, so nothing may be reported of it.
            pending.closing.add(attempt)
            if reason is Reason.CHECKPOINT_DECLINED_TASK_NOT_READY:
                pending.finished_early.setdefault(attempt, self._now_ms + FINISHED_ACK_GRACE_MS)
            self._proceed_without_finished_tasks(pending)

    def _proceed_without_finished_tasks(self, pending: PendingCheckpoint) -> None:
        """Continues a stop-with-savepoint without finished tasks. Other checkpoints are planned again instead."""
        if pending.phase is not Phase.WAITING or pending.is_triggering or not pending.properties.is_synchronous:
            return
        to_trigger = pending.leave_out_finished(self._job)
        if pending.is_fully_acknowledged:
            self._finalize(pending)
        elif to_trigger:
            assert pending.options is not None
            self._out.append(fx.TriggerTasks(pending.checkpoint_id, pending.triggered_ms, pending.options, to_trigger))

    @_returns_effects
    def finalized(self, checkpoint_id: int, external_path: str, retained_ids: tuple[int, ...] = ()) -> None:
        """Completes a checkpoint whose metadata and pointer are durable. `retained_ids`: the retained checkpoints."""
        pending = self._pending.get(checkpoint_id)
        if pending is None or pending.phase is not Phase.FINALIZING:
            return
        assert pending.location is not None
        pending.enter(Phase.COMPLETED)
        del self._pending[pending.checkpoint_id]
        self._completed_ids.add(pending.checkpoint_id)
        self._last_completion_ms = self._now_ms
        self.statistics.completed(pending, external_path, self._now_ms)
        self.statistics.retained(retained_ids)
        if pending.properties.counts_for_recovery:
            self._use_for_recovery(pending, external_path)
        result = pb.CheckpointResult(checkpoint_id=pending.checkpoint_id, path=external_path)
        stop = self._stop if pending.properties.is_synchronous else None
        if stop is None:
            self._answer(pending.trigger_id, result=result)
        else:
            stop.result = result  # the request is answered when the job has ended
            if stop.has_failed:
                self._stop = None
                self._answer(stop.trigger_id, error=stop.error(stop.cause))

    def _use_for_recovery(self, pending: PendingCheckpoint, external_path: str) -> None:
        """Makes a complete checkpoint the restore point of the job, and confirms it to the tasks."""
        self._failures.completed(pending.checkpoint_id)
        self._must_be_full = False
        assert pending.metadata is not None
        if self.latest is None or self.latest.checkpoint_id < pending.checkpoint_id:
            self.latest = CompletedCheckpoint(pending.metadata, external_path)
        older = [other for other in self._pending.values() if other.checkpoint_id < pending.checkpoint_id]
        for other in older:
            if not other.properties.is_forced and other.phase is not Phase.FINALIZING:
                self._abort(other, checkpoint_error(Reason.CHECKPOINT_SUBSUMED))
        attempts = self._still_running(pending.plan.tasks_to_commit_to)
        self._out.append(fx.ConfirmCheckpoint(pending.checkpoint_id, pending.triggered_ms, attempts))

    @_returns_effects
    def finalization_failed(self, checkpoint_id: int, error: FlinkError) -> None:
        """Aborts a checkpoint whose metadata or pointer could not be written. No pointer to it exists."""
        pending = self._pending.get(checkpoint_id)
        if pending is not None and pending.phase is Phase.FINALIZING:
            self._abort(pending, checkpoint_error(Reason.FINALIZE_CHECKPOINT_FAILURE, str(error), error))

    # Failed checkpoints

    def _abort_all(self, error: CheckpointError) -> None:
        """Aborts all checkpoints except those being finalized, and refuses all waiting requests."""
        for pending in list(self._pending.values()):
            if pending.phase is not Phase.FINALIZING:
                self._abort(pending, error)
        for request in [*self._decider.take_all(), *self._retries.take_all()]:
            self._answer_failure(request.trigger_id, request.properties, error, are_tasks_triggered=False)

    def _abort(
        self, pending: PendingCheckpoint, error: CheckpointError, *, transient_task: ExecutionAttemptID | None = None
    ) -> None:
        """Aborts a checkpoint.

        Args:
            transient_task: the task whose start or end is the only reason. The request is then tried again, because
                another checkpoint may succeed.
        """
        were_triggered = pending.are_tasks_triggered
        self._triggering_done(pending)
        pending.enter(Phase.ABORTED)
        del self._pending[pending.checkpoint_id]
        attempts = self._still_running(pending.plan.tasks_to_commit_to) if were_triggered else ()
        latest_id = 0 if self.latest is None else self.latest.checkpoint_id
        self._out.append(
            fx.AbortCheckpoint(pending.checkpoint_id, pending.triggered_ms, latest_id, attempts, str(error))
        )
        self._out.append(fx.DiscardCheckpoint(pending.checkpoint_id, pending.location))
        if pending.acks:
            self._out.append(fx.DiscardState(tuple(ack.state for ack in pending.acks.values())))
        self.statistics.failed(pending, error, self._now_ms)
        if self._is_running:
            self._end_of_data.failed(self._now_ms)
        is_tried_again = (
            transient_task is not None
            and not (were_triggered and pending.properties.is_synchronous)
            and self._retries.try_again(pending.request, transient_task, pending.deadline_ms, self._now_ms)
        )
        if not is_tried_again:
            self._answer_failure(pending.trigger_id, pending.properties, error, are_tasks_triggered=were_triggered)
        failure = self._failures.failed(pending.checkpoint_id, pending.properties, error)
        if failure is not None and self._is_running:
            self._out.append(fx.FailJob(failure))

    def _answer(
        self, trigger_id: str, result: pb.CheckpointResult | None = None, error: FlinkError | None = None
    ) -> None:
        """Answers a request, but only once."""
        if trigger_id in self._open_requests:
            self._open_requests.remove(trigger_id)
            self._out.append(fx.AnswerRequest(trigger_id, result, error))

    def _answer_failure(
        self, trigger_id: str, properties: CheckpointProperties, error: FlinkError, *, are_tasks_triggered: bool
    ) -> None:
        self._answer(trigger_id, error=error)
        if not properties.is_synchronous or self._stop is None:
            return
        self._stop = None
        if are_tasks_triggered and self._is_running:
            failure = CheckpointError(f"stop-with-savepoint failed: {error}", details=error.details)
            failure.__cause__ = error
            self._out.append(fx.FailJob(failure))
        self._start_periodic()

    # Time

    @_returns_effects
    def check_timers(self) -> None:
        """Runs the timers that are due. Called when `next_deadline_ms` has passed."""
        now_ms = self._now_ms
        for pending in list(self._pending.values()):
            if pending.phase is Phase.FINALIZING:
                continue
            gone = [attempt for attempt, until_ms in pending.finished_early.items() if until_ms <= now_ms]
            if gone:
                error = checkpoint_error(
                    Reason.CHECKPOINT_DECLINED_TASK_CLOSING, f"{gone[0]} finished without an acknowledgement."
                )
                self._abort(pending, error, transient_task=gone[0])
            elif pending.deadline_ms <= now_ms:
                detail = f"{len(pending.missing)} of {len(pending.plan.tasks_to_wait_for)} tasks did not acknowledge."
                self._abort(pending, checkpoint_error(Reason.CHECKPOINT_EXPIRED, detail))
        if self._end_of_data.is_retry_due(now_ms):
            self._request_final_checkpoint()
        if self._next_periodic_ms is not None and self._next_periodic_ms <= now_ms:
            self._schedule_periodic()
            self._submit(PERIODIC, is_periodic=True)

    # Tasks

    def _runs(self, attempt: ExecutionAttemptID) -> bool:
        current, state = self._job.task(attempt.vertex)
        return current == attempt and state is ExecutionState.RUNNING

    def _has_finished(self, attempt: ExecutionAttemptID) -> bool:
        return self._job.task(attempt.vertex) == (attempt, ExecutionState.FINISHED)

    def _still_running(self, attempts: Iterable[ExecutionAttemptID]) -> tuple[ExecutionAttemptID, ...]:
        return tuple(attempt for attempt in attempts if self._runs(attempt))
