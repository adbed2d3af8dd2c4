"""GraphiteReporter: sends metrics to Graphite in its plaintext protocol.

Source: org.apache.flink.metrics.graphite.GraphiteReporter, com.codahale.metrics.graphite.GraphiteReporter.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable, Iterator, Mapping

from flinkpy.common.clock import Clock, SystemClock
from flinkpy.common.error_text import valid_text
from flinkpy.common.errors import ConfigurationError
from flinkpy.configuration import read_option
from flinkpy.configuration.options import enum_option, int_option, string_option
from flinkpy.metrics.reporters.metric_reporter import MetricReporter, ReportedMetric
from flinkpy.metrics.reporters.numbers import number_of

__all__ = ["GraphiteReporter", "graphite_lines"]

HOST = string_option("host", None, "Host of the Graphite server.")
PORT = int_option("port", None, "Port of the Graphite server, usually 2003.", minimum=1, maximum=65_535)
PROTOCOL = enum_option("protocol", ("TCP", "UDP"), "TCP", "Protocol.")
PREFIX = string_option("prefix", "", "Text before the name of every metric, with a dot between them.")
RATE_CONVERSION = enum_option(
    "rateConversion",
    ("NANOSECONDS", "MICROSECONDS", "MILLISECONDS", "SECONDS", "MINUTES", "HOURS", "DAYS"),
    "SECONDS",
    "Unit of time of rates.",
)
DURATION_CONVERSION = string_option(
    "durationConversion", None, "Accepted for configurations of Flink. It has no effect, because there are no timers."
)

#: Time for a connection, and for each step of sending.
TIMEOUT_S = 10.0
#: Maximum size of a UDP packet, which fits into one frame of Ethernet.
MAX_PACKET_BYTES = 1432
#: Number of bytes per call of the socket, so that the time-out applies to a part of a large report.
_CHUNK_BYTES = 64 * 1024
_SECONDS = {
    "NANOSECONDS": 1e-9,
    "MICROSECONDS": 1e-6,
    "MILLISECONDS": 1e-3,
    "SECONDS": 1,
    "MINUTES": 60,
    "HOURS": 3600,
    "DAYS": 86_400,
}
#: Statistics of a histogram that are sent.
_STATISTICS = ("max", "mean", "min", "stddev", "p50", "p75", "p95", "p98", "p99", "p999")
#: Blanks separate the parts of a line.
_BLANKS = re.compile(r"[\s\x00-\x1f\x7f]+")


class GraphiteReporter(MetricReporter):
    """Sends one line for each value, over a new connection for each report."""

    OPTIONS = (HOST, PORT, PROTOCOL, PREFIX, RATE_CONVERSION, DURATION_CONVERSION)

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()

    def open(self, options: Mapping[str, str]) -> None:
        host, port = read_option(options, HOST), read_option(options, PORT)
        if not host or port is None:
            raise ConfigurationError("the options `host` and `port` of the Graphite server must be set")
        read_option(options, DURATION_CONVERSION)
        self._address = (host, port)
        self._is_tcp = read_option(options, PROTOCOL) == "TCP"
        self._prefix = read_option(options, PREFIX)
        self._rate_unit_s = _SECONDS[read_option(options, RATE_CONVERSION)]

    def report(self, metrics: Iterable[ReportedMetric]) -> None:
        lines = graphite_lines(metrics, self._clock.now_ms() // 1000, self._prefix, self._rate_unit_s)
        if self._is_tcp:
            with socket.create_connection(self._address, TIMEOUT_S) as sock:
                for part in _parts(lines, _CHUNK_BYTES):
                    sock.sendall(part)
        else:
            family, kind, protocol, _, address = socket.getaddrinfo(*self._address, type=socket.SOCK_DGRAM)[0]
            with socket.socket(family, kind, protocol) as sock:
                sock.settimeout(TIMEOUT_S)
                for part in _parts(lines, MAX_PACKET_BYTES):
                    sock.sendto(part, address)


def graphite_lines(
    metrics: Iterable[ReportedMetric], now_s: int, prefix: str = "", rate_unit_s: float = 1
) -> Iterator[bytes]:
    """Yields a line `name value time` for each value. A rate is per `rate_unit_s` seconds."""
    start = f"{_BLANKS.sub('-', prefix)}." if prefix else ""
    for metric in metrics:
        name = start + valid_text(metric.filtered_identifier(_filter_characters))
        for suffix, value in _values(metric, rate_unit_s):
            yield f"{name}{suffix} {value} {now_s}\n".encode()


def _values(metric: ReportedMetric, rate_unit_s: float) -> Iterator[tuple[str, float]]:
    """Yields the suffix of the name and the value of each line.

    Differs: Flink also sends `m5_rate`, `m15_rate` and `mean_rate` of meters, which are always 0.
    """
    reading = metric.reading
    statistics = {name: value for name, value in reading.statistics.items() if number_of(value) is not None}
    value = number_of(reading.value)
    if reading.kind == "meter":
        if "count" in statistics and "rate" in statistics:
            yield ".count", statistics["count"]
            yield ".m1_rate", statistics["rate"] * rate_unit_s
    elif value is not None:
        yield "" if reading.kind == "gauge" else ".count", value
        yield from ((f".{name}", statistics[name]) for name in _STATISTICS if name in statistics)


def _parts(lines: Iterable[bytes], max_bytes: int) -> Iterator[bytes]:
    """Joins lines to parts of at most `max_bytes`, unless one line alone is longer."""
    part: list[bytes] = []
    size = 0
    for line in lines:
        if part and size + len(line) > max_bytes:
            yield b"".join(part)
            part, size = [], 0
        part.append(line)
        size += len(line)
    if part:
        yield b"".join(part)


def _filter_characters(part: str) -> str:
    return _BLANKS.sub("-", part.replace(".", "-").replace('"', ""))
