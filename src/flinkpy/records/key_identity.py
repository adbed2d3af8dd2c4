"""The identity of keys: defines when two keys are the same key. All operators, state backends, timers and sorts use it.

Two keys are the same key if they have the same type and the same value. Flink has the same rule: an Integer never
equals a Double, and a Boolean equals neither. Python's `==` differs: `4 == 4.0`, `1 == True == Decimal(1)`, and a NaN
equals nothing. A dict of such keys would merge keys that the key hash sends to different subtasks, or would never find
a NaN again.

`state_key` converts a user's key to the key of its state. It returns the key itself if Python's `==` agrees with the
definition (`int`, `str`, `bytes`, `None`, dates, ...), else a `TypedKey`. `user_key` converts it back, for everything
that a user's function sees. For a batch whose keys are all `int` or all `str`, only the types are checked.

| keys | same key? |
|---|---|
| `4` and `4.0`; `1`, `True` and `Decimal(1)`; `"a"` and `b"a"`; a date and a datetime | no: their types differ |
| an `IntEnum` or `StrEnum` member and its value; a NamedTuple or Row and a tuple | no: their types differ |
| `nan` and `nan`, whatever their bits | yes, as with `Double.equals` |
| `0.0` and `-0.0` | no, as with `Double.equals` |
| `Decimal("1.0")` and `Decimal("1.00")` | yes; `user_key` returns 1. Differs: `BigDecimal.equals` compares scales |
| `np.int64(4)` and `4`; `np.float64(4)` and `4.0` | yes: a NumPy scalar counts as the equal Python scalar |
| two datetimes with time zones at the same instant | yes; `user_key` returns it in UTC |
| a datetime with a time zone and one without | no |

The rules also apply inside tuples, NamedTuples and Rows. Mutable types (`list`, `dict`, `set`, `bytearray`) are
rejected.
"""

from __future__ import annotations

import datetime as _dt
import decimal
import enum
import math
import uuid
from collections.abc import Callable, Sequence
from itertools import repeat
from operator import itemgetter
from typing import Any

import numpy as np

from flinkpy.common.errors import TypeMismatchError
from flinkpy.common.time import Instant
from flinkpy.common.types import Row, RowKind, row_of
from flinkpy.records.namespaced_key import NamespacedKey

#: Larger powers of ten keep an exponent, because a key of a few bytes must not grow to gigabytes.
_MAX_ZEROS = 38
#: Types whose values are equal only to the same value of the same type. Such keys are their own state keys.
PLAIN_KEYS: frozenset[type] = frozenset(
    {int, str, bytes, type(None), _dt.date, _dt.timedelta, uuid.UUID, Instant},
)


class TypedKey(tuple):
    """A tuple `(type, identity)`, or `(type, identity, make)` where `make(type, identity)` returns the user's key.

    It is a tuple so that C code hashes and compares it. The type is first, so keys of different types are never equal.
    It is pickled as the user's key.
    """

    __slots__ = ()

    def __reduce__(self) -> Any:
        return state_key, (user_key(self),)

    def __repr__(self) -> str:
        return repr(user_key(self))


def state_key(key: Any) -> Any:
    """Returns the key under which state is kept. Idempotent.

    Raises:
        TypeMismatchError: if the key is mutable or has no hash that is the same in every process.
    """
    if type(key) in PLAIN_KEYS:
        return key
    identify = _IDENTITIES.get(type(key))
    return _other(key) if identify is None else identify(key)


def state_keys(keys: list[Any]) -> list[Any]:
    """Returns the `state_key` of each. Returns the same list if every key is its own state key."""
    kind = one_type(keys)
    if kind in PLAIN_KEYS or not keys:
        return keys
    if kind is tuple:
        # One pass per position costs a third of the time of a check per tuple.
        width = len(keys[0])
        if list(map(len, keys)).count(width) == len(keys):
            columns = (list(map(itemgetter(position), keys)) for position in range(width))
            if all(map(_are_plain, columns)):
                return keys
    elif kind is NamespacedKey:
        if _are_plain([key[0] for key in keys]):
            return keys
    elif kind is float:
        return _floats(keys)
    elif kind is None and set(map(type, keys)) <= PLAIN_KEYS:
        return keys
    return list(map(state_key, keys))


def _are_plain(keys: list[Any]) -> bool:
    return one_type(keys) in PLAIN_KEYS or set(map(type, keys)) <= PLAIN_KEYS


def one_type(values: Sequence[Any]) -> type | None:
    """Returns the type of all values; None if they have several types or there are none."""
    # Counting in a list of types takes half the time of creating a set of them.
    kinds = list(map(type, values))
    return kinds[0] if kinds and kinds.count(kinds[0]) == len(kinds) else None


def user_key(key: Any) -> Any:
    """Returns the key that the user's functions see."""
    if type(key) is TypedKey:
        return key[1] if len(key) == 2 else key[2](key[0], key[1])
    if type(key) is NamespacedKey:
        return NamespacedKey((user_key(key[0]), *key[1:]))
    return key


def user_keys(keys: Sequence[Any]) -> Sequence[Any]:
    """Returns the `user_key` of each. Returns the same sequence if no key differs."""
    if not any(type(key) is TypedKey or (type(key) is NamespacedKey and type(key[0]) is TypedKey) for key in keys):
        return keys
    return list(map(user_key, keys))


def entry_key(key: Any) -> Any:
    """Returns the key under which an entry of a map state is kept: `state_key`, for any hashable object."""
    if type(key) in PLAIN_KEYS:
        return key
    try:
        return state_key(key)
    except TypeMismatchError:
        return key


def python_scalar(key: np.generic) -> Any:
    """Returns the Python scalar that equals a NumPy scalar; None for NaT."""
    if isinstance(key, np.datetime64 | np.timedelta64):
        # `item` of a nanosecond value is an int. A Python datetime holds microseconds.
        kind = "datetime64[us]" if isinstance(key, np.datetime64) else "timedelta64[us]"
        return None if np.isnat(key) else key.astype(kind).item()
    return key.item()


def refusal(key: Any) -> TypeMismatchError:
    """Returns the error for a key of an unsupported type."""
    kind = type(key)
    advice = next((advice for mutable, advice in _MUTABLE.items() if isinstance(key, mutable)), None)
    if advice is not None:
        reason = f"cannot be a key, because it can change: use {advice}"
    else:
        reason = (
            "cannot be hashed the same way in every process: use int, float, bool, str, bytes, None, date, time, "
            "datetime, timedelta, Instant, Decimal, UUID, an Enum, or a tuple or Row of those"
        )
    name = f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")
    return TypeMismatchError(
        f"a key of type {name} {reason} (the key was {key!r:.200})",
        details={"type": kind.__qualname__, "key": f"{key!r:.200}"},
    )


_MUTABLE: dict[type, str] = {
    list: "a tuple",
    bytearray: "bytes",
    dict: "a tuple of its sorted items",
    set: "a tuple of its sorted elements",
    np.ndarray: "a tuple",
}


# ---------------------------------------------------------------- one type each


def _parsed(kind: Any, text: str) -> Any:
    return kind(text)


def _float(key: float) -> TypedKey:
    if key != key:
        return TypedKey((type(key), "nan", _parsed))
    if key == 0 and math.copysign(1.0, key) < 0:
        return TypedKey((type(key), "-0.0", _parsed))
    return TypedKey((type(key), key))


def _floats(keys: list[float]) -> list[TypedKey]:
    """Returns `_float` of each. Makes no Python calls if all are ordinary numbers."""
    numbers = np.array(keys)
    if np.isnan(numbers).any() or (np.signbit(numbers) & (numbers == 0)).any():
        return list(map(_float, keys))
    return list(map(TypedKey, zip(repeat(float), keys)))


_BOOLEANS = (TypedKey((bool, False)), TypedKey((bool, True)))


def _decimal(key: decimal.Decimal) -> TypedKey:
    """Returns one form for each number, so that all backends return the same one: 1.50 becomes 1.5, and 1E+2 100."""
    if key.is_nan():
        return TypedKey((decimal.Decimal, "NaN", _parsed))
    sign, digits, exponent = key.as_tuple()
    if not isinstance(exponent, int):  # an infinity
        return TypedKey((decimal.Decimal, key))
    if not key:
        return TypedKey((decimal.Decimal, decimal.Decimal(0)))
    kept = len(digits)
    while digits[kept - 1] == 0:
        kept -= 1
    digits, exponent = digits[:kept], exponent + len(digits) - kept
    if 0 < exponent <= _MAX_ZEROS:
        digits, exponent = digits + (0,) * exponent, 0
    return TypedKey((decimal.Decimal, decimal.Decimal((sign, digits, exponent))))


def _datetime(key: _dt.datetime) -> _dt.datetime:
    if key.tzinfo is not None:
        return key if key.tzinfo is _dt.UTC else key.astimezone(_dt.UTC)
    return key.replace(fold=0) if key.fold else key


def _zoned_time(kind: Any, identity: tuple[_dt.time, Any]) -> _dt.time:
    return identity[0].replace(tzinfo=identity[1])


def _time(key: _dt.time) -> Any:
    if key.fold:
        key = key.replace(fold=0)
    if key.tzinfo is None:
        return key
    return TypedKey((_dt.time, (key.replace(tzinfo=None), key.tzinfo), _zoned_time))


def _made_tuple(kind: Any, identities: tuple[Any, ...]) -> Any:
    return tuple.__new__(kind, map(user_key, identities))


def _tuple(key: tuple[Any, ...]) -> Any:
    if set(map(type, key)) <= PLAIN_KEYS:
        return key
    identities = tuple(map(state_key, key))
    if any(type(item) is TypedKey for item in identities):
        return TypedKey((tuple, identities, _made_tuple))
    return identities


def _made_row(kind: Any, identity: tuple[int, tuple[str, ...] | None, tuple[Any, ...]]) -> Row:
    row_kind, names, values = identity
    return row_of(list(map(user_key, values)), None if names is None else list(names), RowKind(row_kind))


def _row(key: Row) -> TypedKey:
    names = None if key._fields is None else tuple(key._fields)
    return TypedKey((Row, (key._row_kind.value, names, tuple(map(state_key, key._values))), _made_row))


def _namespaced(key: NamespacedKey) -> NamespacedKey:
    return NamespacedKey((state_key(key[0]), *key[1:]))


_IDENTITIES: dict[type, Callable[[Any], Any]] = {
    float: _float,
    bool: _BOOLEANS.__getitem__,
    decimal.Decimal: _decimal,
    _dt.datetime: _datetime,
    _dt.time: _time,
    tuple: _tuple,
    Row: _row,
    NamespacedKey: _namespaced,
    TypedKey: lambda key: key,
}
#: Equal values of one subclass of these are the same key.
_SCALARS = (int, str, bytes, _dt.date, _dt.time, _dt.timedelta, decimal.Decimal, uuid.UUID, enum.Enum)


def _other(key: Any) -> Any:
    """Returns the state key of a NumPy scalar, an Enum or an instance of a subclass."""
    if isinstance(key, np.generic):
        return state_key(python_scalar(key))
    if isinstance(key, float):
        return _float(key)
    if isinstance(key, _SCALARS):
        return TypedKey((type(key), key))
    if isinstance(key, Row):
        return _row(key)
    if isinstance(key, tuple):
        return TypedKey((type(key), tuple(map(state_key, key)), _made_tuple))
    raise refusal(key)
