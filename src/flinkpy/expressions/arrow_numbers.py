"""Arithmetic with Arrow. Integers wrap around like Java's. Division by zero is null."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flinkpy.common.typeinfo import DecimalTypeInfo, TypeInformation
from flinkpy.expressions import arrow_decimals, decimals
from flinkpy.expressions.arrow_decimals import Value, fitted
from flinkpy.expressions.nodes import Call
from flinkpy.expressions.types import is_integer

_HALF_UP = "half_towards_infinity"


def digits(type_info: TypeInformation) -> tuple[int, int]:
    """Returns precision and scale of a decimal or integer type."""
    found = decimals.digits_of(type_info)
    assert found is not None
    return found


def widened(value: Value, wanted: pa.DataType) -> Value:
    """Converts numbers to a type that holds all their values."""
    kind = value.type
    if kind == wanted:
        return value
    if pa.types.is_decimal(wanted) and pa.types.is_integer(kind):
        # Arrow needs a type that holds all integers of that width first.
        value = value.cast(pa.decimal256(20, 0) if pa.types.is_decimal256(wanted) else pa.decimal128(20, 0))
        if isinstance(value, pa.Scalar) or wanted.scale:
            return value.cast(wanted)
        return pa.Array.from_buffers(wanted, len(value), value.buffers(), value.null_count, value.offset)
    return value.cast(wanted)


def same_type(value: Value, candidates: pa.Array) -> tuple[Value, pa.Array]:
    """Converts values, and the candidates they are compared with, to one type."""
    one, other = value.type, candidates.type
    if one == other:
        return value, candidates
    if pa.types.is_decimal(one) and (pa.types.is_decimal(other) or pa.types.is_integer(other)):
        exact = pa.decimal256(76, max(one.scale, getattr(other, "scale", 0)))
        return value.cast(exact), widened(candidates, exact)
    if pa.types.is_decimal(other) and pa.types.is_integer(one):
        exact = pa.decimal256(76, other.scale)
        return widened(value, exact), candidates.cast(exact)
    if pa.types.is_floating(one) or pa.types.is_floating(other):
        return value.cast(pa.float64()), candidates.cast(pa.float64())
    return value.cast(pa.int64()), candidates.cast(pa.int64())


def _plus(one: Value, other: Value, gives: TypeInformation) -> Value:
    return arrow_decimals.add(one, other, gives) if isinstance(gives, DecimalTypeInfo) else pc.add(one, other)


def _minus(one: Value, other: Value, gives: TypeInformation) -> Value:
    if isinstance(gives, DecimalTypeInfo):
        return arrow_decimals.subtract(one, other, gives)
    return pc.subtract(one, other)


def _times(one: Value, other: Value, gives: TypeInformation) -> Value:
    return arrow_decimals.multiply(one, other, gives) if isinstance(gives, DecimalTypeInfo) else pc.multiply(one, other)


def _divide(one: Value, other: Value, gives: TypeInformation) -> Value:
    if isinstance(gives, DecimalTypeInfo):
        return arrow_decimals.divide(one, other, gives)
    return pc.divide(one, _null_for_zero(other))


def _mod(one: Value, other: Value, gives: TypeInformation) -> Value:
    if isinstance(gives, DecimalTypeInfo):
        return arrow_decimals.remainder(one, other, gives)
    other = _null_for_zero(other)
    if is_integer(gives):
        return pc.subtract(one, pc.multiply(pc.divide(one, other), other))
    rows = next((len(each) for each in (one, other) if isinstance(each, pa.Array)), None)
    is_null = pc.or_(pc.is_null(one), pc.is_null(other))
    with np.errstate(all="ignore"):
        left = np.fmod(_numbers(one), _numbers(other))
    result = pa.array(np.atleast_1d(left)).cast(one.type)
    result = result[0] if rows is None else result
    return pc.if_else(is_null, pa.scalar(None, result.type), result)


def _numbers(value: Value) -> Any:
    if isinstance(value, pa.Scalar):
        return np.nan if value.as_py() is None else value.as_py()
    return value.to_numpy(zero_copy_only=False)


def _null_for_zero(value: Value) -> Value:
    return pc.if_else(pc.equal(value, pa.scalar(0, value.type)), pa.scalar(None, value.type), value)


def _rounding(function: Callable[[Value], Value]) -> Callable[[Call, TypeInformation], Callable[..., Value]]:
    def make(call: Call, gives: TypeInformation) -> Callable[..., Value]:
        if is_integer(gives):
            return lambda value: value
        if isinstance(gives, DecimalTypeInfo):
            return lambda value: fitted(function(_with_room(value)), gives)
        return function

    return make


def _round(call: Call, gives: TypeInformation) -> Callable[..., Value]:
    places = call.options[0]
    if is_integer(gives) and places >= 0:
        return lambda value: value
    if isinstance(gives, DecimalTypeInfo):
        if places >= 0:
            return lambda value: fitted(value, gives)
        return lambda value: fitted(pc.round(_with_room(value), places, _HALF_UP), gives)
    return lambda value: pc.round(value, places, _HALF_UP)


def _with_room(value: Value) -> Value:
    """Adds a digit, because a number may need it when it is rounded up: 9.9 becomes 10."""
    return value.cast(pa.decimal256(min(76, value.type.precision + 1), value.type.scale))


def _same(function: Callable[[Value], Value]) -> Callable[[Call, TypeInformation], Callable[..., Value]]:
    return lambda call, gives: function


#: Functions of two numbers of the result's type, or of two decimals if the result is a decimal.
ARITHMETIC: dict[str, Callable[[Value, Value, TypeInformation], Value]] = {
    "plus": _plus,
    "minus": _minus,
    "times": _times,
    "divide": _divide,
    "mod": _mod,
}
ONE_NUMBER: dict[str, Callable[[Call, TypeInformation], Callable[..., Value]]] = {
    "minusPrefix": _same(pc.negate),
    "abs": _same(pc.abs),
    "floor": _rounding(pc.floor),
    "ceil": _rounding(pc.ceil),
    "round": _round,
}
