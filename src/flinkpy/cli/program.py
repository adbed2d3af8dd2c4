"""The options of a program and the way it runs as a script, shared by `flinkpy run` and applications."""

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
    from click.shell_completion import CompletionItem

    from flinkpy.common.configuration import Configuration

F = TypeVar("F", bound=Callable[..., Any])

#: File name of the runpy module in tracebacks.
_RUNPY = "<frozen runpy>"

#: Prefix of a program that is named by its module and not by the path of its file.
MODULE_PREFIX = "module:"

#: Flink's options that name a program, each with the prefix for its value.
_PROGRAM_OPTIONS = {"-py": "", "--python": "", "-pym": MODULE_PREFIX, "--pyModule": MODULE_PREFIX}


class ProgramCommand(click.Command):
    """A command that takes a program and its arguments, named as `PROGRAM`, `-py FILE` or `-pym MODULE`.

    The options of the command end at the first other word, as in Flink. This word is the program or, after -py or -pym,
    the program's first argument.
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
                    if ctx.resilient_parsing:  # a shell asks for completions of a line that is being typed
                        break
                    raise click.UsageError(f"option {name} requires an argument", ctx)
                if chosen is not None:
                    raise click.UsageError("name one program only, by -py or by -pym", ctx)
                taken = 1 if "=" in word else 2
                chosen = _PROGRAM_OPTIONS[name] + (value if taken == 1 else rest[1])
                del rest[:taken]
                continue
            option = options.get(name)
            if option is None and name not in ctx.help_option_names and not _is_short_with_value(word, options):
                if chosen is None and word.startswith("-") and word != "--":
                    return super().parse_args(ctx, args)  # click refuses it and suggests similar options
                break
            taken = 1 if option is None or option.is_flag or "=" in word else 2
            kept += rest[:taken]
            del rest[:taken]
        if rest and rest[0] == "--":
            del rest[0]
        program = [] if chosen is None else [chosen]
        # click does not parse words after `--` as options.
        return super().parse_args(ctx, [*kept, "--", *program, *rest] if program or rest else kept)


def _is_short_with_value(word: str, options: dict[str, click.Option]) -> bool:
    """True for `-Dkey=value` and `-p2`."""
    option = options.get(word[:2])
    return word[:1] == "-" and word[1:2] != "-" and len(word) > 2 and option is not None and not option.is_flag


class ProgramType(click.ParamType):
    """A program: a module or a file. The file must exist, unless `is_checked` is False."""

    name = "program"

    def __init__(self, *, is_checked: bool = True) -> None:
        self._is_checked = is_checked

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if self._is_checked and not value.startswith(MODULE_PREFIX) and not os.path.isfile(value):
            what = "is a directory" if os.path.isdir(value) else "does not exist"
            self.fail(f"File {value!r} {what}.", param, ctx)
        return value

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Lets the shell complete names of files."""
        from click.shell_completion import CompletionItem

        return [CompletionItem(incomplete, type="file")]


def absolute_program(program: str) -> str:
    """Returns the program with an absolute path, for a process in another directory."""
    return program if program.startswith(MODULE_PREFIX) else os.path.abspath(program)


def program_options(command: F) -> F:
    """Adds the options for a program's jobs. The command gets them as keywords, for `program_overrides`."""
    for option in reversed(
        (
            click.option(
                "-p",
                "--parallelism",
                type=click.IntRange(1, 32768),
                help="Parallelism of operators without one.",
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
                help="Skip state of operators that the program no longer has.",
            ),
            click.option(
                "-cm",
                "--claimMode",
                "claim_mode",
                type=click.Choice(["claim", "no_claim", "legacy"], case_sensitive=False),
                help="Owner of the savepoint. `claim`: the job, which deletes it when it can. `no_claim` (default): "
                "you.",
            ),
            # ProgramCommand parses the next two itself. They are here for the help.
            click.option("-py", "--python", "py_file", metavar="FILE", help="Run this file instead of PROGRAM."),
            click.option(
                "-pym", "--pyModule", "py_module", metavar="MODULE", help="Run this module, like `python -m`."
            ),
            click.option(
                "-pyfs",
                "--pyFiles",
                "py_files",
                metavar="PATHS",
                help="Python files, packages and zip files to import from, separated by commas.",
            ),
            click.option(
                "-pyarch",
                "--pyArchives",
                "py_archives",
                metavar="PATHS",
                help="Archives to unpack, separated by commas; append #DIRECTORY to choose the target.",
            ),
            click.option(
                "-pyreq",
                "--pyRequirements",
                "py_requirements",
                metavar="PATH",
                help="requirements.txt of packages to install; append #DIRECTORY to install from a local directory.",
            ),
            click.option(
                "-pyexec",
                "--pyExecutable",
                "py_executable",
                metavar="PATH",
                help="Python interpreter of user functions.",
            ),
        )
    ):
        command = option(command)
    return command


def program_overrides(settings: dict[str, Any]) -> dict[str, str | None]:
    """Returns the configuration that the options stand for. Raises: click.UsageError if they contradict each other."""
    savepoint, parallelism, claim_mode = (settings[key] for key in ("savepoint_path", "parallelism", "claim_mode"))
    if savepoint is None and (settings["allow_non_restored_state"] or claim_mode is not None):
        raise click.UsageError("-n and -cm need a savepoint to restore: name it with -s PATH")
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
    """Runs the program as a script and returns its exit status.

    The program's own errors are printed as Python prints them, without the frames of flinkpy.

    Args:
        program: path of a file, or MODULE_PREFIX and the name of a module.
        verbose: raise all errors instead.
    """
    from flinkpy.datastream.unexecuted_programs import forget_sinks

    try:
        if program.startswith(MODULE_PREFIX):
            runpy.run_module(_existing_module(program), run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(program, run_name="__main__")
    except (Exception, KeyboardInterrupt) as error:
        forget_sinks()  # the error explains why execute() was not called
        if verbose or isinstance(error, (FlinkError, KeyboardInterrupt)):
            raise
        traceback.print_exception(from_program_on(error))
        return 1
    return 0


def from_program_on(error: Exception) -> Exception:
    """Returns the error with a traceback that begins in the program."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != _RUNPY:
        trace = trace.tb_next
    while trace is not None and trace.tb_frame.f_code.co_filename == _RUNPY:
        trace = trace.tb_next
    return error.with_traceback(trace or error.__traceback__)


def _existing_module(program: str) -> str:
    """Returns the name of the module.

    It imports the packages that contain the module, as running it does.

    Raises:
        UserError: there is no such module.
    """
    name = program.removeprefix(MODULE_PREFIX)
    try:
        is_there = importlib.util.find_spec(name) is not None
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # the module exists, but a module that it imports does not
        is_there = False
    except ValueError:
        is_there = False
    if not is_there:
        raise UserError(f"module `{name}` not found in {os.getcwd()}, in -pyfs or among the installed packages")
    return name


@contextmanager
def program_environment(configuration: Configuration, program: str, arguments: tuple[str, ...]) -> Iterator[None]:
    """Sets `sys.argv`, `sys.path` and the configuration for a program, as if Python ran it as a script."""
    from flinkpy.configuration import read_option
    from flinkpy.configuration.loading import CONFIG_DIR_VARIABLES, DYNAMIC_PROPERTIES_VARIABLE
    from flinkpy.configuration.pipeline_options import PYTHON_FILES

    saved_environment, saved_argv, saved_path = dict(os.environ), sys.argv, list(sys.path)
    for variable in CONFIG_DIR_VARIABLES:
        os.environ.pop(variable, None)
    lines = (f"{key}={value}" for key, value in sorted(configuration.to_dict().items()))
    os.environ[DYNAMIC_PROPERTIES_VARIABLE] = "\n".join(lines)
    sys.argv = [program, *arguments]
    for path in reversed((read_option(configuration, PYTHON_FILES) or "").split(",")):
        if path.strip():  # the program can import them, too
            file = os.path.abspath(path.strip())
            sys.path.insert(0, os.path.dirname(file) if file.endswith(".py") else file)
    # Like Python: the directory of a script, or the current directory for a module.
    sys.path.insert(0, os.getcwd() if program.startswith(MODULE_PREFIX) else os.path.dirname(os.path.abspath(program)))
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(saved_environment)
        sys.argv, sys.path[:] = saved_argv, saved_path
