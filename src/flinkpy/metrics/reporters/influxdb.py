"""InfluxdbReporter: writes metrics to InfluxDB by its HTTP API and line protocol.

Source: org.apache.flink.metrics.influxdb.{InfluxdbReporter,InfluxdbReporterOptions,MetricMapper}.
"""

from __future__ import annotations

import base64
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import urlencode

from flinkpy.common.clock import Clock, SystemClock
from flinkpy.common.error_text import valid_text
from flinkpy.common.errors import ConfigurationError
from flinkpy.configuration import read_option
from flinkpy.configuration.options import duration_option, enum_option, int_option, string_option
from flinkpy.metrics.reporters.http_client import HttpClient
from flinkpy.metrics.reporters.metric_reporter import MetricReporter, ReportedMetric
from flinkpy.metrics.reporters.numbers import number_of, variable_name

__all__ = ["InfluxdbReporter", "influx_lines"]

SCHEME = enum_option("scheme", ("http", "https"), "http", "Protocol.")
HOST = string_option("host", None, "Host of the InfluxDB server.")
PORT = int_option("port", 8086, "Port of the InfluxDB server.", minimum=1, maximum=65_535)
DB = string_option("db", None, "Database to write to.")
USERNAME = string_option("username", None, "User name.")
PASSWORD = string_option("password", None, "Password.")
RETENTION_POLICY = string_option("retentionPolicy", "", "Retention policy; by default that of the database.")
CONSISTENCY = enum_option("consistency", ("ALL", "ANY", "ONE", "QUORUM"), "ONE", "Consistency level of writes.")
CONNECT_TIMEOUT = duration_option("connectTimeout", "10 s", "Time for a connection.", minimum_ms=1)
WRITE_TIMEOUT = duration_option("writeTimeout", "10 s", "Time for each step of a write.", minimum_ms=1)

#: Number of lines in a request. Source: the documentation of InfluxDB, which advises batches of 5,000 to 10,000 lines.
LINES_PER_REQUEST = 5_000
_INVALID = re.compile(r"[^a-zA-Z0-9:_]")
#: Statistics of a histogram that are written. Source: MetricMapper.
_STATISTICS = ("min", "max", "mean", "stddev", "p50", "p75", "p95", "p98", "p99", "p999")


class InfluxdbReporter(MetricReporter):
    """Writes one point for each metric. The measurement is the logical scope and name; variables are tags."""

    OPTIONS = (
        SCHEME,
        HOST,
        PORT,
        DB,
        USERNAME,
        PASSWORD,
        RETENTION_POLICY,
        CONSISTENCY,
        CONNECT_TIMEOUT,
        WRITE_TIMEOUT,
    )

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()

    def open(self, options: Mapping[str, str]) -> None:
        host, database = read_option(options, HOST), read_option(options, DB)
        if not host or not database:
            raise ConfigurationError("the options `host` and `db` of InfluxDB must be set")
        shown_host = f"[{host}]" if ":" in host else host
        self._client = HttpClient(
            f"{read_option(options, SCHEME)}://{shown_host}:{read_option(options, PORT)}",
            connect_timeout_s=read_option(options, CONNECT_TIMEOUT) / 1000,
            timeout_s=read_option(options, WRITE_TIMEOUT) / 1000,
        )
        parameters = {"db": database, "precision": "ms", "consistency": read_option(options, CONSISTENCY).lower()}
        if policy := read_option(options, RETENTION_POLICY):
            parameters["rp"] = policy
        self._path = f"/write?{urlencode(parameters)}"
        self._headers = {"Content-Type": "text/plain; charset=utf-8"}
        user, password = read_option(options, USERNAME), read_option(options, PASSWORD)
        if user is not None and password is not None:
            credentials = base64.b64encode(f"{user}:{password}".encode()).decode()
            self._headers["Authorization"] = f"Basic {credentials}"

    def report(self, metrics: Iterable[ReportedMetric]) -> None:
        lines = influx_lines(metrics, self._clock.now_ms())
        while batch := list(itertools.islice(lines, LINES_PER_REQUEST)):
            self._client.send("POST", self._path, "\n".join(batch).encode(), self._headers)


def influx_lines(metrics: Iterable[ReportedMetric], now_ms: int) -> Iterator[str]:
    """Yields each metric in InfluxDB's line protocol."""
    for metric in metrics:
        fields = ",".join(f"{name}={value}" for name, value in _fields(metric))
        if fields:
            scope = _INVALID.sub("_", metric.logical_scope)
            measurement = _escaped(f"{scope}_{metric.name}" if scope else metric.name, ", ")
            tags = "".join(
                f",{_escaped(variable_name(name), ',= ')}={_escaped(value, ',= ')}"
                for name, value in sorted(metric.variables.items())
                if value
            )
            yield f"{measurement}{tags} {fields} {now_ms}"


def _fields(metric: ReportedMetric) -> Iterator[tuple[str, str]]:
    reading = metric.reading
    if reading.kind == "gauge":
        if isinstance(reading.value, str) and number_of(reading.value) is None:
            text = valid_text(reading.value).replace("\\", "\\\\").replace('"', '\\"')
            yield "value", f'"{text}"'
        elif (number := number_of(reading.value)) is not None:
            yield "value", _field(number)
        return
    statistics = {name: value for name, value in reading.statistics.items() if number_of(value) is not None}
    if reading.kind == "meter":
        if "count" in statistics and "rate" in statistics:
            yield "count", _field(int(statistics["count"]))
            yield "rate", _field(statistics["rate"])
    elif isinstance(reading.value, int | float) and number_of(reading.value) is not None:
        yield "count", _field(reading.value)
        yield from ((name, _field(statistics[name])) for name in _STATISTICS if name in statistics)


def _field(number: float) -> str:
    return f"{number}i" if isinstance(number, int) else str(number)


def _escaped(text: str, special: str) -> str:
    """Returns a name or value of the line protocol. It cannot contain a new line or end with a backslash."""
    text = valid_text(text).replace("\r", "").replace("\n", "").rstrip("\\")
    return "".join(f"\\{character}" if character in special else character for character in text)
