"""The command line accepts programs and their arguments in the forms of Flink."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest

from flinkpy.cli.program import ProgramCommand, ProgramType, program_options, run_program
from flinkpy.common.errors import UserError
from flinkpy.datastream import unexecuted_programs


def parsed(*words: str) -> tuple[str, tuple[str, ...], dict[str, Any]]:
    """Returns the program, its arguments and the options of the command."""

    @click.command(cls=ProgramCommand)
    @click.option("-D", "properties", multiple=True)
    @click.option("-d", "--detached", is_flag=True)
    @program_options
    @click.argument("program", type=ProgramType(is_checked=False))
    @click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
    def command(program: str, arguments: tuple[str, ...], **settings: Any) -> Any:
        return program, arguments, settings

    return command.main(list(words), standalone_mode=False)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("words", "program", "arguments"),
    [
        (("job.py",), "job.py", ()),
        (("-p", "2", "job.py", "-p", "3", "--input", "x"), "job.py", ("-p", "3", "--input", "x")),
        (("-py", "job.py", "-p", "2", "--input", "x"), "job.py", ("--input", "x")),
        (("--python=job.py", "-p2", "in", "-d"), "job.py", ("in", "-d")),
        (("-p", "2", "-pym", "pkg.job", "-pyfs", "src", "--", "-p", "9"), "module:pkg.job", ("-p", "9")),
        (("-d", "-p", "2", "--", "job.py", "--", "x"), "job.py", ("--", "x")),
    ],
)
def test_the_first_word_that_is_not_an_option_ends_the_options(
    words: tuple[str, ...], program: str, arguments: tuple[str, ...]
) -> None:
    found, rest, settings = parsed(*words)
    assert (found, rest) == (program, arguments)
    assert settings["parallelism"] in (2, None)


def test_options_of_the_command_may_surround_the_program_option() -> None:
    _, _, settings = parsed("-Da=1", "-py", "job.py", "-d", "-D", "b=2", "-pyfs", "src", "x")
    assert (settings["properties"], settings["detached"], settings["py_files"]) == (("a=1", "b=2"), True, "src")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("-py",), "requires an argument"),
        (("-py", "a.py", "-pym", "b"), "name one program"),
        (("--parallel", "2", "job.py"), "No such option"),
        ((), "Missing argument 'PROGRAM'"),
    ],
)
def test_wrong_usage_is_refused_with_a_reason(words: tuple[str, ...], message: str) -> None:
    with pytest.raises(click.UsageError) as caught:
        parsed(*words)
    assert message in caught.value.format_message()


@pytest.mark.parametrize("name", ["no_such_module_at_all", "json.no_such_part", "json..x"])
def test_a_missing_module_is_a_user_error(name: str) -> None:
    with pytest.raises(UserError, match=r"module .* not found"):
        run_program(f"module:{name}", verbose=False)


PROGRAM = """
from flinkpy.datastream import StreamExecutionEnvironment
env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection([1]).print()
"""


def test_a_script_that_ends_without_execute_causes_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "job.py"
    path.write_text(PROGRAM)
    assert run_program(str(path), verbose=False) == 0
    told = unexecuted_programs.describe_unexecuted()
    unexecuted_programs.forget_sinks()
    assert told is not None and told.endswith("after the sink 'Sink: Print to Std. Out' was added (job.py:4)")


@pytest.mark.parametrize("last", ["env.get_execution_plan()", "env.generate_job_graph()", "env.close()", "1 / 0"])
def test_a_script_that_plans_closes_or_fails_causes_no_warning(
    tmp_path: Path, last: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "job.py"
    path.write_text(f"{PROGRAM}{last}\n")
    status = run_program(str(path), verbose=False)
    assert status == (1 if last == "1 / 0" else 0)
    assert unexecuted_programs.describe_unexecuted() is None
    error = capsys.readouterr().err
    assert ("ZeroDivisionError" in error) == (status == 1)
    if status:
        assert 'job.py", line 5' in error.splitlines()[1], "the program's own lines come first"


def test_sinks_of_imported_modules_cause_no_warning() -> None:
    from flinkpy.datastream import StreamExecutionEnvironment

    StreamExecutionEnvironment.get_execution_environment().from_collection([1]).print()
    assert unexecuted_programs.describe_unexecuted() is None
