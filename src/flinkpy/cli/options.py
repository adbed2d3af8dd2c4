"""Options that several verbs share."""

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
    "-D", "properties", metavar="KEY=VALUE", multiple=True, help="Set an option of the configuration; may be repeated."
)
_CONFIG_DIR = click.option(
    "--config-dir",
    type=click.Path(),
    help="Directory of config.yaml (or the file); FLINKPY_CONF_DIR where not given.",
)
_VERBOSE = click.option("-v", "--verbose", is_flag=True, help="Show the traceback of an error.")


def configuration_options(command: F) -> F:
    """Adds -D, --config-dir and -v; the command gets `properties`, `config_dir` and `verbose`."""
    return _DYNAMIC(_CONFIG_DIR(_VERBOSE(command)))


def cluster_address_option(command: F) -> F:
    """Adds -m; the command gets `address`, to be resolved by `dispatcher_address`."""
    return click.option(
        "-m",
        "--jobmanager",
        "address",
        metavar="HOST:PORT",
        help="The Dispatcher, or with standbys all of them, with commas between; that of the configuration, else that "
        "of the local cluster, if not given.",
    )(command)


def load_valid_configuration(
    config_dir: str | None, properties: tuple[str, ...], overrides: dict[str, str | None]
) -> Configuration:
    """The validated configuration of file, `-D` and command-line options (those that are not None)."""
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
    """Host and port of `host:port`; `[::1]:80` for IPv6."""
    host, separator, port = text.rpartition(":")
    if not separator or not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise click.UsageError(f"{option}: `{text}` is not of the form host:port")
    return host, int(port)


def absolute(path: str) -> str:
    """The same place for every process: a path that is relative is meant from the present directory; URIs stay."""
    return path if _SCHEME.match(path) else os.path.abspath(path)
