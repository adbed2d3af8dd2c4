"""`flinkpy health`: checks the health of a service, for container probes and scripts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from flinkpy.cli.json_output import json_option, print_json
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
    help="State that counts as success: `ready` (it leads or stands by), `leading`, or `alive` (it answers at all).",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(0.1, 300),
    default=5.0,
    show_default=True,
    help="Limit in seconds.",
)
@json_option
@click.argument("service", type=click.Choice(list(SERVICES)), envvar="FLINKPY_HEALTH_SERVICE")
@click.argument("address", metavar="[HOST:PORT]", required=False, envvar="FLINKPY_HEALTH_ADDRESS")
def health(
    service: str,
    address: str | None,
    expect: str,
    timeout_s: float,
    as_json: bool,
    config_dir: str | None,
    properties: tuple[str, ...],
    verbose: bool,
) -> int:
    """Check the health of SERVICE at HOST:PORT. Default address: the one in the configuration.

    Exit status: 0 if the service is in the expected state; 1 if it is not, or does not answer; 2 if the command or the
    configuration is wrong. The environment variables FLINKPY_HEALTH_SERVICE and FLINKPY_HEALTH_ADDRESS replace missing
    arguments.
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
            raise  # this client must be fixed, not the service
        return _unhealthy(service, where, f"{where} is not a {service}: {error}", as_json)
    except FlinkError as error:
        return _unhealthy(service, where, f"{service} at {where} does not answer: {error}", as_json)
    is_expected = {"alive": True, "ready": found.is_ready, "leading": found is Health.SERVING}[expect]
    if as_json:
        print_json({"service": service, "address": where, "health": found.name, "is_expected": is_expected})
    else:
        click.echo(f"{service} at {where}: {found.value}")
    return 0 if is_expected else 1


def _unhealthy(service: str, address: str, reason: str, as_json: bool) -> int:
    """Shows why there is no answer, and returns the exit status."""
    click.echo(reason, err=True)
    if as_json:
        print_json({"service": service, "address": address, "health": "UNREACHABLE", "is_expected": False})
    return 1


def _configured_address(service: str, configuration: Configuration) -> str:
    """Returns the configured address of the service. Raises: click.UsageError if it has no fixed, single address."""
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
            raise click.UsageError("a JobMaster listens at any free port: give its HOST:PORT")
    if host is not None and "," in host:
        raise click.UsageError("the configuration names several Dispatchers: give HOST:PORT")
    number = read_option(configuration, port)
    if number == 0:
        raise click.UsageError(f"`{port.key}` is 0 (any free port): give HOST:PORT")
    return f"{host or LOOPBACK}:{number}"
