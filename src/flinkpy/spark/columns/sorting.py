"""All records in the order of columns, or the first of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import types as t

from flinkpy.graph.operator_specs import SortColumnsSpec
from flinkpy.spark.columns.names import ColumnTypes, column, name_of
from flinkpy.spark.columns.not_expressible import NotExpressible

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def sort_columns(frame: DataFrame, columns: ColumnTypes, spec: SortColumnsSpec, parallelism: int) -> DataFrame:
    """Raises: NotExpressible: several subtasks, each of which would sort what it gets; NaN has another place."""
    if parallelism != 1:
        raise NotExpressible("an order for each of several subtasks")
    ordered = frame.orderBy(*[_order(columns, *key) for key in spec.keys])
    return ordered if spec.limit is None else ordered.limit(spec.limit)


def _order(columns: ColumnTypes, field: str, direction: str) -> Column:
    name = name_of(columns, field)
    if isinstance(columns[name], t.FloatType | t.DoubleType):
        raise NotExpressible("an order of floats")
    return column(name).asc_nulls_first() if direction == "ascending" else column(name).desc_nulls_last()
