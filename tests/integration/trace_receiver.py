"""A receiver of OpenTelemetry's protocol over gRPC, which keeps the spans and log records that it gets."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent import futures
from contextlib import contextmanager

import grpc
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2, logs_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class TraceReceiver(trace_service_pb2_grpc.TraceServiceServicer):
    """Keeps what it receives. Thread: any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spans: list[Span] = []
        self._records: list[LogRecord] = []
        self.endpoint = ""

    @property
    def spans(self) -> list[Span]:
        with self._lock:
            return list(self._spans)

    @property
    def records(self) -> list[LogRecord]:
        with self._lock:
            return list(self._records)

    def named(self, name: str) -> list[Span]:
        return [span for span in self.spans if span.name == name]

    def Export(
        self, request: trace_service_pb2.ExportTraceServiceRequest, context: grpc.ServicerContext
    ) -> trace_service_pb2.ExportTraceServiceResponse:
        with self._lock:
            for resource in request.resource_spans:
                for scope in resource.scope_spans:
                    self._spans.extend(scope.spans)
        return trace_service_pb2.ExportTraceServiceResponse()

    def keep_records(self, request: logs_service_pb2.ExportLogsServiceRequest) -> None:
        with self._lock:
            for resource in request.resource_logs:
                for scope in resource.scope_logs:
                    self._records.extend(scope.log_records)


class _Logs(logs_service_pb2_grpc.LogsServiceServicer):
    def __init__(self, receiver: TraceReceiver) -> None:
        self._receiver = receiver

    def Export(
        self, request: logs_service_pb2.ExportLogsServiceRequest, context: grpc.ServicerContext
    ) -> logs_service_pb2.ExportLogsServiceResponse:
        self._receiver.keep_records(request)
        return logs_service_pb2.ExportLogsServiceResponse()


@contextmanager
def trace_receiver() -> Iterator[TraceReceiver]:
    receiver = TraceReceiver()
    threads = futures.ThreadPoolExecutor(2)
    server = grpc.server(threads)
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(receiver, server)
    logs_service_pb2_grpc.add_LogsServiceServicer_to_server(_Logs(receiver), server)
    receiver.endpoint = f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        yield receiver
    finally:
        server.stop(None).wait(10)
        threads.shutdown()


def attributes_of(message: Span | LogRecord) -> dict[str, str | int | bool]:
    return {one.key: _value(one) for one in message.attributes}


def _value(attribute: KeyValue) -> str | int | bool:
    kind = attribute.value.WhichOneof("value")
    assert kind is not None
    found: str | int | bool = getattr(attribute.value, kind)
    return found
