"""Encodes keys as bytes. Equal keys have equal bytes, and no key's bytes are a prefix of another key's bytes.

The first property lets the bytes identify the key in the database. The second one makes all entries under a key one
range. Pickle has neither property: it refers back to previous objects, so pickles of equal tuples may differ.

| first byte | then |
|---|---|
| 1 int of 64 bits, 3 float | 8 bytes |
| 2 larger int, 7 str, 8 bytes, 10 pickle, 11 Decimal | length (u32), the bytes |
| 4 False, 5 True, 6 None | - |
| 9 tuple, 12 NamespacedKey | number of items (u32), the items |

A class that came with the job by value is written as its name, because its pickle differs from process to process.
`classes_by_value` maps the names to the classes.

The database treats keys as equal if `records.key_identity` does. The bytes encode the key that the user knows;
`decode_state_key` returns the key under which state is kept.
"""

from __future__ import annotations

import contextlib
import decimal
import io
import math
import pickle
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from flinkpy.common.errors import CorruptStateError
from flinkpy.records.key_hash import hash_key, hash_keys, key_groups
from flinkpy.records.key_identity import TypedKey, python_scalar, state_key, user_key
from flinkpy.records.namespaced_key import NamespacedKey
from flinkpy.state import pickling

_INT, _BIG_INT, _FLOAT, _FALSE, _TRUE, _NONE, _STR, _BYTES, _TUPLE, _PICKLE, _DECIMAL, _NAMESPACED = range(1, 13)
_TAGGED_INT = struct.Struct(">Bq")
_TAGGED_FLOAT = struct.Struct(">Bd")
_TAGGED_LENGTH = struct.Struct(">BI")
_INT_AT = struct.Struct(">q")
_FLOAT_AT = struct.Struct(">d")
_LENGTH_AT = struct.Struct(">I")
#: The key group and the number of the state.
PREFIX = struct.Struct(">HH")
_INT_KEYS = np.dtype([("group", ">u2"), ("state", ">u2"), ("tag", "u1"), ("value", ">i8")])
_INT_KEYS_AS_BYTES = np.dtype(f"V{_INT_KEYS.itemsize}")
_INT64_MIN, _INT64_MAX = -(1 << 63), (1 << 63) - 1


def _encode_int(value: int) -> bytes:
    if _INT64_MIN <= value <= _INT64_MAX:
        return _TAGGED_INT.pack(_INT, value)
    return _sized(_BIG_INT, value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True))


def _encode_float(value: float) -> bytes:
    return _TAGGED_FLOAT.pack(_FLOAT, value if value == value else math.nan)


def _sized(tag: int, data: bytes) -> bytes:
    return _TAGGED_LENGTH.pack(tag, len(data)) + data


def tuple_start(length: int) -> bytes:
    """Returns the bytes with which a tuple begins. The bytes of its items follow."""
    return _TAGGED_LENGTH.pack(_TUPLE, length)


def _encode_tuple(value: Any) -> bytes:
    return tuple_start(len(value)) + b"".join(map(encode, value))


def _encode_namespaced(value: NamespacedKey) -> bytes:
    return _TAGGED_LENGTH.pack(_NAMESPACED, len(value)) + b"".join(map(encode, value))


def _encode_decimal(value: decimal.Decimal) -> bytes:
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        return _sized(_DECIMAL, str(value).encode())
    text = "".join(map(str, digits)).lstrip("0")
    kept = text.rstrip("0")
    if not kept:
        return _sized(_DECIMAL, b"0")
    return _sized(_DECIMAL, f"{'-' if sign else ''}{kept}E{exponent + len(text) - len(kept)}".encode())


def _encode_other(value: Any) -> bytes:
    if isinstance(value, np.generic):
        return encode(python_scalar(value))
    buffer = io.BytesIO()
    pickler = _KeyPickler(buffer, 5)
    pickler.fast = True  # without back references equal values have equal bytes
    pickler.dump(value)
    return _sized(_PICKLE, buffer.getvalue())


#: The pickles of the classes by value that occur in keys of this process, by (module, qualified name).
classes_by_value: dict[tuple[str, str], bytes] = {}


class _KeyPickler(pickle.Pickler):
    def persistent_id(self, obj: Any) -> Any:
        if isinstance(obj, type) and obj in pickling._CLASSES_BY_VALUE:
            name = (obj.__module__, obj.__qualname__)
            classes_by_value.setdefault(name, pickling._written(obj))
            return name
        return None


class _KeyUnpickler(pickle.Unpickler):
    def persistent_load(self, pid: Any) -> Any:
        module, qualname = pid
        data = classes_by_value.get((module, qualname))
        if data is None:
            raise pickle.UnpicklingError(f"unknown class {module}.{qualname}")
        return pickling._class_of(module, qualname, "", data)


_ENCODERS: dict[type, Callable[[Any], bytes]] = {
    int: _encode_int,
    float: _encode_float,
    bool: lambda value: b"\5" if value else b"\4",
    type(None): lambda value: b"\6",
    str: lambda value: _sized(_STR, value.encode("utf-8", "surrogatepass")),
    bytes: lambda value: _sized(_BYTES, value),
    tuple: _encode_tuple,
    decimal.Decimal: _encode_decimal,
    NamespacedKey: _encode_namespaced,
    TypedKey: lambda value: encode(user_key(value)),
}


def encode(key: Any) -> bytes:
    """Returns the bytes of a key, or of a map key."""
    return _ENCODERS.get(type(key), _encode_other)(key)


def decode(data: bytes, offset: int = 0) -> tuple[Any, int]:
    """Returns the key that begins at `offset`, and its end. Raises: CorruptStateError."""
    try:
        return _decode(data, offset)
    except (struct.error, IndexError, ValueError, pickle.UnpicklingError, EOFError) as error:
        raise CorruptStateError(f"a key in the database cannot be read: {data!r:.200}") from error


def decode_state_key(data: bytes, offset: int = 0) -> tuple[Any, int]:
    """Works like `decode`, but returns the key under which state is kept."""
    key, end = decode(data, offset)
    return state_key(key), end


def _decode(data: bytes, offset: int) -> tuple[Any, int]:
    tag = data[offset]
    offset += 1
    if tag == _INT:
        return _INT_AT.unpack_from(data, offset)[0], offset + 8
    if tag == _FLOAT:
        return _FLOAT_AT.unpack_from(data, offset)[0], offset + 8
    if tag in (_FALSE, _TRUE):
        return tag == _TRUE, offset
    if tag == _NONE:
        return None, offset
    (length,) = _LENGTH_AT.unpack_from(data, offset)
    offset += 4
    if tag in (_TUPLE, _NAMESPACED):
        items = []
        for _ in range(length):
            item, offset = _decode(data, offset)
            items.append(item)
        return (tuple if tag == _TUPLE else NamespacedKey)(items), offset
    end = offset + length
    raw = data[offset:end]
    if len(raw) < length:
        raise ValueError("too short")
    if tag == _STR:
        return raw.decode("utf-8", "surrogatepass"), end
    if tag == _BYTES:
        return raw, end
    if tag == _BIG_INT:
        return int.from_bytes(raw, "little", signed=True), end
    if tag == _DECIMAL:
        return decimal.Decimal(raw.decode()), end
    if tag == _PICKLE:
        return _KeyUnpickler(io.BytesIO(raw)).load(), end
    raise ValueError(f"tag {tag}")


class StateKeyCodec:
    """Encodes the database keys of one state: key group (u16), number of the state (u16), key.

    So each key group is one range of the database, and each state is one range of the key group.
    """

    __slots__ = ("_max_parallelism", "state_id")

    def __init__(self, state_id: int, max_parallelism: int) -> None:
        self.state_id = state_id
        self._max_parallelism = max_parallelism

    def encode(self, key: Any) -> bytes:
        return PREFIX.pack(hash_key(key) % self._max_parallelism, self.state_id) + encode(key)

    def encode_many(self, keys: Sequence[Any]) -> list[bytes]:
        """Returns the database keys of a batch. Vectorised if the keys are plain ints."""
        groups = key_groups(hash_keys(keys), self._max_parallelism)
        numbers = _int64s(keys)
        if numbers is not None:
            return self.encode_ints(groups, numbers)
        encoders = _ENCODERS
        prefix = PREFIX.pack
        state_id = self.state_id
        return [
            prefix(group, state_id) + encoders.get(type(key), _encode_other)(key)
            for group, key in zip(groups.tolist(), keys)
        ]

    def encode_sorted(self, keys: Sequence[Any]) -> tuple[list[bytes], np.ndarray]:
        """Returns the database keys in order, and int64[n]: the position in `keys` of each of them."""
        numbers = _int64s(keys)
        if numbers is None:
            encoded = self.encode_many(keys)
            rows = sorted(range(len(encoded)), key=encoded.__getitem__)
            return [encoded[row] for row in rows], np.array(rows, dtype=np.int64)
        groups = key_groups(hash_keys(keys), self._max_parallelism)
        order = np.lexsort((numbers.view(np.uint64), groups))
        return self.encode_ints(groups[order], numbers[order]), order

    def encode_ints(self, groups: np.ndarray, keys: np.ndarray) -> list[bytes]:
        """Returns the database keys of int keys.

        Args:
            groups: int32[n]: the key groups.
            keys: int64[n].
        """
        encoded = np.empty(len(keys), dtype=_INT_KEYS)
        encoded["group"], encoded["state"], encoded["tag"], encoded["value"] = groups, self.state_id, _INT, keys
        return encoded.view(_INT_KEYS_AS_BYTES).tolist()

    def prefix(self, key_group: int) -> bytes:
        """Returns the prefix of all database keys of this state in that key group."""
        return PREFIX.pack(key_group, self.state_id)


def _int64s(keys: Sequence[Any]) -> np.ndarray | None:
    """Returns the keys as int64[n], or None unless all of them are ints of 64 bits."""
    if set(map(type, keys)) == {int}:
        with contextlib.suppress(OverflowError):
            return np.array(keys, dtype=np.int64)
    return None


def after_prefix(prefix: bytes) -> bytes | None:
    """Returns the smallest bytes greater than all bytes with this prefix; None if there are none."""
    stripped = prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes([stripped[-1] + 1]) if stripped else None
