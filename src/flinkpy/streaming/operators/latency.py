"""Latency markers: sources emit the current time among their records, and every operator measures how old it is.

A marker waits in queues behind records, as records do. Windows and functions do not hold it back. At a partitioned
exchange a marker goes to one channel, and the channels take turns, so markers do not multiply.

Source: org.apache.flink.streaming.runtime.operators.LatencyMarkerEmitter, org.apache.flink.streaming.util.LatencyStats.
Differs: channels take turns; Flink picks one at random. A marker flushes the network buffer that it is written to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flinkpy.configuration import read_option
from flinkpy.configuration.metric_options import LATENCY_GRANULARITY, LATENCY_HISTORY_SIZE, LATENCY_INTERVAL
from flinkpy.metrics.metricbase import Histogram
from flinkpy.records.elements import LatencyMarker

if TYPE_CHECKING:
    from flinkpy.streaming.operators.stream_operator import OperatorContext, StreamOperator


class LatencyMarkerEmitter:
    """Makes a source emit a marker immediately and then every `metrics.latency.interval`. Thread: task thread."""

    def __init__(self, source: StreamOperator) -> None:
        self._source = source
        context = source.context
        is_on = not context.is_batch_mode
        self._interval_ms = read_option(context.environment.configuration, LATENCY_INTERVAL) if is_on else 0

    def start(self) -> None:
        if self._interval_ms > 0:
            self._source.context.processing_time_service.schedule_after(0, self._emit)

    def _emit(self, _: int) -> None:
        context = self._source.context
        times = context.processing_time_service
        # Schedule before emitting, so that a slow output does not delay all later markers.
        times.schedule_after(self._interval_ms, self._emit)
        marker = LatencyMarker(times.current_time_ms(), context.operator_id, context.environment.subtask_index)
        self._source.emit_to_all(marker)


class LatencyStats:
    """The `latency` histograms of one operator, in milliseconds. Thread: task thread.

    There is one histogram in all, one per source, or one per source subtask, depending on
    `metrics.latency.granularity`.
    """

    def __init__(self, context: OperatorContext) -> None:
        self._context = context
        configuration = context.environment.configuration
        self._granularity = read_option(configuration, LATENCY_GRANULARITY)
        self._history_size = read_option(configuration, LATENCY_HISTORY_SIZE)
        self._histograms: dict[tuple[str, int], Histogram] = {}

    def report(self, marker: LatencyMarker) -> None:
        source = marker.operator_id if self._granularity != "single" else ""
        subtask = marker.subtask_index if self._granularity == "subtask" else -1
        histogram = self._histograms.get((source, subtask))
        if histogram is None:
            histogram = self._histograms[source, subtask] = self._register(source, subtask)
        histogram.update(self._context.processing_time_service.current_time_ms() - marker.marked_time_ms)

    def _register(self, source: str, subtask: int) -> Histogram:
        group = self._context.metrics.add_group("latency")
        if source:
            group = group.add_group("source_id", source)
        if subtask >= 0:
            group = group.add_group("source_subtask_index", str(subtask))
        group = group.add_group("operator_id", self._context.operator_id)
        group = group.add_group("operator_subtask_index", str(self._context.environment.subtask_index))
        return group.histogram("latency", Histogram(self._history_size))
