"""Compares slices of time of one running job: those in which something disturbs it, and those in which nothing does.

Slices come in blocks of four: quiet, disturbed, disturbed, quiet. The rate of a job differs between slices by 10 % and
more for reasons of the machine, and changes over a run. So each block is compared in itself, and the result is the
median of the blocks. It has an error, which is shown: a difference smaller than twice the error means nothing.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from benchmarks.result import Result

#: The error of a median over that of a mean.
_ERROR_OF_MEDIAN = 1.25

Slice = dict[str, Any]


def compare_slices(name: str, slices: Sequence[Slice], per: str, peer: str, bar: float | None) -> Result:
    """Compares rows per `per` of disturbed slices with those of quiet ones.

    Args:
        slices: in the order in which they were measured. A slice has `disturbed`, `rows` and the key `per`.
        per: `seconds` or `cpu_seconds`.
    """
    blocks = [slices[at : at + 4] for at in range(0, len(slices) - 3, 4)]
    disturbed = [[one for one in block if one["disturbed"]] for block in blocks]
    quiet = [[one for one in block if not one["disturbed"]] for block in blocks]
    return _compare(name, disturbed, quiet, per, peer, bar)


def compare_quiet(name: str, slices: Sequence[Slice], per: str) -> Result:
    """Compares the quiet slices that end a block with those that begin the next one: nothing but chance."""
    quiet = [one for one in slices if not one["disturbed"]]
    pairs = list(zip(quiet[1::2], quiet[2::2], strict=False))
    return _compare(name, [[one] for one, _ in pairs], [[one] for _, one in pairs], per, "the slice after it", None)


def _compare(
    name: str,
    ours: Sequence[Sequence[Slice]],
    theirs: Sequence[Sequence[Slice]],
    per: str,
    peer: str,
    bar: float | None,
) -> Result:
    mine, other = [_rate(block, per) for block in ours], [_rate(block, per) for block in theirs]
    ratios = [one / two for one, two in zip(mine, other, strict=True)]
    error = _ERROR_OF_MEDIAN * statistics.stdev(ratios) / len(ratios) ** 0.5
    unit = "M rows/s" if per == "seconds" else "M rows/CPU s"
    note = f"{len(ratios)} blocks, ratio +-{error:.3f}"
    return Result(
        name, statistics.median(mine), statistics.median(other), unit, peer, statistics.median(ratios), bar, note
    )


def _rate(block: Sequence[Slice], per: str) -> float:
    return float(sum(one["rows"] for one in block) / sum(one[per] for one in block) / 1e6)
