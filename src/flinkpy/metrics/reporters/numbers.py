"""Readings as numbers: for systems that store nothing else."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

__all__ = ["CountDeltas", "CountKey", "number_of", "variable_name"]

_BOOLEANS = {"true": 1, "false": 0}


def number_of(value: int | float | str) -> int | float | None:
    """Returns the value of a gauge as a finite number; None if it has none, such as a text or the text of an error.

    Differs: Flink's reporters for Prometheus report 0 for a gauge without a number, which looks like a measurement.
    """
    if isinstance(value, str):
        return _BOOLEANS.get(value)
    return value if math.isfinite(value) else None


def variable_name(variable: str) -> str:
    """Returns the name of a variable without angle brackets."""
    return variable[1:-1] if variable.startswith("<") and variable.endswith(">") else variable


#: Identifies a count: its identifier and the values of its variables.
CountKey = tuple[str, ...]


class CountDeltas:
    """Computes how much counts have grown since the last report that arrived. Thread: that of the reporter.

    Source: org.apache.flink.metrics.datadog.DCounter, org.apache.flink.metrics.otel.OpenTelemetryMetricReporter.
    Differs: Flink forgets what a failed report contained. Here the next report that arrives includes it.
    """

    def __init__(self) -> None:
        self._arrived: dict[CountKey, int] = {}

    def delta(self, key: CountKey, count: int) -> int:
        """Returns the growth of a count. It is negative if somebody has decremented the counter."""
        return count - self._arrived.get(key, 0)

    def end_report(self, arrived: Mapping[CountKey, int], current: Iterable[CountKey]) -> None:
        """Ends a report.

        Args:
            arrived: the counts that arrived.
            current: the keys of all counts that exist. The others are forgotten.
        """
        known = {**self._arrived, **arrived}
        self._arrived = {key: known[key] for key in current if key in known}
