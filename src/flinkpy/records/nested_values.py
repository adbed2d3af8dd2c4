"""The canonical forms of ARRAY, MAP, MULTISET and ROW values, by which such values are keys of groups.

Equal values have equal forms: tuples of their elements. Entries of a map are in a fixed order, because the order in
which they were written does not count. Times are numbers, because a Python datetime has no nanoseconds.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pyarrow as pa


def nested_texts(column: pa.Array) -> pa.Array:
    """Returns a text for each value of a nested column: equal texts for equal values. NULL has none."""
    texts = [None if value is None else repr(value) for value in nested_values(column)]
    return pa.array(texts, pa.large_string())


def nested_array(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Returns the column of this type that has these canonical forms."""
    return pa.array(values, _plain_type(kind)).cast(kind)


def nested_values(column: pa.Array) -> list[Any]:
    """Returns the canonical form of each value of a nested column; None for NULL."""
    kind = column.type
    types = pa.types
    if types.is_temporal(kind) and not types.is_interval(kind):
        return column.view(_number_type(kind)).to_pylist()  # type: ignore[no-any-return]
    if not types.is_nested(kind):
        return column.to_pylist()  # type: ignore[no-any-return]
    values: list[Any]
    if types.is_struct(kind):
        fields = [nested_values(field) for field in column.flatten()]
        values = list(zip(*fields)) if fields else [()] * len(column)
    elif types.is_map(kind):
        entries = list(zip(nested_values(column.keys), nested_values(column.items)))
        values = [tuple(sorted(entries[begin:end], key=repr)) for begin, end in _spans(column)]
    else:
        elements = nested_values(column.values)
        values = [tuple(elements[begin:end]) for begin, end in _spans(column)]
    if column.null_count:
        values = [value if is_valid else None for value, is_valid in zip(values, column.is_valid().to_pylist())]
    return values


def _spans(column: pa.Array) -> Iterator[tuple[int, int]]:
    """Yields the positions of the elements of each value."""
    if pa.types.is_fixed_size_list(column.type):
        size = column.type.list_size
        begins = range(column.offset * size, (column.offset + len(column)) * size, size)
        return zip(begins, (begin + size for begin in begins))
    offsets = column.offsets.to_pylist()
    return itertools.pairwise(offsets)


def _number_type(kind: pa.DataType) -> pa.DataType:
    return pa.int32() if kind.bit_width == 32 else pa.int64()


def _plain_type(kind: pa.DataType) -> pa.DataType:
    """Returns the type with numbers for times."""
    types = pa.types
    if types.is_temporal(kind) and not types.is_interval(kind):
        return _number_type(kind)
    if types.is_struct(kind):
        return pa.struct([field.with_type(_plain_type(field.type)) for field in kind])
    if types.is_map(kind):
        return pa.map_(_plain_type(kind.key_type), kind.item_field.with_type(_plain_type(kind.item_type)))
    if types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_plain_type(kind.value_type)))
    if types.is_large_list(kind):
        return pa.large_list(kind.value_field.with_type(_plain_type(kind.value_type)))
    if types.is_fixed_size_list(kind):
        return pa.list_(kind.value_field.with_type(_plain_type(kind.value_type)), kind.list_size)
    return kind
