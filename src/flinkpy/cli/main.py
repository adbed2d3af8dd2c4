"""Entry point of `flinkpy` and of every service process.

A verb's module is imported only when the verb is used, so that `flinkpy --help` and services start fast.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

import click

from flinkpy import __version__
from flinkpy.common.error_text import escaped
from flinkpy.common.errors import ErrorDomain, FlinkError, JobCancelledError, JobExecutionError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

#: verb -> (module of flinkpy.cli, name of the command there, line of the help). Internal verbs have no help line.
_VERBS: dict[str, tuple[str, str, str]] = {
    "run": ("jobs", "run", "Run a Python program and submit its jobs to the cluster."),
    "run-application": ("applications", "run_application", "Run a Python program in a cluster of its own."),
    "explain": ("explain", "explain", "Show how the jobs of a program would run, without running them."),
    "spark-submit": ("spark_submit", "spark_submit", "Run a batch program in Spark, without a flinkpy cluster."),
    "list": ("jobs", "list_jobs", "List jobs."),
    "top": ("top.command", "top", "Show jobs and TaskExecutors live."),
    "info": ("jobs", "info", "Show one job: its vertices, metrics and failures."),
    "logs": ("logs", "logs", "Show what the functions of a job print and log."),
    "log-level": ("logs", "log_level", "Show or change log levels of running processes."),
    "metrics": ("jobs", "metrics", "Show the current metrics of a job."),
    "flamegraph": ("flamegraph", "flamegraph", "Sample what the Python code of a job is doing."),
    "rescale": ("rescale", "rescale", "Change the parallelism of a running job."),
    "cancel": ("jobs", "cancel", "Cancel a job."),
    "stop": ("checkpoints", "stop", "Stop a job with a savepoint."),
    "savepoint": ("checkpoints", "savepoint", "Take a savepoint of a job, or delete a savepoint."),
    "checkpoint": ("checkpoints", "checkpoint", "Take a checkpoint of a job now."),
    "checkpoints": ("checkpoints", "checkpoints", "Show the checkpoints of a job."),
    "certs": ("credentials", "certs", "Create a certificate authority and certificates for TLS."),
    "token": ("credentials", "token", "Print an access token for another program."),
    "health": ("health", "health", "Check the health of a service."),
    "cluster": ("cluster", "cluster", "Start, stop or inspect a cluster on this host."),
    "kubernetes-session": ("kubernetes", "kubernetes_session", "Start or stop a cluster on Kubernetes."),
    "dashboard": ("dashboard", "dashboard", "Open the dashboard in a browser."),
    "completion": ("completion", "completion", "Print a script for completions in a shell."),
    "cluster-supervisor": ("cluster", "cluster_supervisor", ""),
    "dispatcher": ("services", "dispatcher", "Run a Dispatcher process."),
    "resourcemanager": ("services", "resourcemanager", "Run a ResourceManager process."),
    "taskexecutor": ("services", "taskexecutor", "Run a TaskExecutor process."),
    "historyserver": ("services", "historyserver", "Run a history server, which shows jobs that have ended."),
    "standalone-job": ("applications", "standalone_job", "Run a Dispatcher process together with one program."),
    "application-main": ("applications", "application_main", ""),
    "jobmaster": ("services", "jobmaster", "Run a JobMaster process (the Dispatcher starts these)."),
}


class _LazyGroup(click.Group):
    """A group that imports a command when it is used. Its help takes its lines from `_VERBS` and imports nothing."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _VERBS:
            return None
        module, attribute, _ = _VERBS[cmd_name]
        command: click.Command = getattr(importlib.import_module(f"flinkpy.cli.{module}"), attribute)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Returns the verbs and options that begin so. Imports no verb."""
        from click.shell_completion import CompletionItem

        if incomplete[:1] == "-":
            return super().shell_complete(ctx, incomplete)
        return [
            CompletionItem(verb, help=line)
            for verb, (*_, line) in _VERBS.items()
            if line and verb.startswith(incomplete)
        ]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(verb, line) for verb, (_, _, line) in _VERBS.items() if line])


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="flinkpy")
def flinkpy() -> None:
    """Apache Flink's runtime in Python: stream processing on your own processes."""


#: The command is valid but did not succeed: a job failed or was canceled, or a cluster does not answer.
EXIT_FAILURE = 1
#: The command line, a file or a setting is wrong, and nothing was done. `click` uses this status for usage errors.
EXIT_USER_ERROR = 2
#: Ctrl-C.
EXIT_INTERRUPTED = 130

#: Errors of the user domain that do not mean a wrong command.
_JOB_ENDED = (JobExecutionError, JobCancelledError)


def main(arguments: list[str] | None = None) -> None:
    """Runs the command line and exits with 0, or with one of the statuses above after a message on standard error."""
    from flinkpy.common.process import die_with_parent_if_asked

    die_with_parent_if_asked()
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: list[str]) -> int:
    """Runs the command line and returns its exit status."""
    verbose = "-v" in arguments or "--verbose" in arguments
    try:
        result: Any = flinkpy.main(args=arguments, prog_name="flinkpy", standalone_mode=False)
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("flinkpy: interrupted", err=True)
        return EXIT_INTERRUPTED
    except BrokenPipeError:  # the reader of our output is gone, e.g. `flinkpy list | head`
        return EXIT_FAILURE
    except FlinkError as error:
        _tell_parent(arguments, error)
        if verbose:
            raise
        click.echo(escaped(describe_error(error)), err=True)
        is_mistake = error.domain is ErrorDomain.USER and not isinstance(error, _JOB_ENDED)
        return EXIT_USER_ERROR if is_mistake else EXIT_FAILURE
    return result if isinstance(result, int) else 0


def _tell_parent(arguments: list[str], error: FlinkError) -> None:
    """Reports the error to the process that started this service and waits for it to become ready."""
    if "--ready-file" in arguments[:-1]:
        from flinkpy.common.process import announce_failure

        announce_failure(arguments[arguments.index("--ready-file") + 1], str(error))


def describe_error(error: FlinkError) -> str:
    """Returns the text for a terminal: the traceback of the user's code, if there is one, then the message."""
    if error.remote_traceback and error.domain is ErrorDomain.USER:
        text = str(error)
        return (
            text if error.remote_traceback.strip() in text else f"{error.remote_traceback.rstrip()}\n\nflinkpy: {text}"
        )
    return f"flinkpy: {error}"


if __name__ == "__main__":
    main()
