"""SourceOperator: runs a SourceReader and talks to the SourceCoordinator in the JobMaster.

State: the splits that the reader has not finished, one list element each (`SourceReaderState`), so that they can be
dealt out anew when the parallelism changes. A reader that gives more rows than it was asked for leaves a rest in the
operator, which the positions of its splits are behind already: then all splits and the rest are one element, because
the rest has to be emitted before any of them goes on.

Source: org.apache.flink.streaming.api.operators.SourceOperator. Differs: readers hand over batches.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import InternalError
from flinkpy.common.typeinfo import Types
from flinkpy.connector_api.serializer import read_versioned, write_versioned
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
from flinkpy.datastream.state import ListStateDescriptor
from flinkpy.records.batch import Batch
from flinkpy.records.elements import MAX_WATERMARK, Watermark
from flinkpy.state import pickling
from flinkpy.streaming.mailbox.mailbox_processor import ActionStatus
from flinkpy.streaming.operators.batch_size import AdaptiveBatchSize
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.stream_operator import USER_ERRORS, OperatorContext, StreamOperator
from flinkpy.streaming.operators.watermark_assigner import WatermarkAssigner

if TYPE_CHECKING:
    from flinkpy._proto import checkpoint_pb2
    from flinkpy.common.watermark_strategy import WatermarkStrategy


#: Each element: (splits as their serializer wrote them, batches to be emitted before, as pickled arguments of Batch).
READER_STATE = ListStateDescriptor("SourceReaderState", Types.PICKLED_BYTE_ARRAY())


class _ReaderContext:
    """The reader's view of its task."""

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

    @property
    def max_batch_rows(self) -> int:
        return self._operator.batch_size.rows

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
            self._assigner = WatermarkAssigner(
                watermark_strategy, produced_type, context, output.emit, self.emit_to_all
            )
        self._reader: SourceReader | None = None
        #: Of batches that were too long: to be emitted before the reader is polled again. More than one only where a
        #: restored operator took over several; the first is emitted up to `_rest_offset`.
        self._rests: deque[Batch] = deque()
        self._rest_offset = 0
        self._restored_checkpoint_id: int | None = None
        self._restored_splits: list[Any] = []

    def initialize_state(self, restored: checkpoint_pb2.OperatorSubtaskState | None) -> None:
        super().initialize_state(restored)
        self._restored_checkpoint_id = self.context.environment.state.restored_checkpoint_id
        if restored is None:
            return
        what = f"operator {self.context.name}, a split"
        for splits, rests in self.operator_state.get_list_state(READER_STATE).get():
            self._restored_splits += [read_versioned(self._source.split_serializer, split, what) for split in splits]
            self._rests.extend(Batch(*pickling.loads(rest)) for rest in rests)

    def open(self) -> None:
        try:
            self._reader = self._source.create_reader(_ReaderContext(self))
            splits, self._restored_splits = self._restored_splits, []
            if splits:
                self._reader.add_splits(splits)
            self.send_event(ReaderRegistered(self._restored_checkpoint_id))
            self._reader.start()
            if self._assigner is not None:
                self._assigner.open()
        except USER_ERRORS as error:
            raise self.context.function_error(error) from error

    @property
    def reader(self) -> SourceReader:
        if self._reader is None:
            raise InternalError(f"operator {self.context.name} is not open")
        return self._reader

    def snapshot_state(self, checkpoint_id: int, options: checkpoint_pb2.CheckpointOptions) -> Any:
        reader = self.reader
        try:
            splits = reader.snapshot_state(checkpoint_id)
            serialized = [write_versioned(self._source.split_serializer, split) for split in splits]
        except USER_ERRORS as error:
            raise self.context.function_error(error) from error
        elements: list[Any] = [([split], []) for split in serialized]
        if self._rests:
            first = self._rests[0]
            left = first.slice(self._rest_offset, first.num_rows - self._rest_offset)
            elements = [(serialized, [_pickled(rest) for rest in (left, *islice(self._rests, 1, None))])]
        self.operator_state.get_list_state(READER_STATE).update(elements)
        return super().snapshot_state(checkpoint_id, options)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        super().notify_checkpoint_complete(checkpoint_id)
        try:
            self.reader.notify_checkpoint_complete(checkpoint_id)
        except USER_ERRORS as error:
            raise self.context.function_error(error) from error

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        super().notify_checkpoint_aborted(checkpoint_id)
        try:
            self.reader.notify_checkpoint_aborted(checkpoint_id)
        except USER_ERRORS as error:
            raise self.context.function_error(error) from error

    def emit_next(self) -> ActionStatus:
        """Emit the next batch: what is left of an earlier one, or one the reader gives now."""
        reader = self.reader
        if self._rests:
            self._emit_rest()
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
        if batch.num_rows > self.batch_size.rows:
            self._rests.append(batch)
            self._emit_rest()
        elif batch.num_rows:
            self._emit(batch)
        return ActionStatus.MORE

    def _emit_rest(self) -> None:
        """No more of the first rest than the chain takes in good time."""
        batch, offset = self._rests[0], self._rest_offset
        rows = min(batch.num_rows - offset, self.batch_size.rows)
        if offset + rows == batch.num_rows:
            self._rests.popleft()
            self._rest_offset = 0
        else:
            self._rest_offset = offset + rows
        self._emit(batch if rows == batch.num_rows else batch.slice(offset, rows))

    def _emit(self, batch: Batch) -> None:
        size = self.batch_size
        rows = batch.num_rows
        self.num_records += rows
        self.num_batches += 1
        size.begin()
        if self._assigner is None:
            self.output.emit(batch)
        else:
            self._assigner.emit(batch)
        size.end(rows)

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        raise InternalError("a source has no input")

    def emit_max_watermark(self) -> None:
        """Event time is over: every timer and window that is left fires."""
        if self._assigner is None:
            self.emit_to_all(Watermark(MAX_WATERMARK))
        else:
            self._assigner.end_event_time(Watermark(MAX_WATERMARK))

    def handle_operator_event(self, event: Any) -> None:
        reader = self.reader
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


def _pickled(batch: Batch) -> bytes:
    return pickling.dumps((batch.values, batch.timestamps, batch.kinds))
