"""SinkOperator: feeds a SinkWriter.

Source: org.apache.flink.streaming.runtime.operators.sink.SinkWriterOperator.
"""

from __future__ import annotations

from typing import Any

from flinkpy.common.errors import InternalError
from flinkpy.connector_api.sink import SinkBase, SinkWriter
from flinkpy.records.batch import Batch
from flinkpy.records.elements import Watermark
from flinkpy.streaming.operators.lane_border import as_columnar, has_columns
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.stream_operator import USER_ERRORS, OperatorContext, StreamOperator


class _WriterContext:
    """The writer's view of its task."""

    def __init__(self, context: OperatorContext, input_type: Any) -> None:
        self._context = context
        self._environment = context.environment
        self.input_type = input_type
        self.notify_writable = context.mailbox.wake

    @property
    def subtask_index(self) -> int:
        return self._environment.subtask_index

    @property
    def parallelism(self) -> int:
        return self._environment.parallelism

    @property
    def attempt_number(self) -> int:
        return self._environment.attempt_number

    @property
    def job_id(self) -> str:
        return self._environment.job_id

    def send_event_to_coordinator(self, event: Any) -> None:
        self._environment.send_operator_event(self._context.operator_id, event)


class SinkOperator(StreamOperator):
    """Thread: task thread.

    Rows are checked against and converted to the declared type here, so a writer gets columns wherever the type has an
    Arrow form, and Python objects only where it has none.
    """

    def __init__(
        self,
        sink: SinkBase,
        input_type: Any,
        context: OperatorContext,
        output: Output,
        side_outputs: dict[str, Output],
    ) -> None:
        super().__init__(context, output, side_outputs)
        self.num_records = 0
        self.num_batches = 0
        self._sink = sink
        self._input_type = input_type
        self._typed = False
        self._writer: SinkWriter | None = None

    def open(self) -> None:
        self._typed = has_columns(self._input_type)
        try:
            self._writer = self._sink.create_writer(_WriterContext(self.context, self._input_type))
        except USER_ERRORS as error:
            raise self.context.function_error(error) from error

    @property
    def writer(self) -> SinkWriter:
        if self._writer is None:
            raise InternalError(f"operator {self.context.name} is not open")
        return self._writer

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        writer = self.writer
        try:
            if self._typed:
                batch = as_columnar(batch, self._input_type)
            writer.write(batch)
        except USER_ERRORS as error:
            raise self.context.function_error(error) from error
        self.num_records += batch.num_rows
        self.num_batches += 1

    def process_watermark(self, watermark: Watermark) -> None:
        try:
            self.writer.write_watermark(watermark.timestamp)
        except USER_ERRORS as error:
            raise self.context.function_error(error) from error
        super().process_watermark(watermark)

    def finish(self) -> None:
        try:
            self.writer.flush(end_of_input=True)
        except USER_ERRORS as error:
            raise self.context.function_error(error) from error

    @property
    def is_writable(self) -> bool:
        return self._writer is None or self._writer.is_writable

    @property
    def has_finished(self) -> bool:
        return self._writer is None or self._writer.has_finished

    def handle_operator_event(self, event: Any) -> None:
        try:
            self.writer.handle_event(event)
        except USER_ERRORS as error:
            raise self.context.function_error(error) from error

    def close(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            try:
                writer.close()
            except USER_ERRORS as error:
                raise self.context.function_error(error) from error
