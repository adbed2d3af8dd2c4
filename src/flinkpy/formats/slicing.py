"""Cuts large pieces of a file into batches, and reads pieces that contain malformed records.

`SlicedPieces` keeps the malformed records at their places between the good ones.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import pyarrow as pa

from flinkpy.formats.bad_records import BadRecord
from flinkpy.formats.file_format import FilePosition
from flinkpy.records.batch import Batch

#: A bad record with the number of records before it, good or bad.
PlacedBadRecord = tuple[int, BadRecord]


class Slice(NamedTuple):
    """Consecutive records of a piece.

    Attributes:
        batch: the good records. It may be empty if there are bad records.
        start: number of records of the piece before this slice, good or bad.
        bad: the bad records, with their places in this slice.
    """

    batch: Batch
    start: int
    bad: list[PlacedBadRecord]

    @property
    def num_records(self) -> int:
        return self.batch.num_rows + len(self.bad)


def even_slices(batch: Batch, max_rows: int, bad: Sequence[PlacedBadRecord] = ()) -> list[Slice]:
    """Cuts a piece into as few slices as possible, with nearly equal numbers of good records. Empty: no slices.

    A bad record is in the slice of the good record before it, or in the first slice.
    """
    rows = batch.num_rows
    if not rows and not bad:
        return []
    parts = max(1, -(-rows // max_rows))
    if parts == 1:
        return [Slice(batch, 0, list(bad))]
    #: For each bad record, the number of good records before it.
    good_before = [place - index for index, (place, _) in enumerate(bad)]
    slices = []
    first, start, first_bad = 0, 0, 0
    for part in range(1, parts + 1):
        last = rows * part // parts
        last_bad = len(bad) if part == parts else bisect_right(good_before, last)
        end = last + last_bad
        placed = [(place - start, record) for place, record in bad[first_bad:last_bad]]
        slices.append(Slice(batch.slice(first, last - first), start, placed))
        first, start, first_bad = last, end, last_bad
    return slices


class SlicedPieces:
    """Returns the slices of pieces of a file one by one, each with its position. Thread: task thread."""

    def __init__(self, max_rows: int) -> None:
        self._max_rows = max_rows
        self._slices: deque[Slice] = deque()
        self._offset = 0
        self._position = FilePosition(0, 0)
        self._bad: list[PlacedBadRecord] = []

    def __bool__(self) -> bool:
        return bool(self._slices)

    def add(self, batch: Batch, offset: int, bad: Sequence[PlacedBadRecord] = ()) -> None:
        """Adds a piece that begins at `offset`. Call it only when no slices are left."""
        self._slices.extend(even_slices(batch, self._max_rows, bad))
        self._offset = offset

    def take(self) -> Batch:
        """Returns the good records of the next slice. The batch is empty only if the slice has bad records."""
        taken = self._slices.popleft()
        self._position = FilePosition(self._offset, taken.start)
        self._bad = taken.bad
        return taken.batch

    @property
    def position(self) -> FilePosition:
        """Position of the first record of the last slice."""
        return self._position

    @property
    def bad_records(self) -> list[PlacedBadRecord]:
        """Bad records of the last slice."""
        return self._bad


#: Reads records `first` to `last` of the piece. Returns their columns, None if there are none, or raises.
ParseRange = Callable[[int, int], pa.RecordBatch | None]
#: Number of parts that a range with a bad record is cut into. With few parts, a bad record costs many calls. With many
#: parts, good records are read many times.
_PARTS = 16
_PARTS_OF_SMALL = 4
_SMALL = 256


class PartlyGood:
    """The records of a piece: `columns` of the good ones, or None, and `bad`, each with its place among all records."""

    def __init__(self) -> None:
        self._parts: list[pa.RecordBatch] = []
        self._num_records = 0
        self.bad: list[PlacedBadRecord] = []

    def add(self, columns: pa.RecordBatch | None, bad: Sequence[PlacedBadRecord] = ()) -> None:
        """Adds the next records, with the places of bad ones among them."""
        self.bad += [(self._num_records + place, record) for place, record in bad]
        self._num_records += len(bad)
        if columns is not None and columns.num_rows:
            self._parts.append(columns)
            self._num_records += columns.num_rows

    @property
    def columns(self) -> pa.RecordBatch | None:
        if len(self._parts) < 2:
            return self._parts[0] if self._parts else None
        return pa.Table.from_batches(self._parts).combine_chunks().to_batches()[0]


def parse_in_parts(
    num_records: int,
    parse: ParseRange,
    errors: tuple[type[BaseException], ...],
    on_bad: Callable[[int, BaseException], BadRecord],
    leaf: Callable[[int, int, PartlyGood], None] | None = None,
    leaf_records: int = 1,
) -> PartlyGood:
    """Reads all records that `parse` accepts, in few calls if few records are bad.

    Args:
        num_records: number of records of the piece.
        parse: reads a range of records.
        errors: the types that `parse` raises for bad records.
        on_bad: returns the BadRecord for a record that `parse` refuses.
        leaf: reads a range of at most `leaf_records` records one by one and adds them to the result.
        leaf_records: largest range for `leaf`.
    """
    result = PartlyGood()
    ranges = [(0, num_records)]
    while ranges:
        first, last = ranges.pop()
        count = last - first
        if not count:
            continue
        try:
            result.add(parse(first, last))
        except errors as error:
            if leaf is not None and count <= leaf_records:
                leaf(first, last, result)
                continue
            if count == 1:
                result.add(None, [(0, on_bad(first, error))])
                continue
            parts = min(count, _PARTS if count > _SMALL else _PARTS_OF_SMALL)
            edges = [first + count * part // parts for part in range(parts + 1)]
            ranges += reversed(list(pairwise(edges)))
    return result
