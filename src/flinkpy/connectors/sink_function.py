"""SinkFunction, a sink that is called for every record, and SinkFunctionSink, which calls it.

In PyFlink the name stands for a Java object. Here the function is written in Python, as in Flink's Java API. It is the
quick way. `flinkpy.connector_api`, which handles whole batches, is the better base for new sinks.

Source: org.apache.flink.streaming.api.functions.sink.legacy.SinkFunction,
org.apache.flink.streaming.api.operators.StreamSink.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.common.watermark_strategy import Watermark
from flinkpy.connector_api.sink import SinkBase, SinkWriter, WriterContext
from flinkpy.functions.function import Function

if TYPE_CHECKING:
    from flinkpy.records.batch import Batch

_MIN_WATERMARK = -(1 << 63)


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
            raise UnsupportedOperationError(
                f"{type(self).__name__}({sink_func!r}): flinkpy has no JVM and cannot run Java functions; give "
                f"add_sink a subclass of {type(self).__name__} with invoke instead"
            )

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
    """A SinkFunction that keeps its RuntimeContext. The name is Flink's; every SinkFunction here has `open`."""

    _runtime_context: Any = None

    def open(self, runtime_context: Any) -> None:
        self._runtime_context = runtime_context

    def get_runtime_context(self) -> Any:
        """Returns the RuntimeContext that `open` received. A subclass must call `super().open(runtime_context)`."""
        if self._runtime_context is None:
            raise UnsupportedOperationError(f"{type(self).__name__} has no RuntimeContext before it is open")
        return self._runtime_context


class SinkFunctionSink(SinkBase):
    """Calls a copy of the function in each writer. The operator opens and closes the function and keeps its state."""

    def __init__(self, function: Any) -> None:
        self._function = function

    @property
    def sink_function(self) -> Any:
        return self._function

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return _SinkFunctionWriter(self._function, context)


class _SinkFunctionWriter(SinkWriter):
    """Thread: task thread."""

    def __init__(self, function: Any, context: WriterContext) -> None:
        self._function = function
        self._input_type = context.input_type
        self._invocation = _Invocation(context)

    def write(self, batch: Batch) -> None:
        from flinkpy.records.lanes import rows_of

        invoke, invocation = self._function.invoke, self._invocation
        rows = rows_of(batch, self._input_type)
        if batch.timestamps is None:
            invocation.record_timestamp = None
            for row in rows:
                invoke(row, invocation)
        else:
            for row, invocation.record_timestamp in zip(rows, batch.timestamps.tolist()):
                invoke(row, invocation)

    def write_watermark(self, timestamp: int) -> None:
        self._invocation.watermark = timestamp
        self._function.write_watermark(Watermark(timestamp))

    def flush(self, end_of_input: bool) -> None:
        if end_of_input:
            self._function.finish()


class _Invocation(SinkFunction.Context):
    """The context of `invoke`. One object serves all records, as in Flink."""

    def __init__(self, context: WriterContext) -> None:
        self._context = context
        self.watermark = _MIN_WATERMARK
        self.record_timestamp: int | None = None

    def current_processing_time(self) -> int:
        return self._context.current_processing_time()

    def current_watermark(self) -> int:
        return self.watermark

    def timestamp(self) -> int | None:
        return self.record_timestamp
