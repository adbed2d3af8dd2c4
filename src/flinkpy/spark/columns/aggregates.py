"""Aggregates over columns as Spark's own aggregates, with flinkpy's results: types, nulls, NaN and overflow."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as t

from flinkpy.graph.operator_specs import ColumnAggregate
from flinkpy.spark.columns.names import ColumnTypes, column, name_of
from flinkpy.spark.columns.not_expressible import NotExpressible

if TYPE_CHECKING:
    from pyspark.sql import Column

_INTEGERS = (t.ByteType, t.ShortType, t.IntegerType, t.LongType)
_FLOATS = (t.FloatType, t.DoubleType)
#: The types whose values have the same order in Spark and in Arrow.
_ORDERED = (
    *_INTEGERS,
    t.BooleanType,
    t.StringType,
    t.BinaryType,
    t.DecimalType,
    t.DateType,
    t.TimestampType,
    t.TimestampNTZType,
)


def key_columns(columns: ColumnTypes, fields: tuple[int | str, ...]) -> list[str]:
    """Returns the names of the key columns. Null is a key like any other, as in GROUP BY.

    Raises:
        NotExpressible: the keys are floats (in Spark -0.0 and 0.0 are the same key), or Spark orders them otherwise.
    """
    names = [name_of(columns, field) for field in fields]
    for name in names:
        if not isinstance(columns[name], _ORDERED):
            raise NotExpressible(f"the key column {name!r} is {columns[name].simpleString()}")
    return names


def aggregate_column(columns: ColumnTypes, aggregate: ColumnAggregate) -> Column:
    """Returns an aggregate as a column.

    Raises:
        NotExpressible: for FIRST and LAST, which need the order of arrival; for variances and standard deviations,
        which
            Spark rounds otherwise; and for functions of the program.
    """
    function = aggregate.function.upper()
    if aggregate.compiled is not None:
        raise NotExpressible(f"{aggregate.name!r} is a compiled function")
    if function == "COUNT" and aggregate.column is None:
        return F.count(F.lit(1)).alias(aggregate.name)
    make = _FUNCTIONS.get(function)
    if make is None or aggregate.column is None:
        raise NotExpressible(f"{aggregate.name!r} is {function}")
    name = name_of(columns, aggregate.column)
    return make(column(name), columns[name]).alias(aggregate.name)


def part_of_record(columns: ColumnTypes, aggregate: ColumnAggregate) -> Column:
    """Returns the aggregate of each single record. SUM combines COUNTs and SUMs, MIN combines MINs, MAX combines MAXs.

    Raises: NotExpressible.
    """
    function = aggregate.function.upper()
    if function == "COUNT" and aggregate.column is None:
        return F.lit(1).cast("bigint").alias(aggregate.name)
    if aggregate.column is None or function not in ("COUNT", "SUM", "MIN", "MAX"):
        raise NotExpressible(f"{aggregate.name!r} is {function}")
    name = name_of(columns, aggregate.column)
    values, kind = column(name), columns[name]
    if function == "COUNT":
        values = F.when(values.isNull(), F.lit(0)).otherwise(F.lit(1)).cast("bigint")
    elif function == "SUM" and isinstance(kind, (*_INTEGERS, t.BooleanType)):
        values = values.cast("bigint")
    elif function == "SUM" and isinstance(kind, _FLOATS):
        values = values.cast("double")
    return values.alias(aggregate.name)


def _count(values: Column, kind: t.DataType) -> Column:
    return F.count(values)


def _count_distinct(values: Column, kind: t.DataType) -> Column:
    if isinstance(kind, (*_ORDERED, *_FLOATS)):
        # Both engines count -0.0 and 0.0 as one value, and all NaNs as one.
        return F.count_distinct(values)
    raise NotExpressible(f"COUNT_DISTINCT of {kind.simpleString()}")


def _sum(values: Column, kind: t.DataType) -> Column:
    if isinstance(kind, t.BooleanType):
        return F.sum(values.cast("bigint"))
    if isinstance(kind, (*_INTEGERS, *_FLOATS)):
        return F.sum(values)
    if isinstance(kind, t.DecimalType):
        return F.sum(values).cast(t.DecimalType(38, kind.scale))
    raise NotExpressible(f"SUM of {kind.simpleString()}")


def _mean(values: Column, kind: t.DataType) -> Column:
    if isinstance(kind, t.DecimalType):
        values = values.cast("double")
    # avg() would sum integers as doubles. Here the sum has 64 bits and wraps around.
    total = F.sum(values.cast("bigint") if isinstance(kind, t.BooleanType) else values)
    if not isinstance(kind, (*_INTEGERS, *_FLOATS, t.BooleanType, t.DecimalType)):
        raise NotExpressible(f"MEAN of {kind.simpleString()}")
    return F.try_divide(total.cast("double"), F.count(values).cast("double"))


def _min(values: Column, kind: t.DataType) -> Column:
    return _extreme(F.min, values, kind)


def _max(values: Column, kind: t.DataType) -> Column:
    return _extreme(F.max, values, kind)


def _extreme(function: Callable[[Column], Column], values: Column, kind: t.DataType) -> Column:
    if isinstance(kind, _FLOATS):
        # NaN is the result only if there is no other value. Spark treats it as the largest number.
        return F.coalesce(function(F.when(~F.isnan(values), values)), function(values))
    if isinstance(kind, _ORDERED):
        return function(values)
    raise NotExpressible(f"MIN or MAX of {kind.simpleString()}")


_FUNCTIONS: dict[str, Callable[[Column, t.DataType], Column]] = {
    "COUNT": _count,
    "SUM": _sum,
    "MIN": _min,
    "MAX": _max,
    "MEAN": _mean,
    "COUNT_DISTINCT": _count_distinct,
}
