"""What expressions begin with: `col`, `lit` and functions, with the names of `pyflink.table.expressions`."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.common.time import Instant
from flinkpy.common.typeinfo import DecimalTypeInfo, TypeInformation, Types
from flinkpy.expressions.nodes import Call, ColumnReference, Expression, Literal, without_alias

_INT_BITS, _LONG_BITS = 31, 63
_MAX_DIGITS = 38


def col(name: str) -> Expression:
    """The column of that name."""
    if not isinstance(name, str) or not name:
        raise TypeError(f"col: a column's name must be a non-empty string, not {name!r}")
    return ColumnReference(name)


def lit(v: Any, data_type: TypeInformation | None = None) -> Expression:
    """A value that is the same in every row, e.g. `lit(Decimal("0.05"))`; its type is that of the Python value.

    An int is INT where it fits and else LONG, a float DOUBLE, a Decimal a DECIMAL with just the digits that it has.

    Raises: TypeError: the value is of no type with columns, or None without a `data_type`.
    """
    if isinstance(v, Expression):
        return v
    literal_type = type_of_value(v) if data_type is None else data_type
    return Literal(v, literal_type)


def type_of_value(value: Any) -> TypeInformation:
    """The type of a Python value as a literal. Raises: TypeError."""
    if isinstance(value, bool):
        return Types.BOOLEAN()
    if isinstance(value, int):
        bits = value.bit_length() if value >= 0 else (value + 1).bit_length()
        if bits > _LONG_BITS:
            return _decimal_type(decimal.Decimal(value))
        return Types.INT() if bits <= _INT_BITS else Types.LONG()
    if isinstance(value, decimal.Decimal):
        return _decimal_type(value)
    for python_type, type_info in _LITERAL_TYPES:
        if isinstance(value, python_type):
            return type_info
    raise TypeError(f"{value!r} is no literal of an expression; give lit(value, type) or a value of a simple type")


def _decimal_type(value: decimal.Decimal) -> TypeInformation:
    if not value.is_finite():
        raise TypeError(f"{value!r} is no number that a decimal column holds")
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    scale = max(0, -exponent)
    precision = max(len(digits) + max(0, exponent), scale, 1)
    if precision > _MAX_DIGITS:
        raise TypeError(f"{value!r} has more than {_MAX_DIGITS} digits")
    return DecimalTypeInfo(precision, scale)


_LITERAL_TYPES: tuple[tuple[type, TypeInformation], ...] = (
    (float, Types.DOUBLE()),
    (str, Types.STRING()),
    (bytes, Types.PRIMITIVE_ARRAY(Types.BYTE())),
    (datetime.datetime, Types.SQL_TIMESTAMP()),
    (datetime.date, Types.SQL_DATE()),
    (datetime.time, Types.SQL_TIME()),
    (Instant, Types.INSTANT()),
)


def call(function: str, *arguments: Any, options: tuple[Any, ...] = ()) -> Expression:
    """The function of expressions or plain values."""
    return Call(function, tuple(without_alias(lit(argument)) for argument in arguments), options)


def null_of(data_type: TypeInformation) -> Expression:
    """Null, of that type."""
    return Literal(None, data_type)


def and_(predicate0: Any, predicate1: Any, *predicates: Any) -> Expression:
    """Whether all hold."""
    joined = call("and", predicate0, predicate1)
    for predicate in predicates:
        joined = call("and", joined, predicate)
    return joined


def or_(predicate0: Any, predicate1: Any, *predicates: Any) -> Expression:
    """Whether one holds."""
    joined = call("or", predicate0, predicate1)
    for predicate in predicates:
        joined = call("or", joined, predicate)
    return joined


def not_(expression: Any) -> Expression:
    return call("not", expression)


def if_then_else(condition: Any, if_true: Any, if_false: Any) -> Expression:
    """`if_true` where the condition is true, and `if_false` where it is false or null."""
    return call("ifThenElse", condition, if_true, if_false)


def coalesce(*args: Any) -> Expression:
    """The first of them that is not null."""
    if not args:
        raise UnsupportedOperationError("coalesce needs at least one expression")
    return call("coalesce", *args)


def concat(first: Any, *others: Any) -> Expression:
    """The strings together; null where one is null."""
    return call("concat", first, *others)


def negative(v: Any) -> Expression:
    return call("minusPrefix", v)
