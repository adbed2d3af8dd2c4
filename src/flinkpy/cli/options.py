"""Options and argument parsers that several verbs share."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from flinkpy.common.configuration import Configuration

F = TypeVar("F", bound=Callable[..., Any])

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")

_DYNAMIC = click.option(
    "-D", "properties", metavar="KEY=VALUE", multiple=True, help="Set a configuration option. May be repeated."
)
_CONFIG_DIR = click.option(
    "--config-dir",
    type=click.Path(),
    help="Directory of config.yaml, or the file itself. Default: FLINKPY_CONF_DIR.",
)
_VERBOSE = click.option("-v", "--verbose", is_flag=True, help="Show the traceback of an error.")


def configuration_options(command: F) -> F:
    """Adds -D, --config-dir and -v. The command gets `properties`, `config_dir` and `verbose`."""
    return _DYNAMIC(_CONFIG_DIR(_VERBOSE(command)))


def cluster_address_option(command: F) -> F:
    """Adds -m. The command gets `address`, which `dispatcher_address` resolves."""
    return click.option(
        "-m",
        "--jobmanager",
        "address",
        metavar="HOST:PORT",
        help="Address of the Dispatcher; with standby Dispatchers, all addresses, separated by commas. Default: the "
        "address in the configuration, else the cluster on this host.",
    )(command)


def load_valid_configuration(
    config_dir: str | None, properties: tuple[str, ...], overrides: dict[str, str | None]
) -> Configuration:
    """Loads and validates the configuration: the file, then `-D`, then the `overrides` that are not None."""
    from flinkpy.configuration import load_configuration, validate
    from flinkpy.security.confidential_settings import inherited_settings

    configuration = load_configuration(config_dir, properties)
    for key, inherited in inherited_settings().items():
        configuration.set_string(key, inherited)
    for key, value in overrides.items():
        if value is not None:
            configuration.set_string(key, value)
    validate(configuration)
    return configuration


def split_address(text: str, option: str) -> tuple[str, int]:
    """Splits `host:port`, or `[::1]:80` for IPv6. Raises: click.UsageError that names `option`."""
    host, separator, port = text.rpartition(":")
    if not separator or not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise click.UsageError(f"{option}: `{text}` does not have the form host:port")
    return host, int(port)


def absolute(path: str) -> str:
    """Resolves a relative path against the current directory, for use by other processes. A URI stays as it is."""
    return path if _SCHEME.match(path) else os.path.abspath(path)
