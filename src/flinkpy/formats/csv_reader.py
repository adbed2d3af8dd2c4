"""CsvBatchReader: reads one split of a CSV file. CsvParser parses its records, `infer_row_type` infers its type."""

from __future__ import annotations

import base64
import binascii
import csv
import re

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from flinkpy.common.errors import InputFormatError
from flinkpy.common.typeinfo import RowTypeInfo
from flinkpy.formats.bad_records import BadRecord, shown
from flinkpy.formats.csv_format import CsvOptions, HeaderMode
from flinkpy.formats.file_format import FilePosition, FileSourceSplit
from flinkpy.formats.line_chunks import Chunk, ChunkSizer, RecordCutter, line_number_at, open_chunks
from flinkpy.formats.row_types import row_type_of
from flinkpy.formats.slicing import PartlyGood, PlacedBadRecord, SlicedPieces, parse_in_parts
from flinkpy.records.batch import Batch
from flinkpy.records.lanes import arrow_schema, rounded_decimals

#: Number of bytes at the beginning of a file from which its type is inferred.
INFERENCE_BYTES = 1 << 20


_COLUMN_NUMBER = re.compile(r"column #(\d+)")
#: Errors that pyarrow raises for a malformed record.
_BAD_RECORD = (pa.ArrowInvalid, pa.ArrowKeyError)
#: Holds each number of 38 digits and 38 decimals before it is rounded.
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
    """Parses whole CSV records into a RecordBatch, and finds malformed records. Thread: that of its creator.

    Args:
        path: file name for errors.
        row_type: the columns to read.
        options: the dialect.
        file_columns: names of all columns of the file, in their order, including those of `row_type`.
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
        self._column_types = {
            column.name: pa.string() if column.name in options.zoned_columns else _csv_type(column.type)
            for column in self._schema
        }
        #: True if an empty field of a text column is a text although some other text means null.
        self._has_empty_texts = bool(options.null_values) and "" not in options.null_values
        self._has_decimals = any(pa.types.is_decimal128(column.type) for column in self._schema)

    def parse(self, data: memoryview, offset: int) -> pa.RecordBatch | None:
        """Returns the records of `data`, or None if all lines are blank.

        Args:
            data: whole records.
            offset: offset of `data` in the file.

        Raises:
            InputFormatError: a record is malformed. The error names file, row and column, and shows the row.
        """
        if self._options.allow_comments:
            data = memoryview(_blank_comments(bytes(data)))
        try:
            return self._parse(data)
        except _BAD_RECORD as error:
            raise self._locate(data, offset, error) from error

    def parse_leniently(self, data: memoryview, offset: int) -> PartlyGood:
        """Works like `parse`, but returns malformed records instead of raising."""
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
        """Converts a column that pyarrow's CSV reader cannot convert itself."""
        if array.type == column.type:
            if pa.types.is_decimal(array.type):
                self._check_digits(array, column)
            return array
        if pa.types.is_binary(column.type):
            return self._decode_base64(array, column)
        is_empty = pc.equal(array, "")
        if pa.types.is_list(column.type):
            separator = self._options.array_separators.get(column.name, ";")
            # Without a separator the whole field is one element. No field contains NUL.
            parts = pc.split_pattern(array, separator or "\0")
            # An empty field has no elements.
            array = pc.if_else(is_empty, pa.scalar([], parts.type), parts)
        else:
            array = pc.if_else(is_empty, pa.scalar(None, array.type), array)
        if column.name in self._options.zoned_columns:
            array = pc.binary_join_element_wise(pc.utf8_rtrim(array, "Z"), "Z", "")
        try:
            if pa.types.is_decimal128(column.type):
                return rounded_decimals(pc.utf8_trim_whitespace(array).cast(_WIDEST_DECIMAL), column.type)
            return array.cast(column.type)
        except pa.ArrowInvalid as error:
            raise pa.ArrowInvalid(f"In CSV column #{self._file_columns.index(column.name)}: {error}") from error

    def _check_digits(self, array: pa.Array, column: pa.Field) -> None:
        """Refuses numbers with too many digits. pyarrow's CSV reader does not check them."""
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
            raise pa.ArrowInvalid(f"In CSV column #{number}: the text is not base64: {error}") from error

    def _locate(self, data: memoryview, offset: int, error: Exception) -> InputFormatError:
        """Returns the error for the first malformed record, which it finds by bisection."""
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
        """Returns the name of the column in pyarrow's message, or an empty text if it names none."""
        number = _COLUMN_NUMBER.search(reason)
        return self._file_columns[int(number[1])] if number and int(number[1]) < len(self._file_columns) else ""


def _reason(message: str) -> str:
    return _MESSAGE_PREFIX.sub("", message.partition("\n")[0])


def _csv_type(arrow_type: pa.DataType) -> pa.DataType:
    """Returns the type for pyarrow's CSV reader: a string if it does not support the type."""
    if pa.types.is_list(arrow_type) or pa.types.is_decimal256(arrow_type) or pa.types.is_binary(arrow_type):
        return pa.string()
    return arrow_type


def _blank_comments(data: bytes) -> bytes:
    """Replaces comment lines with blank lines, which the parser skips. Line numbers stay the same."""
    if b"#" not in data:
        return data
    return b"".join(b"\n" if line.startswith(b"#") else line for line in data.splitlines(keepends=True))


class CsvBatchReader:
    """Reads `RecordBatch[n rows, schema=arrow_schema(row_type)]`, n <= `max_batch_rows`. Thread: task thread."""

    def __init__(
        self,
        split: FileSourceSplit,
        row_type: RowTypeInfo,
        options: CsvOptions,
        max_batch_rows: int,
        fails: bool = True,
    ) -> None:
        self._split = split
        self._fails = fails
        self._ready = SlicedPieces(max_batch_rows)
        self._sizer = ChunkSizer(max_batch_rows)
        file_columns, self._rows_start = look_at_head(split, row_type, options)
        self._parser = CsvParser(split.path, row_type, options, file_columns)
        self._chunks = open_chunks(split, cutter_of(options))

    def read_batch(self) -> Batch | None:
        while not self._ready:
            chunk = self._chunks.next_chunk(self._sizer.target_bytes)
            if chunk is None:
                return None
            offset, data = chunk
            if offset < self._rows_start:
                data = data[self._rows_start - offset :]
                offset = self._rows_start
            columns, bad = self._parse(data, offset)
            if columns is not None or bad:
                rows = 0 if columns is None else columns.num_rows
                self._sizer.observe(len(chunk.data), rows + len(bad))
                self._ready.add(Batch([] if columns is None else columns), chunk.offset, bad)
        return self._ready.take()

    def _parse(self, data: memoryview, offset: int) -> tuple[pa.RecordBatch | None, list[PlacedBadRecord]]:
        if not len(data):
            return None, []
        if self._fails:
            return self._parser.parse(data, offset), []
        result = self._parser.parse_leniently(data, offset)
        return result.columns, result.bad

    @property
    def batch_position(self) -> FilePosition:
        return self._ready.position

    @property
    def bad_records(self) -> list[PlacedBadRecord]:
        return self._ready.bad_records

    def close(self) -> None:
        self._chunks.close()


def infer_row_type(path: str, options: CsvOptions, file_size: int) -> RowTypeInfo:
    """Infers the type of a file's rows from its first megabyte. A column with only nulls is STRING.

    Raises:
        InputNotFoundError: the file is missing or cannot be read.
        InputFormatError: the file is malformed, or it is empty.
    """
    chunk = _first_chunk(path, options, file_size)
    if chunk is None:
        raise InputFormatError(f"{path} is empty: the types of its columns cannot be inferred", details={"path": path})
    data, names = bytes(chunk.data), None
    if options.header is not HeaderMode.NONE:
        start, end = _next_record(data, 0, options)
        if options.header is not HeaderMode.SKIP:
            names = _fields(data[start:end], options)
        data = data[end:]
    if not data.strip():
        if names is None:
            raise InputFormatError(f"{path} has no rows: its columns cannot be inferred", details={"path": path})
        return row_type_of({name: pa.string() for name in names})
    read_options = pa_csv.ReadOptions(
        use_threads=False, block_size=len(data) + 1, column_names=names, autogenerate_column_names=names is None
    )
    try:
        table = pa_csv.read_csv(
            pa.BufferReader(data),
            read_options,
            parse_options(options),
            conversion_of(options),
        )
    except pa.ArrowInvalid as error:
        names = names or _fields(data[: next(cutter_of(options).record_ends(data))], options)
        strings = row_type_of({name: pa.string() for name in names})
        CsvParser(path, strings, options, names).parse(memoryview(data), chunk.offset + len(chunk.data) - len(data))
        raise InputFormatError(f"{path}: {error}", details={"path": path}) from error
    return row_type_of(table.schema)


def look_at_head(split: FileSourceSplit, row_type: RowTypeInfo, options: CsvOptions) -> tuple[list[str], int]:
    """Returns the names of the file's columns and the offset of its first row.

    The names are those of the header, if it is used, or of the type.
    """
    names = list(options.file_columns) or row_type.get_field_names()
    has_header = options.header is not HeaderMode.NONE
    if not has_header and not options.skip_first_data_row:
        return names, 0
    chunk = _first_chunk(split.path, options, split.file_size)
    if chunk is None:
        return names, 0
    data = bytes(chunk.data)
    end = 0
    if has_header:
        start, end = _next_record(data, 0, options)
        if options.header is not HeaderMode.SKIP:
            names = _checked_header(split.path, _fields(data[start:end], options), names, options)
    if options.skip_first_data_row:
        _, end = _next_record(data, end, options)
    return names, chunk.offset + end


def _checked_header(path: str, header: list[str], wanted: list[str], options: CsvOptions) -> list[str]:
    missing = [name for name in wanted if name not in header]
    repeated = sorted({name for name in header if header.count(name) > 1} & set(wanted))
    if options.header is HeaderMode.STRICT and header != wanted:
        problem = f"the header is {header}, not {wanted}"
    elif missing:
        problem = f"the header has no column {', '.join(map(repr, missing))}; it has {header}"
    elif repeated:
        problem = f"the header has column {', '.join(map(repr, repeated))} more than once"
    else:
        return header
    raise InputFormatError(f"{path}, row 1: {problem}", details={"path": path, "row": "1"})


def _first_chunk(path: str, options: CsvOptions, file_size: int) -> Chunk | None:
    chunks = open_chunks(FileSourceSplit("header", path, 0, file_size, file_size), cutter_of(options))
    try:
        return chunks.next_chunk(INFERENCE_BYTES)
    finally:
        chunks.close()


def _next_record(data: bytes, start: int, options: CsvOptions) -> tuple[int, int]:
    """Returns the span of the first record from `start` on that is neither blank nor a comment; empty if none."""
    for end in cutter_of(options).record_ends(data, start):
        record = data[start:end]
        if record.strip() and not (options.allow_comments and record.startswith(b"#")):
            return start, end
        start = end
    return len(data), len(data)


def _fields(record: bytes, options: CsvOptions) -> list[str]:
    reader = csv.reader(
        [record.decode("utf-8", "replace").rstrip("\r\n")],
        delimiter=options.delimiter,
        quotechar=options.quote_char or None,
        escapechar=options.escape_char or None,
        quoting=csv.QUOTE_MINIMAL if options.quote_char else csv.QUOTE_NONE,
    )
    return [name.strip() for name in next(reader, [])]
