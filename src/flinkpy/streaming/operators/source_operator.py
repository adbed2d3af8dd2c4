"""SourceOperator: runs a SourceReader and talks to the SourceCoordinator in the JobMaster.

State: the splits that the reader has not finished, one list element each (`SourceReaderState`), so that they can be
redistributed when the parallelism changes. If a reader returns more rows than requested, the operator keeps the
remainder. The positions of the splits are already behind these rows. In this case all splits and the remainder form one
element, because the remainder must be emitted before any of these splits is read further.

Source: org.apache.flink.streaming.api.operators.SourceOperator. Differs: readers hand over batches.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Any

from flinkpy.common.error_text import USER_ERRORS
from flinkpy.common.errors import InternalError, UnsupportedOperationError
from flinkpy.common.typeinfo import Types
from flinkpy.configuration import read_option
from flinkpy.configuration.checkpointing_options import INTERVAL, PAUSE_SOURCES_UNTIL_FIRST_CHECKPOINT
from flinkpy.configuration.pipeline_options import ALLOW_UNALIGNED_SOURCE_SPLITS, WATERMARK_ALIGNMENT_BUFFER_SIZE
from flinkpy.connector_api.serializer import read_versioned, write_versioned
from flinkpy.connector_api.source import (
    AddSplits,
    NoMoreSplits,
    ReaderRegistered,
    ReaderStatus,
    RegisterAgain,
    RequestSplit,
    SourceBase,
    SourceEvent,
    SourceReader,
)
from flinkpy.connector_api.watermark_alignment import ReportedWatermark, WatermarkAlignment
from flinkpy.functions.state import ListStateDescriptor
from flinkpy.records.batch import Batch
from flinkpy.records.elements import MAX_WATERMARK
from flinkpy.state import pickling
from flinkpy.streaming.mailbox.mailbox_processor import ActionStatus
from flinkpy.streaming.operators.batch_size import AdaptiveBatchSize
from flinkpy.streaming.operators.latency import LatencyMarkerEmitter
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.source_alignment import SourceAlignment
from flinkpy.streaming.operators.source_metrics import SourceMetrics
from flinkpy.streaming.operators.stream_operator import OperatorContext, StreamOperator
from flinkpy.streaming.operators.watermark_assigner import WatermarkAssigner
from flinkpy.streaming.operators.watermark_outputs import NoListener, StreamOutput

if TYPE_CHECKING:
    from flinkpy._proto import checkpoint_pb2
    from flinkpy.common.watermark_strategy import WatermarkStrategy


#: Elements: (serialized splits, batches to emit before they are read, as pickled arguments of Batch).
READER_STATE = ListStateDescriptor("SourceReaderState", Types.PICKLED_BYTE_ARRAY())


class _ReaderContext:
    """Implements SourceReaderContext: the reader's access to its task."""

    def __init__(self, operator: SourceOperator) -> None:
        self._operator = operator
        self._environment = operator.context.environment
        self.notify_available = operator.context.mailbox.wake
        self.monotonic_ns = operator.context.environment.clock.monotonic_ns

    @property
    def subtask_index(self) -> int:
        return self._environment.subtask_index

    @property
    def parallelism(self) -> int:
        return self._environment.parallelism

    @property
    def is_checkpointing_enabled(self) -> bool:
        return bool(read_option(self._environment.configuration, INTERVAL))

    @property
    def max_batch_rows(self) -> int:
        return self._operator.batch_size.rows

    def send_split_request(self) -> None:
        self._operator.request_split()

    def send_source_event(self, event: Any) -> None:
        self._operator.send_event(SourceEvent(event))

    def schedule(self, delay_ms: int, action: Any) -> None:
        operator = self._operator

        def run(time_ms: int) -> None:
            try:
                action(time_ms)
            except USER_ERRORS as error:
                raise operator.context.function_error(error) from error

        operator.context.processing_time_service.schedule_after(delay_ms, run)

    def emit_watermark(self, timestamp: int) -> None:
        self._operator.stream_output.emit_timestamp(timestamp)

    def mark_idle(self) -> None:
        self._operator.stream_output.mark_idle()

    def mark_active(self) -> None:
        self._operator.stream_output.mark_active()

    def split_finished(self, split_id: str) -> None:
        self._operator.on_split_finished(split_id)

    @property
    def metric_group(self) -> Any:
        return self._operator.context.metrics

    def emit_to_side_output(self, tag_id: str, batch: Batch) -> None:
        output = self._operator.side_outputs.get(tag_id)
        if output is not None:
            output.emit(batch)


class SourceOperator(StreamOperator):
    """Runs a SourceReader.

    Thread: task thread. The reader may have its own threads.

    Attributes:
        num_records: the number of records emitted so far.
        stream_output: takes watermarks and idleness of the source as a whole.
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
        self._alignment: SourceAlignment | None = None
        self._report_interval_ms = 0
        self._metrics: SourceMetrics | None = None
        if watermark_strategy is not None:
            if watermark_strategy.alignment is not None:
                self._report_interval_ms = watermark_strategy.alignment[2]
                buffer_size = read_option(context.environment.configuration, WATERMARK_ALIGNMENT_BUFFER_SIZE)
                self._alignment = SourceAlignment(buffer_size, self._pause_or_resume_splits, self._on_waiting)
            self._metrics = SourceMetrics(context.metrics, context.environment.clock, self._alignment or NoListener())
            self._assigner = WatermarkAssigner(
                watermark_strategy, produced_type, context, self._emit_stamped, self.emit_to_all, self._metrics
            )
            self.stream_output = self._assigner.stream
        else:
            self.stream_output = StreamOutput(self.emit_to_all, lambda: None, NoListener())
        self._reader: SourceReader | None = None
        #: (batch, split id) of batches that were too long. They are emitted before the next poll of the reader. There
        #: is more than one only after a restore with another parallelism. The first is emitted up to
        #: `_remainder_offset`.
        self._remainders: deque[tuple[Batch, str | None]] = deque()
        self._remainder_offset = 0
        configuration = context.environment.configuration
        self._waits_for_checkpoint = read_option(configuration, PAUSE_SOURCES_UNTIL_FIRST_CHECKPOINT) and bool(
            read_option(configuration, INTERVAL)
        )
        self._restored_checkpoint_id: int | None = None
        self._restored_splits: list[Any] = []
        #: Splits whose last record has been read but perhaps not emitted yet.
        self._finished_splits: list[str] = []
        #: True from a request for a split to its answer.
        self._awaits_split = False
        self._idle_since_ms: int | None = None
        self._num_finished_splits = 0
        context.metrics.gauge("sourceIdleTime", lambda: self.idle_ms)
        context.metrics.count_only("numSplitsProcessed", lambda: self._num_finished_splits)

    def initialize_state(self, restored: checkpoint_pb2.OperatorSubtaskState | None) -> None:
        super().initialize_state(restored)
        self._restored_checkpoint_id = self.context.environment.state.restored_checkpoint_id
        if restored is None:
            return
        where = f"operator {self.context.name}, a split"
        for splits, remainders in self.operator_state.get_list_state(READER_STATE).get():
            self._restored_splits += [read_versioned(self._source.split_serializer, split, where) for split in splits]
            self._remainders.extend(_unpickled(remainder) for remainder in remainders)

    def open(self) -> None:
        try:
            self._reader = reader = self._source.create_reader(_ReaderContext(self))
            if reader.pending_bytes is not None:
                self.context.metrics.gauge("pendingBytes", lambda: reader.pending_bytes)
            if self._assigner is not None:
                self._assigner.open()
            splits, self._restored_splits = self._restored_splits, []
            if splits:
                self._add_splits(splits)
            self._finish_splits_of_remainders(splits)
            self.send_event(ReaderRegistered(self._restored_checkpoint_id))
            self._reader.start()
            LatencyMarkerEmitter(self).start()
            if self._alignment is not None:
                self.context.processing_time_service.schedule_after(self._report_interval_ms, self._on_report_interval)
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
        remainders = self.remainders_to_store()
        if remainders:
            elements = [(serialized, [_pickled(*remainder) for remainder in remainders])]
        self.operator_state.get_list_state(READER_STATE).update(elements)
        if self._waits_for_checkpoint:
            self._waits_for_checkpoint = False
            self.context.mailbox.wake()
        return super().snapshot_state(checkpoint_id, options)

    def remainders_to_store(self) -> list[tuple[Batch, str | None]]:
        """Returns (batch, split id) of the rows that the reader has returned and that are not emitted yet."""
        if not self._remainders:
            return []
        first, split_id = self._remainders[0]
        left = first.slice(self._remainder_offset, first.num_rows - self._remainder_offset)
        return [(left, split_id), *islice(self._remainders, 1, None)]

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

    @property
    def idle_ms(self) -> int:
        """How long the reader has had no records; 0 while it has some. Any thread."""
        since_ms = self._idle_since_ms
        return 0 if since_ms is None else max(0, self.context.environment.clock.monotonic_ms() - since_ms)

    def emit_next(self) -> ActionStatus:
        """Emits the next batch: a part of an earlier batch that was too long, or a new batch from the reader."""
        reader = self.reader
        if self._waits_for_checkpoint or (self._alignment is not None and self._alignment.is_waiting):
            # The first snapshot wakes the mailbox, or the announcement of a higher allowed watermark.
            return ActionStatus.NOTHING_AVAILABLE
        if self._remainders:
            self._emit_rest()
            self._release_finished_splits()
            return ActionStatus.MORE
        try:
            batch = reader.poll_batch()
        except USER_ERRORS as error:
            raise self.context.function_error(error) from error
        if batch is ReaderStatus.NOTHING_AVAILABLE:
            if self._idle_since_ms is None:
                self._idle_since_ms = self.context.environment.clock.monotonic_ms()
            self._release_finished_splits()
            return ActionStatus.NOTHING_AVAILABLE
        if batch is ReaderStatus.END_OF_INPUT:
            return ActionStatus.END
        if not isinstance(batch, Batch):
            raise InternalError(f"operator {self.context.name}: {type(reader).__name__}.poll_batch returned {batch!r}")
        split_id = reader.current_split_id
        if batch.num_rows > self.batch_size.rows:
            self._remainders.append((batch, split_id))
            self._emit_rest()
        elif batch.num_rows:
            self.emit_batch(batch, split_id)
        self._release_finished_splits()
        return ActionStatus.MORE

    def _emit_rest(self) -> None:
        """Emits a part of the first leftover batch, at most as long as the current batch size."""
        (batch, split_id), offset = self._remainders[0], self._remainder_offset
        rows = min(batch.num_rows - offset, self.batch_size.rows)
        if offset + rows == batch.num_rows:
            self._remainders.popleft()
            self._remainder_offset = 0
        else:
            self._remainder_offset = offset + rows
        self.emit_batch(batch if rows == batch.num_rows else batch.slice(offset, rows), split_id)

    def emit_remainders(self) -> None:
        """Emits all leftover batches."""
        while self._remainders:
            self._emit_rest()

    def emit_batch(self, batch: Batch, split_id: str | None) -> None:
        size = self.batch_size
        rows = batch.num_rows
        self.num_records += rows
        self.num_batches += 1
        self._idle_since_ms = None
        size.begin()
        if self._assigner is None:
            self.output.emit(batch)
        else:
            self._assigner.emit(batch, split_id)
        size.end(rows)

    def _emit_stamped(self, batch: Batch) -> None:
        assert self._metrics is not None
        self.output.emit(batch)
        self._metrics.on_batch(batch, None if self._reader is None else self._reader.fetch_time_ms)

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        raise InternalError("a source has no input")

    def emit_max_watermark(self) -> None:
        """Ends event time, so that all remaining timers and windows fire. Emits the leftover batches first."""
        self.emit_remainders()
        self.stream_output.emit_timestamp(MAX_WATERMARK)
        if self._alignment is not None:
            self.send_event(ReportedWatermark(MAX_WATERMARK))

    def handle_operator_event(self, event: Any) -> None:
        reader = self.reader
        try:
            if isinstance(event, AddSplits):
                self._awaits_split = False
                self._add_splits(list(event.splits))
            elif isinstance(event, WatermarkAlignment) and self._alignment is not None:
                self._alignment.on_announcement(event.max_watermark)
                if self._metrics is not None:
                    self._metrics.on_allowed(event.max_watermark)
            elif isinstance(event, NoMoreSplits):
                self._awaits_split = False
                reader.notify_no_more_splits()
            elif isinstance(event, RegisterAgain):
                self.send_event(ReaderRegistered(self._restored_checkpoint_id))
                if self._awaits_split:
                    self.request_split()
            elif isinstance(event, SourceEvent):
                reader.handle_source_event(event.payload)
            else:
                super().handle_operator_event(event)
        except USER_ERRORS as error:
            raise self.context.function_error(error) from error

    # -- splits and alignment --------------------------------------------------------------------------------------

    def _add_splits(self, splits: list[Any]) -> None:
        reader = self.reader
        if self._assigner is not None and reader.names_splits:
            for split in splits:
                split_id = getattr(split, "split_id", None)
                if split_id is not None:
                    self._assigner.add_split(split_id)
                    if self._metrics is not None:
                        self._metrics.on_split_added(split_id)
        reader.add_splits(splits)

    def _finish_splits_of_remainders(self, splits: list[Any]) -> None:
        """Marks splits that had finished before the checkpoint. Their readers will not report them again."""
        known = {getattr(split, "split_id", None) for split in splits}
        for split_id in {split_id for _, split_id in self._remainders}:
            if split_id is not None and split_id not in known:
                self.on_split_finished(split_id)

    def on_split_finished(self, split_id: str) -> None:
        """Called by the reader when it has returned, or is about to return, the last record of the split."""
        self._num_finished_splits += 1
        if self._assigner is not None:
            self._finished_splits.append(split_id)

    def _release_finished_splits(self) -> None:
        if not self._finished_splits or self._remainders:
            return
        finished, self._finished_splits = self._finished_splits, []
        for split_id in finished:
            if self._alignment is not None:
                self._alignment.on_split_finished(split_id)
            if self._assigner is not None and self._metrics is not None:
                self._assigner.remove_split(split_id)
                self._metrics.on_split_finished(split_id)

    def _pause_or_resume_splits(self, to_pause: list[str], to_resume: list[str]) -> None:
        try:
            self.reader.pause_or_resume_splits(to_pause, to_resume)
        except UnsupportedOperationError:
            if not read_option(self.context.environment.configuration, ALLOW_UNALIGNED_SOURCE_SPLITS):
                raise
            return
        except USER_ERRORS as error:
            raise self.context.function_error(error) from error
        assert self._assigner is not None
        assert self._metrics is not None
        self._assigner.pause_or_resume_splits(to_pause, to_resume)
        self._metrics.on_splits_paused(to_pause, to_resume)

    def _on_waiting(self, is_waiting: bool) -> None:
        """Pauses the activity clock while the source waits, so that waiting does not count as idleness."""
        assert self._assigner is not None
        if is_waiting:
            self._assigner.activity_clock.pause()
        else:
            self._assigner.activity_clock.resume()

    def _on_report_interval(self, _: int) -> None:
        alignment = self._alignment
        assert alignment is not None
        alignment.on_interval()
        timestamp = alignment.watermark_to_report
        if timestamp is not None:
            self.send_event(ReportedWatermark(timestamp))
        self.context.processing_time_service.schedule_after(self._report_interval_ms, self._on_report_interval)

    def request_split(self) -> None:
        self._awaits_split = True
        self.send_event(RequestSplit())

    def send_event(self, event: Any) -> None:
        self.context.environment.send_operator_event(self.context.operator_id, event)

    def close(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            try:
                reader.close()
            except USER_ERRORS as error:
                raise self.context.function_error(error) from error


def _pickled(batch: Batch, split_id: str | None) -> bytes:
    return pickling.dumps((batch.values, batch.timestamps, batch.kinds, split_id))


def _unpickled(data: bytes) -> tuple[Batch, str | None]:
    values, timestamps, kinds, *split_id = pickling.loads(data)
    return Batch(values, timestamps, kinds), split_id[0] if split_id else None
