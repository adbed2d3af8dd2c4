"""Operators over columns as operations of DataFrames: Catalyst plans them, and no Python worker is started.

`translate` gives a node of a region as a frame where Spark has an exact equal: the same values, types, nulls, NaNs and
order. Sessions have `spark.sql.ansi.enabled=false` (integers wrap around), `spark.sql.caseSensitive=true` and
`spark.sql.session.timeZone=UTC`.
"""

from flinkpy.spark.columns.translate import is_expressible, translate, union

__all__ = ["is_expressible", "translate", "union"]
