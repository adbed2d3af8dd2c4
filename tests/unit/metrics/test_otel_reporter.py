"""The reporter for OpenTelemetry, against receivers of its protocol over gRPC and HTTP."""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Mapping
from concurrent import futures
from contextlib import contextmanager
from queue import Queue

import grpc
import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2_grpc import (
    MetricsServiceServicer,
    add_MetricsServiceServicer_to_server,
)
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, Metric
from report_servers import WAIT_S, http_server, reported, silent_server, task_group

from flinkpy.common.clock import ManualClock
from flinkpy.common.errors import ConfigurationError
from flinkpy.metrics.reporters import create_reporter
from flinkpy.metrics.reporters.http_client import ReportError
from flinkpy.metrics.reporters.otel import OpenTelemetryMetricReporter

PREFIX = "flink.taskmanager.job.task."


class Receiver(MetricsServiceServicer):
    """Keeps requests. Refuses those that come while `refuses`."""

    def __init__(self) -> None:
        self.requests: Queue[ExportMetricsServiceRequest] = Queue()
        self.refuses = False

    def Export(
        self, request: ExportMetricsServiceRequest, context: grpc.ServicerContext
    ) -> ExportMetricsServiceResponse:
        self.requests.put(request)
        if self.refuses:
            context.abort(grpc.StatusCode.UNAVAILABLE, "later")
        return ExportMetricsServiceResponse()


@contextmanager
def receiving() -> Iterator[tuple[Receiver, str]]:
    receiver = Receiver()
    server = grpc.server(futures.ThreadPoolExecutor(1))
    add_MetricsServiceServicer_to_server(receiver, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield receiver, f"http://127.0.0.1:{port}"
    finally:
        server.stop(None).wait(WAIT_S)


@contextmanager
def reporting(endpoint: str, **options: str) -> Iterator[OpenTelemetryMetricReporter]:
    reporter = OpenTelemetryMetricReporter(ManualClock(5_000))
    reporter.open({"exporter.endpoint": endpoint, **{name.replace("_", "."): value for name, value in options.items()}})
    try:
        yield reporter
    finally:
        reporter.close()


def metrics_of(request: ExportMetricsServiceRequest) -> dict[str, Metric]:
    metrics = request.resource_metrics[0].scope_metrics[0].metrics
    return {metric.name.removeprefix(PREFIX): metric for metric in metrics}


def test_metrics_of_every_kind_arrive() -> None:
    group = task_group()
    group.counter("count").inc(3)
    group.gauge("real", lambda: 1.5)
    group.gauge("whole", lambda: 2)
    group.gauge("text", lambda: "x")
    group.gauge("broken", lambda: 1 // 0)
    group.meter("events").mark_event(5)
    for value in range(1, 101):
        group.histogram("times").update(value)
    group.distribution("sizes").update(4)
    with (
        receiving() as (receiver, endpoint),
        reporting(endpoint, service_name="mine", service_version="7", exporter_compression="gzip") as reporter,
    ):
        reporter.report(reported(group))
        request = receiver.requests.get(timeout=WAIT_S)
    resource = {one.key: one.value for one in request.resource_metrics[0].resource.attributes}
    assert (resource["service.name"].string_value, resource["service.version"].string_value) == ("mine", "7")
    metrics = metrics_of(request)
    assert set(metrics) == {"count", "real", "whole", "events.count", "events.rate", "times", "sizes"}
    count = metrics["count"].sum
    assert count.is_monotonic and count.aggregation_temporality == AggregationTemporality.AGGREGATION_TEMPORALITY_DELTA
    assert count.data_points[0].as_int == 3
    assert {one.key: one.value.string_value for one in count.data_points[0].attributes} == {
        "host": "h",
        "job_name": "my job",
        "subtask_index": "0",
    }
    assert metrics["real"].gauge.data_points[0].as_double == 1.5
    assert metrics["whole"].gauge.data_points[0].as_int == 2
    assert metrics["events.rate"].gauge.data_points[0].as_double == 5.0
    times = metrics["times"].summary.data_points[0]
    assert (times.count, times.sum) == (100, 5050.0)
    assert [(one.quantile, one.value) for one in times.quantile_values][:3] == [(0, 1.0), (0.5, 50.5), (0.75, 75.75)]
    assert metrics["sizes"].summary.data_points[0].sum == 4.0


def test_counts_of_a_failed_report_are_in_the_next_one() -> None:
    group = task_group()
    counter = group.counter("count")
    values = []
    with receiving() as (receiver, endpoint), reporting(endpoint) as reporter:
        for growth, refuses in ((3, False), (4, True), (5, False), (-2, False), (1, False)):
            counter.inc(growth)
            receiver.refuses = refuses
            if refuses:
                with pytest.raises(ReportError, match="answered UNAVAILABLE: later"):
                    reporter.report(reported(group))
            else:
                reporter.report(reported(group))
            while not receiver.requests.empty():
                values += [metric.sum.data_points[0].as_int for metric in metrics_of(receiver.requests.get()).values()]
    # A sum never falls, so the count that went down is not reported.
    assert values == [3, 4, 9, 1]


def test_metrics_arrive_over_http() -> None:
    group = task_group()
    group.counter("count").inc(3)
    with http_server() as server:
        options = {"exporter_protocol": "HTTP", "exporter_compression": "gzip"}
        with reporting(f"{server.url}/v1/metrics", **options) as reporter:
            reporter.report(reported(group))
        method, path, headers, body = server.request()
    assert (method, path) == ("POST", "/v1/metrics")
    assert (headers["Content-Type"], headers["Content-Encoding"]) == ("application/x-protobuf", "gzip")
    request = ExportMetricsServiceRequest.FromString(gzip.decompress(body))
    assert metrics_of(request)["count"].sum.data_points[0].as_int == 3


def test_requests_have_at_most_the_configured_number_of_metrics() -> None:
    group = task_group()
    for number in range(5):
        group.counter(f"count{number}").inc()
    with receiving() as (receiver, endpoint), reporting(endpoint, batch_size="2") as reporter:
        reporter.report(reported(group))
        sizes = [len(metrics_of(receiver.requests.get(timeout=WAIT_S))) for _ in range(3)]
    assert sizes == [2, 2, 1]


@pytest.mark.parametrize("protocol", ["gRPC", "HTTP"])
def test_a_receiver_that_hangs_ends_the_report(protocol: str) -> None:
    group = task_group()
    group.counter("count")
    with silent_server() as port:
        options = {"exporter_timeout": "50 ms", "exporter_protocol": protocol}
        with reporting(f"http://127.0.0.1:{port}", **options) as reporter, pytest.raises((ReportError, TimeoutError)):
            reporter.report(reported(group))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "`exporter.endpoint`, the URL of the receiver, is not set"),
        ({"exporter.endpoint": "collector:4317"}, "`collector:4317` is not a URL such as http"),
        ({"exporter.endpoint": "http://c", "exporter.protocol": "smoke"}, "expected one of gRPC, HTTP"),
        ({"exporter.endpoint": "http://c", "exporter.timeout": "soon"}, "`exporter.timeout` has the value `soon`"),
        ({"exporter.endpoint": "http://c", "exporter.compression": "zip"}, "expected one of none, gzip"),
    ],
)
def test_bad_options_are_named(options: Mapping[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        create_reporter("mine", "org.apache.flink.metrics.otel.OpenTelemetryMetricReporterFactory").open(options)
