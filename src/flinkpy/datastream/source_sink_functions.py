"""SourceFunction and SinkFunction: a source that runs in a thread of its own, and a sink called for every record.

In PyFlink both names stand for Java objects; here they are written in Python, as in Flink's Java API. New sources and
sinks are better written against `flinkpy.connector_api`, which takes whole batches; these are the short way.

```python
class Ticks(SourceFunction, CheckpointedFunction):
    def __init__(self):
        self.next, self.is_running = 0, True

    def run(self, ctx):
        while self.is_running:
            with ctx.get_checkpoint_lock():
                ctx.collect_with_timestamp(self.next, self.next * 1000)
                self.next += 1

    def cancel(self):
        self.is_running = False
```

Source: org.apache.flink.streaming.api.functions.source.legacy.SourceFunction,
org.apache.flink.streaming.api.functions.sink.legacy.SinkFunction.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.datastream.base_functions import Function

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from flinkpy.common.watermark_strategy import Watermark
    from flinkpy.connector_api.sink import SinkBase
    from flinkpy.connector_api.source import SourceBase

__all__ = [
    "ParallelSourceFunction",
    "RichParallelSourceFunction",
    "RichSinkFunction",
    "RichSourceFunction",
    "SinkFunction",
    "SourceFunction",
]


class SourceFunction(Function):
    """Makes records in a thread of its own, in one subtask.

    What it keeps to go on after a failure it stores as a CheckpointedFunction does: in `initialize_state` and
    `snapshot_state`, in operator state. A record and the change of the function's fields that belongs to it are one
    step for a checkpoint where both happen under `ctx.get_checkpoint_lock()`. `open`, `close` and the methods of
    checkpoints are called by the task, `run` by the function's own thread.

    A connector that has a better source of its own overrides `to_source`.
    """

    def __init__(self, source_func: Any = None) -> None:
        """Raises: UnsupportedOperationError for the name of a Java class, or a Java object."""
        if source_func is not None:
            raise _java_error(self, source_func, "run and cancel", "add_source")

    def run(self, ctx: SourceFunction.SourceContext) -> None:
        """Make all records; the source ends when this returns, and fails with what it raises."""
        raise UnsupportedOperationError(f"{type(self).__name__} has no method run(ctx)")

    def cancel(self) -> None:
        """Have `run` return soon. Called by another thread, also where `run` has returned; may be called twice.

        A `run` that is in one of the context's methods, or comes to one, is ended by an exception there.
        """
        raise UnsupportedOperationError(f"{type(self).__name__} has no method cancel()")

    def to_source(self) -> SourceBase:
        """The source that runs this function: what `from_source` takes."""
        from flinkpy.connectors.source_function import SourceFunctionSource

        return SourceFunctionSource(self)

    class SourceContext(ABC):
        """Where `run` puts what it makes. Thread: the function's own.

        Every method may wait: until there is room for more, and until a checkpoint has been taken.
        """

        @abstractmethod
        def collect(self, value: Any) -> None:
            """Emit a record without a timestamp."""

        @abstractmethod
        def collect_with_timestamp(self, value: Any, timestamp: int) -> None:
            """Emit a record with its event time, in ms since the epoch."""

        @abstractmethod
        def emit_watermark(self, watermark: int | Watermark) -> None:
            """No record at or before this time, in ms, follows."""

        @abstractmethod
        def mark_as_temporarily_idle(self) -> None:
            """Nobody waits for the watermarks of this subtask until it emits the next record or watermark."""

        @abstractmethod
        def get_checkpoint_lock(self) -> AbstractContextManager[Any]:
            """No checkpoint is taken while it is held (`with ctx.get_checkpoint_lock():`). Reentrant."""

        @abstractmethod
        def close(self) -> None:
            """Nothing more is emitted; what is, is dropped."""


class ParallelSourceFunction(SourceFunction):
    """Runs in every subtask; each has its own copy of the function."""


class RichSourceFunction(SourceFunction):
    """A SourceFunction that can ask for its place, and for metrics. Any can here: the name is Flink's."""

    _runtime_context: Any = None

    def open(self, runtime_context: Any) -> None:
        self._runtime_context = runtime_context

    def get_runtime_context(self) -> Any:
        """The RuntimeContext that `open` was given (a subclass calls `super().open(runtime_context)`)."""
        if self._runtime_context is None:
            raise UnsupportedOperationError(f"{type(self).__name__} has no RuntimeContext before it is open")
        return self._runtime_context


class RichParallelSourceFunction(RichSourceFunction, ParallelSourceFunction):
    """Runs in every subtask, and knows in which."""


class SinkFunction(Function):
    """Is called for every record, on the task's thread.

    It may take part in checkpoints as a CheckpointedFunction. Records since the last checkpoint come again after a
    failure. A connector that has a better sink of its own overrides `to_sink`.
    """

    def __init__(self, sink_func: Any = None) -> None:
        """Raises: UnsupportedOperationError for the name of a Java class, or a Java object."""
        if sink_func is not None:
            raise _java_error(self, sink_func, "invoke", "add_sink")

    def invoke(self, value: Any, context: SinkFunction.Context) -> None:
        """Take a record. May block."""
        raise UnsupportedOperationError(f"{type(self).__name__} has no method invoke(value, context)")

    def write_watermark(self, watermark: Watermark) -> None:
        """Event time has come that far."""
        return

    def finish(self) -> None:
        """All records have been given: write out what is held back. Not called after a failure."""
        return

    def to_sink(self) -> SinkBase:
        """The sink that calls this function: what `sink_to` takes."""
        from flinkpy.connectors.sink_function import SinkFunctionSink

        return SinkFunctionSink(self)

    class Context(ABC):
        """About the record that `invoke` has."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """In ms since the epoch."""

        @abstractmethod
        def current_watermark(self) -> int:
            """In ms; the smallest int64 before the first one."""

        @abstractmethod
        def timestamp(self) -> int | None:
            """Event time of the record in ms; None where it has none."""


class RichSinkFunction(SinkFunction):
    """A SinkFunction that can ask for its place, and for metrics. Any can here: the name is Flink's."""

    _runtime_context: Any = None

    def open(self, runtime_context: Any) -> None:
        self._runtime_context = runtime_context

    def get_runtime_context(self) -> Any:
        """The RuntimeContext that `open` was given (a subclass calls `super().open(runtime_context)`)."""
        if self._runtime_context is None:
            raise UnsupportedOperationError(f"{type(self).__name__} has no RuntimeContext before it is open")
        return self._runtime_context


def _java_error(function: Any, j_function: Any, methods: str, where: str) -> UnsupportedOperationError:
    return UnsupportedOperationError(
        f"{type(function).__name__}({j_function!r}): flinkpy has no JVM and cannot run Java functions; give {where} a "
        f"subclass of {type(function).__name__} with {methods} instead"
    )
