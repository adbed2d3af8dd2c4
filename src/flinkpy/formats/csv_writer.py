"""CsvLineWriter: writes columns as CSV lines, byte for byte like Flink, without a Python object per field.

It quotes fields by Jackson's rule: a text with a character up to the highest of delimiter, quote and line end, or with
the escape character (a backslash if there is none), or with more than 24 characters. In files it also quotes a text
that would be read as null.

Source: com.fasterxml.jackson.dataformat.csv.impl.CsvEncoder.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.formats.csv_format import CsvOptions
from flinkpy.formats.text_form import float_text

_DEFAULT_ELEMENT_SEPARATOR = ";"
#: Longer texts are always quoted.
_MAX_QUOTE_CHECK = 24


class CsvLineWriter:
    """Writes rows as CSV lines. Thread: any.

    Args:
        options: the dialect.
        line_separator: end of each line.
        guards_nulls: quote texts that would be read as null.
    """

    def __init__(self, options: CsvOptions, line_separator: str = "\n", guards_nulls: bool = True) -> None:
        self._options = options
        self._guards_nulls = guards_nulls
        self._line_separator = line_separator
        self._null = options.null_values[0] if options.null_values else ""
        self._unsafe = _unsafe_pattern(options, line_separator)

    def header(self, names: list[str]) -> bytes:
        """Returns the header line."""
        quoted = self._quote(pa.array(names, pa.string())).to_pylist()
        return (self._options.delimiter.join(quoted) + self._line_separator).encode()

    def rows(self, columns: pa.RecordBatch) -> bytes:
        """Returns the lines of all rows of `columns`."""
        if not columns.num_rows:
            return b""
        delimited = [part for field in self._fields(columns) for part in (field, self._options.delimiter)]
        return _joined_bytes(pc.binary_join_element_wise(*delimited[:-1], self._line_separator, ""))

    def messages(self, columns: pa.RecordBatch) -> list[bytes]:
        """Returns one line per row of `columns`."""
        separator = self._line_separator
        return [(line + separator).encode() for line in self._lines(columns)] if columns.num_rows else []

    def _lines(self, columns: pa.RecordBatch) -> list[str]:
        lines: list[str] = pc.binary_join_element_wise(*self._fields(columns), self._options.delimiter).to_pylist()
        return lines

    def _fields(self, columns: pa.RecordBatch) -> list[pa.Array]:
        is_single = columns.num_columns == 1
        return [self._field(array, name, is_single) for array, name in zip(columns.columns, columns.schema.names)]

    def _field(self, array: pa.Array, name: str, is_single: bool) -> pa.Array:
        if pa.types.is_temporal(array.type):
            # Many rows of a batch often have the same time, and a time takes longer to write than to look up.
            encoded = array.dictionary_encode()
            if 2 * len(encoded.dictionary) < len(array):
                texts = self._field(encoded.dictionary, name, is_single).take(encoded.indices)
                return pc.fill_null(texts, self._null)
        separator = self._options.array_separators.get(name, _DEFAULT_ELEMENT_SEPARATOR)
        text = _text(array, separator, name, self._options.has_empty_fractions)
        if name in self._options.zoned_columns:
            text = pc.binary_join_element_wise(text, "Z", "")
        return pc.fill_null(self._quote(text, is_single) if _is_quotable(array.type) else text, self._null)

    def _quote(self, array: pa.Array, is_single: bool = False) -> pa.Array:
        quote, escape = self._options.quote_char, self._options.escape_char
        if not quote:
            return array
        is_long = pc.greater(pc.utf8_length(array), _MAX_QUOTE_CHECK)
        # Searching long texts takes longer than leaving them out.
        needs = pc.or_(is_long, pc.match_substring_regex(pc.if_else(is_long, "", array), self._unsafe))
        if self._options.null_values and self._guards_nulls:
            # The line of an empty text in a single column would be blank, and readers skip blank lines.
            for null in ("", *self._options.null_values) if is_single else self._options.null_values:
                needs = pc.or_(needs, pc.equal(array, null))
        if not pc.any(needs, min_count=0).as_py():
            return array
        content = _joined_bytes(array)
        quoted = array
        for special in (quote, escape):
            if special and special.encode() in content:
                quoted = pc.replace_substring(quoted, special, special + special)
        return pc.if_else(needs, pc.binary_join_element_wise(quote, quoted, quote, ""), array)


def _joined_bytes(texts: pa.StringArray) -> bytes:
    """Returns all texts one after the other. A NULL has none."""
    _, offsets, data = texts.buffers()
    if data is None or not len(texts):
        return b""
    begin, end = np.frombuffer(offsets, dtype=np.int32, count=len(texts) + 1, offset=4 * texts.offset)[[0, -1]].tolist()
    content: bytes = data[begin:end].to_pybytes()
    return content


def _unsafe_pattern(options: CsvOptions, line_separator: str) -> str:
    """Returns a pattern that matches texts with a character that needs quotes."""
    highest = max(map(ord, (options.delimiter, options.quote_char or "\0", "\n", "\r", *line_separator)))
    # Without an escape character, Jackson checks for its own, which is a backslash.
    escape = re.escape(options.escape_char or "\\")
    return rf"[\x00-\x{{{highest:x}}}{escape}]"


def _is_quotable(kind: pa.DataType) -> bool:
    """False for numbers and booleans, which are never quoted."""
    t = pa.types
    return not (t.is_integer(kind) or t.is_floating(kind) or t.is_boolean(kind) or t.is_decimal(kind))


def _text(array: pa.Array, separator: str, name: str, has_empty_fractions: bool) -> pa.Array:
    """Returns each value as text without quotes. Null stays null."""
    t = pa.types
    kind = array.type
    if t.is_string(kind) or t.is_large_string(kind):
        return array.cast(pa.string())
    if t.is_list(kind):
        parts = _text(array.flatten(), separator, name, has_empty_fractions)
        lengths = array.value_lengths().fill_null(0)
        offsets = [0, *pc.cumulative_sum(lengths).to_pylist()]
        filled = pc.fill_null(parts, "").to_pylist()
        return _like(array, [separator.join(filled[start:end]) for start, end in pairwise(offsets)])
    if t.is_struct(kind):
        texts = (_text(field, separator, name, has_empty_fractions) for field in array.flatten())
        fields = [pc.fill_null(text, "").to_pylist() for text in texts]
        return _like(array, list(map(separator.join, zip(*fields))))
    if t.is_floating(kind):
        return _each(array, float_text if t.is_float64(kind) else _float32_text)
    if t.is_decimal(kind):
        return _each(array, decimal_text)
    if t.is_timestamp(kind):
        # A fraction without trailing zeros.
        text = array.cast(pa.timestamp("us")).cast(pa.string())
        if has_empty_fractions:
            return pc.replace_substring_regex(text, r"\.(\d+?)0*$", r".\1")
        return pc.replace_substring_regex(text, r"\.?0*$", "")
    if t.is_time(kind):
        return pc.replace_substring_regex(array.cast(pa.string()), r"\.?0*$", "")
    if t.is_binary(kind) or t.is_large_binary(kind):
        return _each(array, lambda value: base64.b64encode(value).decode("ascii"))
    if t.is_map(kind):
        raise UnsupportedOperationError(f"column {name!r}: CSV does not support maps")
    return array.cast(pa.string())


def decimal_text(value: Decimal) -> str:
    """Formats a decimal without trailing zeros. Its scale is that of the column, not of the number."""
    text = format(value, "f")
    return (text.rstrip("0").rstrip(".") or "0") if "." in text else text


def _float32_text(value: float) -> str:
    # The shortest digits of the 32-bit number; Python holds it as a 64-bit number.
    return float_text(value, str(np.float32(value)))


def _each(array: pa.Array, text: Callable[[Any], str]) -> pa.Array:
    return pa.array([None if value is None else text(value) for value in array.to_pylist()], pa.string())


def _like(array: pa.Array, texts: list[str]) -> pa.Array:
    """Returns the texts, with null where `array` has null."""
    if not array.null_count:
        return pa.array(texts, pa.string())
    valid = array.is_valid().to_pylist()
    return pa.array([text if is_there else None for text, is_there in zip(texts, valid)], pa.string())
