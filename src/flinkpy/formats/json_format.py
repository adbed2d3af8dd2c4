"""JsonFormat: files of one JSON object a line, as columns. Beyond PyFlink, which reads JSON only from messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import InputFormatError, TypeMismatchError
from flinkpy.common.typeinfo import RowTypeInfo
from flinkpy.formats.bad_records import FAIL, BadRecord, shown
from flinkpy.formats.file_format import FileBatchReader, FilePosition, FileSourceSplit, StreamFormat
from flinkpy.formats.input_files import is_compressed
from flinkpy.formats.json_values import JsonReadOptions, JsonValueError, row_converter

if TYPE_CHECKING:
    from flinkpy.formats.halving import PartlyGood
    from flinkpy.formats.slicing import PlacedBadRecord
    from flinkpy.records.batch import Batch


class JsonFormat(StreamFormat):
    """Reads rows of `row_type`, by the names of their fields; the files are UTF-8, blank lines are passed over.

    Every batch is `RecordBatch[n rows, schema=arrow_schema(row_type)]`.
    """

    def __init__(self, row_type: RowTypeInfo, options: JsonReadOptions | None = None) -> None:
        self.row_type = row_type
        self.options = options or JsonReadOptions()
        row_converter(row_type, self.options)  # types that JSON does not hold are an error now

    @property
    def produced_type(self) -> Any:
        return self.row_type

    def is_splittable(self, path: str) -> bool:
        return not is_compressed(path)

    def open(self, split: FileSourceSplit, max_batch_rows: int) -> FileBatchReader:
        return _JsonReader(split, self.row_type, self.options, max_batch_rows, self.on_error == FAIL)


class _JsonReader:
    """Thread: task thread."""

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
        from flinkpy.formats.halving import parse_by_halves

        def parse(first: int, last: int) -> Any:
            part = [line for line in lines[first:last] if line.strip()]
            if not part:
                return None
            columns = self._parser.parse_columns(b"\n".join(part), len(part)) if last - first > 1 else None
            if columns is not None:
                return columns
            return self._parser.rows_to_columns(self._parser.parse_each(part))

        def on_bad(index: int, error: BaseException) -> BadRecord:
            place = offset + sum(map(len, lines[:index])) + index
            if not self._fails:
                return BadRecord(lines[index], f"{self._path}, byte {place}: {error}")
            from flinkpy.formats.line_chunks import line_number_at

            number = line_number_at(self._path, offset) + index
            details = {"path": self._path, "row": str(number), "text": shown(lines[index])}
            if getattr(error, "path", ""):
                details["column"] = str(error.path)  # type: ignore[attr-defined]
            raise InputFormatError(
                f"{self._path}, line {number}: {error}; the line is: {shown(lines[index])}", details=details
            ) from error

        return parse_by_halves(len(lines), parse, (JsonValueError, TypeMismatchError), on_bad)

    def close(self) -> None:
        self._chunks.close()
