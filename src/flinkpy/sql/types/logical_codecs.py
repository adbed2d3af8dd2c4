"""Logical codecs: convert Python values to columns of SQL types and back.

| SQL type | Python value |
|---|---|
| CHAR, VARCHAR | str |
| BINARY, VARBINARY, BITMAP | bytes |
| BOOLEAN, integers, FLOAT, DOUBLE | bool, int, float |
| DECIMAL | Decimal, rounded half up to the scale |
| DATE, TIME, TIMESTAMP | date, time, datetime without a time zone |
| TIMESTAMP_LTZ | Instant; a datetime is accepted, too, and is in UTC if it has no time zone |
| INTERVAL YEAR TO MONTH | int: months |
| INTERVAL DAY TO SECOND | timedelta |
| ARRAY, MAP, MULTISET | list, dict, dict with the count of each element |
| ROW | Row |
| RAW | any object that can be pickled |
| VARIANT | the object that a JSON parser returns |

Source: org.apache.flink.table.data.conversion.DataStructureConverters.
"""

from __future__ import annotations

import datetime as _dt
import decimal
import json
import pickle
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa

from flinkpy.common.time import Instant
from flinkpy.common.typeinfo import BasicType, TypeInformation
from flinkpy.records import column_codecs
from flinkpy.records.scalar_codecs import (
    BASIC_CODECS,
    TEMPORAL_CODECS,
    CheckedCodec,
    ColumnCodec,
    ScalarCodec,
    check_bytes,
)
from flinkpy.sql.types import logical_types as lt
from flinkpy.sql.types.arrow import arrow_type_of
from flinkpy.sql.types.internal_type_info import InternalTypeInfo, LogicalTypeInfo
from flinkpy.sql.types.logical_types import TypeRoot as R

_EPOCH_UTC = _dt.datetime(1970, 1, 1, tzinfo=_dt.UTC)
_MICROSECOND = _dt.timedelta(microseconds=1)
_UNITS_PER_SECOND = {"ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_CONTEXT = decimal.Context(prec=76, rounding=decimal.ROUND_HALF_UP)


@lru_cache(maxsize=1024)
def row_codec(row_type: lt.RowType) -> column_codecs.StructCodec:
    """Returns the codec of rows of a table."""
    fields = [logical_codec(each.type) for each in row_type.fields]
    return column_codecs.StructCodec(InternalTypeInfo(row_type), list(row_type.names), fields, True)


@lru_cache(maxsize=1024)
def logical_codec(kind: lt.LogicalType) -> ColumnCodec:
    """Returns the codec of values of a type. Raises: UnsupportedOperationError if it has no column form."""
    arrow_type = arrow_type_of(kind)  # raises for types that have none
    info = LogicalTypeInfo(kind)
    if isinstance(kind, lt.RowType):
        return row_codec(kind)
    if isinstance(kind, lt.ArrayType):
        return column_codecs.ListCodec(info, logical_codec(kind.element))
    if isinstance(kind, lt.MapType):
        return column_codecs.MapCodec(info, logical_codec(kind.key), logical_codec(kind.value))
    if isinstance(kind, lt.MultisetType):
        return column_codecs.MapCodec(info, logical_codec(kind.element), logical_codec(lt.IntType()))
    if isinstance(kind, lt.DecimalType):
        return _decimal_codec(info, kind)
    if isinstance(kind, lt.LocalZonedTimestampType):
        return _ZonedCodec(info, arrow_type)
    if isinstance(kind, lt.TimeType | lt.TimestampType):
        return _UnitCodec(info, arrow_type)
    return _CODECS[kind.root](info)


class _UnitCodec(ColumnCodec):
    """Encodes times and timestamps via microseconds, which are the resolution of Python's."""

    def __init__(self, type_info: TypeInformation, arrow_type: pa.DataType) -> None:
        super().__init__(type_info, arrow_type)
        is_time = pa.types.is_time(arrow_type)
        self._micros = TEMPORAL_CODECS["LOCAL_TIME" if is_time else "LOCAL_DATE_TIME"](type_info)

    def encode(self, values: Sequence[Any]) -> pa.Array:
        return self._micros.encode(values).cast(self.arrow_type, safe=False)

    def decode(self, array: pa.Array) -> list[Any]:
        return self._micros.decode(array.cast(self._micros.arrow_type, safe=False))


class _ZonedCodec(CheckedCodec):
    """Encodes `Instant` as a number of the column's unit since the epoch."""

    def __init__(self, type_info: TypeInformation, arrow_type: pa.DataType) -> None:
        super().__init__(type_info, arrow_type, self._count)
        self._per_second = _UNITS_PER_SECOND[arrow_type.unit]

    def encode(self, values: Sequence[Any]) -> pa.Array:
        return CheckedCodec(self.type_info, pa.int64(), self._count).encode(values).cast(self.arrow_type)

    def decode(self, array: pa.Array) -> list[Any]:
        per_second = self._per_second
        nanos = 1_000_000_000 // per_second
        return [
            None if count is None else Instant(count // per_second, count % per_second * nanos)
            for count in array.cast(pa.int64()).to_pylist()
        ]

    def _count(self, value: Any) -> int:
        if isinstance(value, _dt.datetime):
            micros = (value.replace(tzinfo=value.tzinfo or _dt.UTC) - _EPOCH_UTC) // _MICROSECOND
            return micros * self._per_second // 1_000_000
        if not isinstance(value, Instant):
            raise TypeError
        return value.seconds * self._per_second + value.nanos * self._per_second // 1_000_000_000


def _decimal_codec(info: TypeInformation, kind: lt.DecimalType) -> ColumnCodec:
    step = decimal.Decimal(1).scaleb(-kind.scale)
    limit = decimal.Decimal(10) ** (kind.precision - kind.scale)

    def check(value: Any) -> decimal.Decimal:
        if isinstance(value, bool) or not isinstance(value, (decimal.Decimal, int)):
            raise TypeError
        number = decimal.Decimal(value)
        if number.is_finite() and number.copy_abs() < limit:
            number = number.quantize(step, context=_CONTEXT)
            if number.copy_abs() < limit:
                return number
        raise OverflowError(f"it has more than {kind.precision - kind.scale} digits before the decimal point")

    return CheckedCodec(info, pa.decimal128(kind.precision, kind.scale), check)


def _check_duration(value: Any) -> _dt.timedelta:
    if not isinstance(value, _dt.timedelta):
        raise TypeError
    return value // _dt.timedelta(milliseconds=1) * _dt.timedelta(milliseconds=1)


def _pickled(info: TypeInformation) -> ColumnCodec:
    return CheckedCodec(info, pa.binary(), pickle.dumps, pickle.loads)


def _json_text(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _basic(kind: BasicType) -> Callable[[TypeInformation], ColumnCodec]:
    return BASIC_CODECS[kind]


def _bytes(info: TypeInformation) -> ColumnCodec:
    return CheckedCodec(info, pa.binary(), check_bytes)


_CODECS: dict[R, Callable[[TypeInformation], ColumnCodec]] = {
    R.CHAR: _basic(BasicType.STRING),
    R.VARCHAR: _basic(BasicType.STRING),
    R.BINARY: _bytes,
    R.VARBINARY: _bytes,
    R.BITMAP: _bytes,
    R.BOOLEAN: _basic(BasicType.BOOLEAN),
    R.TINYINT: _basic(BasicType.BYTE),
    R.SMALLINT: _basic(BasicType.SHORT),
    R.INTEGER: _basic(BasicType.INT),
    R.BIGINT: _basic(BasicType.LONG),
    R.FLOAT: _basic(BasicType.FLOAT),
    R.DOUBLE: _basic(BasicType.DOUBLE),
    R.DATE: TEMPORAL_CODECS["LOCAL_DATE"],
    R.INTERVAL_YEAR_MONTH: _basic(BasicType.INT),
    R.INTERVAL_DAY_TIME: lambda info: CheckedCodec(info, pa.duration("ms"), _check_duration),
    R.RAW: _pickled,
    R.VARIANT: lambda info: CheckedCodec(info, pa.binary(), _json_text, json.loads),
    R.NULL: lambda info: ScalarCodec(info, pa.null(), frozenset(), _refuse),
}


def _refuse(value: Any) -> Any:
    raise TypeError("only None has the type NULL")
