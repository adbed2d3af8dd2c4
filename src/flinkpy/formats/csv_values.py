"""From the text of a CSV field to the value of a declared type, for messages.

Source: org.apache.flink.formats.csv.CsvRowDeserializationSchema. Differs: what is neither `true` nor `false` is no
boolean, instead of false.
"""

from __future__ import annotations

import base64
import binascii
import datetime
import decimal
from collections.abc import Callable
from typing import Any

from flinkpy.common import typeinfo as ti
from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.common.typeinfo import BasicType, RowTypeInfo, TypeInformation
from flinkpy.common.types import row_of
from flinkpy.formats.json_values import INTEGER_TEXT, NUMBER_TEXT, temporal_kind

_INTEGER_BITS = {BasicType.BYTE: 8, BasicType.SHORT: 16, BasicType.INT: 32, BasicType.LONG: 64}


class CsvValueError(ValueError):
    """A field does not fit its type."""


FieldConverter = Callable[[str], Any]


def field_converter(type_info: TypeInformation, element_separator: str) -> FieldConverter:
    """What makes the text of a field a value; it raises CsvValueError.

    Raises:
        UnsupportedOperationError: CSV does not hold values of this type.
    """
    if isinstance(type_info, ti.ExternalTypeInfo):
        return field_converter(type_info.wrapped_type, element_separator)
    if isinstance(type_info, ti.DecimalTypeInfo):
        return lambda text: _to_decimal_of(type_info, text)
    if isinstance(type_info, ti.BasicTypeInfo):
        kind = type_info.basic_type
        if kind in _INTEGER_BITS or kind is BasicType.BIG_INT:
            limit = 1 << (_INTEGER_BITS[kind] - 1) if kind in _INTEGER_BITS else None
            return lambda text: to_int(text, limit)
        if kind in _BASIC:
            return _BASIC[kind]
    if isinstance(type_info, RowTypeInfo):
        return _row(type_info, element_separator)
    if isinstance(type_info, ti.PrimitiveArrayTypeInfo) and type_info == ti.Types.PRIMITIVE_ARRAY(ti.Types.BYTE()):
        return _to_bytes
    if isinstance(
        type_info, (ti.ListTypeInfo, ti.PrimitiveArrayTypeInfo, ti.BasicArrayTypeInfo, ti.ObjectArrayTypeInfo)
    ):
        element = field_converter(type_info.element_type, element_separator)
        return lambda text: [element(part) for part in _parts(text, element_separator)]
    temporal = _TEMPORAL.get(temporal_kind(type_info) or "")
    if temporal is None:
        raise UnsupportedOperationError(f"CSV does not hold values of {type_info!r}")
    return temporal


def _parts(text: str, separator: str) -> list[str]:
    """An empty field has no elements, not one empty element."""
    if not text:
        return []
    return text.split(separator) if separator else [text]


def _row(type_info: RowTypeInfo, separator: str) -> FieldConverter:
    """A nested row: its fields between the separators of elements."""
    names = type_info.get_field_names()
    fields = [field_converter(kind, separator) for kind in type_info.get_field_types()]

    def convert(text: str) -> Any:
        parts = text.split(separator) if separator else [text]
        if len(parts) != len(fields):
            raise CsvValueError(f"{len(fields)} fields are expected in {text!r}, and there are {len(parts)}")
        return row_of([field(part) for field, part in zip(fields, parts)], names)

    return convert


def to_int(text: str, limit: int | None) -> int:
    stripped = text.strip()
    if not INTEGER_TEXT.fullmatch(stripped):
        raise CsvValueError(f"{_shown(text)} is no integer")
    number = int(stripped)
    if limit is not None and not -limit <= number < limit:
        raise CsvValueError(f"{_shown(text)} is out of range")
    return number


def to_float(text: str) -> float:
    if not NUMBER_TEXT.fullmatch(text.strip()):
        raise CsvValueError(f"{_shown(text)} is no number")
    return float(text)


def _to_decimal(text: str) -> decimal.Decimal:
    stripped = text.strip()
    if not NUMBER_TEXT.fullmatch(stripped) or stripped[-1] in "Ny":
        raise CsvValueError(f"{_shown(text)} is no decimal number")
    return decimal.Decimal(stripped)


def _to_decimal_of(type_info: ti.DecimalTypeInfo, text: str) -> decimal.Decimal:
    try:
        return type_info.rounded(_to_decimal(text))
    except OverflowError as error:
        raise CsvValueError(f"{_shown(text)} is no {type_info!r}: it has {error}") from None


def _to_boolean(text: str) -> bool:
    word = text.strip().lower()
    if word not in ("true", "false"):
        raise CsvValueError(f"{_shown(text)} is no boolean")
    return word == "true"


def _to_bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise CsvValueError(f"{_shown(text)} is no base64 text") from None


def _to_date(text: str) -> datetime.date:
    try:
        return datetime.date.fromisoformat(text.strip())
    except ValueError:
        raise CsvValueError(f"{_shown(text)} is no date (yyyy-MM-dd)") from None


def _to_time(text: str) -> datetime.time:
    try:
        return datetime.time.fromisoformat(text.strip())
    except ValueError:
        raise CsvValueError(f"{_shown(text)} is no time (HH:mm:ss)") from None


def _to_timestamp(text: str) -> datetime.datetime:
    try:
        return datetime.datetime.fromisoformat(text.strip())
    except ValueError:
        raise CsvValueError(f"{_shown(text)} is no timestamp (yyyy-MM-dd HH:mm:ss[.S])") from None


_TEMPORAL: dict[str, FieldConverter] = {"DATE": _to_date, "TIME": _to_time, "TIMESTAMP": _to_timestamp}
_BASIC: dict[BasicType, FieldConverter] = {
    BasicType.STRING: str,
    BasicType.CHAR: str,
    BasicType.BOOLEAN: _to_boolean,
    BasicType.FLOAT: to_float,
    BasicType.DOUBLE: to_float,
    BasicType.BIG_DEC: _to_decimal,
}


def _shown(text: str) -> str:
    return repr(text if len(text) <= 100 else text[:100] + "...")
