"""RowSizes: about how much memory Python records take, from a sample of them."""

from __future__ import annotations

import sys
from enum import Enum
from types import FunctionType, ModuleType
from typing import Any

#: One in so many records is looked at where they are alike.
_MOST_STRIDE = 64
#: All are, while one may be so many times the mean.
_UNEVEN = 4.0
#: An object is looked into so far.
_MAX_OBJECTS = 10_000
#: There is one of them, whoever refers to it.
_SHARED = (Enum, type, ModuleType, FunctionType)
_ATOMS = frozenset((int, float, bool, str, bytes, type(None), complex))


class RowSizes:
    """Adapts how many records it looks at to how much their sizes differ. Thread: task thread."""

    def __init__(self) -> None:
        self._stride = 1
        self._offset = 0

    def bytes_of(self, rows: list[Any]) -> int:
        """About the bytes of `rows`, each with all that it refers to, and its place in a list."""
        if not rows:
            return 0
        stride = self._stride
        # Not always the same places: records may come in a pattern.
        start = self._offset % min(stride, len(rows))
        self._offset += 1
        known: set[int] = set()
        sizes = [size_of(row, known) for row in rows[start::stride]]
        mean = sum(sizes) / len(sizes)
        if max(sizes) > _UNEVEN * mean:
            self._stride = 1
        elif len(sizes) >= 8:
            self._stride = min(2 * stride, _MOST_STRIDE)
        return int((mean + 8) * len(rows))


def size_of(value: Any, known: set[int] | None = None) -> int:
    """Bytes of an object and of all that it refers to, but for what is there once for all.

    `known`: ids of objects that have been counted and are still there; these are added.
    """
    get_size = sys.getsizeof
    size, pending, seen = 0, [value], 0
    if known is None:
        known = set()
    while pending:
        one = pending.pop()
        if id(one) in known:
            continue
        known.add(id(one))
        size += get_size(one, 64)
        seen += 1
        kind = type(one)
        if kind in _ATOMS or seen > _MAX_OBJECTS or isinstance(one, _SHARED):
            continue
        if isinstance(one, (tuple, list, set, frozenset)):
            pending.extend(one)
        elif isinstance(one, dict):
            pending.extend(one.keys())
            pending.extend(one.values())
        else:
            _add_attributes(one, pending)
    return size


def _add_attributes(one: Any, pending: list[Any]) -> None:
    attributes = getattr(one, "__dict__", None)
    if attributes:
        pending.append(attributes)
    for kind in type(one).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and (attribute := getattr(one, name, None)) is not None:
                pending.append(attribute)
