"""Every verb that shows something has `--json` and then prints one JSON object that follows the documented rules."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from flinkpy._proto import checkpoint_pb2, common_pb2, dispatcher_pb2, job_pb2, metrics_pb2
from flinkpy.cli import checkpoints, cluster, dashboard, jobs, logs, main, rescale
from flinkpy.cli.run_directory import RecordedCluster, RecordedProcess
from flinkpy.cli.top import collector
from flinkpy.cli.top import command as top
from flinkpy.common.errors import ExternalError, RpcUnavailableError
from flinkpy.rpc import health_check
from flinkpy.security import ClusterSecret

JOB = "a" * 32

#: Verbs that show nothing of their own, with the reason.
WITHOUT_JSON = {
    "run": "standard output belongs to the program",
    "run-application": "standard output belongs to the program",
    "standalone-job": "a service",
    "spark-submit": "standard output belongs to the program",
    "flamegraph": "files in the formats of other programs",
    "cluster start": "starts processes; `cluster status` shows them",
    "cluster stop": "stops processes",
    "kubernetes-session start": "creates objects; kubectl shows them",
    "kubernetes-session stop": "deletes objects",
    "dispatcher": "a service",
    "historyserver": "a service",
    "resourcemanager": "a service",
    "taskexecutor": "a service",
    "jobmaster": "a service",
    "completion": "a script for a shell",
    "application-main": "internal",
    "cluster-supervisor": "internal",
}


def verbs(group: click.Group = main.flinkpy, prefix: str = "") -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from verbs(command, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}", command


class FakeRest:
    """The REST server of a cluster with two TaskExecutors, one of which does not answer."""

    url = "http://127.0.0.1:1"

    def __init__(self, *_: object) -> None:
        return

    def call(self, verb: str, path: str, timeout_s: float) -> Any:
        if path == "/v1/taskmanagers":
            common = {"path": "127.0.0.1:5", "slotsNumber": 2, "freeSlots": 1}
            return {"taskmanagers": [{"id": "one", **common}, {"id": "two", **common}]}
        if "/one/" not in path:
            raise ExternalError("timeout")
        return [{"id": "Status.JVM.CPU.Time", "value": "5"}, {"id": "Status.JVM.Memory.Heap.Used", "value": "1024"}]


class FakeClient:
    """A ClusterClient of a cluster with one job that has a bit of everything."""

    def __enter__(self) -> FakeClient:
        return self

    def __exit__(self, *_: object) -> None:
        return

    address = "127.0.0.1:1"

    def list_jobs(self) -> list[dispatcher_pb2.JobOverview]:
        return [dispatcher_pb2.JobOverview(job_id=JOB, name="wörds\x1b", status=common_pb2.RUNNING, start_time_ms=5)]

    def request_cluster_overview(self) -> dispatcher_pb2.ClusterOverview:
        return dispatcher_pb2.ClusterOverview(num_slots_total=4, rest_url="http://127.0.0.1:1")

    def request_job(self, job_id: str, without_subtasks: bool = False) -> job_pb2.JobDetails:
        details = job_pb2.JobDetails(
            job_id=job_id, name="words", status=common_pb2.RUNNING, start_time_ms=5, end_time_ms=-1, num_restarts=1
        )
        details.vertices.add(id="v", name="Map", parallelism=-1, tasks_per_state={"RUNNING": 2})
        failure = details.exception_history.add(timestamp_ms=7, task_name="Map (1/2)")
        failure.error.message = "broken"
        return details

    def request_accumulators(self, job_id: str) -> list[job_pb2.AccumulatorResult]:
        return [job_pb2.AccumulatorResult(name="seen", type="IntCounter", value="3")]

    def request_metrics(self, job_id: str, *kinds: object) -> list[metrics_pb2.MetricGroupDump]:
        group = metrics_pb2.MetricGroupDump(job_id=job_id, vertex_id="v")
        group.metrics.add(name="sizes", kind="histogram", number=2, statistics={"p99": 1.5})
        return [group]

    def request_diagnosis(self, job_id: str) -> job_pb2.JobDiagnosis:
        diagnosis = job_pb2.JobDiagnosis(job_id=job_id, status=common_pb2.RUNNING)
        diagnosis.findings.add(kind="SOURCE", severity="CAUSE", sentence="numbers is silent.", vertex_id="v")
        return diagnosis

    def request_checkpoint_statistics(self, job_id: str) -> checkpoint_pb2.CheckpointStatisticsResponse:
        statistics = checkpoint_pb2.CheckpointStatisticsResponse(num_total=1, num_failed=1)
        one = statistics.history.add(checkpoint_id=1, status="FAILED", trigger_timestamp_ms=5)
        one.failure.message = "too slow"
        return statistics

    def request_job_log_records(self, request: common_pb2.LogRecordsRequest) -> dispatcher_pb2.JobLogRecords:
        answer = dispatcher_pb2.JobLogRecords(is_over=True)
        log = answer.logs.add(log="host:/te.log", source="te-1", has_log=True, is_at_end=True)
        log.records.add(timestamp_ms=5, level="INFO", message="wörds", fields_json='{"flink-job-id": "x"}')
        return answer

    def change_log_levels(self, request: common_pb2.LogLevelsRequest) -> dispatcher_pb2.JobLogLevels:
        answer = dispatcher_pb2.JobLogLevels()
        answer.processes.add(source="dispatcher").levels.add(level="DEBUG", is_changed=True)
        return answer

    def update_resource_requirements(self, job_id, vertices):
        pass

    def cancel_job(self, job_id: str) -> None:
        return

    def wait_for_result(self, job_id: str) -> job_pb2.JobResult:
        return job_pb2.JobResult(job_id=job_id, status=common_pb2.CANCELED)

    def trigger_savepoint(self, job_id: str, target: str | None, *, native: bool) -> str:
        return "/s/1"

    def stop_with_savepoint(self, job_id: str, target: str | None, *, drain: bool, native: bool) -> str:
        return "/s/1"

    def trigger_checkpoint(self, job_id: str, *, full: bool) -> checkpoint_pb2.CheckpointResult:
        return checkpoint_pb2.CheckpointResult(checkpoint_id=7)

    def dispose_savepoint(self, path: str) -> None:
        return


@pytest.fixture(autouse=True)
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for variable in ("FLINKPY_CONF_DIR", "FLINK_CONF_DIR", "FLINKPY_DYNAMIC_PROPERTIES"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLINKPY_RUN_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("FLINKPY_SECRET_FILE", str(tmp_path / "secret"))
    ClusterSecret.load_or_create(tmp_path / "secret")
    (tmp_path / "job.py").write_text(
        "from flinkpy.datastream import StreamExecutionEnvironment\n"
        "env = StreamExecutionEnvironment.get_execution_environment()\n"
        "env.from_sequence(0, 1).print()\n"
        "env.execute('words')\n"
    )
    monkeypatch.setattr(top, "RATE_WAIT_S", 0)
    monkeypatch.setattr(collector, "RestCaller", FakeRest)
    for module in (jobs, checkpoints, dashboard, logs, rescale, top):
        monkeypatch.setattr(module, "connect", lambda configuration, address: FakeClient())
    monkeypatch.setattr(dashboard, "_ticket", lambda *_: "/dashboard/login?ticket=x")
    monkeypatch.setattr(health_check, "check_health", lambda *_, **__: health_check.Health.STANDING_BY)
    recorded = RecordedCluster(
        "127.0.0.1:1", "127.0.0.1:2", "", (RecordedProcess("dispatcher", 1, 1, "", None, "log"),)
    )
    monkeypatch.setattr(cluster.RunDirectory, "read", lambda self: recorded)
    monkeypatch.setattr(cluster, "_overview", lambda *_: FakeClient().request_cluster_overview())


#: Arguments for each verb, and its exit status.
CALLS: dict[str, tuple[list[str], int]] = {
    "list": ([], 0),
    "info": ([JOB], 0),
    "metrics": ([JOB], 0),
    "top": ([], 0),
    "logs": ([JOB], 0),
    "log-level": (["my.module", "DEBUG"], 0),
    "cancel": ([JOB], 0),
    "rescale": ([JOB, "2"], 0),
    "stop": ([JOB], 1),
    "savepoint": ([JOB], 0),
    "checkpoint": ([JOB], 0),
    "checkpoints": ([JOB], 0),
    "explain": (["job.py"], 0),
    "health": (["dispatcher", "127.0.0.1:1"], 0),
    "cluster status": ([], 1),
    "dashboard": (["--no-browser"], 0),
    "token": ([], 0),
    "certs": (["certificates"], 0),
}


def test_every_verb_that_shows_something_has_json() -> None:
    found = {name: any("--json" in option.opts for option in command.params) for name, command in verbs()}
    assert {name for name, has_json in found.items() if not has_json} == set(WITHOUT_JSON)
    assert {name for name, has_json in found.items() if has_json} == set(CALLS)


def assert_follows_the_rules(value: Any, where: str = "$") -> None:
    """Keys are in snake case, and times and sizes that are not known are null, not 0 or -1."""
    if isinstance(value, dict):
        for key, inner in value.items():
            # These objects have names of Flink or of the user as keys.
            if where.rpartition(".")[2] not in ("statistics", "subtasks_per_state", "configuration", "fields"):
                assert re.fullmatch(r"[a-z][a-z0-9_]*", key), f"{where}.{key}"
            if key.endswith("_time_ms"):
                assert inner is None or inner > 0, f"{where}.{key}"
            assert_follows_the_rules(inner, f"{where}.{key}")
    elif isinstance(value, list):
        for inner in value:
            assert_follows_the_rules(inner, where)


@pytest.mark.parametrize("verb", CALLS)
def test_a_verb_prints_one_json_object(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments, status = CALLS[verb]
    assert main.run([*verb.split(), "--json", *arguments]) == status
    output = capsys.readouterr().out
    assert output.isascii()
    document = json.loads(output)
    assert isinstance(document, dict) and document
    assert_follows_the_rules(document)


def test_an_error_leaves_standard_output_empty(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["info", "--json", "no-such-job"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "no-such-job" in captured.err


def test_names_of_jobs_survive_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    main.run(["list", "--json"])
    (job,) = json.loads(capsys.readouterr().out)["jobs"]
    assert job == {"job_id": JOB, "name": "wörds\x1b", "state": "RUNNING", "start_time_ms": 5, "end_time_ms": None}


def test_an_unreachable_service_is_json_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise RpcUnavailableError("refused")

    monkeypatch.setattr(health_check, "check_health", refuse)
    assert main.run(["health", "--json", "dispatcher", "127.0.0.1:1"]) == 1
    assert json.loads(capsys.readouterr().out)["health"] == "UNREACHABLE"
