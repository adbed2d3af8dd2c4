"""Reads the records of a log and its old files: from a position on, from a time on, or the last ones.

Every call is bounded by the bytes that it looks at, and says where the next one continues. Positions survive rotations
(see `log_file`). Blocking.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from flinkpy.common.errors import UserError
from flinkpy.logs.formats import CONTINUATION_MARK, LEVELS, LoggedRecord, parse_line
from flinkpy.logs.log_file import numbered, rotated_numbers

#: Bytes that one call looks at. Parsing takes about a second for 16 MiB of text, so this is some 250 ms.
MAX_SCANNED_BYTES = 4 << 20
#: Bytes of messages in one answer. Answers of many processes must fit into one RPC message.
MAX_ANSWER_BYTES = 1 << 20
#: Records of one answer.
MAX_RECORDS = 10_000
#: Bytes that are read at once. Longer than any record, so that each block has the start of one.
_BLOCK_BYTES = 256 << 10
#: Records of several threads are written in another order than their times. This is more than threads wait for a lock.
_DISORDER_MS = 2_000

_MARK = CONTINUATION_MARK.encode()


@dataclass(frozen=True, slots=True)
class LogQuery:
    """The records that a caller wants. Empty fields do not restrict them.

    Attributes:
        job_id: the job that the record names.
        task: a part of the task's text, e.g. `Map (1/2)`; letter case does not matter.
        text: a part of the message or the logger's name; letter case does not matter.
        since_ms: the earliest time.
    """

    job_id: str = ""
    min_level: str = ""
    task: str = ""
    text: str = ""
    since_ms: int = 0

    def check(self) -> None:
        """Raises: UserError if the level is unknown."""
        if self.min_level and self.min_level.upper() not in LEVELS:
            raise UserError(f"unknown log level {self.min_level[:50]!r}: expected one of {', '.join(LEVELS)}")

    def matches(self, record: LoggedRecord) -> bool:
        return (
            (not self.job_id or record.job_id == self.job_id)
            and (not self.min_level or record.level_number >= LEVELS[self.min_level.upper()])
            and (not self.task or self.task.lower() in record.task.lower())
            and record.timestamp_ms >= self.since_ms
            and (
                not self.text
                or self.text.lower() in record.message.lower()
                or self.text.lower() in record.logger.lower()
            )
        )


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place in a log: the number of a file and an offset in it. Its text is opaque to callers."""

    number: int
    offset: int

    @classmethod
    def parse(cls, text: str) -> Position:
        """Raises: UserError."""
        number, _, offset = text.partition(":")
        if not (number.isascii() and number.isdigit() and offset.isascii() and offset.isdigit() and len(text) < 40):
            raise UserError(f"{text[:50]!r} is no position in a log")
        return cls(int(number), int(offset))

    def __str__(self) -> str:
        return f"{self.number}:{self.offset}"


@dataclass(slots=True)
class FoundRecords:
    """An answer.

    Attributes:
        position: where the next call continues.
        is_at_end: everything that was in the log has been looked at.
        is_cut: older records have been removed, or were not looked at.
    """

    records: list[LoggedRecord]
    position: Position
    is_at_end: bool = True
    is_cut: bool = False


class LogReader:
    """Reads the log of a path and its old files."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self, query: LogQuery, position: Position | None, max_bytes: int = MAX_ANSWER_BYTES) -> FoundRecords:
        """Returns the records from a position on; None: from the earliest that the query wants."""
        if position is None:
            position = self._seek(query.since_ms)
        found = FoundRecords([], position)
        scanned = size = 0
        while True:
            numbers = rotated_numbers(self._path)
            last = (numbers[-1] if numbers else 0) + 1
            if position.number > last or (numbers and position.number < numbers[0]):
                # The file is gone: it was one too many, or somebody has removed the old files.
                found.is_cut = position.number < last or position.offset > 0
                position = Position(numbers[0] if numbers else last, 0)
            file = self._open(position.number)
            if file is None:
                found.position = position
                return found
            with file:
                end = os.fstat(file.fileno()).st_size
                if position.offset > end:  # truncated
                    position, found.is_cut = Position(position.number, 0), True
                is_old = position.number < last
                for record, after in _records(file, position.offset, end, is_old):
                    scanned += after - position.offset
                    position = Position(position.number, after)
                    if query.matches(record):
                        found.records.append(record)
                        size += len(record.message)
                    if scanned >= MAX_SCANNED_BYTES or size >= max_bytes or len(found.records) >= MAX_RECORDS:
                        found.position, found.is_at_end = position, position.offset >= end and not is_old
                        return found
            if not is_old:
                found.position = position
                return found
            position = Position(position.number + 1, 0)

    def tail(self, query: LogQuery, count: int, max_bytes: int = MAX_ANSWER_BYTES) -> FoundRecords:
        """Returns the last records that match, at most `count`. The position is that after the last one."""
        numbers = rotated_numbers(self._path)
        last = (numbers[-1] if numbers else 0) + 1
        found: list[LoggedRecord] = []
        after: Position | None = None
        scanned = size = 0
        is_cut = False
        for number in [last, *reversed(numbers)]:
            file = self._open(number)
            if file is None:
                continue
            with file:
                end = os.fstat(file.fileno()).st_size
                if after is None:
                    whole = _whole_lines_end(file, end)
                    after, end = Position(number, whole), whole
                while end > 0 and not is_cut:
                    start = _record_start(file, max(0, end - _BLOCK_BYTES), end)
                    block = [record for record, _ in _records(file, start, end, is_old=True)]
                    for record in reversed(block):
                        if query.matches(record):
                            found.append(record)
                            size += len(record.message)
                            if len(found) >= count or size >= max_bytes:
                                return FoundRecords(found[::-1], after)
                    scanned += end - start
                    end = start
                    is_cut = scanned >= MAX_SCANNED_BYTES
                    if block and block[0].timestamp_ms < query.since_ms - _DISORDER_MS:
                        return FoundRecords(found[::-1], after)
            if is_cut:
                break
        return FoundRecords(found[::-1], after or Position(last, 0), is_cut=is_cut)

    def _open(self, number: int) -> BinaryIO | None:
        """Opens a file by its number, also while it is being rotated. Returns None if it is not there."""
        for _ in range(3):
            numbers = rotated_numbers(self._path)
            last = (numbers[-1] if numbers else 0) + 1
            try:
                file = open(self._path if number == last else numbered(self._path, number), "rb")  # noqa: SIM115
            except OSError:
                if number != last:
                    return None
                continue
            if number != last or rotated_numbers(self._path) == numbers:
                return file
            file.close()
        return None

    def _seek(self, since_ms: int) -> Position:
        """Returns a position shortly before the first record of a time."""
        numbers = rotated_numbers(self._path)
        last = (numbers[-1] if numbers else 0) + 1
        if since_ms <= 0:
            return Position(numbers[0] if numbers else last, 0)
        since_ms -= _DISORDER_MS
        for number in [*numbers, last]:
            file = self._open(number)
            if file is None:
                continue
            with file:
                facts = os.fstat(file.fileno())
                # The time of the last change is that of the last record.
                if number < last and facts.st_mtime * 1000 < since_ms:
                    continue
                return Position(number, _offset_of(file, facts.st_size, since_ms))
        return Position(last, 0)


def _records(file: BinaryIO, start: int, end: int, is_old: bool) -> Iterator[tuple[LoggedRecord, int]]:
    """Yields the records from an offset on, each with the offset after it.

    Args:
        is_old: nothing is appended to this part, so an unfinished last line is complete.
    """
    record: LoggedRecord | None = None
    begin = start
    for line, after in _lines(file, start, end, is_old):
        if line.startswith(_MARK) and record is not None:
            record.message += "\n" + _text(line[len(_MARK) :])
            begin = after
            continue
        if record is not None:
            yield record, begin
        text = _text(line)
        previous_ms = 0 if record is None else record.timestamp_ms
        # Text of native code and child processes is no record. Its time is that of the record before it.
        record = parse_line(text) or LoggedRecord(previous_ms, message=text)
        begin = after
    if record is not None:
        yield record, begin


def _lines(file: BinaryIO, start: int, end: int, is_old: bool) -> Iterator[tuple[bytes, int]]:
    """Yields the lines from an offset on, each with the offset after it."""
    read_to = yielded_to = start
    rest = b""
    while read_to < end:
        data = os.pread(file.fileno(), min(_BLOCK_BYTES, end - read_to), read_to)
        if not data:
            break
        read_to += len(data)
        lines = (rest + data).split(b"\n")
        rest = lines.pop()
        for line in lines:
            yielded_to += len(line) + 1
            yield line, yielded_to
        if len(rest) > _BLOCK_BYTES:
            yielded_to += len(rest)
            yield rest, yielded_to
            rest = b""
    if rest and is_old:
        yield rest, yielded_to + len(rest)


def _whole_lines_end(file: BinaryIO, end: int) -> int:
    """Returns the offset after the last whole line."""
    data = os.pread(file.fileno(), min(_BLOCK_BYTES, end), max(0, end - _BLOCK_BYTES))
    return end - (len(data) - data.rfind(b"\n") - 1) if b"\n" in data else max(0, end - len(data))


def _record_start(file: BinaryIO, offset: int, end: int) -> int:
    """Returns the first offset of a record from `offset` on; `offset` itself if there is none before `end`."""
    if offset == 0:
        return 0
    for line, after in _lines(file, offset - 1, end, is_old=True):
        begin = after - len(line) - 1
        # The first line may be the end of one.
        if begin >= offset and parse_line(_text(line)) is not None:
            return begin
    return offset


def _offset_of(file: BinaryIO, size: int, since_ms: int) -> int:
    """Returns the offset of a record before which all are older than a time, by bisection."""
    low, high = 0, size
    while high - low > _BLOCK_BYTES:
        middle = (low + high) // 2
        start = _record_start(file, middle, min(size, middle + 2 * _BLOCK_BYTES))
        first = next(_records(file, start, min(size, start + _BLOCK_BYTES), is_old=True), None)
        if first is None or first[0].timestamp_ms >= since_ms:
            high = middle
        else:
            low = start
            if start >= high:
                break
    return low


def _text(line: bytes) -> str:
    return line.decode(errors="replace")
