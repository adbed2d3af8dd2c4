"""Compares slices of time of one running job: those in which something is done to it, and those in which nothing is."""

from __future__ import annotations

import statistics
from typing import Any

from benchmarks.result import Result


def compare_slices(
    name: str,
    ours: list[dict[str, Any]],
    theirs: list[dict[str, Any]],
    per: str,
    peer: str,
    bar: float | None,
    note: str,
) -> Result:
    """Compares the medians of rows per `per`.

    Args:
        per: `seconds` or `cpu_seconds`. A slice has this key, and `rows`.
    """
    mine = statistics.median(one["rows"] / one[per] for one in ours) / 1e6
    other = statistics.median(one["rows"] / one[per] for one in theirs) / 1e6
    unit = "M rows/s" if per == "seconds" else "M rows/CPU s"
    return Result(name, mine, other, unit, peer, mine / other, bar, note)
