"""The hash of a key: the same number in every lane, process, platform and Python version.

Python's own `hash` is salted, and Java's depends on Java classes. So each key has a canonical 64-bit word, mixed by the
finaliser of MurmurHash3, which is folded to 32 bits. All functions here compute the same number:

* `hash_key` hashes one key, in plain Python.
* `hash_keys` hashes a list of keys, vectorised if all are int, float, bool, str, bytes or tuples of those.
* `hash_columns` hashes Arrow columns without a Python object per row. One column hashes as the bare value, several
  columns as the tuple of their values, which is the key that a `FieldKeySelector` selects from rows.

Types have different hashes: `1`, `1.0` and `True` are three keys. A NumPy scalar hashes as the equal Python scalar,
`-0.0` as `0.0`, every NaN alike, a float32 column as the float64 of the same value, a Row as the tuple of its fields,
and a NamespacedKey as its key. Different keys may have the same hash; `key_identity` decides if keys are the same.

Differs: Flink mixes `key.hashCode()`. This hash is defined on values, so that a client in any language can compute it.
"""

from __future__ import annotations

import contextlib
import datetime as _dt
import decimal
import enum
import struct
import uuid
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import pyarrow as pa

from flinkpy.common.time import Instant
from flinkpy.records.key_identity import TypedKey, python_scalar, refusal, user_key
from flinkpy.records.namespaced_key import NamespacedKey
from flinkpy.records.nested_values import nested_values
from flinkpy.records.numpy_dtypes import numpy_dtype

_MASK = (1 << 64) - 1
# Multipliers of MurmurHash3's 64-bit finaliser and of its x64 body.
_FMIX_1 = 0xFF51AFD7ED558CCD
_FMIX_2 = 0xC4CEB9FE1A85EC53
_BODY_1 = 0x87C37B91114253D5
_BODY_2 = 0x4CF5AD432745937F
_ADD = 0x52DCE729

# One seed per type, so that equal words of different types have different hashes. They are part of
# the wire contract and of savepoints: never change one.
_SEED_NONE = 0x9E3779B97F4A7C15
_SEED_INT = 0x0
_SEED_FLOAT = 0xD6E8FEB86659FD93
_SEED_BOOL = 0xA5A3564E6C9B1D27
_SEED_STR = 0xC2B2AE3D27D4EB4F
_SEED_BYTES = 0x165667B19E3779F9
_SEED_TUPLE = 0x27D4EB2F165667C5
_SEED_DATE = 0x8EBC6AF09C88C6E3
_SEED_TIMESTAMP = 0x589965CC75374CC3
_SEED_TIME = 0x1D8E4E27C47D124F
_SEED_DURATION = 0xEB44ACCAB455D165
_SEED_DECIMAL = 0x2127599BF4325C37
_SEED_BIG_INT = 0x880355F21E6D1965
_SEED_ENUM = 0x4B33A62ED433D4A3
_SEED_UUID = 0x9FB21C651E98DF25

#: `_fold_long` hashes longer byte strings. For shorter ones the NumPy calls cost more than they save.
_LONG_BYTES = 256
#: How many bytes `_fold_long` processes at once: a multiple of 8, and small compared with a long key.
_CHUNK_BYTES = 64 * 1024
#: If fewer strings are left, a vector pass over their next words costs more than plain Python.
_MIN_VECTOR_ROWS = 64

_MAX_DECIMAL128_DIGITS = 38
_CANONICAL_NAN = 0x7FF8000000000000
_EPOCH_ORDINAL = _dt.date(1970, 1, 1).toordinal()
_EPOCH = _dt.datetime(1970, 1, 1)
_EPOCH_UTC = _dt.datetime(1970, 1, 1, tzinfo=_dt.UTC)
_MICROSECOND = _dt.timedelta(microseconds=1)
_U64 = np.uint64


def hash_key(key: Any) -> int:
    """Returns the hash of one key, in [0, 2**32).

    Raises:
        TypeMismatchError: if the type of the key has no canonical form.
    """
    word = _hash64(key)
    return (word ^ (word >> 32)) & 0xFFFFFFFF


def hash_keys(keys: Sequence[Any]) -> np.ndarray:
    """Returns uint32[n]: the `hash_key` of each, vectorised if all keys have the same plain type."""
    return _fold(_hash64_list(list(keys) if not isinstance(keys, list) else keys))


def hash_columns(columns: Sequence[pa.Array]) -> np.ndarray:
    """Returns uint32[n]: the hash of the bare value for one column, or of the tuple of values for several."""
    return _fold(hash_words(columns))


def hash_words(columns: Sequence[pa.Array]) -> np.ndarray:
    """Returns uint64[n]: the words that `hash_columns` folds to 32 bits."""
    if not columns:
        raise ValueError("a key needs at least one column")
    words = [_hash64_column(column) for column in columns]
    return words[0] if len(words) == 1 else _combine_vectors(words, len(columns[0]))


def key_words(keys: list[Any]) -> np.ndarray:
    """Returns uint64[n]: the words that `hash_keys` folds to 32 bits."""
    return _hash64_list(keys)


def key_groups(hashes: np.ndarray, max_parallelism: int) -> np.ndarray:
    """Returns int32[n]: the key group of each hash."""
    return (hashes % np.uint32(max_parallelism)).astype(np.int32)


# ---------------------------------------------------------------- one key


def _fmix(word: int) -> int:
    word ^= word >> 33
    word = (word * _FMIX_1) & _MASK
    word ^= word >> 33
    word = (word * _FMIX_2) & _MASK
    return word ^ (word >> 33)


def _hash_bytes(data: bytes, seed: int) -> int:
    """Hashes eight bytes at a time, little endian. Zeros pad the last word; the length distinguishes paddings."""
    state = seed ^ len(data)
    if len(data) > _LONG_BYTES:
        return _fmix(_fold_long(state, data))
    padded = data + b"\0" * (-len(data) % 8)
    for (word,) in struct.iter_unpack("<Q", padded):
        state ^= (((word * _BODY_1) & _MASK) ^ (((word * _BODY_1) & _MASK) >> 31)) * _BODY_2 & _MASK
        state = ((((state << 27) | (state >> 37)) & _MASK) * 5 + _ADD) & _MASK
    return _fmix(state)


def _fold_long(state: int, data: bytes) -> int:
    """Mixes the words of `data` into `state` as `_hash_bytes` does, at a third of its cost for long data.

    NumPy computes the part that does not depend on the state for a whole chunk at once.
    """
    for start in range(0, len(data), _CHUNK_BYTES):
        chunk = data[start : start + _CHUNK_BYTES]
        words = np.frombuffer(chunk + b"\0" * (-len(chunk) % 8), dtype="<u8") * _U64(_BODY_1)
        words ^= words >> _U64(31)
        words *= _U64(_BODY_2)
        for word in words.tolist():
            state ^= word
            state = ((((state << 27) | (state >> 37)) & _MASK) * 5 + _ADD) & _MASK
    return state


def _hash_int(key: int) -> int:
    if -(1 << 63) <= key < 1 << 63:
        return _fmix((key & _MASK) ^ _SEED_INT)
    return _hash_bytes(key.to_bytes(key.bit_length() // 8 + 1, "little", signed=True), _SEED_BIG_INT)


def _hash_float(key: float) -> int:
    if key != key:
        bits = _CANONICAL_NAN
    else:
        (bits,) = struct.unpack("<Q", struct.pack("<d", key + 0.0))
    return _fmix(bits ^ _SEED_FLOAT)


def _hash_tuple(key: Any) -> int:
    state = _SEED_TUPLE ^ len(key)
    for item in key:
        state = (_fmix(state ^ _hash64(item)) + _ADD) & _MASK
    return _fmix(state)


def _hash_datetime(key: _dt.datetime) -> int:
    micros = (key - (_EPOCH if key.tzinfo is None else _EPOCH_UTC)) // _MICROSECOND
    return _fmix((micros & _MASK) ^ _SEED_TIMESTAMP)


def _hash_time(key: _dt.time) -> int:
    micros = ((key.hour * 60 + key.minute) * 60 + key.second) * 1_000_000 + key.microsecond
    return _fmix(micros ^ _SEED_TIME)


def _hash_decimal(key: decimal.Decimal) -> int:
    sign, digits, exponent = key.as_tuple()
    if not isinstance(exponent, int):
        return _hash_bytes(b"NaN" if key.is_nan() else str(key).encode(), _SEED_DECIMAL)
    kept = len(digits)
    while kept > 1 and digits[kept - 1] == 0:  # 1.50 and 1.5 are equal, so they are one key
        kept -= 1
    exponent += len(digits) - kept
    text = "".join(map(str, digits[:kept])).lstrip("0")
    if not text:
        return _hash_bytes(b"0", _SEED_DECIMAL)
    return _hash_bytes(f"{'-' if sign else ''}{text}E{exponent}".encode(), _SEED_DECIMAL)


_SCALAR_HASHES: dict[type, Callable[[Any], int]] = {
    type(None): lambda key: _fmix(_SEED_NONE),
    int: _hash_int,
    float: _hash_float,
    bool: lambda key: _fmix(int(key) ^ _SEED_BOOL),
    str: lambda key: _hash_bytes(key.encode("utf-8", "surrogatepass"), _SEED_STR),
    bytes: lambda key: _hash_bytes(key, _SEED_BYTES),
    tuple: _hash_tuple,
    _dt.datetime: _hash_datetime,
    _dt.date: lambda key: _fmix(((key.toordinal() - _EPOCH_ORDINAL) & _MASK) ^ _SEED_DATE),
    _dt.time: _hash_time,
    _dt.timedelta: lambda key: _fmix((key // _MICROSECOND & _MASK) ^ _SEED_DURATION),
    decimal.Decimal: _hash_decimal,
    uuid.UUID: lambda key: _hash_bytes(key.bytes, _SEED_UUID),
    Instant: lambda key: _fmix(((key.seconds * 1_000_000 + key.nanos // 1000) & _MASK) ^ _SEED_TIMESTAMP),
    NamespacedKey: lambda key: _hash64(key[0]),
    TypedKey: lambda key: _hash64(user_key(key)),
}


def _hash64(key: Any) -> int:
    known = _SCALAR_HASHES.get(type(key))
    if known is not None:
        return known(key)
    if isinstance(key, np.generic):
        return _hash64(python_scalar(key))
    if isinstance(key, enum.Enum):
        return _hash_bytes(f"{type(key).__qualname__}.{key.name}".encode(), _SEED_ENUM)
    if type(key).__name__ == "Row" and hasattr(key, "__iter__"):
        return _hash_tuple(tuple(key))
    for base in type(key).__mro__[1:-1]:  # a NamedTuple is a tuple, a str subclass a str
        if base in _SCALAR_HASHES:
            return _SCALAR_HASHES[base](key)
    raise refusal(key)


# ---------------------------------------------------------------- vectors of words (uint64[n])


class _Kernels:
    """The compiled forms of two functions below. Both forms give the same results."""

    def __init__(self) -> None:
        #: The module `hash_kernels`; None until `compile_hashes` has been called, and without numba.
        self.module: Any = None


kernels = _Kernels()


def compile_hashes() -> None:
    """Loads or compiles the compiled forms if numba is installed. Operators call it before their first batch."""
    if kernels.module is None and find_spec("numba") is not None:
        module = import_module("flinkpy.records.hash_kernels")
        module.warm_up()
        kernels.module = module


def _fold(words: np.ndarray) -> np.ndarray:
    return (words ^ (words >> _U64(32))).astype(np.uint32)


def _fmix_vector(words: np.ndarray) -> np.ndarray:
    """Returns `_fmix` of each word. Changes `words` in place."""
    if kernels.module is not None and words.flags.c_contiguous:
        kernels.module.mix_words(words)
        return words
    words ^= words >> _U64(33)
    words *= _U64(_FMIX_1)
    words ^= words >> _U64(33)
    words *= _U64(_FMIX_2)
    words ^= words >> _U64(33)
    return words


def _hash_word_vector(values: np.ndarray, seed: int) -> np.ndarray:
    return _fmix_vector(values.astype(np.int64, copy=False).view(np.uint64) ^ _U64(seed))


def _hash_float_vector(values: np.ndarray) -> np.ndarray:
    doubles = values.astype(np.float64) + 0.0  # a copy; -0.0 becomes 0.0
    bits = doubles.view(np.uint64)
    bits[np.isnan(doubles)] = _CANONICAL_NAN
    return _fmix_vector(bits ^ _U64(_SEED_FLOAT))


def _combine_vectors(words: Sequence[np.ndarray], length: int) -> np.ndarray:
    state = np.full(length, _SEED_TUPLE ^ len(words), dtype=np.uint64)
    for word in words:
        state ^= word
        state = _fmix_vector(state)
        state += _U64(_ADD)
    return _fmix_vector(state)


def _hash_binary_vector(data: np.ndarray, starts: np.ndarray, lengths: np.ndarray, seed: int) -> np.ndarray:
    """Returns `_hash_bytes` of each `data[start:start + length]`, in one pass per eight bytes over all longer strings.

    A pass has a fixed cost, so a few long strings among many short ones are finished one by one. The total cost is
    linear in the number of bytes.

    Args:
        data: uint8[m]; starts, lengths: int64[n].
    """
    if kernels.module is not None:
        return kernels.module.hash_texts(data, starts, lengths, _U64(seed))  # type: ignore[no-any-return]
    n = len(starts)
    state = lengths.astype(np.uint64) ^ _U64(seed)
    longest = int(lengths.max()) if n else 0
    if longest:
        padded = np.concatenate([data, np.zeros(8, np.uint8)])
        words_at = np.ndarray(shape=(len(data) + 1,), dtype="<u8", buffer=padded.data, strides=(1,))
        rows: np.ndarray | slice = slice(None)
        for offset in range(0, longest, 8):
            if offset:
                rows = np.flatnonzero(lengths > offset) if isinstance(rows, slice) else rows[lengths[rows] > offset]
            elif int(lengths.min()) == 0:
                rows = np.flatnonzero(lengths)
            remaining = n if isinstance(rows, slice) else len(rows)
            if remaining < _MIN_VECTOR_ROWS and longest - offset > _LONG_BYTES:
                for row in np.arange(n)[rows].tolist():
                    start = int(starts[row])
                    rest = data[start + offset : start + int(lengths[row])].tobytes()
                    state[row] = _fold_long(int(state[row]), rest)
                break
            left = lengths[rows] - offset
            word = words_at[starts[rows] + offset].astype(np.uint64, copy=False)
            short = left < 8
            if short.any():
                keep_bits = (np.minimum(left, 8) * 8).astype(np.uint64)
                mask = np.where(short, (_U64(1) << (keep_bits & _U64(63))) - _U64(1), _U64(_MASK))
                word = word & mask
            word = word * _U64(_BODY_1)
            word ^= word >> _U64(31)
            word *= _U64(_BODY_2)
            word ^= state[rows]
            word = (word << _U64(27)) | (word >> _U64(37))
            word *= _U64(5)
            word += _U64(_ADD)
            state[rows] = word
    return _fmix_vector(state)


# ---------------------------------------------------------------- lists


def _hash64_list(keys: list[Any]) -> np.ndarray:
    types = set(map(type, keys))
    if len(types) == 1:
        # Integers beyond 64 bits and lone surrogates take the scalar path.
        with contextlib.suppress(OverflowError, UnicodeEncodeError, pa.ArrowException):
            words = _hash64_uniform(keys, types.pop())
            if words is not None:
                return words
    hash64 = _hash64
    return np.fromiter((hash64(key) for key in keys), dtype=np.uint64, count=len(keys))


def _hash64_uniform(keys: list[Any], kind: type) -> np.ndarray | None:
    """Returns the words of keys of exactly this type; None if the type has no vector form."""
    if kind is int:
        return _hash_word_vector(np.array(keys, dtype=np.int64), _SEED_INT)
    if kind is float:
        return _hash_float_vector(np.array(keys, dtype=np.float64))
    if kind is str:
        return _hash64_column(pa.array(keys, pa.large_string()))
    if kind is bytes:
        return _hash64_column(pa.array(keys, pa.large_binary()))
    if kind is bool:
        return _hash_word_vector(np.array(keys, dtype=np.int64), _SEED_BOOL)
    if kind is tuple:
        width = len(keys[0])
        if width and all(len(key) == width for key in keys):
            return _combine_vectors([_hash64_list(list(column)) for column in zip(*keys)], len(keys))
    if kind is NamespacedKey:
        return _hash64_list([key[0] for key in keys])
    if kind is TypedKey:
        return _hash64_list(list(map(user_key, keys)))
    return None


# ---------------------------------------------------------------- columns


def _hash64_column(column: Any) -> np.ndarray:
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _hash64_dictionary(column)
    if pa.types.is_null(kind):
        return np.full(len(column), _fmix(_SEED_NONE), dtype=np.uint64)
    words = _hash64_values(column, kind)
    if column.null_count:
        words[column.is_null().to_numpy(zero_copy_only=False)] = _U64(_fmix(_SEED_NONE))
    return words


def _hash64_dictionary(column: pa.DictionaryArray) -> np.ndarray:
    words = _hash64_column(column.dictionary)
    if not column.null_count:
        return words[column.indices.to_numpy(zero_copy_only=False)]
    indices = column.indices.fill_null(len(words)).to_numpy(zero_copy_only=False)
    return np.append(words, _U64(_fmix(_SEED_NONE)))[indices]


def _hash64_values(column: pa.Array, kind: pa.DataType) -> np.ndarray:
    """Returns the words of a column. The caller overwrites those at nulls."""
    types = pa.types
    if types.is_decimal(kind) and kind.scale == 0 and kind.precision > _MAX_DECIMAL128_DIGITS:
        # A column of BIG_INT. Its keys are Python ints in the row lane.
        return _hash64_list([None if value is None else int(value) for value in column.to_pylist()])
    if types.is_boolean(kind):
        return _hash_word_vector(_numbers(column.cast(pa.uint8()), np.uint8), _SEED_BOOL)
    if types.is_uint64(kind):
        values = _numbers(column, np.uint64)
        if len(values) and int(values.max()) >= 1 << 63:
            return _hash64_list(column.to_pylist())
        return _hash_word_vector(values, _SEED_INT)
    if types.is_integer(kind):
        return _hash_word_vector(_numbers(column, numpy_dtype(kind)), _SEED_INT)
    if types.is_floating(kind):
        return _hash_float_vector(_numbers(column, numpy_dtype(kind)))
    if types.is_string(kind) or types.is_large_string(kind):
        return _hash_binary_column(column, types.is_large_string(kind), _SEED_STR)
    if types.is_binary(kind) or types.is_large_binary(kind):
        return _hash_binary_column(column, types.is_large_binary(kind), _SEED_BYTES)
    if types.is_date32(kind):
        return _hash_word_vector(_numbers(column.view(pa.int32()), np.int32), _SEED_DATE)
    if types.is_timestamp(kind):
        return _hash_word_vector(_micros(column.view(pa.int64()), kind.unit), _SEED_TIMESTAMP)
    if types.is_time(kind):
        raw = column.view(pa.int64() if types.is_time64(kind) else pa.int32())
        return _hash_word_vector(_micros(raw, kind.unit), _SEED_TIME)
    if types.is_duration(kind):
        return _hash_word_vector(_micros(column.view(pa.int64()), kind.unit), _SEED_DURATION)
    if types.is_struct(kind) and kind.num_fields:
        fields = [_hash64_column(field) for field in column.flatten()]
        return _combine_vectors(fields, len(column))
    return _hash64_list(nested_values(column) if types.is_nested(kind) else column.to_pylist())


def _numbers(column: pa.Array, dtype: Any) -> np.ndarray:
    """Returns the buffer of values as a NumPy array, without a copy. The values at nulls are arbitrary."""
    buffer = column.buffers()[1]
    if buffer is None:
        return np.zeros(len(column), dtype)
    return np.frombuffer(buffer, dtype=dtype, count=column.offset + len(column))[column.offset :]


def _micros(column: pa.Array, unit: str) -> np.ndarray:
    values = _numbers(column, np.int32 if pa.types.is_int32(column.type) else np.int64).astype(np.int64)
    if unit == "ns":
        return values // 1000
    return values * {"s": 1_000_000, "ms": 1000, "us": 1}[unit]


def mix_words(words: np.ndarray) -> np.ndarray:
    """Mixes the bits of each word (uint64[n]) by MurmurHash3's finaliser, in place. Returns `words`."""
    return _fmix_vector(words)


def hash_binary_column(column: pa.Array, seed: int) -> np.ndarray:
    """Returns uint64[n]: a hash of the bytes of each string or binary value, with a seed. NULL counts as empty."""
    is_large = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
    return _hash_binary_column(column, is_large, seed)


def _hash_binary_column(column: pa.Array, large: bool, seed: int) -> np.ndarray:
    if not len(column):
        return np.zeros(0, np.uint64)
    if column.null_count:
        is_text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
        column = column.fill_null("" if is_text else b"")
    _, offsets_buffer, data_buffer = column.buffers()
    dtype = np.int64 if large else np.int32
    raw_offsets = np.frombuffer(offsets_buffer, dtype=dtype, count=column.offset + len(column) + 1)
    offsets: np.ndarray = raw_offsets[column.offset :].astype(np.int64)
    first, last = int(offsets[0]), int(offsets[-1])
    data = np.frombuffer(data_buffer, dtype=np.uint8)[first:last] if last > first else np.zeros(0, np.uint8)
    starts = offsets[:-1] - first
    return _hash_binary_vector(data, starts, np.diff(offsets), seed)
