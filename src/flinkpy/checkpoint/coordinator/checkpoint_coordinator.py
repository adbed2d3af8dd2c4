"""CheckpointCoordinator: the machine that takes the checkpoints of one job.

`handle(event, now_ms)` is called with everything that happens and returns what is to be done, in order;
`next_deadline_ms` says when `CheckpointTimersDue` is wanted. The rules:

  * One checkpoint at a time is being triggered; as many as `max-concurrent-checkpoints` are in progress. An id is used
    once: it is made durable before anything is done under it.
  * A checkpoint counts when its metadata and the pointer to it are durable (CheckpointFinalized), not before: only then
    is anybody told, and older ones in progress are over. While that is being written (`is_finalizing`), nothing but the
    writing decides about it, and nothing may be restored, for one does not know from what.
  * When tasks stop, for whatever reason, everything in progress is aborted, and nothing begins before all run again.
  * What a task reports for a checkpoint that is over without having been completed is deleted.
  * stop-with-savepoint ends periodic checkpoints. Once tasks may have seen it there is no way back but a restart of the
    whole job, because a task that has passed its barrier stands still.
  * A job at the end of its data takes one more checkpoint at once: its tasks wait for it.
  * What a client asked for is not refused because the job is starting or restarting, or a task was just finishing: it
    is planned anew, for some time and some times. A stop-with-savepoint that tasks may have seen goes on, with such a
    task as finished.

Source: org.apache.flink.runtime.checkpoint.CheckpointCoordinator. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from typing import Any

from flinkpy._proto import checkpoint_pb2 as pb
from flinkpy.checkpoint.completed_checkpoint import CompletedCheckpoint
from flinkpy.checkpoint.coordinator import effects as fx
from flinkpy.checkpoint.coordinator import events as ev
from flinkpy.checkpoint.coordinator.checkpoint_failure_manager import CheckpointFailureManager
from flinkpy.checkpoint.coordinator.checkpoint_plan import calculate_plan, may_have_plan_later
from flinkpy.checkpoint.coordinator.checkpoint_properties import FULL, PERIODIC, CheckpointProperties
from flinkpy.checkpoint.coordinator.checkpoint_request_decider import CheckpointRequest, CheckpointRequestDecider
from flinkpy.checkpoint.coordinator.checkpoint_stats_tracker import CheckpointStatsTracker
from flinkpy.checkpoint.coordinator.completed_ids import CompletedIds
from flinkpy.checkpoint.coordinator.coordinator_configuration import CheckpointCoordinatorOptions
from flinkpy.checkpoint.coordinator.end_of_data import EndOfData
from flinkpy.checkpoint.coordinator.job_view import JobView
from flinkpy.checkpoint.coordinator.pending_checkpoint import AckOutcome, PendingCheckpoint, Phase
from flinkpy.checkpoint.coordinator.request_retries import RequestRetries
from flinkpy.checkpoint.coordinator.stop_with_savepoint import StopWithSavepoint
from flinkpy.common.checkpoint_failure_reason import CheckpointFailureReason as Reason
from flinkpy.common.checkpoint_failure_reason import checkpoint_error, failure_reason
from flinkpy.common.errors import CheckpointError, FlinkError
from flinkpy.common.ids import ExecutionAttemptID
from flinkpy.common.states import ExecutionState

#: A task that finished after its barrier has sent its acknowledgement before, which may be overtaken on its way, or
#: sent again. After this it is not coming.
FINISHED_ACK_GRACE_MS = 10_000

#: What a task says that is just starting or ending.
_TASK_IS_ON_ITS_WAY = (Reason.CHECKPOINT_DECLINED_TASK_CLOSING, Reason.CHECKPOINT_DECLINED_TASK_NOT_READY)


class CheckpointCoordinator:
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
        #: In progress, by id, oldest first.
        self._pending: dict[int, PendingCheckpoint] = {}
        self._completed_ids = CompletedIds()
        self._next_id = 1
        #: What a failed task is restored from; None: from the beginning.
        self.latest: CompletedCheckpoint | None = None
        #: Until the first checkpoint that shares nothing with a savepoint that is not ours (NO_CLAIM).
        self._must_be_full = False
        #: Every task runs or has finished: checkpoints can be taken.
        self._is_running = False
        self._has_ended = False
        self._stop: StopWithSavepoint | None = None
        #: Clients that wait for an answer.
        self._open_requests: set[str] = set()
        self._next_periodic_ms: int | None = None
        #: Ids of the sources that read a backlog.
        self._backlogs: set[str] = set()
        self._last_completion_ms: int | None = None
        self._end_of_data = EndOfData()
        self._now_ms = 0
        self._out: list[fx.CheckpointEffect] = []
        self._handlers: dict[type, Callable[[Any], None]] = {
            ev.AllTasksRunning: self._on_all_tasks_running,
            ev.TasksStopped: self._on_tasks_stopped,
            ev.TaskFinished: self._on_task_finished,
            ev.EndOfDataReached: self._on_end_of_data,
            ev.BacklogChanged: self._on_backlog_changed,
            ev.CheckpointRequested: self._on_requested,
            ev.LocationMade: self._on_location_made,
            ev.LocationFailed: self._on_location_failed,
            ev.CoordinatorsSnapshotted: self._on_coordinators_snapshotted,
            ev.CoordinatorSnapshotFailed: self._on_coordinator_snapshot_failed,
            ev.TriggersAnswered: self._on_triggers_answered,
            ev.CheckpointAcknowledged: self._on_acknowledged,
            ev.CheckpointDeclined: self._on_declined,
            ev.CheckpointFinalized: self._on_finalized,
            ev.FinalizationFailed: self._on_finalization_failed,
            ev.JobEnded: self._on_job_ended,
            ev.CheckpointTimersDue: self._on_timers_due,
        }

    def start_from(
        self, checkpoint: CompletedCheckpoint | None, next_checkpoint_id: int, *, must_be_full: bool
    ) -> None:
        """Before the job starts: what it begins from, and the first id that has never been used.

        `must_be_full`: the first checkpoint may not refer to files of that one.
        """
        self._next_id = max(self._next_id, next_checkpoint_id)
        if checkpoint is not None:
            self.latest = checkpoint
            self._must_be_full = must_be_full
            self._next_id = max(self._next_id, checkpoint.checkpoint_id + 1)
            self._completed_ids.add(checkpoint.checkpoint_id)

    def replace_latest(self, checkpoint: CompletedCheckpoint) -> None:
        """What was the latest has been found damaged. Only while tasks stand and nothing is being finalized."""
        assert not self._is_running and not self.is_finalizing
        self.latest = checkpoint

    def tasks_restored(self, now_ms: int) -> None:
        """Tasks are being deployed with what `latest` has for them."""
        latest = self.latest
        if latest is not None:
            self.statistics.restored(latest.checkpoint_id, latest.external_path, latest.is_savepoint, now_ms)

    def handle(self, event: ev.CheckpointEvent, now_ms: int) -> list[fx.CheckpointEffect]:
        self._now_ms = max(self._now_ms, now_ms)
        self._handlers[type(event)](event)
        self._trigger_what_may_begin()
        out, self._out = self._out, []
        return out

    # Readings

    @property
    def is_finalizing(self) -> bool:
        """Whether a checkpoint is about to count, or not: nothing may be restored before that is known."""
        return any(
            pending.phase is Phase.FINALIZING and pending.properties.counts_for_recovery
            for pending in self._pending.values()
        )

    @property
    def is_stopping(self) -> bool:
        """A stop-with-savepoint is under way."""
        return self._stop is not None

    @property
    def pending_ids(self) -> list[int]:
        return list(self._pending)

    @property
    def next_deadline_ms(self) -> int | None:
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
        """Assert every invariant."""
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
                assert pending.phase is Phase.FINALIZING, "nothing but a writing may be under way while tasks stand"
        if not self._is_running or self._stop is not None:
            assert self._next_periodic_ms is None
        waiting = self._retries.trigger_ids
        assert self._open_requests.issuperset(waiting)
        assert not {pending.trigger_id for pending in self._pending.values()}.intersection(waiting)

    # The job

    def _on_all_tasks_running(self, event: ev.AllTasksRunning) -> None:
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
        """0: there are no periodic checkpoints now. There is no sense in asking for them more often than the pause lets
        them begin.
        """
        interval_ms = self._options.interval_ms
        if interval_ms > 0 and self._backlogs and self._options.backlog_interval_ms is not None:
            interval_ms = self._options.backlog_interval_ms
        return max(interval_ms, self._options.min_pause_ms) if interval_ms > 0 else 0

    def _schedule_periodic(self) -> None:
        """The next one an interval from now."""
        self._next_periodic_ms = self._now_ms + self._interval_ms if self._interval_ms > 0 else None

    def _on_backlog_changed(self, event: ev.BacklogChanged) -> None:
        """A shorter interval counts at once, a longer one after the checkpoint that is due next."""
        before_ms = self._interval_ms
        if event.has_backlog:
            self._backlogs.add(event.operator_id)
        else:
            self._backlogs.discard(event.operator_id)
        interval_ms = self._interval_ms
        if interval_ms == before_ms or not self._is_running or self._stop is not None:
            return
        due_ms = self._next_periodic_ms
        if interval_ms == 0 or due_ms is None or due_ms > self._now_ms + interval_ms:
            self._schedule_periodic()

    def _on_tasks_stopped(self, event: ev.TasksStopped) -> None:
        self._is_running = False
        self._next_periodic_ms = None
        self._end_of_data.clear()
        stop = self._stop
        synchronous = [pending for pending in self._pending.values() if pending.properties.is_synchronous]
        do_tasks_stand = stop is not None and (
            stop.result is not None or any(pending.are_tasks_triggered for pending in synchronous)
        )
        self._abort_all(checkpoint_error(event.reason, cause=event.cause))
        if stop is None:
            return
        if any(pending.phase is Phase.FINALIZING for pending in synchronous):
            stop.has_failed, stop.cause = True, event.cause
        else:
            self._stop = None
            self._answer(stop.trigger_id, error=stop.error(event.cause))
        if do_tasks_stand:
            self._out.append(fx.FailJob(stop.error(event.cause)))

    def _on_job_ended(self, event: ev.JobEnded) -> None:
        self._has_ended = True
        self._is_running = False
        self._next_periodic_ms = None
        self._end_of_data.clear()
        stop, self._stop = self._stop, None
        if stop is not None and stop.result is not None and event.is_finished:
            self._answer(stop.trigger_id, result=stop.result)
        elif stop is not None:
            self._answer(stop.trigger_id, error=stop.error(event.cause))
        self._abort_all(checkpoint_error(Reason.CHECKPOINT_COORDINATOR_SHUTDOWN, cause=event.cause))

    def _on_task_finished(self, event: ev.TaskFinished) -> None:
        self._end_of_data.left(event.attempt)
        for pending in list(self._pending.values()):
            if pending.phase is Phase.WAITING and event.attempt in pending.missing:
                pending.finished_early[event.attempt] = self._now_ms + FINISHED_ACK_GRACE_MS
            self._go_on_without_finished(pending)
        self._request_final_checkpoint()

    def _on_end_of_data(self, event: ev.EndOfDataReached) -> None:
        if not self._options.is_periodic or not self._options.after_tasks_finish:
            return
        self._end_of_data.reached(attempt for attempt in event.attempts if self._runs(attempt))
        self._request_final_checkpoint()

    def _request_final_checkpoint(self) -> None:
        """Where every task that runs has processed everything."""
        if not self._is_running or self._stop is not None:
            return
        if self._end_of_data.should_request(self._running_tasks()):
            self._end_of_data.requested()
            self._submit(PERIODIC)

    def _running_tasks(self) -> set[ExecutionAttemptID]:
        tasks = (self._job.task(task) for vertex in self._job.vertices for task in vertex.tasks)
        return {attempt for attempt, state in tasks if not state.is_terminal}

    # Requests

    def _on_requested(self, event: ev.CheckpointRequested) -> None:
        if event.trigger_id in self._open_requests:
            return
        self._open_requests.add(event.trigger_id)
        properties = event.properties
        error = self._why_not_now(properties)
        if error is not None:
            self._answer(event.trigger_id, error=error)
            return
        if properties.is_synchronous:
            self._next_periodic_ms = None
            self._abort_all(checkpoint_error(Reason.CHECKPOINT_COORDINATOR_SUSPEND, "The job is being stopped."))
            self._stop = StopWithSavepoint(event.trigger_id)
        self._submit(properties, trigger_id=event.trigger_id, target_directory=event.target_directory)

    def _why_not_now(self, properties: CheckpointProperties) -> CheckpointError | None:
        """A request that cannot be met is refused before anything is stopped for it."""
        if self._has_ended:
            return checkpoint_error(Reason.CHECKPOINT_COORDINATOR_SHUTDOWN, "The job is over.")
        if self._stop is not None:
            return checkpoint_error(Reason.CHECKPOINT_COORDINATOR_SUSPEND, "A stop-with-savepoint is under way.")
        if not properties.is_synchronous:
            return None
        try:
            calculate_plan(self._job, after_tasks_finish=self._options.after_tasks_finish)
        except CheckpointError as error:
            return None if self._may_run_later else error
        return None

    @property
    def _may_run_later(self) -> bool:
        """True while the job starts or restarts: a request waits for that."""
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
        """It does not get an id, and does not count as a failure of the job: no reason to refuse a request does."""
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

    # A checkpoint on its way

    def _on_location_made(self, event: ev.LocationMade) -> None:
        pending = self._pending.get(event.checkpoint_id)
        if pending is None:  # aborted in the meantime
            self._out.append(fx.DiscardCheckpoint(event.checkpoint_id, event.location))
            return
        if pending.phase is not Phase.PREPARING:
            return
        pending.location = event.location
        pending.options = self._options.for_tasks(pending.properties, event.location.for_tasks)
        pending.enter(Phase.SNAPSHOTTING_COORDINATORS)
        self._out.append(fx.SnapshotCoordinators(pending.checkpoint_id))

    def _on_location_failed(self, event: ev.LocationFailed) -> None:
        pending = self._pending.get(event.checkpoint_id)
        if pending is not None and pending.phase is Phase.PREPARING:
            self._abort(pending, checkpoint_error(Reason.IO_EXCEPTION, str(event.error), event.error))

    def _on_coordinators_snapshotted(self, event: ev.CoordinatorsSnapshotted) -> None:
        pending = self._pending.get(event.checkpoint_id)
        if pending is None or pending.phase is not Phase.SNAPSHOTTING_COORDINATORS:
            return
        for attempt in pending.plan.tasks_to_wait_for:
            if not self._runs(attempt):
                reason = Reason.NOT_ALL_REQUIRED_TASKS_RUNNING
                error = checkpoint_error(reason, f"{attempt} ended while it was being triggered.")
                self._abort(pending, error, task_on_its_way=attempt)
                return
        assert pending.options is not None
        pending.coordinator_states.update(event.states)
        pending.enter(Phase.WAITING)
        self._out.append(
            fx.TriggerTasks(pending.checkpoint_id, pending.triggered_ms, pending.options, pending.plan.tasks_to_trigger)
        )

    def _on_coordinator_snapshot_failed(self, event: ev.CoordinatorSnapshotFailed) -> None:
        pending = self._pending.get(event.checkpoint_id)
        if pending is not None and pending.phase is Phase.SNAPSHOTTING_COORDINATORS:
            self._abort(pending, checkpoint_error(Reason.TRIGGER_CHECKPOINT_FAILURE, str(event.error), event.error))

    def _on_triggers_answered(self, event: ev.TriggersAnswered) -> None:
        pending = self._pending.get(event.checkpoint_id)
        if pending is not None and pending.are_tasks_triggered and pending.is_triggering:
            self._triggering_done(pending)
            self._go_on_without_finished(pending)

    def _triggering_done(self, pending: PendingCheckpoint) -> None:
        if pending.is_triggering:
            pending.is_triggering = False
            if pending.phase is not Phase.PREPARING:
                self._out.append(fx.ReleaseEvents(pending.checkpoint_id))

    def _on_acknowledged(self, event: ev.CheckpointAcknowledged) -> None:
        pending = self._pending.get(event.checkpoint_id)
        if pending is None:
            # Where it was completed this is a repetition, and the state is in use.
            if event.checkpoint_id < self._next_id and self._completed_ids.is_known_failed(event.checkpoint_id):
                self._out.append(fx.DiscardState((event.state,)))
            return
        outcome = pending.acknowledge(event.attempt, event.state, event.metrics, self._now_ms)
        if outcome is AckOutcome.FOREIGN:
            self._out.append(fx.DiscardState((event.state,)))
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
        self._triggering_done(pending)  # every task has its barrier
        pending.metadata = pending.build_metadata(self._job)
        self._out.append(
            fx.FinalizeCheckpoint(pending.checkpoint_id, pending.properties, pending.location, pending.metadata)
        )

    def _on_declined(self, event: ev.CheckpointDeclined) -> None:
        pending = self._pending.get(event.checkpoint_id)
        if pending is None or pending.phase is not Phase.WAITING or event.attempt not in pending.missing:
            return
        reason = failure_reason(event.error)
        error = checkpoint_error(reason, f"{event.attempt}: {event.error}", event.error)
        if reason not in _TASK_IS_ON_ITS_WAY:
            self._abort(pending, error)
        elif not pending.properties.is_synchronous:
            self._abort(pending, error, task_on_its_way=event.attempt)
        else:
            # Others may stand at their barriers already. We shall hear how this one ends.
            pending.closing.add(event.attempt)
            pending.finished_early.setdefault(event.attempt, self._now_ms + FINISHED_ACK_GRACE_MS)
            self._go_on_without_finished(pending)

    def _go_on_without_finished(self, pending: PendingCheckpoint) -> None:
        """Where the job is to stop with it. Others are planned anew."""
        if pending.phase is not Phase.WAITING or pending.is_triggering or not pending.properties.is_synchronous:
            return
        to_trigger = pending.leave_out_finished(self._job)
        if pending.is_fully_acknowledged:
            self._finalize(pending)
        elif to_trigger:
            assert pending.options is not None
            self._out.append(fx.TriggerTasks(pending.checkpoint_id, pending.triggered_ms, pending.options, to_trigger))

    def _on_finalized(self, event: ev.CheckpointFinalized) -> None:
        pending = self._pending.get(event.checkpoint_id)
        if pending is None or pending.phase is not Phase.FINALIZING:
            return
        assert pending.location is not None
        pending.enter(Phase.COMPLETED)
        del self._pending[pending.checkpoint_id]
        self._completed_ids.add(pending.checkpoint_id)
        self._last_completion_ms = self._now_ms
        self.statistics.completed(pending, event.external_path, self._now_ms)
        self.statistics.retained(event.retained_ids)
        if pending.properties.counts_for_recovery:
            self._count(pending, event.external_path)
        result = pb.CheckpointResult(checkpoint_id=pending.checkpoint_id, path=event.external_path)
        stop = self._stop if pending.properties.is_synchronous else None
        if stop is None:
            self._answer(pending.trigger_id, result=result)
        else:
            stop.result = result  # answered when the job has ended
            if stop.has_failed:
                self._stop = None
                self._answer(stop.trigger_id, error=stop.error(stop.cause))

    def _count(self, pending: PendingCheckpoint, external_path: str) -> None:
        """From now on the job is restored from this one."""
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

    def _on_finalization_failed(self, event: ev.FinalizationFailed) -> None:
        pending = self._pending.get(event.checkpoint_id)
        if pending is not None and pending.phase is Phase.FINALIZING:
            self._abort(pending, checkpoint_error(Reason.FINALIZE_CHECKPOINT_FAILURE, str(event.error), event.error))

    # The end of a checkpoint that is not completed

    def _abort_all(self, error: CheckpointError) -> None:
        """All but what is being written; what waits is refused."""
        for pending in list(self._pending.values()):
            if pending.phase is not Phase.FINALIZING:
                self._abort(pending, error)
        for request in [*self._decider.take_all(), *self._retries.take_all()]:
            self._answer_failure(request.trigger_id, request.properties, error, are_tasks_triggered=False)

    def _abort(
        self, pending: PendingCheckpoint, error: CheckpointError, *, task_on_its_way: ExecutionAttemptID | None = None
    ) -> None:
        """`task_on_its_way`: it fails for nothing but this one, which is ending, so that another may be completed."""
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
            task_on_its_way is not None
            and not (were_triggered and pending.properties.is_synchronous)
            and self._retries.try_again(pending.request, task_on_its_way, pending.deadline_ms, self._now_ms)
        )
        if not is_tried_again:
            self._answer_failure(pending.trigger_id, pending.properties, error, are_tasks_triggered=were_triggered)
        failure = self._failures.failed(pending.checkpoint_id, pending.properties, error)
        if failure is not None and self._is_running:
            self._out.append(fx.FailJob(failure))

    def _answer(
        self, trigger_id: str, result: pb.CheckpointResult | None = None, error: FlinkError | None = None
    ) -> None:
        """Once."""
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

    def _on_timers_due(self, event: ev.CheckpointTimersDue) -> None:
        now_ms = self._now_ms
        for pending in list(self._pending.values()):
            if pending.phase is Phase.FINALIZING:
                continue
            gone = [attempt for attempt, until_ms in pending.finished_early.items() if until_ms <= now_ms]
            if gone:
                error = checkpoint_error(Reason.CHECKPOINT_DECLINED_TASK_CLOSING, f"{gone[0]} finished without it.")
                self._abort(pending, error, task_on_its_way=gone[0])
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
