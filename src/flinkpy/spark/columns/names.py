"""Names of columns in Spark: as they are, whatever characters they have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

#: Beside a stream's own columns: the event time in ms since the epoch, or null.
TIMESTAMP_COLUMN = "__ts"


def column(name: str) -> Column:
    """The column of exactly this name: dots and backticks in it mean nothing."""
    return F.col(quoted(name))


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def data_columns(frame: DataFrame) -> list[str]:
    """The names of the records' own columns, in their order."""
    return [name for name in frame.columns if name != TIMESTAMP_COLUMN]


def position_name(frame: DataFrame, field: int | str) -> str | None:
    """The name of a column that is given by name or position; None: there is none."""
    names = data_columns(frame)
    if isinstance(field, str):
        return field if field in names else None
    return names[field] if 0 <= field < len(names) else None


def without_timestamps() -> Column:
    return F.lit(None).cast("bigint").alias(TIMESTAMP_COLUMN)
