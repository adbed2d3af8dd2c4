"""The reporters for StatsD, Graphite, InfluxDB and Datadog: what they send is what Flink's reporters send."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping

import pytest
from report_servers import WAIT_S, free_port, http_server, reported, silent_server, task_group, udp_server

from flinkpy.common.clock import ManualClock
from flinkpy.common.errors import ConfigurationError
from flinkpy.metrics.metric_registry import NamedMetricGroup
from flinkpy.metrics.reporters import MetricReporter, create_reporter
from flinkpy.metrics.reporters.datadog import DatadogHttpReporter
from flinkpy.metrics.reporters.graphite import GraphiteReporter, graphite_lines
from flinkpy.metrics.reporters.http_client import HttpClient, ReportError
from flinkpy.metrics.reporters.influxdb import InfluxdbReporter, influx_lines
from flinkpy.metrics.reporters.jmx import JmxReporter
from flinkpy.metrics.reporters.statsd import MAX_PACKET_BYTES, StatsDReporter, statsd_packets

NAME = "h.taskmanager.tm.my job.map.0"
TAGS = "host=h,job_name=my\\ job,subtask_index=0"


def one_of_each() -> NamedMetricGroup:
    """Returns a group with a metric of every kind, and gauges that are no numbers."""
    group = task_group()
    group.counter("count").inc(3)
    group.gauge("low", lambda: -1.5)
    group.gauge("text", lambda: 'say "hi"')
    group.gauge("broken", lambda: 1 // 0)
    group.gauge("infinite", lambda: float("inf"))
    group.meter("events").mark_event(5)
    group.histogram("times").update(2)
    group.distribution("sizes").update(4)
    return group


def test_statsd_gets_gauges() -> None:
    (packet,) = statsd_packets(reported(one_of_each()))
    lines = packet.decode().splitlines()
    assert lines[:3] == [f"{NAME}.count:3|g", f"{NAME}.low:0|g", f"{NAME}.low:-1.5|g"]
    assert f"{NAME}.events.rate:5.0|g" in lines and f"{NAME}.events.count:5.0|g" in lines
    assert f"{NAME}.times.count:1|g" in lines and f"{NAME}.times.p99:2.0|g" in lines
    assert f"{NAME}.sizes.max:4.0|g" in lines
    assert not [line for line in lines if "text" in line or "broken" in line or "infinite" in line]


def test_a_name_cannot_add_a_line_to_a_packet_of_statsd() -> None:
    group = NamedMetricGroup(("a:b", "c|d\ne@f"))
    group.counter("g#h").inc()
    assert list(statsd_packets(reported(group))) == [b"a-b.c_d_e_f.g_h:1|g"]


def test_packets_of_statsd_fit_into_a_frame() -> None:
    group = task_group()
    for number in range(200):
        group.gauge(f"gauge{number}", lambda: -1)
    packets = list(statsd_packets(reported(group)))
    assert len(packets) > 5 and max(map(len, packets)) <= MAX_PACKET_BYTES
    assert len(b"\n".join(packets).splitlines()) == 400
    # The zero that precedes a negative value is never in another packet, because packets may change places.
    assert all(packet.splitlines()[-1].endswith(b":-1|g") for packet in packets)


def test_statsd_packets_arrive() -> None:
    with udp_server() as server:
        reporter = StatsDReporter()
        reporter.open({"host": "127.0.0.1", "port": str(server.getsockname()[1])})
        reporter.report(reported(one_of_each()))
        assert server.recv(65_536).startswith(f"{NAME}.count:3|g\n".encode())


def test_graphite_gets_a_line_for_each_value() -> None:
    lines = [line.decode() for line in graphite_lines(reported(one_of_each()), 7, "a prefix", 60)]
    start = "a-prefix.h.taskmanager.tm.my-job.map.0"
    assert lines[:4] == [
        f"{start}.count.count 3 7\n",
        f"{start}.low -1.5 7\n",
        f"{start}.events.count 5.0 7\n",
        f"{start}.events.m1_rate 300.0 7\n",
    ]
    assert f"{start}.times.p999 2.0 7\n" in lines
    assert all(len(line.split(" ")) == 3 for line in lines)


def test_dots_in_a_part_of_a_name_are_no_levels_of_graphite() -> None:
    group = NamedMetricGroup(('10.0.0.1"',))
    group.gauge("x", lambda: 1)
    assert list(graphite_lines(reported(group), 7)) == [b"10_0_0_1.x 1 7\n"]


@pytest.mark.parametrize("protocol", ["TCP", "UDP"])
def test_graphite_lines_arrive(protocol: str) -> None:
    group = task_group()
    group.gauge("x", lambda: 1)
    kind = socket.SOCK_STREAM if protocol == "TCP" else socket.SOCK_DGRAM
    with socket.socket(socket.AF_INET, kind) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(WAIT_S)
        if protocol == "TCP":
            server.listen()
        reporter = GraphiteReporter(ManualClock(7_000))
        reporter.open({"host": "127.0.0.1", "port": str(server.getsockname()[1]), "protocol": protocol})
        reporter.report(reported(group))
        source = server.accept()[0] if protocol == "TCP" else server
        with source:
            assert source.recv(65_536) == b"h.taskmanager.tm.my-job.map.0.x 1 7\n"


def test_influxdb_gets_a_point_for_each_metric() -> None:
    lines = dict(line.split(f",{TAGS} ") for line in influx_lines(reported(one_of_each()), 7))
    assert lines["taskmanager_job_task_count"] == "count=3i 7"
    assert lines["taskmanager_job_task_low"] == "value=-1.5 7"
    assert lines["taskmanager_job_task_text"] == 'value="say \\"hi\\"" 7'
    assert lines["taskmanager_job_task_events"] == "count=5i,rate=5.0 7"
    assert lines["taskmanager_job_task_times"].startswith("count=1i,min=2.0,max=2.0,mean=2.0,stddev=0.0,p50=2.0")
    assert lines["taskmanager_job_task_sizes"] == "count=1i,min=4.0,max=4.0,mean=4.0 7"
    assert "taskmanager_job_task_infinite" not in lines


def test_names_of_users_never_break_the_line_protocol() -> None:
    group = NamedMetricGroup((), {"<a b>": "x,y=z\nnext", "<end>": "c:\\", "<empty>": ""}, logical_scope=("s",))
    group.gauge("m n,o", lambda: 1)
    assert list(influx_lines(reported(group), 7)) == ["s_m\\ n\\,o,a\\ b=x\\,y\\=znext,end=c: value=1i 7"]


def test_influxdb_gets_the_parameters_of_the_write() -> None:
    with http_server() as server:
        server.status = 204
        reporter = InfluxdbReporter(ManualClock(7))
        options = {"db": "flink", "retentionPolicy": "one day", "consistency": "ALL", "username": "u", "password": "p"}
        reporter.open({"host": "127.0.0.1", "port": str(server.port), **options})
        reporter.report(reported(one_of_each()))
        method, path, headers, body = server.request()
    assert (method, path) == ("POST", "/write?db=flink&precision=ms&consistency=all&rp=one+day")
    assert headers["Authorization"] == "Basic dTpw"
    assert body.decode().splitlines()[0] == f"taskmanager_job_task_count,{TAGS} count=3i 7"


def series(body: bytes) -> dict[str, dict[str, object]]:
    return {one["metric"]: one for one in json.loads(body)["series"]}


def test_datadog_gets_counts_since_the_last_report_that_arrived() -> None:
    group = task_group()
    counter = group.counter("count")
    with http_server() as server:
        reporter = DatadogHttpReporter(ManualClock(7_000), server.url)
        reporter.open({"apikey": "geheim", "tags": "team:a, b"})
        values = []
        for growth, status in ((3, 202), (4, 500), (5, 202)):
            counter.inc(growth)
            server.status = status
            if status == 500:
                with pytest.raises(ReportError, match="answered 500"):
                    reporter.report(reported(group))
            else:
                reporter.report(reported(group))
            method, path, headers, body = server.request()
            assert (method, path, headers["DD-API-KEY"]) == ("POST", "/api/v1/series", "geheim")
            values.append(series(body)[f"{NAME}.count"])
    assert [value["points"] for value in values] == [[[7, 3]], [[7, 4]], [[7, 9]]]
    assert (values[0]["type"], values[0]["host"]) == ("count", "h")
    assert values[0]["tags"] == ["team:a", "b", "job_name:my job", "subtask_index:0"]


def test_datadog_gets_other_metrics_as_gauges_in_requests_of_bounded_size() -> None:
    with http_server() as server:
        reporter = DatadogHttpReporter(ManualClock(7_000), server.url)
        reporter.open({"apikey": "k", "useLogicalIdentifier": "true", "maxMetricsPerRequest": "4"})
        reporter.report(reported(one_of_each()))
        found: dict[str, dict[str, object]] = {}
        sizes = []
        while not server.requests.empty():
            sent = series(server.request()[3])
            sizes.append(len(sent))
            found |= sent
    assert max(sizes) == 4 and sum(sizes) == len(found)
    values = {name.removeprefix("flink.taskmanager.job.task."): one["points"][0][1] for name, one in found.items()}  # type: ignore[index]
    assert values["count"] == 3 and values["low"] == -1.5 and values["events"] == 5.0
    assert values["times.median"] == 2.0 and values["sizes.count"] == 1 and values["sizes.avg"] == 4.0
    assert not {"text", "broken", "infinite"} & set(values)


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("statsd", {"host": "h"}, "`host` and `port` of the StatsD server"),
        ("statsd", {"host": "h", "port": "x"}, "`port` has the value `x`: expected an integer"),
        ("graphite", {"port": "1"}, "`host` and `port` of the Graphite server"),
        ("graphite", {"host": "h", "port": "1", "protocol": "X"}, "expected one of TCP, UDP"),
        ("influxdb", {"host": "h"}, "`host` and `db` of InfluxDB"),
        ("influxdb", {"host": "h", "db": "d", "consistency": "SOME"}, "expected one of ALL, ANY, ONE, QUORUM"),
        ("datadog", {}, "`apikey` must be set"),
        ("datadog", {"apikey": "k", "dataCenter": "MARS"}, "expected one of US, EU"),
        (
            "jmx",
            {},
            "JMX is an interface of Java virtual machines, and flinkpy has none. Use the reporter `prometheus`",
        ),
    ],
)
def test_bad_options_are_named(kind: str, options: Mapping[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        create_reporter("mine", kind).open(options)


@pytest.mark.parametrize(
    ("factory", "kind"),
    [
        ("influxdb.InfluxdbReporterFactory", InfluxdbReporter),
        ("statsd.StatsDReporterFactory", StatsDReporter),
        ("datadog.DatadogHttpReporterFactory", DatadogHttpReporter),
        ("graphite.GraphiteReporterFactory", GraphiteReporter),
        ("jmx.JMXReporterFactory", JmxReporter),
    ],
)
def test_factories_of_flink_name_these_reporters(factory: str, kind: type[MetricReporter]) -> None:
    assert type(create_reporter("mine", f"org.apache.flink.metrics.{factory}")) is kind


def test_a_server_that_does_not_answer_ends_the_request() -> None:
    with silent_server() as port:
        client = HttpClient(f"http://127.0.0.1:{port}", timeout_s=0.05)
        # More than the buffers of both sockets hold, so that sending hangs too.
        for body in (b"", b"x" * 20_000_000):
            with pytest.raises(TimeoutError):
                client.send("POST", "/", body)


def test_a_server_that_is_not_there_ends_the_request() -> None:
    with pytest.raises(ConnectionRefusedError):
        HttpClient(f"http://127.0.0.1:{free_port()}").send("POST", "/")


def test_a_refused_request_shows_the_answer() -> None:
    with http_server() as server:
        server.status = 400
        with pytest.raises(ReportError, match="answered 400 Bad Request: the answer"):
            HttpClient(server.url + "/base/").send("POST", "/path", b"x")
        assert server.request()[1] == "/base/path"


def test_a_proxy_is_asked_for_the_connection() -> None:
    with http_server() as proxy:
        client = HttpClient("https://api.example", proxy=("127.0.0.1", proxy.port))
        with pytest.raises(OSError, match="Tunnel connection failed: 501"):
            client.send("POST", "/")
