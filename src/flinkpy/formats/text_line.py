"""TextLineFormat: reads each line of a file as a record."""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import InputFormatError
from flinkpy.common.typeinfo import Types
from flinkpy.formats.file_format import FileBatchReader, FilePosition, FileSourceSplit, StreamFormat
from flinkpy.formats.input_files import DECOMPRESSION_ERRORS, is_compressed, open_input

if TYPE_CHECKING:
    from flinkpy.records.batch import Batch


class TextLineFormat(StreamFormat):
    r"""Reads lines that end with `\n` or `\r\n`. Bytes that are invalid in the charset become U+FFFD, as in Flink.

    Source: org.apache.flink.connector.file.src.reader.TextLineInputFormat. Differs: large files are split if the
    charset allows it. A lone `\r` does not end a line.
    """

    knows_bad_records = False
    offsets_are_bytes = True

    def __init__(self, charset_name: str = "UTF-8") -> None:
        self._charset = codecs.lookup(charset_name).name
        # In charsets such as UTF-16, the newline byte also occurs inside other characters.
        self._has_plain_newlines = "\n\ra".encode(self._charset) == b"\n\ra"

    @property
    def produced_type(self) -> Any:
        return Types.STRING()

    def is_splittable(self, path: str) -> bool:
        return self._has_plain_newlines and not is_compressed(path)

    def open(self, split: FileSourceSplit, max_batch_rows: int) -> FileBatchReader:
        if self._has_plain_newlines:
            return _ChunkedLines(split, self._charset, max_batch_rows)
        return _DecodedLines(split, self._charset, max_batch_rows)


class _ChunkedLines:
    """Reads lines in a charset with one-byte newlines. Batches have rows, because lines are Python strings anyway."""

    def __init__(self, split: FileSourceSplit, charset: str, max_batch_rows: int) -> None:
        from flinkpy.formats.line_chunks import ChunkSizer, RecordCutter, open_chunks
        from flinkpy.formats.slicing import SlicedPieces

        self._charset = charset
        self._chunks = open_chunks(split, RecordCutter())
        self._sizer = ChunkSizer(max_batch_rows)
        self._ready = SlicedPieces(max_batch_rows)

    def read_batch(self) -> Batch | None:
        from flinkpy.records.batch import Batch

        while not self._ready:
            chunk = self._chunks.next_chunk(self._sizer.target_bytes)
            if chunk is None:
                return None
            lines = _split_lines(str(chunk.data, self._charset, "replace"))
            self._sizer.observe(len(chunk.data), len(lines))
            self._ready.add(Batch(lines), chunk.offset)
        return self._ready.take()

    @property
    def batch_position(self) -> FilePosition:
        return self._ready.position

    def close(self) -> None:
        self._chunks.close()


class _DecodedLines:
    """Reads lines in any charset, decoded from the start of the file."""

    def __init__(self, split: FileSourceSplit, charset: str, max_batch_rows: int) -> None:
        self._path = split.path
        self._max_batch_rows = max_batch_rows
        self._file = io.TextIOWrapper(open_input(split.path), charset, errors="replace", newline="\n")
        self._lines: Iterator[str] = iter(self._file)

    def read_batch(self) -> Batch | None:
        from flinkpy.records.batch import Batch

        try:
            lines = _split_lines("".join(islice(self._lines, self._max_batch_rows)))
        except DECOMPRESSION_ERRORS as error:
            raise InputFormatError(
                f"input {self._path} cannot be decompressed: {error}", details={"path": self._path}
            ) from error
        return Batch(lines) if lines else None

    def close(self) -> None:
        self._file.close()


def _split_lines(text: str) -> list[str]:
    if not text:
        return []
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    if "\r" in text:
        return [line.removesuffix("\r") for line in lines]
    return lines
