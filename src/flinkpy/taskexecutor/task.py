"""Task: one execution attempt in a TaskExecutor, and the reports about it.

```
   DEPLOYING ----> INITIALIZING ----> RUNNING ----> FINISHED
       |                |                |     \\--> FAILED      (its thread raised)
       +----------------+----------------+--> CANCELING --> CANCELED   (told to stop)
                                                        \\-> FAILED     (told to fail)
```

Only the main thread changes the state; the task thread reports to it. A task takes a terminal state after its thread
has ended and its resources are released, so the slot can be reused then.

Source: org.apache.flink.runtime.taskmanager.Task.
Differs: a task that is failed by its TaskExecutor is CANCELING until its thread has ended. In Flink it is FAILED at
once, but reported at the same time as here.
"""

from __future__ import annotations

import itertools
import logging
import traceback
import zlib
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import wait
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

import cloudpickle

from flinkpy._proto import checkpoint_pb2, common_pb2, jobmaster_pb2
from flinkpy.common.accumulators import AccumulatorFailure
from flinkpy.common.checkpoint_failure_reason import CheckpointFailureReason, checkpoint_error
from flinkpy.common.error_text import bounded_text, describe, format_user_traceback, safe_repr
from flinkpy.common.errors import (
    CommittablesLostError,
    ExternalError,
    FlinkError,
    FunctionError,
    InternalError,
    InvalidTransitionError,
)
from flinkpy.common.event_sequence import ReceivedEvents, SentEvents
from flinkpy.common.states import EXECUTION_TRANSITIONS, ExecutionState
from flinkpy.common.task_threads import work_for_task
from flinkpy.logs.context import in_context, use_context
from flinkpy.logs.setup import flush_output
from flinkpy.rpc.endpoint import RpcEndpoint, TimerHandle
from flinkpy.rpc.error_codec import error_to_proto, reduced_error
from flinkpy.taskexecutor.contracts import DeployedTask, Invokable
from flinkpy.taskexecutor.task_canceler import CancelStep, TaskCanceler
from flinkpy.taskexecutor.task_ledger import TaskLedger
from flinkpy.taskexecutor.task_thread import TaskThread, is_user_file
from flinkpy.traces.trace_context import set_span_of_functions

logger = logging.getLogger(__name__)

T = TypeVar("T")

#: How often a task thread that waits for an answer of the JobMaster looks whether its task was canceled.
CANCELLATION_CHECK_S = 0.2
#: The maximum number of events for a task that has not started. Coordinators send a few before a reader runs.
MAX_EARLY_EVENTS = 10_000


#: The kinds of checkpoints after which a task waits for its end.
_STOPPING = (checkpoint_pb2.SYNC_SAVEPOINT_SUSPEND, checkpoint_pb2.SYNC_SAVEPOINT_TERMINATE)


class TaskListener(Protocol):
    """Thread: main thread."""

    def on_task_state(self, task: Task, state: ExecutionState, error: FlinkError | None) -> None: ...

    def on_task_event(self, task: Task, operator_id: str, payload: bytes) -> None: ...

    def on_checkpoint_acknowledged(
        self,
        task: Task,
        checkpoint_id: int,
        metrics: checkpoint_pb2.CheckpointMetrics,
        state: checkpoint_pb2.TaskStateSnapshot,
    ) -> None: ...

    def on_checkpoint_declined(self, task: Task, checkpoint_id: int, error: BaseException) -> None: ...

    def on_end_of_data(self, task: Task) -> None: ...

    async def store_result(self, task: Task, request: jobmaster_pb2.StoreResultRequest) -> None: ...

    async def fetch_result(
        self, task: Task, request: jobmaster_pb2.FetchResultRequest
    ) -> jobmaster_pb2.FetchResultResponse: ...

    def on_task_stuck(self, task: Task, waited_ms: int) -> None:
        """Handles a task that did not stop within `task.cancellation.timeout`: the process must end."""
        ...


class Task:
    """One execution attempt.

    Thread: main thread, except for the methods of TaskCallbacks and `_..._in_task_thread`.
    """

    def __init__(
        self,
        deployed: DeployedTask,
        endpoint: RpcEndpoint,
        listener: TaskListener,
        *,
        cancellation_interval_ms: int,
        cancellation_timeout_ms: int,
        make_thread: Callable[..., TaskThread] = TaskThread,
        ledger: TaskLedger | None = None,
    ) -> None:
        self.deployed = deployed
        #: The knowledge with which another JobMaster can continue the task.
        self.ledger = ledger or TaskLedger()
        self.execution_attempt_id = deployed.execution_attempt_id
        self.task_name = deployed.task_name
        self.state = ExecutionState.DEPLOYING
        self.sent_events = SentEvents()
        self.received_events = ReceivedEvents()
        self.story: list[ExecutionState] = [self.state]
        self._endpoint = endpoint
        self._listener = listener
        self._cancellation_interval_ms = cancellation_interval_ms
        self._cancellation_timeout_ms = cancellation_timeout_ms
        self._thread = make_thread(deployed.task_name, self._run_in_task_thread, self._exit_in_task_thread)
        self.log_context = deployed.log_context
        self._is_started = False
        self._invokable: Invokable | None = None
        #: Set also before the invokable exists, so that the task thread sees it.
        self._is_canceled = False
        self._failure: FlinkError | None = None
        self._early_events: deque[tuple[str, bytes]] = deque()
        self._canceler: TaskCanceler | None = None
        self._cancel_timer: TimerHandle | None = None
        #: The measurements of the initialization by Flink's names, complete when the task runs.
        self.initialization: dict[str, int] = {}
        self._started_ms = 0
        self._final_metrics: dict[str, int] = {}
        self._final_accumulators: dict[str, bytes] = {}
        #: The accumulators that were sent to the JobMaster last.
        self.reported_accumulators: dict[str, bytes] | None = None

    # ---- life cycle

    def start(self) -> None:
        """Starts the thread when the user code is ready. Ignored if the task was stopped before."""
        if self.state is not ExecutionState.DEPLOYING or self._is_started:
            return
        self._is_started = True
        self._started_ms = self._endpoint.clock.monotonic_ms()
        self._move(ExecutionState.INITIALIZING)
        self._thread.start()

    def cancel(self) -> None:
        """Cancels the task, which ends in CANCELED. Idempotent. Ignored if the task has ended."""
        self._stop(None)

    def fail(self, cause: FlinkError, *, interrupts: bool = False) -> None:
        """Fails the task, which ends in FAILED with `cause`. The first cause is kept.

        Args:
            interrupts: interrupt its code at once, without the grace of `TaskCanceler`.
        """
        self._stop(cause)
        if interrupts and self.state is ExecutionState.CANCELING and self._thread.is_in_user_code:
            self._thread.interrupt()

    def _stop(self, cause: FlinkError | None) -> None:
        if self.state.is_terminal or self.state is ExecutionState.CANCELING:
            return
        self._failure = cause
        self._is_canceled = True
        if not self._is_started:
            self._move(ExecutionState.CANCELING)
            self._end(None)
            return
        self._move(ExecutionState.CANCELING)
        if self._invokable is not None:
            self._invokable.cancel()
        self._canceler = TaskCanceler(
            self._endpoint.awake_ms(), self._cancellation_interval_ms, self._cancellation_timeout_ms
        )
        self._push()

    def _push(self) -> None:
        canceler = self._canceler
        if canceler is None or self.state is not ExecutionState.CANCELING:
            return
        now_ms = self._endpoint.awake_ms()
        step, again_ms = canceler.next_step(now_ms)
        if step is CancelStep.GIVE_UP:
            self._listener.on_task_stuck(self, now_ms - canceler.started_ms)
        elif step is CancelStep.INTERRUPT or (step is CancelStep.INTERRUPT_USER_CODE and self._thread.is_in_user_code):
            with in_context(self.log_context):
                logger.warning("interrupting task %s, which has not stopped yet\n%s", self.task_name, self.stack)
            self._thread.interrupt()
        self._cancel_timer = self._endpoint.schedule(again_ms, self._push)

    def _on_thread_exit(self, error: BaseException | None) -> None:
        if self.state is ExecutionState.CANCELING:
            self._end(None)
        else:
            self._end(error)

    def _end(self, error: BaseException | None) -> None:
        """Releases the resources of the task, then takes the terminal state."""
        if self._cancel_timer is not None:
            self._cancel_timer.cancel()
        self._final_metrics, self._final_accumulators = self.metrics, self.accumulators
        self._invokable = None
        self._early_events.clear()
        if self._failure is not None:
            failure: FlinkError | None = self._failure
            state = ExecutionState.FAILED
        elif self.state is ExecutionState.CANCELING:
            failure, state = None, ExecutionState.CANCELED
        elif error is not None:
            failure, state = failure_of(error, self.task_name), ExecutionState.FAILED
        else:
            failure, state = None, ExecutionState.FINISHED
        cause: BaseException | None = failure
        if state is ExecutionState.CANCELED:
            cause = FlinkError(f"task {self.task_name} was canceled")
        try:
            self.deployed.release(cause)
        except Exception as leak:  # the end of the task must be reported
            with in_context(self.log_context):
                logger.exception("releasing the resources of task %s failed", self.task_name)
            if failure is None and state is ExecutionState.FINISHED:
                failure, state = failure_of(leak, self.task_name), ExecutionState.FAILED
        self._move(state, failure)

    def _move(self, to: ExecutionState, error: FlinkError | None = None) -> None:
        if (self.state, to) not in EXECUTION_TRANSITIONS:
            told = " -> ".join(s.name for s in self.story)
            raise InvalidTransitionError(f"task {self.task_name}: {told} -> {to.name}")
        self.state = to
        self.story.append(to)
        self._listener.on_task_state(self, to, error)

    # ---- queries and events

    @property
    def metrics(self) -> dict[str, int]:
        """The fields of IOMetrics; the final ones after the task has ended."""
        invokable = self._invokable
        return self._final_metrics if invokable is None else invokable.metrics()

    @property
    def accumulators(self) -> dict[str, bytes]:
        """The user's accumulators, pickled, by name; the final ones after the task has ended."""
        invokable = self._invokable
        return self._final_accumulators if invokable is None else invokable.accumulators()

    @property
    def stack(self) -> str:
        return self._thread.stack

    @property
    def user_stack(self) -> str:
        """The frames of the user's functions that run now; empty if none runs."""
        return self._thread.user_stack

    @property
    def reported_bytes(self) -> int:
        """The size of the data in memory of the operators that know it."""
        return 0 if self._invokable is None else self._invokable.reported_bytes

    def set_paused(self, is_paused: bool) -> None:
        """Stops or continues processing input, between two batches. Idempotent. Ignored if the task does not run."""
        if self._invokable is not None:
            self._invokable.set_paused(is_paused)

    def release_memory(self) -> None:
        """Lets operators write to files what they can, before the next batch."""
        if self._invokable is not None:
            self._invokable.release_memory()

    def join(self, timeout_s: float) -> bool:
        """Waits for the end of the thread. Returns True if it has ended or was not started. Blocks."""
        return not self._is_started or self._thread.join(timeout_s)

    def deliver_operator_event(self, operator_id: str, payload: bytes) -> None:
        """Delivers a coordinator's event to the operator. Drops it if the task is stopping."""
        if self.state.is_terminal or self.state is ExecutionState.CANCELING:
            return
        if self._invokable is not None:
            self._invokable.dispatch_pickled_operator_event(operator_id, payload)
        elif len(self._early_events) >= MAX_EARLY_EVENTS:
            self.fail(InternalError(f"task {self.task_name}: {MAX_EARLY_EVENTS} events before it has started"))
        else:
            self._early_events.append((operator_id, payload))

    def begin_events_again(self) -> None:
        """Expects the events of a new JobMaster, which counts from 1."""
        self.received_events = ReceivedEvents()

    # ---- checkpoints

    def trigger_checkpoint(
        self, checkpoint_id: int, timestamp_ms: int, options: checkpoint_pb2.CheckpointOptions
    ) -> None:
        """Puts the trigger into the task's mailbox. Raises: CheckpointError if the task is not running or is ending."""
        if self.state.is_terminal or self.state is ExecutionState.CANCELING:
            raise checkpoint_error(
                CheckpointFailureReason.CHECKPOINT_DECLINED_TASK_CLOSING, f"{self.task_name} is {self.state.name}"
            )
        if self.state is not ExecutionState.RUNNING or self._invokable is None:
            raise checkpoint_error(
                CheckpointFailureReason.CHECKPOINT_DECLINED_TASK_NOT_READY, f"{self.task_name} is {self.state.name}"
            )
        self._invokable.trigger_checkpoint(checkpoint_id, timestamp_ms, options)
        self.ledger.triggered(checkpoint_id, stops_the_task=options.kind in _STOPPING)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Ignored unless the task is running."""
        if self.state is ExecutionState.RUNNING and self._invokable is not None:
            self._invokable.notify_checkpoint_complete(checkpoint_id)
            self.ledger.completed(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int, latest_completed_id: int) -> None:
        """Ignored unless the task is running."""
        if self.state is ExecutionState.RUNNING and self._invokable is not None:
            self._invokable.notify_checkpoint_aborted(checkpoint_id, latest_completed_id)

    # ---- task thread

    def notify_running(self, restored: Mapping[str, int] = MappingProxyType({})) -> None:
        self._endpoint.run_in_main_thread(self._on_running, restored)

    def send_operator_event(self, operator_id: str, event: Any) -> None:
        payload = self.deployed.dump_event(event)
        can_be_repeated = getattr(event, "is_repeated_on_request", False)
        self._endpoint.run_in_main_thread(self._on_event, operator_id, payload, can_be_repeated)

    def acknowledge_checkpoint(
        self,
        checkpoint_id: int,
        metrics: checkpoint_pb2.CheckpointMetrics,
        state: checkpoint_pb2.TaskStateSnapshot,
    ) -> None:
        self._tell(self._listener.on_checkpoint_acknowledged, self, checkpoint_id, metrics, state)

    def decline_checkpoint(self, checkpoint_id: int, error: BaseException) -> None:
        self._tell(self._listener.on_checkpoint_declined, self, checkpoint_id, error)

    def notify_end_of_data(self) -> None:
        self._tell(self._on_end_of_data)

    def store_result(self, result_partition_id: str, pieces: Iterable[bytes]) -> None:
        offset, crc32 = 0, 0
        piece: bytes | None = None
        for following in itertools.chain(pieces, [None]):
            if piece is not None:
                crc32 = zlib.crc32(piece, crc32)
                request = jobmaster_pb2.StoreResultRequest(
                    result_partition_id=result_partition_id,
                    offset=offset,
                    data=piece,
                    is_last=following is None,
                    crc32=crc32,
                )
                self._ask(self._listener.store_result(self, request))
                offset += len(piece)
            piece = following

    def fetch_result(self, result_partition_id: str) -> Iterator[bytes]:
        offset, crc32 = 0, 0
        while True:
            request = jobmaster_pb2.FetchResultRequest(result_partition_id=result_partition_id, offset=offset)
            piece = self._ask(self._listener.fetch_result(self, request))
            crc32 = zlib.crc32(piece.data, crc32)
            offset += len(piece.data)
            if piece.is_last and crc32 != piece.crc32:
                raise CommittablesLostError(
                    f"{self.task_name}: the committables of result partition {result_partition_id} are damaged at the "
                    "JobMaster, and a part of them may be committed",
                    details={"result_partition_id": result_partition_id},
                )
            yield piece.data
            if piece.is_last:
                return

    def _ask(self, call: Coroutine[Any, Any, T]) -> T:
        """Makes a call on the main thread and waits for the answer. Thread: task thread."""
        answer = self._endpoint.run_from_thread(call)
        while not wait([answer], CANCELLATION_CHECK_S).done:
            if self._is_canceled:
                answer.cancel()
                raise InternalError(f"task {self.task_name} was canceled")
        return answer.result()

    def _tell(self, listener: Callable[..., None], *args: Any) -> None:
        """Calls the listener on the main thread, unless the task has reported its end by then."""

        def tell() -> None:
            if not self.state.is_terminal:
                listener(*args)

        self._endpoint.run_in_main_thread(tell)

    def _run_in_task_thread(self) -> None:
        use_context(self.log_context)
        set_span_of_functions(self.deployed.trace_parent)
        work_for_task(self.execution_attempt_id)
        invokable = self.deployed.create_invokable(self)
        self._endpoint.run_in_main_thread(self._on_invokable, invokable)
        # The main thread sets the flag before it looks for an invokable. This thread reads it after it has sent the
        # invokable. So at least one of the two cancels the invokable.
        if self._is_canceled:
            invokable.cancel()
        self.initialization["MailboxStartDurationMs"] = self._endpoint.clock.monotonic_ms() - self._started_ms
        invokable.invoke()

    def _exit_in_task_thread(self, error: BaseException | None) -> None:
        flush_output()
        self._endpoint.run_in_main_thread(self._on_thread_exit, error)

    # ---- events of the task thread, on the main thread

    def _on_invokable(self, invokable: Invokable) -> None:
        self._invokable = invokable
        if self._is_canceled:
            invokable.cancel()
            return
        while self._early_events:
            invokable.dispatch_pickled_operator_event(*self._early_events.popleft())

    def _on_running(self, restored: Mapping[str, int]) -> None:
        if self.state is ExecutionState.INITIALIZING:
            if self._invokable is not None:
                self.initialization |= self._invokable.initialization
            self.initialization |= restored
            self._move(ExecutionState.RUNNING)

    def _on_end_of_data(self) -> None:
        self.ledger.has_reached_end_of_data = True
        self._listener.on_end_of_data(self)

    def _on_event(self, operator_id: str, payload: bytes, can_be_repeated: bool) -> None:
        self.ledger.sent(can_be_repeated=can_be_repeated)
        if not self.state.is_terminal and self.state is not ExecutionState.CANCELING:
            self._listener.on_task_event(self, operator_id, payload)

    def __repr__(self) -> str:
        return f"<Task {self.task_name} {self.state.name} {self.execution_attempt_id}>"


def failure_of(error: BaseException, task_name: str) -> FlinkError:
    """Returns the typed error to report for an error that ended a task thread.

    The runtime wraps errors of user functions. For other errors the traceback tells whether user code raised them.
    """
    if isinstance(error, FlinkError):
        return error
    trace = format_user_traceback(error)
    if isinstance(error, SystemExit):
        return FunctionError(f"{task_name}: user code called sys.exit({safe_repr(error.code)})", remote_traceback=trace)
    text = f"{task_name}: {describe(error)}"
    if _raised_by_user(error):
        return FunctionError(text, remote_traceback=trace)
    if isinstance(error, OSError):
        return ExternalError(text, remote_traceback=trace)
    return InternalError(text, remote_traceback=trace)


def _raised_by_user(error: BaseException) -> bool:
    return any(is_user_file(frame.f_code.co_filename) for frame, _ in traceback.walk_tb(error.__traceback__))


#: The maximum size of the accumulators in one report, far below the maximum message size. The accumulators of further
#: tasks are sent with the next report, and when these tasks end.
MAX_ACCUMULATOR_BYTES = 8 * 1024 * 1024

#: The maximum length of the reason in a reduced report.
MAX_REDUCED_CHARS = 1_000


def state_update(task: Task, state: ExecutionState, error: FlinkError | None) -> jobmaster_pb2.TaskExecutionStateUpdate:
    """Returns the report of a new state, with the metrics, accumulators and result sizes of the task."""
    return jobmaster_pb2.TaskExecutionStateUpdate(
        execution_attempt_id=task.execution_attempt_id,
        state=common_pb2.ExecutionState.Name(state.value),
        error=None if error is None else error_to_proto(error),
        metrics=common_pb2.IOMetrics(**task.metrics),
        accumulators_pickle=task.accumulators,
        result_partition_bytes=[
            jobmaster_pb2.ResultPartitionBytes(result_partition_id=partition_id, subpartition_bytes=sizes)
            for partition_id, sizes in task.deployed.subpartition_bytes().items()
        ]
        if state is ExecutionState.FINISHED
        else (),
        initialization=task.initialization if state is ExecutionState.RUNNING else {},
    )


def reduced_update(
    update: jobmaster_pb2.TaskExecutionStateUpdate, refusal: str
) -> jobmaster_pb2.TaskExecutionStateUpdate:
    """Returns the update without its large parts, for a JobMaster that refused it.

    Each accumulator becomes an AccumulatorFailure with the reason, so that none disappears silently.
    """
    reduced = jobmaster_pb2.TaskExecutionStateUpdate()
    reduced.CopyFrom(update)
    reason = bounded_text(f"the JobMaster refused the report: {refusal}", MAX_REDUCED_CHARS)
    for name in update.accumulators_pickle:
        reduced.accumulators_pickle[name] = cloudpickle.dumps(AccumulatorFailure(name, reason))
    if reduced.HasField("error"):
        reduced.error.CopyFrom(reduced_error(reduced.error))
    return reduced


def task_reports(tasks: Iterable[Task], *, is_full: bool) -> list[jobmaster_pb2.TaskExecutionStateUpdate]:
    """Returns the metrics and accumulators of running tasks.

    Unless `is_full`, it includes accumulators only if they have changed since the last report. That report may be lost,
    so a full report must follow from time to time.
    """
    reports = []
    room = MAX_ACCUMULATOR_BYTES
    for task in tasks:
        accumulators = task.accumulators
        size = sum(map(len, accumulators.values()))
        is_told = (is_full or accumulators is not task.reported_accumulators) and size <= room
        if is_told:
            task.reported_accumulators = accumulators
            room -= size
        reports.append(
            jobmaster_pb2.TaskExecutionStateUpdate(
                execution_attempt_id=task.execution_attempt_id,
                state=common_pb2.ExecutionState.Name(task.state.value),
                metrics=common_pb2.IOMetrics(**task.metrics),
                accumulators_pickle=accumulators if is_told else None,
            )
        )
    return reports
