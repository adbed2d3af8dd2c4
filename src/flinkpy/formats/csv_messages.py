"""CsvMessageParser: messages that are one CSV row each, as columns straight away where the types allow it.

pyarrow's reader is tried first; whatever it does not take as it is goes through `csv_values`, message by message.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

from flinkpy.common import typeinfo as ti
from flinkpy.common.typeinfo import BasicType, RowTypeInfo
from flinkpy.common.types import row_of
from flinkpy.formats.csv_values import CsvValueError, field_converter
from flinkpy.formats.schema import DecodedBatch, MessageError
from flinkpy.records.lanes import arrow_schema

_FAST_TYPES = frozenset(
    {BasicType.STRING, BasicType.BOOLEAN, BasicType.BYTE, BasicType.SHORT, BasicType.INT, BasicType.LONG}
)


@dataclass(frozen=True)
class CsvMessageOptions:
    """How messages are written. A null literal reads as null in quotes, too, as in Flink; None: nothing is null."""

    delimiter: str = ","
    quote_char: str = '"'
    escape_char: str = ""
    element_separator: str = ";"
    null_literal: str | None = None
    allow_comments: bool = False
    ignore_parse_errors: bool = False


class CsvMessageParser:
    """Thread: any, one at a time."""

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
        """A Row. Raises: CsvValueError."""
        return row_of(self._values(message), self._names)

    def parse_messages(self, messages: Sequence[bytes | None]) -> DecodedBatch:
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
        """Whether nothing follows a closing quote but the field's end, which pyarrow does not look at."""
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
            raise CsvValueError("there is no row in it")
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
        """The fields of the message's first row; none of an empty message."""
        options = self._options
        try:
            text = message.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise CsvValueError(f"it is not UTF-8: {error.reason} at byte {error.start}") from None
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
            raise CsvValueError(f"it is not CSV: {error}") from None
