"""OpenTelemetryMetricReporter: sends metrics to a receiver of OpenTelemetry's protocol.

Source: org.apache.flink.metrics.otel.{OpenTelemetryMetricReporter,OpenTelemetryMetricAdapter}.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AggregationTemporality,
    Gauge,
    Metric,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
    Summary,
    SummaryDataPoint,
)

from flinkpy.common.clock import Clock, SystemClock
from flinkpy.common.error_text import valid_text
from flinkpy.configuration import read_option
from flinkpy.configuration.options import int_option
from flinkpy.metrics.reporters.metric_reporter import MetricReporter, ReportedMetric
from flinkpy.metrics.reporters.numbers import CountDeltas, CountKey, number_of, variable_name
from flinkpy.metrics.reporters.otlp import OTLP_OPTIONS, OtlpClient, OtlpOptions, Signal, key_values

__all__ = ["OpenTelemetryMetricReporter"]

logger = logging.getLogger(__name__)

BATCH_SIZE = int_option(
    "batch.size", 0, "Maximum number of metrics in a request. 0: all metrics are in one.", minimum=0
)

_SCOPE = InstrumentationScope(name="flinkpy.metrics")
#: The quantiles of a histogram and the statistics that have their values. Source: OpenTelemetryMetricAdapter.
_QUANTILES = ((0.0, "min"), (0.5, "p50"), (0.75, "p75"), (0.95, "p95"), (0.99, "p99"), (1.0, "max"))


class OpenTelemetryMetricReporter(MetricReporter):
    """Sends counters as sums since the last report that arrived, gauges as gauges, and histograms as summaries."""

    OPTIONS = (*OTLP_OPTIONS, BATCH_SIZE)

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._deltas = CountDeltas()
        self._start_ms = self._clock.now_ms()

    def open(self, options: Mapping[str, str]) -> None:
        settings = OtlpOptions.of(options)
        self._resource = settings.resource()
        self._batch_size = read_option(options, BATCH_SIZE)
        self._client = OtlpClient(settings, Signal.METRICS)

    def report(self, metrics: Iterable[ReportedMetric]) -> None:
        now_ms = self._clock.now_ms()
        current: dict[CountKey, int] = {}
        arrived: dict[CountKey, int] = {}
        messages = list(self._messages(metrics, now_ms, current, arrived))
        size = self._batch_size or max(len(messages), 1)
        try:
            for start in range(0, len(messages), size):
                batch = messages[start : start + size]
                scope = ScopeMetrics(scope=_SCOPE, metrics=[message for message, _ in batch])
                resource = ResourceMetrics(resource=self._resource, scope_metrics=[scope])
                self._client.send(ExportMetricsServiceRequest(resource_metrics=[resource]).SerializeToString())
                arrived.update({key: current[key] for _, key in batch if key is not None})
            self._start_ms = now_ms
        finally:
            self._deltas.end_report(arrived, current)

    def close(self) -> None:
        self._client.close()

    def _messages(
        self,
        metrics: Iterable[ReportedMetric],
        now_ms: int,
        current: dict[CountKey, int],
        arrived: dict[CountKey, int],
    ) -> Iterator[tuple[Metric, CountKey | None]]:
        """Yields each message, and the key of the count that it reports.

        Adds all counts to `current`, and those that cannot be reported to `arrived`.
        """
        for metric in metrics:
            name = valid_text(".".join(part for part in ("flink", metric.logical_scope, metric.name) if part))
            point = _Point(self._start_ms, now_ms, metric)
            reading = metric.reading
            if isinstance(reading.value, str) and reading.kind != "gauge":
                continue
            if reading.kind in ("counter", "meter"):
                count = int(reading.value if reading.kind == "counter" else reading.statistics["count"])
                key = (metric.identifier, *metric.variables.values())
                current[key] = count
                delta = self._deltas.delta(key, count)
                if delta >= 0:
                    yield point.sum(name if reading.kind == "counter" else f"{name}.count", delta), key
                else:
                    # A sum of OpenTelemetry never falls, and the next one begins here. Flink does the same.
                    arrived[key] = count
                    logger.debug("Counter %s went down, so it is not reported", metric.identifier)
                if reading.kind == "meter":
                    yield point.gauge(f"{name}.rate", float(reading.value)), None
            elif reading.kind == "gauge":
                if (number := number_of(reading.value)) is not None:
                    yield point.gauge(name, number), None
            else:
                yield point.summary(name), None


class _Point:
    """Makes the messages of one metric."""

    def __init__(self, start_ms: int, now_ms: int, metric: ReportedMetric) -> None:
        self._start_ns = start_ms * 1_000_000
        self._now_ns = now_ms * 1_000_000
        self._attributes = key_values({variable_name(name): value for name, value in metric.variables.items()})
        self._metric = metric

    def sum(self, name: str, delta: int) -> Metric:
        point = self._number(delta)
        temporality = AggregationTemporality.AGGREGATION_TEMPORALITY_DELTA
        return Metric(name=name, sum=Sum(data_points=[point], aggregation_temporality=temporality, is_monotonic=True))

    def gauge(self, name: str, number: float) -> Metric:
        return Metric(name=name, gauge=Gauge(data_points=[self._number(number)]))

    def summary(self, name: str) -> Metric:
        reading = self._metric.reading
        statistics = reading.statistics
        count = int(reading.value)
        quantiles = [
            SummaryDataPoint.ValueAtQuantile(quantile=quantile, value=statistics[statistic])
            for quantile, statistic in _QUANTILES
            if statistic in statistics
        ]
        point = SummaryDataPoint(
            attributes=self._attributes,
            start_time_unix_nano=self._start_ns,
            time_unix_nano=self._now_ns,
            count=count,
            sum=statistics["sum"] if "sum" in statistics else statistics["mean"] * count,
            quantile_values=quantiles,
        )
        return Metric(name=name, summary=Summary(data_points=[point]))

    def _number(self, number: float) -> NumberDataPoint:
        point = NumberDataPoint(
            attributes=self._attributes, start_time_unix_nano=self._start_ns, time_unix_nano=self._now_ns
        )
        if isinstance(number, int):
            point.as_int = number
        else:
            point.as_double = number
        return point
