"""The loops of Top-N: they insert records into sorted lists, one after the other, and note what is emitted.

Elements are numbered: the rows in state, then the records of the batch. The list of key k is at `lists[offsets[k]:]`,
has `sizes[k]` elements in the order of their codes, and at most `limits[k]` places are ranked. Each kernel processes
records from `begin` until the room for changes could become too small, and returns (next record, number of changes).

The loops are compiled by numba where it is installed. Otherwise the same code runs in Python.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np

#: Changes have the kinds of RowKind: 0 INSERT, 1 UPDATE_BEFORE, 2 UPDATE_AFTER, 3 DELETE.


def _upper_bound(lists: Any, start: Any, size: Any, codes: Any, code: Any) -> Any:
    """Returns the place after all elements of the list whose code is at most `code`."""
    low, high = 0, size
    while low < high:
        middle = (low + high) // 2
        if codes[lists[start + middle]] <= code:
            low = middle + 1
        else:
            high = middle
    return low


def _shifted(
    lists: Any,
    start: Any,
    place: Any,
    last: Any,
    rank_start: Any,
    before: Any,
    kinds: Any,
    elements: Any,
    ranks: Any,
    n: Any,
) -> Any:
    """Notes the updates of the places from `place` to `last`, whose elements have moved one place towards the end."""
    for i in range(place, last + 1):
        if i + 1 >= rank_start:
            if before:
                kinds[n], elements[n], ranks[n] = 1, lists[start + i + 1], i + 1
                n += 1
            kinds[n], elements[n], ranks[n] = 2, lists[start + i], i + 1
            n += 1
    return n


def _replaced(
    old: Any,
    new: Any,
    is_full: Any,
    is_top_1: Any,
    before: Any,
    kinds: Any,
    elements: Any,
    ranks: Any,
    n: Any,
) -> Any:
    """Notes that a new element takes a place, from an old one if the list was full. In Top-1 this is an update."""
    if is_full and (before or not is_top_1):
        kinds[n], elements[n], ranks[n] = 1 if is_top_1 else 3, old, 0
        n += 1
    kinds[n], elements[n], ranks[n] = 2 if is_full and is_top_1 else 0, new, 0
    return n + 1


def append_top_n(
    keys: Any,
    codes: Any,
    num_stored: Any,
    begin: Any,
    lists: Any,
    offsets: Any,
    sizes: Any,
    limits: Any,
    with_rank: Any,
    is_top_1: Any,
    rank_start: Any,
    before: Any,
    kinds: Any,
    elements: Any,
    ranks: Any,
) -> Any:
    """Top-N of an insert-only input. A list keeps no more elements than its limit, and has one place more."""
    n = 0
    for i in range(begin, len(keys)):
        key, element = keys[i], num_stored + i
        start, size, limit = offsets[key], sizes[key], limits[key]
        if n + 2 * limit + 2 > len(kinds):
            return i, n
        code = codes[element]
        if size >= limit and (limit == 0 or codes[lists[start + size - 1]] <= code):
            continue
        place = upper_bound(lists, start, size, codes, code)
        for j in range(size, place, -1):
            lists[start + j] = lists[start + j - 1]
        lists[start + place] = element
        if with_rank:
            # The elements behind the new one move up to the limit. If there is room, the last one gets a new rank.
            n = shifted(lists, start, place, min(size, limit) - 1, rank_start, before, kinds, elements, ranks, n)
            if size < limit and size + 1 >= rank_start:
                kinds[n], elements[n], ranks[n] = 0, lists[start + size], size + 1
                n += 1
        else:
            n = replaced(lists[start + size], element, size >= limit, is_top_1, before, kinds, elements, ranks, n)
        if size < limit:
            sizes[key] = size + 1
    return len(keys), n


def retract_top_n(
    keys: Any,
    codes: Any,
    rows: Any,
    is_add: Any,
    num_stored: Any,
    begin: Any,
    lists: Any,
    offsets: Any,
    sizes: Any,
    limits: Any,
    with_rank: Any,
    is_top_1: Any,
    rank_start: Any,
    before: Any,
    kinds: Any,
    elements: Any,
    ranks: Any,
) -> Any:
    """Top-N of any changelog. Lists have all elements. Elements with the same number in `rows` are equal rows."""
    n = 0
    for i in range(begin, len(keys)):
        key, element = keys[i], num_stored + i
        start, size, limit = offsets[key], sizes[key], limits[key]
        if n + 2 * limit + 2 > len(kinds):
            return i, n
        code = codes[element]
        place = upper_bound(lists, start, size, codes, code)
        if is_add[i]:
            for j in range(size, place, -1):
                lists[start + j] = lists[start + j - 1]
            lists[start + place] = element
            sizes[key] = size + 1
            if with_rank:
                n = shifted(lists, start, place, min(size, limit) - 1, rank_start, before, kinds, elements, ranks, n)
                if size < limit and size + 1 >= rank_start:
                    kinds[n], elements[n], ranks[n] = 0, lists[start + size], size + 1
                    n += 1
            elif place < limit:
                if size >= limit:
                    kinds[n], elements[n], ranks[n] = 3, lists[start + limit], 0
                    n += 1
                kinds[n], elements[n], ranks[n] = 0, element, 0
                n += 1
            continue
        found = -1
        for j in range(place - 1, -1, -1):
            if codes[lists[start + j]] != code:
                break
            if rows[lists[start + j]] == rows[element]:
                found = j
        if found < 0:
            continue
        last = min(size, limit) - 1
        if with_rank:
            for j in range(found, last + 1):
                if j + 1 < rank_start:
                    continue
                if j + 1 < size:
                    if before:
                        kinds[n], elements[n], ranks[n] = 1, lists[start + j], j + 1
                        n += 1
                    kinds[n], elements[n], ranks[n] = 2, lists[start + j + 1], j + 1
                    n += 1
                else:
                    kinds[n], elements[n], ranks[n] = 3, lists[start + j], j + 1
                    n += 1
        elif found < limit:
            kinds[n], elements[n], ranks[n] = 3, lists[start + found], 0
            n += 1
            if size > limit:
                kinds[n], elements[n], ranks[n] = 0, lists[start + limit], 0
                n += 1
        for j in range(found, size - 1):
            lists[start + j] = lists[start + j + 1]
        sizes[key] = size - 1
    return len(keys), n


def update_top_n(
    keys: Any,
    codes: Any,
    rows: Any,
    num_stored: Any,
    begin: Any,
    lists: Any,
    offsets: Any,
    sizes: Any,
    limits: Any,
    with_rank: Any,
    is_top_1: Any,
    rank_start: Any,
    before: Any,
    kinds: Any,
    elements: Any,
    ranks: Any,
) -> Any:
    """Top-N of updates. Elements with the same number in `rows` have the same primary key."""
    n = 0
    for i in range(begin, len(keys)):
        key, element = keys[i], num_stored + i
        start, size, limit = offsets[key], sizes[key], limits[key]
        if n + 2 * limit + 4 > len(kinds):
            return i, n
        code = codes[element]
        found = -1
        for j in range(size):
            if rows[lists[start + j]] == rows[element]:
                found = j
                break
        if found < 0:
            if size >= limit and (limit == 0 or codes[lists[start + size - 1]] <= code):
                continue
            place = upper_bound(lists, start, size, codes, code)
            for j in range(size, place, -1):
                lists[start + j] = lists[start + j - 1]
            lists[start + place] = element
            if with_rank:
                n = shifted(lists, start, place, min(size, limit) - 1, rank_start, before, kinds, elements, ranks, n)
                if size < limit and size + 1 >= rank_start:
                    kinds[n], elements[n], ranks[n] = 0, lists[start + size], size + 1
                    n += 1
            else:
                n = replaced(lists[start + size], element, size >= limit, is_top_1, before, kinds, elements, ranks, n)
            if size < limit:
                sizes[key] = size + 1
            continue
        old = lists[start + found]
        place = found
        if codes[old] != code:
            # Leaves its place first. Then the list without it says where it belongs.
            for j in range(found, size - 1):
                lists[start + j] = lists[start + j + 1]
            place = upper_bound(lists, start, size - 1, codes, code)
            for j in range(size - 1, place, -1):
                lists[start + j] = lists[start + j - 1]
        lists[start + place] = element
        if not with_rank:
            if before:
                kinds[n], elements[n], ranks[n] = 1, old, 0
                n += 1
            kinds[n], elements[n], ranks[n] = 2, element, 0
            n += 1
            continue
        # The places between the old and the new one have other elements now.
        has_left = False
        for j in range(min(place, found), max(place, found) + 1):
            if j + 1 < rank_start:
                continue
            if before:
                if j != found:
                    was = lists[start + j + 1] if found > place else lists[start + j - 1]
                    kinds[n], elements[n], ranks[n] = 1, was, j + 1
                    n += 1
                # A row that rises leaves its old rank before it gets the new one.
                if not has_left and found + 1 >= rank_start and (j == found or place < found):
                    kinds[n], elements[n], ranks[n] = 1, old, found + 1
                    n += 1
                    has_left = True
            kinds[n], elements[n], ranks[n] = 2, lists[start + j], j + 1
            n += 1
    return len(keys), n


upper_bound = _upper_bound
shifted = _shifted
replaced = _replaced


@cache
def rank_kernels(strategy: str) -> Any:
    """Returns the loop of a strategy: APPEND, RETRACT or UPDATE."""
    loop = {"APPEND": append_top_n, "RETRACT": retract_top_n, "UPDATE": update_top_n}[strategy]
    if find_spec("numba") is None:
        return in_python(loop)
    import numba

    global upper_bound, shifted, replaced
    compiled = numba.njit(cache=True, nogil=True)
    if upper_bound is _upper_bound:
        upper_bound, shifted, replaced = compiled(_upper_bound), compiled(_shifted), compiled(_replaced)
    return compiled(loop)


def warm_up(strategy: str) -> None:
    """Compiles or loads the loop of a strategy, so that no batch waits for it."""
    none, flags, kinds = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.bool_), np.empty(0, dtype=np.int8)
    inputs: list[Any] = [none, none]
    if strategy != "APPEND":
        inputs.append(none)
    if strategy == "RETRACT":
        inputs.append(flags)
    rank_kernels(strategy)(*inputs, 0, 0, none, none, none, none, True, False, 1, True, kinds, none, none)


def in_python(loop: Any) -> Any:
    """Returns the loop for NumPy arrays without numba. It works on lists, whose elements Python reads much faster."""

    def run(*arguments: Any) -> Any:
        given = [each.tolist() if isinstance(each, np.ndarray) else each for each in arguments]
        result = loop(*given)
        for array, values in zip(arguments, given):
            if isinstance(array, np.ndarray):
                array[:] = values
        return result

    return run
