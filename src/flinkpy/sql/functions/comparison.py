"""Comparison: =, <, BETWEEN, IN, IS NULL and the like. A comparison with NULL is unknown.

Source: org.apache.flink.table.planner.codegen.calls.ScalarOperatorGens.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from flinkpy.sql.functions.kernel_call import KernelCall, as_array
from flinkpy.sql.functions.registry import scalar
from flinkpy.sql.functions.results import BOOLEAN, common, exactly
from flinkpy.sql.types import logical_types as lt
from flinkpy.sql.types.logical_types import TypeRoot as R

_PAIR = "COMPARABLE, COMPARABLE"
_NOT_NULL = exactly(BOOLEAN.not_null())
#: Holds all digits before the point of one decimal, and all behind the point of another one.
_WIDEST = 76
_NESTED = frozenset({R.ARRAY, R.MAP, R.ROW, R.MULTISET, R.VARIANT})


def _compared(compute: Callable[[Any, Any], Any], ordering: Callable[[Any, Any], bool]) -> Any:
    def kernel(call: KernelCall, left: Any, right: Any) -> Any:
        if call.argument_types[0].root in _NESTED:
            return call.per_value(lambda one, other: ordering(_comparable(one), _comparable(other)), left, right)
        left, right = _trimmed(call, left, right)
        if pa.types.is_floating(left.type):
            return compute(left, right)
        return compute(left, right)

    return kernel


def _comparable(value: Any) -> Any:
    """Returns a nested value in a form that Python compares as Flink does."""
    if isinstance(value, dict):
        return tuple(_comparable(each) for each in value.values())
    if isinstance(value, list):
        if value and isinstance(value[0], tuple):
            return frozenset((_comparable(key), _comparable(item)) for key, item in value)
        return tuple(map(_comparable, value))
    return value


def _trimmed(call: KernelCall, left: Any, right: Any) -> tuple[Any, Any]:
    """Returns operands of one Arrow type, because NULL and timestamps of several units differ."""
    if left.type != right.type:
        if pa.types.is_null(left.type):
            return left.cast(right.type), right
        if pa.types.is_null(right.type):
            return left, right.cast(left.type)
        kinds = [each.type for each in (left, right) if pa.types.is_decimal(each.type)]
        if len(kinds) == 2 and max(each.precision - each.scale for each in kinds) + max(k.scale for k in kinds) > 38:
            # Arrow compares decimals of one scale, for which these need more than 128 bits.
            wide = pa.decimal256(_WIDEST, max(each.scale for each in kinds))
            return left.cast(wide), right.cast(wide)
    return left, right


for _name, _alias, _compute, _ordering in (
    ("=", "EQUALS", pc.equal, lambda one, other: one == other),
    ("<>", "NOT_EQUALS", pc.not_equal, lambda one, other: one != other),
    ("<", "LESS_THAN", pc.less, lambda one, other: one < other),
    ("<=", "LESS_THAN_OR_EQUAL", pc.less_equal, lambda one, other: one <= other),
    (">", "GREATER_THAN", pc.greater, lambda one, other: one > other),
    (">=", "GREATER_THAN_OR_EQUAL", pc.greater_equal, lambda one, other: one >= other),
):
    scalar(_name, _PAIR, returns=BOOLEAN, aliases=(_alias,))(_compared(_compute, _ordering))


@scalar("IS NULL", "ANY", returns=_NOT_NULL, null_if_null=False)
def is_null(call: KernelCall, value: Any) -> Any:
    return pc.is_null(value)


@scalar("IS NOT NULL", "ANY", returns=_NOT_NULL, null_if_null=False)
def is_not_null(call: KernelCall, value: Any) -> Any:
    return pc.is_valid(value)


def _distinct(call: KernelCall, left: Any, right: Any) -> Any:
    equal = as_array(_compared(pc.equal, lambda one, other: one == other)(call, left, right), call.num_rows)
    both_null = as_array(pc.and_(pc.is_null(left), pc.is_null(right)), call.num_rows)
    return pc.invert(pc.if_else(equal.is_valid(), equal, both_null))


@scalar("IS DISTINCT FROM", _PAIR, returns=_NOT_NULL, null_if_null=False)
def is_distinct_from(call: KernelCall, left: Any, right: Any) -> Any:
    return _distinct(call, left, right)


@scalar("IS NOT DISTINCT FROM", _PAIR, returns=_NOT_NULL, null_if_null=False)
def is_not_distinct_from(call: KernelCall, left: Any, right: Any) -> Any:
    return pc.invert(_distinct(call, left, right))


def _between(call: KernelCall, value: Any, low: Any, high: Any) -> Any:
    low, high = _trimmed(call, value, low)[1], _trimmed(call, value, high)[1]
    return pc.and_kleene(pc.greater_equal(value, low), pc.less_equal(value, high))


@scalar("BETWEEN", "COMPARABLE, COMPARABLE, COMPARABLE", returns=BOOLEAN, null_if_null=False)
def between(call: KernelCall, value: Any, low: Any, high: Any) -> Any:
    return _between(call, value, low, high)


@scalar("NOT BETWEEN", "COMPARABLE, COMPARABLE, COMPARABLE", returns=BOOLEAN, null_if_null=False)
def not_between(call: KernelCall, value: Any, low: Any, high: Any) -> Any:
    return pc.invert(_between(call, value, low, high))


@scalar("BETWEEN SYMMETRIC", "COMPARABLE, COMPARABLE, COMPARABLE", returns=BOOLEAN, null_if_null=False)
def between_symmetric(call: KernelCall, value: Any, low: Any, high: Any) -> Any:
    return pc.or_kleene(_between(call, value, low, high), _between(call, value, high, low))


@scalar("NOT BETWEEN SYMMETRIC", "COMPARABLE, COMPARABLE, COMPARABLE", returns=BOOLEAN, null_if_null=False)
def not_between_symmetric(call: KernelCall, value: Any, low: Any, high: Any) -> Any:
    return pc.invert(between_symmetric(call, value, low, high))


def _in(call: KernelCall, value: Any, candidates: tuple[Any, ...]) -> Any:
    if all(isinstance(each, pa.Scalar) for each in candidates) and call.argument_types[0].root not in _NESTED:
        known = [each for each in candidates if each.is_valid]
        wanted = value.type
        values = pa.array([each.cast(wanted).as_py() for each in known], wanted)
        found = pc.is_in(value, value_set=values, skip_nulls=True)
        found = pc.if_else(pc.is_valid(value), found, pa.scalar(None, pa.bool_()))
        if len(known) == len(candidates):
            return found
        return pc.or_kleene(found, pa.scalar(None, pa.bool_()))
    equals = _compared(pc.equal, lambda one, other: one == other)
    result = equals(call, value, candidates[0])
    for each in candidates[1:]:
        result = pc.or_kleene(result, equals(call, value, each))
    return result


@scalar("IN", "COMPARABLE, COMPARABLE...", returns=BOOLEAN, null_if_null=False)
def in_(call: KernelCall, value: Any, *candidates: Any) -> Any:
    return _in(call, value, candidates)


@scalar("NOT IN", "COMPARABLE, COMPARABLE...", returns=BOOLEAN, null_if_null=False)
def not_in(call: KernelCall, value: Any, *candidates: Any) -> Any:
    return pc.invert(_in(call, value, candidates))


def _extreme(call: KernelCall, values: tuple[Any, ...], is_less: Callable[[Any, Any], Any]) -> Any:
    wanted = call.arrow_type
    arrays = [as_array(each if each.type == wanted else each.cast(wanted), call.num_rows) for each in values]
    result = arrays[0]
    for other in arrays[1:]:
        chosen = is_less(other, result)
        result = pc.if_else(chosen, other, result)
    return result


@scalar("GREATEST", "COMPARABLE...", returns=common)
def greatest(call: KernelCall, *values: Any) -> Any:
    return _extreme(call, values, pc.greater)


@scalar("LEAST", "COMPARABLE...", returns=common)
def least(call: KernelCall, *values: Any) -> Any:
    return _extreme(call, values, pc.less)


def is_orderable(kind: lt.LogicalType) -> bool:
    """True if values of the type can be sorted."""
    return kind.root not in _NESTED
