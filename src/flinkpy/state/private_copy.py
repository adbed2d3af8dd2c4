"""Copies of values for copy on write: a snapshot that is being written must not see what user code changes in place."""

from __future__ import annotations

import copy
import datetime
import decimal
import uuid
from typing import Any

#: Types whose objects never change and refer to nothing that does.
ATOMIC = frozenset(
    {
        int,
        float,
        bool,
        str,
        bytes,
        complex,
        type(None),
        datetime.date,
        datetime.time,
        datetime.datetime,
        datetime.timedelta,
        decimal.Decimal,
        uuid.UUID,
        range,
    }
)
_FROZEN = (tuple, frozenset)


def is_immutable(value: Any) -> bool:
    """Whether nothing in it can change. False where that is not known."""
    kind = type(value)
    if kind in ATOMIC:
        return True
    return kind in _FROZEN and all(map(is_immutable, value))


def private_copy(value: Any) -> Any:
    """An equal object that shares nothing that can change; `value` itself where nothing in it can."""
    kind = type(value)
    if kind in ATOMIC:
        return value
    if kind is list or kind is set:
        if all(map(is_immutable, value)):
            return value.copy()
    elif kind is dict:
        if all(map(is_immutable, value.values())):
            return value.copy()
    elif kind in _FROZEN and all(map(is_immutable, value)):
        return value
    return copy.deepcopy(value)
