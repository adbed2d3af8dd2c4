"""`flinkpy dispatcher | resourcemanager | taskexecutor | jobmaster`: each runs one service until SIGTERM or SIGINT.

Command-line options are short forms of configuration keys, so that a service has one source of settings.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import socket
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from flinkpy.cli.options import configuration_options, load_valid_configuration, split_address

if TYPE_CHECKING:
    from flinkpy.common.configuration import Configuration
    from flinkpy.common.process_template import ProcessTemplate

F = TypeVar("F", bound=Callable[..., Any])

#: The verb whose process writes to the standard error of its Dispatcher.
JOB_MASTER = "jobmaster"


def service_options(command: F) -> F:
    """Adds the options of every service: --host, --port, --ready-file, --insecure and those of the configuration."""
    for option in (
        click.option("--host", "--bind-address", "host", help="Address to bind. Default: loopback."),
        click.option("--port", type=click.IntRange(0, 65535), help="Port to bind; 0 means any free port."),
        click.option("--ready-file", help="File to write the address to when the service is ready."),
        click.option("--insecure", is_flag=True, help="Allow addresses that other hosts can reach without TLS."),
    ):
        command = option(command)
    return configuration_options(command)


def _text(value: int | None) -> str | None:
    return None if value is None else str(value)


def _flag(is_set: bool) -> str | None:
    return "true" if is_set else None


def _host_and_port(address: str | None, option: str) -> tuple[str | None, str | None]:
    if address is None:
        return None, None
    host, port = split_address(address, option)
    return host, str(port)


@contextmanager
def importing() -> Iterator[None]:
    """Turns garbage collection off while a service imports its modules, and exempts them from collection for good.

    Modules live as long as the process. Collecting over them takes a fifth of the time to start and end a process.
    """
    # gRPC's core does not use our log: it prints a line, with the client's data, for each malformed header it receives.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def serve(
    service: Coroutine[Any, Any, int],
    configuration: Configuration,
    *,
    name: str,
    warns_of_keys: bool = True,
    runs_functions: bool = False,
) -> int:
    """Runs a service until it ends and returns its exit status.

    Args:
        name: the verb of the service.
        warns_of_keys: log warnings about configuration keys. False if the parent process has the same configuration
            and has logged them.
        runs_functions: the service runs user functions. The permissions of files they create are not restricted.
    """
    from flinkpy.common.cpu_scheduling import DEFAULT_SLICE_NS, SERVICE_SLICE_NS, request_time_slice
    from flinkpy.common.file_permissions import restrict_files
    from flinkpy.configuration.key_notices import warn_of_keys
    from flinkpy.configuration.options import read_option
    from flinkpy.configuration.security_options import UMASK
    from flinkpy.logs.setup import configure_logging
    from flinkpy.security.security_context import TOKEN_VARIABLE

    restrict_files(int(read_option(configuration, UMASK), 8), runs_functions=runs_functions)
    # Threads and processes inherit the slice, and a TaskExecutor may be the child of a service.
    request_time_slice(DEFAULT_SLICE_NS if runs_functions else SERVICE_SLICE_NS)
    configure_logging(
        configuration,
        name=f"{name}-{socket.gethostname()}",
        runs_tasks=runs_functions,
        has_standard_error_of_parent=name == JOB_MASTER,
    )
    if warns_of_keys:
        warn_of_keys(configuration)
    # A client's token must not reach user code in this process.
    os.environ.pop(TOKEN_VARIABLE, None)
    # flinkpy.rpc turns every error of a call into a status and logs the unexpected ones. gRPC itself only adds
    # messages about calls that were canceled because this process or its caller is ending.
    logging.getLogger("grpc._cython.cygrpc").setLevel(logging.CRITICAL)
    return asyncio.run(service)


def dispatcher_overrides(
    host: str | None, port: int | None, insecure: bool, resourcemanager: str | None
) -> dict[str, str | None]:
    """Returns the configuration keys and values for the options of a process that runs a Dispatcher."""
    manager_host, manager_port = _host_and_port(resourcemanager, "--resourcemanager")
    return {
        "jobmanager.bind-host": host,
        "jobmanager.rpc.port": _text(port),
        "security.insecure": _flag(insecure),
        "resourcemanager.rpc.address": manager_host,
        "resourcemanager.rpc.port": manager_port,
    }


def job_master_template() -> ProcessTemplate | None:
    """Starts the process that JobMaster processes are forked from. Returns None if this system cannot fork them.

    Call it before the service opens a port or starts a thread.
    """
    from flinkpy.common.process_template import start_template

    return start_template("jobmaster-template", _import_job_master, _run_command)


def _import_job_master() -> None:
    with importing():
        import flinkpy.cli.main
        import flinkpy.jobmaster.entrypoint  # noqa: F401


def _run_command(command: list[str]) -> None:
    """Runs the command `python -m flinkpy.cli.main VERB ...` in this process, then exits."""
    from flinkpy.cli.main import main

    main(command[command.index(main.__module__) + 1 :])


@click.command()
@service_options
@click.option("--resourcemanager", metavar="HOST:PORT", help="Address of the ResourceManager.")
def dispatcher(
    host: str | None,
    port: int | None,
    ready_file: str | None,
    insecure: bool,
    resourcemanager: str | None,
    config_dir: str | None,
    properties: tuple[str, ...],
    verbose: bool,
) -> int:
    """Run a Dispatcher process. It accepts jobs from clients and starts a JobMaster process for each."""
    overrides = dispatcher_overrides(host, port, insecure, resourcemanager)
    configuration = load_valid_configuration(config_dir, properties, overrides)
    with importing():
        from flinkpy.dispatcher.entrypoint import run_dispatcher

    template = job_master_template()
    return serve(
        run_dispatcher(configuration, ready_file=ready_file, template=template), configuration, name="dispatcher"
    )


@click.command()
@service_options
def resourcemanager(
    host: str | None,
    port: int | None,
    ready_file: str | None,
    insecure: bool,
    config_dir: str | None,
    properties: tuple[str, ...],
    verbose: bool,
) -> int:
    """Run a ResourceManager process. It assigns the slots of TaskExecutors to jobs."""
    configuration = load_valid_configuration(
        config_dir,
        properties,
        {
            "resourcemanager.bind-host": host,
            "resourcemanager.rpc.port": _text(port),
            "security.insecure": _flag(insecure),
        },
    )
    with importing():
        from flinkpy.resourcemanager.entrypoint import run_resourcemanager

    return serve(run_resourcemanager(configuration, ready_file=ready_file), configuration, name="resourcemanager")


@click.command()
@service_options
@click.option("--data-port", type=click.IntRange(0, 65535), help="Port for data between tasks; 0 means any free port.")
@click.option("--resourcemanager", metavar="HOST:PORT", help="Address of the ResourceManager.")
@click.option("--slots", type=click.IntRange(1), help="Number of task slots of this process.")
def taskexecutor(
    host: str | None,
    port: int | None,
    ready_file: str | None,
    insecure: bool,
    data_port: int | None,
    resourcemanager: str | None,
    slots: int | None,
    config_dir: str | None,
    properties: tuple[str, ...],
    verbose: bool,
) -> int:
    """Run a TaskExecutor process. It executes the tasks of jobs in its slots."""
    manager_host, manager_port = _host_and_port(resourcemanager, "--resourcemanager")
    configuration = load_valid_configuration(
        config_dir,
        properties,
        {
            "taskmanager.bind-host": host,
            "security.insecure": _flag(insecure),
            "taskmanager.rpc.port": _text(port),
            "taskmanager.data.port": _text(data_port),
            "taskmanager.numberOfTaskSlots": _text(slots),
            "resourcemanager.rpc.address": manager_host,
            "resourcemanager.rpc.port": manager_port,
        },
    )
    with importing():
        from flinkpy.taskexecutor.entrypoint import run_taskexecutor

    return serve(
        run_taskexecutor(configuration, ready_file=ready_file), configuration, name="taskexecutor", runs_functions=True
    )


@click.command()
@service_options
@click.option(
    "--dispatcher",
    "dispatcher_address",
    metavar="HOST:PORT",
    required=True,
    help="Address of the Dispatcher.",
)
@click.option("--job-id", help="Id of the job. Default: wait for an assignment.")
def jobmaster(
    host: str | None,
    port: int | None,
    ready_file: str | None,
    insecure: bool,
    dispatcher_address: str,
    job_id: str | None,
    config_dir: str | None,
    properties: tuple[str, ...],
    verbose: bool,
) -> int:
    """Run a JobMaster process. It schedules the tasks of one job and handles their failures."""
    split_address(dispatcher_address, "--dispatcher")
    configuration = load_valid_configuration(
        config_dir,
        properties,
        {"jobmanager.bind-host": host, "jobmanager.rpc.port": _text(port), "security.insecure": _flag(insecure)},
    )
    with importing():
        from flinkpy.jobmaster.entrypoint import run_jobmaster

    return serve(
        run_jobmaster(configuration, dispatcher_address=dispatcher_address, job_id=job_id, ready_file=ready_file),
        configuration,
        name=JOB_MASTER,
        warns_of_keys=False,
    )


@click.command()
@click.option("--host", "--bind-address", "host", help="Address to bind. Default: loopback.")
@click.option("--port", type=click.IntRange(0, 65535), help="Port to bind; 0 means any free port. Default: 8082.")
@click.option("--archive-dir", help="Directories, separated by commas, that have the archives.")
@click.option("--ready-file", help="File to write the address to when the service is ready.")
@click.option("--insecure", is_flag=True, help="Allow addresses that other hosts can reach without TLS.")
@configuration_options
def historyserver(
    host: str | None,
    port: int | None,
    archive_dir: str | None,
    ready_file: str | None,
    insecure: bool,
    config_dir: str | None,
    properties: tuple[str, ...],
    verbose: bool,
) -> int:
    """Run a history server process. It shows the archived jobs and applications of clusters."""
    overrides = {
        "historyserver.web.address": host,
        "historyserver.web.port": _text(port),
        "historyserver.archive.fs.dir": archive_dir,
        "security.insecure": _flag(insecure),
    }
    configuration = load_valid_configuration(config_dir, properties, overrides)
    with importing():
        from flinkpy.historyserver.entrypoint import run_history_server
    return serve(run_history_server(configuration, ready_file=ready_file), configuration, name="historyserver")
