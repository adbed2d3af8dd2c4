"""Converts values between objects, their form in the cache, and their bytes in the database.

The cache holds mutable values as pickles (`Frozen`). So a function that changes a value that it has stored or read does
not change the state, whether the value is in memory or on disk. Immutable values are held as objects and encoded when
they are written, a batch at a time.

| first byte | then |
|---|---|
| 1 int of 64 bits, 2 float | 8 bytes |
| 3 str, 4 bytes | the bytes |
| 0x80 | pickle |
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from flinkpy.common.errors import CorruptStateError
from flinkpy.state.pickling import dumps, loads, unpicklable
from flinkpy.state.private_copy import ATOMIC, is_immutable

#: The types of small, immutable objects, which are always held as objects.
PLAIN = ATOMIC - {str, bytes, range}
#: Longer strings are held as bytes, because the size of the cache only counts values held as bytes.
MAX_PLAIN_LENGTH = 256
_INT, _FLOAT, _STR, _BYTES = b"\1", b"\2", b"\3", b"\4"
_TAGGED_INT = struct.Struct("<cq")
_TAGGED_FLOAT = struct.Struct("<cd")
_INTS = np.dtype([("tag", "u1"), ("value", "<i8")])
_FLOATS = np.dtype([("tag", "u1"), ("value", "<f8")])
_NINE_BYTES = np.dtype("V9")


class Frozen:
    """A value in the form of its bytes in the database."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data

    def __reduce__(self) -> Any:
        return Frozen, (self.data,)


def freeze(value: Any) -> Any:
    """Returns the form in which a value is held: the value itself if it is immutable, else a Frozen.

    Raises: StateSerializationError.
    """
    kind = type(value)
    if kind in PLAIN:
        return value
    if kind is str or kind is bytes:
        return value if len(value) <= MAX_PLAIN_LENGTH else Frozen(encode(value))
    if kind is tuple and len(value) <= MAX_PLAIN_LENGTH and all(map(_is_small, value)):
        return value
    try:
        return Frozen(dumps(value))
    except Exception as error:  # noqa: BLE001 - whatever the object's own pickling raises
        raise unpicklable(value, error) from None


def _is_small(item: Any) -> bool:
    kind = type(item)
    return kind in PLAIN or ((kind is str or kind is bytes) and len(item) <= MAX_PLAIN_LENGTH)


def thaw(held: Any) -> Any:
    """Returns the value of an object that `freeze` returned."""
    return decode(held.data) if type(held) is Frozen else held


def hold(data: bytes) -> Any:
    """Returns the form in which a value from the database is held; see `freeze`."""
    first = data[0]
    if first in (1, 2) or (first in (3, 4) and len(data) <= MAX_PLAIN_LENGTH):
        return decode(data)
    value = loads(data) if first == 0x80 and len(data) <= MAX_PLAIN_LENGTH else None
    return value if value is not None and is_immutable(value) else Frozen(data)


def _encode_int(value: int) -> bytes:
    try:
        return _TAGGED_INT.pack(_INT, value)
    except struct.error:  # beyond 64 bits
        return dumps(value)


def _encode_str(value: str) -> bytes:
    return _STR + value.encode("utf-8", "surrogatepass")


_ENCODERS: dict[type, Callable[[Any], bytes]] = {
    int: _encode_int,
    float: lambda value: _TAGGED_FLOAT.pack(_FLOAT, value),
    str: _encode_str,
    bytes: lambda value: _BYTES + value,
    Frozen: lambda value: value.data,
}


def encode(held: Any) -> bytes:
    """Returns the bytes of a value, or of a held value."""
    return _ENCODERS.get(type(held), dumps)(held)


def encode_many(held: Sequence[Any]) -> list[bytes]:
    kinds = set(map(type, held))
    if len(kinds) == 1:
        kind = kinds.pop()
        if kind is int or kind is float:
            # If a number does not fit into 64 bits, the values are encoded one by one below.
            with contextlib.suppress(OverflowError):
                return _encode_numbers(held, kind)
    encoders = _ENCODERS
    return [encoders.get(type(value), dumps)(value) for value in held]


def _encode_numbers(held: Sequence[Any], kind: type) -> list[bytes]:
    encoded = np.empty(len(held), dtype=_INTS if kind is int else _FLOATS)
    encoded["value"] = np.array(held, dtype=np.int64 if kind is int else np.float64)
    encoded["tag"] = 1 if kind is int else 2
    return encoded.view(_NINE_BYTES).tolist()


def decode(data: bytes) -> Any:
    """Returns the value of bytes from the database. Raises: CorruptStateError."""
    first = data[:1]
    try:
        if first == _INT:
            return _TAGGED_INT.unpack(data)[1]
        if first == b"\x80":
            return loads(data)
        if first == _STR:
            return data[1:].decode("utf-8", "surrogatepass")
        if first == _FLOAT:
            return _TAGGED_FLOAT.unpack(data)[1]
        if first == _BYTES:
            return data[1:]
    except (struct.error, UnicodeDecodeError) as error:
        raise CorruptStateError(f"a value in the database cannot be read: {data!r:.200}") from error
    raise CorruptStateError(f"a value in the database cannot be read: {data!r:.200}")


def hold_many(found: Sequence[bytes | None]) -> list[Any]:
    """Applies `hold` to each value. None stays None."""
    if found and None not in found:
        joined = b"".join(found)  # type: ignore[arg-type]
        tag = joined[:1]
        if len(joined) == 9 * len(found) and tag in (_INT, _FLOAT) and set(map(len, found)) == {9}:  # type: ignore[arg-type]
            numbers = np.frombuffer(joined, dtype=_INTS if tag == _INT else _FLOATS)
            if (numbers["tag"] == tag[0]).all():
                return numbers["value"].tolist()
    return [None if data is None else hold(data) for data in found]
