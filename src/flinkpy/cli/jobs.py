"""`flinkpy run | list | info | cancel`: jobs of a cluster."""

from __future__ import annotations

import os
import runpy
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from flinkpy.cli.options import (
    absolute,
    cluster_address_option,
    configuration_options,
    load_valid_configuration,
    split_address,
)
from flinkpy.common.errors import FlinkError, UserError
from flinkpy.common.states import JobState

if TYPE_CHECKING:
    from flinkpy._proto import dispatcher_pb2, job_pb2
    from flinkpy.client.cluster_client import ClusterClient
    from flinkpy.common.configuration import Configuration

#: Failures that `info` shows; the whole history is the REST API's business.
MAX_SHOWN_FAILURES = 3


def dispatcher_address(configuration: Configuration, address: str | None) -> str:
    """The Dispatcher meant: `-m`, else `jobmanager.rpc.address`, else the cluster `flinkpy cluster start` started.

    In the last case `configuration` names that cluster's secret afterwards, unless it names one already.

    Raises: UserError where there is none.
    """
    from flinkpy.cli.cluster import running_cluster, use_secret_of
    from flinkpy.configuration import jobmanager_options, read_option
    from flinkpy.configuration.security_options import SECRET_FILE

    if address is not None:
        split_address(address, "-m")
        return address
    configured = read_option(configuration, jobmanager_options.ADDRESS)
    if configured:
        return f"{configured}:{read_option(configuration, jobmanager_options.PORT)}"
    entries = configuration.to_dict()
    local = running_cluster(entries)
    if local is None:
        raise UserError("no cluster: start one with `flinkpy cluster start`, or name one with -m HOST:PORT")
    use_secret_of(local, entries)
    if SECRET_FILE.key in entries:
        configuration.set_string(SECRET_FILE.key, entries[SECRET_FILE.key])
    return local.dispatcher_address


def connect(configuration: Configuration, address: str | None) -> ClusterClient:
    """A connection to the cluster meant; see `dispatcher_address`."""
    from flinkpy.client.cluster_client import ClusterClient
    from flinkpy.configuration import client_options, read_option
    from flinkpy.security import SecurityContext

    timeout_ms = read_option(configuration, client_options.CLIENT_TIMEOUT)
    address = dispatcher_address(configuration, address)
    return ClusterClient(address, timeout_s=timeout_ms / 1000, security=SecurityContext.of_client(configuration))


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@configuration_options
@cluster_address_option
@click.option("-d", "--detached", is_flag=True, help="Return once the job is submitted.")
@click.option("-p", "--parallelism", type=click.IntRange(1, 32768), help="Parallelism of operators that set none.")
@click.option(
    "-s",
    "--fromSavepoint",
    "savepoint_path",
    metavar="PATH",
    help="Start from this savepoint or retained checkpoint.",
)
@click.option(
    "-n",
    "--allowNonRestoredState",
    "allow_non_restored_state",
    is_flag=True,
    help="Leave out state of operators that the program does not have any more.",
)
@click.option(
    "-cm",
    "--claimMode",
    "claim_mode",
    type=click.Choice(["claim", "no_claim", "legacy"], case_sensitive=False),
    help="Whose the savepoint is: `claim` the job's, which deletes it when it can; `no_claim` (the default) yours.",
)
@click.option("-pyfs", "--pyFiles", "py_files", metavar="PATHS", help="Modules, packages and zip files to import from.")
@click.option(
    "-pyarch", "--pyArchives", "py_archives", metavar="PATHS", help="Archives to unpack; each may end in #DIRECTORY."
)
@click.option(
    "-pyreq",
    "--pyRequirements",
    "py_requirements",
    metavar="PATH",
    help="requirements.txt of packages to install; may end in #DIRECTORY with these packages.",
)
@click.option("-pyexec", "--pyExecutable", "py_executable", metavar="PATH", help="The interpreter of functions.")
@click.argument("program", type=click.Path(exists=True, dir_okay=False))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def run(
    address: str | None,
    detached: bool,
    parallelism: int | None,
    savepoint_path: str | None,
    allow_non_restored_state: bool,
    claim_mode: str | None,
    py_files: str | None,
    py_archives: str | None,
    py_requirements: str | None,
    py_executable: str | None,
    program: str,
    arguments: tuple[str, ...],
    config_dir: str | None,
    properties: tuple[str, ...],
    verbose: bool,
) -> int:
    """Run PROGRAM with ARGUMENTS; each `execute()` in it submits a job to the cluster.

    Ctrl-C cancels the job that is running.
    """
    if savepoint_path is None and (allow_non_restored_state or claim_mode is not None):
        raise click.UsageError("-n and -cm say how a savepoint is restored: name it with -s PATH")
    configuration = load_valid_configuration(
        config_dir,
        properties,
        {
            "parallelism.default": None if parallelism is None else str(parallelism),
            "execution.state-recovery.path": None if savepoint_path is None else absolute(savepoint_path),
            "execution.state-recovery.ignore-unclaimed-state": "true" if allow_non_restored_state else None,
            "execution.state-recovery.claim-mode": None if claim_mode is None else claim_mode.upper(),
            "python.files": py_files,
            "python.archives": py_archives,
            "python.requirements": py_requirements,
            "python.executable": py_executable,
        },
    )
    host, port = split_address(dispatcher_address(configuration, address), "-m")
    configuration.set_string("execution.target", "remote")
    configuration.set_string("jobmanager.rpc.address", host)
    configuration.set_string("jobmanager.rpc.port", str(port))
    configuration.set_string("execution.attached", "false" if detached else "true")
    from flinkpy.cli.progress import show_submitted, terminal_observer
    from flinkpy.client.job_watch import observe_jobs

    with _program_environment(configuration, program, arguments), observe_jobs(terminal_observer, show_submitted):
        return _run_program(program, verbose)


def _run_program(program: str, verbose: bool) -> int:
    """Run the program as a script; an error of its own is shown as Python would show it, from its own lines on."""
    try:
        runpy.run_path(program, run_name="__main__")
    except FlinkError:
        raise
    except Exception as error:
        if verbose:
            raise
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename != program:
            trace = trace.tb_next
        traceback.print_exception(error.with_traceback(trace or error.__traceback__))
        return 1
    return 0


@contextmanager
def _program_environment(configuration: Configuration, program: str, arguments: tuple[str, ...]) -> Iterator[None]:
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


@click.command(name="list")
@configuration_options
@cluster_address_option
@click.option("-r", "--running", is_flag=True, help="Only jobs that run (or fail, or restart).")
@click.option("-s", "--scheduled", is_flag=True, help="Only jobs that have not started yet.")
@click.option("-a", "--all", "everything", is_flag=True, help="Finished jobs too.")
def list_jobs(
    address: str | None,
    running: bool,
    scheduled: bool,
    everything: bool,
    config_dir: str | None,
    properties: tuple[str, ...],
    verbose: bool,
) -> None:
    """List jobs: those that have not ended, unless -a is given."""
    from flinkpy.cli.tables import format_timestamp, print_table

    with connect(load_valid_configuration(config_dir, properties, {}), address) as client:
        jobs = client.list_jobs()
    shown = [job for job in jobs if _is_shown(job, running, scheduled, everything)]
    shown.sort(key=lambda job: (-job.start_time_ms, job.job_id))
    rows = [[format_timestamp(job.start_time_ms), job.job_id, job.name, JobState(job.status).name] for job in shown]
    if rows:
        print_table(["Started", "Job", "Name", "Status"], rows)
    else:
        click.echo("No jobs.", err=True)


_SCHEDULED = (JobState.INITIALIZING, JobState.CREATED)


def _is_shown(job: dispatcher_pb2.JobOverview, running: bool, scheduled: bool, everything: bool) -> bool:
    state = JobState(job.status)
    if everything:
        return True
    if state.is_terminal:
        return False
    if running == scheduled:  # neither or both were asked for
        return True
    return (state in _SCHEDULED) == scheduled


@click.command()
@configuration_options
@cluster_address_option
@click.argument("job_id")
def info(address: str | None, job_id: str, config_dir: str | None, properties: tuple[str, ...], verbose: bool) -> None:
    """Show one job: its vertices, metrics, failures and accumulators."""
    from flinkpy.cli.tables import print_table

    with connect(load_valid_configuration(config_dir, properties, {}), address) as client:
        details, accumulators = client.request_job(job_id), client.request_accumulators(job_id)
    _print_details(details)
    if accumulators:
        print_table(["Accumulator", "Type", "Value"], [[one.name, one.type, one.value] for one in accumulators])


def _print_details(details: job_pb2.JobDetails) -> None:
    from flinkpy.cli.tables import format_bytes, format_count, format_timestamp, print_table

    click.echo(f"{details.name} ({details.job_id})")
    ended = f", ended {format_timestamp(details.end_time_ms)}" if details.end_time_ms > 0 else ""
    restarts = f", {details.num_restarts} restarts" if details.num_restarts else ""
    click.echo(f"{JobState(details.status).name}, started {format_timestamp(details.start_time_ms)}{ended}{restarts}")
    rows = []
    for vertex in details.vertices:
        states = ", ".join(f"{count} {state}" for state, count in sorted(vertex.tasks_per_state.items()) if count)
        metrics = vertex.metrics
        rows.append(
            [
                vertex.name,
                str(vertex.parallelism) if vertex.parallelism > 0 else "open",
                states,
                format_count(metrics.num_records_in),
                format_count(metrics.num_records_out),
                format_bytes(metrics.num_bytes_in),
                format_bytes(metrics.num_bytes_out),
            ]
        )
    headers = ["Vertex", "Parallelism", "Subtasks", "Records in", "Records out", "Bytes in", "Bytes out"]
    print_table(headers, rows, right=(1, 3, 4, 5, 6))
    for vertex in details.vertices:
        if vertex.parallelism_reason:
            parallelism = vertex.parallelism if vertex.parallelism > 0 else "open"
            click.echo(f"Parallelism of {vertex.name}: {parallelism}: {vertex.parallelism_reason}")
        if vertex.spark_description:
            click.echo(f"In {vertex.spark_description}")
    for failure in list(details.exception_history)[:MAX_SHOWN_FAILURES]:
        where = f" in {failure.task_name} on {failure.resource_id}" if failure.task_name else ""
        click.echo(f"\nFailure at {format_timestamp(failure.timestamp_ms)}{where}:")
        click.echo((failure.error.traceback or failure.error.message).rstrip())


@click.command()
@configuration_options
@cluster_address_option
@click.argument("job_id")
def cancel(address: str | None, job_id: str, config_dir: str | None, properties: tuple[str, ...], verbose: bool) -> int:
    """Cancel a job and wait until it has ended."""
    with connect(load_valid_configuration(config_dir, properties, {}), address) as client:
        client.cancel_job(job_id)
        result = client.wait_for_result(job_id)
    status = JobState(result.status)
    click.echo(f"Job {job_id}: {status.name}.")
    return 0 if status is JobState.CANCELED else 1
