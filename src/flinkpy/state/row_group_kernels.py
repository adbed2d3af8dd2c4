"""The kernels of `row_groups`, compiled by numba. Importing this module needs numba.

Each kernel passes once over the rows of a batch, in their order. The compiled code is cached on disk.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np

from flinkpy.state.row_kernels import read_only


def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    try:
        return numba.njit(function, cache=True, nogil=True)  # type: ignore[no-any-return]
    except RuntimeError:
        # There is no directory for the cache.
        return numba.njit(function, nogil=True)  # type: ignore[no-any-return]


@_compiled
def number_rows(slots: np.ndarray, scratch: np.ndarray) -> Any:
    numbers = np.empty(len(slots), dtype=np.int64)
    firsts = np.empty(len(slots), dtype=np.int64)
    count = 0
    for row in range(len(slots)):
        number = scratch[slots[row]]
        if number < 0:
            number = count
            scratch[slots[row]] = number
            firsts[count] = row
            count += 1
        numbers[row] = number
    for position in range(count):
        scratch[slots[firsts[position]]] = -1
    return numbers, firsts[:count].copy()


@_compiled
def previous_rows(group: np.ndarray, num_groups: int) -> Any:
    last = np.full(num_groups, -1, dtype=np.int64)
    previous = np.empty(len(group), dtype=np.int64)
    for row in range(len(group)):
        previous[row] = last[group[row]]
        last[group[row]] = row
    return previous


@_compiled
def running_counts(group: np.ndarray, before: np.ndarray, weights: np.ndarray) -> Any:
    current = before.copy()
    counts = np.empty(len(group), dtype=np.int64)
    for row in range(len(group)):
        count = current[group[row]] + weights[row]
        if count < 0:
            count = 0
        current[group[row]] = count
        counts[row] = count
    return counts


@_compiled
def running_sums(group: np.ndarray, before: np.ndarray, terms: np.ndarray) -> Any:
    current = before.copy()
    sums = np.empty_like(terms)
    for row in range(len(group)):
        total = current[group[row]] + terms[row]
        current[group[row]] = total
        sums[row] = total
    return sums


@_compiled
def running_extremes(
    group: np.ndarray,
    before: np.ndarray,
    has_before: np.ndarray,
    values: np.ndarray,
    counts: np.ndarray,
    is_max: bool,
) -> Any:
    current = before.copy()
    has_current = has_before.copy()
    extremes = np.empty_like(values)
    has = np.empty(len(group), dtype=np.bool_)
    for row in range(len(group)):
        number = group[row]
        value = values[row]
        if counts[row]:
            is_beyond = value > current[number] if is_max else value < current[number]
            if not has_current[number] or is_beyond:
                current[number] = value
                has_current[number] = True
        extremes[row] = current[number]
        has[row] = has_current[number]
    return extremes, has


@_compiled
def first_and_last(entries: np.ndarray, counts: np.ndarray, weights: np.ndarray) -> Any:
    """Changes the counts of entries row by row. Returns 1 where a count becomes 1, -1 where it becomes 0, else 0."""
    effects = np.zeros(len(entries), dtype=np.int8)
    for row in range(len(entries)):
        weight = weights[row]
        if weight > 0:
            count = counts[entries[row]]
            if count == 0:
                effects[row] = 1
            counts[entries[row]] = count + 1
        elif weight < 0:
            count = counts[entries[row]]
            if count > 0:
                if count == 1:
                    effects[row] = -1
                counts[entries[row]] = count - 1
    return effects


def warm_up() -> None:
    """Compiles or loads the kernels for the usual types, so that no batch waits for it."""
    none, flags, weights = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.bool_), np.empty(0, dtype=np.int8)
    number_rows(none, none)
    previous_rows(none, 0)
    running_counts(none, none, weights)
    # Arrow's columns are read-only, which is another type to numba.
    for values in (none, read_only(none)):
        running_sums(none, none, values)
        running_extremes(none, none, flags, values, flags, True)
    first_and_last(none, none, weights)
