"""Aggregates over columns, for `KeyedStream.aggregate`. Beyond PyFlink.

```python
stream.key_by("carrier", "origin").aggregate(count("flights"), mean("dep_delay"), max_("dep_delay", "worst"))
```
The result has the key columns, then one column per aggregate, and never makes a Python object per row.
"""

from __future__ import annotations

from flinkpy.common.errors import UserError
from flinkpy.common.typeinfo import BasicType, BasicTypeInfo, TypeInformation, Types
from flinkpy.graph.operator_specs import ColumnAggregate

__all__ = ["count", "max_", "mean", "min_", "sum_"]

COUNT = "COUNT"
SUM = "SUM"
MIN = "MIN"
MAX = "MAX"
MEAN = "MEAN"

_INTEGERS = frozenset({BasicType.BYTE, BasicType.SHORT, BasicType.INT, BasicType.LONG})
_FLOATS = frozenset({BasicType.FLOAT, BasicType.DOUBLE})


def count(name: str = "count", column: str | None = None) -> ColumnAggregate:
    """Number of rows, or of those where `column` is not null. LONG."""
    return ColumnAggregate(name, COUNT, column)


def sum_(column: str, name: str | None = None) -> ColumnAggregate:
    """Sum of a column: LONG of integers, DOUBLE of floats, BIG_DEC of decimals."""
    return ColumnAggregate(name or f"sum_{column}", SUM, column)


def min_(column: str, name: str | None = None) -> ColumnAggregate:
    """Smallest value of a column, of its type."""
    return ColumnAggregate(name or f"min_{column}", MIN, column)


def max_(column: str, name: str | None = None) -> ColumnAggregate:
    """Largest value of a column, of its type."""
    return ColumnAggregate(name or f"max_{column}", MAX, column)


def mean(column: str, name: str | None = None) -> ColumnAggregate:
    """Mean of a column. DOUBLE."""
    return ColumnAggregate(name or f"mean_{column}", MEAN, column)


def result_type(aggregate: ColumnAggregate, columns: dict[str, TypeInformation]) -> TypeInformation:
    """Type of an aggregate's column over a stream with these columns.

    Raises:
        UserError: there is no such column, or it cannot be aggregated so; names it.
    """
    if aggregate.column is not None and aggregate.column not in columns:
        raise UserError(
            f"aggregate {aggregate.name!r}: the stream has no column {aggregate.column!r}, only {list(columns)}"
        )
    if aggregate.function == COUNT:
        return Types.LONG()
    column_type = columns[aggregate.column or ""]
    if aggregate.function in (MIN, MAX):
        return column_type
    kind = column_type.basic_type if isinstance(column_type, BasicTypeInfo) else None
    if kind not in _INTEGERS | _FLOATS | {BasicType.BIG_DEC}:
        raise UserError(f"aggregate {aggregate.name!r}: column {aggregate.column!r} is a {column_type!r}, not a number")
    if aggregate.function == MEAN or kind in _FLOATS:
        return Types.DOUBLE()
    return Types.BIG_DEC() if kind is BasicType.BIG_DEC else Types.LONG()
