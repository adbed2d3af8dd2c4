"""Column codecs: convert lists of Python values of one type to Arrow arrays and back."""

from __future__ import annotations

import itertools
import pickle
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any, Protocol, runtime_checkable

import cloudpickle
import numpy as np
import pyarrow as pa

from flinkpy.common import typeinfo as ti
from flinkpy.common.either import Either
from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.common.typeinfo import BasicType, EitherTypeInfo, EnumTypeInfo, SetTypeInfo, TypeInformation
from flinkpy.common.types import Row, row_of, rows_of_values
from flinkpy.records.scalar_codecs import (
    BASIC_CODECS,
    TEMPORAL_CODECS,
    CheckedCodec,
    ColumnCodec,
    ValueMismatch,
    big_decimal_codec,
    check_bytes,
    decimal_codec,
    enum_codec,
)


class ListCodec(ColumnCodec):
    """Encodes lists, tuples and NumPy arrays."""

    def __init__(self, type_info: TypeInformation, element: ColumnCodec) -> None:
        super().__init__(type_info, pa.list_(element.arrow_type))
        self._element = element

    def encode(self, values: Sequence[Any]) -> pa.Array:
        offsets = _offsets(values, (list, tuple, np.ndarray), self.type_info)
        flat = list(itertools.chain.from_iterable(value for value in values if value is not None))
        try:
            elements = self._element.encode(flat)
        except ValueMismatch as mismatch:
            raise _within(mismatch, offsets) from mismatch
        return pa.ListArray.from_arrays(_nullable_offsets(offsets, values), elements, type=self.arrow_type)

    def decode(self, array: pa.Array) -> list[Any]:
        elements = self._element.decode(array.flatten())
        return _split(elements, array, lambda part: part)


class SetCodec(ListCodec):
    """Encodes sets as lists, in an order that is the same in every process."""

    def encode(self, values: Sequence[Any]) -> pa.Array:
        for index, value in enumerate(values):
            if value is not None and not isinstance(value, (set, frozenset)):
                raise ValueMismatch(index, "", value, self.type_info)
        return super().encode([None if value is None else _in_order(value) for value in values])

    def decode(self, array: pa.Array) -> list[Any]:
        return [None if part is None else set(part) for part in super().decode(array)]


class MapCodec(ColumnCodec):
    """Encodes dicts. A key must not be None. Lists and dicts that are keys are decoded as tuples."""

    def __init__(self, type_info: TypeInformation, key: ColumnCodec, value: ColumnCodec) -> None:
        super().__init__(type_info, pa.map_(key.arrow_type, value.arrow_type))
        self._key = key
        self._value = value

    def encode(self, values: Sequence[Any]) -> pa.Array:
        offsets = _offsets(values, (dict,), self.type_info)
        present = [value for value in values if value is not None]
        keys = list(itertools.chain.from_iterable(present))
        items = list(itertools.chain.from_iterable(value.values() for value in present))
        try:
            if None in keys:
                raise ValueMismatch(keys.index(None), "", None, self._key.type_info, "a map key cannot be None")
            key_array, item_array = self._key.encode(keys), self._value.encode(items)
        except ValueMismatch as mismatch:
            raise _within(mismatch, offsets) from mismatch
        return pa.MapArray.from_arrays(_nullable_offsets(offsets, values), key_array, item_array, type=self.arrow_type)

    def decode(self, array: pa.Array) -> list[Any]:
        lengths = _lengths(array)
        start = array.offsets[0].as_py() if len(array) else 0
        total = sum(lengths)
        keys = self._key.decode(array.keys.slice(start, total))
        if pa.types.is_nested(array.type.key_type):
            keys = [_frozen(key) for key in keys]
        items = self._value.decode(array.items.slice(start, total))
        return _split(list(zip(keys, items)), array, dict)


class EitherCodec(ColumnCodec):
    """Encodes Either as a struct: the side, and one column for the values of each side."""

    def __init__(self, type_info: TypeInformation, left: ColumnCodec, right: ColumnCodec) -> None:
        self._sides = (left, right)
        self._fields = [
            pa.field("is_left", pa.bool_()),
            pa.field("left", left.arrow_type),
            pa.field("right", right.arrow_type),
        ]
        super().__init__(type_info, pa.struct(self._fields))

    def encode(self, values: Sequence[Any]) -> pa.Array:
        for index, value in enumerate(values):
            if value is not None and not isinstance(value, Either):
                raise ValueMismatch(index, "", value, self.type_info)
        arrays = [pa.array([None if value is None else value.is_left() for value in values], pa.bool_())]
        for is_left, codec in zip((True, False), self._sides):
            try:
                side = [value._value if value is not None and value.is_left() == is_left else None for value in values]
                arrays.append(codec.encode(side))
            except ValueMismatch as mismatch:
                name = "left" if is_left else "right"
                mismatch.path = f"{name}.{mismatch.path}" if mismatch.path else name
                raise
        mask = pa.array([value is None for value in values], pa.bool_())
        return pa.StructArray.from_arrays(arrays, fields=self._fields, mask=mask)

    def decode(self, array: pa.Array) -> list[Any]:
        sides, left, right = array.flatten()
        values = zip(sides.to_pylist(), self._sides[0].decode(left), self._sides[1].decode(right))
        return [
            None if is_left is None else Either(is_left, one if is_left else other) for is_left, one, other in values
        ]


class PickledCodec(ColumnCodec):
    """Pickles each object. Used only for fields inside a typed record."""

    def __init__(self, type_info: TypeInformation) -> None:
        super().__init__(type_info, pa.binary())

    def encode(self, values: Sequence[Any]) -> pa.Array:
        pickled = []
        for index, value in enumerate(values):
            try:
                pickled.append(None if value is None else _dumps(value))
            except Exception as error:
                raise ValueMismatch(index, "", value, self.type_info, f"cannot be pickled: {error}") from error
        return pa.array(pickled, pa.binary())

    def decode(self, array: pa.Array) -> list[Any]:
        return [None if value is None else pickle.loads(value) for value in array.to_pylist()]


class StructCodec(ColumnCodec):
    """Encodes ROW and TUPLE, as columns of a batch (`encode_columns`) or nested in another record (`encode`)."""

    def __init__(self, type_info: TypeInformation, names: list[str], fields: list[ColumnCodec], is_row: bool) -> None:
        self.schema = pa.schema([pa.field(name, field.arrow_type) for name, field in zip(names, fields)])
        super().__init__(type_info, pa.struct(list(self.schema)))
        self._names = names
        self._fields = fields
        self._is_row = is_row

    def encode_columns(self, values: Sequence[Any]) -> list[pa.Array]:
        """Returns one array per field. No value may be None."""
        arrays = []
        for name, field, column in zip(self._names, self._fields, self._transpose(values)):
            try:
                arrays.append(field.encode(column))
            except ValueMismatch as mismatch:
                mismatch.path = f"{name}.{mismatch.path}" if mismatch.path else name
                raise
        return arrays

    def decode_columns(self, arrays: Sequence[pa.Array], num_rows: int) -> list[Any]:
        if not arrays:
            return [row_of([], self._names) if self._is_row else () for _ in range(num_rows)]
        return self._records([field.decode(array) for field, array in zip(self._fields, arrays)], num_rows)

    def decode_with_field(
        self, arrays: Sequence[pa.Array], num_rows: int, position: int
    ) -> tuple[list[Any], list[Any]]:
        """Returns the records, and the values of one of their fields. The type has fields."""
        columns = [field.decode(array) for field, array in zip(self._fields, arrays)]
        return self._records(columns, num_rows), columns[position]

    def _records(self, columns: list[list[Any]], num_rows: int) -> list[Any]:
        if not self._is_row:
            return list(zip(*columns))
        return rows_of_values(zip(*columns), num_rows, self._names)

    def encode(self, values: Sequence[Any]) -> pa.Array:
        empty = (None,) * len(self._fields)
        arrays = self.encode_columns([empty if value is None else value for value in values])
        mask = pa.array([value is None for value in values], pa.bool_())
        return pa.StructArray.from_arrays(arrays, fields=list(self.schema), mask=mask)

    def decode(self, array: pa.Array) -> list[Any]:
        decoded = self.decode_columns(array.flatten(), len(array))
        if array.null_count == 0:
            return decoded
        return [value if valid else None for value, valid in zip(decoded, array.is_valid().to_pylist())]

    def _transpose(self, values: Sequence[Any]) -> list[list[Any]]:
        kinds = set(map(type, values))
        if kinds <= {tuple, list}:
            plain: Sequence[Sequence[Any]] = values
        elif kinds == {Row} and (not self._is_row or self._are_in_order(values)):
            plain = [value._values for value in values]
        else:
            plain = [self._plain(index, value) for index, value in enumerate(values)]
        width = len(self._fields)
        if set(map(len, plain)) - {width}:
            index = next(i for i, value in enumerate(plain) if len(value) != width)
            reason = f"it has {len(plain[index])} fields, the type has {width}"
            raise ValueMismatch(index, "", values[index], self.type_info, reason)
        # One pass per field takes half the time of zip(*rows), which creates an iterator per row.
        return [list(map(itemgetter(position), plain)) for position in range(width)]

    def _are_in_order(self, rows: Sequence[Row]) -> bool:
        """True if the values of all rows are in the order of the type's fields, which is the usual case."""
        names = self._names
        return all(row._fields is None or row._fields is names or row._fields == names for row in rows)

    def _plain(self, index: int, value: Any) -> Sequence[Any]:
        if isinstance(value, (tuple, list)):
            return value
        if isinstance(value, Row):
            return self._values_by_name(index, value)
        if isinstance(value, dict) and self._is_row:
            unknown = value.keys() - set(self._names)
            if unknown:
                raise ValueMismatch(index, "", value, self.type_info, f"it has unknown fields {sorted(unknown)}")
            return [value.get(name) for name in self._names]
        raise ValueMismatch(index, "", value, self.type_info)

    def _values_by_name(self, index: int, row: Row) -> Sequence[Any]:
        """Matches a row with names by name, unless the type's names are only positions (f0, f1, ...)."""
        fields = row._fields
        if fields is None or fields == self._names or not self._is_row:
            return row._values
        if set(self._names) <= set(fields):
            return row.get_fields_by_names(self._names)
        if self._names == [f"f{position}" for position in range(len(self._names))]:
            return row._values
        missing = [name for name in self._names if name not in fields]
        raise ValueMismatch(index, "", row, self.type_info, f"it has no field {missing}")


def _dumps(value: Any) -> bytes:
    """Pickles an object. Falls back to cloudpickle, which classes of the user's main script need."""
    try:
        return pickle.dumps(value, protocol=5)
    except (pickle.PicklingError, AttributeError, TypeError):
        return cloudpickle.dumps(value, protocol=5)


def _offsets(values: Sequence[Any], kinds: tuple[type, ...], type_info: TypeInformation) -> list[int]:
    offsets = [0]
    total = 0
    for index, value in enumerate(values):
        if value is not None:
            if not isinstance(value, kinds):
                raise ValueMismatch(index, "", value, type_info)
            total += len(value)  # type: ignore[arg-type]
        offsets.append(total)
    return offsets


def _in_order(elements: Iterable[Any]) -> list[Any]:
    try:
        return sorted(elements)
    except TypeError:  # some are None, or cannot be compared
        return sorted(elements, key=repr)


def _nullable_offsets(offsets: list[int], values: Sequence[Any]) -> pa.Array:
    """Returns the offsets, with a null for each None: Arrow reads a null offset as a null list."""
    if all(value is not None for value in values):
        return pa.array(offsets, pa.int32())
    starts = [None if value is None else offset for offset, value in zip(offsets, values)]
    return pa.array([*starts, offsets[-1]], pa.int32())


def _within(mismatch: ValueMismatch, offsets: list[int]) -> ValueMismatch:
    """Converts the mismatch of an element to one of the record that contains it."""
    row = bisect_right(offsets, mismatch.index) - 1
    position = mismatch.index - offsets[row]
    path = f"[{position}].{mismatch.path}" if mismatch.path else f"[{position}]"
    return ValueMismatch(row, path, mismatch.value, mismatch.type_info, mismatch.reason)


def _frozen(value: Any) -> Any:
    """Returns lists and dicts as tuples, which can be keys of a dict."""
    if isinstance(value, dict):
        value = list(value.items())
    return tuple(map(_frozen, value)) if type(value) in (list, tuple) else value


def _lengths(array: pa.Array) -> list[int]:
    offsets = array.offsets.to_pylist()
    valid = array.is_valid().to_pylist()
    return [end - start if is_valid else 0 for start, end, is_valid in zip(offsets, offsets[1:], valid)]


def _split(elements: list[Any], array: pa.Array, make: Callable[[list[Any]], Any]) -> list[Any]:
    parts: list[Any] = []
    position = 0
    for length, valid in zip(_lengths(array), array.is_valid().to_pylist()):
        parts.append(make(elements[position : position + length]) if valid else None)
        position += length
    return parts


@runtime_checkable
class TypeWithCodec(Protocol):
    """A type of another package, which brings its own codec, such as the type of rows of a table."""

    def column_codec(self) -> ColumnCodec: ...


@lru_cache(maxsize=1024)
def codec_of(type_info: TypeInformation, is_exact: bool = False) -> ColumnCodec:
    """Returns the codec of a type. For PICKLED_BYTE_ARRAY, it is the codec of a field inside a record.

    Args:
        is_exact: True to encode BIG_DEC as text, which keeps every digit; False for decimals of 38 digits.
    """
    if isinstance(type_info, ti.ExternalTypeInfo):
        return codec_of(type_info.wrapped_type, is_exact)
    if isinstance(type_info, ti.DecimalTypeInfo):
        return decimal_codec(type_info)
    if isinstance(type_info, ti.BasicTypeInfo):
        if is_exact and type_info.basic_type is BasicType.BIG_DEC:
            return big_decimal_codec(type_info)
        return BASIC_CODECS[type_info.basic_type](type_info)
    if isinstance(type_info, ti.RowTypeInfo):
        fields = [codec_of(field, is_exact) for field in type_info.get_field_types()]
        return StructCodec(type_info, type_info.get_field_names(), fields, True)
    if isinstance(type_info, ti.TupleTypeInfo):
        fields = [codec_of(field, is_exact) for field in type_info.get_field_types()]
        return StructCodec(type_info, [f"f{i}" for i in range(len(fields))], fields, False)
    if isinstance(type_info, ti.PrimitiveArrayTypeInfo) and _is_byte(type_info.element_type):
        return CheckedCodec(type_info, pa.binary(), check_bytes)
    if isinstance(
        type_info, (ti.ListTypeInfo, ti.PrimitiveArrayTypeInfo, ti.BasicArrayTypeInfo, ti.ObjectArrayTypeInfo)
    ):
        return ListCodec(type_info, codec_of(type_info.element_type, is_exact))
    if isinstance(type_info, SetTypeInfo):
        return SetCodec(type_info, codec_of(type_info.element_type, is_exact))
    if isinstance(type_info, EitherTypeInfo):
        return EitherCodec(type_info, codec_of(type_info.left_type, is_exact), codec_of(type_info.right_type, is_exact))
    if isinstance(type_info, EnumTypeInfo):
        return enum_codec(type_info)
    if isinstance(type_info, ti.MapTypeInfo):
        return MapCodec(type_info, codec_of(type_info.key_type, is_exact), codec_of(type_info.value_type, is_exact))
    if isinstance(type_info, ti.PickledBytesTypeInfo):
        return PickledCodec(type_info)
    temporal = _temporal_kind(type_info)
    if temporal is not None:
        return TEMPORAL_CODECS[temporal](type_info)
    if isinstance(type_info, TypeWithCodec):
        return type_info.column_codec()
    raise UnsupportedOperationError(f"{type_info!r} has no column form")


def _temporal_kind(type_info: TypeInformation) -> str | None:
    if isinstance(type_info, ti.LocalTimeTypeInfo):
        return type_info.time_type.name
    if isinstance(type_info, ti.DateTypeInfo):
        return "LOCAL_DATE"
    if isinstance(type_info, ti.TimeTypeInfo):
        return "LOCAL_TIME"
    if isinstance(type_info, ti.TimestampTypeInfo):
        return "LOCAL_DATE_TIME"
    return None


def _is_byte(type_info: TypeInformation) -> bool:
    return isinstance(type_info, ti.BasicTypeInfo) and type_info.basic_type is BasicType.BYTE
