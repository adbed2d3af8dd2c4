"""Documents of MongoDB as columns of a logical row type, and back.

Source: org.apache.flink.connector.mongodb.table.converter.{BsonToRowDataConverters, RowDataToBsonConverters}. Differs:
TIMESTAMP is in UTC, not in the zone of a JVM.
"""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import InputFormatError, ValidationError
from flinkpy.formats.text_form import float_text
from flinkpy.sql.types import logical_types as types
from flinkpy.sql.types.arrow import arrow_type_of, schema_of
from flinkpy.sql.types.logical_types import LogicalType, RowType

if TYPE_CHECKING:
    import pyarrow as pa

_INTEGERS: dict[type[LogicalType], int] = {
    types.TinyIntType: 8,
    types.SmallIntType: 16,
    types.IntType: 32,
    types.BigIntType: 64,
}
_TEXTS = (types.CharType, types.VarCharType)
_BYTES = (types.BinaryType, types.VarBinaryType)
_TIMESTAMPS = (types.TimestampType, types.LocalZonedTimestampType)
#: Types with one value that can identify a document.
KEY_TYPES = (*_INTEGERS, *_TEXTS, *_TIMESTAMPS, types.BooleanType, types.FloatType, types.DoubleType, types.DecimalType)
_PER_MS = {"s": 0.001, "ms": 1, "us": 1_000, "ns": 1_000_000}

Converter = Callable[[Any], Any]


def check_columns(row_type: RowType) -> None:
    """Raises: ValidationError that names a column whose type documents do not have."""
    for field in row_type.fields:
        if not _has_form(field.type):
            raise ValidationError(f"mongodb: column '{field.name}': Unsupported type: {field.type}")


def _has_form(kind: LogicalType) -> bool:
    if isinstance(kind, RowType):
        return all(_has_form(field.type) for field in kind.fields)
    if isinstance(kind, types.ArrayType):
        return _has_form(kind.element)
    if isinstance(kind, types.MapType):
        return isinstance(kind.key, _TEXTS) and _has_form(kind.value)
    return isinstance(kind, (*KEY_TYPES, *_BYTES))


# -- documents to columns ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RowsOfDocuments:
    """Returns documents as columns. A field that a document does not have is NULL."""

    row_type: RowType

    def __call__(self, documents: Sequence[Mapping[str, Any]]) -> pa.RecordBatch:
        import pyarrow as pa

        schema, columns = schema_of(self.row_type), []
        for place, field in enumerate(self.row_type.fields):
            convert = _reader(field.type)
            try:
                values = [convert(document.get(field.name)) for document in documents]
            except (ValueError, ArithmeticError) as error:
                raise InputFormatError(f"mongodb: field '{field.name}': {error}") from error
            columns.append(pa.array(values, schema.field(place).type))
        return pa.RecordBatch.from_arrays(columns, schema=schema)


def _reader(kind: LogicalType) -> Converter:
    """Returns the converter of values of BSON that may be missing. It raises ValueError."""
    from bson import Decimal128

    convert = _reader_of_value(kind)

    def read(value: Any) -> Any:
        if value is None or (isinstance(value, Decimal128) and value.to_decimal().is_nan()):
            if not kind.nullable:
                raise ValueError(f"Unable to convert to <{kind}> from nullable value {value}")
            return None
        return convert(value)

    return read


def _reader_of_value(kind: LogicalType) -> Converter:
    if isinstance(kind, RowType):
        fields = [(field.name, _reader(field.type)) for field in kind.fields]
        return lambda value: {name: read(_of_type(value, Mapping, "rowType").get(name)) for name, read in fields}
    if isinstance(kind, types.ArrayType):
        read_element = _reader(kind.element)
        return lambda value: [read_element(each) for each in _of_type(value, list, "arrayType")]
    if isinstance(kind, types.MapType):
        read_value = _reader(kind.value)
        return lambda value: [(key, read_value(each)) for key, each in _of_type(value, Mapping, "rowType").items()]
    if type(kind) in _INTEGERS:
        bits = _INTEGERS[type(kind)]
        return _to_small_int(bits) if bits < 32 else _to_int(bits)
    if isinstance(kind, types.DecimalType):
        return _to_decimal(kind.precision, kind.scale)
    if isinstance(kind, _TIMESTAMPS):
        per_ms = _PER_MS[arrow_type_of(kind).unit]
        return lambda value: int(_milliseconds(value, "Instant") * per_ms)
    if isinstance(kind, (types.FloatType, types.DoubleType)):
        return _to_float
    return _to_bool if isinstance(kind, types.BooleanType) else _to_bytes if isinstance(kind, _BYTES) else _to_text


def _unexpected(value: Any, wanted: str) -> ValueError:
    return ValueError(f"Unable to convert to {wanted} from unexpected value '{value}' of type {type(value).__name__}")


def _of_type(value: Any, kind: type, wanted: str) -> Any:
    if isinstance(value, kind):
        return value
    raise _unexpected(value, wanted)


def _to_bool(value: Any) -> bool:
    if isinstance(value, (bool, int)):
        return value == 1
    if isinstance(value, str):
        return value.lower() == "true"
    raise _unexpected(value, "boolean")


def _wrapped(value: int, bits: int) -> int:
    """Returns an integer as Java's casts leave it."""
    return (value + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)


def _clamped(value: float | decimal.Decimal, bits: int) -> int:
    """Returns a fraction as Java's casts leave it."""
    largest = (1 << bits - 1) - 1
    if math.isnan(value):
        return 0
    return largest if value > largest else max(int(value), -largest - 1) if value > -math.inf else -largest - 1


def _parsed(text: str, bits: int) -> int:
    value = int(text)
    if value != _wrapped(value, bits):
        raise ValueError(f"'{text}' is out of range")
    return value


def _to_small_int(bits: int) -> Converter:
    def read(value: Any) -> int:
        if isinstance(value, int):
            return _wrapped(int(value), bits)
        if isinstance(value, str):
            return _parsed(value, bits)
        raise _unexpected(value, "tinyint" if bits == 8 else "smallint")

    return read


def _to_int(bits: int) -> Converter:
    from bson import DatetimeMS, Decimal128, Timestamp

    is_long = bits == 64

    def read(value: Any) -> int:
        if isinstance(value, int):
            return _wrapped(int(value), bits)
        if isinstance(value, float):
            return _clamped(value, bits)
        if isinstance(value, Decimal128):
            exact = value.to_decimal()
            return _wrapped(int(exact), bits) if exact.is_finite() else _clamped(exact, bits)
        if isinstance(value, DatetimeMS):
            return int(value) if is_long else _wrapped(int(value) // 1000, bits)
        if isinstance(value, Timestamp):
            return value.time * 1000 if is_long else value.time
        if isinstance(value, str):
            return _parsed(value, bits)
        raise _unexpected(value, "long" if is_long else "integer")

    return read


def _to_float(value: Any) -> float:
    from bson import Decimal128

    if isinstance(value, (int, float)):
        return float(value)
    if isinstance(value, Decimal128):
        return float(value.to_decimal())
    if isinstance(value, str):
        return float(value)
    raise _unexpected(value, "double")


def _to_decimal(precision: int, scale: int) -> Converter:
    from bson import Decimal128

    exponent = decimal.Decimal(1).scaleb(-scale)
    context = decimal.Context(prec=precision + scale + 40, rounding=decimal.ROUND_HALF_UP)

    def read(value: Any) -> decimal.Decimal | None:
        if isinstance(value, Decimal128):
            exact = value.to_decimal()
            if not exact.is_finite():
                raise ValueError("Unable to convert infinite bson decimal to Decimal type.")
        elif isinstance(value, (int, float, str)) and not isinstance(value, bool):
            exact = decimal.Decimal(repr(value) if isinstance(value, float) else value)
        else:
            raise _unexpected(value, "decimal")
        rounded = exact.quantize(exponent, context=context)
        # As in Flink, a number that is too large for the column is NULL.
        return rounded if len(rounded.as_tuple().digits) <= precision else None

    return read


def _milliseconds(value: Any, wanted: str) -> int:
    from bson import DatetimeMS, Timestamp

    if isinstance(value, Timestamp):
        return int(value.time) * 1000
    if isinstance(value, DatetimeMS):
        return int(value)
    raise _unexpected(value, wanted)


def _to_bytes(value: Any) -> bytes:
    if isinstance(value, bytes):  # a Binary with a type is one, too
        return bytes(value)
    raise ValueError(f"Unsupported BYTES value type: {type(value).__name__}")


def _to_text(value: Any) -> str:
    from bson import Binary, Code, DatetimeMS, DBRef, Decimal128, ObjectId, Regex, Timestamp
    from bson.json_util import RELAXED_JSON_OPTIONS, dumps

    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return float_text(value)
    if isinstance(value, (str, int, ObjectId, Decimal128, Code)):
        return str(value)
    if isinstance(value, Binary) and value.subtype in (3, 4):
        return str(value.as_uuid(value.subtype))
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, (DatetimeMS, Timestamp)):
        moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(milliseconds=_milliseconds(value, "string"))
        text = moment.isoformat(timespec="microseconds").rstrip("0").rstrip(".")
        return text + "Z"
    if isinstance(value, Regex):
        return f"/{value.pattern}/{_flags(value)}"
    if isinstance(value, (Mapping, list, DBRef)):
        return dumps(value, json_options=RELAXED_JSON_OPTIONS)
    raise _unexpected(value, "string")


def _flags(regex: Any) -> str:
    """Returns the options of a regular expression in MongoDB's letters, in their order."""
    import re

    known = {"i": re.IGNORECASE, "l": re.LOCALE, "m": re.MULTILINE, "s": re.DOTALL, "u": re.UNICODE, "x": re.VERBOSE}
    return "".join(letter for letter, flag in known.items() if regex.flags & flag)


# -- columns to documents ----------------------------------------------------------------------------------------------


def values_of(column: pa.Array, kind: LogicalType) -> list[Any]:
    """Returns the values of a column in the form that pymongo writes."""
    convert = _writer(kind)
    plain = column.cast(_plain(column.type), safe=False)
    return [None if value is None else convert(value) for value in plain.to_pylist()]


def _plain(arrow_type: pa.DataType) -> pa.DataType:
    """Returns an Arrow type with times in milliseconds, which is what BSON has."""
    import pyarrow as pa

    if pa.types.is_timestamp(arrow_type):
        return pa.timestamp("ms", arrow_type.tz)
    if pa.types.is_struct(arrow_type):
        return pa.struct([pa.field(each.name, _plain(each.type)) for each in arrow_type])
    if pa.types.is_map(arrow_type):
        return pa.map_(_plain(arrow_type.key_type), _plain(arrow_type.item_type))
    return pa.list_(_plain(arrow_type.value_type)) if pa.types.is_list(arrow_type) else arrow_type


def _writer(kind: LogicalType) -> Converter:
    """Returns the converter of a value that is not None."""
    from bson import Decimal128, Int64

    if isinstance(kind, RowType):
        fields = [(field.name, _optional(_writer(field.type))) for field in kind.fields]
        # The names are those of the column: a query may have given others.
        return lambda value: {name: write(each) for (name, write), each in zip(fields, value.values(), strict=True)}
    if isinstance(kind, types.ArrayType):
        write_element = _optional(_writer(kind.element))
        return lambda value: [write_element(each) for each in value]
    if isinstance(kind, types.MapType):
        write_value = _optional(_writer(kind.value))
        return lambda value: {key: write_value(each) for key, each in value}
    if isinstance(kind, types.DecimalType):
        return Decimal128
    # A short integer that is not marked would be one of 32 bits.
    return Int64 if isinstance(kind, types.BigIntType) else _itself


def _optional(convert: Converter) -> Converter:
    return lambda value: None if value is None else convert(value)


def _itself(value: Any) -> Any:
    return value
