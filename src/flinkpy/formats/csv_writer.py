"""CsvLineWriter: columns to the bytes of CSV lines, without a Python object per field."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from flinkpy.formats.csv_format import CsvOptions


class CsvLineWriter:
    """A field is quoted where it has to be: a delimiter, a quote or a line end is in it, or it would read as null."""

    def __init__(self, options: CsvOptions, line_separator: str = "\n") -> None:
        self._options = options
        self._line_separator = line_separator
        self._null = options.null_values[0] if options.null_values else ""

    def header(self, names: list[str]) -> bytes:
        quoted = self._quote(pa.array(names, pa.string())).to_pylist()
        return (self._options.delimiter.join(quoted) + self._line_separator).encode()

    def rows(self, columns: pa.RecordBatch) -> bytes:
        """The rows of `columns`, each with its line end."""
        if not columns.num_rows:
            return b""
        texts = [self._text(array, name) for array, name in zip(columns.columns, columns.schema.names)]
        lines = pc.binary_join_element_wise(*texts, self._options.delimiter)
        separator = self._line_separator
        return (separator.join(lines.to_pylist()) + separator).encode()

    def _text(self, array: pa.Array, name: str) -> pa.Array:
        if pa.types.is_list(array.type):
            separator = self._options.array_separators.get(name, ";")
            elements = pa.ListArray.from_arrays(array.offsets, array.values.cast(pa.string()))
            if array.null_count:
                elements = pc.if_else(array.is_valid(), elements, pa.scalar(None, elements.type))
            text = self._quote(pc.binary_join(elements, separator))
        elif pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
            text = self._quote(array.cast(pa.string()))
        else:
            text = array.cast(pa.string())
        return pc.fill_null(text, self._null)

    def _quote(self, array: pa.Array) -> pa.Array:
        quote = self._options.quote_char
        if not quote:
            return array
        escape = self._options.escape_char or quote
        needs = pc.match_substring(array, quote)
        for character in (self._options.delimiter, "\n", "\r", escape):
            needs = pc.or_(needs, pc.match_substring(array, character))
        if self._options.null_values:
            for null in ("", *self._options.null_values):
                needs = pc.or_(needs, pc.equal(array, null))
        if not pc.any(needs, min_count=0).as_py():
            return array
        escaped = array
        if escape != quote:
            escaped = pc.replace_substring(escaped, escape, escape + escape)
        escaped = pc.replace_substring(escaped, quote, escape + quote)
        return pc.if_else(needs, pc.binary_join_element_wise(quote, escaped, quote, ""), array)
