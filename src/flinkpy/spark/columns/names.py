"""Names and types of columns in Spark, and NotExpressible, raised where Spark has no exact equal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import types as t
from pyspark.sql.pandas.types import from_arrow_type

from flinkpy.common.typeinfo import RowTypeInfo, TupleTypeInfo
from flinkpy.spark.columns.functions import F
from flinkpy.spark.stream_frame import TIMESTAMP_COLUMN, column_schema

if TYPE_CHECKING:
    from pyspark.sql import Column

    from flinkpy.common.typeinfo import TypeInformation


#: The types of a stream's columns by name, in order. They follow from the declared type, because asking a DataFrame for
#: its schema is a round trip to a remote Spark.
ColumnTypes = dict[str, t.DataType]


class NotExpressible(Exception):
    """Names an operation that Spark has no exact equal for, so Python workers run it.

    It never leaves `flinkpy.spark.columns`.
    """


def column_types(type_info: TypeInformation | None) -> ColumnTypes:
    """Returns the types of a stream's columns. Raises: NotExpressible if the stream has no columns in Spark."""
    schema = column_schema(type_info)
    if schema is None:
        raise NotExpressible(f"records of {type_info!r}")
    return {field.name: from_arrow_type(field.type, prefer_timestamp_ntz=True) for field in schema}


def type_of(type_info: TypeInformation) -> t.DataType:
    """Returns Spark's type of a column. Raises: NotExpressible."""
    return column_types(RowTypeInfo([type_info], ["f0"]))["f0"]


def field_types(type_info: TypeInformation | None) -> dict[str, TypeInformation]:
    """Returns the declared types of the columns of a ROW or TUPLE by name. Raises: NotExpressible."""
    if isinstance(type_info, RowTypeInfo):
        return dict(zip(type_info.get_field_names(), type_info.get_field_types()))
    if isinstance(type_info, TupleTypeInfo):
        return {f"f{index}": kind for index, kind in enumerate(type_info.get_field_types())}
    raise NotExpressible(f"records of {type_info!r}")


def castable(kind: t.DataType) -> t.DataType | str:
    """Returns a type for `Column.cast`. PySpark asks the JVM three times for a type that is not given by its name."""
    # The meaning of the name "timestamp" is a setting of the session.
    is_named = isinstance(kind, t.AtomicType) and not isinstance(kind, t.TimestampType)
    return kind.simpleString() if is_named else kind


def column(name: str) -> Column:
    """Returns the column with exactly this name. Dots and backticks have no special meaning."""
    return F.col("`" + name.replace("`", "``") + "`")


def name_of(columns: ColumnTypes, field: int | str) -> str:
    """Returns the name of a column that is given by name or position. Raises: NotExpressible if there is none."""
    names = list(columns)
    if isinstance(field, str) and field in columns:
        return field
    if isinstance(field, int) and 0 <= field < len(names):
        return names[field]
    raise NotExpressible(f"there is no column {field!r} among {names}")


def without_timestamps() -> Column:
    return F.lit(None).cast("bigint").alias(TIMESTAMP_COLUMN)
