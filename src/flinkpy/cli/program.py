"""What `flinkpy run` and applications share: the options of a program, and how it is run as a script."""

from __future__ import annotations

import os
import runpy
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from flinkpy.cli.options import absolute
from flinkpy.common.errors import FlinkError

if TYPE_CHECKING:
    from flinkpy.common.configuration import Configuration

F = TypeVar("F", bound=Callable[..., Any])


def program_options(command: F) -> F:
    """Adds what a program's jobs are started with; the command gets it as keywords, for `program_overrides`."""
    for option in reversed(
        (
            click.option(
                "-p", "--parallelism", type=click.IntRange(1, 32768), help="Parallelism of operators that set none."
            ),
            click.option(
                "-s",
                "--fromSavepoint",
                "savepoint_path",
                metavar="PATH",
                help="Start from this savepoint or retained checkpoint.",
            ),
            click.option(
                "-n",
                "--allowNonRestoredState",
                "allow_non_restored_state",
                is_flag=True,
                help="Leave out state of operators that the program does not have any more.",
            ),
            click.option(
                "-cm",
                "--claimMode",
                "claim_mode",
                type=click.Choice(["claim", "no_claim", "legacy"], case_sensitive=False),
                help="Whose the savepoint is: `claim` the job's, which deletes it when it can; `no_claim` (the "
                "default) yours.",
            ),
            click.option(
                "-pyfs",
                "--pyFiles",
                "py_files",
                metavar="PATHS",
                help="Modules, packages and zip files to import from.",
            ),
            click.option(
                "-pyarch",
                "--pyArchives",
                "py_archives",
                metavar="PATHS",
                help="Archives to unpack; each may end in #DIRECTORY.",
            ),
            click.option(
                "-pyreq",
                "--pyRequirements",
                "py_requirements",
                metavar="PATH",
                help="requirements.txt of packages to install; may end in #DIRECTORY with these packages.",
            ),
            click.option(
                "-pyexec", "--pyExecutable", "py_executable", metavar="PATH", help="The interpreter of functions."
            ),
        )
    ):
        command = option(command)
    return command


def program_overrides(settings: dict[str, Any]) -> dict[str, str | None]:
    """The configuration that the options stand for. Raises: click.UsageError where they do not fit together."""
    savepoint, parallelism, claim_mode = (settings[key] for key in ("savepoint_path", "parallelism", "claim_mode"))
    if savepoint is None and (settings["allow_non_restored_state"] or claim_mode is not None):
        raise click.UsageError("-n and -cm say how a savepoint is restored: name it with -s PATH")
    return {
        "parallelism.default": None if parallelism is None else str(parallelism),
        "execution.state-recovery.path": None if savepoint is None else absolute(savepoint),
        "execution.state-recovery.ignore-unclaimed-state": "true" if settings["allow_non_restored_state"] else None,
        "execution.state-recovery.claim-mode": None if claim_mode is None else claim_mode.upper(),
        "python.files": settings["py_files"],
        "python.archives": settings["py_archives"],
        "python.requirements": settings["py_requirements"],
        "python.executable": settings["py_executable"],
    }


def run_program(program: str, verbose: bool) -> int:
    """Run the program as a script; an error of its own is shown as Python would show it, from its own lines on."""
    try:
        runpy.run_path(program, run_name="__main__")
    except FlinkError:
        raise
    except Exception as error:
        if verbose:
            raise
        traceback.print_exception(from_program_on(error, program))
        return 1
    return 0


def from_program_on(error: Exception, program: str) -> Exception:
    """The error with a traceback that begins with the lines of the program."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != program:
        trace = trace.tb_next
    return error.with_traceback(trace or error.__traceback__)


@contextmanager
def program_environment(configuration: Configuration, program: str, arguments: tuple[str, ...]) -> Iterator[None]:
    """What a program sees when Python runs it as a script, and the configuration its environments start from."""
    from flinkpy.configuration import read_option
    from flinkpy.configuration.loading import CONFIG_DIR_VARIABLES, DYNAMIC_PROPERTIES_VARIABLE
    from flinkpy.configuration.python_options import PYTHON_FILES

    saved_environment, saved_argv, saved_path = dict(os.environ), sys.argv, list(sys.path)
    for variable in CONFIG_DIR_VARIABLES:
        os.environ.pop(variable, None)
    lines = (f"{key}={value}" for key, value in sorted(configuration.to_dict().items()))
    os.environ[DYNAMIC_PROPERTIES_VARIABLE] = "\n".join(lines)
    sys.argv = [program, *arguments]
    for path in reversed((read_option(configuration, PYTHON_FILES) or "").split(",")):
        if path.strip():  # the program imports them too
            file = os.path.abspath(path.strip())
            sys.path.insert(0, os.path.dirname(file) if file.endswith(".py") else file)
    sys.path.insert(0, os.path.dirname(os.path.abspath(program)))
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(saved_environment)
        sys.argv, sys.path[:] = saved_argv, saved_path
