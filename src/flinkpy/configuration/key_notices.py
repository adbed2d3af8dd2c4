"""Warnings about keys that are deprecated, ignored, or have no effect in flinkpy."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from flinkpy.configuration.key_aliases import current_keys_of
from flinkpy.configuration.options import AnyConfiguration, ConfigOption, OptionType, entries_of, raw_value
from flinkpy.configuration.registry import find_option, implemented_options, known_options

_LOG = logging.getLogger(__name__)

#: Prefixes of options for things that flinkpy does not have: the JVM's memory, classes and serializers, and PyFlink's
#: separate worker processes.
_NOT_APPLICABLE = (
    "classloader.",
    "env.java.",
    "jobmanager.memory.",
    "pipeline.classpaths",
    "pipeline.closure-cleaner-level",
    "pipeline.force-",
    "pipeline.jars",
    "pipeline.serialization-config",
    "python.client.executable",
    "python.execution-mode",
    "python.fn-execution.",
    "python.map-state.",
    "python.operator-chaining.enabled",
    "python.state.cache-size",
    "taskmanager.memory.",
)

#: Keys with a part that the user chooses and that flinkpy reads (`external_resources.py`).
_READ_TEMPLATES = frozenset(
    f"external-resource.<resource_name>.{part}" for part in ("amount", "driver-factory.class", "param.<param>")
)

#: The keys that this process has already checked.
_seen: set[str] = set()


def warn_of_keys(configuration: AnyConfiguration) -> None:
    """Logs warnings about the keys of a configuration, once per key and process."""
    keys = entries_of(configuration).keys() - _seen
    _seen.update(keys)
    for notice in notices(configuration, keys):
        _LOG.warning("%s", notice)


def notices(configuration: AnyConfiguration, some_keys: Iterable[str] | None = None) -> list[str]:
    """Returns one sentence per deprecated key, and one per kind of key without effect.

    Args:
        configuration: the whole configuration.
        some_keys: the keys to check; None for all.
    """
    keys = sorted(entries_of(configuration) if some_keys is None else some_keys)
    found = [notice for key in keys if (notice := _deprecation(key, configuration))]
    without_effect = keys_without_effect(keys)
    not_applicable = [key for key in without_effect if key.startswith(_NOT_APPLICABLE)]
    ignored = [key for key in without_effect if key not in not_applicable]
    if ignored:
        found.append(f"these options of Flink have no effect in flinkpy: {', '.join(ignored)}")
    if not_applicable:
        found.append(
            "these options have no effect, because flinkpy has no JVM and no separate Python worker processes: "
            f"{', '.join(not_applicable)}"
        )
    return found


def keys_without_effect(keys: Iterable[str]) -> list[str]:
    """Returns the given keys that Flink has and flinkpy does not use, sorted."""
    return sorted(key for key in keys if not key.startswith("$internal.") and _is_without_effect(key))


def _is_without_effect(key: str) -> bool:
    implemented = implemented_options().get(key)
    if implemented is not None:
        return not implemented.has_effect
    option = find_option(key)
    return option is not None and option.key in known_options() and option.key not in _READ_TEMPLATES


def _deprecation(key: str, configuration: AnyConfiguration) -> str | None:
    current_keys = current_keys_of(key)
    if not current_keys or key in known_options():
        return None
    names = " and ".join(f"`{current}`" for current in current_keys)
    options = [ConfigOption(current, OptionType.STRING, None, "") for current in current_keys]
    read_from = {found[0] for option in options if (found := raw_value(configuration, option)) is not None}
    if key not in read_from:
        others = sorted(f"`{other}`" for other in read_from)
        return f"option `{key}` is deprecated and ignored, because {' and '.join(others)} is set; use {names}"
    return f"option `{key}` is deprecated; use {names}"
