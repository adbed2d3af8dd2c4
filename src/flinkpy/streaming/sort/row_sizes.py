"""RowSizes: estimates from a sample how much memory Python records take."""

from __future__ import annotations

import sys
from enum import Enum
from types import FunctionType, ModuleType
from typing import Any

#: The largest stride of the sample: one record in 64 is measured if their sizes are similar.
_MOST_STRIDE = 64
#: Every record is measured after one that was larger than this multiple of the mean.
_UNEVEN = 4.0
#: The maximum number of objects that are measured per record.
_MAX_OBJECTS = 10_000
#: Objects of these classes are shared, so the objects that they refer to do not count.
_SHARED = (Enum, type, ModuleType, FunctionType)
_ATOMS = frozenset((int, float, bool, str, bytes, type(None), complex))


class RowSizes:
    """Measures more records the more their sizes differ. Thread: task thread."""

    def __init__(self) -> None:
        self._stride = 1
        self._offset = 0

    def bytes_of(self, rows: list[Any]) -> int:
        """Returns the approximate size of `rows` with all objects they refer to and their entries in the list."""
        if not rows:
            return 0
        stride = self._stride
        # The offset changes, because records may come in a pattern.
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
    """Returns the size in bytes of an object and the objects that it refers to, without those behind shared objects.

    Args:
        known: the ids of live objects that have been counted already. The ids of further objects are added.
    """
    get_size = sys.getsizeof
    size = 0
    seen = 0
    pending = [value]
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
