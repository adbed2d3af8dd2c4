"""Checks of a WatermarkStrategy when the program is built, before a task fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flinkpy.common.typeinfo import TypeInformation
    from flinkpy.common.watermark_strategy import WatermarkStrategy


def check_timestamp_column(strategy: WatermarkStrategy, type_info: TypeInformation | None) -> None:
    """Checks that the records have the timestamp column of the strategy, and that it is a time.

    Raises:
        ValueError: the type has no such field.
        TypeError: the field is neither an integer nor a timestamp.
    """
    from flinkpy.records.lanes import arrow_schema

    column = strategy.timestamp_column
    schema = None if column is None else arrow_schema(type_info)
    if column is None or schema is None:
        return
    names = schema.names
    position = names.index(column) if column in names else column
    if not isinstance(position, int) or position >= len(names):
        raise ValueError(f"with_timestamp_column({column!r}): the records have only the fields {names}")
    import pyarrow as pa

    kind = schema.types[position]
    if not pa.types.is_integer(kind) and not pa.types.is_timestamp(kind):
        raise TypeError(
            f"with_timestamp_column({column!r}): the field is {kind}, but event time must be an integer (milliseconds) "
            "or a timestamp"
        )
