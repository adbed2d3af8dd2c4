"""The types and literals of DuckDB that stand for logical types."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

from flinkpy.sql.rex import Literal
from flinkpy.sql.types import logical_types as lt
from flinkpy.sql.types.logical_types import is_proctime

R = lt.TypeRoot

_SIMPLE: dict[R, str] = {
    R.BOOLEAN: "BOOLEAN",
    R.TINYINT: "TINYINT",
    R.SMALLINT: "SMALLINT",
    R.INTEGER: "INTEGER",
    R.BIGINT: "BIGINT",
    R.FLOAT: "FLOAT",
    R.DOUBLE: "DOUBLE",
    R.CHAR: "VARCHAR",
    R.VARCHAR: "VARCHAR",
    R.BINARY: "BLOB",
    R.VARBINARY: "BLOB",
    R.DATE: "DATE",
}
#: The bits of the integers.
INTEGER_BITS = {R.TINYINT: 8, R.SMALLINT: 16, R.INTEGER: 32, R.BIGINT: 64}
#: Decimals with more digits are computed with 128 bits.
MAX_SHORT_DIGITS = 18
MAX_DIGITS = 38


def engine_type(kind: lt.LogicalType) -> str | None:
    """Returns the engine's type for values of a logical type; None if it cannot hold them."""
    simple = _SIMPLE.get(kind.root)
    if simple is not None:
        return simple
    if isinstance(kind, lt.DecimalType):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    if isinstance(kind, lt.TimestampType):
        return "TIMESTAMP" if kind.precision <= 6 else "TIMESTAMP_NS"
    if isinstance(kind, lt.LocalZonedTimestampType) and kind.precision <= 6 and not is_proctime(kind):
        return "TIMESTAMPTZ"
    return None


def holds(row_type: lt.RowType) -> bool:
    """True if the engine can hold all columns of the rows."""
    return all(engine_type(each.type) is not None for each in row_type.fields)


def quoted(text: str) -> str:
    """Returns a text literal."""
    return "'" + text.replace("'", "''") + "'"


def literal_text(node: Literal) -> str | None:
    """Returns a literal with exactly the type of the node; None if the engine has none."""
    name = engine_type(node.type)
    if name is None:
        return None
    if node.value is None:
        return f"CAST(NULL AS {name})"
    write = _WRITERS.get(node.type.root)
    return None if write is None else write(node.value, name)


def _number(value: Any, name: str) -> str:
    return f"CAST({value} AS {name})"


def _double(value: Any, name: str) -> str:
    return f"CAST({quoted(repr(float(value)))} AS {name})"


def _text(value: Any, _: str) -> str | None:
    return None if "\0" in value else quoted(value)


def _decimal(value: Any, name: str) -> str:
    return f"CAST({quoted(format(value, 'f'))} AS {name})"


def _timestamp(value: dt.datetime, name: str) -> str:
    return f"{name} {quoted(value.replace(tzinfo=None).isoformat(sep=' '))}"


_WRITERS: dict[R, Callable[[Any, str], str | None]] = {
    R.BOOLEAN: lambda value, _: "true" if value else "false",
    R.TINYINT: _number,
    R.SMALLINT: _number,
    R.INTEGER: _number,
    R.BIGINT: _number,
    R.FLOAT: _double,
    R.DOUBLE: _double,
    R.DECIMAL: _decimal,
    R.CHAR: _text,
    R.VARCHAR: _text,
    R.DATE: lambda value, _: f"DATE '{value.isoformat()}'",
    R.TIMESTAMP_WITHOUT_TIME_ZONE: _timestamp,
}
