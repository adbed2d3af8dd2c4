"""Aggregates per key of a whole input: one row per key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from flinkpy.graph.operator_specs import (
    ColumnAggregateSpec,
    FieldKeySelector,
    GlobalColumnAggregateSpec,
    PreAggregateSpec,
)
from flinkpy.spark.columns.aggregates import aggregate_column, key_columns, part_of_record
from flinkpy.spark.columns.names import ColumnTypes, column, without_timestamps
from flinkpy.spark.columns.not_expressible import NotExpressible
from flinkpy.spark.stream_frame import TIMESTAMP_COLUMN

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

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
