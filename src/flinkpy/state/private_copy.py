"""Copies of values for copy on write: a running snapshot must not see values that user code changes in place."""

from __future__ import annotations

import copy
import datetime
import decimal
import uuid
from typing import Any

from flinkpy.state import pickling

#: Immutable types whose objects refer to immutable objects only.
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
    """True if the value is known to be immutable, including everything it refers to."""
    kind = type(value)
    if kind in ATOMIC:
        return True
    return kind in _FROZEN and all(map(is_immutable, value))


def private_copy(value: Any) -> Any:
    """Returns an equal object that shares nothing mutable with `value`, or `value` itself if it is immutable.

    Raises: StateSerializationError if the value cannot be copied, because it cannot be pickled.
    """
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
    try:
        return copy.deepcopy(value)
    except Exception as error:  # noqa: BLE001 - user objects may raise anything
        try:
            return pickling.loads(pickling.dumps(value))
        except Exception:  # noqa: BLE001 - see above
            raise pickling.unpicklable(value, error) from error
