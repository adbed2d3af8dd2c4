"""Aggregates of windows of event time as Spark's own aggregates.

In batch mode no watermark comes before the end: no record is late, and every window fires once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from flinkpy.graph.operator_specs import FieldKeySelector, WindowAggregateSpec
from flinkpy.spark.columns.aggregates import aggregate_column, key_columns
from flinkpy.spark.columns.names import TIMESTAMP_COLUMN, column
from flinkpy.spark.columns.not_expressible import NotExpressible

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_START = "window_start"
_END = "window_end"
#: Of a window in flight, so that the stream may have columns of the results' names.
_WINDOW = "__window"


def aggregate_windows(frame: DataFrame, spec: WindowAggregateSpec, operator_name: str) -> DataFrame:
    """Key columns, `window_start`, `window_end`, one column per aggregate; the timestamp is the window's last ms.

    Raises: NotExpressible.
    """
    if not spec.is_event_time:
        raise NotExpressible("windows of processing time")
    selector = spec.key_selector
    fields = selector.fields if isinstance(selector, FieldKeySelector) else None
    if fields is None:
        raise NotExpressible("the key is no column")
    keys = key_columns(frame, fields)
    aggregates = [aggregate_column(frame, aggregate) for aggregate in spec.aggregates]
    time = _time(operator_name)
    if spec.gap_ms is not None:
        result = _sessions(frame, keys, time, spec.gap_ms, aggregates)
    else:
        result = _fixed(frame, keys, time, spec, aggregates)
    names = [*keys, _START, _END, *(aggregate.name for aggregate in spec.aggregates)]
    return result.select(*map(column, names), (F.col(_END) - F.lit(1)).alias(TIMESTAMP_COLUMN))


def _time(operator_name: str) -> Column:
    message = (
        f"operator {operator_name}: a record has no timestamp: windows of event time need "
        "assign_timestamps_and_watermarks before them, or windows of processing time"
    )
    time = F.col(TIMESTAMP_COLUMN)
    return F.coalesce(time, F.raise_error(F.lit(message)).cast("bigint"))


def _fixed(
    frame: DataFrame, keys: list[str], time: Column, spec: WindowAggregateSpec, aggregates: list[Column]
) -> DataFrame:
    """The start of a window is `offset + w * slide`; a record is in those that begin in the `size` ms up to it."""
    since = time - F.lit(spec.offset_ms)
    last = time - F.pmod(since, F.lit(spec.slide_ms).cast("bigint"))
    if spec.slide_ms == spec.size_ms:
        placed = frame.withColumn(_WINDOW, last)
    else:
        # The last one is not before `time - size + 1` where it has the record at all.
        starts = F.sequence(
            last,
            last - F.lit((spec.size_ms - 1) // spec.slide_ms * spec.slide_ms),
            F.lit(-spec.slide_ms).cast("bigint"),
        )
        placed = frame.withColumn(_WINDOW, F.explode(starts)).where(F.col(_WINDOW) + F.lit(spec.size_ms) > time)
    grouped = placed.groupBy(*map(column, keys), F.col(_WINDOW)).agg(*aggregates)
    return grouped.select(
        *map(column, keys),
        F.col(_WINDOW).alias(_START),
        (F.col(_WINDOW) + F.lit(spec.size_ms)).alias(_END),
        *[column(name) for name in grouped.columns[len(keys) + 1 :]],
    )


def _sessions(frame: DataFrame, keys: list[str], time: Column, gap_ms: int, aggregates: list[Column]) -> DataFrame:
    """A record within `gap` ms of the one before it, both inclusive, is in its session."""
    begins, at = "__begins", "__at"
    by_key = Window.partitionBy(*map(column, keys)) if keys else Window.partitionBy(F.lit(0))
    in_order = by_key.orderBy(F.col(at))
    timed = frame.withColumn(at, time)
    is_new = F.coalesce(F.col(at) - F.lag(F.col(at)).over(in_order) > F.lit(gap_ms), F.lit(True))
    marked = timed.withColumn(begins, F.when(is_new, F.col(at)))
    # The beginning of its session is the last one up to it.
    placed = marked.withColumn(_WINDOW, F.last(F.col(begins), ignorenulls=True).over(in_order))
    grouped = placed.groupBy(*map(column, keys), F.col(_WINDOW)).agg(
        (F.max(F.col(at)) + F.lit(gap_ms)).alias(_END), *aggregates
    )
    return grouped.select(
        *map(column, keys),
        F.col(_WINDOW).alias(_START),
        F.col(_END),
        *[column(name) for name in grouped.columns[len(keys) + 2 :]],
    )
