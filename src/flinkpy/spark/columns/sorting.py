"""All records in the order of columns, or the first of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flinkpy.graph.operator_specs import SortColumnsSpec
from flinkpy.spark.columns.names import ColumnTypes, column, name_of, without_timestamps
from flinkpy.spark.columns.not_expressible import NotExpressible

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def sort_columns(frame: DataFrame, columns: ColumnTypes, spec: SortColumnsSpec, parallelism: int) -> DataFrame:
    """Returns all records in order, or the first ones. In both engines NaN is the largest number and null the smallest.

    Raises: NotExpressible.
    """
    records = frame.select(*map(column, columns), without_timestamps())
    if parallelism != 1:
        if spec.limit is None:
            raise NotExpressible("an order for each of several subtasks")
        # The subtasks would drop records that cannot be among the first ones. Spark does so itself.
        return records
    if spec.keys:
        records = records.orderBy(*[_order(columns, *key) for key in spec.keys])
    return records if spec.limit is None else records.limit(spec.limit)


def _order(columns: ColumnTypes, field: str, direction: str) -> Column:
    name = name_of(columns, field)
    return column(name).asc_nulls_first() if direction == "ascending" else column(name).desc_nulls_last()
