"""WatermarkAssigner and TimestampsAndWatermarksOperator: assign timestamps to records and emit watermarks.

The built-in generators see whole batches and emit at intervals only, between two batches. A generator of the program is
called for every record, as if the record had just been emitted. If it emits a watermark, the batch is cut after that
record. So the output does not depend on how the input was cut into batches.

A source has one generator for each of its splits, and one for records without a split.

Source: org.apache.flink.streaming.api.operators.source.{ProgressiveTimestampsAndWatermarks,SourceOutputWithWatermarks,
ActivityClockPausingDataOutput}.
Differs: a source with an idle timeout whose splits have all finished becomes idle after the timeout. In Flink it would
hold back its consumers until the end of the job.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from flinkpy.common.error_text import USER_ERRORS
from flinkpy.common.watermark_strategy import WatermarkOutput
from flinkpy.configuration import read_option
from flinkpy.configuration.pipeline_options import AUTO_WATERMARK_INTERVAL
from flinkpy.records.batch import Batch
from flinkpy.records.elements import MAX_WATERMARK, MIN_WATERMARK, Element, Watermark, WatermarkStatus
from flinkpy.streaming.operators.lane_border import as_rows
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.stream_operator import OperatorContext, StreamOperator
from flinkpy.streaming.operators.timestamp_extraction import create_stamp
from flinkpy.streaming.operators.watermark_generators import BatchGenerator, IdlenessTimer, create_generator
from flinkpy.streaming.operators.watermark_outputs import (
    NoListener,
    StreamOutput,
    WatermarkListener,
    WatermarkMultiplexer,
    two_ways,
)

if TYPE_CHECKING:
    from flinkpy.common.watermark_strategy import WatermarkStrategy


_LOG = logging.getLogger(__name__)


class ActivityClock:
    """A clock that follows another clock and can be paused. Thread: task thread.

    It measures how long an input has been silent, without the time in which it could not be read.

    Source: org.apache.flink.streaming.api.operators.util.PausableRelativeClock.

    Args:
        below_ns: the clock to follow, which never goes back.
    """

    __slots__ = ("_below_ns", "_paused_at_ns", "_paused_total_ns")

    def __init__(self, below_ns: Callable[[], int]) -> None:
        self._below_ns = below_ns
        self._paused_total_ns = 0
        self._paused_at_ns: int | None = None

    def now_ns(self) -> int:
        at_ns = self._below_ns() if self._paused_at_ns is None else self._paused_at_ns
        return at_ns - self._paused_total_ns

    def pause(self) -> None:
        """Stops the clock. Idempotent."""
        if self._paused_at_ns is None:
            self._paused_at_ns = self._below_ns()

    def resume(self) -> None:
        """Lets the clock run again. Idempotent."""
        if self._paused_at_ns is not None:
            self._paused_total_ns += self._below_ns() - self._paused_at_ns
            self._paused_at_ns = None


class WatermarkAssigner:
    """Runs the watermark strategy of one operator.

    Thread: task thread.

    Args:
        emit_batch: emits records.
        emit_element: emits watermarks and idleness.
    """

    def __init__(
        self,
        strategy: WatermarkStrategy,
        value_type: Any,
        context: OperatorContext,
        emit_batch: Callable[[Batch], None],
        emit_element: Callable[[Element], None],
        listener: WatermarkListener | None = None,
    ) -> None:
        listener = listener or NoListener()
        self._strategy = strategy
        self._context = context
        self._clock = context.processing_time_service
        self._interval_ms = read_option(context.environment.configuration, AUTO_WATERMARK_INTERVAL)
        self._stamp = create_stamp(strategy, value_type, context)
        self._needs_timestamps = strategy.out_of_orderness_ms is not None and self._stamp is None
        #: Paused while downstream operators work, because no split can be read meanwhile.
        self._reading_clock = ActivityClock(self._clock.active_time_ns)
        self._emit_batch = emit_batch
        has_idleness = strategy.idle_timeout_ms is not None
        self._records = _Records(self._emit_off_the_clock if has_idleness else emit_batch, value_type, context)
        #: Takes watermarks and idleness of the stream as a whole.
        self.stream = StreamOutput(emit_element, self._records.emit_up_to_here, listener)
        self._main_output, self._splits_output = two_ways(self.stream)
        self._splits = WatermarkMultiplexer(self._splits_output, listener)
        self._outputs: dict[str, _GeneratedOutput] = {}
        #: Paused while the task cannot read although there may be records to read.
        self.activity_clock = ActivityClock(self._reading_clock.now_ns)
        self._main: _GeneratedOutput | None = None
        self._without_splits: IdlenessTimer | None = None
        if strategy.idle_timeout_ms is not None:
            self._without_splits = IdlenessTimer(strategy.idle_timeout_ms, self.activity_clock.now_ns)

    def open(self) -> None:
        self._main = self._generated_output(self._main_output, self._main_output, self.activity_clock)
        speaks = self._strategy.makes_watermarks or self._strategy.idle_timeout_ms is not None
        if speaks and self._interval_ms > 0:
            self._clock.schedule_after(self._interval_ms, self._on_interval)

    def emit(self, batch: Batch, split_id: str | None = None) -> None:
        """Emits the batch with its timestamps, and the watermarks that belong between its records.

        Args:
            split_id: the split that all records of the batch come from; None if they have no split.
        """
        if self._stamp is not None:
            batch = self._stamp(batch)
        elif self._needs_timestamps:
            self._check_timestamps(batch)
        if split_id is None:
            assert self._main is not None, "open comes first"
            output = self._main
        else:
            output = self._outputs.get(split_id) or self.add_split(split_id)
        output.emit(batch)

    def emit_periodic(self) -> None:
        """Asks all generators for their watermarks now."""
        for output in self._outputs.values():
            output.emit_periodic()
        self._splits.on_periodic_emit()
        if self._main is not None:
            self._main.emit_periodic()
        if self._without_splits is not None:
            if self._outputs:
                self._without_splits.activity()
            elif not self._splits_output.is_idle and self._without_splits.is_silent():
                self._splits_output.mark_idle()

    def end_event_time(self, watermark: Watermark) -> None:
        """Emits the watermark that ends event time, even if the stream or its splits are idle or paused."""
        self.stream.emit_timestamp(watermark.timestamp)

    # -- splits of a source --------------------------------------------------------------------------------------

    def add_split(self, split_id: str) -> _GeneratedOutput:
        """Adds a split. It holds watermarks back until it has its own watermark, is idle, or is removed."""
        output = self._outputs.get(split_id)
        if output is None:
            immediate, deferred = self._splits.register(split_id)
            clock = ActivityClock(self.activity_clock.now_ns)
            output = self._outputs[split_id] = self._generated_output(immediate, deferred, clock)
        return output

    def remove_split(self, split_id: str) -> None:
        """Removes a split that has no more records."""
        if self._outputs.pop(split_id, None) is not None:
            self._splits.unregister(split_id)

    def pause_or_resume_splits(self, to_pause: Iterable[str], to_resume: Iterable[str]) -> None:
        """Pauses or resumes the activity clocks of splits, so that a paused split does not become idle."""
        for split_id in to_pause:
            self._outputs[split_id].clock.pause()
        for split_id in to_resume:
            self._outputs[split_id].clock.resume()

    # -- internals -----------------------------------------------------------------------------------------------

    def _generated_output(
        self, immediate: WatermarkOutput, deferred: WatermarkOutput, clock: ActivityClock
    ) -> _GeneratedOutput:
        generator = create_generator(self._strategy, self._context, clock.now_ns)
        return _GeneratedOutput(generator, immediate, deferred, self._records, clock, self._context)

    def _emit_off_the_clock(self, batch: Batch) -> None:
        self._reading_clock.pause()
        try:
            self._emit_batch(batch)
        finally:
            self._reading_clock.resume()

    def _on_interval(self, _: int) -> None:
        self.emit_periodic()
        self._clock.schedule_after(self._interval_ms, self._on_interval)

    def _check_timestamps(self, batch: Batch) -> None:
        """Warns once about records without timestamps. Without the warning, such a program just has no output."""
        if batch.timestamps is None:
            self._needs_timestamps = False
            _LOG.warning(
                "operator %s: its watermark strategy makes watermarks from timestamps, but its records have none, so "
                "event time does not advance. Add with_timestamp_assigner or with_timestamp_column to the strategy",
                self._context.name,
            )


class _Records:
    """The batch that is being emitted, and the number of its records that have been emitted."""

    def __init__(self, emit_batch: Callable[[Batch], None], value_type: Any, context: OperatorContext) -> None:
        self.emit_batch = emit_batch
        self._value_type = value_type
        self._context = context
        self._batch: Batch | None = None
        self._num_emitted = 0
        #: The number of records that the generator has seen.
        self._num_seen = 0

    def emit_with_events(
        self, batch: Batch, on_event: Callable[[Any, int, WatermarkOutput], None], output: WatermarkOutput
    ) -> None:
        """Calls `on_event` for every record. Cuts the batch after each record for which the generator emits."""
        rows = as_rows(batch, self._value_type)
        times = [MIN_WATERMARK] * len(rows) if batch.timestamps is None else batch.timestamps.tolist()
        self._batch, self._num_emitted = batch, 0
        try:
            for self._num_seen, (row, timestamp) in enumerate(zip(rows, times), 1):
                on_event(row, timestamp, output)
        except USER_ERRORS as error:
            raise self._context.function_error(error) from error
        self.emit_up_to_here()
        self._batch = None

    def emit_up_to_here(self) -> None:
        """Emits the records that the generator has seen and that are not emitted yet."""
        batch, start = self._batch, self._num_emitted
        if batch is not None and self._num_seen > start:
            self._num_emitted = self._num_seen
            is_whole = self._num_seen - start == batch.num_rows
            self.emit_batch(batch if is_whole else batch.slice(start, self._num_seen - start))


class _GeneratedOutput:
    """Emits the records of one split, or those without a split. They share one watermark generator."""

    __slots__ = ("_context", "_deferred", "_generator", "_immediate", "_records", "clock")

    def __init__(
        self,
        generator: BatchGenerator,
        immediate: WatermarkOutput,
        deferred: WatermarkOutput,
        records: _Records,
        clock: ActivityClock,
        context: OperatorContext,
    ) -> None:
        self._generator = generator
        self._immediate = immediate
        self._deferred = deferred
        self._records = records
        self._context = context
        self.clock = clock

    def emit(self, batch: Batch) -> None:
        on_event = self._generator.on_event
        if on_event is None:
            self._records.emit_batch(batch)
        else:
            self._records.emit_with_events(batch, on_event, self._immediate)
        self._generator.on_batch(batch)

    def emit_periodic(self) -> None:
        try:
            self._generator.on_periodic_emit(self._deferred)
        except USER_ERRORS as error:
            raise self._context.function_error(error) from error


class TimestampsAndWatermarksOperator(StreamOperator):
    """Runs assign_timestamps_and_watermarks in the middle of a job.

    It replaces the watermarks and idleness of its input, except the watermark that ends event time.

    Source: org.apache.flink.streaming.runtime.operators.TimestampsAndWatermarksOperator.
    """

    def __init__(
        self,
        strategy: WatermarkStrategy,
        input_type: Any,
        context: OperatorContext,
        output: Output,
        side: dict[str, Output],
    ) -> None:
        super().__init__(context, output, side)
        if strategy.alignment is not None:
            _LOG.warning(
                "operator %s: watermark alignment has no effect here. Set it in the watermark strategy of from_source",
                context.name,
            )
        self._assigner = WatermarkAssigner(strategy, input_type, context, output.emit, self.emit_to_all)

    def open(self) -> None:
        self._assigner.open()

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        self._assigner.emit(batch)

    def process_element(self, element: Element) -> None:
        if not isinstance(element, WatermarkStatus):
            super().process_element(element)

    def process_watermark(self, watermark: Watermark) -> None:
        if watermark.timestamp == MAX_WATERMARK:
            self._assigner.end_event_time(watermark)

    def finish(self) -> None:
        self._assigner.emit_periodic()
