"""The command line without a cluster: help, usage errors and the display of errors."""

from __future__ import annotations

import os
from pathlib import Path

import click
import pytest

from flinkpy.cli import main
from flinkpy.cli.main import describe_error
from flinkpy.cli.main import flinkpy as command_group
from flinkpy.common.errors import ConfigurationError, ExternalError, JobExecutionError
from flinkpy.common.process import FAILURE_MARK


@pytest.fixture(autouse=True)
def _no_cluster_of_this_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for variable in ("FLINKPY_CONF_DIR", "FLINK_CONF_DIR", "FLINKPY_DYNAMIC_PROPERTIES"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("FLINKPY_RUN_DIR", str(tmp_path / "run"))


def test_help_names_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["--help"]) == 0
    text = capsys.readouterr().out
    for verb in (
        "run",
        "list",
        "info",
        "cancel",
        "stop",
        "savepoint",
        "checkpoint",
        "checkpoints",
        "cluster",
        "dispatcher",
        "resourcemanager",
        "taskexecutor",
        "jobmaster",
    ):
        assert f"  {verb} " in text


def test_every_verb_has_its_own_help(capsys: pytest.CaptureFixture[str]) -> None:
    for verb in command_group.list_commands(click.Context(command_group)):
        assert main.run([verb, "--help"]) == 0
        assert "Usage: flinkpy" in capsys.readouterr().out


def test_an_unknown_verb_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["fly"]) == 2
    assert "No such command 'fly'" in capsys.readouterr().err


def test_a_wrong_option_ends_a_service_with_one_message_and_no_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["resourcemanager", "-D", "heartbeat.intervall=1 s"]) == 2
    captured = capsys.readouterr()
    assert (
        captured.err.strip()
        == "flinkpy: option `heartbeat.intervall` does not exist; did you mean `heartbeat.interval`?"
    )
    assert captured.out == ""


def test_a_service_that_cannot_start_reports_the_reason_to_its_parent() -> None:
    reader, writer = os.pipe()
    try:
        assert main.run(["dispatcher", "-D", "parallelism.default=none", "--ready-file", f"fd:{writer}"]) == 2
        assert os.read(reader, 4096).decode().startswith(f"{FAILURE_MARK}option `parallelism.default`")
    finally:
        os.close(reader)
        os.close(writer)


def test_verbose_shows_the_traceback() -> None:
    with pytest.raises(ConfigurationError):
        main.run(["list", "-v", "-D", "nonsense=1"])


def test_without_a_cluster_the_error_says_how_to_start_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["list"]) == 2
    assert "flinkpy cluster start" in capsys.readouterr().err


def test_a_malformed_address_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["list", "-m", "localhost"]) == 2
    assert "does not have the form host:port" in capsys.readouterr().err


def test_stop_and_status_without_a_cluster_say_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["cluster", "stop"]) == 2
    assert "no cluster is running" in capsys.readouterr().err
    assert main.run(["cluster", "status"]) == 1
    assert "No cluster is running" in capsys.readouterr().out


def test_a_program_that_does_not_exist_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["run", "no_such_program.py"]) == 2
    assert "no_such_program.py" in capsys.readouterr().err


def test_a_users_traceback_comes_first_and_once() -> None:
    trace = "Traceback (most recent call last):\n  File job.py\nValueError: bad\n"
    separate = JobExecutionError("job failed", remote_traceback=trace)
    assert describe_error(separate).startswith("Traceback")
    assert describe_error(separate).endswith("flinkpy: job failed")
    included = JobExecutionError(f"{trace}\njob failed", remote_traceback=trace)
    assert describe_error(included).count("ValueError") == 1
    assert describe_error(ExternalError("gone")) == "flinkpy: gone"
