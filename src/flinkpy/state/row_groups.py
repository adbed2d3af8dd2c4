"""RowGroups: the rows of a batch by the group whose accumulator they change, and running values per row.

A record-at-a-time engine emits the result of a group after each of its rows. `running_*` compute these results for all
rows of a batch. `folded_*` compute only the result after the last row of each group. If numba is installed, one
compiled pass over the rows does it. Otherwise NumPy sorts the rows by group. Both forms give equal results, also for
sums of floating point numbers, which depend on the order of their terms.
"""

from __future__ import annotations

import importlib
from functools import cached_property
from typing import Any

import numpy as np

from flinkpy.records.key_hash import compile_hashes
from flinkpy.state import row_kernels

#: Below this number of groups with more rows, each group is accumulated on its own.
_MIN_GROUPS_PER_ROUND = 32


def load_kernels() -> Any | None:
    """Imports the compiled kernels. Returns None if numba is not installed."""
    try:
        return importlib.import_module("flinkpy.state.row_group_kernels")
    except ImportError:
        return None


class _Kernels:
    """The compiled kernels, which are loaded on first use."""

    def __init__(self) -> None:
        self._loaded = False
        self._module: Any = None
        self._is_warm = False
        #: False to use the NumPy form although numba is installed.
        self.is_enabled = True

    @property
    def loaded(self) -> Any | None:
        """The kernels if they are loaded already; None otherwise. Loading them takes about a second."""
        return self._module if self.is_enabled else None

    def get(self) -> Any | None:
        if not self.is_enabled:
            return None
        if not self._loaded:
            self._loaded = True
            self._module = load_kernels()
        return self._module

    def warm_up(self) -> None:
        """Loads and compiles the kernels. Operators call it before their first batch."""
        module = self.get()
        if module is not None and not self._is_warm:
            compile_hashes()
            module.warm_up()
            row_kernels.kernels()
            self._is_warm = True


kernels = _Kernels()


class RowGroups:
    """The rows of a batch by group. Thread: task thread.

    A group is a life of an accumulator: the rows of a key from its first row, or from the row after the one that
    deleted it, to the row that deletes it. So a key may have several groups in a batch, one after the other.

    Attributes:
        group: int64[n]: the group of each row. Groups are numbered in the order of their first rows.
        slots: int64[m]: the slot of each group's accumulator.
        is_fresh: bool[m]: true if the group starts without an accumulator.
        is_last: bool[m]: true if the accumulator stays in the slot; None if all do.
    """

    def __init__(
        self, group: np.ndarray, slots: np.ndarray, is_fresh: np.ndarray, is_last: np.ndarray | None = None
    ) -> None:
        self.group = group
        self.slots = slots
        self.is_fresh = is_fresh
        self.is_last = is_last

    @property
    def num_rows(self) -> int:
        return len(self.group)

    @property
    def num_groups(self) -> int:
        return len(self.slots)

    @cached_property
    def order(self) -> np.ndarray:
        """int64[n]: the rows in the order of their groups."""
        group = self.group
        # NumPy sorts integers of up to 16 bits by radix, which is linear.
        return np.argsort(group.astype(np.uint16) if self.num_groups <= 1 << 16 else group, kind="stable")

    @cached_property
    def sizes(self) -> np.ndarray:
        """int64[m]: the number of rows of each group."""
        return np.bincount(self.group, minlength=self.num_groups)

    @cached_property
    def starts(self) -> np.ndarray:
        """int64[m]: the position in `order` of each group's first row."""
        return np.cumsum(self.sizes) - self.sizes

    @cached_property
    def last_rows(self) -> np.ndarray:
        """int64[m]: the last row of each group."""
        last = np.empty(self.num_groups, dtype=np.int64)
        last[self.group] = np.arange(self.num_rows)
        return last

    @cached_property
    def previous(self) -> np.ndarray:
        """int64[n]: the row before it in its group; -1 for the first row of a group."""
        module = kernels.get()
        if module is not None:
            return module.previous_rows(self.group, self.num_groups)  # type: ignore[no-any-return]
        previous = np.empty(self.num_rows, dtype=np.int64)
        order = self.order
        if len(order):
            previous[order[1:]] = order[:-1]
            previous[order[self.starts]] = -1
        return previous

    def before(self, values: np.ndarray, initial: Any) -> np.ndarray:
        """Returns the values of the groups' slots before the batch: `initial` for fresh groups."""
        taken = values.take(self.slots)
        if self.is_fresh.any():
            taken[self.is_fresh] = initial
        return taken

    def store(self, values: np.ndarray, after: np.ndarray) -> None:
        """Sets the slots of `values` to the values of their groups after the batch."""
        if self.is_last is None:
            values[self.slots] = after
        else:
            values[self.slots[self.is_last]] = after[self.is_last]


def number_rows(slots: np.ndarray, scratch: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Numbers the distinct slots of a batch in the order of their first appearance.

    Args:
        scratch: int64 by slot: all -1, before and after.

    Returns:
        int64[n]: the number of each row's slot.
        int64[m]: the first row of each slot, in the order of their numbers.
    """
    # The planner describes operators by running them without rows. It needs no compiled code.
    module = kernels.get() if len(slots) else None
    if module is not None:
        return module.number_rows(slots, scratch)  # type: ignore[no-any-return]
    rows = np.arange(len(slots))
    # The writes go backwards, so the first appearance of a slot wins.
    scratch[slots[::-1]] = rows[::-1]
    first = scratch.take(slots)
    scratch[slots] = -1
    is_first = first == rows
    return (np.cumsum(is_first) - 1).take(first), np.flatnonzero(is_first)


def running_counts(groups: RowGroups, before: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Returns int64[n]: the count of the row's group after it. A row with weight -1 does not change a count of 0.

    Args:
        before: int64[m]: the counts before the batch.
        weights: int8[n]: 1, 0 or -1.
    """
    module = kernels.get()
    if module is not None:
        return module.running_counts(groups.group, before, weights)  # type: ignore[no-any-return]
    if not groups.num_rows:
        return np.empty(0, dtype=np.int64)
    order, starts, sizes = groups.order, groups.starts, groups.sizes
    total = np.cumsum(weights.take(order), dtype=np.int64)
    base = total.take(starts) - weights.take(order.take(starts))
    sums = total + np.repeat(before - base, sizes)
    # Moving each group below the one before it keeps minima within their group.
    span = int(sums.max()) - int(sums.min()) + 1
    moved = np.repeat(np.arange(groups.num_groups) * -span, sizes)
    lowest = np.minimum.accumulate(sums + moved) - moved
    counts = np.empty(groups.num_rows, dtype=np.int64)
    counts[order] = sums - np.minimum(lowest, 0)
    return counts


def running_sums(groups: RowGroups, before: np.ndarray, terms: np.ndarray) -> np.ndarray:
    """Returns the sum of the row's group after it. Integers wrap around.

    Args:
        before: [m]: the sums before the batch, in the type of the terms.
        terms: int64[n], float64[n] or object[n].
    """
    if not groups.num_rows:
        return terms.copy()
    module = kernels.get()
    if module is not None and terms.dtype.kind in "if":
        return module.running_sums(groups.group, before, terms)  # type: ignore[no-any-return]
    order = groups.order
    if terms.dtype.kind == "i":
        in_order = terms.take(order)
        total = np.cumsum(in_order, dtype=terms.dtype)
        base = total.take(groups.starts) - in_order.take(groups.starts)
        sums = np.empty_like(terms)
        sums[order] = total + np.repeat(before - base, groups.sizes)
        return sums
    return _accumulated(np.add, groups, before, terms)


def folded_sums(groups: RowGroups, before: np.ndarray, terms: np.ndarray) -> np.ndarray:
    """Returns [m]: the sum of each group after the batch. See `running_sums`."""
    sums = before.copy()
    np.add.at(sums, groups.group, terms)
    return sums


def running_extremes(
    groups: RowGroups,
    before: np.ndarray,
    has_before: np.ndarray,
    values: np.ndarray,
    counts: np.ndarray | None,
    is_max: bool,
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the extreme of the row's group after it, and true if there is one.

    A value replaces the extreme only if it is beyond it. So a NaN that came first stays.

    Args:
        before, has_before: [m]: the extremes before the batch, and true if there is one.
        values: [n].
        counts: bool[n]: true for the rows that have a value; None if all do.
    """
    module = kernels.get()
    if module is not None and values.dtype.kind in "if":
        is_counted = np.ones(len(values), dtype=bool) if counts is None else counts
        return module.running_extremes(groups.group, before, has_before, values, is_counted, is_max)  # type: ignore[no-any-return]
    extremes, has = np.empty_like(values), np.empty(len(values), dtype=bool)
    current, has_current = before.copy(), has_before.copy()
    if values.dtype.kind in "if" and not (values.dtype.kind == "f" and np.isnan(values).any()):
        neutral = neutral_extreme(values.dtype, is_max)
        current[~has_current] = neutral
        filled = values if counts is None else np.where(counts, values, neutral)
        if not (current.dtype.kind == "f" and np.isnan(current).any()):
            extremes = _accumulated(np.maximum if is_max else np.minimum, groups, current, filled)
            seen = np.ones(len(values), dtype=np.int64) if counts is None else counts.astype(np.int64)
            return extremes, running_sums(groups, has_before.astype(np.int64), seen) > 0
    # Objects, and floats with NaN: one row after the other.
    rows = range(len(values)) if counts is None else np.flatnonzero(counts).tolist()
    known: list[Any] = current.tolist()
    there: list[bool] = has_current.tolist()
    group = groups.group.tolist()
    todo = set(rows)
    for row, value in enumerate(values.tolist()):
        number = group[row]
        if row in todo and (not there[number] or (value > known[number] if is_max else value < known[number])):
            known[number], there[number] = value, True
        extremes[row], has[row] = known[number], there[number]
    return extremes, has


def folded_extremes(
    groups: RowGroups,
    before: np.ndarray,
    has_before: np.ndarray,
    values: np.ndarray,
    counts: np.ndarray | None,
    is_max: bool,
) -> tuple[np.ndarray, np.ndarray]:
    """Returns [m]: the extreme of each group after the batch, and true if there is one. See `running_extremes`."""
    has = has_before.copy()
    has[groups.group if counts is None else groups.group[counts]] = True
    if values.dtype.kind == "i":
        extremes = before.copy()
        extremes[~has_before] = neutral_extreme(values.dtype, is_max)
        update = np.maximum if is_max else np.minimum
        if counts is None:
            update.at(extremes, groups.group, values)
        else:
            update.at(extremes, groups.group[counts], values[counts])
        return extremes, has
    running, _ = running_extremes(groups, before, has_before, values, counts, is_max)
    return running.take(groups.last_rows), has


def neutral_extreme(dtype: np.dtype, is_max: bool) -> Any:
    """Returns the number that changes no minimum or maximum."""
    if dtype.kind == "f":
        return -np.inf if is_max else np.inf
    return np.iinfo(dtype).min if is_max else np.iinfo(dtype).max


def _accumulated(update: np.ufunc, groups: RowGroups, before: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Returns [n]: `before` of the row's group, updated with the values of the group's rows up to this one.

    While many groups have more rows, each round processes one row of all of them. The few groups that are left are
    processed one by one.
    """
    order, starts, sizes = groups.order, groups.starts, groups.sizes
    results = np.empty_like(values)
    active = np.flatnonzero(sizes)
    current = before.take(active)
    depth = 0
    while len(active) >= _MIN_GROUPS_PER_ROUND:
        rows = order.take(starts.take(active) + depth)
        current = update(current, values.take(rows))
        results[rows] = current
        depth += 1
        is_left = sizes.take(active) > depth
        if not is_left.all():
            active, current = active[is_left], current[is_left]
    for number, first in zip(active.tolist(), current):
        rows = order[starts[number] + depth : starts[number] + sizes[number]]
        chain = np.empty(len(rows) + 1, dtype=values.dtype)
        chain[0] = first
        chain[1:] = values.take(rows)
        results[rows] = update.accumulate(chain)[1:]
    return results
