"""Aggregates over columns, of whole inputs and of windows, as Spark's own aggregates.

The results have flinkpy's types, nulls, NaNs and overflow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pyspark.sql import types as t

from flinkpy.graph.operator_specs import (
    ColumnAggregate,
    ColumnAggregateSpec,
    FieldKeySelector,
    GlobalColumnAggregateSpec,
    PreAggregateSpec,
    WindowAggregateSpec,
)
from flinkpy.spark.columns.functions import F, Window
from flinkpy.spark.columns.names import ColumnTypes, NotExpressible, castable, column, name_of, without_timestamps
from flinkpy.spark.stream_frame import TIMESTAMP_COLUMN

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


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
        NotExpressible: the keys are floats (in Spark -0.0 and 0.0 are the same key), or Spark orders them differently.
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
            which Spark rounds differently; and for functions of the program.
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
        return F.sum(values).cast(castable(t.DecimalType(38, kind.scale)))
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


#: The single key of a stream without keys. With a key, an empty input has no result instead of one row.
_ONE_KEY = "__all"


def aggregate_by_key(frame: DataFrame, columns: ColumnTypes, spec: ColumnAggregateSpec) -> DataFrame:
    """Returns the key columns and one column per aggregate, without timestamps.

    Raises: NotExpressible.
    """
    if spec.emit != "FINAL" or not isinstance(spec.key_selector, FieldKeySelector):
        raise NotExpressible("updates, or a key other than a column")
    keys = key_columns(columns, spec.key_selector.fields)
    aggregates = [aggregate_column(columns, aggregate) for aggregate in spec.aggregates]
    by = list(map(column, keys)) or [F.lit(0).alias(_ONE_KEY)]
    grouped = frame.groupBy(*by).agg(*aggregates)
    names = [*keys, *(aggregate.name for aggregate in spec.aggregates)]
    return grouped.select(*map(column, names), without_timestamps())


def pre_aggregate(frame: DataFrame, columns: ColumnTypes, spec: PreAggregateSpec) -> DataFrame:
    """Returns each record as its own aggregate. Spark combines them before the exchange of the final aggregation.

    Raises: NotExpressible.
    """
    keys = key_columns(columns, spec.key_selector.fields)
    parts = [part_of_record(columns, aggregate) for aggregate in spec.aggregates]
    return frame.select(*map(column, keys), *parts, without_timestamps())


def aggregate_all(frame: DataFrame, columns: ColumnTypes, spec: GlobalColumnAggregateSpec) -> DataFrame:
    """Returns one row, even for an empty input. Raises: NotExpressible."""
    aggregates = [aggregate_column(columns, aggregate) for aggregate in spec.aggregates]
    return frame.agg(*aggregates).withColumn(TIMESTAMP_COLUMN, without_timestamps())


#: Auxiliary columns while records are assigned to windows.
_TIME = "__time"
_BEGINS = "__begins"
_WINDOW = "__window"
_END = "__window_end"


def aggregate_windows(
    frame: DataFrame, columns: ColumnTypes, spec: WindowAggregateSpec, operator_name: str
) -> DataFrame:
    """Returns the key columns, `window_start`, `window_end` and one column per aggregate of event-time windows.

    In batch mode no watermark comes before the end of the input, so no record is late and every window fires once. The
    timestamp of a result is the last millisecond of its window.

    Raises: NotExpressible.
    """
    if not spec.is_event_time:
        raise NotExpressible("windows of processing time")
    selector = spec.key_selector
    fields = selector.fields if isinstance(selector, FieldKeySelector) else None
    if fields is None:
        raise NotExpressible("a key other than a column")
    keys = key_columns(columns, fields)
    aggregates = [aggregate_column(columns, aggregate) for aggregate in spec.aggregates]
    time = _time(operator_name)
    if spec.gap_ms is not None:
        placed, at = _in_sessions(frame, keys, time, spec.gap_ms), F.col(_TIME)
        end = F.max(at) + F.lit(spec.gap_ms)
        grouped = placed.groupBy(*map(column, keys), F.col(_WINDOW)).agg(end.alias(_END), *aggregates)
    else:
        placed = _in_fixed(frame, time, spec)
        grouped = placed.groupBy(*map(column, keys), F.col(_WINDOW)).agg(*aggregates)
        grouped = grouped.withColumn(_END, F.col(_WINDOW) + F.lit(spec.size_ms))
    return grouped.select(
        *map(column, keys),
        F.col(_WINDOW).alias("window_start"),
        F.col(_END).alias("window_end"),
        *[column(aggregate.name) for aggregate in spec.aggregates],
        (F.col(_END) - F.lit(1)).alias(TIMESTAMP_COLUMN),
    )


def _time(operator_name: str) -> Column:
    message = (
        f"operator {operator_name}: a record has no timestamp: windows of event time need "
        "assign_timestamps_and_watermarks before them, or windows of processing time"
    )
    time = F.col(TIMESTAMP_COLUMN)
    return F.coalesce(time, F.raise_error(F.lit(message)).cast("bigint"))


def _in_fixed(frame: DataFrame, time: Column, spec: WindowAggregateSpec) -> DataFrame:
    """Adds the start of each window of a record. Window n starts at `offset + n * slide` and lasts `size` ms."""
    slide, size = F.lit(spec.slide_ms).cast("bigint"), F.lit(spec.size_ms).cast("bigint")
    last = time - F.pmod(time - F.lit(spec.offset_ms), slide)
    if spec.slide_ms == spec.size_ms:
        return frame.withColumn(_WINDOW, last)
    first = last - F.lit((spec.size_ms - 1) // spec.slide_ms * spec.slide_ms)
    placed = frame.withColumn(_WINDOW, F.explode(F.sequence(first, last, slide)))
    # Removes a window that ends before the record, and records in a gap between windows.
    return placed.where(F.col(_WINDOW) + size > time)


def _in_sessions(frame: DataFrame, keys: list[str], time: Column, gap_ms: int) -> DataFrame:
    """Adds the start of each record's session. A record at most `gap_ms` after the previous one joins its session."""
    in_order = Window.partitionBy(*map(column, keys) if keys else [F.lit(0)]).orderBy(F.col(_TIME))
    timed = frame.withColumn(_TIME, time)
    at = F.col(_TIME)
    is_new = F.coalesce(at - F.lag(at).over(in_order) > F.lit(gap_ms), F.lit(True))
    marked = timed.withColumn(_BEGINS, F.when(is_new, at))
    # The session of a record starts at the last beginning before it.
    return marked.withColumn(_WINDOW, F.last(F.col(_BEGINS), ignorenulls=True).over(in_order))
