"""The columns in which the first phase of an aggregation sends its accumulators to the second one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from flinkpy.sql.rex import AggregateCall
from flinkpy.sql.types import logical_types as lt
from flinkpy.sql.types.merging import find_sum_agg_type
from flinkpy.table.planner.logical.time import as_regular

#: Aggregates that two phases can compute.
_MERGEABLE = frozenset(
    {"COUNT", "SUM", "SUM0", "$SUM0", "AVG", "MIN", "MAX", "VAR_POP", "VAR_SAMP", "STDDEV_POP", "STDDEV_SAMP"}
)

Fields = tuple[tuple[str, lt.LogicalType], ...]


def accumulator_fields(call: AggregateCall, input_type: lt.RowType, number: int) -> Fields | None:
    """Returns the names and types of an aggregate's accumulator; None if it can be computed in one phase only.

    Args:
        number: the number of accumulator columns before it, which its names end with.
    """
    if call.is_distinct or call.user_function is not None or call.order:
        return None
    kinds = [as_regular(input_type.fields[place].type) for place in call.arguments]
    match call.function:
        case "COUNT":
            prefix = "count" if call.arguments else "count1"
            return ((f"{prefix}${number}", lt.BigIntType()),)
        case "MIN" | "MAX":
            return ((f"{call.function.lower()}${number}", kinds[0].as_nullable()),)
        case "SUM" | "SUM0" | "$SUM0":
            return ((f"sum${number}", find_sum_agg_type(kinds[0]).as_nullable()),)
        case "AVG":
            total = find_sum_agg_type(kinds[0]).as_nullable()
            if total.root in (lt.TypeRoot.TINYINT, lt.TypeRoot.SMALLINT, lt.TypeRoot.INTEGER):
                total = lt.BigIntType()
            return ((f"sum${number}", total), (f"count${number + 1}", lt.BigIntType()))
    return None


def is_mergeable(call: AggregateCall) -> bool:
    """True if a GROUP BY with mini-batches can compute the aggregate in two phases."""
    return call.function in _MERGEABLE and call.user_function is None and not call.order


def local_window_type(
    input_type: lt.RowType, grouping: tuple[int, ...], calls: tuple[AggregateCall, ...]
) -> lt.RowType:
    """Returns the rows that the operator of a local window aggregation sends."""
    import numpy as np
    import pyarrow as pa

    from flinkpy.sql.types.arrow import schema_of
    from flinkpy.streaming.operators.table.local_window_operator import SLICE_END
    from flinkpy.streaming.operators.table.window_inputs import TableWindowInputs

    inputs = TableWindowInputs(schema_of(input_type), grouping, calls, False, "LocalWindowAggregate")
    none = np.arange(0)
    accumulators: list[Any] = [each.create_accumulator() for each in inputs.aggregates]
    columns = [column for each in accumulators for column in each.columns(none)]
    return _with_accumulators(input_type, grouping, columns, [(SLICE_END, pa.int64())])


def local_group_type(
    input_type: lt.RowType, grouping: tuple[int, ...], calls: tuple[AggregateCall, ...], needs_retraction: bool
) -> lt.RowType:
    """Returns the rows that the operator of a local aggregation sends."""
    import numpy as np
    import pyarrow as pa

    from flinkpy.sql.types.arrow import schema_of
    from flinkpy.state.aggregate_table import TableLayout
    from flinkpy.state.group_table import GroupTable
    from flinkpy.state.row_groups import RowGroups
    from flinkpy.streaming.operators.table.aggregate_handler import AggregateHandler, key_columns, key_types

    schema = schema_of(input_type)
    handler = AggregateHandler(calls, schema, needs_retraction, "LocalGroupAggregate")
    table = GroupTable(TableLayout(tuple(key_types(schema, grouping)), tuple(handler.columns)))
    empty = pa.RecordBatch.from_pylist([], schema=schema)
    slots = table.slots_of(key_columns(empty, grouping))
    number, first_rows = table.number_rows(slots)
    groups = RowGroups(number, slots.take(first_rows), np.ones(len(first_rows), dtype=bool))
    return _with_accumulators(input_type, grouping, handler.local_columns(table, groups, empty, None), [])


def _with_accumulators(
    input_type: lt.RowType, grouping: tuple[int, ...], columns: list[Any], more: list[tuple[str, Any]]
) -> lt.RowType:
    """Returns the grouping columns, then the accumulators under the names that operators give them."""
    import pyarrow as pa

    from flinkpy.sql.types.arrow import row_type_of

    fields = [(f"${place}", column.type) for place, column in enumerate(columns)] + more
    added = row_type_of(pa.schema([pa.field(name, kind) for name, kind in fields]))
    keys = tuple(replace(input_type.fields[place], description=None) for place in grouping)
    return lt.RowType((*keys, *added.fields), nullable=False)
