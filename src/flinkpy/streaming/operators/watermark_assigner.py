"""WatermarkAssigner: gives records their event time and says how far event time has come.

flinkpy's own generators see batches, and speak at intervals only: between batches, where a record-at-a-time engine
may look at its clock at any record. A program's generator is called for every record, as if it had just been emitted:
where it says something, the batch is cut behind that record. So what comes out does not depend on how the records were
cut into batches before.

A source has one generator for each of its splits, and one for records without a split.

Source: org.apache.flink.streaming.api.operators.source.{ProgressiveTimestampsAndWatermarks,SourceOutputWithWatermarks,
ActivityClockPausingDataOutput}.
Differs: a source with idleness whose splits are all finished becomes idle after the timeout; Flink's would hold back
its consumers until the end of the job.
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
from flinkpy.records.elements import MIN_WATERMARK, Element, Watermark
from flinkpy.streaming.operators.activity_clock import ActivityClock
from flinkpy.streaming.operators.lane_border import as_rows
from flinkpy.streaming.operators.stream_operator import OperatorContext
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


class WatermarkAssigner:
    """Thread: task thread.

    Args:
        emit_batch: where records go.
        emit_element: where watermarks and idleness go.
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
        #: Stands still while those downstream work: meanwhile nothing can be read, of any split.
        self._reading_clock = ActivityClock(self._clock.active_time_ns)
        self._emit_batch = emit_batch
        has_idleness = strategy.idle_timeout_ms is not None
        self._records = _Records(self._emit_off_the_clock if has_idleness else emit_batch, value_type, context)
        #: For what is said of the stream as a whole.
        self.stream = StreamOutput(emit_element, self._records.emit_up_to_here, listener)
        self._main_output, self._splits_output = two_ways(self.stream)
        self._splits = WatermarkMultiplexer(self._splits_output, listener)
        self._outputs: dict[str, _GeneratedOutput] = {}
        #: Stands still while the task cannot read although there is something to be read.
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
        """The batch with its timestamps, and the watermarks that belong between its records.

        `split_id`: the split that all its records are from.
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
        """Ask all generators for their watermark now."""
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
        """Emit the watermark that ends event time, however idle or paused anything is."""
        self.stream.emit_timestamp(watermark.timestamp)

    # -- splits of a source --------------------------------------------------------------------------------------

    def add_split(self, split_id: str) -> _GeneratedOutput:
        """The split holds watermarks back from now on, until it has one of its own, is idle or is removed."""
        output = self._outputs.get(split_id)
        if output is None:
            immediate, deferred = self._splits.register(split_id)
            clock = ActivityClock(self.activity_clock.now_ns)
            output = self._outputs[split_id] = self._generated_output(immediate, deferred, clock)
        return output

    def remove_split(self, split_id: str) -> None:
        """Nothing more comes from that split."""
        if self._outputs.pop(split_id, None) is not None:
            self._splits.unregister(split_id)

    def pause_or_resume_splits(self, to_pause: Iterable[str], to_resume: Iterable[str]) -> None:
        """A split that may not be read does not become idle by that."""
        for split_id in to_pause:
            self._outputs[split_id].clock.pause()
        for split_id in to_resume:
            self._outputs[split_id].clock.resume()

    # -- inside --------------------------------------------------------------------------------------------------

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
        """Said once: a program that forgets this sees no output, and no error either."""
        if batch.timestamps is None:
            self._needs_timestamps = False
            _LOG.warning(
                "operator %s: its watermark strategy makes watermarks from timestamps, and its records have none, so "
                "event time does not advance; add with_timestamp_assigner or with_timestamp_column to the strategy",
                self._context.name,
            )


class _Records:
    """The batch that is being emitted, and how much of it has been."""

    def __init__(self, emit_batch: Callable[[Batch], None], value_type: Any, context: OperatorContext) -> None:
        self.emit_batch = emit_batch
        self._value_type = value_type
        self._context = context
        self._batch: Batch | None = None
        self._num_emitted = 0
        #: Records up to here have been shown to the generator.
        self._num_seen = 0

    def emit_with_events(
        self, batch: Batch, on_event: Callable[[Any, int, WatermarkOutput], None], output: WatermarkOutput
    ) -> None:
        """Show the generator every record; emit the batch in as many parts as what it says asks for."""
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
        """Emit the records shown so far that have not been emitted."""
        batch, start = self._batch, self._num_emitted
        if batch is not None and self._num_seen > start:
            self._num_emitted = self._num_seen
            whole = self._num_seen - start == batch.num_rows
            self.emit_batch(batch if whole else batch.slice(start, self._num_seen - start))


class _GeneratedOutput:
    """Records with one generator: those of a split, or those that have none."""

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
