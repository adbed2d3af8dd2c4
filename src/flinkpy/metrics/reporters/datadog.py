"""DatadogHttpReporter: sends metrics to Datadog by its HTTP API.

Source: org.apache.flink.metrics.datadog.{DatadogHttpReporter,DatadogHttpClient}.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from flinkpy.common.clock import Clock, SystemClock
from flinkpy.common.errors import ConfigurationError
from flinkpy.configuration import read_option
from flinkpy.configuration.options import bool_option, enum_option, int_option, string_option
from flinkpy.metrics.reporters.http_client import HttpClient
from flinkpy.metrics.reporters.metric_reporter import MetricReporter, ReportedMetric
from flinkpy.metrics.reporters.numbers import CountDeltas, CountKey, number_of, variable_name

__all__ = ["DatadogHttpReporter"]

API_KEY = string_option("apikey", None, "API key of Datadog.")
PROXY_HOST = string_option("proxyHost", None, "Host of a proxy.")
PROXY_PORT = int_option("proxyPort", 8080, "Port of the proxy.", minimum=1, maximum=65_535)
DATA_CENTER = enum_option("dataCenter", ("US", "EU"), "US", "Data center to connect to.")
TAGS = string_option(
    "tags", "", "Further tags of every metric, separated by commas. `scope.variables.additional` replaces it."
)
MAX_METRICS = int_option("maxMetricsPerRequest", 2000, "Maximum number of metrics in a request.", minimum=1)
USE_LOGICAL_IDENTIFIER = bool_option(
    "useLogicalIdentifier",
    False,
    "Name metrics by their logical scope, e.g. `flink.taskmanager.job.task.numRecordsIn`, instead of their identifier.",
)

#: Time for a connection, and for each step of a request. Source: DatadogHttpClient.
TIMEOUT_S = 3.0
_URLS = {"US": "https://api.datadoghq.com", "EU": "https://api.datadoghq.eu"}
_PATH = "/api/v1/series"
#: Suffixes of the gauges of a histogram, and their statistics. Source: DHistogram.
_STATISTICS = ((".avg", "mean"), (".median", "p50"), (".95percentile", "p95"), (".min", "min"), (".max", "max"))


class DatadogHttpReporter(MetricReporter):
    """Sends counters as counts since the last report that arrived, and all other metrics as gauges.

    Differs: Flink puts the API key into the URL, which proxies log. Flink also asks Datadog at the start whether the
    key is valid, and does not report at all if it cannot.

    Args:
        url: URL of the API; by default that of the data center.
    """

    OPTIONS = (API_KEY, PROXY_HOST, PROXY_PORT, DATA_CENTER, TAGS, MAX_METRICS, USE_LOGICAL_IDENTIFIER)

    def __init__(self, clock: Clock | None = None, url: str | None = None) -> None:
        self._clock = clock or SystemClock()
        self._url = url
        self._deltas = CountDeltas()

    def open(self, options: Mapping[str, str]) -> None:
        api_key = (read_option(options, API_KEY) or "").strip()
        if not api_key.isascii() or not api_key.isalnum():
            raise ConfigurationError("the option `apikey` must be set to an API key of Datadog")
        self._headers = {"DD-API-KEY": api_key, "Content-Type": "application/json; charset=utf-8"}
        proxy_host = read_option(options, PROXY_HOST)
        self._client = HttpClient(
            self._url or _URLS[read_option(options, DATA_CENTER)],
            connect_timeout_s=TIMEOUT_S,
            timeout_s=TIMEOUT_S,
            proxy=(proxy_host, read_option(options, PROXY_PORT)) if proxy_host else None,
        )
        self._tags = [tag.strip() for tag in read_option(options, TAGS).split(",") if tag.strip()]
        self._max_metrics = read_option(options, MAX_METRICS)
        self._is_logical = read_option(options, USE_LOGICAL_IDENTIFIER)

    def report(self, metrics: Iterable[ReportedMetric]) -> None:
        current: dict[CountKey, int] = {}
        arrived: dict[CountKey, int] = {}
        series = list(self._series(metrics, current))
        try:
            for start in range(0, len(series), self._max_metrics):
                batch = series[start : start + self._max_metrics]
                body = json.dumps({"series": [one for one, _ in batch]}).encode()
                self._client.send("POST", _PATH, body, self._headers)
                arrived.update({key: current[key] for _, key in batch if key is not None})
        finally:
            self._deltas.end_report(arrived, current)

    def _series(
        self, metrics: Iterable[ReportedMetric], current: dict[CountKey, int]
    ) -> Iterator[tuple[dict[str, Any], CountKey | None]]:
        """Yields each series, and the key of the count that it reports. Adds all counts to `current`."""
        now_s = self._clock.now_ms() // 1000
        for metric in metrics:
            name = f"flink.{metric.logical_scope}.{metric.name}" if self._is_logical else metric.identifier
            common: dict[str, Any] = {"tags": self._tags + _tags(metric.variables)}
            if host := metric.variables.get("<host>"):
                common["host"] = host
            count = metric.reading.value
            if metric.reading.kind == "counter" and isinstance(count, int):
                key = (metric.identifier, *metric.variables.values())
                current[key] = count
                yield _one(name, "count", now_s, self._deltas.delta(key, count), common), key
            for suffix, value in _gauges(metric):
                if (number := number_of(value)) is not None:
                    yield _one(name + suffix, "gauge", now_s, number, common), None


def _one(name: str, kind: str, now_s: int, value: float, common: Mapping[str, Any]) -> dict[str, Any]:
    return {"metric": name, "type": kind, "points": [[now_s, value]], **common}


def _gauges(metric: ReportedMetric) -> Iterator[tuple[str, int | float | str]]:
    """Yields the suffix of the name and the value of each gauge."""
    reading = metric.reading
    if reading.kind in ("gauge", "meter"):
        yield "", reading.value
    elif reading.kind != "counter" and not isinstance(reading.value, str):
        yield ".count", reading.value
        statistics = ((suffix, reading.statistics.get(statistic)) for suffix, statistic in _STATISTICS)
        yield from ((suffix, value) for suffix, value in statistics if value is not None)


def _tags(variables: Mapping[str, str]) -> list[str]:
    return [f"{variable_name(name)}:{value}" for name, value in variables.items() if name != "<host>"]
