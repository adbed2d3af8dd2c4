"""Converts predicates of streams to filters of table formats, which skip partitions, files and records.

A filter may be weaker than the predicate, never stronger: the program's own filter stays behind the source.
"""

from __future__ import annotations

import datetime
import decimal
from typing import Any, Generic, Protocol, TypeVar

from flinkpy.expressions.nodes import Call, ColumnReference, Expression, Literal

FilterT = TypeVar("FilterT")

#: The comparison with exchanged sides.
_MIRRORED = {
    "equals": "equals",
    "notEquals": "notEquals",
    "lessThan": "greaterThan",
    "lessThanOrEqual": "greaterThanOrEqual",
    "greaterThan": "lessThan",
    "greaterThanOrEqual": "lessThanOrEqual",
}


class FilterFactory(Protocol, Generic[FilterT]):
    """Makes the filters of a format."""

    def compare(self, function: str, column: str, value: Any) -> FilterT: ...

    def is_in(self, column: str, values: list[Any]) -> FilterT: ...

    def is_null(self, column: str) -> FilterT: ...

    def is_not_null(self, column: str) -> FilterT: ...

    def starts_with(self, column: str, prefix: str) -> FilterT: ...

    def both(self, one: FilterT, other: FilterT) -> FilterT: ...

    def either(self, one: FilterT, other: FilterT) -> FilterT: ...


def to_filter(
    predicate: Expression | None, kinds: dict[str, type[Any]], factory: FilterFactory[FilterT]
) -> FilterT | None:
    """Returns a filter that is true wherever the predicate is true; None if there is no useful one.

    Args:
        kinds: the Python types of the columns that filters may use. A column is compared with values of its own type
            only, because formats convert other values by rules of their own.
    """
    if not isinstance(predicate, Call):
        return None
    if predicate.function == "and":
        parts = [to_filter(each, kinds, factory) for each in predicate.arguments]
        known = [each for each in parts if each is not None]
        if not known:
            return None
        result = known[0]
        for each in known[1:]:
            result = factory.both(result, each)
        return result
    if predicate.function == "or":
        one, other = (to_filter(each, kinds, factory) for each in predicate.arguments)
        return None if one is None or other is None else factory.either(one, other)
    return _condition(predicate, kinds, factory)


def _condition(call: Call, kinds: dict[str, type[Any]], factory: FilterFactory[FilterT]) -> FilterT | None:
    function, arguments = call.function, call.arguments
    if function in _MIRRORED and isinstance(arguments[0], Literal):
        function, arguments = _MIRRORED[function], arguments[::-1]
    if not isinstance(arguments[0], ColumnReference) or arguments[0].name not in kinds:
        return None
    column = arguments[0].name
    kind = kinds[column]
    if not all(isinstance(each, Literal) and type(each.value) is kind for each in arguments[1:]):
        return None
    values = [each.value for each in arguments[1:] if isinstance(each, Literal)]
    if function in _MIRRORED:
        return factory.compare(function, column, values[0])
    if function == "in":
        return factory.is_in(column, values)
    if function == "isNull":
        return factory.is_null(column)
    if function == "isNotNull":
        return factory.is_not_null(column)
    if function == "startsWith" and kind is str:
        return factory.starts_with(column, call.options[0])
    return None


def comparable_columns(schema: Any) -> dict[str, type[Any]]:
    """Returns the Python types of the columns that filters may use.

    Floating-point columns are left out: formats differ in how they count and order NaN and the two zeros.
    """
    import pyarrow as pa

    kinds: dict[str, type[Any]] = {}
    for field in schema:
        kind = field.type
        if pa.types.is_boolean(kind):
            kinds[field.name] = bool
        elif pa.types.is_integer(kind):
            kinds[field.name] = int
        elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
            kinds[field.name] = str
        elif pa.types.is_date(kind):
            kinds[field.name] = datetime.date
        elif pa.types.is_timestamp(kind) and kind.tz is None:
            kinds[field.name] = datetime.datetime
        elif pa.types.is_decimal(kind):
            kinds[field.name] = decimal.Decimal
    return kinds
