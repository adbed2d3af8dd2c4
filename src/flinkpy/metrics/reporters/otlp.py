"""OtlpClient: sends requests of OpenTelemetry's protocol, over gRPC or HTTP. OtlpOptions: the options of it.

Reporters of metrics, traces and events share both. The client sends protobuf messages of `opentelemetry-proto`, because
the SDK for Python cannot represent summaries, as which Flink reports histograms.

Source: org.apache.flink.metrics.otel.{OpenTelemetryReporterOptions,OpenTelemetryReporterBase}.
"""

from __future__ import annotations

import enum
import gzip
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass

import grpc
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from flinkpy.common.error_text import valid_text
from flinkpy.common.errors import ConfigurationError
from flinkpy.configuration import read_option
from flinkpy.configuration.options import duration_option, enum_option, string_option
from flinkpy.metrics.reporters.http_client import HttpClient, ReportError, split_url

__all__ = ["OTLP_OPTIONS", "OtlpClient", "OtlpOptions", "Signal", "key_values"]

ENDPOINT = string_option(
    "exporter.endpoint",
    None,
    "URL of the receiver: for gRPC e.g. `http://collector:4317`, for HTTP with its path, e.g. "
    "`http://collector:4318/v1/metrics`.",
)
PROTOCOL = enum_option("exporter.protocol", ("gRPC", "HTTP"), "gRPC", "Protocol.")
TIMEOUT = duration_option("exporter.timeout", "10 s", "Time for a report.", minimum_ms=1)
COMPRESSION = enum_option("exporter.compression", ("none", "gzip"), "none", "Compression of reports.")
SERVICE_NAME = string_option("service.name", "flinkpy", "The attribute `service.name` of the resource.")
SERVICE_VERSION = string_option("service.version", None, "The attribute `service.version` of the resource.")
OTLP_OPTIONS = (ENDPOINT, PROTOCOL, TIMEOUT, COMPRESSION, SERVICE_NAME, SERVICE_VERSION)

#: Maximum size of an answer. An answer tells only what was refused.
_MAX_ANSWER_BYTES = 64 * 1024


class Signal(enum.Enum):
    """A kind of data. The value is the method that receives it."""

    METRICS = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"
    TRACES = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
    LOGS = "/opentelemetry.proto.collector.logs.v1.LogsService/Export"


@dataclass(frozen=True, slots=True)
class OtlpOptions:
    """The options of a reporter, below `metrics.reporter.<name>.` and its counterparts."""

    endpoint: str
    is_grpc: bool
    timeout_s: float
    is_compressed: bool
    service_name: str
    service_version: str | None

    @classmethod
    def of(cls, options: Mapping[str, str]) -> OtlpOptions:
        """Reads the options. Raises: ConfigurationError."""
        endpoint = read_option(options, ENDPOINT)
        if not endpoint:
            raise ConfigurationError("the option `exporter.endpoint`, the URL of the receiver, is not set")
        split_url(endpoint)
        return cls(
            endpoint,
            read_option(options, PROTOCOL) == "gRPC",
            read_option(options, TIMEOUT) / 1000,
            read_option(options, COMPRESSION) == "gzip",
            read_option(options, SERVICE_NAME),
            read_option(options, SERVICE_VERSION),
        )

    def resource(self) -> Resource:
        """Returns the description of this process."""
        host = socket.gethostname()
        attributes: dict[str, str | bool | int | float] = {
            "service.name": self.service_name,
            "service.instance.id": f"{host}:{os.getpid()}",
            "host.name": host,
            "process.pid": os.getpid(),
            "telemetry.sdk.name": "flinkpy",
            "telemetry.sdk.language": "python",
        }
        if self.service_version:
            attributes["service.version"] = self.service_version
        return Resource(attributes=key_values(attributes))


def key_values(attributes: Mapping[str, str | bool | int | float]) -> list[KeyValue]:
    """Returns the attributes as messages."""
    return [KeyValue(key=valid_text(key), value=_any_value(value)) for key, value in attributes.items()]


def _any_value(value: str | bool | int | float) -> AnyValue:
    if isinstance(value, bool):
        return AnyValue(bool_value=value)
    if isinstance(value, int):
        return AnyValue(int_value=value)
    if isinstance(value, float):
        return AnyValue(double_value=value)
    return AnyValue(string_value=valid_text(str(value)))


class OtlpClient:
    """Sends serialized export requests of one signal. Thread: one."""

    def __init__(self, options: OtlpOptions, signal: Signal) -> None:
        self._options = options
        self._channel: grpc.Channel | None = None
        self._http: HttpClient | None = None
        if options.is_grpc:
            parts = split_url(options.endpoint)
            is_secure = parts.scheme == "https"
            host = f"[{parts.hostname}]" if ":" in str(parts.hostname) else parts.hostname
            target = f"{host}:{parts.port or (443 if is_secure else 80)}"
            limits = [("grpc.max_receive_message_length", _MAX_ANSWER_BYTES), ("grpc.enable_retries", 0)]
            credentials = grpc.ssl_channel_credentials() if is_secure else None
            self._channel = (
                grpc.insecure_channel(target, limits)
                if credentials is None
                else grpc.secure_channel(target, credentials, limits)
            )
            self._export = self._channel.unary_unary(signal.value)
        else:
            self._http = HttpClient(options.endpoint, connect_timeout_s=options.timeout_s, timeout_s=options.timeout_s)

    def send(self, request: bytes) -> None:
        """Sends a serialized request. Raises: ReportError, OSError, http.client.HTTPException."""
        if self._http is not None:
            headers = {"Content-Type": "application/x-protobuf"}
            if self._options.is_compressed:
                request, headers["Content-Encoding"] = gzip.compress(request), "gzip"
            self._http.send("POST", "", request, headers)
            return
        compression = grpc.Compression.Gzip if self._options.is_compressed else None
        try:
            self._export(request, timeout=self._options.timeout_s, compression=compression)
        except grpc.RpcError as error:
            raise ReportError(f"{self._options.endpoint} answered {error.code().name}: {error.details()}") from None

    def close(self) -> None:
        if self._channel is not None:
            self._channel.close()
