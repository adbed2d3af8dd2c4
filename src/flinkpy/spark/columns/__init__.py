"""Translates operators over columns to operations of DataFrames, which Catalyst plans without Python workers.

`translate` returns a frame if Spark computes exactly the same values, types, nulls, NaNs and order.
Sessions have `spark.sql.ansi.enabled=false` (integers wrap around), `spark.sql.caseSensitive=true` and
`spark.sql.session.timeZone=UTC`.
"""

from flinkpy.spark.columns.translate import is_expressible, obstacle_of, translate, union

__all__ = ["is_expressible", "obstacle_of", "translate", "union"]
