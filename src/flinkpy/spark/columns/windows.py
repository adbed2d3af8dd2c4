"""Aggregates of windows of event time as Spark's own aggregates.

In batch mode no watermark comes before the end: no record is late, and every window fires once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from flinkpy.graph.operator_specs import FieldKeySelector, WindowAggregateSpec
from flinkpy.spark.columns.aggregates import aggregate_column, key_columns
from flinkpy.spark.columns.names import ColumnTypes, column
from flinkpy.spark.columns.not_expressible import NotExpressible
from flinkpy.spark.stream_frame import TIMESTAMP_COLUMN

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

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
