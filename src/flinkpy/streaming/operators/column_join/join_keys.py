"""JoinKeys: the key columns of one side, in a form in which equal keys are found fast.

Numbers, times, booleans and decimals become int64 codes. Strings and bytes stay as they are. Each key has an int64
word. The word of a key with one code is this code. The word of any other key is a hash, so keys with equal words must
be compared.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flinkpy.common.errors import TypeMismatchError
from flinkpy.records.key_hash import hash_words
from flinkpy.streaming.operators.column_aggregation.partials import canonical_key


class JoinKeys:
    """The keys of one side.

    Args:
        types: the common types of both sides' key columns, see `common_types`.

    Attributes:
        words: int64[n]. Equal keys have equal words.
        is_exact: True if keys with equal words are equal.
        is_null: bool[n]: True for keys with a null, which equal no other key; None if there are none.
    """

    def __init__(self, columns: Sequence[pa.Array], types: Sequence[pa.DataType]) -> None:
        cast = [
            canonical_key(column if column.type == kind else column.cast(kind)) for column, kind in zip(columns, types)
        ]
        self.is_null = _nulls_of(cast)
        self._codes: list[np.ndarray] = []
        self._texts: list[pa.Array] = []
        for column in cast:
            if _is_text(column.type):
                self._texts.append(column)
            else:
                self._codes += _codes_of(column)
        self.is_exact = len(self._codes) == 1 and not self._texts
        self.words = self._codes[0] if self.is_exact else hash_words([*map(pa.array, self._codes), *self._texts])

    def equal(self, rows: np.ndarray, other: JoinKeys, other_rows: np.ndarray) -> np.ndarray:
        """Returns bool[n]: True if the key of `rows[i]` equals the key of the other side's `other_rows[i]`."""
        is_equal = np.ones(len(rows), dtype=bool)
        for codes, other_codes in zip(self._codes, other._codes):
            is_equal &= codes.take(rows) == other_codes.take(other_rows)
        for text, other_text in zip(self._texts, other._texts):
            same = pc.equal(text.take(pa.array(rows)), other_text.take(pa.array(other_rows)))
            is_equal &= same.fill_null(False).to_numpy(zero_copy_only=False)
        return is_equal


def common_types(
    left: Sequence[pa.DataType], right: Sequence[pa.DataType], names: Sequence[str], operator_name: str
) -> list[pa.DataType]:
    """Returns the types that the key columns of both sides are cast to.

    Raises: TypeMismatchError if the values of two columns can never be equal, such as numbers and strings.
    """
    common = []
    for one, other, name in zip(left, right, names):
        kind = _common(one, other)
        if kind is None:
            raise TypeMismatchError(
                f"operator {operator_name}: the key column {name!r} is {one} on the left and {other} on the right, "
                "which cannot be joined"
            )
        common.append(kind)
    return common


def _common(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    types = pa.types
    one, other = _plain(one), _plain(other)
    if types.is_nested(one) or types.is_nested(other):
        return None
    if one == other:
        return one
    pair = (one, other)
    if all(map(types.is_integer, pair)):
        return pa.uint64() if all(map(types.is_unsigned_integer, pair)) else pa.int64()
    if all(types.is_integer(kind) or types.is_floating(kind) for kind in pair):
        return pa.float64()
    if all(types.is_decimal(kind) for kind in pair):
        return pa.decimal128(38, max(one.scale, other.scale))
    if all(types.is_timestamp(kind) for kind in pair) and one.tz == other.tz:
        return pa.timestamp(max(one.unit, other.unit, key=("s", "ms", "us", "ns").index), one.tz)
    if all(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind) for kind in pair):
        return pa.large_string()
    if all(types.is_binary(kind) or types.is_large_binary(kind) for kind in pair):
        return pa.large_binary()
    return None


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return kind.value_type
    return pa.large_string() if pa.types.is_string_view(kind) else kind


def _is_text(kind: pa.DataType) -> bool:
    types = pa.types
    return types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind) or types.is_large_binary(kind)


def _nulls_of(columns: list[pa.Array]) -> np.ndarray | None:
    is_null = None
    for column in columns:
        if column.null_count:
            nulls = column.is_null().to_numpy(zero_copy_only=False)
            is_null = nulls if is_null is None else is_null | nulls
    return is_null


def _codes_of(column: pa.Array) -> list[np.ndarray]:
    """Returns the int64 codes of a column: two arrays for decimals, else one. The codes of nulls are arbitrary."""
    types, kind = pa.types, column.type
    if types.is_decimal(kind):
        wide = column if types.is_decimal128(kind) else column.cast(pa.decimal128(38, kind.scale))
        buffer = wide.buffers()[1]
        words = np.frombuffer(buffer, dtype=np.int64, count=2 * (wide.offset + len(wide)))[2 * wide.offset :]
        return [words[::2].copy(), words[1::2].copy()]
    if column.null_count:
        column = column.fill_null(
            False if types.is_boolean(kind) else pa.scalar(0, pa.int64()).cast(_number(kind)).cast(kind)
        )
    if types.is_boolean(kind):
        return [column.to_numpy(zero_copy_only=False).astype(np.int64)]
    if types.is_floating(kind):
        return [column.cast(pa.float64()).to_numpy().view(np.int64)]
    if types.is_integer(kind):
        return [column.to_numpy().astype(np.int64, copy=False)]
    return [column.view(_number(kind)).to_numpy().astype(np.int64, copy=False)]


def _number(kind: pa.DataType) -> pa.DataType:
    """Returns the number type that stores a type of times. Returns number types as they are."""
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return kind
    return pa.int32() if kind.bit_width == 32 else pa.int64()
