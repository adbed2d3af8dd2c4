"""Accumulators and metrics of functions are visible during and after the job, and correct despite failures."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from clusters import RunningCluster, no_leaks
from job_support import FIXED_DELAY, Gate, environment, wait_until
from monitoring_names import used_names
from otlp_receiver import OtlpReceiver, otlp_receiver
from ports import own_port
from prometheus_server import prometheus
from test_rest_jobs import RestClient

from flinkpy.client.local_cluster import LocalCluster, LocalClusterOptions
from flinkpy.common import Types, WatermarkStrategy
from flinkpy.common.accumulators import Accumulator
from flinkpy.common.errors import AccumulatorError, JobExecutionError
from flinkpy.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from flinkpy.datastream.functions import MapFunction, RuntimeContext

#: The ports of the Prometheus reporters: one for each service, and for the JobMasters that run at a time.
SCRAPED_PORTS = [own_port() for _ in range(8)]


METRICS_PAGE = (Path(__file__).resolve().parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")
#: The ends of the names of a histogram in REST.
STATISTIC = re.compile(r"_(count|min|max|sum|mean|stddev|median|p\d+)$")


@pytest.fixture(scope="module")
def monitored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunningCluster, OtlpReceiver]]:
    """A cluster for all tests of this file. Some of its reporters work, the others fail in various ways."""
    temporary, logs = tmp_path_factory.mktemp("tmp"), tmp_path_factory.mktemp("logs")
    # It accepts connections, and never answers.
    with no_leaks(temporary) as watch, socket.create_server(("127.0.0.1", 0)) as silent, otlp_receiver() as receiver:
        properties = reporter_properties(logs, receiver, silent.getsockname()[1])
        local = LocalCluster(
            LocalClusterOptions(
                num_task_executors=2, properties=properties, log_dir=logs, temporary_dir=temporary / "cluster"
            )
        )
        local.start()
        running = RunningCluster(local, logs)
        try:
            yield running, receiver
        finally:
            watch.expect_closed(process for process in local.processes)
            running.stop()


@pytest.fixture
def cluster(monitored: tuple[RunningCluster, OtlpReceiver]) -> RunningCluster:
    return monitored[0]


@pytest.fixture
def receiver(monitored: tuple[RunningCluster, OtlpReceiver]) -> OtlpReceiver:
    return monitored[1]


def reporter_properties(logs: Path, receiver: OtlpReceiver, silent_port: int) -> dict[str, str]:
    """Returns the configuration of reporters for a file, Prometheus and OpenTelemetry, and of some that cannot work."""
    return {
        "metrics.reporters": "files, prom, otel, hanging, refused, jmx, unknown",
        "metrics.reporter.prom.factory.class": "org.apache.flink.metrics.prometheus.PrometheusReporterFactory",
        "metrics.reporter.prom.port": ",".join(map(str, SCRAPED_PORTS)),
        "metrics.reporter.otel.factory.class": "org.apache.flink.metrics.otel.OpenTelemetryMetricReporterFactory",
        "metrics.reporter.otel.exporter.endpoint": receiver.endpoint,
        "metrics.reporter.otel.interval": "200 ms",
        "metrics.reporter.hanging.factory.class": "org.apache.flink.metrics.influxdb.InfluxdbReporterFactory",
        "metrics.reporter.hanging.host": "127.0.0.1",
        "metrics.reporter.hanging.port": str(silent_port),
        "metrics.reporter.hanging.db": "flink",
        "metrics.reporter.hanging.interval": "100 ms",
        "metrics.reporter.refused.factory.class": "org.apache.flink.metrics.graphite.GraphiteReporterFactory",
        "metrics.reporter.refused.host": "127.0.0.1",
        "metrics.reporter.refused.port": str(own_port()),
        "metrics.reporter.refused.interval": "100 ms",
        "metrics.reporter.jmx.factory.class": "org.apache.flink.metrics.jmx.JMXReporterFactory",
        "metrics.reporter.unknown.factory.class": "org.example.ReporterFactory",
        "metrics.reporter.files.factory.class": "jsonlines",
        "metrics.reporter.files.interval": "100 ms",
        "metrics.reporter.files.path": str(logs / "metrics-%p.jsonl"),
    }


class Longest(Accumulator[str, str]):
    """A user-defined accumulator."""

    def __init__(self) -> None:
        self.word = ""

    def add(self, value: str) -> None:
        self.word = max(self.word, value, key=len)

    def get_local_value(self) -> str:
        return self.word

    def reset_local(self) -> None:
        self.word = ""

    def merge(self, other: Longest) -> None:
        self.add(other.word)


class Unmergeable(Longest):
    def merge(self, other: Longest) -> None:
        raise ValueError("these do not mix")


class Counting(MapFunction):
    """Uses every kind of counter. Its first attempt raises at `fails_at`."""

    def __init__(self, fails_at: int | None = None) -> None:
        self.fails_at = fails_at

    def open(self, runtime_context: RuntimeContext) -> None:
        self.records = runtime_context.get_int_counter("records")
        self.remainders = runtime_context.get_histogram("remainders")
        self.longest = Longest()
        runtime_context.add_accumulator("longest", self.longest)
        group = runtime_context.get_metrics_group().add_group("mine", "here")
        self.hits = group.counter("hits")
        self.sizes = group.distribution("sizes")
        group.gauge("last", lambda: self.hits.get_count() * 10)
        self.attempt = runtime_context.get_attempt_number()

    def map(self, value: int) -> int:
        if value == self.fails_at and self.attempt == 0:
            raise RuntimeError("the first attempt fails")
        self.records.add(1)
        self.remainders.add(value % 3)
        self.longest.add("x" * min(value, 60))
        self.hits.inc()
        self.sizes.update(value)
        return value


def discard(stream: Any) -> None:
    stream.filter(lambda value: False).print()


EXPECTED = {"records": 60, "remainders": {0: 20, 1: 20, 2: 20}, "longest": "x" * 60}


def test_the_result_of_a_job_contains_the_totals_of_all_its_subtasks(cluster: RunningCluster) -> None:
    env = environment(cluster)
    discard(env.from_sequence(1, 60).map(Counting()))
    result = env.execute("count")
    assert result.get_all_accumulator_results() == EXPECTED
    assert result.get_accumulator_result("records") == 60
    assert result.get_accumulator_result("unknown") is None
    shown = cluster.flinkpy("info", str(result.get_job_id())).stdout
    assert "records\tIntCounter\t60" in shown


def test_counts_of_a_failed_attempt_are_not_counted_twice(cluster: RunningCluster) -> None:
    env = environment(cluster, **FIXED_DELAY)
    discard(env.from_sequence(1, 60).map(Counting(fails_at=55)))
    assert env.execute("count again").get_all_accumulator_results() == EXPECTED


class FailingAfterACheckpoint(Counting):
    """Fails once, after a checkpoint contains the earlier counts."""

    is_completed = False

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self.is_completed = True

    def map(self, value: int) -> int:
        if self.attempt == 0 and self.is_completed and value > 30:
            raise RuntimeError("after a checkpoint")
        return super().map(value)


class Paced(MapFunction):
    """A slow function: the first attempt would take minutes, so it cannot end before a checkpoint completes.

    It precedes an exchange whose buffers have room for all records, so barriers do not wait behind it.
    """

    def open(self, runtime_context: RuntimeContext) -> None:
        self.is_first = runtime_context.get_attempt_number() == 0

    def map(self, value: int) -> int:
        if self.is_first:
            time.sleep(0.001)
        return value


@pytest.mark.parametrize("is_keyed", [False, True])
def test_counts_before_a_checkpoint_are_kept_after_the_restore(cluster: RunningCluster, is_keyed: bool) -> None:
    env = environment(cluster, **FIXED_DELAY, **{"execution.checkpointing.interval": "20 ms"})
    numbers = env.from_sequence(1, 300_000).map(Paced(), output_type=Types.LONG())
    discard((numbers.key_by(lambda value: value % 7) if is_keyed else numbers).map(FailingAfterACheckpoint()))
    result = env.execute("restored")
    assert cluster.client.request_job(str(result.get_job_id())).num_restarts >= 1
    assert result.get_accumulator_result("records") == 300_000
    assert result.get_accumulator_result("remainders") == {0: 100_000, 1: 100_000, 2: 100_000}


def test_accumulators_can_be_read_while_the_job_runs_and_after_its_end(cluster: RunningCluster, tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    env = environment(cluster, 1)
    env.set_buffer_timeout(0)
    discard(env.from_sequence(1, 60).map(Counting()).rebalance().map(gate.pass_at(40)))
    client = env.execute_async("watched")
    gate.wait_for_arrival()
    wait_until(lambda: client.get_accumulators().result().get("records", 0) >= 40, "forty records are counted")
    gate.open()
    assert client.get_job_execution_result().result().get_all_accumulator_results() == EXPECTED
    assert client.get_accumulators().result() == EXPECTED


def test_an_accumulator_that_cannot_be_merged_fails_alone(cluster: RunningCluster) -> None:
    class Mixed(MapFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            runtime_context.add_accumulator("bad", Unmergeable())
            self.good = runtime_context.get_int_counter("good")

        def map(self, value: int) -> int:
            self.good.add(1)
            return value

    env = environment(cluster)
    discard(env.from_sequence(1, 10).map(Mixed()))
    result = env.execute("mixed")
    assert result.get_accumulator_result("good") == 10
    with pytest.raises(AccumulatorError, match="'bad': cannot be merged: ValueError: these do not mix"):
        result.get_accumulator_result("bad")


def test_two_functions_of_a_task_must_not_add_the_same_accumulator(cluster: RunningCluster) -> None:
    env = environment(cluster, 1)
    discard(env.from_sequence(1, 3).map(Counting()).map(Counting()))
    with pytest.raises(JobExecutionError, match="accumulator 'longest' already exists"):
        env.execute("twice")


def test_the_metrics_of_a_running_job_are_shown(cluster: RunningCluster, tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    env = environment(cluster, 1)
    env.set_buffer_timeout(0)
    # The gate is in the task itself, because only running tasks have metrics.
    discard(env.from_sequence(1, 60).map(Counting()).name("counts").map(gate.pass_at(60)).name("holds"))
    client = env.execute_async("measured")
    gate.wait_for_arrival()
    job_id = str(client.get_job_id())

    def shown(pattern: str) -> dict[str, dict[str, Any]]:
        output = cluster.flinkpy("metrics", "--json", "-f", pattern, job_id)
        assert output.returncode == 0, output.stderr
        found = json.loads(output.stdout)["metrics"]
        return {f"{one['operator'] or ''}/{one['name']}": one for one in found}

    mine = shown("mine.here.*")
    assert mine["counts/mine.here.hits"]["value"] == 60
    assert mine["counts/mine.here.last"]["value"] == 600
    value, sizes = mine["counts/mine.here.sizes"]["value"], mine["counts/mine.here.sizes"]["statistics"]
    assert (value, sizes["min"], sizes["max"], sizes["sum"], sizes["mean"]) == (60, 1, 60, 1830, 30.5)
    records = shown("numRecords*")
    assert records["counts/numRecordsIn"]["value"] == 60
    assert records["Source: Sequence Source/numRecordsOut"]["value"] == 60
    assert "/numRecordsOut" in records  # a metric of the task
    check_metrics_everywhere(cluster, job_id)
    gate.open()
    client.get_job_execution_result().result()


def check_metrics_everywhere(cluster: RunningCluster, job_id: str) -> None:
    """REST, the CLI and reporters tell the same metrics, and docs/metrics.md knows them."""

    def by_cli(*arguments: str) -> list[dict[str, Any]]:
        output = cluster.flinkpy("metrics", "--json", *arguments)
        assert output.returncode == 0, output.stderr
        return list(json.loads(output.stdout)["metrics"])

    with RestClient(cluster) as rest:

        def by_rest(path: str) -> dict[str, str]:
            return rest.metrics(path, *(one["id"] for one in rest.get(path)))

        of_job = by_cli(job_id)
        for vertex in rest.get(f"/jobs/{job_id}")["vertices"]:
            told = by_rest(f"/jobs/{job_id}/vertices/{vertex['id']}/subtasks/0/metrics")
            shown = [one for one in of_job if one["vertex_id"] == vertex["id"] and one["subtask"] == 0]
            assert {rest_name(one) for one in shown} == {
                re.sub(r"_(count|min|max|sum|mean|stddev|median|p\d+)$", "", n) for n in told
            }
            counts = {rest_name(one): str(one["value"]) for one in shown if one["kind"] == "counter"}
            assert counts == {name: told[name] for name in counts} and counts["numRecordsIn"] == "60"
        own = {one["name"]: one["value"] for one in of_job if not one["vertex_id"]}
        told = by_rest(f"/jobs/{job_id}/metrics")
        assert set(told) == set(own) and (told["runningState"], own["runningState"]) == ("1", 1)
        assert int(told["runningTimeTotal"]) > 0 and told["numRestarts"] == str(own["numRestarts"])
        resource_id = rest.get("/taskmanagers")["taskmanagers"][0]["id"]
        process = {one["name"]: one["value"] for one in by_cli("--taskmanager", resource_id)}
        assert set(by_rest(f"/taskmanagers/{resource_id}/metrics")) == set(process)
        whole = {one["name"]: one["value"] for one in by_cli("--cluster")}
        told = by_rest("/jobmanager/metrics")
        assert set(told) == set(whole) and told["taskSlotsTotal"] == str(whole["taskSlotsTotal"])
        assert (whole["numRegisteredTaskManagers"], whole["numRunningJobs"], told["numRunningJobs"]) == (2, 1, "1")
        details = rest.get(f"/taskmanagers/{resource_id}")
        assert details["metrics"]["nettyShuffleMemoryTotal"] == details["memoryConfiguration"]["networkMemory"] > 0
    everything = {one["name"] for one in of_job if not one["name"].startswith("mine.")} | set(process) | set(whole)
    assert sorted(name for name in everything if not is_documented(name)) == []
    reported: set[str] = set()

    def all_are_reported() -> bool:
        for path in cluster.run_dir.glob("metrics-*.jsonl"):
            reported.update(json.loads(line)["metric"] for line in path.read_text().splitlines())
        ends = (".jobmanager.numRunningJobs", ".jobmanager.taskSlotsTotal", ".jobmanager.measured.runningTimeTotal")
        # The dots of an address are no delimiters.
        of_process = f"{resource_id.replace('.', '_')}.Status.JVM.CPU.Time"
        return all(any(name.endswith(end) for name in reported) for end in (*ends, of_process))

    wait_until(all_are_reported, "reporters of all services have reported")


def rest_name(metric: dict[str, Any]) -> str:
    operator = re.sub(r"[ .:,]", "_", metric["operator"] or "")
    return f"{operator}.{metric['name']}" if operator else str(metric["name"])


def is_documented(name: str) -> bool:
    for pattern, general in (
        (r"^split\.[^.]+", "split.<id>"),
        (r"^ResourceManager\.", ""),
        (r"GarbageCollector\.\w+", "GarbageCollector.<collector>"),
        (r"^(initializing|created|running|restarting|cancelling|failing)", "<status>"),
    ):
        name = re.sub(pattern, general, name)
    return f"`{name}`" in METRICS_PAGE


def test_latency_markers_show_the_age_of_records_at_every_operator(cluster: RunningCluster) -> None:
    env = environment(cluster, 2, **{"metrics.latency.interval": "5 ms"})
    slowly = DataGeneratorSource(int, None, RateLimiterStrategy.per_second(100))
    numbers = env.from_source(slowly, WatermarkStrategy.no_watermarks(), "numbers", Types.LONG())
    discard(numbers.key_by(lambda number: number % 7).reduce(max).name("largest"))
    client = env.execute_async("marked")

    def latencies() -> dict[tuple[str, int], list[float]]:
        output = cluster.flinkpy("metrics", "--json", "-f", "latency.source_id.*", str(client.get_job_id()))
        return {
            (one["operator"], one["subtask"]): [one["statistics"]["min"], one["statistics"]["p99"]]
            for one in json.loads(output.stdout)["metrics"]
            if one["value"]
        }

    names = ("largest", "Filter", "Sink: Print to Std. Out")
    expected = {(name, subtask) for name in names for subtask in (0, 1)}
    wait_until(lambda: expected <= set(latencies()), "operators have measured")
    assert all(0 <= least <= most < 600_000 for least, most in latencies().values())
    client.cancel().result()


def test_reporters_receive_the_last_values_of_ended_tasks(cluster: RunningCluster) -> None:
    env = environment(cluster)
    discard(env.from_sequence(1, 60).map(Counting()).name("reported"))
    env.execute("reported job")

    def hits() -> list[int]:
        last: dict[str, int] = {}
        for path in cluster.run_dir.glob("metrics-*.jsonl"):
            for line in path.read_text().splitlines():
                one = json.loads(line)
                if one["variables"].get("job_name") == "reported job" and one["metric"].endswith("mine.here.hits"):
                    assert one["variables"]["mine"] == "here"
                    last[one["metric"]] = one["value"]
        return list(last.values())

    wait_until(lambda: sum(hits()) == 60, "both subtasks' counts are reported")


def test_metrics_can_be_switched_off(cluster: RunningCluster) -> None:
    env = environment(cluster, 1, **{"python.metric.enabled": "false"})
    discard(env.from_sequence(1, 3).map(Counting()))
    with pytest.raises(JobExecutionError, match="Metric has not been enabled"):
        env.execute("without metrics")


def test_functions_can_read_files_registered_by_the_program(cluster: RunningCluster, tmp_path: Path) -> None:
    (tmp_path / "factor.txt").write_text("7")
    table = tmp_path / "table"
    (table / "inner").mkdir(parents=True)
    (table / "inner" / "offset.txt").write_text("100")
    script = tmp_path / "script.sh"
    script.write_text("#!/bin/sh\necho 5\n")

    class Scaled(MapFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            import subprocess

            cache = runtime_context.get_distributed_cache()
            self.factor = int(Path(cache.get_file("factor")).read_text())
            self.offset = int((Path(cache.get_file("table")) / "inner" / "offset.txt").read_text())
            self.offset += int(subprocess.run([cache.get_file("script")], check=True, capture_output=True).stdout)

        def map(self, value: int) -> int:
            return value * self.factor + self.offset

    env = environment(cluster)
    env.register_cached_file(str(tmp_path / "factor.txt"), "factor")
    env.register_cached_file(str(table), "table")
    env.register_cached_file(str(script), "script", executable=True)
    with env.from_sequence(1, 3).map(Scaled()).execute_and_collect() as results:
        assert sorted(results) == [112, 119, 126]


def test_the_error_names_a_file_that_was_not_registered(cluster: RunningCluster) -> None:
    class Reading(MapFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            runtime_context.get_distributed_cache().get_file("nothing")

        def map(self, value: int) -> int:
            return value

    env = environment(cluster, 1)
    discard(env.from_sequence(1, 3).map(Reading()))
    with pytest.raises(JobExecutionError, match="no cached file is registered as 'nothing'"):
        env.execute("nothing registered")


def test_prometheus_and_opentelemetry_get_the_counts_of_a_job(
    cluster: RunningCluster, receiver: OtlpReceiver, tmp_path: Path
) -> None:
    """PromQL answers are those of the job itself. Reporters that fail or hang beside harm nothing."""
    gate = Gate(tmp_path)
    env = environment(cluster, 1, **{"execution.checkpointing.interval": "100 ms"})
    env.set_buffer_timeout(0)
    # The gate is in the task itself, because only running tasks have metrics.
    discard(env.from_sequence(1, 60).map(Counting()).name("counts").map(gate.pass_at(60)).name("holds"))
    with prometheus(tmp_path, [f"127.0.0.1:{port}" for port in SCRAPED_PORTS]) as server:
        client = env.execute_async("scraped job")
        gate.wait_for_arrival()
        job_id = str(client.get_job_id())
        of_job = f'job_id="{job_id}"'
        operator = "flink_taskmanager_job_task_operator"

        def has(expected: float, expression: str) -> None:
            wait_until(lambda: list(server.query(expression).values()) == [expected], f"{expression} is {expected}")

        has(60, f'sum({operator}_mine_hits{{{of_job},mine="here"}})')
        has(60, f'sum({operator}_numRecordsIn{{{of_job},operator_name="counts"}})')
        has(1830, f"sum({operator}_mine_sizes_sum{{{of_job}}})")
        has(600, f"sum({operator}_mine_last{{{of_job}}})")
        # The processes are scraped one after another.
        has(2, "sum(flink_jobmanager_numRegisteredTaskManagers)")
        has(1, f'max(flink_jobmanager_job_runningState{{{of_job},job_name="scraped_job"}})')
        # Every metric of the dashboard and the alerts in deploy/monitoring exists.
        wait_until(lambda: not used_names() - server.names(), f"these exist: {used_names() - server.names()}")
        gate.open()
        assert client.get_job_execution_result().result().get_all_accumulator_results() == EXPECTED
    # Each report has what was counted since the one before. The last one of a task follows its end.
    name = "flink.taskmanager.job.task.operator.mine.hits"
    wait_until(lambda: receiver.total(name, job_id) == 60, "the receiver of OpenTelemetry has all counts")


def test_reporters_that_cannot_work_are_logged_and_the_services_run(cluster: RunningCluster) -> None:
    for service in ("dispatcher", "resourcemanager", "taskexecutor-1", "taskexecutor-2"):
        text = (cluster.run_dir / f"{service}.log").read_text()
        assert "Metric reporter jmx cannot be used, so it reports nothing: JMX is an interface of Java" in text
        assert "Metric reporter unknown cannot be used, so it reports nothing" in text
        assert "Metric reporter refused failed: ConnectionRefusedError" in text
    # Ten reports a second fail. The log of a Dispatcher also has the lines of its JobMasters.
    assert text.count("Metric reporter refused failed") <= 5
