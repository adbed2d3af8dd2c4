"""Applies the changes of a changelog, which gives the rows of the table that it describes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from flinkpy.common.errors import InternalError
from flinkpy.common.types import Row, RowKind


def materialized(changes: Iterable[Row]) -> list[Row]:
    """Returns the rows that remain, in the order in which they came.

    Raises: InternalError if a change removes a row that is not there.
    """
    added: list[tuple[Any, Row]] = []
    removed: Counter[Any] = Counter()
    present: Counter[Any] = Counter()
    for row in changes:
        key = _key(row)
        if row.get_row_kind() in (RowKind.INSERT, RowKind.UPDATE_AFTER):
            added.append((key, row))
            present[key] += 1
        elif present[key] > 0:
            removed[key] += 1
            present[key] -= 1
        else:
            raise InternalError(f"a change removes a row that is not in the table: {row}")
    remaining = []
    for key, row in added:
        if removed[key]:
            removed[key] -= 1
        else:
            row.set_row_kind(RowKind.INSERT)
            remaining.append(row)
    return remaining


def _key(value: Any) -> Any:
    """Returns a hashable form of a value in which equal values are equal."""
    if isinstance(value, Row):
        return tuple(map(_key, value))
    if isinstance(value, (list, tuple)):
        return tuple(map(_key, value))
    if isinstance(value, dict):
        return frozenset((_key(key), _key(each)) for key, each in value.items())
    return "NaN" if isinstance(value, float) and value != value else value
