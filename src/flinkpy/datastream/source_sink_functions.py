"""SourceFunction, a source that runs in its own thread, and SinkFunction, a sink that is called for every record.

In PyFlink both names stand for Java objects. Here they are written in Python, as in Flink's Java API. They are the
short way. `flinkpy.connector_api`, which handles whole batches, is the better base for new sources and sinks.

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
    """A source that emits records from its own thread, in one subtask.

    To continue after a failure, it keeps its position in operator state, as a CheckpointedFunction does. Emitting a
    record and changing the function's fields are one step for a checkpoint if both happen under
    `ctx.get_checkpoint_lock()`. The task calls `open`, `close` and the methods of checkpoints; the function's own
    thread calls `run`.

    A connector that has a better source overrides `to_source`.
    """

    def __init__(self, source_func: Any = None) -> None:
        """Raises: UnsupportedOperationError for the name of a Java class, or a Java object."""
        if source_func is not None:
            raise _java_error(self, source_func, "run and cancel", "add_source")

    def run(self, ctx: SourceFunction.SourceContext) -> None:
        """Emits all records. The source ends when this returns, and fails if this raises.

        Args:
            ctx: emits records and watermarks.
        """
        raise UnsupportedOperationError(f"{type(self).__name__} has no method run(ctx)")

    def cancel(self) -> None:
        """Makes `run` return soon. Another thread calls it, possibly twice or after `run` has returned.

        If `run` is in a method of the context, or calls one, an exception ends it there.
        """
        raise UnsupportedOperationError(f"{type(self).__name__} has no method cancel()")

    def to_source(self) -> SourceBase:
        """Returns the source that runs this function, which `from_source` accepts."""
        from flinkpy.connectors.source_function import SourceFunctionSource

        return SourceFunctionSource(self)

    class SourceContext(ABC):
        """Emits the records and watermarks of `run`. Thread: the function's own.

        Every method may block until there is room for more records, and until a checkpoint has been taken.
        """

        @abstractmethod
        def collect(self, value: Any) -> None:
            """Emits a record without a timestamp."""

        @abstractmethod
        def collect_with_timestamp(self, value: Any, timestamp: int) -> None:
            """Emits a record with its event time in milliseconds since the epoch."""

        @abstractmethod
        def emit_watermark(self, watermark: int | Watermark) -> None:
            """Emits a watermark: no record at or before this time, in milliseconds, follows."""

        @abstractmethod
        def mark_as_temporarily_idle(self) -> None:
            """Marks this subtask as idle: its watermarks are not waited for until it emits a record or watermark."""

        @abstractmethod
        def get_checkpoint_lock(self) -> AbstractContextManager[Any]:
            """Returns a reentrant lock. No checkpoint is taken while it is held (`with ctx.get_checkpoint_lock():`)."""

        @abstractmethod
        def close(self) -> None:
            """Closes the context. It drops all later records."""


class ParallelSourceFunction(SourceFunction):
    """A SourceFunction that runs in every subtask. Each subtask has its own copy of the function."""


class RichSourceFunction(SourceFunction):
    """A SourceFunction that keeps its RuntimeContext. The name is Flink's; every SourceFunction here has `open`."""

    _runtime_context: Any = None

    def open(self, runtime_context: Any) -> None:
        self._runtime_context = runtime_context

    def get_runtime_context(self) -> Any:
        """Returns the RuntimeContext that `open` received. A subclass must call `super().open(runtime_context)`."""
        if self._runtime_context is None:
            raise UnsupportedOperationError(f"{type(self).__name__} has no RuntimeContext before it is open")
        return self._runtime_context


class RichParallelSourceFunction(RichSourceFunction, ParallelSourceFunction):
    """A RichSourceFunction that runs in every subtask."""


class SinkFunction(Function):
    """A sink whose `invoke` is called for every record, on the task's thread.

    It may take part in checkpoints as a CheckpointedFunction. After a failure it gets the records since the last
    checkpoint again. A connector that has a better sink overrides `to_sink`.

    Example:
        ```
        class Insert(SinkFunction):
            def open(self, runtime_context):
                self.connection = connect()

            def invoke(self, value, context):
                self.connection.execute("insert into t values (?)", value)

        stream.add_sink(Insert())
        ```
    """

    def __init__(self, sink_func: Any = None) -> None:
        """Raises: UnsupportedOperationError for the name of a Java class, or a Java object."""
        if sink_func is not None:
            raise _java_error(self, sink_func, "invoke", "add_sink")

    def invoke(self, value: Any, context: SinkFunction.Context) -> None:
        """Writes a record. It may block."""
        raise UnsupportedOperationError(f"{type(self).__name__} has no method invoke(value, context)")

    def write_watermark(self, watermark: Watermark) -> None:
        """Handles a watermark."""
        return

    def finish(self) -> None:
        """Writes records that are still buffered. It is called at the end of the input, but not after a failure."""
        return

    def to_sink(self) -> SinkBase:
        """Returns the sink that calls this function, which `sink_to` accepts."""
        from flinkpy.connectors.sink_function import SinkFunctionSink

        return SinkFunctionSink(self)

    class Context(ABC):
        """Times of the current record, in milliseconds."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """Returns the time of the machine's clock since the epoch."""

        @abstractmethod
        def current_watermark(self) -> int:
            """Returns the current watermark; the smallest int64 before the first one."""

        @abstractmethod
        def timestamp(self) -> int | None:
            """Returns the event time of the record; None if it has none."""


class RichSinkFunction(SinkFunction):
    """A SinkFunction that can ask for its place, and for metrics. Any can here: the name is Flink's."""

    _runtime_context: Any = None

    def open(self, runtime_context: Any) -> None:
        self._runtime_context = runtime_context

    def get_runtime_context(self) -> Any:
        """Returns the RuntimeContext that `open` received. A subclass must call `super().open(runtime_context)`."""
        if self._runtime_context is None:
            raise UnsupportedOperationError(f"{type(self).__name__} has no RuntimeContext before it is open")
        return self._runtime_context


def _java_error(function: Any, j_function: Any, methods: str, where: str) -> UnsupportedOperationError:
    return UnsupportedOperationError(
        f"{type(function).__name__}({j_function!r}): flinkpy has no JVM and cannot run Java functions; give {where} a "
        f"subclass of {type(function).__name__} with {methods} instead"
    )
