"""Which row groups of a Parquet file cannot have records that a predicate asks for, by their statistics."""

from __future__ import annotations

import decimal
from collections.abc import Mapping
from typing import Any

from flinkpy.common.typeinfo import RowTypeInfo
from flinkpy.expressions.nodes import Call, ColumnReference, Expression, Literal, conjuncts


def may_have_records(
    file: Any, group: int, predicate: Expression, row_type: RowTypeInfo, names: Mapping[str, str]
) -> bool:
    """False where the row group surely has no record for which the predicate is true.

    Args:
        file: the `pyarrow.parquet.ParquetFile`.
        row_type: the type in which its records are read.
        names: column of the type -> of the file.
    """
    from flinkpy.records.lanes import type_info_of_arrow

    types = dict(zip(row_type.get_field_names(), row_type.get_field_types()))
    schema = file.schema_arrow
    metadata = file.metadata.row_group(group)
    places = {metadata.column(place).path_in_schema: place for place in range(metadata.num_columns)}
    for part in conjuncts(predicate):
        if not isinstance(part, Call) or not isinstance(part.arguments[0], ColumnReference):
            continue
        column = part.arguments[0].name
        name = names.get(column)
        # A value that is converted when it is read may compare otherwise than as it is stored.
        if name is None or name not in places or type_info_of_arrow(schema.field(name).type) != types[column]:
            continue
        statistics = metadata.column(places[name]).statistics
        if statistics is None:
            continue
        if statistics.has_null_count and statistics.null_count == metadata.num_rows:
            return False
        values = [argument.value for argument in part.arguments[1:] if isinstance(argument, Literal)]
        if not statistics.has_min_max or len(values) < len(part.arguments) - 1:
            continue
        if not _may_be_true(part.function, statistics.min, statistics.max, values):
            return False
    return True


def _may_be_true(function: str, low: Any, high: Any, values: list[Any]) -> bool:
    if any(not (_are_comparable(low, value) and _are_comparable(high, value)) for value in values):
        return True
    if function in ("equals", "in"):
        return any(low <= value <= high for value in values)
    (value,) = values
    answers = {
        "lessThan": low < value,
        "lessThanOrEqual": low <= value,
        "greaterThan": high > value,
        "greaterThanOrEqual": high >= value,
    }
    return answers.get(function, True)


def _are_comparable(one: Any, other: Any) -> bool:
    """Whether Python compares them as the expression does; NaN compares with nothing."""
    if one != one or other != other:
        return False
    exact = (int, decimal.Decimal)
    return type(one) is type(other) or (type(one) in exact and type(other) in exact)
