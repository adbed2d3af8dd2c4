"""`flinkpy cluster start | stop | status`: a cluster of background processes on this host.

`start` starts one process, the supervisor. The supervisor starts the services and replaces those that die.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from typing import TYPE_CHECKING, Any

import click

from flinkpy.cli.json_output import cluster_overview_document, json_option, print_json
from flinkpy.cli.options import configuration_options, load_valid_configuration
from flinkpy.cli.run_directory import RecordedCluster, RecordedProcess, RunDirectory
from flinkpy.common.errors import ExternalError, FlinkError, UserError
from flinkpy.common.process import ProcessIdentity, announce_ready, terminate_and_wait

if TYPE_CHECKING:
    from flinkpy._proto import dispatcher_pb2
    from flinkpy.client.local_cluster import LocalCluster

logger = logging.getLogger(__name__)

#: Time for an orderly shutdown of services before they are killed. Jobs get no time to finish.
STOP_GRACE_S = 10.0
#: Name of the process that starts the services and replaces those that die.
SUPERVISOR = "supervisor"


@click.group()
def cluster() -> None:
    """Start, stop or inspect a cluster on this host."""


@cluster.command()
@configuration_options
@click.option(
    "--taskmanagers",
    type=click.IntRange(0, 256),
    help="Number of TaskExecutor processes. Default: one per CPU core.",
)
def start(taskmanagers: int | None, config_dir: str | None, properties: tuple[str, ...], verbose: bool) -> None:
    """Start a Dispatcher, a ResourceManager and TaskExecutors in the background.

    A supervisor process restarts services that die. Jobs then continue from their last checkpoint.
    """
    from flinkpy.configuration import read_option, rest_options
    from flinkpy.configuration.key_notices import warn_of_keys

    configuration = load_valid_configuration(config_dir, properties, {})
    warn_of_keys(configuration)
    entries = configuration.to_dict()
    directory = RunDirectory.of(entries)
    with directory.locked():
        existing = directory.read()
        if existing is not None and existing.alive:
            raise UserError(
                f"a cluster is already running at {existing.dispatcher_address} "
                f"(`flinkpy cluster status` shows it, `flinkpy cluster stop` stops it)"
            )
        count = (os.cpu_count() or 1) if taskmanagers is None else taskmanagers
        recorded = _start_in_background(entries, count, directory)
    click.echo(f"Cluster started: Dispatcher at {recorded.dispatcher_address}, {count} TaskExecutors.")
    if read_option(configuration, rest_options.ENABLED):
        click.echo("REST API: `flinkpy dashboard` opens it in a browser.")
    click.echo(f"Logs: {os.path.dirname(recorded.processes[0].log)}")


def _start_in_background(entries: dict[str, str], num_task_executors: int, directory: RunDirectory) -> RecordedCluster:
    """Starts the supervisor, which starts the services. Returns when all services are ready. Raises: ExternalError."""
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
    # The supervisor outlives this command. A return code keeps Popen from warning about a child that still runs.
    supervisor.popen.returncode = 0
    recorded = directory.read()
    assert recorded is not None, "the supervisor writes the record before it reports that it is ready"
    return recorded


@cluster.command()
@configuration_options
def stop(config_dir: str | None, properties: tuple[str, ...], verbose: bool) -> None:
    """Stop the cluster started by `flinkpy cluster start`. Running jobs are lost."""
    directory = RunDirectory.of(load_valid_configuration(config_dir, properties, {}).to_dict())
    with directory.locked():
        recorded = directory.read()
        if recorded is None:
            raise UserError("no cluster is running: none was started, or it has been stopped")
        supervisors = [process.identity for process in recorded.alive if process.name == SUPERVISOR]
        # The supervisor goes first: it would restart the others. Normally it stops all of them itself.
        killed = terminate_and_wait(supervisors, STOP_GRACE_S)
        recorded = directory.read() or recorded
        killed += terminate_and_wait([process.identity for process in recorded.alive], STOP_GRACE_S)
        directory.clear()
    names = {process.pid: process.name for process in recorded.processes}
    for identity in killed:
        click.echo(f"{names[identity.pid]} did not stop within {STOP_GRACE_S:g} s and was killed.", err=True)
    click.echo("Cluster stopped.")


@cluster.command()
@configuration_options
@json_option
def status(as_json: bool, config_dir: str | None, properties: tuple[str, ...], verbose: bool) -> int:
    """Show the cluster's processes, slots and jobs. Exits with status 1 if a process is missing."""
    from flinkpy.cli.tables import print_table

    entries = load_valid_configuration(config_dir, properties, {}).to_dict()
    recorded = RunDirectory.of(entries).read()
    if recorded is None:
        if as_json:
            print_json({"is_running": False, "processes": [], "overview": None})
        else:
            click.echo("No cluster is running.")
        return 1
    alive = {process.pid for process in recorded.alive}
    is_complete = len(alive) == len(recorded.processes)
    if as_json:
        overview = _overview(recorded, entries)
        print_json(
            {
                "is_running": bool(alive),
                "processes": [_process_document(process, process.pid in alive) for process in recorded.processes],
                "overview": None if overview is None else cluster_overview_document(overview),
            }
        )
        return 0 if is_complete else 1
    rows = [
        [process.name, str(process.pid), "running" if process.pid in alive else "dead", process.address, process.log]
        for process in recorded.processes
    ]
    print_table(["Process", "PID", "State", "Address", "Log"], rows)
    _print_overview(recorded, entries)
    return 0 if is_complete else 1


def _process_document(process: RecordedProcess, is_alive: bool) -> dict[str, Any]:
    return {
        "name": process.name,
        "pid": process.pid,
        "is_alive": is_alive,
        "address": process.address or None,
        "log": process.log,
    }


def _overview(recorded: RecordedCluster, entries: dict[str, str]) -> dispatcher_pb2.ClusterOverview | None:
    """Returns the overview of the cluster, or None with a message if the Dispatcher does not answer."""
    from flinkpy.client.cluster_client import ClusterClient
    from flinkpy.security import SecurityContext

    use_secret_of(recorded, entries)
    try:
        with ClusterClient(
            recorded.dispatcher_address, timeout_s=5.0, security=SecurityContext.of_client(entries)
        ) as client:
            return client.request_cluster_overview()
    except ExternalError as error:
        click.echo(f"The Dispatcher does not answer: {error}", err=True)
        return None


def _print_overview(recorded: RecordedCluster, entries: dict[str, str]) -> None:
    from flinkpy.cli.jobs import warn_if_insecure

    overview = _overview(recorded, entries)
    if overview is None:
        return
    warn_if_insecure(overview)
    click.echo(
        f"{overview.num_task_managers} TaskExecutors, {overview.num_slots_available} of {overview.num_slots_total} "
        f"slots free; jobs: {overview.num_jobs_running} running, {overview.num_jobs_finished} finished, "
        f"{overview.num_jobs_cancelled} canceled, {overview.num_jobs_failed} failed"
    )


@click.command(hidden=True)
@configuration_options
@click.option("--taskmanagers", type=click.IntRange(0, 256), required=True)
@click.option("--ready-file")
def cluster_supervisor(
    taskmanagers: int,
    ready_file: str | None,
    config_dir: str | None,
    properties: tuple[str, ...],
    verbose: bool,
) -> None:
    """Run the services of a cluster on this host until SIGTERM, and replace those that die."""
    from flinkpy.client.local_cluster import LocalCluster, LocalClusterOptions, log_directory
    from flinkpy.common.file_permissions import restrict_files
    from flinkpy.common.interruptible import AwaitedSignals
    from flinkpy.configuration import jobmanager_options, read_option, security_options
    from flinkpy.logs.setup import configure_logging
    from flinkpy.security.security_context import secret_file

    configuration = load_valid_configuration(config_dir, properties, {})
    restrict_files(int(read_option(configuration, security_options.UMASK), 8), runs_functions=False)
    configure_logging(configuration)
    stop_signals = AwaitedSignals(signal.SIGTERM, signal.SIGINT)
    entries = configuration.to_dict()
    # Each start uses the same secret file, so that tokens issued earlier stay valid.
    entries[security_options.SECRET_FILE.key] = str(secret_file(entries))
    directory = RunDirectory.of(entries)
    log_dir = log_directory(entries, directory.log_dir)

    was_shut_down = threading.Event()

    def shut_down() -> None:
        was_shut_down.set()
        os.kill(os.getpid(), signal.SIGTERM)

    def record() -> None:
        directory.write(_record_of(local, str(log_dir / f"{SUPERVISOR}.log")))

    local = LocalCluster(
        LocalClusterOptions(
            num_task_executors=taskmanagers,
            properties=entries,
            dispatcher_port=read_option(entries, jobmanager_options.PORT),
            log_dir=log_dir,
            temporary_dir=directory.temporary_dir,
            # Jobs survive the death of the supervisor.
            dies_with_parent=False,
            restart_services=True,
            on_change=record,
            on_shut_down=shut_down,
        )
    )
    local.start()
    try:
        record()
        announce_ready("cluster", local.dispatcher_address, ready_file=ready_file)
        stop_signals.wait()
        logger.info("Stopping the services")
    finally:
        local.stop()
        if was_shut_down.is_set():
            directory.clear()


def _record_of(local: LocalCluster, supervisor_log: str) -> RecordedCluster:
    processes = [
        RecordedProcess(
            name=process.spec.name,
            pid=process.identity.pid,
            start_ticks=process.identity.start_ticks,
            address=process.address or "",
            data_address=process.data_address,
            log=str(process.spec.log),
        )
        for process in local.processes
    ]
    supervisor = ProcessIdentity.of(os.getpid())
    assert supervisor is not None
    processes.append(RecordedProcess(SUPERVISOR, supervisor.pid, supervisor.start_ticks, "", None, supervisor_log))
    return RecordedCluster(
        local.dispatcher_address, local.resource_manager_address, str(local.secret_file), tuple(processes)
    )


def running_cluster(entries: dict[str, str]) -> RecordedCluster | None:
    """Returns the cluster that `flinkpy cluster start` started, or None if it does not run."""
    try:
        recorded = RunDirectory.of(entries).read()
    except (FlinkError, OSError):
        return None
    return recorded if recorded is not None and recorded.alive else None


def use_secret_of(recorded: RecordedCluster, entries: dict[str, str]) -> None:
    """Adds the cluster's secret file to a client's configuration, unless that names a token or a secret already."""
    from flinkpy.configuration import security_options
    from flinkpy.security.security_context import TOKEN_VARIABLE

    named = (security_options.SECRET_FILE, security_options.TOKEN, security_options.TOKEN_FILE)
    is_named = any(option.key in entries for option in named) or os.environ.get(TOKEN_VARIABLE)
    if recorded.secret_file and not is_named:
        entries[security_options.SECRET_FILE.key] = recorded.secret_file
