"""The registry of all known keys: flinkpy's options and every other key of Flink 2.3.0, including deprecated keys.

flinkpy accepts keys of Flink that it does not use, so that a `config.yaml` written for Flink works unchanged. It still
checks their values against their types. The table of those keys is read on first use.
"""

from __future__ import annotations

import difflib
import functools
import importlib
import re
from importlib import resources
from typing import Any

from flinkpy.configuration.key_aliases import key_aliases
from flinkpy.configuration.options import ConfigOption, OptionType

#: The modules that define flinkpy's options, in the order of the documentation.
OPTION_MODULES = (
    "core_options",
    "client_options",
    "jobmanager_options",
    "scheduler_options",
    "resource_manager_options",
    "taskmanager_options",
    "memory_options",
    "execution_options",
    "pipeline_options",
    "checkpointing_options",
    "state_backend_options",
    "rocksdb_metric_options",
    "cluster_options",
    "rest_options",
    "history_options",
    "security_options",
    "metric_options",
    "trace_options",
    "table_options",
    "spark_options",
    "kubernetes_options",
    "high_availability_options",
)

#: Users and plug-ins choose the keys below these prefixes.
OPEN_PREFIXES = (
    "metrics.reporter.",
    "traces.reporter.",
    "events.reporter.",
    "containerized.master.env.",
    "containerized.taskmanager.env.",
    "security.module.",
    "fs.",
    "s3.",
    "spark.",
    "execution.batch.spark.conf.",
)

#: The description of Flink's keys that are accepted without effect.
NOT_USED = "A key of Flink that flinkpy does not use."

#: Minimum similarity (difflib's ratio) of a suggested key; lower values suggest unrelated keys.
_SUGGESTION_CUTOFF = 0.6


def options_of(module: str) -> list[ConfigOption[Any]]:
    """Returns the options that a module defines, one by one or in a dict, in the order of definition."""
    namespace = vars(importlib.import_module(f"flinkpy.configuration.{module}"))
    constants = [value for name, value in namespace.items() if name.isupper()]
    found = [one for value in constants for one in (value.values() if isinstance(value, dict) else (value,))]
    return list({one.key: one for one in found if isinstance(one, ConfigOption)}.values())


@functools.cache
def implemented_options() -> dict[str, ConfigOption[Any]]:
    """Returns flinkpy's options by each of their keys. A key of several options maps to the one that has it today."""
    options = [option for module in OPTION_MODULES for option in options_of(module)]
    by_key = {key: option for option in options for key in option.keys}
    by_key.update({option.key: option for option in options})
    return by_key


@functools.cache
def known_options() -> dict[str, ConfigOption[Any]]:
    """Returns all current keys of Flink 2.3.0 as options without bounds or choices."""
    table = resources.files("flinkpy.configuration").joinpath("known_keys.tsv").read_text(encoding="utf-8")
    options: dict[str, ConfigOption[Any]] = {}
    for line in table.splitlines():
        if line and not line.startswith("#"):
            key, type_name, _default = line.split("\t")
            # The table does not contain an enum's choices, so any text is accepted.
            option_type = OptionType.STRING if type_name.startswith("ENUM:") else OptionType[type_name]
            options[key] = ConfigOption(key, option_type, None, NOT_USED)
    return options


@functools.cache
def _known_aliases() -> dict[str, ConfigOption[Any]]:
    """Returns Flink's option for each deprecated or fallback key."""
    known = known_options()
    return {alias.key: known[alias.current] for alias in key_aliases() if alias.current in known}


@functools.cache
def _templates() -> tuple[tuple[re.Pattern[str], ConfigOption[Any]], ...]:
    """Returns patterns of keys with a part that the user chooses, such as `external-resource.<name>.amount`."""
    compiled = []
    for key, option in known_options().items():
        if "<" in key and "." in key:
            # Parameters of external resources have names of their own, which may contain points.
            pattern = re.sub(r"<[^>]+>", "\0", key.replace("<param>", "\1"))
            pattern = re.escape(pattern).replace("\0", r"[^.]+").replace("\1", ".+")
            compiled.append((re.compile(pattern), option))
    return tuple(compiled)


def find_option(key: str) -> ConfigOption[Any] | None:
    """Returns the option of a key, or None if the key does not exist."""
    option = implemented_options().get(key) or known_options().get(key) or _known_aliases().get(key)
    if option is not None:
        return option
    for prefix in OPEN_PREFIXES:
        if key.startswith(prefix):
            return ConfigOption(key, OptionType.STRING, None, "A key that the user chose.")
    for pattern, template in _templates():
        if pattern.fullmatch(key):
            return template
    return _map_entry(key)


def _map_entry(key: str) -> ConfigOption[Any] | None:
    """Returns the option for a map entry written as a separate key, e.g. `pipeline.global-job-parameters.threads`."""
    parent = key
    while "." in parent:
        parent = parent.rpartition(".")[0]
        option = implemented_options().get(parent) or known_options().get(parent)
        if option is not None and option.type is OptionType.MAP:
            return ConfigOption(key, OptionType.STRING, None, f"An entry of {parent}.")
    return None


def nearest_key(key: str) -> str | None:
    """Returns the current key that is most similar to `key`, or None if none is similar enough."""
    current_keys = [option.key for option in implemented_options().values()]
    # Prefer a longer key with this prefix: difflib does not rate `parallelism` close to `parallelism.default`.
    longer = next((candidate for candidate in current_keys if candidate.startswith(f"{key}.")), None)
    if longer is not None:
        return longer
    matches = difflib.get_close_matches(key, [*current_keys, *known_options()], n=1, cutoff=_SUGGESTION_CUTOFF)
    return matches[0] if matches else None
