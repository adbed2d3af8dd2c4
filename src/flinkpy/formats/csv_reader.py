"""CsvBatchReader: reads one split of a CSV file; and the inference of a file's type."""

from __future__ import annotations

import csv

import pyarrow as pa
import pyarrow.csv as pa_csv

from flinkpy.common.errors import InputFormatError
from flinkpy.common.typeinfo import RowTypeInfo
from flinkpy.formats.csv_format import CsvOptions, HeaderMode
from flinkpy.formats.csv_parser import CsvParser, conversion_of, cutter_of, parse_options
from flinkpy.formats.file_format import FilePosition, FileSourceSplit
from flinkpy.formats.line_chunks import Chunk, ChunkSizer, open_chunks
from flinkpy.formats.row_types import row_type_of
from flinkpy.formats.slicing import PlacedBadRecord, SlicedPieces
from flinkpy.records.batch import Batch

#: The types of a file's columns are taken from so much of its beginning.
INFERENCE_BYTES = 1 << 20


class CsvBatchReader:
    """Gives `RecordBatch[n rows, schema=arrow_schema(row_type)]` with n <= `max_batch_rows`. Thread: task thread."""

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
        file_columns, self._rows_start = _look_at_head(split, row_type, options)
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
    """The type of a file's rows, from its first megabyte. A column of nulls only is STRING.

    Raises:
        InputNotFoundError, InputFormatError
    """
    chunk = _first_chunk(path, options, file_size)
    if chunk is None:
        raise InputFormatError(f"{path} is empty: the types of its columns cannot be told", details={"path": path})
    data, names = bytes(chunk.data), None
    if options.header is not HeaderMode.NONE:
        start, end = _next_record(data, 0, options)
        if options.header is not HeaderMode.SKIP:
            names = _fields(data[start:end], options)
        data = data[end:]
    if not data.strip():
        if names is None:
            raise InputFormatError(f"{path} has no rows: its columns cannot be told", details={"path": path})
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


def _look_at_head(split: FileSourceSplit, row_type: RowTypeInfo, options: CsvOptions) -> tuple[list[str], int]:
    """The names of the file's columns (from its header where that is to be used, else those of the type), and the
    offset at which its rows begin.
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
    if options.header is HeaderMode.STRICT and header != wanted:
        problem = f"the header is {header}, not {wanted}"
    elif missing := [name for name in wanted if name not in header]:
        problem = f"the header has no column {', '.join(map(repr, missing))}; it has {header}"
    elif repeated := sorted({name for name in header if header.count(name) > 1} & set(wanted)):
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
    """Start and end of the first record from `start` on that is neither blank nor a comment; equal if there is none."""
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
