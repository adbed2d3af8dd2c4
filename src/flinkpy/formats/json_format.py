"""JsonFormat: reads files with one JSON object per line. Beyond PyFlink, which reads JSON only from messages."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import InputFormatError, TypeMismatchError
from flinkpy.common.typeinfo import RowTypeInfo
from flinkpy.formats.bad_records import FAIL, BadRecord, shown
from flinkpy.formats.file_format import FileBatchReader, FilePosition, FileSourceSplit, StreamFormat
from flinkpy.formats.input_files import is_compressed
from flinkpy.formats.json_values import JsonReadOptions, JsonValueError, row_converter

if TYPE_CHECKING:
    from flinkpy.formats.slicing import PartlyGood, PlacedBadRecord
    from flinkpy.records.batch import Batch


#: Largest number of lines that are parsed one by one if they cannot be parsed together.
_LEAF_LINES = 64


class JsonFormat(StreamFormat):
    """Reads rows of `row_type`, by the names of the fields, from UTF-8 files. Blank lines are skipped.

    Each batch is `RecordBatch[n rows, schema=arrow_schema(row_type)]`.
    """

    has_spark_reader = True
    offsets_are_bytes = True

    def __init__(self, row_type: RowTypeInfo, options: JsonReadOptions | None = None) -> None:
        self.row_type = row_type
        self.options = options or JsonReadOptions()
        row_converter(row_type, self.options)  # raises now if JSON does not support a type

    @property
    def produced_type(self) -> Any:
        return self.row_type

    def is_splittable(self, path: str) -> bool:
        return not is_compressed(path)

    def open(self, split: FileSourceSplit, max_batch_rows: int) -> FileBatchReader:
        return _JsonReader(split, self.row_type, self.options, max_batch_rows, self.on_error == FAIL)


class _JsonReader:
    """Reads one split. Thread: task thread."""

    def __init__(
        self,
        split: FileSourceSplit,
        row_type: RowTypeInfo,
        options: JsonReadOptions,
        max_batch_rows: int,
        fails: bool,
    ) -> None:
        from flinkpy.formats.json_parser import JsonParser
        from flinkpy.formats.line_chunks import ChunkSizer, RecordCutter, open_chunks
        from flinkpy.formats.slicing import SlicedPieces

        self._path = split.path
        self._fails = fails
        self._parser = JsonParser(row_type, options)
        self._sizer = ChunkSizer(max_batch_rows)
        self._ready = SlicedPieces(max_batch_rows)
        self._chunks = open_chunks(split, RecordCutter())

    @property
    def batch_position(self) -> FilePosition:
        return self._ready.position

    @property
    def bad_records(self) -> list[PlacedBadRecord]:
        return self._ready.bad_records

    def read_batch(self) -> Batch | None:
        from flinkpy.records.batch import Batch

        while not self._ready:
            chunk = self._chunks.next_chunk(self._sizer.target_bytes)
            if chunk is None:
                return None
            data = bytes(chunk.data)
            lines = data.split(b"\n")
            if not lines[-1]:
                lines.pop()
            columns = self._parser.parse_columns(data, len(lines))
            if columns is not None:
                self._sizer.observe(len(data), columns.num_rows)
                self._ready.add(Batch(columns), chunk.offset)
                continue
            result = self._parse_lines(lines, chunk.offset)
            columns = result.columns
            self._sizer.observe(len(data), len(lines))
            self._ready.add(Batch([] if columns is None else columns), chunk.offset, result.bad)
        return self._ready.take()

    def _parse_lines(self, lines: list[bytes], offset: int) -> PartlyGood:
        from flinkpy.formats.slicing import PartlyGood, parse_in_parts

        starts = list(accumulate((len(line) + 1 for line in lines), initial=0))

        def parse(first: int, last: int) -> Any:
            part = [line for line in lines[first:last] if line.strip()]
            if not part:
                return None
            columns = self._parser.parse_columns(b"\n".join(part), len(part))
            if columns is None:
                raise JsonValueError("the lines cannot be parsed together")
            return columns

        def leaf(first: int, last: int, result: PartlyGood) -> None:
            values: list[Any] = []
            bad: list[PlacedBadRecord] = []
            for index in range(first, last):
                if not lines[index].strip():
                    continue
                try:
                    values += self._parser.parse_each([lines[index]])
                except JsonValueError as error:
                    bad.append((len(values) + len(bad), self._bad_line(lines, starts, index, offset, error)))
            try:
                result.add(self._parser.rows_to_columns(values) if values else None, bad)
            except TypeMismatchError as error:
                # A value does not fit its column: parse each line alone.
                if last - first == 1:
                    result.add(None, [(0, self._bad_line(lines, starts, first, offset, error))])
                else:
                    for index in range(first, last):
                        leaf(index, index + 1, result)

        def on_bad(index: int, error: BaseException) -> BadRecord:
            return self._bad_line(lines, starts, index, offset, error)

        if not self._parser.reads_columns:
            result = PartlyGood()
            leaf(0, len(lines), result)
            return result
        return parse_in_parts(len(lines), parse, (JsonValueError,), on_bad, leaf, _LEAF_LINES)

    def _bad_line(
        self, lines: list[bytes], starts: list[int], index: int, offset: int, error: BaseException
    ) -> BadRecord:
        """Returns the BadRecord of a line. Raises: InputFormatError if `on_error` is "fail"."""
        line = lines[index]
        if not self._fails:
            return BadRecord(line, f"{self._path}, byte {offset + starts[index]}: {error}")
        from flinkpy.formats.line_chunks import line_number_at

        number = line_number_at(self._path, offset) + index
        details = {"path": self._path, "row": str(number), "text": shown(line)}
        column = getattr(error, "path", "")
        if column:
            details["column"] = column
        raise InputFormatError(
            f"{self._path}, line {number}: {error}; the line is: {shown(line)}", details=details
        ) from error

    def close(self) -> None:
        self._chunks.close()
