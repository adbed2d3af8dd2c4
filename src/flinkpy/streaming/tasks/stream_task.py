"""StreamTask: the life of one subtask on its task thread.

```
   CREATED -> INITIALIZING -> RUNNING -> FINISHING -> FINISHED
      |            |             |           |
      +------------+-------------+-----------+----> CANCELED   (cancel())
      +------------+-------------+-----------+----> FAILED     (an exception)
```

INITIALIZING opens the operators, downstream first. RUNNING is the mailbox loop. FINISHING finishes the operators in
chain order, emits EndOfData, waits for sinks that are not done, closes the operators and ends the partitions. Whatever
happens, every operator that was opened is closed exactly once.

Source: org.apache.flink.streaming.runtime.tasks.StreamTask.
"""

from __future__ import annotations

import enum
import logging
from abc import ABC, abstractmethod
from typing import Any

from flinkpy.common.errors import InternalError, InvalidTransitionError, TypeMismatchError
from flinkpy.records.elements import EndOfData
from flinkpy.streaming.io.record_writer_output import RecordWriterOutput
from flinkpy.streaming.mailbox.mailbox_processor import ActionStatus, MailboxProcessor, TaskTimes
from flinkpy.streaming.mailbox.task_mailbox import Mail, MailPriority, TaskMailbox
from flinkpy.streaming.tasks.environment import TaskEnvironment
from flinkpy.streaming.tasks.operator_chain import OperatorChain
from flinkpy.streaming.tasks.processing_time_service import ProcessingTimeService
from flinkpy.streaming.tasks.record_writers import create_record_writers

_LOG = logging.getLogger(__name__)

#: Interrupts that may hit the clean-up itself; the watchdog sends one per `task.cancellation.interval`.
MAX_INTERRUPTS_WHILE_CLOSING = 100


class CancelTaskError(Exception):
    """Ends `invoke` of a task that was cancelled."""


class StreamTaskState(enum.Enum):
    CREATED = "CREATED"
    INITIALIZING = "INITIALIZING"
    RUNNING = "RUNNING"
    FINISHING = "FINISHING"
    FINISHED = "FINISHED"
    CANCELED = "CANCELED"
    FAILED = "FAILED"

    @property
    def is_terminal(self) -> bool:
        return self in (StreamTaskState.FINISHED, StreamTaskState.CANCELED, StreamTaskState.FAILED)


_S = StreamTaskState
_TRANSITIONS = frozenset(
    {
        (_S.CREATED, _S.INITIALIZING),
        (_S.INITIALIZING, _S.RUNNING),
        (_S.RUNNING, _S.FINISHING),
        (_S.FINISHING, _S.FINISHED),
        *((state, end) for state in list(_S)[:4] for end in (_S.CANCELED, _S.FAILED)),
    }
)


class StreamTask(ABC):
    """Thread: `invoke` is the task thread; `cancel`, `dispatch_operator_event`, `metrics` and `state` are for any.

    Attributes:
        state: changed by the task thread only.
    """

    def __init__(self, environment: TaskEnvironment) -> None:
        self.environment = environment
        self.state = StreamTaskState.CREATED
        self.mailbox = TaskMailbox()
        self.times = TaskTimes(environment.clock)
        self.processing_time_service = ProcessingTimeService(environment.clock)
        self._clock = environment.clock
        self._chain: OperatorChain | None = None
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

    def release_inputs(self) -> None:
        """Let go of the inputs, after the operators were closed. Idempotent."""
        return

    @property
    def chain(self) -> OperatorChain:
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

    def metrics(self) -> dict[str, int]:
        """The fields of IOMetrics. For a task without network output, records out are those given to its sinks."""
        idle_ms, busy_ms, back_pressured_ms = self.times.read_ms()
        values = {
            "num_records_in": 0,
            "num_batches_in": 0,
            "num_bytes_in": 0,
            "num_records_out": sum(writer.num_records for writer in self._writers),
            "num_batches_out": sum(writer.num_batches for writer in self._writers),
            "num_bytes_out": sum(writer.partition.bytes_out for writer in self._writers),
            "idle_time_ms": idle_ms,
            "busy_time_ms": busy_ms,
            "back_pressured_time_ms": back_pressured_ms,
        }
        chain = self._chain
        if chain is not None:
            for operator in chain.sinks:
                values["num_records_out"] += operator.num_records
                values["num_batches_out"] += operator.num_batches
            self.add_input_metrics(values)
        return values

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

    def _run(self) -> None:
        if self._cancel_requested:
            self._raise_cancel()
        self._transition(StreamTaskState.INITIALIZING)
        self._writers = create_record_writers(self.environment)
        for writer in self._writers:
            writer.partition.set_availability_listener(self.mailbox.wake)
        self._chain = OperatorChain(self.environment, self.mailbox, self.processing_time_service, self._writers)
        self.initialize()
        self._chain.open()
        self._transition(StreamTaskState.RUNNING)
        self.environment.notify_running()
        self.start_inputs()
        self._processor.run()
        self._transition(StreamTaskState.FINISHING)
        self._finish()
        self._transition(StreamTaskState.FINISHED)

    def _finish(self) -> None:
        chain = self.chain
        self.processing_time_service.quiesce()
        chain.finish()
        chain.emit_to_results(EndOfData())
        chain.flush()
        self._processor.run_until(lambda: chain.has_finished and self.inputs_exhausted)
        self.mailbox.close()
        failures = chain.close()
        if failures:
            raise failures[0]
        for writer in self._writers:
            writer.writer.finish()
        self.release_inputs()

    def _clean_up(self) -> None:
        """After a failure or cancel: close all that is open; what fails here is logged and does not mask the cause."""
        for _ in range(MAX_INTERRUPTS_WHILE_CLOSING):
            try:
                self.mailbox.close()
                if self._chain is not None:
                    self._chain.close()
                self.release_inputs()
                return
            except BaseException as error:  # noqa: BLE001 - an interrupt may hit between two operators: go on closing
                _LOG.warning("%s: interrupted while closing", self.environment.task_name, exc_info=error)

    def _transition(self, to: StreamTaskState) -> None:
        if (self.state, to) not in _TRANSITIONS:
            raise InvalidTransitionError(f"{self.environment.task_name}: {self.state.value} -> {to.value}")
        self.state = to

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
        for output in self._writers:
            flush_ns = output.flush_deadline_ns
            if flush_ns is not None and (deadline_ns is None or flush_ns < deadline_ns):
                deadline_ns = flush_ns
        return deadline_ns

    def _on_deadline(self, now_ns: int) -> None:
        self.processing_time_service.fire_due(now_ns)
        for output in self._writers:
            flush_ns = output.flush_deadline_ns
            if flush_ns is not None and flush_ns <= now_ns:
                output.writer.flush()
