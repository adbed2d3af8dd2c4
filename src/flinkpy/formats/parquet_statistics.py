"""Which row groups of a Parquet file cannot have records that a predicate asks for, by their statistics."""

from __future__ import annotations

import decimal
from collections.abc import Mapping
from typing import Any

from flinkpy.common.typeinfo import RowTypeInfo
from flinkpy.expressions.nodes import Call, ColumnReference, Expression, Literal

#: What a comparison is when its sides are exchanged.
_EXCHANGED = {
    "equals": "equals",
    "notEquals": "notEquals",
    "lessThan": "greaterThan",
    "lessThanOrEqual": "greaterThanOrEqual",
    "greaterThan": "lessThan",
    "greaterThanOrEqual": "lessThanOrEqual",
}


def may_have_records(
    file: Any, group: int, predicate: Expression, row_type: RowTypeInfo, names: Mapping[str, str]
) -> bool:
    """False where the row group surely has no record for which the predicate is true.

    Args:
        file: the `pyarrow.parquet.ParquetFile`.
        row_type: the type in which its records are read.
        names: column of the type -> of the file.
    """
    return _RowGroup(file, group, row_type, names).may_hold(predicate)


class _RowGroup:
    def __init__(self, file: Any, group: int, row_type: RowTypeInfo, names: Mapping[str, str]) -> None:
        self._schema = file.schema_arrow
        self._metadata = file.metadata.row_group(group)
        self._types = dict(zip(row_type.get_field_names(), row_type.get_field_types()))
        self._names = names
        self._places = {
            self._metadata.column(place).path_in_schema: place for place in range(self._metadata.num_columns)
        }

    def may_hold(self, predicate: Expression) -> bool:
        if not isinstance(predicate, Call) or not predicate.arguments:
            return True
        function, arguments = predicate.function, predicate.arguments
        if function == "and":
            return all(map(self.may_hold, arguments))
        if function == "or":
            return any(map(self.may_hold, arguments))
        if function in _EXCHANGED and isinstance(arguments[0], Literal):
            function, arguments = _EXCHANGED[function], arguments[::-1]
        column, *others = arguments
        statistics = self._statistics(column)
        if statistics is None:
            return True
        has_nulls, has_values = True, True
        if statistics.has_null_count:
            has_nulls, has_values = statistics.null_count > 0, statistics.null_count < self._metadata.num_rows
        if function == "isNull":
            return has_nulls
        if function == "isNotNull":
            return has_values
        values = [other.value for other in others if isinstance(other, Literal)]
        if function == "startsWith":
            values = list(predicate.options)
        elif (function != "in" and function not in _EXCHANGED) or len(values) < len(others):
            return True
        if not has_values:
            # Every one of them is null where the column is.
            return False
        return not statistics.has_min_max or _may_be_true(function, statistics.min, statistics.max, values)

    def _statistics(self, column: Expression) -> Any:
        if not isinstance(column, ColumnReference):
            return None
        from flinkpy.records.lanes import type_info_of_arrow

        name = self._names.get(column.name)
        # A value that is converted when it is read may compare otherwise than as it is stored.
        if (
            name is None
            or name not in self._places
            or type_info_of_arrow(self._schema.field(name).type) != self._types[column.name]
        ):
            return None
        return self._metadata.column(self._places[name]).statistics


def _may_be_true(function: str, low: Any, high: Any, values: list[Any]) -> bool:
    if any(not (_are_comparable(low, value) and _are_comparable(high, value)) for value in values):
        return True
    if function in ("equals", "in"):
        return any(low <= value <= high for value in values)
    (value,) = values
    if function == "notEquals":
        # NaN is no part of the bounds, and long strings are cut off there.
        return isinstance(low, float | str | bytes) or not low == high == value
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
    """Whether Python compares them as the expression does; NaN compares with nothing."""
    if one != one or other != other:
        return False
    exact = (int, decimal.Decimal)
    return type(one) is type(other) or (type(one) in exact and type(other) in exact)
