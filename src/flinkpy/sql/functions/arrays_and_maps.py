"""Functions of arrays and maps. Elements are Python values here; positions count from 1.

Source: org.apache.flink.table.runtime.functions.scalar.Array*Function, Map*Function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa

from flinkpy.common.errors import TableRuntimeError
from flinkpy.sql.functions.definition import Inference
from flinkpy.sql.functions.kernel_call import KernelCall, as_array
from flinkpy.sql.functions.registry import scalar, scalar_per_value
from flinkpy.sql.functions.results import BOOLEAN, INT, STRING, argument, common
from flinkpy.sql.types import logical_types as lt


def _key(value: Any) -> Any:
    """Returns a value in a form that can be compared and hashed."""
    if isinstance(value, list):
        return tuple(map(_key, value))
    if isinstance(value, dict):
        return tuple((name, _key(each)) for name, each in value.items())
    return value


def _rows(call: KernelCall, compute: Callable[..., Any], *operands: Any) -> Any:
    """Calls `compute` with the Python values of each row, nulls included. Null if the first one is."""
    columns = [as_array(operand, call.num_rows).to_pylist() for operand in operands]
    results = [None if row[0] is None else compute(*row) for row in zip(*columns)]
    return pa.array(results, call.arrow_type)


def _unique(values: Iterable[Any]) -> list[Any]:
    return list({_key(value): value for value in reversed(list(values))}.values())[::-1]


def _of_element(call: Inference) -> lt.LogicalType:
    """The type of an array to which an element is added, which may be null."""
    array, element = call.types
    assert isinstance(array, lt.ArrayType)
    return lt.ArrayType(array.element.as_nullable(array.element.nullable or element.nullable), nullable=array.nullable)


def _contains_type(call: Inference) -> lt.LogicalType:
    return BOOLEAN.as_nullable(call.types[0].nullable)


@scalar("ARRAY_CONTAINS", "ARRAY, ARRAY_ELEMENT", returns=_contains_type, null_if_null=False)
def array_contains(call: KernelCall, array: Any, element: Any) -> Any:
    return _rows(call, lambda values, wanted: _key(wanted) in {_key(value) for value in values}, array, element)


@scalar_per_value("ARRAY_DISTINCT", "ARRAY", returns=argument(0))
def array_distinct(values: list[Any]) -> list[Any]:
    found: dict[Any, Any] = {}
    for value in values:
        found.setdefault(_key(value), value)
    return list(found.values())


@scalar_per_value("ARRAY_POSITION", "ARRAY, ARRAY_ELEMENT", returns=INT)
def array_position(values: list[Any], element: Any) -> int:
    keys = list(map(_key, values))
    return keys.index(_key(element)) + 1 if _key(element) in keys else 0


@scalar("ARRAY_REMOVE", "ARRAY, ARRAY_ELEMENT", returns=lambda call: call.types[0], null_if_null=False)
def array_remove(call: KernelCall, array: Any, element: Any) -> Any:
    return _rows(call, lambda values, gone: [each for each in values if _key(each) != _key(gone)], array, element)


@scalar_per_value("ARRAY_REVERSE", "ARRAY", returns=argument(0))
def array_reverse(values: list[Any]) -> list[Any]:
    return values[::-1]


@scalar("ARRAY_APPEND", "ARRAY, ARRAY_ELEMENT", returns=_of_element, null_if_null=False)
def array_append(call: KernelCall, array: Any, element: Any) -> Any:
    return _rows(call, lambda values, added: [*values, added], array, element)


@scalar("ARRAY_PREPEND", "ARRAY, ARRAY_ELEMENT", returns=_of_element, null_if_null=False)
def array_prepend(call: KernelCall, array: Any, element: Any) -> Any:
    return _rows(call, lambda values, added: [added, *values], array, element)


@scalar_per_value("ARRAY_SLICE", "ARRAY, INTEGER", "ARRAY, INTEGER, INTEGER", returns=argument(0))
def array_slice(values: list[Any], start: int, end: int | None = None) -> list[Any]:
    size = len(values)
    end = size if end is None else end
    first = start if start > 0 else size + start + 1 if start < 0 else 1
    last = end if end > 0 else size + end + 1 if end < 0 else 1
    first = max(first, 1)
    return values[first - 1 : min(last, size)] if first <= last and first <= size else []


@scalar_per_value("ARRAY_UNION", "COMMON, COMMON", returns=common)
def array_union(left: list[Any], right: list[Any]) -> list[Any]:
    return array_distinct([*left, *right])


@scalar_per_value("ARRAY_CONCAT", "COMMON...", returns=common)
def array_concat(*arrays: list[Any]) -> list[Any]:
    return [value for array in arrays for value in array]


@scalar_per_value("ARRAY_EXCEPT", "COMMON, COMMON", returns=common)
def array_except(left: list[Any], right: list[Any]) -> list[Any]:
    gone = {_key(value) for value in right}
    return array_distinct([value for value in left if _key(value) not in gone])


@scalar_per_value("ARRAY_INTERSECT", "COMMON, COMMON", returns=common)
def array_intersect(left: list[Any], right: list[Any]) -> list[Any]:
    kept = {_key(value) for value in right}
    return array_distinct([value for value in left if _key(value) in kept])


def _element(call: Inference) -> lt.LogicalType:
    array = call.types[0]
    assert isinstance(array, lt.ArrayType)
    return array.element.as_nullable()


@scalar_per_value("ARRAY_MAX", "ARRAY", returns=_element)
def array_max(values: list[Any]) -> Any:
    return max((value for value in values if value is not None), default=None)


@scalar_per_value("ARRAY_MIN", "ARRAY", returns=_element)
def array_min(values: list[Any]) -> Any:
    return min((value for value in values if value is not None), default=None)


@scalar_per_value("ARRAY_SORT", "ARRAY", "ARRAY, BOOLEAN", "ARRAY, BOOLEAN, BOOLEAN", returns=argument(0))
def array_sort(values: list[Any], ascending: bool = True, nulls_first: bool | None = None) -> list[Any]:
    nulls = [value for value in values if value is None]
    ordered = sorted((value for value in values if value is not None), reverse=not ascending)
    first = ascending if nulls_first is None else nulls_first
    return nulls + ordered if first else ordered + nulls


@scalar_per_value(
    "ARRAY_JOIN",
    "ARRAY<STRING>, CHARACTER_STRING",
    "ARRAY<STRING>, CHARACTER_STRING, CHARACTER_STRING",
    returns=STRING,
)
def array_join(values: list[str | None], delimiter: str, null_text: str | None = None) -> str:
    shown = (null_text if each is None else each for each in values)
    return delimiter.join(each for each in shown if each is not None)


# -- maps -----------------------------------------------------------------------------------------------------------


def _map(call: Inference) -> lt.MapType:
    kind = call.types[0]
    assert isinstance(kind, lt.MapType)
    return kind


@scalar_per_value("MAP_KEYS", "MAP", returns=lambda call: lt.ArrayType(_map(call).key, nullable=call.any_nullable))
def map_keys(pairs: list[tuple[Any, Any]]) -> list[Any]:
    return [key for key, _ in pairs]


@scalar_per_value("MAP_VALUES", "MAP", returns=lambda call: lt.ArrayType(_map(call).value, nullable=call.any_nullable))
def map_values(pairs: list[tuple[Any, Any]]) -> list[Any]:
    return [value for _, value in pairs]


def _entries_type(call: Inference) -> lt.LogicalType:
    kind = _map(call)
    row = lt.RowType.of(("key", kind.key), ("value", kind.value))
    return lt.ArrayType(row, nullable=call.any_nullable)


@scalar_per_value("MAP_ENTRIES", "MAP", returns=_entries_type)
def map_entries(pairs: list[tuple[Any, Any]]) -> list[Any]:
    return [{"key": key, "value": value} for key, value in pairs]


@scalar_per_value("MAP_UNION", "COMMON...", returns=common)
def map_union(*maps: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    found: dict[Any, Any] = {}
    for pairs in maps:
        found.update({_key(key): (key, value) for key, value in pairs})
    return list(found.values())


def _from_arrays_type(call: Inference) -> lt.LogicalType:
    keys, values = call.types
    assert isinstance(keys, lt.ArrayType) and isinstance(values, lt.ArrayType)
    return lt.MapType(keys.element, values.element, nullable=call.any_nullable)


@scalar_per_value("MAP_FROM_ARRAYS", "ARRAY, ARRAY", returns=_from_arrays_type, may_fail=True)
def map_from_arrays(keys: list[Any], values: list[Any]) -> list[tuple[Any, Any]]:
    if len(keys) != len(values):
        raise TableRuntimeError(
            "Invalid function MAP_FROM_ARRAYS call:\nThe length of the keys array "
            f"{len(keys)} is not equal to the length of the values array {len(values)}"
        )
    return list(zip(keys, values))
