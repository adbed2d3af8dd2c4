"""Loads a configuration from the `config.yaml` of a directory and from `-D key=value` texts, which override it.

It also locates the run directory, where a user's processes and clients share the cluster secret, process records and
logs.

Source: org.apache.flink.configuration.{GlobalConfiguration,YamlParserUtils}.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import ConfigurationError
from flinkpy.configuration.values import format_list

if TYPE_CHECKING:
    from flinkpy.common.configuration import Configuration
from flinkpy.configuration import core_options
from flinkpy.configuration.options import AnyConfiguration, read_option

CONFIG_FILE_NAME = "config.yaml"
#: Environment variables in the order of lookup; the second allows the directory of an installed Flink.
CONFIG_DIR_VARIABLES = ("FLINKPY_CONF_DIR", "FLINK_CONF_DIR")
#: Environment variable with `key=value` lines that `flinkpy run` passes to the program it starts.
DYNAMIC_PROPERTIES_VARIABLE = "FLINKPY_DYNAMIC_PROPERTIES"


def load_configuration(
    config_dir: str | os.PathLike[str] | None = None,
    dynamic_properties: Iterable[str] | Mapping[str, str] = (),
) -> Configuration:
    """Loads the configuration; later sources override earlier ones. The result is not validated.

    Args:
        config_dir: a directory with a `config.yaml`, or the file itself. None: the directory in FLINKPY_CONF_DIR or
            FLINK_CONF_DIR, if one of them is set.
        dynamic_properties: `key=value` texts, or a mapping.

    Raises:
        ConfigurationError: the file is missing, unreadable or not a valid `config.yaml`, or a text is not `key=value`.
    """
    from flinkpy.common.configuration import Configuration

    entries: dict[str, str] = {}
    path = _configuration_file(config_dir)
    if path is not None:
        entries.update(read_yaml(path))
    entries.update(_lines_of_environment())
    entries.update(parse_dynamic_properties(dynamic_properties))
    return Configuration.from_dict(entries)


def parse_dynamic_properties(properties: Iterable[str] | Mapping[str, str]) -> dict[str, str]:
    """Returns the entries of `key=value` texts or of a mapping; a bare `key` is `true`, as in Flink."""
    if isinstance(properties, Mapping):
        return {str(key): str(value) for key, value in properties.items()}
    entries: dict[str, str] = {}
    for text in properties:
        key, separator, value = text.partition("=")
        if not key.strip():
            raise ConfigurationError(f"`-D {text}` is not of the form key=value")
        entries[key.strip()] = value.strip() if separator else "true"
    return entries


def read_yaml(path: Path) -> dict[str, str]:
    """Returns the flat keys and the texts of a `config.yaml`, whose keys may be nested, flat, or both."""
    import yaml

    try:
        document = yaml.load(path.read_text(encoding="utf-8"), Loader=_text_loader())
    except OSError as error:
        raise ConfigurationError(f"configuration file {path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"configuration file {path} is not UTF-8 text: {error}") from error
    except yaml.YAMLError as error:
        raise ConfigurationError(f"configuration file {path} is not valid YAML: {error}") from error
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise ConfigurationError(
            f"configuration file {path} must contain `key: value` lines, not a {type(document).__name__}"
        )
    entries: dict[str, str] = {}
    _flatten("", document, entries, path)
    return entries


def _text_loader() -> Any:
    """Returns a YAML loader that keeps scalars as written (`010`, `1e3`, `yes`)."""
    import yaml

    return yaml.BaseLoader


def _flatten(prefix: str, value: Any, entries: dict[str, str], path: Path) -> None:
    if isinstance(value, dict):
        for key, nested in value.items():
            _flatten(f"{prefix}.{key}" if prefix else str(key), nested, entries, path)
    elif isinstance(value, list):
        if any(isinstance(element, dict | list) for element in value):
            raise ConfigurationError(f"configuration file {path}: the list at `{prefix}` has nested elements")
        entries[prefix] = format_list(str(element) for element in value)
    elif prefix in entries:
        raise ConfigurationError(f"configuration file {path} contains the key `{prefix}` twice")
    else:
        entries[prefix] = str(value)


def _configuration_file(config_dir: str | os.PathLike[str] | None) -> Path | None:
    if config_dir is not None:
        named = Path(config_dir)
        origin = "--config-dir"
    else:
        variable = next((name for name in CONFIG_DIR_VARIABLES if os.environ.get(name)), None)
        if variable is None:
            return None
        named = Path(os.environ[variable])
        origin = variable
    path = named / CONFIG_FILE_NAME if named.is_dir() else named
    if not path.is_file():
        raise ConfigurationError(f"configuration file {path} (of {origin}) does not exist")
    return path


def _lines_of_environment() -> dict[str, str]:
    return parse_dynamic_properties(
        line for line in os.environ.get(DYNAMIC_PROPERTIES_VARIABLE, "").splitlines() if line.strip()
    )


#: Environment variable that sets the run directory.
RUN_DIR_VARIABLE = "FLINKPY_RUN_DIR"


def run_directory(configuration: AnyConfiguration) -> Path:
    """Returns `env.pid.dir`, else FLINKPY_RUN_DIR, else `~/.flinkpy/cluster`."""
    configured = read_option(configuration, core_options.PID_DIR) or os.environ.get(RUN_DIR_VARIABLE)
    return Path(configured).expanduser().absolute() if configured else Path.home() / ".flinkpy" / "cluster"
