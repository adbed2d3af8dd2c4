"""Reporters that cannot be configured or opened, fail, or hang: they are logged, and nothing else notices."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterable, Mapping

import pytest
from report_servers import SCOPE, WAIT_S, free_port, http_server, silent_server, task_group

from flinkpy.common.clock import ManualClock
from flinkpy.common.configuration import Configuration
from flinkpy.common.errors import ConfigurationError
from flinkpy.metrics.metric_registry import MetricRegistry
from flinkpy.metrics.reporters import MetricReporter, MetricReporting, ReportedMetric, create_reporter
from flinkpy.metrics.reporters.reporter_thread import MAX_ENDED, FailureLog

INTERVAL = "5 ms"


class Counting(MetricReporter):
    """Counts its reports. Tests wait for `enough`."""

    enough = threading.Event()
    num_reports = 0
    needed = 3

    def open(self, options: Mapping[str, str]) -> None:
        return

    def report(self, metrics: Iterable[ReportedMetric]) -> None:
        type(self).num_reports += 1
        if self.num_reports >= self.needed:
            self.enough.set()


class Hanging(Counting):
    """Hangs in its first report until the test ends."""

    goes_on = threading.Event()

    def report(self, metrics: Iterable[ReportedMetric]) -> None:
        self.enough.set()
        self.goes_on.wait(WAIT_S)


class Failing(Counting):
    """Fails with what is no failure of the other side, twice even with what ends a thread."""

    def report(self, metrics: Iterable[ReportedMetric]) -> None:
        super().report(metrics)
        raise SystemExit(1) if self.num_reports < self.needed else ZeroDivisionError("a bug")


class Unopened(Counting):
    def open(self, options: Mapping[str, str]) -> None:
        raise ZeroDivisionError("cannot be opened")


@pytest.fixture(autouse=True)
def fresh() -> None:
    for kind in (Counting, Hanging, Failing):
        kind.enough = threading.Event()
        kind.num_reports = 0


def reporting(registry: MetricRegistry | None = None, **reporters: Mapping[str, str]) -> MetricReporting:
    options = {
        f"metrics.reporter.{name}.{key}": value
        for name, given in reporters.items()
        for key, value in {"interval": INTERVAL, **given}.items()
    }
    names = ", ".join(reporters)
    return MetricReporting(
        Configuration.from_dict({"metrics.reporters": names, **options}), registry or MetricRegistry()
    )


def user_class(kind: type[MetricReporter]) -> dict[str, str]:
    return {"factory.class": f"{kind.__module__}:{kind.__name__}"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "metrics.reporter.bad.factory.class is not set"),
        ({"factory.class": "org.apache.flink.metrics.NoSuchFactory"}, "is neither one of prometheus"),
        ({"factory.class": "json:JSONDecoder"}, "is not a MetricReporter"),
        ({**user_class(Counting), "interval": "soon"}, "`interval` has the value `soon`"),
        ({"factory.class": "org.apache.flink.metrics.jmx.JMXReporterFactory"}, "JMX is an interface of Java"),
        ({"factory.class": "prometheus", "port": "many"}, "option `port` has the value `many`"),
        (user_class(Unopened), "ZeroDivisionError: cannot be opened"),
    ],
)
def test_a_reporter_that_cannot_be_used_is_logged_and_the_others_report(
    options: Mapping[str, str], message: str, caplog: pytest.LogCaptureFixture
) -> None:
    under_test = reporting(bad=options, good=user_class(Counting))
    under_test.start()
    assert Counting.enough.wait(WAIT_S)
    under_test.close()
    errors = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert len(errors) == 1 and "Metric reporter bad" in errors[0] and message in errors[0]


@pytest.mark.parametrize(("kind", "library"), [("prometheus", "prometheus_client"), ("otel", "opentelemetry")])
def test_a_missing_library_is_named_with_its_extra(kind: str, library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith(("flinkpy.metrics.reporters.", library))]:
        if name.rpartition(".")[2].startswith(("prometheus", "otel", "otlp")) or name.startswith(library):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ConfigurationError, match=rf"needs a library .*: pip install 'flinkpy\[{kind}\]'"):
        create_reporter("mine", kind)


def test_an_unknown_option_is_named(caplog: pytest.LogCaptureFixture) -> None:
    options = {"host": "127.0.0.1", "port": "1", "protocol": "UDP", "protokol": "TCP", "scope.delimiter": "/"}
    under_test = reporting(graphs={"factory.class": "graphite", **options})
    under_test.start()
    under_test.close()
    assert caplog.messages == [
        "metrics.reporter.graphs.protokol is no option of this reporter; did you mean `protocol`?"
    ]


def test_a_hanging_reporter_keeps_neither_others_nor_the_end_waiting(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("flinkpy.metrics.reporters.metric_reporting.STOP_TIMEOUT_S", 0.05)
    registry = MetricRegistry()
    configured = {f"hangs{number}": user_class(Hanging) for number in range(3)}
    under_test = reporting(registry, **configured, good=user_class(Counting))
    under_test.start()
    assert Hanging.enough.wait(WAIT_S) and Counting.enough.wait(WAIT_S)
    # Groups of tasks that end meanwhile are kept, up to a limit.
    for _ in range(MAX_ENDED + 10):
        group = task_group()
        registry.register(SCOPE, group)
        registry.unregister(SCOPE, group)
    hanging = [thread for thread in under_test.threads if thread.name.startswith("metric reporter hangs")]
    assert [len(thread.waiting) for thread in hanging] == [MAX_ENDED] * 3
    under_test.close()
    assert [thread.is_alive() for thread in under_test.threads] == [True, True, True, False]
    assert sum("did not end within" in message for message in caplog.messages) == 3
    Hanging.goes_on.set()
    for thread in hanging:
        thread.join(WAIT_S)


def test_failures_are_logged_once_a_minute_and_reports_go_on(caplog: pytest.LogCaptureFixture) -> None:
    under_test = reporting(bad=user_class(Failing))
    under_test.start()
    assert Failing.enough.wait(WAIT_S)
    under_test.close()
    (record,) = caplog.records
    assert record.levelno == logging.WARNING and "Metric reporter bad failed: SystemExit: 1" in record.getMessage()


def test_the_log_of_failures_counts_and_tells_the_recovery(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    log = FailureLog("mine", clock)
    log.succeeded()
    for _ in range(7):
        log.failed(ConnectionRefusedError("refused"))
        clock.advance(20_000)
    log.succeeded()
    log.succeeded()
    assert caplog.messages == [
        "Metric reporter mine failed: ConnectionRefusedError: refused",
        "Metric reporter mine failed: ConnectionRefusedError: refused (2 more failures since the last line)",
        "Metric reporter mine failed: ConnectionRefusedError: refused (2 more failures since the last line)",
        "Metric reporter mine works again after 7 failures",
    ]
    assert all(record.exc_info is None for record in caplog.records)


@pytest.mark.parametrize("kind", ["prometheus-push-gateway", "influxdb", "graphite", "otel", "datadog"])
@pytest.mark.parametrize("fault", ["refuses", "hangs", "answers 500"])
def test_a_bad_server_delays_nothing_but_its_reporter(
    kind: str, fault: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("flinkpy.metrics.reporters.metric_reporting.STOP_TIMEOUT_S", 0.05)
    registry = MetricRegistry()
    group = task_group()
    group.counter("count").inc()
    registry.register(SCOPE, group)
    with silent_server() as silent, http_server() as server:
        server.status = 500
        port = {"refuses": free_port(), "hangs": silent, "answers 500": server.port}[fault]
        url = f"http://127.0.0.1:{port}"
        monkeypatch.setattr("flinkpy.metrics.reporters.datadog._URLS", {"US": url})
        options = {
            "prometheus-push-gateway": {"hostUrl": url},
            "influxdb": {"host": "127.0.0.1", "port": str(port), "db": "d", "writeTimeout": "20 ms"},
            "graphite": {"host": "127.0.0.1", "port": str(port)},
            "otel": {"exporter.endpoint": url, "exporter.timeout": "20 ms"},
            "datadog": {"apikey": "k"},
        }[kind]
        under_test = reporting(registry, bad={"factory.class": kind, **options}, good=user_class(Counting))
        under_test.start()
        assert Counting.enough.wait(WAIT_S)
        under_test.close()
    # The servers are closed, so no thread can hang any longer.
    for thread in under_test.threads:
        thread.join(WAIT_S)
        assert not thread.is_alive()
    # Graphite sends no answers, so a silent server is not noticed until the buffers of the connection are full.
    is_noticed = kind != "graphite" or fault == "refuses"
    assert sum("Metric reporter bad failed" in message for message in caplog.messages) == is_noticed
