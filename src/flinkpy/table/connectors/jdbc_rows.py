"""Rows of a database driver as columns of a logical row type, and back.

Source: org.apache.flink.connector.jdbc.core.database.dialect.AbstractDialectConverter.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import ValidationError
from flinkpy.connectors.jdbc.dialects import JdbcDialect
from flinkpy.sql.types import logical_types as types
from flinkpy.sql.types.arrow import schema_of
from flinkpy.sql.types.logical_types import LogicalType, RowType

if TYPE_CHECKING:
    import pyarrow as pa


def _text_or(parse: Callable[[str], Any]) -> Callable[[Any], Any]:
    """Returns a converter for values that some databases, such as SQLite, have as text."""
    return lambda value: parse(value) if isinstance(value, str) else value


def _decimal(value: Any) -> decimal.Decimal:
    return value if isinstance(value, decimal.Decimal) else decimal.Decimal(str(value))


#: How a value of a driver becomes one of the type.
_READ: dict[type[LogicalType], Callable[[Any], Any]] = {
    types.BooleanType: bool,
    types.TinyIntType: int,
    types.SmallIntType: int,
    types.IntType: int,
    types.BigIntType: int,
    types.FloatType: float,
    types.DoubleType: float,
    types.DecimalType: _decimal,
    types.CharType: str,
    types.VarCharType: str,
    types.BinaryType: bytes,
    types.VarBinaryType: bytes,
    types.DateType: _text_or(datetime.date.fromisoformat),
    types.TimeType: _text_or(datetime.time.fromisoformat),
    types.TimestampType: _text_or(datetime.datetime.fromisoformat),
    types.LocalZonedTimestampType: _text_or(datetime.datetime.fromisoformat),
}
_ISO = datetime.datetime.isoformat
#: How values of types that a driver takes as text only become text.
_AS_TEXT: dict[type[LogicalType], Callable[[Any], str]] = {
    types.DecimalType: str,
    types.DateType: str,
    types.TimeType: str,
    types.TimestampType: lambda value: _ISO(value, " "),
    types.LocalZonedTimestampType: lambda value: _ISO(value, " "),
}


def check_columns(row_type: RowType) -> None:
    """Raises: ValidationError that names a column whose type databases do not have."""
    for field in row_type.fields:
        kind = field.type.element if isinstance(field.type, types.ArrayType) else field.type
        if type(kind) not in _READ:
            raise ValidationError(f"jdbc: column '{field.name}' cannot be {field.type}")


def _reader(kind: LogicalType) -> Callable[[Any], Any]:
    if isinstance(kind, types.ArrayType):
        element = _reader(kind.element)
        return lambda values: [None if value is None else element(value) for value in values]
    return _READ[type(kind)]


def columns_of_results(rows: Sequence[Sequence[Any]], row_type: RowType) -> pa.RecordBatch:
    """Returns the rows of a driver as RecordBatch with the columns of a row type."""
    import pyarrow as pa

    schema = schema_of(row_type)
    arrays = []
    for place, field in enumerate(row_type.fields):
        convert = _reader(field.type)
        values = [None if row[place] is None else convert(row[place]) for row in rows]
        arrays.append(pa.array(values, schema.field(place).type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


@dataclass(frozen=True)
class RowsForDriver:
    """Returns rows of columns as tuples of values that the driver of a database takes.

    Times have microseconds, as in DB-API.
    """

    row_type: RowType
    dialect: JdbcDialect

    def __call__(self, columns: pa.RecordBatch) -> list[tuple[Any, ...]]:
        lists = [self._values(column, field.type) for column, field in zip(columns.columns, self.row_type.fields)]
        return list(zip(*lists))

    def _values(self, column: pa.Array, kind: LogicalType) -> list[Any]:
        import pyarrow as pa

        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("us", column.type.tz), safe=False)
        elif pa.types.is_time64(column.type):
            column = column.cast(pa.time64("us"), safe=False)
        values: list[Any] = column.to_pylist()
        if self.dialect.stores_times_as_text and type(kind) in _AS_TEXT:
            text = _AS_TEXT[type(kind)]
            return [None if value is None else text(value) for value in values]
        return values
