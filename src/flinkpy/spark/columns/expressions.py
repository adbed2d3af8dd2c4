"""Translates expression trees to Spark columns with the values and types that `flinkpy.expressions` defines.

Every value is cast to the type that our rules give the expression. Spark removes the cast from the plan if its own type
is the same. An expression without an exact equal raises NotExpressible, and a Python worker computes it with Arrow.
"""

from __future__ import annotations

import datetime
import decimal
import math
import re
from collections.abc import Callable, Mapping
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import types as t

from flinkpy.common.typeinfo import TypeInformation
from flinkpy.expressions.arrow import arrow_type
from flinkpy.expressions.decimals import digits_of
from flinkpy.expressions.nodes import Alias, Call, ColumnReference, Expression, Literal
from flinkpy.expressions.types import (
    common_type,
    is_decimal,
    is_integer,
    is_number,
    literal_digits,
    result_type,
)
from flinkpy.spark.columns.functions import F
from flinkpy.spark.columns.names import NotExpressible, castable, column, type_of

if TYPE_CHECKING:
    from pyspark.sql import Column

Types = Mapping[str, TypeInformation]
#: Stands for both sides of a comparison.
_BOTH = 2


def to_column(expression: Expression, columns: Types) -> Column:
    """Returns the column of an expression. An Alias gives it its name.

    Args:
        columns: the types of the stream's columns by name.

    Raises: NotExpressible.
    """
    if isinstance(expression, Alias):
        return to_column(expression.expression, columns).alias(expression.name)
    if isinstance(expression, ColumnReference):
        return column(expression.name)
    if isinstance(expression, Literal):
        return _literal(expression.value, type_of(expression.type))
    assert isinstance(expression, Call)
    make = _FUNCTIONS.get(expression.function)
    if make is None:
        raise NotExpressible(f"the function {expression.function}")
    return make(expression, columns)


def _literal(value: Any, kind: t.DataType) -> Column:
    if value is None:
        return F.lit(None).cast(castable(kind))
    if isinstance(value, float | int | str | bytes | decimal.Decimal | datetime.date):
        if isinstance(value, datetime.datetime) and value.tzinfo is None:
            # PySpark would read a datetime literal in the session's time zone.
            return F.lit(value.isoformat(sep=" ")).cast(castable(kind))
        return F.lit(bytearray(value) if isinstance(value, bytes) else value).cast(castable(kind))
    raise NotExpressible(f"the literal {value!r}")


def _type(expression: Expression, columns: Types) -> TypeInformation:
    return result_type(expression, columns)


def _cast_to(values: Column, type_info: TypeInformation) -> Column:
    return values.cast(castable(type_of(type_info)))


# -- numbers -------------------------------------------------------------------------------------------------------


def _operands(call: Call, columns: Types) -> tuple[Column, Column]:
    """Returns both operands, cast so that Spark's rules give the type of our result."""
    result = _type(call, columns)
    prepared = []
    for argument in call.arguments:
        type_info = _type(argument, columns)
        values = to_column(argument, columns)
        if is_decimal(result):
            digits = literal_digits(argument, type_info)
            assert digits is not None
            prepared.append(values.cast(castable(t.DecimalType(*digits))))
        else:
            prepared.append(_cast_to(values, result))
    return prepared[0], prepared[1]


def _arithmetic(operation: Callable[[Column, Column], Column]) -> Callable[[Call, Types], Column]:
    def make(call: Call, columns: Types) -> Column:
        return _cast_to(operation(*_operands(call, columns)), _type(call, columns))

    return make


def _divide(call: Call, columns: Types) -> Column:
    one, other = _operands(call, columns)
    result = _type(call, columns)
    if is_integer(result):
        # `div` divides LONGs and rounds towards zero.
        return _cast_to(_long_division(one, other), result)
    return _cast_to(one / other, result)


def _mod(call: Call, columns: Types) -> Column:
    types = [_type(argument, columns) for argument in call.arguments]
    if any(map(is_decimal, types)) and not is_decimal(_type(call, columns)):
        # The engines convert a decimal to floats that differ in the last bit, which changes a remainder.
        raise NotExpressible("a remainder of a decimal and a float")
    one, other = _operands(call, columns)
    return _cast_to(one % other, _type(call, columns))


def _long_division(one: Column, other: Column) -> Column:
    return F.call_function("div", one.cast("bigint"), other.cast("bigint"))


def _negative(call: Call, columns: Types) -> Column:
    values, result = to_column(call.arguments[0], columns), _type(call, columns)
    if is_decimal(result):
        return _negated(values, result)
    return _cast_to(-values, result)


def _negated(values: Column, type_info: TypeInformation) -> Column:
    """Returns the negated decimals. Spark's unary minus would keep only 34 digits."""
    return _cast_to(_cast_to(F.lit(0), type_info) - values, type_info)


def _abs(call: Call, columns: Types) -> Column:
    values, result = to_column(call.arguments[0], columns), _type(call, columns)
    if is_decimal(result):
        return F.when(values < F.lit(0), _negated(values, result)).otherwise(values)
    return _cast_to(F.abs(values), result)


def _unary(function: Callable[[Column], Column]) -> Callable[[Call, Types], Column]:
    def make(call: Call, columns: Types) -> Column:
        return _cast_to(function(to_column(call.arguments[0], columns)), _type(call, columns))

    return make


def _whole(function: Callable[[Column], Column]) -> Callable[[Call, Types], Column]:
    """Returns floor or ceil. For floats Spark returns a LONG, which cannot hold every result."""

    def make(call: Call, columns: Types) -> Column:
        argument = call.arguments[0]
        type_info = _type(argument, columns)
        values = to_column(argument, columns)
        if is_integer(type_info):
            return values
        if not is_decimal(type_info):
            fits = F.abs(values) < F.lit(float(1 << 53))
            return F.when(fits, _cast_to(function(values), type_info)).otherwise(values)
        return _cast_to(function(values), _type(call, columns))

    return make


def _round(call: Call, columns: Types) -> Column:
    result = _type(call, columns)
    if is_integer(result) and call.options[0] >= 0:
        return to_column(call.arguments[0], columns)
    if not is_decimal(result):
        # Arrow rounds the exact value of a float, Spark its decimal representation.
        raise NotExpressible("round of numbers other than decimals")
    return _cast_to(F.round(to_column(call.arguments[0], columns), call.options[0]), result)


# -- comparisons and logic -----------------------------------------------------------------------------------------


def _comparable(arguments: tuple[Expression, ...], columns: Types) -> list[Column]:
    """Returns columns that Spark compares by value.

    Columns are cast only if necessary, because predicates over a cast cannot be pushed down to files.
    """
    types = [_type(argument, columns) for argument in arguments]
    common = common_type(types)
    if common is None:
        raise NotExpressible("a comparison of different types")
    made = []
    for position, argument in enumerate(arguments):
        other = types[1] if position == 0 else types[0]
        literal = _literal_as(argument, other)
        if literal is not None:
            made.append(literal)
        elif is_decimal(common) and len({kind for kind in types if is_decimal(kind)}) > 1:
            made.append(_as_decimal(to_column(argument, columns), types))
        else:
            made.append(to_column(argument, columns))
    return made


def _as_decimal(values: Column, types: list[TypeInformation]) -> Column:
    """Returns the values as a decimal type that holds the values of all types."""
    digits = [found for kind in types if (found := digits_of(kind)) is not None]
    if len(digits) < len(types):
        return values  # there are floats, so Spark compares DOUBLEs
    scale = max(each[1] for each in digits)
    precision = max(each[0] - each[1] for each in digits) + scale
    if precision > t.DecimalType(38, 0).precision:
        raise NotExpressible("a comparison of decimals that takes more than 38 digits")
    return values.cast(castable(t.DecimalType(precision, scale)))


def _literal_as(argument: Expression, wanted: TypeInformation) -> Column | None:
    """Returns a literal number in the decimal type of the column it is compared with; None if that is not possible."""
    if not isinstance(argument, Literal) or argument.value is None or not is_decimal(wanted):
        return None
    if not is_number(argument.type):
        return None
    try:
        exact = pa.scalar(argument.value, arrow_type(argument.type)).cast(arrow_type(wanted))
    except pa.ArrowException:
        return None
    return F.lit(exact.as_py()).cast(castable(type_of(wanted)))


def _comparison(
    operation: Callable[[Column, Column], Column], guard: Callable[[Column, Column, Column], Column], guarded: int
) -> Callable[[Call, Types], Column]:
    """Returns the translation of a comparison. In Spark NaN is equal to itself and larger than all other numbers.

    Args:
        guard: corrects the result for NaN, given the result and both sides.
        guarded: the side whose NaN changes the result.
    """

    def make(call: Call, columns: Types) -> Column:
        one, other = _comparable(call.arguments, columns)
        result = operation(one, other)
        if not any(_is_float(argument, columns) for argument in call.arguments):
            return result
        sides = call.arguments if guarded == _BOTH else (call.arguments[guarded],)
        if any(not _may_be_nan(side, columns) for side in sides):
            return result
        return guard(result, one.cast("double"), other.cast("double"))

    return make


def _unless_right_is_nan(is_so: Column, one: Column, other: Column) -> Column:
    return is_so & (~F.isnan(other) | one.isNull())


def _unless_left_is_nan(is_so: Column, one: Column, other: Column) -> Column:
    return is_so & (~F.isnan(one) | other.isNull())


def _may_be_nan(argument: Expression, columns: Types) -> bool:
    if isinstance(argument, Literal):
        return isinstance(argument.value, float) and math.isnan(argument.value)
    return _is_float(argument, columns)


def _is_float(expression: Expression, columns: Types) -> bool:
    return isinstance(type_of(_type(expression, columns)), t.FloatType | t.DoubleType)


def _in(call: Call, columns: Types) -> Column:
    if any(_is_float(argument, columns) for argument in call.arguments):
        raise NotExpressible("in_ of floats")
    values, *literals = _comparable(call.arguments, columns)
    return values.isin(*literals)


def _logic(operation: Callable[[Column, Column], Column]) -> Callable[[Call, Types], Column]:
    def make(call: Call, columns: Types) -> Column:
        return reduce(operation, [to_column(argument, columns) for argument in call.arguments])

    return make


def _plain(function: Callable[..., Column]) -> Callable[[Call, Types], Column]:
    def make(call: Call, columns: Types) -> Column:
        return function(*[to_column(argument, columns) for argument in call.arguments])

    return make


def _if_then_else(call: Call, columns: Types) -> Column:
    result = _type(call, columns)
    condition, if_true, if_false = (to_column(argument, columns) for argument in call.arguments)
    return F.when(condition, _cast_to(if_true, result)).otherwise(_cast_to(if_false, result))


def _coalesce(call: Call, columns: Types) -> Column:
    result = _type(call, columns)
    return F.coalesce(*[_cast_to(to_column(argument, columns), result) for argument in call.arguments])


# -- strings ---------------------------------------------------------------------------------------------------------


#: A backslash before an ordinary character or at the end. Spark refuses such patterns.
_OTHER_ESCAPES = re.compile(r"(?<!\\)(\\\\)*\\([^%_\\]|$)")


def _like(call: Call, columns: Types) -> Column:
    if _OTHER_ESCAPES.search(call.options[0]):
        raise NotExpressible(f"the pattern {call.options[0]!r}")
    return to_column(call.arguments[0], columns).like(call.options[0])


def _substring(call: Call, columns: Types) -> Column:
    begin, length = call.options
    values = to_column(call.arguments[0], columns)
    if begin < 1:
        raise NotExpressible(f"substring from {begin}")
    return F.substring(values, begin, (1 << 31) - 1 if length is None else length)


def _starts_with(call: Call, columns: Types) -> Column:
    return to_column(call.arguments[0], columns).startswith(call.options[0])


def _ends_with(call: Call, columns: Types) -> Column:
    return to_column(call.arguments[0], columns).endswith(call.options[0])


# -- times and types -------------------------------------------------------------------------------------------------

_PARTS: dict[str, Callable[[Column], Column]] = {
    "YEAR": F.year,
    "QUARTER": F.quarter,
    "MONTH": F.month,
    "WEEK": F.weekofyear,
    "DAY": F.dayofmonth,
    "HOUR": F.hour,
    "MINUTE": F.minute,
    "SECOND": F.second,
}


def _extract(call: Call, columns: Types) -> Column:
    return _PARTS[call.options[0]](to_column(call.arguments[0], columns)).cast("bigint")


def _cast(call: Call, columns: Types) -> Column:
    argument = call.arguments[0]
    was, wanted = _type(argument, columns), call.options[0]
    values = to_column(argument, columns)
    if was == wanted:
        return values
    one, other = type_of(was), type_of(wanted)
    if _is_cast_alike(one, other):
        return values.cast(castable(other))
    raise NotExpressible(f"a cast of {was!r} to {wanted!r}")


_INTEGERS = (t.ByteType, t.ShortType, t.IntegerType, t.LongType)


def _is_cast_alike(one: t.DataType, other: t.DataType) -> bool:
    if isinstance(one, _INTEGERS):
        return isinstance(other, (*_INTEGERS, t.FloatType, t.DoubleType, t.DecimalType, t.StringType))
    if isinstance(one, t.DecimalType):
        return isinstance(other, t.DoubleType | t.DecimalType)
    if isinstance(one, t.FloatType):
        return isinstance(other, t.DoubleType)
    if isinstance(one, t.DateType):
        return isinstance(other, t.TimestampNTZType | t.StringType)
    if isinstance(one, t.TimestampNTZType):
        return isinstance(other, t.DateType)
    if isinstance(one, t.BooleanType):
        return isinstance(other, _INTEGERS)
    return False


_FUNCTIONS: dict[str, Callable[[Call, Types], Column]] = {
    "plus": _arithmetic(lambda one, other: one + other),
    "minus": _arithmetic(lambda one, other: one - other),
    "times": _arithmetic(lambda one, other: one * other),
    "divide": _divide,
    "mod": _mod,
    "minusPrefix": _negative,
    "abs": _abs,
    "floor": _whole(F.floor),
    "ceil": _whole(F.ceil),
    "round": _round,
    "equals": _comparison(
        lambda one, other: one == other, lambda is_so, one, other: is_so & ~(F.isnan(one) & F.isnan(other)), _BOTH
    ),
    "notEquals": _comparison(
        lambda one, other: one != other, lambda is_so, one, other: is_so | (F.isnan(one) & F.isnan(other)), _BOTH
    ),
    "lessThan": _comparison(lambda one, other: one < other, _unless_right_is_nan, 1),
    "lessThanOrEqual": _comparison(lambda one, other: one <= other, _unless_right_is_nan, 1),
    "greaterThan": _comparison(lambda one, other: one > other, _unless_left_is_nan, 0),
    "greaterThanOrEqual": _comparison(lambda one, other: one >= other, _unless_left_is_nan, 0),
    "in": _in,
    "and": _logic(lambda one, other: one & other),
    "or": _logic(lambda one, other: one | other),
    "not": _plain(lambda value: ~value),
    "isNull": _plain(F.isnull),
    "isNotNull": _plain(F.isnotnull),
    "isTrue": _plain(lambda value: F.coalesce(value, F.lit(False))),
    "isFalse": _plain(lambda value: F.coalesce(~value, F.lit(False))),
    "ifThenElse": _if_then_else,
    "coalesce": _coalesce,
    "like": _like,
    "substring": _substring,
    "startsWith": _starts_with,
    "endsWith": _ends_with,
    # upper and lower are missing because Java maps some letters differently, for example one letter to two.
    "charLength": _unary(F.char_length),
    "trim": _plain(F.trim),
    "concat": _plain(F.concat),
    "extract": _extract,
    "cast": _cast,
}
