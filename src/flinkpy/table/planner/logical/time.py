"""Time attributes: which columns are event or processing time, and what becomes of them.

Source: org.apache.flink.table.planner.calcite.FlinkTypeFactory, RelTimeIndicatorConverter.
"""

from __future__ import annotations

from dataclasses import replace

from flinkpy.common.errors import ValidationError
from flinkpy.sql.rex import RexCall, RexNode
from flinkpy.sql.types.logical_types import (
    LocalZonedTimestampType,
    LogicalType,
    TimeAttribute,
    TimestampType,
    is_proctime,
    is_time_attribute,
)


def as_rowtime(kind: LogicalType) -> LogicalType:
    """Returns the type as an event time attribute. Raises: ValidationError if it cannot be one."""
    if not isinstance(kind, (TimestampType, LocalZonedTimestampType)) or kind.precision > 3:
        raise ValidationError(
            "Invalid data type of time field for watermark definition. The field must be of type TIMESTAMP(p) or "
            f"TIMESTAMP_LTZ(p), the supported precision 'p' is from 0 to 3, but the time field type is {kind}"
        )
    return replace(kind, time_attribute=TimeAttribute.ROWTIME)


def proctime_type() -> LogicalType:
    """Returns the type of PROCTIME()."""
    return LocalZonedTimestampType(3, TimeAttribute.PROCTIME, nullable=False)


def as_regular(kind: LogicalType) -> LogicalType:
    """Returns the type as a timestamp without a role; other types as they are."""
    if is_time_attribute(kind):
        assert isinstance(kind, (TimestampType, LocalZonedTimestampType))
        return replace(kind, time_attribute=TimeAttribute.REGULAR)
    return kind


def window_columns(time_type: LogicalType) -> tuple[tuple[str, LogicalType], ...]:
    """Returns the columns that a window table function appends. Bounds are local times, window_time is an attribute."""
    bound = TimestampType(3, nullable=False)
    if is_proctime(time_type):
        return (("window_start", bound), ("window_end", bound), ("window_time", proctime_type()))
    return (("window_start", bound), ("window_end", bound), ("window_time", time_type.not_null()))


#: The watermark of a table whose source already has watermarks.
SOURCE_WATERMARK = "SOURCE_WATERMARK"


def source_watermark(kind: LogicalType) -> RexNode:
    """Returns SOURCE_WATERMARK() for an event time of a type."""
    return RexCall(kind, SOURCE_WATERMARK, ())


def is_source_watermark(node: RexNode) -> bool:
    return isinstance(node, RexCall) and node.function == SOURCE_WATERMARK
