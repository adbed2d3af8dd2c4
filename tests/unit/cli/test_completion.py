"""Completions in a shell: fast, and silent if there is no cluster."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from flinkpy._proto import common_pb2, dispatcher_pb2
from flinkpy.cli import main
from flinkpy.cli.completion import COMPLETE_VARIABLE, job_items


def job(job_id: str, name: str, status: int = common_pb2.RUNNING, start_ms: int = 1) -> dispatcher_pb2.JobOverview:
    return dispatcher_pb2.JobOverview(job_id=job_id, name=name, status=status, start_time_ms=start_ms)  # type: ignore[arg-type]


JOBS = [
    job("aaa1", "words", common_pb2.FINISHED, 9),
    job("aab2", "words", start_ms=2),
    job("abc3", "two words", start_ms=3),
]


def test_jobs_are_completed_by_their_ids_with_running_ones_first() -> None:
    assert [item.value for item in job_items(JOBS, "")] == ["abc3", "aab2", "aaa1"]
    assert [item.value for item in job_items(JOBS, "aa")] == ["aab2", "aaa1"]
    assert job_items(JOBS, "aaa")[0].help == "words (FINISHED)"


def test_jobs_are_completed_by_names_that_are_one_word() -> None:
    assert [item.value for item in job_items(JOBS, "wo")] == ["words"]
    assert job_items(JOBS, "two") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_there_is_a_script_for_each_shell(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert COMPLETE_VARIABLE in script and "flinkpy" in script


def completed(words: str, tmp_path: Path, *checks: str) -> subprocess.CompletedProcess[str]:
    """Asks for completions of the last word as bash does."""
    program = f"import sys; from flinkpy.cli.main import main\ntry:\n main()\nfinally:\n {'; '.join(checks) or 'pass'}"
    environment = {
        **os.environ,
        COMPLETE_VARIABLE: "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(words.count(" ")),
        "FLINKPY_RUN_DIR": str(tmp_path),
    }
    return subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60, check=False
    )


def test_verbs_are_completed_without_importing_them(tmp_path: Path) -> None:
    done = completed("flinkpy che", tmp_path, "assert 'flinkpy.cli.checkpoints' not in sys.modules")
    assert (done.stdout.splitlines(), done.stderr) == (["plain,checkpoint", "plain,checkpoints"], "")
    assert "application-main" not in completed("flinkpy a", tmp_path).stdout


@pytest.mark.parametrize("words", ["flinkpy info ", "flinkpy cancel -m 127.0.0.1:1 ", "flinkpy info -m nonsense "])
def test_without_a_cluster_there_are_no_jobs_and_no_error(words: str, tmp_path: Path) -> None:
    done = completed(words, tmp_path)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "", "")


@pytest.mark.parametrize("words", ["flinkpy run ", "flinkpy run -p 2 "])
def test_programs_are_completed_as_files(words: str, tmp_path: Path) -> None:
    done = completed(words, tmp_path)
    assert (done.stdout, done.stderr) == ("file,\n", "")


def test_an_unfinished_option_is_no_error(tmp_path: Path) -> None:
    done = completed("flinkpy run -py ", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
