"""`flinkpy health`: whether a service is well, as an exit status: for probes of containers and for scripts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from flinkpy.cli.options import configuration_options, load_valid_configuration, split_address

if TYPE_CHECKING:
    from flinkpy.common.configuration import Configuration

SERVICES = {
    "dispatcher": "Dispatcher",
    "resourcemanager": "ResourceManager",
    "taskexecutor": "TaskExecutor",
    "jobmaster": "JobMaster",
}


@click.command()
@configuration_options
@click.option(
    "--expect",
    type=click.Choice(["ready", "leading", "alive"]),
    default="ready",
    show_default=True,
    help="What is success: it leads or stands by, it leads, or its process answers at all.",
)
@click.option(
    "--timeout", "timeout_s", type=click.FloatRange(0.1, 300), default=5.0, show_default=True, help="Seconds."
)
@click.argument("service", type=click.Choice(list(SERVICES)), envvar="FLINKPY_HEALTH_SERVICE")
@click.argument("address", metavar="[HOST:PORT]", required=False, envvar="FLINKPY_HEALTH_ADDRESS")
def health(
    service: str,
    address: str | None,
    expect: str,
    timeout_s: float,
    config_dir: str | None,
    properties: tuple[str, ...],
    verbose: bool,
) -> int:
    """Ask the SERVICE at an address how it is; by default the one that the configuration describes.

    Exit status 0: it is as expected; 1: it is not, or does not answer; 2: it cannot be asked like that. SERVICE and the
    address may come from FLINKPY_HEALTH_SERVICE and FLINKPY_HEALTH_ADDRESS.
    """
    configuration = load_valid_configuration(config_dir, properties, {})
    where = address or _configured_address(service, configuration)
    split_address(where, "HOST:PORT")
    from flinkpy.common.errors import AuthenticationError, FlinkError
    from flinkpy.rpc.health_check import Health, check_health
    from flinkpy.security import SecurityContext

    security = SecurityContext.of_client(configuration)
    try:
        found = check_health(SERVICES[service], where, security=security, timeout_s=timeout_s)
    except AuthenticationError as error:
        if error.details.get("reason") != "audience":
            raise  # the remedy is on this side
        click.echo(f"{service} at {where} is something else: {error}", err=True)
        return 1
    except FlinkError as error:
        click.echo(f"{service} at {where} does not answer: {error}", err=True)
        return 1
    click.echo(f"{service} at {where}: {found.value}")
    expected = {"alive": True, "ready": found.is_ready, "leading": found is Health.SERVING}
    return 0 if expected[expect] else 1


def _configured_address(service: str, configuration: Configuration) -> str:
    """Where the service of this host or container is. A service that takes any free port has no such address."""
    from flinkpy.common.addresses import LOOPBACK
    from flinkpy.configuration import jobmanager_options, read_option, resource_manager_options, taskmanager_options

    host: str | None
    match service:
        case "dispatcher":
            host, port = read_option(configuration, jobmanager_options.ADDRESS), jobmanager_options.PORT
        case "resourcemanager":
            host, port = read_option(configuration, resource_manager_options.ADDRESS), resource_manager_options.IPC_PORT
        case "taskexecutor":
            host, port = read_option(configuration, taskmanager_options.HOST), taskmanager_options.RPC_PORT
        case _:
            raise click.UsageError("a JobMaster takes any free port: give its HOST:PORT")
    if host is not None and "," in host:
        raise click.UsageError("the configuration names several Dispatchers: give HOST:PORT")
    number = read_option(configuration, port)
    if number == 0:
        raise click.UsageError(f"`{port.key}` is 0, any free port: give HOST:PORT")
    return f"{host or LOOPBACK}:{number}"
