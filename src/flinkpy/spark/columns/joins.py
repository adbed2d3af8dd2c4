"""Equi-joins of columns as Spark's joins."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import types as t

from flinkpy.graph.operator_specs import ColumnJoinSpec
from flinkpy.spark.columns.names import ColumnTypes, column, name_of, without_timestamps
from flinkpy.spark.columns.not_expressible import NotExpressible

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_HOW = {"inner": "inner", "left": "left", "semi": "left_semi", "anti": "left_anti"}
#: The prefix of the right side's columns during the join, so that all names differ.
_RIGHT = "__right_"


def join(
    left: DataFrame, left_types: ColumnTypes, right: DataFrame, right_types: ColumnTypes, spec: ColumnJoinSpec
) -> DataFrame:
    """Returns the left columns, then the right ones except for keys of the same name, without timestamps.

    Raises: NotExpressible.
    """
    left_keys = [name_of(left_types, field) for field in spec.key_selectors[0].fields]
    right_keys = [name_of(right_types, field) for field in spec.key_selectors[1].fields]
    for one, other in zip(left_keys, right_keys):
        kinds = left_types[one], right_types[other]
        if kinds[0] != kinds[1] or isinstance(kinds[0], t.FloatType | t.DoubleType):
            # In Spark NaN is equal to itself.
            raise NotExpressible(f"keys of {kinds[0].simpleString()} and {kinds[1].simpleString()}")
    only_left = spec.how in ("semi", "anti")
    same = {other for one, other in zip(left_keys, right_keys) if one == other}
    wanted = [] if only_left else [name for name in right_types if name not in same]
    needed = [name for name in right_types if name in wanted or name in right_keys]
    build = right.select(*[column(name).alias(_RIGHT + name) for name in needed])
    if spec.is_broadcast:
        build = build.hint("broadcast")
    conditions = [column(one) == column(_RIGHT + other) for one, other in zip(left_keys, right_keys)]
    joined = left.join(build, reduce(lambda one, other: one & other, conditions), _HOW[spec.how])
    return joined.select(
        *map(column, left_types), *[column(_RIGHT + name).alias(name) for name in wanted], without_timestamps()
    )
