"""Decides from bounds of columns whether a predicate can be true for any record of a block, such as a row group."""

from __future__ import annotations

import decimal
from collections.abc import Callable
from typing import Any, NamedTuple

from flinkpy.expressions.nodes import Call, ColumnReference, Expression, Literal


class Bounds(NamedTuple):
    """The values of a column in a block.

    Attributes:
        low, high: no value is smaller or larger. None if that is not known.
        has_nulls, has_values: False if no value is null, or if all are.
        is_exact: True if `low` and `high` are values of the column, and it has no NaN.
    """

    low: Any
    high: Any
    has_nulls: bool = True
    has_values: bool = True
    is_exact: bool = False


#: Returns the bounds of a column; None if they are not known.
BoundsOf = Callable[[str], Bounds | None]

#: Comparisons and their equivalents with exchanged sides.
_EXCHANGED = {
    "equals": "equals",
    "notEquals": "notEquals",
    "lessThan": "greaterThan",
    "lessThanOrEqual": "greaterThanOrEqual",
    "greaterThan": "lessThan",
    "greaterThanOrEqual": "lessThanOrEqual",
}


def may_be_true(predicate: Expression, bounds_of: BoundsOf) -> bool:
    """False if the bounds show that the predicate is true for no record."""
    if not isinstance(predicate, Call) or not predicate.arguments:
        return True
    function, arguments = predicate.function, predicate.arguments
    if function == "and":
        return all(may_be_true(each, bounds_of) for each in arguments)
    if function == "or":
        return any(may_be_true(each, bounds_of) for each in arguments)
    if function in _EXCHANGED and isinstance(arguments[0], Literal):
        function, arguments = _EXCHANGED[function], arguments[::-1]
    column, *others = arguments
    bounds = bounds_of(column.name) if isinstance(column, ColumnReference) else None
    if bounds is None:
        return True
    if function == "isNull":
        return bounds.has_nulls
    if function == "isNotNull":
        return bounds.has_values
    values = [other.value for other in others if isinstance(other, Literal)]
    if function == "startsWith":
        values = list(predicate.options)
    elif (function != "in" and function not in _EXCHANGED) or len(values) < len(others):
        return True
    if not bounds.has_values:
        # All these functions return null for a null column.
        return False
    return bounds.low is None or bounds.high is None or _holds_between(function, bounds, values)


def _holds_between(function: str, bounds: Bounds, values: list[Any]) -> bool:
    low, high = bounds.low, bounds.high
    if any(not (_are_comparable(low, value) and _are_comparable(high, value)) for value in values):
        return True
    if function in ("equals", "in"):
        return any(low <= value <= high for value in values)
    (value,) = values
    if function == "notEquals":
        # Statistics do not include NaN, and long texts are truncated in them.
        is_vague = isinstance(low, float | str | bytes) and not bounds.is_exact
        return is_vague or not low == high == value
    if function == "startsWith":
        return not isinstance(low, str) or bool(low[: len(value)] <= value <= high[: len(value)])
    answers = {
        "lessThan": low < value,
        "lessThanOrEqual": low <= value,
        "greaterThan": high > value,
        "greaterThanOrEqual": high >= value,
    }
    return answers[function]


def _are_comparable(one: Any, other: Any) -> bool:
    """True if Python compares the values like the expression does. NaN compares with nothing."""
    if one != one or other != other:
        return False
    exact = (int, decimal.Decimal)
    return type(one) is type(other) or (type(one) in exact and type(other) in exact)
