"""`flinkpy explain` shows the jobs of a program, and runs none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flinkpy.cli.main import run

PROGRAM = """
import sys
from flinkpy.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
print("the program speaks")
env.from_sequence(1, int(sys.argv[1])).map(abs).print()
env.execute("first")
found = list(env.from_sequence(1, 2).map(str).execute_and_collect("second"))
if len(sys.argv) > 2:
    found[0]
"""


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return str(path)


def test_every_job_is_shown_and_the_program_speaks_on_standard_error(
    program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["explain", "-p", "2", program, "5"]) == 0
    shown = capsys.readouterr()
    assert shown.out.splitlines()[0] == "Job 'first', streaming mode"
    assert "Job 'second', streaming mode" in shown.out
    assert shown.err == "the program speaks\n"


def test_tools_get_one_json_object(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "--json", "-D", "execution.runtime-mode=BATCH", program, "5"]) == 0
    first, second = json.loads(capsys.readouterr().out)["jobs"]
    assert (first["job_name"], second["job_name"]) == ("first", "second")
    assert [operator["name"] for operator in first["operators"]] == [
        "Source: Sequence Source",
        "Map",
        "Sink: Print to Std. Out",
    ]
    assert first["operators"][1]["inputs"] == [
        {"operator": 1, "exchange": "FORWARD", "is_chained": True, "is_blocking": False, "side_output": ""}
    ]


def test_a_program_that_needs_its_results_is_shown_up_to_there(
    program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["explain", program, "5", "fails"]) == 1
    shown = capsys.readouterr()
    assert "Job 'second'" in shown.out
    assert "IndexError" in shown.err
    assert "the program failed after 2 of its jobs. `explain` runs no jobs, so it had no results" in shown.err


def test_a_program_without_a_job_is_told_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "nothing.py"
    path.write_text("1\n")
    assert run(["explain", str(path)]) == 0
    assert "it did not call execute()" in capsys.readouterr().err
