"""MetricFilter: chooses the metrics that a reporter gets.

Source: org.apache.flink.runtime.metrics.filter.DefaultMetricFilter.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from flinkpy.common.errors import ConfigurationError
from flinkpy.configuration import read_option
from flinkpy.configuration.options import ConfigOption, list_option

__all__ = ["MetricFilter"]

INCLUDES: ConfigOption[tuple[str, ...]] = list_option(
    "filter.includes",
    (),
    "The metrics to report: a list of `<scope>[:<name>[,<name>...][:<type>[,<type>...]]]`, separated by semicolons. "
    "`*` stands for any characters. A scope is logical, e.g. `taskmanager.job.task`; types are `counter`, `gauge`, "
    "`histogram` and `meter`. Empty: all metrics.",
)
EXCLUDES: ConfigOption[tuple[str, ...]] = list_option(
    "filter.excludes",
    (),
    "The metrics not to report, in the form of `filter.includes`. They prevail over `filter.includes`.",
)

#: Flink's types of metrics. The distribution of PyFlink is a gauge for Flink.
_TYPES = ("counter", "gauge", "histogram", "meter")
_AS_TYPE = {"distribution": "gauge"}
_PARTS = ("scope", "names", "types")


@dataclass(frozen=True, slots=True)
class _Pattern:
    scope: re.Pattern[str]
    names: tuple[re.Pattern[str], ...]
    types: frozenset[str]

    def matches(self, logical_scope: str, name: str, kind: str) -> bool:
        return (
            kind in self.types
            and self.scope.fullmatch(logical_scope) is not None
            and any(pattern.fullmatch(name) for pattern in self.names)
        )


class MetricFilter:
    """Decides by logical scope, name and kind. Thread: any.

    Args:
        options: the options of a reporter, without their prefix.

    Raises: ConfigurationError that names the pattern.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self._includes = _patterns(read_option(options, INCLUDES), INCLUDES.key)
        self._excludes = _patterns(read_option(options, EXCLUDES), EXCLUDES.key)

    def accepts(self, logical_scope: str, name: str, kind: str) -> bool:
        if not self._includes and not self._excludes:
            return True
        of = (logical_scope, name, _AS_TYPE.get(kind, kind))
        if any(pattern.matches(*of) for pattern in self._excludes):
            return False
        return not self._includes or any(pattern.matches(*of) for pattern in self._includes)


def _patterns(texts: tuple[str, ...], key: str) -> list[_Pattern]:
    return [_parse(text.strip(), key) for text in texts if text.strip()]


def _parse(text: str, key: str) -> _Pattern:
    parts = text.split(":")
    if len(parts) > len(_PARTS) or not all(parts):
        raise ConfigurationError(
            f"{key}: {text!r} is not a filter; expected <scope>[:<name>[,<name>...][:<type>[,<type>...]]]"
        )
    scope, names, types = (*parts, *("*" for _ in _PARTS[len(parts) :]))
    return _Pattern(_glob(scope), tuple(_glob(name.strip()) for name in names.split(",")), _types(types, text, key))


def _types(text: str, whole: str, key: str) -> frozenset[str]:
    if text.strip() == "*":
        return frozenset(_TYPES)
    found = frozenset(one.strip().lower() for one in text.split(","))
    unknown = sorted(found.difference(_TYPES))
    if unknown:
        raise ConfigurationError(f"{key}: {whole!r}: {unknown[0]!r} is none of the types {', '.join(_TYPES)}")
    return found


def _glob(text: str) -> re.Pattern[str]:
    """Returns the pattern of a text in which `*` stands for any characters."""
    return re.compile(".*".join(re.escape(part) for part in text.split("*")), re.DOTALL)
