"""The background process of `flinkpy cluster start`: starts the services of the cluster and replaces those that die."""

from __future__ import annotations

import logging
import os
import signal

import click

from flinkpy.cli.cluster import SUPERVISOR
from flinkpy.cli.options import configuration_options, load_valid_configuration
from flinkpy.cli.run_directory import RecordedCluster, RecordedProcess, RunDirectory
from flinkpy.cli.service_logging import configure_logging
from flinkpy.client.local_cluster import LocalCluster, LocalClusterOptions, log_directory
from flinkpy.common.interruptible import AwaitedSignals
from flinkpy.common.process import ProcessIdentity, announce_ready

logger = logging.getLogger(__name__)


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
    """Run and watch over the services of a cluster on this host until SIGTERM."""
    from flinkpy.common.file_permissions import restrict_files
    from flinkpy.configuration import jobmanager_options, read_option, security_options
    from flinkpy.security.security_context import secret_file

    configuration = load_valid_configuration(config_dir, properties, {})
    restrict_files(int(read_option(configuration, security_options.UMASK), 8), runs_functions=False)
    configure_logging(configuration)
    stop_signals = AwaitedSignals(signal.SIGTERM, signal.SIGINT)
    entries = configuration.to_dict()
    # The same file at each start, so that tokens that were given away stay good.
    entries[security_options.SECRET_FILE.key] = str(secret_file(entries))
    directory = RunDirectory.of(entries)
    log_dir = log_directory(entries, directory.log_dir)
    local = LocalCluster(
        LocalClusterOptions(
            num_task_executors=taskmanagers,
            properties=entries,
            dispatcher_port=read_option(entries, jobmanager_options.PORT),
            log_dir=log_dir,
            temporary_dir=directory.temporary_dir,
            # The death of this process is no reason for the jobs to end.
            dies_with_parent=False,
            restart_services=True,
            on_change=lambda: directory.write(_record_of(local, str(log_dir / f"{SUPERVISOR}.log"))),
        )
    )
    local.start()
    try:
        directory.write(_record_of(local, str(log_dir / f"{SUPERVISOR}.log")))
        announce_ready("cluster", local.dispatcher_address, ready_file=ready_file)
        stop_signals.wait()
        logger.info("stopping the services")
    finally:
        local.stop()


def _record_of(local: LocalCluster, own_log: str) -> RecordedCluster:
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
    me = ProcessIdentity.of(os.getpid())
    assert me is not None
    processes.append(RecordedProcess(SUPERVISOR, me.pid, me.start_ticks, "", None, own_log))
    return RecordedCluster(
        local.dispatcher_address, local.resource_manager_address, str(local.secret_file), tuple(processes)
    )
