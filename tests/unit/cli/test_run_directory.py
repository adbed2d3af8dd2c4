"""RunDirectory keeps the record of a cluster."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flinkpy.cli.run_directory import RecordedCluster, RecordedProcess, RunDirectory
from flinkpy.common.errors import ExternalError, UserError
from flinkpy.common.process import ProcessIdentity


def recorded(pid: int, start_ticks: int) -> RecordedCluster:
    process = RecordedProcess("dispatcher", pid, start_ticks, "127.0.0.1:1", None, "/log")
    return RecordedCluster("127.0.0.1:1", "127.0.0.1:2", "/secret", (process,))


def test_a_written_record_is_read_back(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    assert directory.read() is None
    directory.write(recorded(1, 2))
    assert directory.read() == recorded(1, 2)
    directory.clear()
    assert directory.read() is None


def test_a_reused_process_id_does_not_count_as_alive() -> None:
    me = ProcessIdentity.of(os.getpid())
    assert me is not None
    assert len(recorded(me.pid, me.start_ticks).alive) == 1
    assert recorded(me.pid, me.start_ticks - 1).alive == []


def test_two_commands_cannot_act_at_once(tmp_path: Path) -> None:
    with (
        RunDirectory(tmp_path).locked(),
        pytest.raises(ExternalError, match="is running"),
        RunDirectory(tmp_path).locked(),
    ):
        pass
    with RunDirectory(tmp_path).locked():
        pass


def test_the_error_names_a_directory_that_cannot_be_created(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="file/run"), RunDirectory(tmp_path / "file" / "run").locked():
        pass


def test_the_configured_directory_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLINKPY_RUN_DIR", str(tmp_path / "a"))
    assert RunDirectory.of({}).path == tmp_path / "a"
    assert RunDirectory.of({"env.pid.dir": str(tmp_path / "b")}).path == tmp_path / "b"
