"""`flinkpy cluster start | stop | status`: a cluster of background processes on this host."""

from __future__ import annotations

import os

import click

from flinkpy.cli.options import configuration_options, load_valid_configuration
from flinkpy.cli.run_directory import RecordedCluster, RecordedProcess, RunDirectory
from flinkpy.common.errors import ExternalError, FlinkError, UserError
from flinkpy.common.process import terminate_and_wait

#: Time the services get to end by themselves; jobs are not waited for.
STOP_GRACE_S = 10.0


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
    """Start a Dispatcher, a ResourceManager and TaskExecutors in the background."""
    configuration = load_valid_configuration(config_dir, properties, {})
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
        recorded = _start_local(entries, count, directory)
        directory.write(recorded)
    click.echo(f"Cluster started: Dispatcher at {recorded.dispatcher_address}, {count} TaskExecutors.")
    click.echo(f"Logs: {os.path.dirname(recorded.processes[0].log)}")


def _start_local(entries: dict[str, str], num_task_executors: int, directory: RunDirectory) -> RecordedCluster:
    from flinkpy.client.local_cluster import LocalCluster, LocalClusterOptions, log_directory
    from flinkpy.configuration import jobmanager_options, read_option

    log_dir = log_directory(entries, directory.log_dir)
    local = LocalCluster(
        LocalClusterOptions(
            num_task_executors=num_task_executors,
            properties=entries,
            dispatcher_port=read_option(entries, jobmanager_options.PORT),
            log_dir=log_dir,
            temporary_dir=directory.temporary_dir,
            dies_with_parent=False,
        )
    )
    local.start()
    processes = tuple(
        RecordedProcess(
            name=process.spec.name,
            pid=process.identity.pid,
            start_ticks=process.identity.start_ticks,
            address=process.address or "",
            data_address=process.data_address,
            log=str(process.spec.log),
        )
        for process in local.processes
    )
    return RecordedCluster(local.dispatcher_address, local.resource_manager_address, processes)


@cluster.command()
@configuration_options
def stop(config_dir: str | None, properties: tuple[str, ...], verbose: bool) -> None:
    """Stop the cluster that `flinkpy cluster start` started; running jobs are lost."""
    directory = RunDirectory.of(load_valid_configuration(config_dir, properties, {}).to_dict())
    with directory.locked():
        recorded = directory.read()
        if recorded is None:
            raise UserError("no cluster is running (none was started, or it has been stopped)")
        killed = terminate_and_wait([process.identity for process in recorded.alive], STOP_GRACE_S)
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

    directory = RunDirectory.of(load_valid_configuration(config_dir, properties, {}).to_dict())
    recorded = directory.read()
    if recorded is None:
        click.echo("No cluster is running.")
        return 1
    alive = {process.pid for process in recorded.alive}
    rows = [
        [process.name, str(process.pid), "running" if process.pid in alive else "dead", process.address, process.log]
        for process in recorded.processes
    ]
    print_table(["Process", "PID", "State", "Address", "Log"], rows)
    _print_overview(recorded)
    return 0 if len(alive) == len(recorded.processes) else 1


def _print_overview(recorded: RecordedCluster) -> None:
    from flinkpy.client.cluster_client import ClusterClient

    try:
        with ClusterClient(recorded.dispatcher_address, timeout_s=5.0) as client:
            overview = client.request_cluster_overview()
    except ExternalError as error:
        click.echo(f"The Dispatcher does not answer: {error}", err=True)
        return
    click.echo(
        f"{overview.num_task_managers} TaskExecutors, {overview.num_slots_available} of {overview.num_slots_total} "
        f"slots free; jobs: {overview.num_jobs_running} running, {overview.num_jobs_finished} finished, "
        f"{overview.num_jobs_cancelled} canceled, {overview.num_jobs_failed} failed"
    )


def running_dispatcher(entries: dict[str, str]) -> str | None:
    """Address of the cluster that `flinkpy cluster start` started, where it runs."""
    try:
        recorded = RunDirectory.of(entries).read()
    except (FlinkError, OSError):
        return None
    return recorded.dispatcher_address if recorded is not None and recorded.alive else None
