"""`flinkpy cluster start | stop | status`: a cluster of background processes on this host."""

from __future__ import annotations

import os

import click

from flinkpy.cli.options import configuration_options, load_valid_configuration
from flinkpy.cli.run_directory import RecordedCluster, RunDirectory
from flinkpy.common.errors import ExternalError, FlinkError, UserError
from flinkpy.common.process import terminate_and_wait

#: Time the services get to end by themselves; jobs are not waited for.
STOP_GRACE_S = 10.0
#: Name of the process that watches over the others.
SUPERVISOR = "supervisor"


@click.group()
def cluster() -> None:
    """Start, stop and look at a cluster on this host."""


@cluster.command()
@configuration_options
@click.option(
    "--taskmanagers",
    type=click.IntRange(0, 256),
    help="TaskExecutor processes; one per core where not given.",
)
def start(taskmanagers: int | None, config_dir: str | None, properties: tuple[str, ...], verbose: bool) -> None:
    """Start a Dispatcher, a ResourceManager and TaskExecutors in the background.

    One more process watches over them and starts those again that die: jobs go on from their last checkpoint.
    """
    from flinkpy.configuration.key_notices import warn_of_keys

    configuration = load_valid_configuration(config_dir, properties, {})
    warn_of_keys(configuration)
    entries = configuration.to_dict()
    directory = RunDirectory.of(entries)
    with directory.locked():
        existing = directory.read()
        if existing is not None and existing.alive:
            raise UserError(
                f"a cluster is running already at {existing.dispatcher_address} "
                f"(`flinkpy cluster status` shows it, `flinkpy cluster stop` stops it)"
            )
        count = (os.cpu_count() or 1) if taskmanagers is None else taskmanagers
        recorded = _start_in_background(entries, count, directory)
    click.echo(f"Cluster started: Dispatcher at {recorded.dispatcher_address}, {count} TaskExecutors.")
    click.echo(f"Logs: {os.path.dirname(recorded.processes[0].log)}")


def _start_in_background(entries: dict[str, str], num_task_executors: int, directory: RunDirectory) -> RecordedCluster:
    """Start the supervisor, which starts the services; returns when all serve. Raises: ExternalError."""
    from flinkpy.client.local_cluster import START_TIMEOUT_S, log_directory
    from flinkpy.client.service_process import ServiceProcess, ServiceSpec, wait_until_ready

    supervisor = ServiceProcess(
        ServiceSpec(
            SUPERVISOR,
            "cluster-supervisor",
            ("--taskmanagers", str(num_task_executors)),
            properties=entries,
            log=log_directory(entries, directory.log_dir) / f"{SUPERVISOR}.log",
            dies_with_parent=False,
        )
    )
    try:
        wait_until_ready([supervisor], START_TIMEOUT_S + STOP_GRACE_S)
    except ExternalError:
        terminate_and_wait([supervisor.identity], STOP_GRACE_S)
        supervisor.popen.wait()
        raise ExternalError(supervisor.reason_of_death()) from None
    finally:
        supervisor.close()
    # It outlives this command, and nobody here waits for it.
    supervisor.popen.returncode = 0
    recorded = directory.read()
    assert recorded is not None, "written before the supervisor was ready"
    return recorded


@cluster.command()
@configuration_options
def stop(config_dir: str | None, properties: tuple[str, ...], verbose: bool) -> None:
    """Stop the cluster that `flinkpy cluster start` started; running jobs are lost."""
    directory = RunDirectory.of(load_valid_configuration(config_dir, properties, {}).to_dict())
    with directory.locked():
        recorded = directory.read()
        if recorded is None:
            raise UserError("no cluster is running (none was started, or it has been stopped)")
        supervisors = [process.identity for process in recorded.alive if process.name == SUPERVISOR]
        # First the one that would start the others again; in order it ends them itself.
        killed = terminate_and_wait(supervisors, STOP_GRACE_S)
        recorded = directory.read() or recorded
        killed += terminate_and_wait([process.identity for process in recorded.alive], STOP_GRACE_S)
        directory.clear()
    names = {process.pid: process.name for process in recorded.processes}
    for identity in killed:
        click.echo(f"{names[identity.pid]} did not end by itself and was killed.", err=True)
    click.echo("Cluster stopped.")


@cluster.command()
@configuration_options
def status(config_dir: str | None, properties: tuple[str, ...], verbose: bool) -> int:
    """Show the cluster's processes, slots and jobs; exits with 1 where it is not whole."""
    from flinkpy.cli.tables import print_table

    entries = load_valid_configuration(config_dir, properties, {}).to_dict()
    recorded = RunDirectory.of(entries).read()
    if recorded is None:
        click.echo("No cluster is running.")
        return 1
    alive = {process.pid for process in recorded.alive}
    rows = [
        [process.name, str(process.pid), "running" if process.pid in alive else "dead", process.address, process.log]
        for process in recorded.processes
    ]
    print_table(["Process", "PID", "State", "Address", "Log"], rows)
    _print_overview(recorded, entries)
    return 0 if len(alive) == len(recorded.processes) else 1


def _print_overview(recorded: RecordedCluster, entries: dict[str, str]) -> None:
    from flinkpy.cli.jobs import warn_if_insecure
    from flinkpy.client.cluster_client import ClusterClient
    from flinkpy.security import SecurityContext

    use_secret_of(recorded, entries)
    try:
        with ClusterClient(
            recorded.dispatcher_address, timeout_s=5.0, security=SecurityContext.of_client(entries)
        ) as client:
            overview = client.request_cluster_overview()
    except ExternalError as error:
        click.echo(f"The Dispatcher does not answer: {error}", err=True)
        return
    warn_if_insecure(overview)
    click.echo(
        f"{overview.num_task_managers} TaskExecutors, {overview.num_slots_available} of {overview.num_slots_total} "
        f"slots free; jobs: {overview.num_jobs_running} running, {overview.num_jobs_finished} finished, "
        f"{overview.num_jobs_cancelled} canceled, {overview.num_jobs_failed} failed"
    )


def running_cluster(entries: dict[str, str]) -> RecordedCluster | None:
    """The cluster that `flinkpy cluster start` started, where it runs."""
    try:
        recorded = RunDirectory.of(entries).read()
    except (FlinkError, OSError):
        return None
    return recorded if recorded is not None and recorded.alive else None


def use_secret_of(recorded: RecordedCluster, entries: dict[str, str]) -> None:
    """Have a client's configuration name the cluster's secret, unless it names a token or a secret itself."""
    from flinkpy.configuration import security_options
    from flinkpy.security.security_context import TOKEN_VARIABLE

    named = (security_options.SECRET_FILE, security_options.TOKEN, security_options.TOKEN_FILE)
    is_named = any(option.key in entries for option in named) or os.environ.get(TOKEN_VARIABLE)
    if recorded.secret_file and not is_named:
        entries[security_options.SECRET_FILE.key] = recorded.secret_file
