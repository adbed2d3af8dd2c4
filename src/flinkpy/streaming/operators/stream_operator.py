"""StreamOperator: the life cycle and inputs every operator has.

```
   created -> open -> process_batch / process_element ... -> end_input -> finish -> close
                                                     (failure, cancel) ------------> close
```

Source: org.apache.flink.streaming.api.operators.StreamOperator.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import FlinkError, FunctionError, UnsupportedOperationError, format_user_traceback
from flinkpy.records.batch import Batch
from flinkpy.records.elements import (
    CheckpointBarrier,
    Element,
    EndOfData,
    EndOfPartition,
    Watermark,
    WatermarkStatus,
)
from flinkpy.streaming.operators.output import Output

if TYPE_CHECKING:
    from flinkpy.streaming.mailbox.task_mailbox import TaskMailbox
    from flinkpy.streaming.operators.metric_group import OperatorMetricGroup
    from flinkpy.streaming.operators.runtime_context import StreamingRuntimeContext
    from flinkpy.streaming.tasks.environment import TaskEnvironment
    from flinkpy.streaming.tasks.processing_time_service import ProcessingTimeService

#: What user code may raise that counts as its failure. An exception injected to interrupt the task is none of these.
USER_ERRORS = (Exception, SystemExit, KeyboardInterrupt, GeneratorExit)


@dataclass(frozen=True, slots=True)
class OperatorContext:
    """What an operator may use of its task."""

    operator_id: str
    name: str
    environment: TaskEnvironment
    mailbox: TaskMailbox
    processing_time_service: ProcessingTimeService
    metrics: OperatorMetricGroup

    def function_error(self, error: BaseException, name: str | None = None) -> FlinkError:
        """`error` as it leaves the task: a typed error is passed on as it is, any other names the operator."""
        if isinstance(error, FlinkError):
            return error
        return FunctionError(
            f"{self.environment.task_name}, operator {name or self.name}: {type(error).__name__}: {error}",
            details={"task": self.environment.task_name, "operator": name or self.name},
            remote_traceback=format_user_traceback(error),
        )


class StreamOperator(ABC):
    """Thread: task thread.

    Attributes:
        output: the main output.
        side_outputs: by tag id; only tags that somebody consumes.
    """

    def __init__(self, context: OperatorContext, output: Output, side_outputs: dict[str, Output]) -> None:
        self.context = context
        self.output = output
        self.side_outputs = side_outputs
        #: Watermark of the input, after combining channels and inputs.
        self.current_watermark = -(1 << 63)

    def open(self) -> None:
        """Before the first batch. Operators further down the chain are open already."""
        return

    @abstractmethod
    def process_batch(self, batch: Batch, input_index: int = 0) -> None: ...

    def process_element(self, element: Element) -> None:
        """A control element, already combined over channels and inputs."""
        if isinstance(element, Watermark):
            self.current_watermark = element.timestamp
            self.process_watermark(element)
        elif isinstance(element, WatermarkStatus):
            self.emit_to_all(element)
        elif isinstance(element, CheckpointBarrier | EndOfData | EndOfPartition):
            raise UnsupportedOperationError(f"{type(element).__name__} does not pass through operators")
        else:
            self.emit_to_all(element)

    def process_watermark(self, watermark: Watermark) -> None:
        """Fire what the watermark makes due, then hand it on."""
        self.emit_to_all(watermark)

    def emit_to_all(self, element: Element) -> None:
        """To the main and all side outputs."""
        self.output.emit_element(element)
        for output in self.side_outputs.values():
            output.emit_element(element)

    def end_input(self, input_index: int) -> None:
        """That input is at its end; more may come from others."""
        return

    def finish(self) -> None:
        """All inputs are at their end: emit what is still held back. Not called after a failure."""
        return

    def close(self) -> None:
        """Release everything; called exactly once, also after a failure in `open`."""
        return

    def handle_operator_event(self, event: Any) -> None:
        """An event of this operator's coordinator."""
        raise UnsupportedOperationError(f"operator {self.context.name} takes no operator events, got {event!r}")

    @property
    def is_writable(self) -> bool:
        """False: the task must give this operator no more batches now (a sink that is full)."""
        return True

    @property
    def has_finished(self) -> bool:
        """False after `finish`: something is still under way; the mailbox is woken when it is done."""
        return True


class UserFunctionOperator(StreamOperator):
    """An operator around a user function object: opens it with a RuntimeContext and closes it once."""

    def __init__(
        self, context: OperatorContext, output: Output, side_outputs: dict[str, Output], function: Any
    ) -> None:
        super().__init__(context, output, side_outputs)
        self.function = function

    def create_runtime_context(self) -> StreamingRuntimeContext:
        from flinkpy.streaming.operators.runtime_context import StreamingRuntimeContext

        return StreamingRuntimeContext(self.context)

    def open(self) -> None:
        open_function(self.function, self.create_runtime_context(), self.context, self.context.name)

    def close(self) -> None:
        close_function(self.function, self.context, self.context.name)


def open_function(function: Any, runtime_context: Any, context: OperatorContext, name: str) -> None:
    """Call `function.open` where it has one; a failure names the operator."""
    opener = getattr(function, "open", None)
    if opener is None:
        return
    try:
        opener(runtime_context)
    except USER_ERRORS as error:
        raise context.function_error(error, name) from error


def close_function(function: Any, context: OperatorContext, name: str) -> None:
    closer = getattr(function, "close", None)
    if closer is None:
        return
    try:
        closer()
    except USER_ERRORS as error:
        raise context.function_error(error, name) from error
