"""Value construction and access: ROW, ARRAY, MAP, ITEM, CARDINALITY."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flinkpy.common.errors import TableRuntimeError, ValidationError
from flinkpy.sql.functions.definition import Inference
from flinkpy.sql.functions.kernel_call import KernelCall, as_array
from flinkpy.sql.functions.registry import scalar
from flinkpy.sql.functions.results import INT
from flinkpy.sql.types import logical_types as lt
from flinkpy.sql.types.casting import supports_implicit_cast
from flinkpy.sql.types.merging import find_common_type


def _row_type(call: Inference) -> lt.LogicalType:
    fields = tuple(lt.RowField(f"EXPR${index}", kind) for index, kind in enumerate(call.types))
    return lt.RowType(fields, nullable=False)


@scalar("ROW", "ANY*...", returns=_row_type, null_if_null=False)
def row(call: KernelCall, *values: Any) -> Any:
    fields = list(call.arrow_type)
    arrays = [as_array(value, call.num_rows) for value in values]
    return pa.StructArray.from_arrays(arrays, fields=fields)


@scalar(
    "ARRAY", "COMMON...", returns=lambda call: lt.ArrayType(_common(call.types), nullable=False), null_if_null=False
)
def array(call: KernelCall, *values: Any) -> Any:
    wanted = call.arrow_type
    return pa.ListArray.from_arrays(
        _offsets(call.num_rows, len(values)), _interleaved(call, values, wanted.value_type), type=wanted
    )


def _common(types: tuple[lt.LogicalType, ...]) -> lt.LogicalType:
    found = find_common_type(types)
    return lt.NullType() if found is None else found


def _map_type(call: Inference) -> lt.LogicalType:
    if len(call.types) % 2:
        raise ValidationError("MAP needs an even number of arguments: keys and values")
    key, value = find_common_type(call.types[0::2]), find_common_type(call.types[1::2])
    if key is None or value is None:
        raise ValidationError("the keys or the values of a MAP have no common type")
    return lt.MapType(key, value, nullable=False)


@scalar("MAP", "ANY, ANY, ANY*...", returns=_map_type, null_if_null=False)
def map_(call: KernelCall, *values: Any) -> Any:
    wanted = call.arrow_type
    keys = _interleaved(call, values[0::2], wanted.key_type)
    items = _interleaved(call, values[1::2], wanted.item_type)
    if _has_equal(values[0::2]):
        rows = zip(*(iter(zip(keys.to_pylist(), items.to_pylist())),) * (len(values) // 2))
        return pa.array([list(dict(pairs).items()) for pairs in rows], wanted)
    return pa.MapArray.from_arrays(_offsets(call.num_rows, len(values) // 2), keys, items, type=wanted)


def _has_equal(keys: tuple[Any, ...]) -> bool:
    """True if two keys are equal in a row. Then the last one counts."""
    pairs = ((a, b) for place, a in enumerate(keys) for b in keys[:place])
    return any(_any_true(pc.equal(a, b)) for a, b in pairs if not pa.types.is_nested(a.type))


def _any_true(mask: Any) -> bool:
    return bool(mask.as_py() if isinstance(mask, pa.Scalar) else pc.any(mask).as_py())


def _offsets(num_rows: int, size: int) -> pa.Array:
    return pa.array(np.arange(num_rows + 1, dtype=np.int32) * size)


def _interleaved(call: KernelCall, values: tuple[Any, ...], wanted: pa.DataType) -> pa.Array:
    """Returns the first value of each argument, then the second of each, and so on."""
    arrays = [as_array(each if each.type == wanted else each.cast(wanted), call.num_rows) for each in values]
    if len(arrays) == 1:
        return arrays[0]
    order = np.arange(len(arrays) * call.num_rows).reshape(len(arrays), call.num_rows).T.ravel()
    return pa.concat_arrays(arrays).take(pa.array(order))


def _item_type(call: Inference) -> lt.LogicalType:
    collection = call.types[0]
    if isinstance(collection, lt.ArrayType):
        return collection.element.as_nullable()
    if isinstance(collection, lt.MapType):
        if not supports_implicit_cast(call.types[1].as_nullable(), collection.key.as_nullable()):
            raise ValidationError(f"a key of {collection} cannot be {call.types[1]}")
        return collection.value.as_nullable()
    if isinstance(collection, lt.VariantType):
        return collection.as_nullable()
    raise ValidationError(f"{collection} has no elements")


@scalar(
    "ITEM",
    "ARRAY, INTEGER_NUMERIC",
    "MAP, ANY",
    "VARIANT, CHARACTER_STRING",
    "VARIANT, INTEGER_NUMERIC",
    returns=_item_type,
    aliases=("AT",),
)
def item(call: KernelCall, collection: Any, key: Any) -> Any:
    """The element of an array or VARIANT at a position from 1, or the value of a key. Null if there is none."""
    kind = call.argument_types[0]
    if isinstance(kind, lt.VariantType):
        from flinkpy.sql.functions.json_functions import variant_item

        return call.per_value(variant_item, collection, key)
    if isinstance(kind, lt.MapType):
        if isinstance(key, pa.Scalar):
            return pc.map_lookup(collection, key.cast(collection.type.key_type), "first")
        return call.per_value(lambda pairs, wanted: dict(pairs).get(wanted), collection, key)
    if isinstance(key, pa.Scalar) and key.as_py() < 1:
        raise TableRuntimeError(f"Array element access needs an index starting at 1 but was {key.as_py()}")
    positions = as_array(key, call.num_rows).cast(pa.int64())
    lists = as_array(collection, call.num_rows)
    valid = pc.and_(lists.is_valid(), positions.is_valid())
    starts = pc.subtract(lists.offsets.slice(1).cast(pa.int64()), pc.list_value_length(lists).cast(pa.int64()))
    inside = pc.and_kleene(
        valid, pc.and_(pc.greater_equal(positions, 1), pc.less_equal(positions, pc.list_value_length(lists)))
    )
    places = pc.if_else(pc.fill_null(inside, False), pc.add(starts, pc.subtract(positions, 1)), None)
    return lists.values.take(places)


@scalar("CARDINALITY", "COLLECTION", returns=INT)
def cardinality(call: KernelCall, collection: Any) -> Any:
    if pa.types.is_map(collection.type):
        lists = as_array(collection, call.num_rows)
        lengths = pa.array(np.diff(lists.offsets.to_numpy()), pa.int32())
        return pc.if_else(lists.is_valid(), lengths, None) if lists.null_count else lengths
    return pc.list_value_length(collection)


def _element_type(call: Inference) -> lt.LogicalType:
    array_type = call.types[0]
    assert isinstance(array_type, lt.ArrayType)
    return array_type.element.as_nullable(array_type.element.nullable or array_type.nullable)


@scalar("ELEMENT", "ARRAY", returns=_element_type, may_fail=True)
def element(call: KernelCall, collection: Any) -> Any:
    """The only element of an array; null if it is empty."""
    lists = as_array(collection, call.num_rows)
    if pc.any(pc.greater(pc.list_value_length(lists), 1)).as_py():
        raise TableRuntimeError("Array has more than one element.")
    return call.per_value(lambda values: values[0] if values else None, lists)
