"""Converts parsed JSON values to values of a declared type, as leniently as Flink's JSON format.

A string may contain a number, and any value may stand for a string.

Source: org.apache.flink.formats.json.JsonRowDeserializationSchema. Differs: a value other than true or false is not a
boolean (in Flink it is false); nothing may follow the object; BIG_DEC keeps all digits; times need no `Z`.
"""

from __future__ import annotations

import base64
import binascii
import datetime
import decimal
import enum
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flinkpy.common import typeinfo as ti
from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.common.time import Instant
from flinkpy.common.typeinfo import BasicType, TypeInformation
from flinkpy.common.types import row_of
from flinkpy.formats.text_form import float_text

Convert = Callable[[Any], Any]

#: Numbers in strings, as Java accepts them. Python would also accept underscores and other digits.
INTEGER_TEXT = re.compile(r"[+-]?[0-9]+")
NUMBER_TEXT = re.compile(r"[+-]?(NaN|Infinity|([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?)")
_INTEGER_BITS = {BasicType.BYTE: 8, BasicType.SHORT: 16, BasicType.INT: 32, BasicType.LONG: 64}
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


class TimeForm(enum.Enum):
    """How times are written. Source: org.apache.flink.formats.common.{TimeFormats, TimestampFormat}."""

    #: `2020-02-29T01:02:03.5Z`, also for times without a zone, as the formats of the DataStream API write them.
    RFC_3339 = "RFC-3339"
    #: `2020-02-29 01:02:03.5`, and with a Z for instants: the default of SQL.
    SQL = "SQL"
    #: `2020-02-29T01:02:03.5`, and with a Z for instants.
    ISO_8601 = "ISO-8601"


@dataclass(frozen=True)
class JsonReadOptions:
    """Options for lenient reading.

    Attributes:
        fail_on_missing_field: a missing field is an error; otherwise it is null.
        ignore_parse_errors: a field that does not fit its type is null.
    """

    fail_on_missing_field: bool = False
    ignore_parse_errors: bool = False


class JsonValueError(ValueError):
    """A value that does not fit its type. `path` leads to it from the root."""

    def __init__(self, reason: str, path: str = "") -> None:
        super().__init__(f"field {path!r}: {reason}" if path else reason)
        self.reason = reason
        self.path = path


def parse_json(text: bytes | str) -> Any:
    """Parses strict JSON: no NaN, nothing after the value. Numbers with a point or an exponent stay exact.

    Raises:
        JsonValueError: the text is not JSON.
    """
    try:
        if isinstance(text, bytes):
            text = text.decode("utf-8")
        value = _decode(text.removeprefix("\ufeff"))
        if "\\ud" in text or "\\uD" in text:
            json.dumps(value, ensure_ascii=False).encode()
        return value
    except UnicodeEncodeError as error:
        raise JsonValueError("half of a surrogate pair is not a character") from error
    except UnicodeDecodeError as error:
        raise JsonValueError(f"the text is not UTF-8: {error.reason} at byte {error.start}") from error
    except RecursionError as error:
        raise JsonValueError("the value is nested too deeply") from error
    except JsonValueError:
        raise
    except ValueError as error:
        raise JsonValueError(f"the text is not JSON: {error}") from error


class _ExactFloat(float):
    """A float with its original text, for BIG_DEC."""

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> _ExactFloat:
        value = super().__new__(cls, text)
        value.text = text
        return value


def _refuse_constant(name: str) -> Any:
    raise JsonValueError(f"the text is not JSON: {name} is not a JSON number")


#: Created once; `json.loads` would create a decoder per text.
_decode = json.JSONDecoder(parse_float=_ExactFloat, parse_constant=_refuse_constant).decode


def converter_of(type_info: TypeInformation, options: JsonReadOptions) -> Convert:
    """Returns a function that converts a parsed value to this type, or raises JsonValueError.

    Raises:
        UnsupportedOperationError: JSON does not support the type.
    """
    convert = _plain_converter(type_info, options)
    if options.ignore_parse_errors and not isinstance(type_info, ti.RowTypeInfo):

        def lenient(value: Any) -> Any:
            if value is None:
                return None
            try:
                return convert(value)
            except JsonValueError:
                return None

        return lenient
    return lambda value: None if value is None else convert(value)


def row_converter(row_type: ti.RowTypeInfo, options: JsonReadOptions) -> Callable[[Any], list[Any]]:
    """Returns a function like `converter_of` that returns the field values and refuses null instead of a row."""
    names = row_type.get_field_names()
    fields = [(name, converter_of(kind, options)) for name, kind in zip(names, row_type.get_field_types())]
    must_have_all = options.fail_on_missing_field

    def convert(value: Any) -> list[Any]:
        if not isinstance(value, dict):
            raise JsonValueError(f"an object is expected, not {_kind(value)}")
        values: list[Any] = []
        for name, field in fields:
            if name not in value:
                if must_have_all:
                    raise JsonValueError(f"field {name!r} is missing")
                values.append(None)
                continue
            try:
                values.append(field(value[name]))
            except JsonValueError as error:
                raise JsonValueError(error.reason, f"{name}.{error.path}" if error.path else name) from None
        return values

    return convert


def _plain_converter(type_info: TypeInformation, options: JsonReadOptions) -> Convert:
    if isinstance(type_info, ti.ExternalTypeInfo):
        return _plain_converter(type_info.wrapped_type, options)
    if isinstance(type_info, ti.RowTypeInfo):
        names = type_info.get_field_names()
        convert_row = row_converter(type_info, options)
        return lambda value: row_of(convert_row(value), names)
    if isinstance(type_info, ti.TupleTypeInfo):
        return _tuple_converter(type_info, options)
    if isinstance(type_info, ti.DecimalTypeInfo):
        return _decimal_converter(type_info)
    if isinstance(type_info, ti.BasicTypeInfo):
        return _basic_converter(type_info.basic_type)
    if isinstance(type_info, ti.MapTypeInfo):
        return _map_converter(type_info, options)
    if isinstance(type_info, ti.PickledBytesTypeInfo):
        return plain_value
    if isinstance(type_info, ti.PrimitiveArrayTypeInfo) and _is_byte(type_info.element_type):
        return _to_bytes
    if isinstance(
        type_info, (ti.ListTypeInfo, ti.PrimitiveArrayTypeInfo, ti.BasicArrayTypeInfo, ti.ObjectArrayTypeInfo)
    ):
        element = converter_of(type_info.element_type, options)
        return lambda value: _to_list(value, element)
    convert = _TEMPORAL.get(temporal_kind(type_info) or "")
    if convert is None:
        raise UnsupportedOperationError(f"JSON does not support values of {type_info!r}")
    return convert


def temporal_kind(type_info: TypeInformation) -> str | None:
    """Returns DATE, TIME or TIMESTAMP, or None for another type."""
    if isinstance(type_info, ti.LocalTimeTypeInfo):
        return {"LOCAL_DATE": "DATE", "LOCAL_TIME": "TIME", "LOCAL_DATE_TIME": "TIMESTAMP"}[type_info.time_type.name]
    kinds = ((ti.DateTypeInfo, "DATE"), (ti.TimeTypeInfo, "TIME"), (ti.TimestampTypeInfo, "TIMESTAMP"))
    return next((name for cls, name in kinds if isinstance(type_info, cls)), None)


def _is_byte(type_info: TypeInformation) -> bool:
    return isinstance(type_info, ti.BasicTypeInfo) and type_info.basic_type is BasicType.BYTE


def plain_value(value: Any) -> Any:
    """Returns the value as Python's JSON reader would."""
    if isinstance(value, dict):
        return {name: plain_value(item) for name, item in value.items()}
    if isinstance(value, list):
        return [plain_value(item) for item in value]
    return float(value) if isinstance(value, float) else value


def _basic_converter(kind: BasicType) -> Convert:
    if kind in _INTEGER_BITS:
        limit = 1 << (_INTEGER_BITS[kind] - 1)
        return lambda value: _to_int(value, limit)
    return _BASIC[kind]


def _to_int(value: Any, limit: int | None) -> int:
    try:
        if isinstance(value, (bool, dict, list)):
            raise ValueError
        if isinstance(value, str) and not INTEGER_TEXT.fullmatch(value.strip()):
            raise ValueError
        number = int(value)
    except (ValueError, OverflowError):
        raise JsonValueError(f"{_shown(value)} is not an integer") from None
    if limit is not None and not -limit <= number < limit:
        raise JsonValueError(f"{_shown(value)} is out of range")
    return number


def _to_big_int(value: Any) -> int:
    if isinstance(value, float):
        raise JsonValueError(f"{_shown(value)} is not an integer")
    return _to_int(value, None)


def _to_float(value: Any) -> float:
    try:
        if isinstance(value, (bool, dict, list)):
            raise ValueError
        if isinstance(value, str) and not NUMBER_TEXT.fullmatch(value.strip()):
            raise ValueError
        return float(value)
    except (ValueError, OverflowError):
        raise JsonValueError(f"{_shown(value)} is not a number") from None


def _to_decimal(value: Any) -> decimal.Decimal:
    try:
        if isinstance(value, (bool, dict, list)):
            raise decimal.InvalidOperation
        if isinstance(value, str) and not NUMBER_TEXT.fullmatch(value.strip()):
            raise decimal.InvalidOperation
        number = decimal.Decimal(value.text if isinstance(value, _ExactFloat) else value)
        if not number.is_finite():
            raise decimal.InvalidOperation
        return number
    except (decimal.InvalidOperation, ValueError):
        raise JsonValueError(f"{_shown(value)} is not a decimal number") from None


def _decimal_converter(type_info: ti.DecimalTypeInfo) -> Convert:
    def convert(value: Any) -> decimal.Decimal:
        try:
            return type_info.rounded(_to_decimal(value))
        except OverflowError as error:
            raise JsonValueError(f"{_shown(value)} is not a {type_info!r}: it has {error}") from None

    return convert


def _to_boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    raise JsonValueError(f"{_shown(value)} is not a boolean")


def _to_string(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return float_text(float(value))
    if isinstance(value, (dict, list)):
        return json.dumps(plain_value(value), ensure_ascii=False, separators=(",", ":"))
    return str(value)


def _to_bytes(value: Any) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise JsonValueError(f"{_shown(value)} is not base64 text") from None


def _to_list(value: Any, element: Convert) -> list[Any]:
    if not isinstance(value, list):
        raise JsonValueError(f"an array is expected, not {_kind(value)}")
    values = []
    for index, item in enumerate(value):
        try:
            values.append(element(item))
        except JsonValueError as error:
            raise JsonValueError(error.reason, f"{index}.{error.path}" if error.path else str(index)) from None
    return values


def _map_converter(type_info: ti.MapTypeInfo, options: JsonReadOptions) -> Convert:
    # Names of an object are texts. Keys of other types are parsed from them.
    key = converter_of(type_info.key_type, options)
    item = converter_of(type_info.value_type, options)

    def convert(value: Any) -> dict[Any, Any]:
        if not isinstance(value, dict):
            raise JsonValueError(f"an object is expected, not {_kind(value)}")
        result = {}
        for name, content in value.items():
            try:
                result[key(name)] = item(content)
            except JsonValueError as error:
                raise JsonValueError(error.reason, f"{name}.{error.path}" if error.path else name) from None
        return result

    return convert


def _tuple_converter(type_info: ti.TupleTypeInfo, options: JsonReadOptions) -> Convert:
    fields = [converter_of(kind, options) for kind in type_info.get_field_types()]

    def convert(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list) or len(value) != len(fields):
            raise JsonValueError(f"an array of {len(fields)} elements is expected, not {_shown(value)}")
        return tuple(field(item) for field, item in zip(fields, value))

    return convert


def _to_date(value: Any) -> datetime.date:
    try:
        return datetime.date.fromisoformat(value)
    except (TypeError, ValueError):
        raise JsonValueError(f"{_shown(value)} is not a date (yyyy-MM-dd)") from None


def _to_time(value: Any) -> datetime.time:
    try:
        return datetime.time.fromisoformat(value).replace(tzinfo=None)
    except (TypeError, ValueError):
        raise JsonValueError(f"{_shown(value)} is not a time (HH:mm:ss[.S][Z])") from None


def _to_timestamp(value: Any) -> datetime.datetime:
    """Parses a timestamp. One with an offset is converted to UTC."""
    try:
        moment = datetime.datetime.fromisoformat(value)
        return moment if moment.tzinfo is None else moment.astimezone(datetime.UTC).replace(tzinfo=None)
    except (TypeError, ValueError, OverflowError):
        raise JsonValueError(f"{_shown(value)} is not a timestamp (yyyy-MM-ddTHH:mm:ss[.S][Z])") from None


def _to_instant(value: Any) -> Instant:
    micros = (_to_timestamp(value).replace(tzinfo=datetime.UTC) - _EPOCH) // datetime.timedelta(microseconds=1)
    return Instant(micros // 1_000_000, micros % 1_000_000 * 1000)


_TEMPORAL: dict[str, Convert] = {"DATE": _to_date, "TIME": _to_time, "TIMESTAMP": _to_timestamp}
_BASIC: dict[BasicType, Convert] = {
    BasicType.STRING: _to_string,
    BasicType.CHAR: _to_string,
    BasicType.BOOLEAN: _to_boolean,
    BasicType.FLOAT: _to_float,
    BasicType.DOUBLE: _to_float,
    BasicType.BIG_INT: _to_big_int,
    BasicType.BIG_DEC: _to_decimal,
    BasicType.INSTANT: _to_instant,
}


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")


def _shown(value: Any) -> str:
    text = json.dumps(plain_value(value), ensure_ascii=False)
    return text if len(text) <= 100 else text[:100] + "..."
