"""CsvMessageParser: parses messages of one CSV row each.

pyarrow's reader parses many messages into columns, if the types allow it. Messages that it refuses are parsed one by
one with `field_converter`.
"""

from __future__ import annotations

import base64
import binascii
import csv
import datetime
import decimal
import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

from flinkpy.common import typeinfo as ti
from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.common.time import Instant
from flinkpy.common.typeinfo import BasicType, RowTypeInfo, TypeInformation
from flinkpy.common.types import row_of
from flinkpy.formats.json_values import INTEGER_TEXT, NUMBER_TEXT, temporal_kind
from flinkpy.formats.schema import DecodedBatch, MessageError
from flinkpy.records.lanes import arrow_schema

_FAST_TYPES = frozenset(
    {BasicType.STRING, BasicType.BOOLEAN, BasicType.BYTE, BasicType.SHORT, BasicType.INT, BasicType.LONG}
)


@dataclass(frozen=True)
class CsvMessageOptions:
    """The dialect of messages. A null literal means null even in quotes, as in Flink. None: no text means null."""

    delimiter: str = ","
    quote_char: str = '"'
    escape_char: str = ""
    element_separator: str = ";"
    null_literal: str | None = None
    allow_comments: bool = False
    ignore_parse_errors: bool = False


_INTEGER_BITS = {BasicType.BYTE: 8, BasicType.SHORT: 16, BasicType.INT: 32, BasicType.LONG: 64}


class CsvValueError(ValueError):
    """A field that does not fit its type."""


FieldConverter = Callable[[str], Any]


def field_converter(type_info: TypeInformation, element_separator: str) -> FieldConverter:
    """Returns a function that converts the text of a field to a value of the type, or raises CsvValueError.

    Source: org.apache.flink.formats.csv.CsvRowDeserializationSchema. Differs: a text other than `true` or `false` is
    not a boolean; in Flink it is false.

    Raises:
        UnsupportedOperationError: CSV does not support the type.
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
        raise UnsupportedOperationError(f"CSV does not support values of {type_info!r}")
    return temporal


def _parts(text: str, separator: str) -> list[str]:
    """Splits a list. An empty field has no elements."""
    if not text:
        return []
    return text.split(separator) if separator else [text]


def _row(type_info: RowTypeInfo, separator: str) -> FieldConverter:
    """Returns the converter of a nested row. Its fields are separated like elements."""
    names = type_info.get_field_names()
    fields = [field_converter(kind, separator) for kind in type_info.get_field_types()]

    def convert(text: str) -> Any:
        parts = text.split(separator) if separator else [text]
        if len(parts) != len(fields):
            raise CsvValueError(f"{text!r} has {len(parts)} fields, and {len(fields)} are expected")
        return row_of([field(part) for field, part in zip(fields, parts)], names)

    return convert


def to_int(text: str, limit: int | None) -> int:
    stripped = text.strip()
    if not INTEGER_TEXT.fullmatch(stripped):
        raise CsvValueError(f"{_shown(text)} is not an integer")
    number = int(stripped)
    if limit is not None and not -limit <= number < limit:
        raise CsvValueError(f"{_shown(text)} is out of range")
    return number


def to_float(text: str) -> float:
    if not NUMBER_TEXT.fullmatch(text.strip()):
        raise CsvValueError(f"{_shown(text)} is not a number")
    return float(text)


def _to_decimal(text: str) -> decimal.Decimal:
    stripped = text.strip()
    if not NUMBER_TEXT.fullmatch(stripped) or stripped[-1] in "Ny":
        raise CsvValueError(f"{_shown(text)} is not a decimal number")
    return decimal.Decimal(stripped)


def _to_decimal_of(type_info: ti.DecimalTypeInfo, text: str) -> decimal.Decimal:
    try:
        return type_info.rounded(_to_decimal(text))
    except OverflowError as error:
        raise CsvValueError(f"{_shown(text)} is not a {type_info!r}: it has {error}") from None


def _to_boolean(text: str) -> bool:
    word = text.strip().lower()
    if word not in ("true", "false"):
        raise CsvValueError(f"{_shown(text)} is not a boolean")
    return word == "true"


def _to_bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise CsvValueError(f"{_shown(text)} is not base64 text") from None


def _to_date(text: str) -> datetime.date:
    try:
        return datetime.date.fromisoformat(text.strip())
    except ValueError:
        raise CsvValueError(f"{_shown(text)} is not a date (yyyy-MM-dd)") from None


def _to_time(text: str) -> datetime.time:
    try:
        return datetime.time.fromisoformat(text.strip())
    except ValueError:
        raise CsvValueError(f"{_shown(text)} is not a time (HH:mm:ss)") from None


def _to_timestamp(text: str) -> datetime.datetime:
    try:
        return datetime.datetime.fromisoformat(text.strip())
    except ValueError:
        raise CsvValueError(f"{_shown(text)} is not a timestamp (yyyy-MM-dd HH:mm:ss[.S])") from None


def _to_instant(text: str) -> Instant:
    """Returns a moment. A text without a zone is in UTC."""
    moment = _to_timestamp(text)
    plain = moment.replace(tzinfo=datetime.UTC) if moment.tzinfo is None else moment
    micros = (plain - _EPOCH) // datetime.timedelta(microseconds=1)
    return Instant(micros // 1_000_000, micros % 1_000_000 * 1000)


_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_TEMPORAL: dict[str, FieldConverter] = {"DATE": _to_date, "TIME": _to_time, "TIMESTAMP": _to_timestamp}
_BASIC: dict[BasicType, FieldConverter] = {
    BasicType.INSTANT: _to_instant,
    BasicType.STRING: str,
    BasicType.CHAR: str,
    BasicType.BOOLEAN: _to_boolean,
    BasicType.FLOAT: to_float,
    BasicType.DOUBLE: to_float,
    BasicType.BIG_DEC: _to_decimal,
}


def _shown(text: str) -> str:
    return repr(text if len(text) <= 100 else text[:100] + "...")


class CsvMessageParser:
    """Parses messages to rows of a type. Thread: any, one at a time."""

    def __init__(self, row_type: RowTypeInfo, options: CsvMessageOptions) -> None:
        self._names = row_type.get_field_names()
        self._options = options
        self._fields = [field_converter(kind, options.element_separator) for kind in row_type.get_field_types()]
        types = row_type.get_field_types()
        is_fast = bool(types) and all(isinstance(t, ti.BasicTypeInfo) and t.basic_type in _FAST_TYPES for t in types)
        self._schema = arrow_schema(row_type) if is_fast else None
        if self._schema is not None:
            self._prepare_fast(self._schema)

    def _prepare_fast(self, schema: pa.Schema) -> None:
        options = self._options
        quote, delimiter = (re.escape(text.encode()) for text in (options.quote_char, options.delimiter))
        quoted = rb"%b(?:[^%b\n]|%b%b)*+%b|" % ((quote,) * 5) if quote else b""
        plain = rb"[^%b%b\n][^%b\n]*+" % (quote, delimiter, delimiter)
        self._strict_rows = re.compile(rb"(?:(?:%b%b|)(?:%b|\n|\Z))*+" % (quoted, plain, delimiter))
        self._read_options = pa_csv.ReadOptions(use_threads=False, column_names=self._names)
        self._parse_options = pa_csv.ParseOptions(
            delimiter=options.delimiter,
            quote_char=options.quote_char or False,
            escape_char=options.escape_char or False,
            ignore_empty_lines=False,
        )
        self._convert_options = pa_csv.ConvertOptions(
            column_types={field.name: field.type for field in schema},
            null_values=[] if options.null_literal is None else [options.null_literal],
            strings_can_be_null=options.null_literal is not None,
            quoted_strings_can_be_null=True,
            true_values=["true", "TRUE", "True"],
            false_values=["false", "FALSE", "False"],
        )

    def parse_one(self, message: bytes) -> Any:
        """Returns the Row of a message. Raises: CsvValueError."""
        return row_of(self._values(message), self._names)

    def parse_messages(self, messages: Sequence[bytes | None]) -> DecodedBatch:
        """Parses messages. None has no record."""
        if self._schema is not None and None not in messages:
            columns = self._parse_columns([message.rstrip(b"\r\n") for message in messages])  # type: ignore[union-attr]
            if columns is not None:
                return DecodedBatch(columns)
        return self._parse_each(messages)

    def _parse_columns(self, messages: list[bytes]) -> pa.RecordBatch | None:
        data = b"\n".join(messages)
        if (
            not all(messages)
            or data.count(b"\n") != len(messages) - 1
            or (self._options.allow_comments and b"#" in data)
            or not self._are_quotes_plain(data)
        ):
            return None
        self._read_options.block_size = len(data) + 1
        try:
            table = pa_csv.read_csv(
                pa.BufferReader(data), self._read_options, self._parse_options, self._convert_options
            )
        except (pa.ArrowException, OverflowError):
            return None
        return table.combine_chunks().to_batches()[0] if table.num_rows == len(messages) else None

    def _are_quotes_plain(self, data: bytes) -> bool:
        """True if each closing quote is at the end of its field. pyarrow does not check this."""
        quote, escape = self._options.quote_char.encode(), self._options.escape_char.encode()
        if escape and escape in data:
            return False
        return not quote or quote not in data or self._strict_rows.fullmatch(data) is not None

    def _parse_each(self, messages: Sequence[bytes | None]) -> DecodedBatch:
        rows, positions, errors = [], [], []
        for index, message in enumerate(messages):
            if message is None:
                continue
            try:
                values = self._values(message)
            except CsvValueError as error:
                if not self._options.ignore_parse_errors:
                    errors.append(MessageError(index, str(error)))
                continue
            rows.append(row_of(values, self._names))
            positions.append(index)
        return DecodedBatch(rows, np.array(positions, np.int64), errors)

    def _values(self, message: bytes) -> list[Any]:
        texts = self._texts(message)
        lenient = self._options.ignore_parse_errors
        if not texts:
            raise CsvValueError("the message has no row")
        if len(texts) > len(self._fields) or (len(texts) < len(self._fields) and not lenient):
            raise CsvValueError(
                f"row length mismatch: {len(self._fields)} fields are expected, and there are {len(texts)}"
            )
        values: list[Any] = [None] * len(self._fields)
        for position, (convert, text) in enumerate(zip(self._fields, texts)):
            if text == self._options.null_literal:
                continue
            try:
                values[position] = convert(text)
            except CsvValueError as error:
                if not lenient:
                    raise CsvValueError(f"field {self._names[position]!r}: {error}") from None
        return values

    def _texts(self, message: bytes) -> list[str]:
        """Returns the fields of the message's first row. An empty message has none."""
        options = self._options
        try:
            text = message.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise CsvValueError(f"the message is not UTF-8: {error.reason} at byte {error.start}") from None
        lines = io.StringIO(text, newline="")
        if options.allow_comments:
            lines = io.StringIO(
                "".join(line for line in text.splitlines(keepends=True) if not line.startswith("#")), newline=""
            )
        reader = csv.reader(
            lines,
            delimiter=options.delimiter,
            quotechar=options.quote_char or None,
            escapechar=options.escape_char or None,
            quoting=csv.QUOTE_MINIMAL if options.quote_char else csv.QUOTE_NONE,
            strict=True,
        )
        try:
            return next((row for row in reader if row), [])
        except csv.Error as error:
            raise CsvValueError(f"the message is not CSV: {error}") from None
