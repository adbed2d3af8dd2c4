"""Expressions of columns, with the names of `pyflink.table.expressions`. Beyond PyFlink's DataStream.

```python
from flinkpy.datastream.expressions import col, lit

lines.filter_batches(col("shipdate") <= lit(date(1998, 9, 2))).select(
    "flag", (col("price") * (1 - col("discount"))).alias("discounted")
)
```
"""

from __future__ import annotations

from flinkpy.expressions.nodes import (
    Expression,
    TimeIntervalUnit,
    and_,
    coalesce,
    col,
    concat,
    if_then_else,
    lit,
    negative,
    not_,
    null_of,
    or_,
)

__all__ = [
    "Expression",
    "TimeIntervalUnit",
    "and_",
    "coalesce",
    "col",
    "concat",
    "if_then_else",
    "lit",
    "negative",
    "not_",
    "null_of",
    "or_",
]
