"""Debian's PushGateway takes what the reporter sends: the metrics of several processes, with all kinds of metrics."""

from __future__ import annotations

import json
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from job_support import wait_until
from ports import own_port
from requirements import require

from flinkpy.metrics.metric_registry import NamedMetricGroup, read_metric
from flinkpy.metrics.metricbase import Histogram
from flinkpy.metrics.process_metrics import GarbageCollectionTimes, register_process_metrics
from flinkpy.metrics.reporters import ReportedMetric

PROGRAM = "prometheus-pushgateway"
_START_S = 60


@contextmanager
def push_gateway(directory: Path) -> Iterator[str]:
    """Runs a PushGateway without a file. Yields its URL."""
    is_there = shutil.which(PROGRAM) is not None
    require("PushGateway", is_there, f"{PROGRAM} is not there (Debian: apt-get install {PROGRAM})")
    url = f"http://127.0.0.1:{own_port()}"
    command = [PROGRAM, f"--web.listen-address={url.removeprefix('http://')}", "--persistence.file="]
    with (directory / "log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log)
    try:

        def is_ready() -> bool:
            assert server.poll() is None, (directory / "log").read_text(errors="replace")[-3000:]
            try:
                with urllib.request.urlopen(f"{url}/-/ready", timeout=_START_S) as answer:
                    return bool(answer.status == 200)
            except OSError:
                return False

        wait_until(is_ready, "the PushGateway is ready", _START_S)
        yield url
    finally:
        server.terminate()
        server.wait(_START_S)


def groups_of(url: str) -> dict[str, dict[str, Any]]:
    """Returns the metrics that the gateway holds, by the names of the processes that pushed them."""
    with urllib.request.urlopen(f"{url}/api/v1/metrics", timeout=_START_S) as answer:
        return {one["labels"]["job"]: one for one in json.load(answer)["data"]}


def metrics_of_a_process(number: int) -> list[ReportedMetric]:
    scope, variables = ("h", "taskmanager", f"tm-{number}"), {"<tm_id>": f"tm-{number}"}
    group = NamedMetricGroup(scope, variables, logical_scope=("taskmanager",))
    register_process_metrics(group, GarbageCollectionTimes())
    group.counter("numRecordsIn").inc(number)
    group.count_of("numRecordsOut", lambda: 2 * number)
    group.histogram("latency", Histogram(8)).update(number)
    group.gauge("text", lambda: 'a "quoted" text')
    return [
        ReportedMetric(
            below.get_metric_identifier(name),
            below.get_all_variables(),
            read_metric(metric, name),
            name,
            below.get_scope_components(),
            ".".join(below.logical_scope),
        )
        for below in group.groups()
        for name, metric in below.own_metrics()
    ]


def test_a_push_gateway_holds_the_metrics_of_each_process_until_it_ends(tmp_path: Path) -> None:
    pytest.importorskip("prometheus_client")
    from flinkpy.metrics.reporters.prometheus_push_gateway import PrometheusPushGatewayReporter

    with push_gateway(tmp_path) as url:
        reporters = [PrometheusPushGatewayReporter() for _ in range(2)]
        for number, reporter in enumerate(reporters, 1):
            reporter.open({"hostUrl": url, "jobName": f"process-{number}-", "groupingKey": "cluster=test"})
            reporter.report(metrics_of_a_process(number))
        held = groups_of(url)
        assert [name.split("-")[1] for name in sorted(held)] == ["1", "2"]
        for number, name in enumerate(sorted(held), 1):
            group = held[name]
            assert group["last_push_successful"] and group["labels"]["cluster"] == "test"
            [sample] = group["flink_taskmanager_numRecordsIn"]["metrics"]
            assert (float(sample["value"]), sample["labels"]["tm_id"]) == (number, f"tm_{number}")
            [summary] = group["flink_taskmanager_latency"]["metrics"]
            assert float(summary["count"]) == 1 and float(summary["quantiles"]["0.99"]) == number
            assert float(group["flink_taskmanager_Status_JVM_Threads_Count"]["metrics"][0]["value"]) >= 1
            assert "flink_taskmanager_text" not in group
        # A later report replaces the group.
        reporters[0].report(metrics_of_a_process(7))
        [sample] = groups_of(url)[min(held)]["flink_taskmanager_numRecordsIn"]["metrics"]
        assert float(sample["value"]) == 7
        reporters[0].close()
        assert sorted(groups_of(url)) == [max(held)]
        reporters[1].close()
        assert groups_of(url) == {}
