"""StatsDReporter: sends metrics to a StatsD server over UDP.

Source: org.apache.flink.metrics.statsd.StatsDReporter.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable, Iterator, Mapping

from flinkpy.common.error_text import valid_text
from flinkpy.common.errors import ConfigurationError
from flinkpy.configuration import read_option
from flinkpy.configuration.options import int_option, string_option
from flinkpy.metrics.reporters.metric_reporter import MetricReporter, ReportedMetric
from flinkpy.metrics.reporters.numbers import number_of

__all__ = ["StatsDReporter", "statsd_packets"]

HOST = string_option("host", None, "Host of the StatsD server.")
PORT = int_option("port", None, "Port of the StatsD server, usually 8125.", minimum=1, maximum=65_535)

#: Maximum size of a packet, which fits into one frame of Ethernet. Source: the documentation of StatsD.
MAX_PACKET_BYTES = 1432
#: Time that a packet waits for room in the socket's buffer.
SEND_TIMEOUT_S = 1.0
#: Statistics of a histogram that are sent. Source: StatsDReporter#reportHistogram.
_STATISTICS = ("max", "min", "mean", "stddev", "p50", "p75", "p95", "p98", "p99", "p999")
#: These separate the parts of a message, and a new line separates messages.
_SEPARATORS = re.compile(r"[|@#\x00-\x1f\x7f]")


class StatsDReporter(MetricReporter):
    """Sends all metrics as gauges, several in a packet."""

    OPTIONS = (HOST, PORT)

    def open(self, options: Mapping[str, str]) -> None:
        host, port = read_option(options, HOST), read_option(options, PORT)
        if not host or port is None:
            raise ConfigurationError("the options `host` and `port` of the StatsD server must be set")
        self._host, self._port = host, port

    def report(self, metrics: Iterable[ReportedMetric]) -> None:
        # The name is resolved for each report, so that the server may move.
        family, kind, protocol, _, address = socket.getaddrinfo(self._host, self._port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as sock:
            sock.settimeout(SEND_TIMEOUT_S)
            for packet in statsd_packets(metrics):
                sock.sendto(packet, address)


def statsd_packets(metrics: Iterable[ReportedMetric]) -> Iterator[bytes]:
    """Yields packets of at most `MAX_PACKET_BYTES`, unless one message alone is longer."""
    packet = b""
    for metric in metrics:
        name = valid_text(metric.filtered_identifier(_filter_characters))
        for suffix, value in _values(metric):
            message = _message(name + suffix, value)
            if packet and len(packet) + 1 + len(message) > MAX_PACKET_BYTES:
                yield packet
                packet = b""
            packet = packet + b"\n" + message if packet else message
    if packet:
        yield packet


def _values(metric: ReportedMetric) -> Iterator[tuple[str, float]]:
    """Yields the suffix of the name and the value of each gauge."""
    reading = metric.reading
    statistics = {name: value for name, value in reading.statistics.items() if number_of(value) is not None}
    value = number_of(reading.value)
    if reading.kind == "meter":
        yield from ((f".{name}", statistics[name]) for name in ("rate", "count") if name in statistics)
    elif value is not None:
        is_single = reading.kind in ("counter", "gauge")
        yield "" if is_single else ".count", value
        yield from ((f".{name}", statistics[name]) for name in _STATISTICS if name in statistics)


def _message(name: str, value: float) -> bytes:
    text = f"{name}:{value}|g"
    # The server subtracts a value with a sign, so the gauge becomes zero before. Both are in one packet.
    return (f"{name}:0|g\n{text}" if value < 0 else text).encode()


def _filter_characters(part: str) -> str:
    return _SEPARATORS.sub("_", part.replace(":", "-"))
