"""The states of the adaptive scheduler, one class each.

```
  Created -> WaitingForResources <-> CreatingExecutionGraph -> Executing <-> StopWithSavepoint
                   ^                          ^                  |   |             |
                   |                          |    another parallelism            |
                   |                          +---------------- Restarting <-------+
                   +------------------ after a failure ------------+
      any state --cancel--> Canceling --+
      any state --failure--> Failing ---+--> Finished <-- all tasks have finished
```

A state gets events, asks its context, and tells it to enter another state. The context does the rest: it deploys and
cancels tasks, and holds slots. Flink's Failing and Canceling after a state without tasks pass at once, because there
is nothing to wait for.

Pure: times are passed in, and `advance` is called after every event.

Source: org.apache.flink.runtime.scheduler.adaptive.{Created,WaitingForResources,CreatingExecutionGraph,Executing,
Restarting,Canceling,Failing,StopWithSavepoint,Finished,AdaptiveScheduler.Settings}.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from flinkpy.common.errors import FlinkError
from flinkpy.jobmaster.failover.execution_failure_handler import FailJob, Restart, is_unrecoverable
from flinkpy.jobmaster.scheduler.adaptive.state_transition_manager import StateTransitionManager


@dataclass(frozen=True, slots=True)
class AdaptiveSchedulerOptions:
    """The options of the adaptive scheduler. Defaults are Flink's for a job that is not reactive.

    Attributes:
        resource_wait_timeout_ms: None: the job waits for slots without end.
        rescale_max_delay_ms: how long a rescale waits for a completed checkpoint.
    """

    is_enabled: bool = False
    is_reactive: bool = False
    resource_wait_timeout_ms: int | None = 300_000
    submission_stabilization_timeout_ms: int = 10_000
    executing_cooldown_ms: int = 30_000
    executing_stabilization_timeout_ms: int = 60_000
    rescale_max_checkpoint_failures: int = 2
    rescale_max_delay_ms: int = 0
    prefers_minimal_task_managers: bool = True


class Context(Protocol):
    """The scheduler, as its states see it."""

    adaptive_options: AdaptiveSchedulerOptions

    @property
    def now_ms(self) -> int: ...

    # Questions

    def has_desired_resources(self) -> bool: ...

    def has_sufficient_resources(self) -> bool: ...

    def would_change_parallelism(self) -> bool:
        """True if the job would get another parallelism with the slots and requirements that there are."""

    @property
    def may_restore(self) -> bool:
        """True if the checkpoint to restore is known."""

    @property
    def are_all_tasks_terminal(self) -> bool: ...

    @property
    def have_restarted_tasks_ended(self) -> bool: ...

    @property
    def is_restart_partial(self) -> bool:
        """True if the job restarts, but not all of its tasks."""

    @property
    def have_all_tasks_finished(self) -> bool: ...

    @property
    def is_stopping_with_savepoint(self) -> bool: ...

    def how_to_handle_failure(self, cause: FlinkError) -> Restart | FailJob: ...

    def trigger_checkpoint(self) -> bool:
        """Triggers a checkpoint, from which a rescale continues, unless one is being taken.

        Returns False if there is none, for example because tasks are still starting.
        """

    # Actions, each of which ends in another state

    def go_to_waiting_for_resources(self) -> None: ...

    def go_to_creating_execution_graph(self, *, is_last_try: bool = False) -> None: ...

    def go_to_executing(self) -> None:
        """Deploys a new generation of the stopped subtasks with the slots that there are."""

    def return_to_executing(self) -> None:
        """Enters Executing with the tasks that are running."""

    def go_to_restarting(self, delay_ms: int, *, cause: FlinkError | None) -> None:
        """Stops all tasks."""

    def go_to_rescaling(self) -> None:
        """Stops the tasks that cannot go on with the parallelism that the job would get now."""

    def go_to_stop_with_savepoint(self) -> None: ...

    def go_to_canceling(self) -> None: ...

    def go_to_failing(self, cause: FlinkError) -> None: ...

    def go_to_finished(self) -> None: ...

    def not_enough_resources(self) -> FlinkError:
        """Returns the error of a job that lacks slots."""


class State:
    """The base of the states. It ignores all events but a cancellation."""

    def __init__(self, context: Context) -> None:
        self.context = context

    @property
    def name(self) -> str:
        return type(self).__name__

    @property
    def next_deadline_ms(self) -> int | None:
        """The time at which `advance` must be called. None if the state waits only for events."""
        return None

    def advance(self) -> None:
        """Makes the transition that the last event or the time has made possible."""

    def start_scheduling(self) -> None:
        """Starts the job."""

    def cancel(self) -> None:
        self.context.go_to_canceling()

    def handle_failure(self, cause: FlinkError) -> None:
        """Handles a failure of a task or of the whole job."""

    def on_change(self) -> None:
        """Handles new slots or new requirements."""

    def on_checkpoint_completed(self) -> None:
        """Handles the completion of a checkpoint."""

    def on_checkpoint_failed(self) -> None:
        """Handles the failure of a checkpoint."""


class Created(State):
    """The JobMaster is loading the job."""

    def start_scheduling(self) -> None:
        self.context.go_to_waiting_for_resources()

    def handle_failure(self, cause: FlinkError) -> None:
        self.context.go_to_failing(cause)


class WaitingForResources(State):
    """The job has no tasks and waits for slots: for all desired ones, then for enough, then it makes a last try."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        options = context.adaptive_options
        timeout_ms = options.resource_wait_timeout_ms
        self._deadline_ms = None if timeout_ms is None else context.now_ms + timeout_ms
        self._is_leaving = False
        self._manager = StateTransitionManager(
            self,
            cooldown_until_ms=None,
            stabilization_timeout_ms=options.submission_stabilization_timeout_ms,
            max_trigger_delay_ms=0,
        )
        self._manager.on_change(context.now_ms)

    @property
    def next_deadline_ms(self) -> int | None:
        deadlines = (self._deadline_ms, self._manager.next_deadline_ms)
        return min([at for at in deadlines if at is not None], default=None)

    def advance(self) -> None:
        self._manager.check_deadlines(self.context.now_ms)
        if self._is_leaving:
            self.context.go_to_creating_execution_graph()
        elif self._deadline_ms is not None and self._deadline_ms <= self.context.now_ms:
            self.context.go_to_creating_execution_graph(is_last_try=True)

    def on_change(self) -> None:
        self._manager.on_change(self.context.now_ms)

    def handle_failure(self, cause: FlinkError) -> None:
        _fail_if_final(self.context, cause)

    def has_desired_resources(self) -> bool:
        return self.context.has_desired_resources()

    def has_sufficient_resources(self) -> bool:
        return self.context.has_sufficient_resources()

    def transition_to_subsequent_state(self) -> None:
        self._is_leaving = True


class CreatingExecutionGraph(State):
    """The job has slots, and waits until the checkpoint that it restores is known.

    Args:
        is_last_try: the job fails if the slots do not suffice; else it waits for resources again.
    """

    def __init__(self, context: Context, *, is_last_try: bool) -> None:
        super().__init__(context)
        self._is_last_try = is_last_try

    def advance(self) -> None:
        if not self.context.may_restore:
            return
        if self.context.has_sufficient_resources():
            self.context.go_to_executing()
        elif self._is_last_try:
            self.context.go_to_failing(self.context.not_enough_resources())
        elif self.context.is_restart_partial:
            self.context.go_to_restarting(0, cause=None)
        else:
            self.context.go_to_waiting_for_resources()

    def handle_failure(self, cause: FlinkError) -> None:
        _restart_rest_or_fail_if_final(self.context, cause)


class _WithTasks(State):
    """The tasks of the job run."""

    def handle_failure(self, cause: FlinkError) -> None:
        _restart_or_fail(self.context, cause)


class Executing(_WithTasks):
    """The tasks run. When slots or requirements change, the job gets another parallelism at a good moment.

    The best moment is right after a checkpoint. It is triggered at once, where Flink waits for the next periodic one.

    Args:
        deployed_ms: when the tasks were deployed, from which the cooldown counts.
    """

    def __init__(self, context: Context, deployed_ms: int) -> None:
        super().__init__(context)
        options = context.adaptive_options
        self._is_leaving = False
        #: How many checkpoints may still fail before a rescale that waits for one begins; None: none waits.
        self._failures_left: int | None = None
        #: True if a checkpoint has been triggered for the rescale that waits for one.
        self._is_checkpoint_triggered = False
        self._manager = StateTransitionManager(
            self,
            cooldown_until_ms=deployed_ms + options.executing_cooldown_ms,
            stabilization_timeout_ms=options.executing_stabilization_timeout_ms,
            max_trigger_delay_ms=options.rescale_max_delay_ms,
        )
        self.on_change()  # slots that came while the graph was created

    @property
    def next_deadline_ms(self) -> int | None:
        return self._manager.next_deadline_ms

    def advance(self) -> None:
        if self.context.have_all_tasks_finished:
            self.context.go_to_finished()
            return
        if self.context.is_stopping_with_savepoint:
            self.context.go_to_stop_with_savepoint()
            return
        self._manager.check_deadlines(self.context.now_ms)
        if self._is_leaving:
            self.context.go_to_rescaling()
        elif not self._manager.waits_for_trigger:
            self._is_checkpoint_triggered = False
        elif not self._is_checkpoint_triggered:
            self._is_checkpoint_triggered = self.context.trigger_checkpoint()

    def on_change(self) -> None:
        if self._failures_left is None:
            self._failures_left = self.context.adaptive_options.rescale_max_checkpoint_failures
        self._manager.on_change(self.context.now_ms)

    def on_checkpoint_completed(self) -> None:
        self._failures_left = None
        self._manager.on_trigger(self.context.now_ms)

    def on_checkpoint_failed(self) -> None:
        self._is_checkpoint_triggered = False
        if self._failures_left is None:
            return
        self._failures_left -= 1
        if self._failures_left <= 0:
            self._failures_left = None
            self._manager.on_trigger(self.context.now_ms)

    def has_desired_resources(self) -> bool:
        return self.context.would_change_parallelism() and self.context.has_desired_resources()

    def has_sufficient_resources(self) -> bool:
        return self.context.has_sufficient_resources() and self.context.would_change_parallelism()

    def transition_to_subsequent_state(self) -> None:
        self._is_leaving = True


class StopWithSavepoint(_WithTasks):
    """A stop-with-savepoint is running. The parallelism stays. If the savepoint fails, the job goes on."""

    def advance(self) -> None:
        if self.context.have_all_tasks_finished:
            self.context.go_to_finished()
        elif not self.context.is_stopping_with_savepoint:
            self.context.return_to_executing()


class Restarting(State):
    """Tasks are being canceled. When the last of them has ended and the delay is over, the job continues.

    Args:
        due_ms: the end of the delay that the restart strategy demands.
        is_rescale: True if the job has the slots for its next parallelism. Tasks that it does not concern go on.
    """

    def __init__(self, context: Context, due_ms: int, *, is_rescale: bool) -> None:
        super().__init__(context)
        self._due_ms = due_ms
        self._is_rescale = is_rescale

    @property
    def next_deadline_ms(self) -> int | None:
        # A restart that is due waits only for its tasks.
        return self._due_ms if self._due_ms > self.context.now_ms else None

    def advance(self) -> None:
        if self._due_ms > self.context.now_ms or not self.context.have_restarted_tasks_ended:
            return
        if self._is_rescale:
            self.context.go_to_creating_execution_graph()
        else:
            self.context.go_to_waiting_for_resources()

    def handle_failure(self, cause: FlinkError) -> None:
        _restart_rest_or_fail_if_final(self.context, cause)


class Canceling(State):
    """The job is being canceled, and waits for its tasks."""

    def cancel(self) -> None:
        """No effect: it is being canceled."""

    def advance(self) -> None:
        if self.context.are_all_tasks_terminal:
            self.context.go_to_finished()


class Failing(State):
    """The job is failing, and waits for its tasks."""

    def advance(self) -> None:
        if self.context.are_all_tasks_terminal:
            self.context.go_to_finished()


class Finished(State):
    """The job has ended."""

    def cancel(self) -> None:
        """No effect: it has ended."""


def _fail_if_final(context: Context, cause: FlinkError) -> None:
    """Fails a job that is about to restart if no restart would cure this failure, too."""
    if is_unrecoverable(cause):
        context.go_to_failing(cause)


def _restart_or_fail(context: Context, cause: FlinkError) -> None:
    decision = context.how_to_handle_failure(cause)
    if isinstance(decision, FailJob):
        context.go_to_failing(cause)
    else:
        context.go_to_restarting(decision.delay_ms, cause=cause)


def _restart_rest_or_fail_if_final(context: Context, cause: FlinkError) -> None:
    """Handles a failure while a restart is being made, which may leave other tasks alone: these restart, too."""
    if context.is_restart_partial:
        _restart_or_fail(context, cause)
    else:
        _fail_if_final(context, cause)
