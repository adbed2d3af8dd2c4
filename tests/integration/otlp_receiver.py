"""A receiver of OpenTelemetry's protocol over gRPC, which keeps the metrics that it gets."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent import futures
from contextlib import contextmanager

import grpc
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2_grpc import (
    MetricsServiceServicer,
    add_MetricsServiceServicer_to_server,
)


class OtlpReceiver(MetricsServiceServicer):
    """Adds up the sums that it receives. Thread: any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sums: dict[tuple[str, str], int] = {}
        self.endpoint = ""

    def Export(
        self, request: ExportMetricsServiceRequest, context: grpc.ServicerContext
    ) -> ExportMetricsServiceResponse:
        with self._lock:
            for resource in request.resource_metrics:
                for scope in resource.scope_metrics:
                    for metric in scope.metrics:
                        for point in metric.sum.data_points:
                            attributes = {one.key: one.value.string_value for one in point.attributes}
                            key = (metric.name, attributes.get("job_id", ""))
                            self._sums[key] = self._sums.get(key, 0) + point.as_int
        return ExportMetricsServiceResponse()

    def total(self, name: str, job_id: str) -> int:
        """Returns the sum of all values of a metric of a job."""
        with self._lock:
            return self._sums.get((name, job_id), 0)


@contextmanager
def otlp_receiver() -> Iterator[OtlpReceiver]:
    receiver = OtlpReceiver()
    with futures.ThreadPoolExecutor(2) as threads:
        server = grpc.server(threads)
        add_MetricsServiceServicer_to_server(receiver, server)
        receiver.endpoint = f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        server.start()
        try:
            yield receiver
        finally:
            server.stop(None).wait()
