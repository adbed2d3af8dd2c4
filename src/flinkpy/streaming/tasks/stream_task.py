r"""StreamTask: the life of one subtask on its task thread.

```
   CREATED -> INITIALIZING -> RUNNING -------> FINISHING -> FINISHED
      |            |             |  \-> SUSPENDED --/  |
      +------------+-------------+-----------+---------+----> CANCELED   (cancel())
      +------------+-------------+-----------+---------+----> FAILED     (an exception)
```

INITIALIZING restores and opens the operators, downstream first. RUNNING is the mailbox loop; after the last input it
goes on until no operator owes the results of what it has taken (asynchronous calls). FINISHING finishes the operators
in chain order, emits EndOfData, waits for sinks that are not done and for a checkpoint that contains the end (where
checkpoints are taken), closes the operators and ends the partitions. Whatever happens, every operator that was opened
is closed exactly once.

A task is SUSPENDED by the snapshot of a stop-with-savepoint without drain: it processes nothing more, and when the
savepoint is complete it ends without finishing its operators, firing timers or emitting MAX_WATERMARK. With drain, the
sources first end as if their input had, and the savepoint follows the end of data. A savepoint that stops the job and
fails, fails the task.

Source: org.apache.flink.streaming.runtime.tasks.StreamTask.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from typing import Any

from flinkpy._proto import checkpoint_pb2
from flinkpy.common.checkpoint_failure_reason import CheckpointFailureReason, checkpoint_error
from flinkpy.common.errors import InternalError, InvalidTransitionError, TypeMismatchError
from flinkpy.configuration import read_option
from flinkpy.configuration.checkpointing_options import CHECKPOINTS_AFTER_TASKS_FINISH, INTERVAL
from flinkpy.records.elements import CheckpointBarrier, EndOfData
from flinkpy.streaming.checkpoint.subtask_checkpoint_coordinator import SubtaskCheckpointCoordinator
from flinkpy.streaming.io.record_writer_output import RecordWriterOutput
from flinkpy.streaming.mailbox.mailbox_processor import ActionStatus, MailboxProcessor, TaskTimes
from flinkpy.streaming.mailbox.task_mailbox import Mail, MailPriority, TaskMailbox
from flinkpy.streaming.tasks.checkpoint_progress import CheckpointProgress
from flinkpy.streaming.tasks.environment import TaskEnvironment
from flinkpy.streaming.tasks.finished_operator_chain import FinishedOperatorChain
from flinkpy.streaming.tasks.operator_chain import OperatorChain
from flinkpy.streaming.tasks.processing_time_service import ProcessingTimeService
from flinkpy.streaming.tasks.record_writers import create_record_writers
from flinkpy.streaming.tasks.stream_task_state import TRANSITIONS, StreamTaskState
from flinkpy.streaming.tasks.task_metrics import io_metrics, register_task_metrics

_LOG = logging.getLogger(__name__)

#: Interrupts that may hit the clean-up itself; the watchdog sends one per `task.cancellation.interval`.
MAX_INTERRUPTS_WHILE_CLOSING = 100


class CancelTaskError(Exception):
    """Ends `invoke` of a task that was cancelled."""


class StreamTask(ABC):
    """Thread: `invoke` is the task thread; `cancel`, `dispatch_operator_event`, `metrics`, `state`, and the messages of
    checkpoints (trigger, complete, aborted) are for any.

    Attributes:
        state: changed by the task thread only.
    """

    def __init__(self, environment: TaskEnvironment) -> None:
        self.environment = environment
        self.state = StreamTaskState.CREATED
        self.mailbox = TaskMailbox()
        self.times = TaskTimes(environment.clock)
        times = self.times
        self.processing_time_service = ProcessingTimeService(environment.clock, lambda: times.back_pressured_ns)
        #: Of the runtime itself: it goes on when the timers of operators have ended.
        self.system_timers = ProcessingTimeService(environment.clock)
        self._clock = environment.clock
        self._chain: OperatorChain | FinishedOperatorChain | None = None
        self._checkpoints: SubtaskCheckpointCoordinator | None = None
        self._progress = CheckpointProgress()
        #: Triggers that wait in the mailbox: begun or declined by who takes them out of here.
        self._open_triggers: dict[int, CheckpointBarrier] = {}
        self._writers: list[RecordWriterOutput] = []
        self._cancel_requested = False
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
        """After the chain was built, before it is opened: set up the inputs."""

    @abstractmethod
    def process_input(self) -> ActionStatus:
        """Process at most one batch or control element."""

    def start_inputs(self) -> None:
        """The operators are open: ask for data."""
        return

    @property
    def inputs_exhausted(self) -> bool:
        """After `process_input` answered END: whether the producers have said that nothing at all will follow."""
        return True

    @property
    def is_drained(self) -> bool:
        """False: the inputs have ended because the job was stopped with a savepoint; nothing is to be finished."""
        return True

    def emit_end_of_event_time(self) -> None:
        """Stopped with drain, before the input's end: a source emits MAX_WATERMARK."""
        return

    def on_trigger(self, barrier: CheckpointBarrier) -> None:
        """The coordinator asks this task to begin a checkpoint."""
        self.perform_checkpoint(barrier, self._metrics_of_trigger(barrier))

    def on_aborted(self, checkpoint_id: int) -> None:
        """The coordinator has given a checkpoint up: do not wait for its barriers."""
        return

    def discard_rest_of_inputs(self) -> bool:
        """Stopped with a savepoint: whether the producers have said that nothing at all will follow."""
        return True

    def release_inputs(self) -> None:
        """Let go of the inputs, after the operators were closed. Idempotent."""
        return

    @property
    def chain(self) -> OperatorChain | FinishedOperatorChain:
        if self._chain is None:
            raise InternalError(f"{self.environment.task_name} has no operators yet")
        return self._chain

    # -- any thread ----------------------------------------------------------------------------------------------

    def cancel(self) -> None:
        """Ask the task to stop at the next batch border. Idempotent; no effect once it has ended."""
        self._cancel_requested = True
        self.mailbox.put(Mail("cancel", self._raise_cancel, MailPriority.URGENT))

    def dispatch_operator_event(self, operator_id: str, event: Any) -> bool:
        """Deliver a coordinator's event to the operator; False where the task has ended already."""
        return self.mailbox.put(
            Mail(f"operator event {type(event).__name__}", lambda: self._handle_operator_event(operator_id, event))
        )

    def dispatch_pickled_operator_event(self, operator_id: str, payload: bytes) -> bool:
        """Like `dispatch_operator_event`; unpickled on the task thread, because that runs code of the user's."""
        load = self.environment.load_pickle
        return self.mailbox.put(
            Mail("pickled operator event", lambda: self._handle_operator_event(operator_id, load(payload)))
        )

    def trigger_checkpoint(
        self, checkpoint_id: int, timestamp_ms: int, options: checkpoint_pb2.CheckpointOptions
    ) -> None:
        """Begin a checkpoint here: at a source, or where all producers have finished.

        In order with operator events: what a coordinator has sent before is part of the checkpoint, so the trigger
        must not overtake it. A task that ends before it has taken the trigger declines it.
        """
        barrier = CheckpointBarrier(checkpoint_id, timestamp_ms, options)
        self._open_triggers[checkpoint_id] = barrier
        self.mailbox.put(Mail(f"trigger checkpoint {checkpoint_id}", lambda: self._trigger_checkpoint(barrier)))
        if self.mailbox.is_closed:
            self._decline_open_triggers()

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """It is durable. A notification may be lost, and come late or twice."""
        self.mailbox.put(
            Mail(f"checkpoint {checkpoint_id} complete", lambda: self._notify_checkpoint_complete(checkpoint_id))
        )

    def notify_checkpoint_aborted(self, checkpoint_id: int, latest_completed_id: int) -> None:
        """`latest_completed_id`: 0 where there is none."""
        self.mailbox.put(
            Mail(
                f"checkpoint {checkpoint_id} aborted",
                lambda: self._notify_checkpoint_aborted(checkpoint_id, latest_completed_id),
            )
        )

    def metrics(self) -> dict[str, int]:
        """The fields of IOMetrics. For a task without network output, records out are those given to its sinks."""
        chain = self._chain
        values = io_metrics(self.times, self._writers, () if chain is None else chain.sinks)
        if chain is not None:
            self.add_input_metrics(values)
        return values

    def accumulators(self) -> dict[str, bytes]:
        """The user's accumulators by name, pickled, as of the last snapshot; asks the task for the next one."""
        registry = self.environment.accumulators
        if registry.wants_snapshot():
            self.mailbox.put(Mail("snapshot of accumulators", registry.take_snapshot))
        return registry.snapshot

    def add_input_metrics(self, values: dict[str, int]) -> None:
        """Fill in `num_records_in`, `num_batches_in` and `num_bytes_in`."""
        return

    # -- life cycle ----------------------------------------------------------------------------------------------

    def invoke(self) -> None:
        """Run the task to its end; the operators are closed when this returns or raises.

        Raises:
            CancelTaskError: it was cancelled (also where the cancellation showed as an interrupt or another error).
            BaseException: what made it fail.
        """
        try:
            self.times.start()
            self._run()
        except BaseException as error:
            self._clean_up()
            if self._cancel_requested or isinstance(error, CancelTaskError):
                self._transition(StreamTaskState.CANCELED)
                if isinstance(error, CancelTaskError):
                    raise
                raise CancelTaskError(f"{self.environment.task_name} was cancelled") from error
            self._transition(StreamTaskState.FAILED)
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
        self._writers = create_record_writers(self.environment)
        for writer in self._writers:
            writer.partition.set_availability_listener(self.mailbox.wake)
        self._chain = self._create_chain()
        self._checkpoints = SubtaskCheckpointCoordinator(
            self.environment, self._chain, self.system_timers.schedule_after, self.mailbox.wake
        )
        self.initialize()
        register_task_metrics(self)
        self._chain.open()
        self._transition(StreamTaskState.RUNNING)
        self.environment.notify_running()
        self.start_inputs()
        self._processor.run()
        if self.state is StreamTaskState.RUNNING and self.is_drained:
            self._drain()
        if self.state is StreamTaskState.SUSPENDED:
            self._processor.run_until(lambda: self._progress.is_savepoint_complete)
            self._transition(StreamTaskState.FINISHING)
            self._end_without_drain()
        elif not self.is_drained:
            self._transition(StreamTaskState.FINISHING)
            self._end_without_drain()
        else:
            self._transition(StreamTaskState.FINISHING)
            self._finish()
        self._transition(StreamTaskState.FINISHED)

    def _create_chain(self) -> OperatorChain | FinishedOperatorChain:
        if self.environment.state.is_restored_as_finished:
            return FinishedOperatorChain(self.environment, self.mailbox, self.processing_time_service, self._writers)
        return OperatorChain(self.environment, self.mailbox, self.processing_time_service, self._writers)

    def _drain(self) -> None:
        """After the last input: wait for the operators that have taken records and still owe their results.

        The task is running: checkpoints are taken, and hold what is owed.
        """
        if self._progress.savepoint_at_end is not None:
            self.emit_end_of_event_time()
        if not self.chain.is_drained:
            self._processor.run_until(self._has_drained)

    def _has_drained(self) -> bool:
        """Takes the barriers that still come from inputs that have ended."""
        _ = self.inputs_exhausted
        return self.state is StreamTaskState.SUSPENDED or self.chain.is_drained

    def _finish(self) -> None:
        chain = self.chain
        self.processing_time_service.quiesce()
        chain.finish()
        chain.emit_to_results(EndOfData())
        chain.flush()
        savepoint, self._progress.savepoint_at_end = self._progress.savepoint_at_end, None
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
        self._processor.run_until(lambda: self.discard_rest_of_inputs() and not self._has_running_snapshots)
        self._end()

    def _end(self) -> None:
        """Close everything; nothing is left to do."""
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
        """Whether the task stays after its end of data until a checkpoint contains that."""
        configuration = self.environment.configuration
        return (
            not self.chain.is_restored_as_finished
            and (read_option(configuration, INTERVAL) or 0) > 0
            and read_option(configuration, CHECKPOINTS_AFTER_TASKS_FINISH)
        )

    def _may_end(self, waits_for_final_checkpoint: bool) -> bool:
        """After the end of data. Takes what still comes from the inputs: barriers and the ends of partitions."""
        if not (self.inputs_exhausted and self.chain.has_finished) or self._has_running_snapshots:
            return False
        progress = self._progress
        return progress.is_savepoint_complete and (not waits_for_final_checkpoint or progress.is_end_complete)

    @property
    def _has_running_snapshots(self) -> bool:
        return self._checkpoints is not None and self._checkpoints.num_running > 0

    def _clean_up(self) -> None:
        """After a failure or cancel: close all that is open; what fails here is logged and does not mask the cause."""
        for _ in range(MAX_INTERRUPTS_WHILE_CLOSING):
            try:
                self.mailbox.close()
                if self._checkpoints is not None:
                    # Before the state is closed that they are reading.
                    self._checkpoints.cancel()
                    self._checkpoints.wait_for_writers()
                if self._chain is not None:
                    self._chain.close()
                self.release_inputs()
                return
            except BaseException as error:  # noqa: BLE001 - an interrupt may hit between two operators: go on closing
                _LOG.warning("%s: interrupted while closing", self.environment.task_name, exc_info=error)

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
        """The task takes no checkpoint any more. Called by the task thread, and by who has come too late for it."""
        reason = CheckpointFailureReason.CHECKPOINT_DECLINED_TASK_CLOSING
        for checkpoint_id in list(self._open_triggers):
            if self._open_triggers.pop(checkpoint_id, None) is not None:
                self.environment.state.decline(checkpoint_id, checkpoint_error(reason, self.environment.task_name))

    def stop_with_drain(self, barrier: CheckpointBarrier) -> None:
        """End as if the input had, and take the savepoint then."""
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
        """Take part in the checkpoint now. An error is the task's."""
        if self._is_for_the_end(barrier):
            self._progress.savepoint_at_end = barrier
            return
        is_at_end = self.state is StreamTaskState.FINISHING
        taken = self.checkpoints.checkpoint_state(
            barrier,
            metrics,
            has_capture=has_capture,
            # A sink that still has something to hand out must be restored with it.
            is_finished=(is_at_end and self.chain.has_finished) or self.chain.is_restored_as_finished,
        )
        if taken and self._progress.on_taken(barrier, is_at_end=is_at_end):
            self.processing_time_service.quiesce()
            self._transition(StreamTaskState.SUSPENDED)
            self._processor.stop()

    def _is_for_the_end(self, barrier: CheckpointBarrier) -> bool:
        """Whether it has come behind the end of data, while that waits for operators that are not drained."""
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
        # Makes up for a notification that was lost.
        self._notify_checkpoint_complete(latest_completed_id)
        if checkpoint_id <= self._progress.completed_id:
            return
        if self._progress.needs(checkpoint_id):
            # The task has stopped processing for it, and cannot go on where it was.
            raise checkpoint_error(
                CheckpointFailureReason.CHECKPOINT_DECLINED,
                f"{self.environment.task_name}: the savepoint {checkpoint_id} that was to stop the job failed.",
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
