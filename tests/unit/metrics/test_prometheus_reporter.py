"""The Prometheus reporters: names, labels and values as Flink's, the HTTP server, and the PushGateway."""

from __future__ import annotations

import dataclasses
import http.client
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from report_servers import WAIT_S, free_port, http_server, reported, task_group

from flinkpy.common.errors import AddressInUseError, ConfigurationError
from flinkpy.metrics.metric_registry import NamedMetricGroup
from flinkpy.metrics.reporters import ReportedMetric, create_reporter
from flinkpy.metrics.reporters.prometheus import PrometheusReporter, _Application, _listen
from flinkpy.metrics.reporters.prometheus_families import MetricFamilies
from flinkpy.metrics.reporters.prometheus_push_gateway import PrometheusPushGatewayReporter
from tests.certificates import Authority, authority

LABELS = 'host="h",job_name="my_job",subtask_index="0"'


def exposed(group: NamedMetricGroup, **options: str) -> list[str]:
    """Returns the lines that Prometheus would read, without comments. Fails if they cannot be parsed."""
    registry = CollectorRegistry()
    registry.register(MetricFamilies(options).collected(reported(group)))
    text = generate_latest(registry).decode()
    assert list(text_string_to_metric_families(text)) is not None
    return [line for line in text.splitlines() if not line.startswith("#")]


def test_names_are_those_of_flink_and_variables_are_labels() -> None:
    group = task_group()
    group.counter("numRecordsIn").inc(3)
    assert exposed(group) == [f"flink_taskmanager_job_task_numRecordsIn{{{LABELS}}} 3.0"]


def test_the_name_of_a_user_group_is_part_of_the_name_and_a_user_variable_is_a_label() -> None:
    group = task_group()
    group.add_group("my-group").add_group("table", "orders").counter("hits").inc()
    assert exposed(group) == [f'flink_taskmanager_job_task_my_group_table_hits{{{LABELS},table="orders"}} 1.0']


def test_a_meter_is_its_rate() -> None:
    group = task_group()
    group.meter("events").mark_event(5)
    (line,) = exposed(group)
    assert line.startswith("flink_taskmanager_job_task_events{") and line.endswith("} 5.0")


def test_a_histogram_is_a_summary_with_flinks_quantiles() -> None:
    group = task_group()
    for value in range(1, 101):
        group.histogram("latency").update(value)
    name = "flink_taskmanager_job_task_latency"
    lines = exposed(group)
    assert lines[0] == f"{name}_count{{{LABELS}}} 100.0"
    assert [line.split('quantile="')[1].split('"')[0] for line in lines[1:]] == [
        "0.5",
        "0.75",
        "0.95",
        "0.98",
        "0.99",
        "0.999",
    ]
    assert lines[1].endswith(" 50.5")


def test_a_distribution_is_a_summary_with_its_sum_and_extremes() -> None:
    group = task_group()
    for value in (1, 2, 6):
        group.distribution("sizes").update(value)
    name = "flink_taskmanager_job_task_sizes"
    assert exposed(group) == [
        f"{name}_count{{{LABELS}}} 3.0",
        f"{name}_sum{{{LABELS}}} 9.0",
        f'{name}{{host="h",job_name="my_job",quantile="0",subtask_index="0"}} 1.0',
        f'{name}{{host="h",job_name="my_job",quantile="1",subtask_index="0"}} 6.0',
    ]


def _raise() -> int:
    raise RuntimeError("no value")


class NumpyLike:
    """A value that is no number for Python, and whose text cannot be had."""

    def __str__(self) -> str:
        raise ValueError("no text")


def test_gauges_without_a_number_are_left_out_and_the_others_stay() -> None:
    group = task_group()
    for name, value in {
        "fine": 1.5,
        "yes": True,
        "no": False,
        "text": "a text",
        "none": None,
        "odd": NumpyLike(),
    }.items():
        group.gauge(name, lambda value=value: value)
    group.gauge("raises", _raise)
    group.gauge("nan", lambda: float("nan"))
    prefix = "flink_taskmanager_job_task_"
    assert sorted(exposed(group)) == [
        f"{prefix}fine{{{LABELS}}} 1.5",
        f"{prefix}nan{{{LABELS}}} NaN",
        f"{prefix}no{{{LABELS}}} 0.0",
        f"{prefix}yes{{{LABELS}}} 1.0",
    ]


def test_names_of_users_never_break_the_format() -> None:
    group = task_group()
    for name in ('a"b\n', "9 lives", "ünïcode", "\ud800", "{}", ""):
        group.add_group(name, 'v"\n\ud800\\').counter(name).inc()
    assert len(exposed(group)) == 6
    assert len(exposed(group, filterLabelValueCharacters="false")) == 6


def test_label_values_are_filtered_unless_configured_otherwise() -> None:
    group = task_group()
    group.counter("c").inc()
    assert 'job_name="my_job"' in exposed(group)[0]
    assert 'job_name="my job"' in exposed(group, filterLabelValueCharacters="false")[0]


def test_two_metrics_of_one_name_but_two_kinds_do_not_break_the_format() -> None:
    first, second = task_group(), task_group()
    first.counter("same").inc()
    second.histogram("same").update(1)
    registry = CollectorRegistry()
    registry.register(MetricFamilies({}).collected([*reported(first), *reported(second)]))
    (family,) = text_string_to_metric_families(generate_latest(registry).decode())
    assert family.type == "gauge" and len(family.samples) == 1


def test_two_metrics_with_the_same_labels_are_reported_once() -> None:
    first, second = task_group(), task_group()
    first.counter("same").inc(1)
    second.counter("same").inc(2)
    families = MetricFamilies({}).of([*reported(first), *reported(second)])
    assert [sample.value for sample in families[0].samples] == [2.0]


def test_only_metrics_of_the_allow_list_are_reported() -> None:
    group = task_group()
    group.counter("numRecordsIn").inc()
    group.counter("numBytesIn").inc()
    (line,) = exposed(group, allowList="job.task.numRecords, other")
    assert line.startswith("flink_taskmanager_job_task_numRecordsIn")


@contextmanager
def serving(
    read: Callable[[], list[ReportedMetric]],
    configuration: Mapping[str, str] | None = None,
    **options: str,
) -> Iterator[PrometheusReporter]:
    reporter = PrometheusReporter()
    reporter.open({"port": "0", **options})
    reporter.serve(read, configuration or {})
    try:
        yield reporter
    finally:
        reporter.close()


def scrape(port: int, host: str | None = None) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_S)
    try:
        connection.request("GET", "/metrics", headers={} if host is None else {"Host": host})
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def test_a_scrape_reads_the_current_values() -> None:
    group = task_group()
    counter = group.counter("numRecordsIn")
    with serving(lambda: reported(group)) as reporter:
        counter.inc(41)
        scrape(reporter.port)
        counter.inc()
        status, text = scrape(reporter.port)
    assert status == 200
    assert f"flink_taskmanager_job_task_numRecordsIn{{{LABELS}}} 42.0" in text


def test_each_process_takes_the_first_free_port_of_the_range() -> None:
    first = free_port()
    with serving(list, port=f"{first}") as one, serving(list, port=f"{first}-{first + 20}") as other:
        assert one.port == first and first < other.port <= first + 20
        with (
            pytest.raises(AddressInUseError, match="no port of the option `port` is free"),
            serving(list, port=f"{first}"),
        ):
            raise AssertionError("it has no port")


@pytest.mark.parametrize("port", ["x", "99999", "9260-9250"])
def test_a_bad_port_is_named(port: str) -> None:
    with pytest.raises(ConfigurationError, match=f"option `port` has the value `{port}`"):
        PrometheusReporter().open({"port": port})


def test_other_addresses_than_loopback_need_tls_or_insecure(caplog: pytest.LogCaptureFixture) -> None:
    message = r"cannot bind 0\.0\.0\.0: other hosts could read the metrics"
    with pytest.raises(ConfigurationError, match=message), serving(list, host="0.0.0.0"):
        raise AssertionError("it is bound")
    with serving(list, {"security.insecure": "true"}, host="0.0.0.0") as reporter:
        assert scrape(reporter.port)[0] == 200
    assert "INSECURE: other hosts can read the metrics" in caplog.text


def test_a_page_in_a_browser_cannot_read_metrics_through_its_own_name() -> None:
    with serving(list) as reporter:
        assert scrape(reporter.port, "evil.example:9249")[0] == 403
        assert scrape(reporter.port, "localhost:9249")[0] == 200
        assert scrape(reporter.port, "[::1]:9249")[0] == 200


def test_scrapes_behind_one_that_hangs_get_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flinkpy.metrics.reporters.prometheus.READ_TIMEOUT_S", 0.01)
    hangs, goes_on = threading.Event(), threading.Event()

    def read() -> list[ReportedMetric]:
        hangs.set()
        goes_on.wait(WAIT_S)
        return []

    with serving(read) as reporter:
        first = threading.Thread(target=scrape, args=(reporter.port,))
        first.start()
        assert hangs.wait(WAIT_S)
        status, text = scrape(reporter.port)
        goes_on.set()
        first.join(WAIT_S)
    assert status == 503 and "still reads the metrics" in text


def test_connections_are_bounded_and_silent_ones_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flinkpy.metrics.reporters.prometheus.CONNECTION_TIMEOUT_S", 0.3)
    monkeypatch.setattr("flinkpy.metrics.reporters.prometheus._Handler.timeout", 0.3)
    with serving(list) as reporter:
        silent = [socket.create_connection(("127.0.0.1", reporter.port), WAIT_S) for _ in range(8)]
        try:
            refused = socket.create_connection(("127.0.0.1", reporter.port), WAIT_S)
            assert refused.recv(1) == b""
            refused.close()
            assert [sock.recv(1) for sock in silent] == [b""] * 8
        finally:
            for sock in silent:
                sock.close()
        assert scrape(reporter.port)[0] == 200


def test_metrics_are_pushed_to_a_gateway_and_deleted_at_the_end() -> None:
    group = task_group()
    group.counter("numRecordsIn").inc(3)
    with http_server() as gateway:
        reporter = PrometheusPushGatewayReporter()
        reporter.open(
            {
                "hostUrl": gateway.url,
                "jobName": "mine",
                "randomJobNameSuffix": "false",
                "groupingKey": "k1=v1;k2=v2",
                "username": "u",
                "password": "p",
            }
        )
        reporter.report(reported(group))
        reporter.close()
        method, path, headers, body = gateway.request()
        assert (method, path) == ("PUT", "/metrics/job/mine/k1/v1/k2/v2")
        assert headers["Authorization"] == "Basic dTpw"
        assert f"flink_taskmanager_job_task_numRecordsIn{{{LABELS}}} 3.0" in body.decode()
        assert gateway.request()[:2] == ("DELETE", "/metrics/job/mine/k1/v1/k2/v2")


def test_each_process_pushes_under_a_name_of_its_own() -> None:
    with http_server() as gateway:
        for _ in range(2):
            reporter = PrometheusPushGatewayReporter()
            reporter.open({"hostUrl": gateway.url, "jobName": "mine", "deleteOnShutdown": "false"})
            reporter.report([])
            reporter.close()
        paths = [gateway.request()[1] for _ in range(2)]
        assert gateway.requests.empty()
    assert paths[0] != paths[1] and all(path.startswith("/metrics/job/mine") for path in paths)


def test_a_gateway_that_answers_an_error_fails_the_report() -> None:
    with http_server() as gateway:
        gateway.status = 500
        reporter = PrometheusPushGatewayReporter()
        reporter.open({"hostUrl": gateway.url})
        with pytest.raises(urllib.error.HTTPError, match="500"):
            reporter.report([])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "`hostUrl`, the URL of the PushGateway, is not set"),
        ({"hostUrl": "gateway:9091"}, "`gateway:9091` is not a URL"),
        ({"hostUrl": "http://u:geheim@g:x"}, r"`\*\*\*\*` is not a URL"),
        ({"hostUrl": "http://g", "randomJobNameSuffix": "false"}, "`jobName` is empty"),
        ({"hostUrl": "http://g", "groupingKey": "k1"}, "`groupingKey` has the part `k1`: expected `name=value`"),
        ({"hostUrl": "http://g", "username": "u"}, "`username` and `password` only one is set"),
    ],
)
def test_bad_options_of_a_gateway_are_named(options: Mapping[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        PrometheusPushGatewayReporter().open(options)


def test_factories_of_flink_name_these_reporters() -> None:
    package = "org.apache.flink.metrics.prometheus"
    assert isinstance(create_reporter("x", f"{package}.PrometheusReporterFactory"), PrometheusReporter)
    assert isinstance(
        create_reporter("x", f"{package}.PrometheusPushGatewayReporterFactory"), PrometheusPushGatewayReporter
    )


def test_with_tls_only_members_of_the_cluster_can_scrape() -> None:
    material = authority().member()
    pinned = dataclasses.replace(material, fingerprints=("0" * 40,))
    for own, client, is_served in (
        (material, authority().member(), True),
        (material, Authority("another").member(trusted=authority()), False),
        (pinned, authority().member(), False),
    ):
        server = _listen("127.0.0.1", (0,), _Application(list, MetricFamilies({}), accepts_names=True), own)
        threading.Thread(target=server.accept_until_closed, daemon=True).start()
        try:
            connection = http.client.HTTPSConnection(
                "127.0.0.1", server.server_port, timeout=WAIT_S, context=client.client_context()
            )
            if is_served:
                connection.request("GET", "/metrics")
                assert connection.getresponse().status == 200
            else:
                with pytest.raises((OSError, http.client.HTTPException)):
                    connection.request("GET", "/metrics")
                    connection.getresponse()
            connection.close()
        finally:
            server.close()
