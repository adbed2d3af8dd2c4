"""CsvParser: bytes that are whole CSV records -> one RecordBatch of the wanted type, and where a bad record is."""

from __future__ import annotations

import base64
import binascii
import re

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from flinkpy.common.errors import InputFormatError
from flinkpy.common.typeinfo import RowTypeInfo
from flinkpy.formats.bad_records import BadRecord, shown
from flinkpy.formats.csv_format import CsvOptions
from flinkpy.formats.line_chunks import RecordCutter, line_number_at
from flinkpy.formats.partly_good import PartlyGood, parse_in_parts
from flinkpy.records.lanes import arrow_schema, rounded_decimals

_COLUMN_NUMBER = re.compile(r"column #(\d+)")
#: What pyarrow raises for a record that it cannot read.
_BAD_RECORD = (pa.ArrowInvalid, pa.ArrowKeyError)
#: Holds every number of 38 digits, with as many behind the point, before it is rounded.
_WIDEST_DECIMAL = pa.decimal256(76, 38)
_MESSAGE_PREFIX = re.compile(r"^(In CSV column #\d+: )?(CSV parse error: )?(Row #\d+: )?")


def cutter_of(options: CsvOptions) -> RecordCutter:
    if not options.newlines_in_values:
        return RecordCutter()
    return RecordCutter(options.quote_char.encode(), options.escape_char.encode())


def parse_options(options: CsvOptions) -> pa_csv.ParseOptions:
    return pa_csv.ParseOptions(
        delimiter=options.delimiter,
        quote_char=options.quote_char or False,
        escape_char=options.escape_char or False,
        newlines_in_values=options.newlines_in_values,
    )


def conversion_of(
    options: CsvOptions, column_types: dict[str, pa.DataType] | None = None, *, empty_is_null: bool = True
) -> pa_csv.ConvertOptions:
    """Returns pyarrow's conversion options. `column_types` names the columns to read; None infers all of them."""
    return pa_csv.ConvertOptions(
        column_types=column_types,
        include_columns=None if column_types is None else list(column_types),
        null_values=["", *options.null_values] if empty_is_null else list(options.null_values),
        strings_can_be_null=bool(options.null_values),
        quoted_strings_can_be_null=False,
    )


class CsvParser:
    """Thread: the one that made it.

    Args:
        path: named in errors.
        row_type: the wanted columns.
        file_columns: the names of all columns of the file, in their order; includes those of `row_type`.
    """

    def __init__(self, path: str, row_type: RowTypeInfo, options: CsvOptions, file_columns: list[str]) -> None:
        self._path = path
        self._options = options
        self._cutter = cutter_of(options)
        self._file_columns = file_columns
        schema = arrow_schema(row_type)
        assert schema is not None  # a ROW always has columns
        self._schema = schema
        self._read_options = pa_csv.ReadOptions(use_threads=False, column_names=file_columns)
        self._parse_options = parse_options(options)
        self._column_types = {column.name: _csv_type(column.type) for column in self._schema}
        #: True if an empty field of a text column is a text although some other text means null.
        self._has_empty_texts = bool(options.null_values) and "" not in options.null_values
        self._has_decimals = any(pa.types.is_decimal128(column.type) for column in self._schema)

    def parse(self, data: memoryview, offset: int) -> pa.RecordBatch | None:
        """The records of `data`, which stands at byte `offset` of the file; None where there are only blank lines.

        Raises:
            InputFormatError: names the file, the row's number in it, the column, and shows the row.
        """
        if self._options.allow_comments:
            data = memoryview(_blank_comments(bytes(data)))
        try:
            return self._parse(data)
        except _BAD_RECORD as error:
            raise self._locate(data, offset, error) from error

    def parse_leniently(self, data: memoryview, offset: int) -> PartlyGood:
        """Like `parse`, with the records that cannot be read by themselves."""
        if self._options.allow_comments:
            data = memoryview(_blank_comments(bytes(data)))
        try:
            whole = PartlyGood()
            whole.add(self._parse(data))
            return whole
        except _BAD_RECORD:
            content = bytes(data)
        ends = [0, *self._cutter.record_ends(content)]

        def on_bad(index: int, error: BaseException) -> BadRecord:
            start = ends[index]
            raw = content[start : ends[index + 1]].rstrip(b"\r\n")
            column = self._column_of(str(error))
            where = f"{self._path}, byte {offset + start}{column and f', column {column!r}'}"
            return BadRecord(raw, f"{where}: {_reason(str(error))}")

        return parse_in_parts(
            len(ends) - 1, lambda first, last: self._parse(data[ends[first] : ends[last]]), _BAD_RECORD, on_bad
        )

    def _parse(self, data: memoryview) -> pa.RecordBatch | None:
        self._read_options.block_size = len(data) + 1
        try:
            table = self._read(data, self._column_types)
        except pa.ArrowInvalid:
            if not self._has_decimals:
                raise
            # pyarrow refuses digits beyond the scale, which Flink rounds. So decimals are read as text.
            as_text = {
                name: pa.string() if pa.types.is_decimal(kind) else kind for name, kind in self._column_types.items()
            }
            table = self._read(data, as_text)
        if not table.num_rows:
            return None
        columns = table.to_batches()[0]
        if columns.schema.equals(self._schema) and not self._has_decimals:
            return columns
        return pa.RecordBatch.from_arrays(
            [self._finish(columns.column(i), column) for i, column in enumerate(self._schema)], schema=self._schema
        )

    def _read(self, data: memoryview, column_types: dict[str, pa.DataType]) -> pa.Table:
        if not self._has_empty_texts:
            return self._read_columns(data, column_types)
        try:
            return self._read_columns(data, column_types, empty_is_null=False)
        except pa.ArrowInvalid:
            # An empty field is null in columns of other types, and pyarrow has one list of nulls for all columns.
            texts = {name: kind for name, kind in column_types.items() if pa.types.is_string(kind)}
            others = {name: kind for name, kind in column_types.items() if name not in texts}
            if not others:
                raise
        table = self._read_columns(data, others)
        if not texts:
            return table
        text_table = self._read_columns(data, texts, empty_is_null=False)
        return pa.table({name: (text_table if name in texts else table).column(name) for name in column_types})

    def _read_columns(
        self, data: memoryview, column_types: dict[str, pa.DataType], *, empty_is_null: bool = True
    ) -> pa.Table:
        conversion = conversion_of(self._options, column_types, empty_is_null=empty_is_null)
        return pa_csv.read_csv(pa.BufferReader(pa.py_buffer(data)), self._read_options, self._parse_options, conversion)

    def _finish(self, array: pa.Array, column: pa.Field) -> pa.Array:
        """From what pyarrow's CSV reader can make to what the type asks for."""
        if array.type == column.type:
            if pa.types.is_decimal(array.type):
                self._check_digits(array, column)
            return array
        if pa.types.is_binary(column.type):
            return self._decode_base64(array, column)
        is_empty = pc.equal(array, "")
        if pa.types.is_list(column.type):
            separator = self._options.array_separators.get(column.name, ";")
            # No separator: the whole field is the one element; a NUL is in no field.
            parts = pc.split_pattern(array, separator or "\0")
            # An empty field has no elements, not one empty element.
            array = pc.if_else(is_empty, pa.scalar([], parts.type), parts)
        else:
            array = pc.if_else(is_empty, pa.scalar(None, array.type), array)
        try:
            if pa.types.is_decimal128(column.type):
                return rounded_decimals(pc.utf8_trim_whitespace(array).cast(_WIDEST_DECIMAL), column.type)
            return array.cast(column.type)
        except pa.ArrowInvalid as error:
            raise pa.ArrowInvalid(f"In CSV column #{self._file_columns.index(column.name)}: {error}") from error

    def _check_digits(self, array: pa.Array, column: pa.Field) -> None:
        """pyarrow's reader makes decimals of more digits than their type has."""
        try:
            array.validate(full=True)
        except pa.ArrowInvalid as error:
            reason = f"a number has more than {column.type.precision - column.type.scale} digits before the point"
            raise pa.ArrowInvalid(f"In CSV column #{self._file_columns.index(column.name)}: {reason}") from error

    def _decode_base64(self, array: pa.Array, column: pa.Field) -> pa.Array:
        try:
            return pa.array(
                [value and base64.b64decode(value, validate=True) for value in array.to_pylist()], column.type
            )
        except (binascii.Error, ValueError) as error:
            number = self._file_columns.index(column.name)
            raise pa.ArrowInvalid(f"In CSV column #{number}: it is no base64 text: {error}") from error

    def _locate(self, data: memoryview, offset: int, error: Exception) -> InputFormatError:
        """Find the first record that makes the parser fail, by halving."""
        content = bytes(data)
        ends = list(self._cutter.record_ends(content))
        good, bad = 0, len(ends)  # the first `good` records parse, the first `bad` do not
        while bad - good > 1:
            middle = (good + bad) // 2
            try:
                self._parse(data[: ends[middle - 1]])
            except _BAD_RECORD as earlier:
                bad, error = middle, earlier
            else:
                good = middle
        start = ends[good - 1] if good else 0
        row = line_number_at(self._path, offset) + content.count(b"\n", 0, start)
        text = content[start : ends[bad - 1]].decode("utf-8", "backslashreplace").rstrip("\r\n")
        return self._error(row, text, str(error))

    def _error(self, row: int, text: str, reason: str) -> InputFormatError:
        details = {"path": self._path, "row": str(row), "text": shown(text)}
        column = self._column_of(reason)
        if column:
            details["column"] = column
        where = f"{self._path}, row {row}{column and f', column {column!r}'}"
        return InputFormatError(f"{where}: {_reason(reason)}; the row is: {shown(text)}", details=details)

    def _column_of(self, reason: str) -> str:
        """The name of the column that pyarrow's message is about, empty where it is about none."""
        number = _COLUMN_NUMBER.search(reason)
        return self._file_columns[int(number[1])] if number and int(number[1]) < len(self._file_columns) else ""


def _reason(message: str) -> str:
    return _MESSAGE_PREFIX.sub("", message.partition("\n")[0])


def _csv_type(arrow_type: pa.DataType) -> pa.DataType:
    """What to have the CSV reader make: a string where it cannot make the type itself."""
    if pa.types.is_list(arrow_type) or pa.types.is_decimal256(arrow_type) or pa.types.is_binary(arrow_type):
        return pa.string()
    return arrow_type


def _blank_comments(data: bytes) -> bytes:
    """Comment lines become blank lines, which the parser passes over and which keep the line numbers."""
    if b"#" not in data:
        return data
    return b"".join(b"\n" if line.startswith(b"#") else line for line in data.splitlines(keepends=True))
