"""Aggregates over columns, for `KeyedStream.aggregate`. Beyond PyFlink.

```python
stream.key_by("carrier", "origin").aggregate(count("flights"), mean("dep_delay"), max_("dep_delay", "worst"))
```
The result has the key columns, then one column per aggregate. No Python object is made per row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flinkpy.common.errors import UserError
from flinkpy.common.typeinfo import (
    BasicType,
    BasicTypeInfo,
    DateTypeInfo,
    DecimalTypeInfo,
    RowTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TypeInformation,
    Types,
)
from flinkpy.datastream import function_checks as checks
from flinkpy.expressions import decimals
from flinkpy.expressions.nodes import ColumnReference, Expression, without_alias
from flinkpy.graph.operator_specs import ColumnAggregate, FieldKeySelector

__all__ = [
    "avg",
    "count",
    "count_distinct",
    "first",
    "last",
    "max_",
    "mean",
    "min_",
    "stddev_pop",
    "stddev_samp",
    "sum_",
    "var_pop",
    "var_samp",
]

COUNT = "COUNT"
SUM = "SUM"
MIN = "MIN"
MAX = "MAX"
MEAN = "MEAN"
AVG = "AVG"
FIRST = "FIRST"
LAST = "LAST"
COUNT_DISTINCT = "COUNT_DISTINCT"
VAR_POP = "VAR_POP"
VAR_SAMP = "VAR_SAMP"
STDDEV_POP = "STDDEV_POP"
STDDEV_SAMP = "STDDEV_SAMP"
SPREADS = (VAR_POP, VAR_SAMP, STDDEV_POP, STDDEV_SAMP)

_INTEGERS = frozenset({BasicType.BYTE, BasicType.SHORT, BasicType.INT, BasicType.LONG})
_FLOATS = frozenset({BasicType.FLOAT, BasicType.DOUBLE})


def count(name: str = "count", column: str | Expression | None = None) -> ColumnAggregate:
    """Counts rows, or the rows whose `column` is not null. The result is a LONG."""
    return ColumnAggregate(name, COUNT) if column is None else _aggregate(COUNT, column, name)


def count_distinct(column: str | Expression, name: str | None = None) -> ColumnAggregate:
    """Counts the different values of a column or expression that are not null. The result is a LONG.

    The aggregate keeps all different values, in memory or in the state backend.
    """
    return _aggregate(COUNT_DISTINCT, column, name)


def sum_(column: str | Expression, name: str | None = None) -> ColumnAggregate:
    """Sums a column or expression.

    The result is a LONG for integers, a DOUBLE for floats, a BIG_DEC for BIG_DEC, and for a DECIMAL a DECIMAL with ten
    more digits.
    """
    return _aggregate(SUM, column, name)


def min_(column: str | Expression, name: str | None = None) -> ColumnAggregate:
    """Returns the smallest value of a column or expression, of the same type."""
    return _aggregate(MIN, column, name)


def max_(column: str | Expression, name: str | None = None) -> ColumnAggregate:
    """Returns the largest value of a column or expression, of the same type."""
    return _aggregate(MAX, column, name)


def mean(column: str | Expression, name: str | None = None) -> ColumnAggregate:
    """Returns the mean of a column or expression, a DOUBLE."""
    return _aggregate(MEAN, column, name)


def avg(column: str | Expression, name: str | None = None) -> ColumnAggregate:
    """Returns SQL's AVG of a column or expression.

    The result is a DOUBLE. For decimals it is a DECIMAL with four more digits after the point, rounded half up.
    """
    return _aggregate(AVG, column, name)


def var_pop(column: str | Expression, name: str | None = None) -> ColumnAggregate:
    """Returns the population variance of a column or expression of numbers, a DOUBLE.

    It is the mean of the squared distances to the mean.
    """
    return _aggregate(VAR_POP, column, name)


def var_samp(column: str | Expression, name: str | None = None) -> ColumnAggregate:
    """Returns the sample variance, a DOUBLE: divided by the number of values minus one, and null for a single value."""
    return _aggregate(VAR_SAMP, column, name)


def stddev_pop(column: str | Expression, name: str | None = None) -> ColumnAggregate:
    """Returns the population standard deviation, the square root of `var_pop`. The result is a DOUBLE."""
    return _aggregate(STDDEV_POP, column, name)


def stddev_samp(column: str | Expression, name: str | None = None) -> ColumnAggregate:
    """Returns the sample standard deviation, the square root of `var_samp`. The result is a DOUBLE."""
    return _aggregate(STDDEV_SAMP, column, name)


def first(column: str | Expression, name: str | None = None) -> ColumnAggregate:
    """Returns the first value that is not null, in the order of arrival. The result is of the column's type."""
    return _aggregate(FIRST, column, name)


def last(column: str | Expression, name: str | None = None) -> ColumnAggregate:
    """Returns the last value that is not null, in the order of arrival. The result is of the column's type."""
    return _aggregate(LAST, column, name)


def _aggregate(function: str, column: str | Expression, name: str | None) -> ColumnAggregate:
    if isinstance(column, Expression):
        inner = without_alias(column)
        if not isinstance(inner, ColumnReference):
            return ColumnAggregate(name or function.lower(), function, expression=inner)
        column = inner.name
    return ColumnAggregate(name or f"{function.lower()}_{column}", function, column)


def named(aggregates: tuple[Any, ...], by_name: dict[str, Any]) -> tuple[ColumnAggregate, ...]:
    """Returns the aggregates of an `aggregate` call. A keyword is the name of its aggregate.

    Raises: TypeError; ValueError if there is no aggregate, or two have the same name.
    """
    for aggregate in (*aggregates, *by_name.values()):
        if not isinstance(aggregate, ColumnAggregate):
            raise TypeError(f"{aggregate!r} is not an aggregate of flinkpy.datastream.aggregates")
    wanted = (*aggregates, *(aggregate.renamed(name) for name, aggregate in by_name.items()))
    if not wanted:
        raise ValueError("aggregate needs at least one aggregate")
    names = [aggregate.name for aggregate in wanted]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"two aggregates have the name {name!r}; give one another name with a keyword")
    return wanted


def output_type(
    stream_type: TypeInformation | None,
    key_selector: Any,
    wanted: tuple[ColumnAggregate, ...],
    times: tuple[str, ...] = (),
) -> RowTypeInfo:
    """Returns the type of the result: the key columns, then `times` (LONG), then one column per aggregate.

    Raises:
        UserError: the stream or its key are not columns, there is no such column, or two columns of the result have the
            same name.
    """
    columns = checks.columns_of_type(stream_type)
    if columns is None:
        raise UserError("aggregate works on columns: the stream must be of a declared TUPLE or ROW type")
    if not isinstance(key_selector, FieldKeySelector):
        raise UserError('aggregate works on columns: the key must be columns too, as in key_by("name")')
    keys = [field if isinstance(field, str) else list(columns)[field] for field in key_selector.fields]
    names = [*keys, *times, *(aggregate.name for aggregate in wanted)]
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"aggregate: the result would have two columns {name!r}: give the aggregate another name")
    types = [*(columns[key] for key in keys), *(Types.LONG() for _ in times)]
    types.extend(result_type(aggregate, columns) for aggregate in wanted)
    return RowTypeInfo(types, names)


def result_type(aggregate: ColumnAggregate, columns: Mapping[str, TypeInformation]) -> TypeInformation:
    """Returns the type of an aggregate's result over a stream with these columns.

    The aggregate is neither AVG nor of an expression: a plan contains none of these.

    Raises:
        UserError: there is no such column, or it cannot be aggregated in this way. The error names it.
    """
    for column in (aggregate.column, *aggregate.columns):
        if column is not None and column not in columns:
            raise UserError(f"aggregate {aggregate.name!r}: the stream has no column {column!r}, only {list(columns)}")
    if aggregate.compiled is not None:
        return aggregate.compiled.output_type  # type: ignore[no-any-return]
    if aggregate.function == COUNT:
        return Types.LONG()
    column_type = columns[aggregate.column or ""]
    if aggregate.function == COUNT_DISTINCT:
        if not isinstance(column_type, (BasicTypeInfo, DateTypeInfo, TimeTypeInfo, TimestampTypeInfo)):
            raise UserError(
                f"aggregate {aggregate.name!r}: column {aggregate.column!r} is a {column_type!r}, and count_distinct "
                "takes plain values"
            )
        return Types.LONG()
    if aggregate.function in (MIN, MAX, FIRST, LAST):
        return column_type
    kind = column_type.basic_type if isinstance(column_type, BasicTypeInfo) else None
    if kind not in _INTEGERS | _FLOATS | {BasicType.BIG_DEC}:
        raise UserError(f"aggregate {aggregate.name!r}: column {aggregate.column!r} is a {column_type!r}, not a number")
    if aggregate.function in (MEAN, *SPREADS) or kind in _FLOATS:
        return Types.DOUBLE()
    if isinstance(column_type, DecimalTypeInfo):
        return decimals.sum_of((column_type.precision, column_type.scale))
    return Types.BIG_DEC() if kind is BasicType.BIG_DEC else Types.LONG()
