"""SinkFunctionSink: calls a SinkFunction for every record.

Source: org.apache.flink.streaming.api.operators.StreamSink.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flinkpy.common.watermark_strategy import Watermark
from flinkpy.connector_api.sink import SinkBase, SinkWriter, WriterContext
from flinkpy.datastream.source_sink_functions import SinkFunction

if TYPE_CHECKING:
    from flinkpy.records.batch import Batch

_MIN_WATERMARK = -(1 << 63)


class SinkFunctionSink(SinkBase):
    """Each writer has a copy of the function. Its operator opens and closes it, and has its state."""

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
    """What `invoke` is given: one object for all records, as Flink's."""

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
