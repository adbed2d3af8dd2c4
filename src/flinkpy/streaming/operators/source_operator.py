"""SourceOperator: runs a SourceReader and talks to the SourceCoordinator in the JobMaster.

Source: org.apache.flink.streaming.api.operators.SourceOperator. Differs: readers hand over batches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import InternalError
from flinkpy.connector_api.source import (
    AddSplits,
    NoMoreSplits,
    ReaderRegistered,
    ReaderStatus,
    RequestSplit,
    SourceBase,
    SourceEvent,
    SourceReader,
)
from flinkpy.records.batch import Batch
from flinkpy.records.elements import MAX_WATERMARK, Watermark
from flinkpy.streaming.mailbox.mailbox_processor import ActionStatus
from flinkpy.streaming.operators.batch_size import MAX_BATCH_ROWS, AdaptiveBatchSize
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.stream_operator import USER_ERRORS, OperatorContext, StreamOperator
from flinkpy.streaming.operators.watermark_assigner import WatermarkAssigner

if TYPE_CHECKING:
    from flinkpy.common.watermark_strategy import WatermarkStrategy


class _ReaderContext:
    """The reader's view of its task."""

    max_batch_rows = MAX_BATCH_ROWS

    def __init__(self, operator: SourceOperator) -> None:
        self._operator = operator
        self._environment = operator.context.environment
        self.notify_available = operator.context.mailbox.wake

    @property
    def subtask_index(self) -> int:
        return self._environment.subtask_index

    @property
    def parallelism(self) -> int:
        return self._environment.parallelism

    def send_split_request(self) -> None:
        self._operator.send_event(RequestSplit())

    def send_source_event(self, event: Any) -> None:
        self._operator.send_event(SourceEvent(event))


class SourceOperator(StreamOperator):
    """Thread: task thread; the reader may have threads of its own.

    Attributes:
        num_records: records emitted so far.
    """

    def __init__(
        self,
        source: SourceBase,
        watermark_strategy: WatermarkStrategy | None,
        produced_type: Any,
        context: OperatorContext,
        output: Output,
        side_outputs: dict[str, Output],
    ) -> None:
        super().__init__(context, output, side_outputs)
        self.num_records = 0
        self.num_batches = 0
        self.batch_size = AdaptiveBatchSize(context.environment.clock)
        self._source = source
        self._assigner: WatermarkAssigner | None = None
        if watermark_strategy is not None:
            self._assigner = WatermarkAssigner(watermark_strategy, produced_type, context, self.emit_to_all)
        self._reader: SourceReader | None = None
        #: What is left of the reader's last batch: the batch and how far it has been emitted.
        self._rest: tuple[Batch, int] | None = None

    def open(self) -> None:
        try:
            self._reader = self._source.create_reader(_ReaderContext(self))
            self.send_event(ReaderRegistered())
            self._reader.start()
            if self._assigner is not None:
                self._assigner.open()
        except USER_ERRORS as error:
            raise self.context.function_error(error) from error

    def emit_next(self) -> ActionStatus:
        """Emit the next batch: what is left of the reader's last one, or one it gives now."""
        reader = self._reader
        if reader is None:
            raise InternalError(f"operator {self.context.name} is not open")
        if self._rest is not None:
            self._emit_slice(*self._rest)
            return ActionStatus.MORE
        try:
            batch = reader.poll_batch()
        except USER_ERRORS as error:
            raise self.context.function_error(error) from error
        if batch is ReaderStatus.NOTHING_AVAILABLE:
            return ActionStatus.NOTHING_AVAILABLE
        if batch is ReaderStatus.END_OF_INPUT:
            return ActionStatus.END
        if not isinstance(batch, Batch):
            raise InternalError(f"operator {self.context.name}: {type(reader).__name__}.poll_batch gave {batch!r}")
        if batch.num_rows:
            self._emit_slice(batch, 0)
        return ActionStatus.MORE

    def _emit_slice(self, batch: Batch, offset: int) -> None:
        """Emit records of the reader's batch from `offset`, no more than the chain takes in good time."""
        size = self.batch_size
        left = batch.num_rows - offset
        rows = min(left, size.rows)
        self._rest = None if rows == left else (batch, offset + rows)
        self.num_records += rows
        self.num_batches += 1
        part = batch if rows == batch.num_rows else batch.slice(offset, rows)
        size.begin()
        self.output.emit(part if self._assigner is None else self._assigner.assign(part))
        size.end(rows)

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        raise InternalError("a source has no input")

    def emit_max_watermark(self) -> None:
        """Event time is over: every timer and window that is left fires."""
        if self._assigner is None:
            self.emit_to_all(Watermark(MAX_WATERMARK))
        else:
            self._assigner.advance_to(Watermark(MAX_WATERMARK))

    def handle_operator_event(self, event: Any) -> None:
        reader = self._reader
        if reader is None:
            raise InternalError(f"operator {self.context.name} got {event!r} before it was open")
        try:
            if isinstance(event, AddSplits):
                reader.add_splits(list(event.splits))
            elif isinstance(event, NoMoreSplits):
                reader.notify_no_more_splits()
            elif isinstance(event, SourceEvent):
                reader.handle_source_event(event.payload)
            else:
                super().handle_operator_event(event)
        except USER_ERRORS as error:
            raise self.context.function_error(error) from error

    def send_event(self, event: Any) -> None:
        self.context.environment.send_operator_event(self.context.operator_id, event)

    def close(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            try:
                reader.close()
            except USER_ERRORS as error:
                raise self.context.function_error(error) from error
