"""The texts of key columns in ids of documents and partition keys, as Java shows their values.

Source: org.apache.flink.connector.elasticsearch.table.KeyExtractor and
org.apache.flink.connector.kinesis.table.RowDataFieldsKinesisPartitionKeyGenerator.
"""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

from flinkpy.formats.text_form import float_text
from flinkpy.sql.types import logical_types as types
from flinkpy.sql.types.logical_types import LogicalType

if TYPE_CHECKING:
    import pyarrow as pa


def plain_times(column: pa.Array) -> pa.Array:
    """Returns a column whose times have microseconds at most, as Python has them."""
    import pyarrow as pa

    if pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp("us", column.type.tz), safe=False)
    return column.cast(pa.time64("us"), safe=False) if pa.types.is_time64(column.type) else column


def text_of_key(value: Any, kind: LogicalType) -> str:
    """Returns the text of a value as Java shows it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return float_text(value)
    if isinstance(value, datetime.datetime):
        zone = "" if value.tzinfo is None else "Z"
        # An Instant shows its seconds always, a LocalDateTime only if they are not zero.
        return f"{value.date()}T{_time_text(value.time(), bool(zone))}{zone}"
    if isinstance(value, datetime.time):
        return _time_text(value, False)
    return f"{value:f}" if isinstance(kind, types.DecimalType) else str(value)


def _time_text(value: datetime.time, shows_seconds: bool) -> str:
    text = f"{value.hour:02d}:{value.minute:02d}"
    if value.second or value.microsecond or shows_seconds:
        text += f":{value.second:02d}"
    if value.microsecond:
        digits = f"{value.microsecond:06d}"
        text += f".{digits.removesuffix('000')}"
    return text
