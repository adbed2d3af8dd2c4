"""The columns in which the first phase of an aggregation sends its accumulators to the second one."""

from __future__ import annotations

from flinkpy.sql.rex import AggregateCall
from flinkpy.sql.types import logical_types as lt
from flinkpy.sql.types.merging import find_sum_agg_type
from flinkpy.table.planner.logical.time import as_regular

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
