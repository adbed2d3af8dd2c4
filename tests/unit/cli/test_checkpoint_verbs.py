"""Runs the verbs for checkpoints and savepoints against a fake client."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from flinkpy._proto import checkpoint_pb2, common_pb2, job_pb2
from flinkpy.cli import checkpoints, jobs, main
from flinkpy.common.errors import CheckpointError, CheckpointNotFoundError, JobNotFoundError, RpcUnavailableError

JOB = "a" * 32


class FakeClient:
    """A ClusterClient that records its calls. The next call raises `error`, if set."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.error: Exception | None = None
        self.result_status = common_pb2.FINISHED
        self.statistics = checkpoint_pb2.CheckpointStatisticsResponse()

    def __enter__(self) -> FakeClient:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def _record(self, *call: Any) -> None:
        self.calls.append(call)
        if self.error is not None:
            raise self.error

    def trigger_savepoint(self, job_id: str, target: str | None, *, native: bool) -> str:
        self._record("savepoint", job_id, target, native)
        return f"{target or '/default'}/savepoint-aaaaaa-1"

    def stop_with_savepoint(self, job_id: str, target: str | None, *, drain: bool, native: bool) -> str:
        self._record("stop", job_id, target, drain, native)
        return f"{target}/savepoint-aaaaaa-2"

    def trigger_checkpoint(self, job_id: str, *, full: bool) -> checkpoint_pb2.CheckpointResult:
        self._record("checkpoint", job_id, full)
        return checkpoint_pb2.CheckpointResult(checkpoint_id=7, path="/c/chk-7")

    def dispose_savepoint(self, path: str) -> None:
        self._record("dispose", path)

    def wait_for_result(self, job_id: str) -> job_pb2.JobResult:
        return job_pb2.JobResult(job_id=job_id, status=self.result_status)

    def request_checkpoint_statistics(self, job_id: str) -> checkpoint_pb2.CheckpointStatisticsResponse:
        self._record("statistics", job_id)
        return self.statistics


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeClient:
    for variable in ("FLINKPY_CONF_DIR", "FLINK_CONF_DIR", "FLINKPY_DYNAMIC_PROPERTIES"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("FLINKPY_RUN_DIR", str(tmp_path / "run"))
    fake = FakeClient()
    monkeypatch.setattr(checkpoints, "connect", lambda configuration, address: fake)
    return fake


def test_a_savepoint_prints_its_path_and_nothing_else(client: FakeClient, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["savepoint", JOB, "s3://bucket/s"]) == 0

    captured = capsys.readouterr()
    assert captured.out == "Savepoint completed. Path: s3://bucket/s/savepoint-aaaaaa-1\n"
    assert captured.err == f"Taking a savepoint of job {JOB}.\n"
    assert client.calls == [("savepoint", JOB, "s3://bucket/s", False)]


def test_a_relative_directory_is_resolved_against_the_current_one(client: FakeClient) -> None:
    assert main.run(["savepoint", JOB, "here", "-type", "native"]) == 0
    assert main.run(["stop", JOB, "-p", "./there"]) == 0
    assert main.run(["savepoint", "-d", "here/x"]) == 0

    here = os.getcwd()
    assert client.calls == [
        ("savepoint", JOB, f"{here}/here", True),
        ("stop", JOB, f"{here}/there", False, False),
        ("dispose", f"{here}/here/x"),
    ]


def test_without_a_directory_the_cluster_decides(client: FakeClient, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["savepoint", JOB]) == 0
    assert client.calls == [("savepoint", JOB, None, False)]
    assert "/default/savepoint" in capsys.readouterr().out


def test_stop_waits_for_the_end_and_prints_the_status(client: FakeClient, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["stop", JOB, "--drain", "--savepointPath", "/s", "--type", "NATIVE"]) == 0
    assert client.calls == [("stop", JOB, "/s", True, True)]
    assert f"Job {JOB}: FINISHED." in capsys.readouterr().err

    client.result_status = common_pb2.FAILED
    assert main.run(["stop", JOB, "-p", "/s"]) == 1


def test_a_checkpoint_may_be_full(client: FakeClient, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["checkpoint", JOB, "-full"]) == 0
    assert main.run(["checkpoint", JOB]) == 0
    assert client.calls == [("checkpoint", JOB, True), ("checkpoint", JOB, False)]
    assert "Checkpoint 7 completed. Path: /c/chk-7" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["savepoint"], "name the job"),
        (["savepoint", JOB, "-d", "/s"], "takes only the path"),
        (["savepoint", JOB, "-type", "odd"], "'odd' is not one of"),
        (["stop"], "Missing argument 'JOB'"),
        (["run", "-n", __file__], "name it with -s PATH"),
        (["run", "-cm", "claim", __file__], "name it with -s PATH"),
        (["run", "-s", "/s", "-cm", "steal", __file__], "'steal' is not one of"),
    ],
)
def test_wrong_usage_is_refused_before_the_cluster_is_called(
    client: FakeClient, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main.run(arguments) == 2
    assert message in capsys.readouterr().err
    assert client.calls == []


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (JobNotFoundError(f"there is no job {JOB}"), 2),
        (CheckpointNotFoundError("/s holds no savepoint"), 2),
        (CheckpointError("a task declined"), 1),
        (RpcUnavailableError("nobody answers"), 1),
    ],
)
def test_an_error_is_one_line(
    client: FakeClient, capsys: pytest.CaptureFixture[str], error: Exception, status: int
) -> None:
    client.error = error
    for arguments in (["savepoint", JOB], ["stop", JOB], ["checkpoint", JOB], ["checkpoints", JOB]):
        assert main.run(arguments) == status
        captured = capsys.readouterr()
        assert captured.err.splitlines()[-1] == f"flinkpy: {error}"
        assert captured.out == ""


def test_statistics_are_a_table(client: FakeClient, capsys: pytest.CaptureFixture[str]) -> None:
    client.statistics = checkpoint_pb2.CheckpointStatisticsResponse(
        num_total=3,
        num_completed=1,
        num_failed=1,
        num_in_progress=1,
        num_restored=1,
        latest_restored=checkpoint_pb2.RestoredCheckpointStatistics(
            checkpoint_id=2, is_savepoint=True, external_path="/s/savepoint-1", restore_timestamp_ms=1
        ),
        history=[
            checkpoint_pb2.CheckpointStatistics(checkpoint_id=5, status="IN_PROGRESS", kind=checkpoint_pb2.CHECKPOINT),
            checkpoint_pb2.CheckpointStatistics(
                checkpoint_id=4,
                status="FAILED",
                kind=checkpoint_pb2.SAVEPOINT,
                failure=common_pb2.ErrorInfo(message="The checkpoint expired.\nmore"),
            ),
            checkpoint_pb2.CheckpointStatistics(
                checkpoint_id=3,
                status="COMPLETED",
                kind=checkpoint_pb2.CHECKPOINT,
                is_unaligned=True,
                trigger_timestamp_ms=1_000,
                end_timestamp_ms=1_340,
                state_size_bytes=2048,
                num_subtasks=4,
                num_acknowledged_subtasks=4,
                external_path="/c/chk-3",
                discarded=True,
            ),
        ],
    )

    assert main.run(["checkpoints", JOB]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "3 checkpoints: 1 completed, 1 failed, 1 in progress; restored 1 times"
    assert lines[1].startswith("Restored savepoint 2 from /s/savepoint-1 at ")
    assert lines[2].split("\t")[:3] == ["Id", "Status", "Kind"]
    assert lines[3].split("\t")[:3] == ["5", "IN_PROGRESS", "checkpoint"]
    assert lines[4].split("\t")[-1] == "The checkpoint expired."
    completed = lines[5].split("\t")
    assert completed[2] == "checkpoint, unaligned"
    assert completed[4:] == ["340 ms", "2.0 KB", "0 B", "0 B", "4/4", "/c/chk-3 (discarded)"]


def test_a_job_without_checkpoints_prints_one_line(client: FakeClient, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["checkpoints", JOB]) == 0
    assert capsys.readouterr().out.startswith("0 checkpoints: 0 completed")


def test_run_passes_the_savepoint_to_the_program(
    client: FakeClient, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "from flinkpy.configuration import load_configuration\n"
        "print({key: value for key, value in load_configuration().to_dict().items() if 'recovery' in key})\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(jobs, "dispatcher_address", lambda configuration, address: "127.0.0.1:1")

    assert main.run(["run", "-s", "saved", "-n", "-cm", "claim", str(program)]) == 0

    assert capsys.readouterr().out.strip() == str(
        {
            "execution.state-recovery.claim-mode": "CLAIM",
            "execution.state-recovery.ignore-unclaimed-state": "true",
            "execution.state-recovery.path": f"{tmp_path}/saved",
        }
    )
