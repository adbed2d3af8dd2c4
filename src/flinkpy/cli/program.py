"""What `flinkpy run` and applications share: the options of a program, and how it is run as a script."""

from __future__ import annotations

import importlib.util
import os
import runpy
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from flinkpy.cli.options import absolute
from flinkpy.common.errors import FlinkError, UserError

if TYPE_CHECKING:
    from flinkpy.common.configuration import Configuration

F = TypeVar("F", bound=Callable[..., Any])

#: The name in tracebacks of the module that runs programs.
_RUNPY = "<frozen runpy>"

#: Stands before the name of a module, where a program is otherwise the path of a file.
MODULE_PREFIX = "module:"

#: Flink's options that name a program, and what stands before their value as a program.
_PROGRAM_OPTIONS = {"-py": "", "--python": "", "-pym": MODULE_PREFIX, "--pyModule": MODULE_PREFIX}


class ProgramCommand(click.Command):
    """A command that takes a program and its arguments, named as `PROGRAM`, `-py FILE` or `-pym MODULE`.

    As on Flink's command line, the first word that is no option of the command ends its options: it is the program or,
    behind -py and -pym, the program's first argument.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        chosen: str | None = None
        kept: list[str] = []
        rest = list(args)
        options = {name: option for option in self.params if isinstance(option, click.Option) for name in option.opts}
        while rest:
            word = rest[0]
            name, _, value = word.partition("=")
            if name in _PROGRAM_OPTIONS:
                if "=" not in word and len(rest) < 2:
                    raise click.UsageError(f"option {name} requires an argument", ctx)
                if chosen is not None:
                    raise click.UsageError("name one program: by -py or by -pym", ctx)
                taken = 1 if "=" in word else 2
                chosen = _PROGRAM_OPTIONS[name] + (value if taken == 1 else rest[1])
                del rest[:taken]
                continue
            option = options.get(name)
            if option is None and name not in ctx.help_option_names and not _is_short_with_value(word, options):
                if chosen is None and word.startswith("-") and word != "--":
                    return super().parse_args(ctx, args)  # refused, with what may have been meant
                break
            taken = 1 if option is None or option.is_flag or "=" in word else 2
            kept += rest[:taken]
            del rest[:taken]
        if rest and rest[0] == "--":
            del rest[0]
        program = [] if chosen is None else [chosen]
        # Behind `--` no word is taken for an option.
        return super().parse_args(ctx, [*kept, "--", *program, *rest] if program or rest else kept)


def _is_short_with_value(word: str, options: dict[str, click.Option]) -> bool:
    """True for `-Dkey=value` and `-p2`."""
    option = options.get(word[:2])
    return word[:1] == "-" and word[1:2] != "-" and len(word) > 2 and option is not None and not option.is_flag


class ProgramType(click.ParamType):
    """The file of a program, which must exist unless `is_checked` is False, or a module."""

    name = "program"

    def __init__(self, *, is_checked: bool = True) -> None:
        self._is_checked = is_checked

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if self._is_checked and not value.startswith(MODULE_PREFIX) and not os.path.isfile(value):
            what = "is a directory" if os.path.isdir(value) else "does not exist"
            self.fail(f"File {value!r} {what}.", param, ctx)
        return value


def absolute_program(program: str) -> str:
    """The same program for a process in another directory."""
    return program if program.startswith(MODULE_PREFIX) else os.path.abspath(program)


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
            # ProgramCommand takes these two; they stand here for the help.
            click.option("-py", "--python", "py_file", metavar="FILE", help="The program, in place of PROGRAM."),
            click.option(
                "-pym", "--pyModule", "py_module", metavar="MODULE", help="The program as a module, as in `python -m`."
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
    """Run the program as a script; an error of its own is shown as Python would show it, from its own lines on.

    Args:
        program: its file, or MODULE_PREFIX and the name of a module.
    """
    from flinkpy.datastream.unexecuted_programs import forget_sinks

    try:
        if program.startswith(MODULE_PREFIX):
            runpy.run_module(_existing_module(program), run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(program, run_name="__main__")
    except (Exception, KeyboardInterrupt) as error:
        forget_sinks()  # why it came to no execute() is told
        if verbose or isinstance(error, (FlinkError, KeyboardInterrupt)):
            raise
        traceback.print_exception(from_program_on(error))
        return 1
    return 0


def from_program_on(error: Exception) -> Exception:
    """The error with a traceback that begins with the lines of the program."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != _RUNPY:
        trace = trace.tb_next
    while trace is not None and trace.tb_frame.f_code.co_filename == _RUNPY:
        trace = trace.tb_next
    return error.with_traceback(trace or error.__traceback__)


def _existing_module(program: str) -> str:
    """Raises: UserError where it cannot be found; a package it is in is imported for that, as running it does."""
    name = program.removeprefix(MODULE_PREFIX)
    try:
        is_there = importlib.util.find_spec(name) is not None
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # the module is there and imports another one that is not
        is_there = False
    except ValueError:
        is_there = False
    if not is_there:
        raise UserError(f"there is no module `{name}`, neither in {os.getcwd()} nor in -pyfs nor installed")
    return name


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
    # As Python does: the directory of a script, the present one for a module.
    sys.path.insert(0, os.getcwd() if program.startswith(MODULE_PREFIX) else os.path.dirname(os.path.abspath(program)))
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(saved_environment)
        sys.argv, sys.path[:] = saved_argv, saved_path
