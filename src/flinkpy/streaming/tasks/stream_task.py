r"""StreamTask: runs one subtask of a job vertex on its task thread.

```
   CREATED -> INITIALIZING -> RUNNING -------> FINISHING -> FINISHED
      |            |             |  \-> SUSPENDED --/  |
      +------------+-------------+-----------+---------+----> CANCELED   (cancel())
      +------------+-------------+-----------+---------+----> FAILED     (an exception)
```

INITIALIZING restores and opens the operators, the last operator of the chain first. RUNNING is the mailbox loop. After
the last input it continues until no operator waits for the results of records that it has taken (asynchronous calls).
FINISHING finishes the operators in chain order and emits EndOfData. It then waits for sinks that have not finished and,
if checkpoints are enabled, for a checkpoint that contains the end of data. Then it closes the operators and ends the
partitions. Every operator that was opened is closed exactly once, whatever happens.

The snapshot of a stop-with-savepoint without drain makes the task SUSPENDED. It processes no more records. When the
savepoint is complete, it ends without finishing its operators, firing timers or emitting MAX_WATERMARK. With drain, the
sources first end as if their input had ended, and the savepoint is taken after the end of data. If a savepoint that is
to stop the job fails, the task fails.

Source: org.apache.flink.streaming.runtime.tasks.StreamTask.
"""

from __future__ import annotations

import enum
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flinkpy._proto import checkpoint_pb2
from flinkpy.common.checkpoint_failure_reason import CheckpointFailureReason, checkpoint_error
from flinkpy.common.errors import CheckpointError, InternalError, InvalidTransitionError, TypeMismatchError
from flinkpy.configuration import read_option
from flinkpy.configuration.checkpointing_options import CHECKPOINTS_AFTER_TASKS_FINISH, INTERVAL
from flinkpy.records.elements import CheckpointBarrier, EndOfData
from flinkpy.streaming.checkpoint.subtask_checkpoint_coordinator import SubtaskCheckpointCoordinator
from flinkpy.streaming.io.record_writer_output import RecordWriterOutput, create_record_writers
from flinkpy.streaming.mailbox.mailbox_processor import ActionStatus, MailboxProcessor, TaskTimes
from flinkpy.streaming.mailbox.task_mailbox import Mail, MailPriority, TaskMailbox
from flinkpy.streaming.tasks.environment import TaskEnvironment
from flinkpy.streaming.tasks.operator_chain import FinishedOperatorChain, OperatorChain
from flinkpy.streaming.tasks.processing_time_service import ProcessingTimeService
from flinkpy.streaming.tasks.task_metrics import io_metrics, register_task_metrics

if TYPE_CHECKING:
    from flinkpy.network.result_partition import ResultPartition

_LOG = logging.getLogger(__name__)

#: How many interrupts the clean-up survives. The watchdog sends one per `task.cancellation.interval`.
MAX_INTERRUPTS_WHILE_CLOSING = 100


class StreamTaskState(enum.Enum):
    CREATED = "CREATED"
    INITIALIZING = "INITIALIZING"
    RUNNING = "RUNNING"
    SUSPENDED = "SUSPENDED"
    FINISHING = "FINISHING"
    FINISHED = "FINISHED"
    CANCELED = "CANCELED"
    FAILED = "FAILED"

    @property
    def is_terminal(self) -> bool:
        return self in (StreamTaskState.FINISHED, StreamTaskState.CANCELED, StreamTaskState.FAILED)


_S = StreamTaskState
TRANSITIONS = frozenset(
    {
        (_S.CREATED, _S.INITIALIZING),
        (_S.INITIALIZING, _S.RUNNING),
        (_S.RUNNING, _S.FINISHING),
        (_S.RUNNING, _S.SUSPENDED),
        (_S.SUSPENDED, _S.FINISHING),
        (_S.FINISHING, _S.FINISHED),
        *((state, end) for state in list(_S)[:5] for end in (_S.CANCELED, _S.FAILED)),
    }
)


class CancelTaskError(Exception):
    """Raised by `invoke` if the task was cancelled."""


#: Savepoints that stop the job. The tasks wait until they are complete.
_SYNC_KINDS = (checkpoint_pb2.SYNC_SAVEPOINT_SUSPEND, checkpoint_pb2.SYNC_SAVEPOINT_TERMINATE)


class CheckpointProgress:
    """The checkpoints of a task, as far as its end depends on them. Pure.

    Attributes:
        completed_id: the newest checkpoint that the task knows to be complete.
        savepoint_at_end: a savepoint to take as soon as the end of data has been emitted.
    """

    def __init__(self) -> None:
        self.completed_id = 0
        self.savepoint_at_end: CheckpointBarrier | None = None
        #: The first checkpoint taken after the end of data. The task may end when it or a later one is complete.
        self._first_final_id: int | None = None
        #: The savepoint that stops the task, once its snapshot has been taken.
        self._sync_savepoint_id: int | None = None

    def on_taken(self, barrier: CheckpointBarrier, *, is_at_end: bool) -> bool:
        """Records that the task has taken its snapshot. Returns True if it must process no more records."""
        if is_at_end and self._first_final_id is None:
            self._first_final_id = barrier.checkpoint_id
        if barrier.options is None or barrier.options.kind not in _SYNC_KINDS:
            return False
        self._sync_savepoint_id = barrier.checkpoint_id
        return barrier.options.kind == checkpoint_pb2.SYNC_SAVEPOINT_SUSPEND and not is_at_end

    def on_complete(self, checkpoint_id: int) -> bool:
        """Records that a checkpoint is complete. Returns False if it or a later one was known to be complete."""
        if checkpoint_id <= self.completed_id:
            return False
        self.completed_id = checkpoint_id
        return True

    def needs(self, checkpoint_id: int) -> bool:
        """True if the task stops for this savepoint, so that it cannot continue if the savepoint fails."""
        at_end = self.savepoint_at_end
        return checkpoint_id == self._sync_savepoint_id or (
            at_end is not None and at_end.checkpoint_id == checkpoint_id
        )

    @property
    def is_savepoint_complete(self) -> bool:
        """True unless a savepoint that stops the task is in progress."""
        return self._sync_savepoint_id is None or self.completed_id >= self._sync_savepoint_id

    @property
    def is_end_complete(self) -> bool:
        """True if a complete checkpoint contains the task's end of data."""
        return self._first_final_id is not None and self.completed_id >= self._first_final_id


class StreamTask(ABC):
    """Runs one subtask.

    Thread: `invoke` runs on the task thread. Any thread may call `cancel`, `dispatch_operator_event`, `metrics` and
    `state`, and deliver the messages of checkpoints (trigger, complete, aborted).

    Attributes:
        state: only the task thread changes it.
    """

    def __init__(self, environment: TaskEnvironment) -> None:
        self.environment = environment
        self.state = StreamTaskState.CREATED
        self.mailbox = TaskMailbox(environment.clock)
        self.times = TaskTimes(environment.clock)
        times = self.times
        self.processing_time_service = ProcessingTimeService(environment.clock, lambda: times.back_pressured_ns)
        #: Timers of the runtime itself. They still fire after the timers of the operators have ended.
        self.system_timers = ProcessingTimeService(environment.clock)
        self._clock = environment.clock
        self._chain: OperatorChain | FinishedOperatorChain | None = None
        self._checkpoints: SubtaskCheckpointCoordinator | None = None
        self._progress = CheckpointProgress()
        #: Triggers that wait in the mailbox. The thread that removes one from here begins or refuses it.
        self._open_triggers: dict[int, CheckpointBarrier] = {}
        self._writers: list[RecordWriterOutput] = []
        self._cancel_requested = False
        self._running_since_ns: int | None = None
        #: How long the barriers of the last checkpoint took from the first channel to the last.
        self.last_alignment_ns = 0
        #: How long after its trigger the last checkpoint reached this task.
        self.last_start_delay_ns = 0
        #: The times that the stages of the initialization took, by Flink's names. Complete when the task runs.
        self.initialization: dict[str, int] = {}
        self._processor = MailboxProcessor(
            self.mailbox,
            self.times,
            environment.clock,
            default_action=self.process_input,
            on_idle=self._flush,
            next_deadline_ns=self._next_deadline_ns,
            on_deadline=self._on_deadline,
        )

    # -- for subclasses ------------------------------------------------------------------------------------------

    @abstractmethod
    def initialize(self) -> None:
        """Sets up the inputs. Called after the chain has been built and before it is opened."""

    @abstractmethod
    def process_input(self) -> ActionStatus:
        """Processes at most one batch or control element."""

    def start_inputs(self) -> None:
        """Requests data. Called when the operators are open."""
        return

    def take_ends_of_inputs(self) -> bool:
        """Handles the control elements that arrive after `process_input` returned END.

        Returns True once every producer has ended its partition.
        """
        return True

    @property
    def is_drained(self) -> bool:
        """False if the inputs ended because the job was stopped with a savepoint, so operators must not be finished."""
        return True

    def emit_end_of_event_time(self) -> None:
        """Emits MAX_WATERMARK from a source that is stopped with drain before the end of its input."""
        return

    def on_trigger(self, barrier: CheckpointBarrier) -> None:
        """Begins a checkpoint that the CheckpointCoordinator triggered at this task."""
        self.perform_checkpoint(barrier, self._metrics_of_trigger(barrier))

    def on_aborted(self, checkpoint_id: int) -> None:
        """Stops waiting for the barriers of a checkpoint that the CheckpointCoordinator aborted."""
        return

    def discard_rest_of_inputs(self) -> bool:
        """Drops the rest of the input after a stop with savepoint. Returns True once every partition has ended."""
        return True

    def release_inputs(self) -> None:
        """Releases the inputs, after the operators have been closed. Idempotent."""
        return

    @property
    def chain(self) -> OperatorChain | FinishedOperatorChain:
        if self._chain is None:
            raise InternalError(f"{self.environment.task_name} has no operators yet")
        return self._chain

    # -- any thread ----------------------------------------------------------------------------------------------

    def cancel(self) -> None:
        """Makes the task stop before its next batch. Idempotent. Has no effect once the task has ended."""
        self._cancel_requested = True
        self.mailbox.put(Mail("cancel", self._raise_cancel, MailPriority.URGENT))

    def dispatch_operator_event(self, operator_id: str, event: Any) -> bool:
        """Delivers a coordinator's event to the operator. Returns False if the task has already ended."""
        return self.mailbox.put(
            Mail(f"operator event {type(event).__name__}", lambda: self._handle_operator_event(operator_id, event))
        )

    def dispatch_pickled_operator_event(self, operator_id: str, payload: bytes) -> bool:
        """Delivers a pickled event. The task thread unpickles it, because unpickling runs user code."""
        load = self.environment.load_pickle
        return self.mailbox.put(
            Mail("pickled operator event", lambda: self._handle_operator_event(operator_id, load(payload)))
        )

    def trigger_checkpoint(
        self, checkpoint_id: int, timestamp_ms: int, options: checkpoint_pb2.CheckpointOptions
    ) -> None:
        """Begins a checkpoint at this task: a source, or a task whose producers have all finished.

        The trigger keeps its order with operator events. Events that a coordinator sent earlier are part of the
        checkpoint, so the trigger must not overtake them. A task that ends before it handles the trigger declines it.

        Raises:
            CheckpointError: if the task is ending and takes no mail. It sends no decline then, because the decline
                could come after the report of its end, and would be dropped.
        """
        barrier = CheckpointBarrier(checkpoint_id, timestamp_ms, options)
        self._open_triggers[checkpoint_id] = barrier
        self.mailbox.put(Mail(f"trigger checkpoint {checkpoint_id}", lambda: self._trigger_checkpoint(barrier)))
        if self.mailbox.is_closed and self._open_triggers.pop(checkpoint_id, None) is not None:
            raise self._closing_error()

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Tells the task that the checkpoint is durable. A notification may be lost, late or repeated."""
        self.mailbox.put(
            Mail(f"checkpoint {checkpoint_id} complete", lambda: self._notify_checkpoint_complete(checkpoint_id))
        )

    def notify_checkpoint_aborted(self, checkpoint_id: int, latest_completed_id: int) -> None:
        """Tells the task that the checkpoint was aborted. `latest_completed_id` is 0 if no checkpoint has completed."""
        self.mailbox.put(
            Mail(
                f"checkpoint {checkpoint_id} aborted",
                lambda: self._notify_checkpoint_aborted(checkpoint_id, latest_completed_id),
            )
        )

    def metrics(self) -> dict[str, int]:
        """Returns the fields of IOMetrics. In a task with sinks, records given to sinks count as records out."""
        chain = self._chain
        values = io_metrics(self.times, self._writers, () if chain is None else chain.sinks)
        if chain is not None:
            self.add_input_metrics(values)
        return values

    def set_paused(self, is_paused: bool) -> None:
        """Stops or continues processing input, so that the task allocates no memory for it. Idempotent."""
        self._processor.set_paused(is_paused)

    def release_memory(self) -> None:
        """Lets the operators write to files what they can, before the next batch."""
        self.mailbox.put(Mail("release memory", self._release_memory))

    @property
    def reported_bytes(self) -> int:
        """The size of the data in memory of the operators that know it."""
        chain = self._chain
        return sum(one.reported_bytes for one in chain.operators) if isinstance(chain, OperatorChain) else 0

    @property
    def is_back_pressured(self) -> bool:
        """True if an output or a sink does not take more records now."""
        chain = self._chain
        return self.state is StreamTaskState.RUNNING and chain is not None and not chain.is_writable

    @property
    def initialization_ms(self) -> int:
        """The time from the start of the task until it was RUNNING, or until now."""
        started_ns = self.times.started_ns
        if started_ns is None:
            return 0
        until_ns = self._clock.monotonic_ns() if self._running_since_ns is None else self._running_since_ns
        return (until_ns - started_ns) // 1_000_000

    @property
    def input_watermarks(self) -> list[Callable[[], int]]:
        """Functions that return the watermark of each input, if there is more than one. Thread: any."""
        return []

    @property
    def partitions(self) -> list[ResultPartition]:
        """The outputs of the task."""
        return [writer.partition for writer in self._writers]

    def accumulators(self) -> dict[str, bytes]:
        """Returns the user's accumulators by name, pickled, as of the last snapshot. Requests the next snapshot."""
        registry = self.environment.accumulators
        if registry.wants_snapshot():
            self.mailbox.put(Mail("snapshot of accumulators", registry.take_snapshot))
        return registry.snapshot

    def add_input_metrics(self, values: dict[str, int]) -> None:
        """Sets `num_records_in`, `num_batches_in` and `num_bytes_in`."""
        return

    # -- life cycle ----------------------------------------------------------------------------------------------

    def invoke(self) -> None:
        """Runs the task to its end. The operators are closed when this returns or raises.

        Raises:
            CancelTaskError: if it was cancelled, even if the cancellation surfaced as an interrupt or another error.
            BaseException: the error that made the task fail.
        """
        try:
            self.times.start()
            self._run()
        except BaseException as error:
            self._clean_up(error)
            if self.state is StreamTaskState.CANCELED:
                if isinstance(error, CancelTaskError):
                    raise
                raise CancelTaskError(f"{self.environment.task_name} was cancelled") from error
            if isinstance(error, TypeMismatchError) and self.environment.task_name not in error.message:
                error.message = f"{self.environment.task_name}: {error.message}"
            raise
        finally:
            self.times.stop()
            self.environment.accumulators.take_snapshot()

    def _run(self) -> None:
        if self._cancel_requested:
            self._raise_cancel()
        self._transition(StreamTaskState.INITIALIZING)
        begin_ms = self._clock.monotonic_ms()
        self._writers = create_record_writers(self.environment)
        for writer in self._writers:
            writer.partition.set_availability_listener(self.mailbox.wake)
        written_ms = self._clock.monotonic_ms()
        chain = FinishedOperatorChain if self.environment.state.is_restored_as_finished else OperatorChain
        self._chain = chain(self.environment, self.mailbox, self.processing_time_service, self._writers)
        self._checkpoints = SubtaskCheckpointCoordinator(
            self.environment, self._chain, self.system_timers.schedule_after, self.mailbox.wake
        )
        chained_ms = self._clock.monotonic_ms()
        self.initialize()
        gates_ms = self._clock.monotonic_ms()
        register_task_metrics(self)
        self._chain.open()
        self.initialization = {
            "ReadOutputDataDurationMs": written_ms - begin_ms,
            "GateRestoreDurationMs": gates_ms - chained_ms,
            # Operators get their state when they are made and when they are opened.
            "InitializeStateDurationMs": chained_ms - written_ms + self._clock.monotonic_ms() - gates_ms,
        }
        self._transition(StreamTaskState.RUNNING)
        self._running_since_ns = self._clock.monotonic_ns()
        self.environment.notify_running()
        self.start_inputs()
        self._processor.run()
        if self.state is StreamTaskState.RUNNING and self.is_drained:
            self._drain()
        if self.state is StreamTaskState.SUSPENDED:
            self._processor.run_until(lambda: self._progress.is_savepoint_complete)
            self._transition(StreamTaskState.FINISHING)
            self.chain.suspend()
            self._end_without_drain()
        elif not self.is_drained:
            self._transition(StreamTaskState.FINISHING)
            self._end_without_drain()
        else:
            self._transition(StreamTaskState.FINISHING)
            self._finish()
        self._transition(StreamTaskState.FINISHED)

    def _drain(self) -> None:
        """Waits, after the last input, until every operator has emitted the results of the records it took.

        The task is still RUNNING and takes checkpoints. They contain the records without results.
        """
        if self._progress.savepoint_at_end is not None:
            self.emit_end_of_event_time()
        if not self.chain.is_drained:
            self._processor.run_until(self._has_drained)

    def _has_drained(self) -> bool:
        # Barriers may still arrive on inputs that have ended.
        self.take_ends_of_inputs()
        return self.state is StreamTaskState.SUSPENDED or self.chain.is_drained

    def _finish(self) -> None:
        chain = self.chain
        self.processing_time_service.quiesce()
        chain.finish()
        chain.emit_to_results(EndOfData())
        chain.flush()
        savepoint = self._progress.savepoint_at_end
        self._progress.savepoint_at_end = None
        if savepoint is not None:
            self.perform_checkpoint(savepoint, self._metrics_of_trigger(savepoint))
        waits = self._waits_for_final_checkpoint
        if waits:
            self.environment.notify_end_of_data()
        self._processor.run_until(lambda: self._may_end(waits))
        self._end()

    def _end_without_drain(self) -> None:
        self.chain.emit_to_results(EndOfData(drain=False))
        self.chain.flush()
        self._processor.run_until(
            lambda: self.discard_rest_of_inputs() and self.chain.is_suspended and not self._has_running_snapshots
        )
        self._end()

    def _end(self) -> None:
        """Closes the operators, ends the partitions and releases the inputs."""
        self.mailbox.close()
        self._decline_open_triggers()
        failures = self.chain.close()
        if failures:
            raise failures[0]
        for writer in self._writers:
            writer.writer.finish()
        self.release_inputs()

    @property
    def _waits_for_final_checkpoint(self) -> bool:
        """True if the task waits after its end of data until a checkpoint contains that end."""
        configuration = self.environment.configuration
        return (
            not self.chain.is_restored_as_finished
            and (read_option(configuration, INTERVAL) or 0) > 0
            and read_option(configuration, CHECKPOINTS_AFTER_TASKS_FINISH)
        )

    def _may_end(self, waits_for_final_checkpoint: bool) -> bool:
        """True if nothing keeps the task after its end of data."""
        if not (self.take_ends_of_inputs() and self.chain.has_finished) or self._has_running_snapshots:
            return False
        progress = self._progress
        return progress.is_savepoint_complete and (not waits_for_final_checkpoint or progress.is_end_complete)

    @property
    def _has_running_snapshots(self) -> bool:
        return self._checkpoints is not None and self._checkpoints.num_running > 0

    def _clean_up(self, cause: BaseException) -> None:
        """Closes everything after a failure or cancellation, and sets the last state.

        Logs errors, so that they do not hide the cause.
        """
        for _ in range(MAX_INTERRUPTS_WHILE_CLOSING):
            try:
                self.mailbox.close()
                if self._checkpoints is not None:
                    # The writers read the state, so they must stop before it is closed.
                    self._checkpoints.cancel()
                    self._checkpoints.wait_for_writers()
                if self._chain is not None:
                    self._chain.close()
                self.release_inputs()
                self._end_after(cause)
                return
            except BaseException as error:  # noqa: BLE001 - an interrupt may hit between two operators: continue
                _LOG.warning("%s: interrupted while closing", self.environment.task_name, exc_info=error)
        self._end_after(cause)

    def _end_after(self, cause: BaseException) -> None:
        is_canceled = self._cancel_requested or isinstance(cause, CancelTaskError)
        end = StreamTaskState.CANCELED if is_canceled else StreamTaskState.FAILED
        if self.state is not end:  # it is if an interrupt came after the first call
            self._transition(end)

    def _transition(self, to: StreamTaskState) -> None:
        if (self.state, to) not in TRANSITIONS:
            raise InvalidTransitionError(f"{self.environment.task_name}: {self.state.value} -> {to.value}")
        self.state = to

    # -- checkpoints, on the task thread -------------------------------------------------------------------------

    @property
    def checkpoints(self) -> SubtaskCheckpointCoordinator:
        if self._checkpoints is None:
            raise InternalError(f"{self.environment.task_name} takes no checkpoints yet")
        return self._checkpoints

    def _trigger_checkpoint(self, barrier: CheckpointBarrier) -> None:
        if self.state is StreamTaskState.SUSPENDED:
            self._decline_open_triggers()
        elif self._open_triggers.pop(barrier.checkpoint_id, None) is not None:
            self.on_trigger(barrier)

    def _decline_open_triggers(self) -> None:
        """Declines the triggers that the task will not handle, except those whose senders learn it from an error."""
        for checkpoint_id in list(self._open_triggers):
            if self._open_triggers.pop(checkpoint_id, None) is not None:
                self.environment.state.decline(checkpoint_id, self._closing_error())

    def _closing_error(self) -> CheckpointError:
        reason = CheckpointFailureReason.CHECKPOINT_DECLINED_TASK_CLOSING
        return checkpoint_error(reason, self.environment.task_name)

    def stop_with_drain(self, barrier: CheckpointBarrier) -> None:
        """Ends the task as if its input had ended, and takes the savepoint then."""
        if self._progress.savepoint_at_end is None:
            self._progress.savepoint_at_end = barrier
            self._processor.stop()

    def perform_checkpoint(
        self,
        barrier: CheckpointBarrier,
        metrics: checkpoint_pb2.CheckpointMetrics,
        *,
        has_capture: bool = False,
    ) -> None:
        """Takes the snapshot of this task for the checkpoint. An error fails the task."""
        if self._must_wait_for_end(barrier):
            self._progress.savepoint_at_end = barrier
            return
        self.last_alignment_ns = metrics.alignment_duration_ns
        self.last_start_delay_ns = metrics.checkpoint_start_delay_ns
        is_at_end = self.state is StreamTaskState.FINISHING
        taken = self.checkpoints.checkpoint_state(
            barrier,
            metrics,
            has_capture=has_capture,
            # A sink that has not finished must be restored with the records that it still holds.
            is_finished=(is_at_end and self.chain.has_finished) or self.chain.is_restored_as_finished,
        )
        if taken and self._progress.on_taken(barrier, is_at_end=is_at_end):
            self.processing_time_service.quiesce()
            self._transition(StreamTaskState.SUSPENDED)
            self._processor.stop()

    def _must_wait_for_end(self, barrier: CheckpointBarrier) -> bool:
        """True for the savepoint of a drain that arrives while the end of data waits for operators to drain."""
        return (
            barrier.options is not None
            and barrier.options.kind == checkpoint_pb2.SYNC_SAVEPOINT_TERMINATE
            and self.state is StreamTaskState.RUNNING
        )

    def _metrics_of_trigger(self, barrier: CheckpointBarrier) -> checkpoint_pb2.CheckpointMetrics:
        delay_ms = max(0, self._clock.now_ms() - barrier.timestamp_ms)
        return checkpoint_pb2.CheckpointMetrics(checkpoint_start_delay_ns=delay_ms * 1_000_000)

    def _notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        if not self._progress.on_complete(checkpoint_id):
            return
        self.chain.notify_checkpoint_complete(checkpoint_id)
        self.environment.state.notify_complete(checkpoint_id)

    def _notify_checkpoint_aborted(self, checkpoint_id: int, latest_completed_id: int) -> None:
        # The notification of that checkpoint may have been lost.
        self._notify_checkpoint_complete(latest_completed_id)
        if checkpoint_id <= self._progress.completed_id:
            return
        if self._progress.needs(checkpoint_id):
            # The task has stopped processing for this savepoint and cannot resume.
            raise checkpoint_error(
                CheckpointFailureReason.CHECKPOINT_DECLINED,
                f"{self.environment.task_name}: savepoint {checkpoint_id}, which was to stop the job, failed.",
            )
        self.on_aborted(checkpoint_id)
        self.checkpoints.notify_aborted(checkpoint_id)

    # -- a barrier handler's listener ----------------------------------------------------------------------------

    def on_inputs_aligned(
        self, barrier: CheckpointBarrier, metrics: checkpoint_pb2.CheckpointMetrics, *, has_capture: bool
    ) -> None:
        self.perform_checkpoint(barrier, metrics, has_capture=has_capture)

    def on_capture_finished(
        self,
        checkpoint_id: int,
        captured: list[tuple[int, int, list[Any]]],
        alignment_duration_ns: int,
        bytes_processed: int,
    ) -> None:
        self.last_alignment_ns = alignment_duration_ns
        self.checkpoints.on_capture_finished(checkpoint_id, captured, alignment_duration_ns, bytes_processed)

    def on_checkpoint_aborted(self, checkpoint_id: int, reason: CheckpointFailureReason | None) -> None:
        self.checkpoints.abort_on_barrier(checkpoint_id, reason)

    # -- task thread ---------------------------------------------------------------------------------------------

    def _raise_cancel(self) -> None:
        raise CancelTaskError(f"{self.environment.task_name} was cancelled")

    def _handle_operator_event(self, operator_id: str, event: Any) -> None:
        operator = self.chain.operator(operator_id)
        if operator is None:
            raise InternalError(f"{self.environment.task_name} has no operator {operator_id} for event {event!r}")
        operator.handle_operator_event(event)

    def _release_memory(self) -> None:
        if self.state is StreamTaskState.RUNNING and isinstance(self._chain, OperatorChain):
            for operator in self._chain.operators:
                operator.release_memory()

    def _flush(self) -> None:
        self.chain.flush()

    def _next_deadline_ns(self) -> int | None:
        deadline_ns = self.processing_time_service.next_deadline_ns()
        system_ns = self.system_timers.next_deadline_ns()
        if system_ns is not None and (deadline_ns is None or system_ns < deadline_ns):
            deadline_ns = system_ns
        for output in self._writers:
            flush_ns = output.flush_deadline_ns
            if flush_ns is not None and (deadline_ns is None or flush_ns < deadline_ns):
                deadline_ns = flush_ns
        return deadline_ns

    def _on_deadline(self, now_ns: int) -> None:
        self.system_timers.fire_due(now_ns)
        self.processing_time_service.fire_due(now_ns)
        for output in self._writers:
            flush_ns = output.flush_deadline_ns
            if flush_ns is not None and flush_ns <= now_ns:
                output.writer.flush()
