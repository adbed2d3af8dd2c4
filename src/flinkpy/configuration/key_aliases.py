"""The deprecated and fallback keys of Flink 2.3.0's options, from `key_aliases.tsv`.

Source: org.apache.flink.configuration.{ConfigOption,FallbackKey}. `tools/gen_key_aliases.py` generates the table from
Flink's own classes; it is read on first use.
"""

from __future__ import annotations

import functools
from importlib import resources
from typing import NamedTuple


class KeyAlias(NamedTuple):
    """An alias of an option's key.

    Attributes:
        current: the current key of the option.
        key: the alias.
        is_deprecated: True for a former name; False for a more general key that Flink falls back to.
    """

    current: str
    key: str
    is_deprecated: bool


@functools.cache
def key_aliases() -> tuple[KeyAlias, ...]:
    """Returns all aliases; the aliases of an option are in the order in which they are tried."""
    table = resources.files("flinkpy.configuration").joinpath("key_aliases.tsv").read_text(encoding="utf-8")
    rows = (line.split("\t") for line in table.splitlines() if not line.startswith("#"))
    return tuple(KeyAlias(current, key, kind == "deprecated") for current, key, kind in rows)


@functools.cache
def _by_current_key() -> dict[str, tuple[KeyAlias, ...]]:
    by_key: dict[str, tuple[KeyAlias, ...]] = {}
    for alias in key_aliases():
        by_key[alias.current] = (*by_key.get(alias.current, ()), alias)
    return by_key


def aliases_of(key: str) -> tuple[KeyAlias, ...]:
    """Returns the aliases of a current key, in the order in which they are tried."""
    return _by_current_key().get(key, ())


@functools.cache
def _current_keys() -> dict[str, tuple[str, ...]]:
    by_alias: dict[str, tuple[str, ...]] = {}
    for alias in key_aliases():
        if alias.is_deprecated:
            by_alias[alias.key] = (*by_alias.get(alias.key, ()), alias.current)
    return by_alias


def current_keys_of(key: str) -> tuple[str, ...]:
    """Returns the current keys that replace a deprecated key; empty if the key is not deprecated."""
    return _current_keys().get(key, ())
