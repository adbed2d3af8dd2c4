"""LineChunks: reads large pieces of whole records, for formats whose records end with a newline.

A split is a range of bytes that may begin within a record. It owns the records that START in its range: its first piece
begins after the first newline at or after `offset - 1`, and its last piece ends with the record that began before
`end`. So neighbouring splits agree on each record without communication.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import NamedTuple

from flinkpy.common.errors import ExternalError, InputFormatError
from flinkpy.formats.file_format import FileSourceSplit
from flinkpy.formats.input_files import DECOMPRESSION_ERRORS, is_compressed, open_input, open_random

#: Longest record. A file without newlines (of a wrong format) must not be loaded whole.
MAX_RECORD_BYTES = 64 << 20
#: Smallest and largest piece: the first spreads the cost per piece, the second bounds memory and latency.
MIN_CHUNK_BYTES = 64 << 10
MAX_CHUNK_BYTES = 4 << 20
_UTF8_BOM = b"\xef\xbb\xbf"


class Chunk(NamedTuple):
    """Whole records and their offset in the (decompressed) file. The byte order mark of UTF-8 is removed."""

    offset: int
    data: memoryview


class RecordCutter:
    """Finds the ends of records. If `quote` is given, a newline inside quotes does not end a record.

    With `quote`, the data must begin at the start of a record. A doubled quote inside quotes needs no special case,
    because it keeps the count of quotes even.
    """

    def __init__(self, quote: bytes = b"", escape: bytes = b"") -> None:
        self._quote = quote
        self._escape = escape

    @property
    def is_plain(self) -> bool:
        """True if every newline ends a record, so that a record can be found from any position."""
        return not self._quote

    def last_end(self, data: bytes) -> int:
        """Returns the length of the longest prefix of `data` with whole records; 0 if there is none."""
        end = data.rfind(b"\n") + 1
        if self.is_plain:
            return end
        open_quotes = self._count_quotes(data, 0, end)
        while end and open_quotes % 2:
            previous = data.rfind(b"\n", 0, end - 1) + 1
            open_quotes -= self._count_quotes(data, previous, end)
            end = previous
        return end

    def record_ends(self, data: bytes, start: int = 0) -> Iterator[int]:
        """Yields the end of each record from `start` on, in order. The last record may lack its newline."""
        open_quotes = 0
        while start < len(data):
            end = data.find(b"\n", start) + 1 or len(data)
            open_quotes += self._count_quotes(data, start, end)
            if self.is_plain or open_quotes % 2 == 0 or end == len(data):
                yield end
            start = end

    def _count_quotes(self, data: bytes, start: int, end: int) -> int:
        if not self._quote:
            return 0
        if not self._escape:
            return data.count(self._quote, start, end)
        # An escaped escape character does not escape the next one.
        text = data[start:end].replace(self._escape + self._escape, b"")
        return text.count(self._quote) - text.count(self._escape + self._quote)


class LineChunks(ABC):
    """Reads the pieces of one split, in order. Thread: task thread."""

    @abstractmethod
    def next_chunk(self, target_bytes: int) -> Chunk | None:
        """Returns about `target_bytes` of whole records, at least one record, or None at the end.

        Raises:
            InputFormatError: a record is longer than MAX_RECORD_BYTES.
        """

    @abstractmethod
    def close(self) -> None: ...


def open_chunks(split: FileSourceSplit, cutter: RecordCutter) -> LineChunks:
    """Returns the pieces of the split from its position on.

    If the file is compressed or has quoted newlines, the split must cover the whole file.
    """
    if is_compressed(split.path) or not cutter.is_plain:
        return _WholeFileChunks(split.path, cutter, split.reading_offset or 0)
    return _RangeChunks(split)


class _RangeChunks(LineChunks):
    """Reads a plain file by position, so that nothing before the range is read."""

    def __init__(self, split: FileSourceSplit) -> None:
        self._split = split
        self._file = open_random(split.path)
        reading_offset = split.reading_offset
        self._position = -1 if reading_offset is None else reading_offset

    def next_chunk(self, target_bytes: int) -> Chunk | None:
        if self._position < 0:
            self._position = self._first_record()
        position, end = self._position, self._split.end
        if position >= end:
            return None
        data = self._file.read_at(target_bytes, position)
        while True:
            stop = self._stop(data, position, end)
            if stop:
                break
            more = self._file.read_at(max(len(data), MIN_CHUNK_BYTES), position + len(data))
            if not more:
                stop = len(data)
                self._check_not_truncated(position + stop)
                break
            data += more
            _check_record_length(len(data), self._split.path, position)
        if not stop:
            return None
        self._position = position + stop
        start = len(_UTF8_BOM) if position == 0 and data.startswith(_UTF8_BOM) else 0
        return Chunk(position + start, memoryview(data)[start:stop])

    def _stop(self, data: bytes, position: int, end: int) -> int:
        """Returns the length of the whole records in `data` that start before `end`; 0 if more data is needed."""
        last_start = end - 1 - position
        if len(data) <= last_start:
            return data.rfind(b"\n") + 1
        return data.find(b"\n", last_start) + 1 or data.rfind(b"\n", 0, last_start) + 1

    def _first_record(self) -> int:
        offset = self._split.offset
        if offset == 0:
            return 0
        position = offset - 1
        while True:
            data = self._file.read_at(MIN_CHUNK_BYTES, position)
            newline = data.find(b"\n")
            if newline >= 0:
                return position + newline + 1
            position += len(data)
            if not data or position >= self._split.end:
                # The line that began before this split ends after it, so no line starts in the split.
                return self._split.end
            _check_record_length(position - offset, self._split.path, offset)

    def _check_not_truncated(self, size: int) -> None:
        if size < self._split.file_size:
            raise ExternalError(
                f"input {self._split.path} was truncated while it was read: "
                f"it had {self._split.file_size} bytes and now has {size}",
                details={"path": self._split.path},
            )

    def close(self) -> None:
        self._file.close()


class _WholeFileChunks(LineChunks):
    """Reads a file that can only be read from its start."""

    def __init__(self, path: str, cutter: RecordCutter, start: int) -> None:
        self._path = path
        self._cutter = cutter
        self._file = open_input(path)
        #: Offset of the next piece in the content of the file. It is 0 until the first piece has been found.
        self._offset = 0
        self._start = start
        self._rest = b""
        self._is_at_end = False

    def next_chunk(self, target_bytes: int) -> Chunk | None:
        if self._offset == 0 and not self._rest:
            if self._start:
                self._skip_to(self._start)
            else:
                self._skip_bom()
        while True:
            if not self._is_at_end:
                # This doubles the data, so that a long line is searched a few times and not once per chunk.
                self._read(max(target_bytes - len(self._rest), len(self._rest), MIN_CHUNK_BYTES))
            data = self._rest
            stop = len(data) if self._is_at_end else self._cutter.last_end(data)
            if stop or self._is_at_end:
                break
            _check_record_length(len(data), self._path, self._offset)
        if not stop:
            return None
        chunk = Chunk(self._offset, memoryview(data)[:stop])
        self._rest = data[stop:]
        self._offset += stop
        return chunk

    def _skip_to(self, start: int) -> None:
        while self._offset < start and not self._is_at_end:
            self._read(min(start - self._offset, MAX_CHUNK_BYTES))
            self._offset += len(self._rest)
            self._rest = b""
        if self._offset < start:
            raise ExternalError(
                f"input {self._path} has become shorter: {start} bytes were read before, and it now has {self._offset}",
                details={"path": self._path},
            )

    def _skip_bom(self) -> None:
        self._read(len(_UTF8_BOM))
        if self._rest == _UTF8_BOM:
            self._offset, self._rest = len(_UTF8_BOM), b""

    def _read(self, size_bytes: int) -> None:
        try:
            data = self._file.read(size_bytes)
        except DECOMPRESSION_ERRORS as error:
            raise InputFormatError(
                f"input {self._path} cannot be decompressed: {error}", details={"path": self._path}
            ) from error
        self._is_at_end = not data
        self._rest += data

    def close(self) -> None:
        self._file.close()


def line_number_at(path: str, offset: int) -> int:
    """Returns the 1-based number of the line with byte `offset` of the decompressed file."""
    lines = 1
    with open_input(path) as file:
        while offset > 0:
            data = file.read(min(offset, MAX_CHUNK_BYTES))
            if not data:
                break
            lines += data.count(b"\n")
            offset -= len(data)
    return lines


def _check_record_length(length_bytes: int, path: str, offset: int) -> None:
    if length_bytes > MAX_RECORD_BYTES:
        raise InputFormatError(
            f"input {path}: the record at byte {offset} does not end within {MAX_RECORD_BYTES} bytes; "
            "the file has another format",
            details={"path": path, "offset": str(offset)},
        )


class ChunkSizer:
    """Estimates the size of a piece with a little less than `max_batch_rows` records."""

    #: Below 1, because a piece with a few records too many would leave a tiny batch.
    _AIM = 0.95
    _FIRST_BYTES = 1 << 20

    def __init__(self, max_batch_rows: int) -> None:
        self._max_batch_rows = max_batch_rows
        self.target_bytes = self._FIRST_BYTES

    def observe(self, size_bytes: int, rows: int) -> None:
        if rows:
            wanted = int(size_bytes / rows * self._max_batch_rows * self._AIM)
            self.target_bytes = min(max(wanted, MIN_CHUNK_BYTES), MAX_CHUNK_BYTES)
