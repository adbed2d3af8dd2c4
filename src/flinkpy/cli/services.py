"""The service verbs: each runs one service in this process until SIGTERM or SIGINT.

Command-line options are short forms of configuration keys, so that a service has one source of settings.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from flinkpy.cli.options import configuration_options, load_valid_configuration, split_address

if TYPE_CHECKING:
    from flinkpy.common.configuration import Configuration
    from flinkpy.common.process_template import ProcessTemplate

F = TypeVar("F", bound=Callable[..., Any])


def service_options(command: F) -> F:
    """Adds what every service has: --host, --port, --ready-file, --insecure, and the options of the configuration."""
    for option in (
        click.option("--host", "--bind-address", "host", help="Address to bind; loopback where not given."),
        click.option("--port", type=click.IntRange(0, 65535), help="Port to bind; 0 takes any free one."),
        click.option("--ready-file", help="File to write the address to once the service answers."),
        click.option("--insecure", is_flag=True, help="Bind addresses that others reach without TLS, all the same."),
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
    """Import what a service needs without looking for garbage, and leave it alone for good.

    Modules live as long as the process: looking at them takes a fifth of the time to start and end a process.
    """
    # gRPC's core writes past our log, a line for each bad header of anybody who can connect, with what he has sent.
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
    warns_of_keys: bool = True,
    runs_functions: bool = False,
) -> int:
    """Run a service until it ends; returns its exit status.

    Args:
        runs_functions: of users, whose files are not the service's to restrict.
        warns_of_keys: False where the process that started this one has the same configuration and has logged them.
    """
    from flinkpy.cli.service_logging import configure_logging
    from flinkpy.common.file_permissions import restrict_files
    from flinkpy.configuration.key_notices import warn_of_keys
    from flinkpy.configuration.options import read_option
    from flinkpy.configuration.security_options import UMASK
    from flinkpy.security.security_context import TOKEN_VARIABLE

    restrict_files(int(read_option(configuration, UMASK), 8), runs_functions=runs_functions)
    configure_logging(configuration)
    if warns_of_keys:
        warn_of_keys(configuration)
    # That of a client, which user code in this process has no business with.
    os.environ.pop(TOKEN_VARIABLE, None)
    # flinkpy.rpc turns every error of a call into a status and logs what is unexpected; what gRPC itself has to say is
    # that calls were canceled because this process or its caller is ending.
    logging.getLogger("grpc._cython.cygrpc").setLevel(logging.CRITICAL)
    return asyncio.run(service)


def dispatcher_overrides(
    host: str | None, port: int | None, insecure: bool, resourcemanager: str | None
) -> dict[str, str | None]:
    """What the options of a process that has a Dispatcher in it stand for."""
    manager_host, manager_port = _host_and_port(resourcemanager, "--resourcemanager")
    return {
        "jobmanager.bind-host": host,
        "jobmanager.rpc.port": _text(port),
        "security.insecure": _flag(insecure),
        "resourcemanager.rpc.address": manager_host,
        "resourcemanager.rpc.port": manager_port,
    }


def job_master_template() -> ProcessTemplate | None:
    """What JobMaster processes are forked from; None where that is not possible. Before anything is served."""
    from flinkpy.common.process_template import start_template

    return start_template("jobmaster-template", _import_job_master, _run_command)


def _import_job_master() -> None:
    with importing():
        import flinkpy.cli.main
        import flinkpy.jobmaster.entrypoint  # noqa: F401


def _run_command(command: list[str]) -> None:
    """`python -m flinkpy.cli.main VERB ...` in this process, which ends with it."""
    from flinkpy.cli.main import main

    main(command[command.index(main.__module__) + 1 :])


@click.command()
@service_options
@click.option("--resourcemanager", metavar="HOST:PORT", help="Where the ResourceManager is reached.")
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
    """Run a Dispatcher process: takes jobs from clients and starts a JobMaster process for each."""
    overrides = dispatcher_overrides(host, port, insecure, resourcemanager)
    configuration = load_valid_configuration(config_dir, properties, overrides)
    with importing():
        from flinkpy.dispatcher.entrypoint import run_dispatcher

    template = job_master_template()
    return serve(run_dispatcher(configuration, ready_file=ready_file, template=template), configuration)


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
    """Run a ResourceManager process: knows the TaskExecutors and gives their slots to jobs."""
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

    return serve(run_resourcemanager(configuration, ready_file=ready_file), configuration)


@click.command()
@service_options
@click.option("--data-port", type=click.IntRange(0, 65535), help="Port of the data plane; 0 takes any free one.")
@click.option("--resourcemanager", metavar="HOST:PORT", help="Where the ResourceManager is reached.")
@click.option("--slots", type=click.IntRange(1), help="Slots of this process.")
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
    """Run a TaskExecutor process: executes the tasks of jobs in its slots."""
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

    return serve(run_taskexecutor(configuration, ready_file=ready_file), configuration, runs_functions=True)


@click.command()
@service_options
@click.option("--dispatcher", "dispatcher_address", metavar="HOST:PORT", required=True, help="The Dispatcher to serve.")
@click.option("--job-id", help="The job this process is started for; without it, it waits for any.")
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
    """Run a JobMaster process: schedules the tasks of one job and watches over them."""
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
        warns_of_keys=False,
    )
