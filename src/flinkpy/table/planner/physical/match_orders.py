"""Checks the ORDER BY of MATCH_RECOGNIZE: it begins with an ascending time.

Source: org.apache.flink.table.planner.plan.nodes.exec.{stream.StreamExecMatch,batch.BatchExecMatch}.checkOrderKeys.
"""

from __future__ import annotations

from flinkpy.common.errors import TableProgramError
from flinkpy.graph.table_specs import SortField
from flinkpy.sql.types import logical_types as lt

_MILLISECONDS = 3


def check_match_order(order: tuple[SortField, ...], rows: lt.RowType, *, is_streaming: bool) -> None:
    """Checks the order in which rows are matched.

    In streaming mode it begins with a time attribute. In batch mode, where there are none, it begins with any
    timestamp, and all rows wait for the end of the input.

    Raises: TableProgramError if the first column is no time, or descends.
    """
    if not order:
        raise TableProgramError(
            "You must specify either rowtime or proctime for order by."
            if is_streaming
            else "You must specify non-empty order by."
        )
    first = rows.fields[order[0].column].type
    if is_streaming and not lt.is_time_attribute(first):
        raise TableProgramError("You must specify either rowtime or proctime for order by as the first one.")
    if not isinstance(first, (lt.TimestampType, lt.LocalZonedTimestampType)):
        raise TableProgramError("You must specify time point for order by as the first one.")
    if not order[0].ascending:
        raise TableProgramError(
            f"Primary sort order of a {'streaming ' if is_streaming else ''}table must be ascending on time."
        )


def complete_order(order: tuple[SortField, ...], rows: lt.RowType) -> tuple[SortField, ...]:
    """Returns an order that sorts by the whole time. The operator reads the first column in milliseconds."""
    first = rows.fields[order[0].column].type
    is_finer = isinstance(first, (lt.TimestampType, lt.LocalZonedTimestampType)) and first.precision > _MILLISECONDS
    return (order[0], *order) if is_finer else order
