"""Which keys exist: the options flinkpy acts on, and every other key of Flink 2.3.0, deprecated ones included.

A key that Flink has and flinkpy does not use is accepted, so that a `config.yaml` written for Flink can be used as it
is; its value is checked against its type all the same. The table of those keys is read on first use only.
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

#: The modules whose `ConfigOption` constants are the options flinkpy acts on, in the order of the documentation.
OPTION_MODULES = (
    "core_options",
    "client_options",
    "jobmanager_options",
    "resource_manager_options",
    "taskmanager_options",
    "execution_options",
    "pipeline_options",
    "checkpointing_options",
    "state_backend_options",
    "cluster_options",
    "security_options",
    "metric_options",
    "spark_options",
    "high_availability_options",
)

#: Below these, users and plug-ins name their own keys.
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

#: Similarity (difflib's ratio) from which a known key is offered as what was meant; lower values offer nonsense.
_SUGGESTION_CUTOFF = 0.6


def options_of(module: str) -> list[ConfigOption[Any]]:
    """The options that one module defines, in the order of definition."""
    namespace = vars(importlib.import_module(f"flinkpy.configuration.{module}"))
    return [value for name, value in namespace.items() if name.isupper() and isinstance(value, ConfigOption)]


@functools.cache
def implemented_options() -> dict[str, ConfigOption[Any]]:
    """Every option flinkpy acts on, by each of its keys; a key that several have belongs to the one named so today."""
    options = [option for module in OPTION_MODULES for option in options_of(module)]
    by_key = {key: option for option in options for key in option.keys}
    by_key.update({option.key: option for option in options})
    return by_key


@functools.cache
def known_options() -> dict[str, ConfigOption[Any]]:
    """Every key of Flink 2.3.0 as an option without bounds or choices, by key; not those that are aliases only."""
    table = resources.files("flinkpy.configuration").joinpath("known_keys.tsv").read_text(encoding="utf-8")
    options: dict[str, ConfigOption[Any]] = {}
    for line in table.splitlines():
        if line and not line.startswith("#"):
            key, type_name, _default = line.split("\t")
            # An enum's choices are not in the table, so that any text passes.
            option_type = OptionType.STRING if type_name.startswith("ENUM:") else OptionType[type_name]
            options[key] = ConfigOption(key, option_type, None, "A key of Flink that flinkpy does not use.")
    return options


@functools.cache
def _known_aliases() -> dict[str, ConfigOption[Any]]:
    """The option of Flink that each deprecated or fallback key belongs to."""
    known = known_options()
    return {alias.key: known[alias.current] for alias in key_aliases() if alias.current in known}


@functools.cache
def _templates() -> tuple[tuple[re.Pattern[str], ConfigOption[Any]], ...]:
    """Keys with a part the user names, such as `external-resource.<name>.amount`."""
    compiled = []
    for key, option in known_options().items():
        if "<" in key and "." in key:
            pattern = re.sub(r"<[^>]+>", "\0", key)
            compiled.append((re.compile(re.escape(pattern).replace("\0", r"[^.]+")), option))
    return tuple(compiled)


def find_option(key: str) -> ConfigOption[Any] | None:
    """The option a key belongs to, or None where there is no such key."""
    option = implemented_options().get(key) or known_options().get(key) or _known_aliases().get(key)
    if option is not None:
        return option
    for prefix in OPEN_PREFIXES:
        if key.startswith(prefix):
            return ConfigOption(key, OptionType.STRING, None, "Named by the user.")
    for pattern, template in _templates():
        if pattern.fullmatch(key):
            return template
    return _map_entry(key)


def _map_entry(key: str) -> ConfigOption[Any] | None:
    """The option of an entry of a map written as a key of its own, e.g. `pipeline.global-job-parameters.threads`."""
    parent = key
    while "." in parent:
        parent = parent.rpartition(".")[0]
        option = implemented_options().get(parent) or known_options().get(parent)
        if option is not None and option.type is OptionType.MAP:
            return ConfigOption(key, OptionType.STRING, None, f"An entry of {parent}.")
    return None


def nearest_key(key: str) -> str | None:
    """The current key most like `key`, or None where none is near."""
    current_keys = [option.key for option in implemented_options().values()]
    # `parallelism` is nearer to `parallelism.default` for a person than it is for difflib.
    longer = next((candidate for candidate in current_keys if candidate.startswith(f"{key}.")), None)
    if longer is not None:
        return longer
    matches = difflib.get_close_matches(key, [*current_keys, *known_options()], n=1, cutoff=_SUGGESTION_CUTOFF)
    return matches[0] if matches else None
