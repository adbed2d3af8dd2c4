"""`flinkpy completion`: prints a script that completes commands in a shell. Also completes the argument JOB.

The shell runs `flinkpy` for each completion, so it must be fast and never print an error.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem, get_completion_class

from flinkpy.common.errors import FlinkError
from flinkpy.common.states import JobState

if TYPE_CHECKING:
    from flinkpy._proto import dispatcher_pb2

#: Time limit for the answer of a cluster. A person has pressed the tab key and waits.
COMPLETION_TIMEOUT = "1 s"
#: The variable by which the scripts of click ask for completions.
COMPLETE_VARIABLE = "_FLINKPY_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.option("-v", "--verbose", is_flag=True, help="Show the traceback of an error.")
def completion(shell: str, verbose: bool) -> None:
    """Print a script that completes commands, options and jobs in SHELL.

    \b
    bash: add this line to ~/.bashrc:  eval "$(flinkpy completion bash)"
    zsh:  add this line to ~/.zshrc:   eval "$(flinkpy completion zsh)"
    fish: run  flinkpy completion fish > ~/.config/fish/completions/flinkpy.fish
    """
    from flinkpy.cli.main import flinkpy

    kind = get_completion_class(shell)
    assert kind is not None, "click supports these shells"
    click.echo(kind(flinkpy, {}, "flinkpy", COMPLETE_VARIABLE).source())


def complete_job(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Returns the jobs of the cluster that the command line names. Without a cluster there are none."""
    from flinkpy.cli.options import load_valid_configuration

    given = context.params
    os.environ["GRPC_VERBOSITY"] = "NONE"  # a library that logs would write into the user's command line
    try:
        from flinkpy.cli.jobs import connect

        configuration = load_valid_configuration(
            given.get("config_dir"), given.get("properties") or (), {"client.timeout": COMPLETION_TIMEOUT}
        )
        with connect(configuration, given.get("address")) as client:
            jobs = client.list_jobs()
    except (FlinkError, click.ClickException, OSError):
        return []
    return job_items(jobs, incomplete)


def job_items(jobs: list[dispatcher_pb2.JobOverview], incomplete: str) -> list[CompletionItem]:
    """Returns completions by id and, once something is typed, by name: first jobs that run, then the newest."""
    jobs = sorted(jobs, key=lambda job: (JobState(job.status).is_terminal, -job.start_time_ms, job.job_id))
    items = [
        CompletionItem(job.job_id, help=f"{job.name} ({JobState(job.status).name})")
        for job in jobs
        if job.job_id.startswith(incomplete)
    ]
    named = dict.fromkeys(job.name for job in jobs if incomplete and job.name.startswith(incomplete))
    # A shell would split a name with spaces into words, and control characters would reach the terminal.
    items += [CompletionItem(name) for name in named if name.isprintable() and " " not in name]
    return items
