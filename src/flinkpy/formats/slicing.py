"""Cutting batches to the size that a reader may give, with the bad records that were between their records."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from flinkpy.formats.bad_records import BadRecord
from flinkpy.formats.file_format import FilePosition
from flinkpy.records.batch import Batch

#: (how many records of the piece come before it, good or bad; the bad record).
PlacedBadRecord = tuple[int, BadRecord]


class Slice(NamedTuple):
    """Some consecutive records of a piece.

    Attributes:
        batch: the good ones; may be empty where there are bad ones.
        start: how many records of the piece come before, good or bad.
        bad: the bad ones, with their places in this slice.
    """

    batch: Batch
    start: int
    bad: list[PlacedBadRecord]

    @property
    def num_records(self) -> int:
        return self.batch.num_rows + len(self.bad)


def even_slices(batch: Batch, max_rows: int, bad: Sequence[PlacedBadRecord] = ()) -> list[Slice]:
    """The piece in as few parts as possible, with nearly the same number of good records; nothing of an empty one.

    Bad records go with the good ones before them, those at the beginning with the first part.
    """
    rows = batch.num_rows
    if not rows and not bad:
        return []
    parts = max(1, -(-rows // max_rows))
    if parts == 1:
        return [Slice(batch, 0, list(bad))]
    #: Of each bad record, how many good ones come before it.
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
    """The slices of one piece of a file after the other, each with its position. Thread: task thread."""

    def __init__(self, max_rows: int) -> None:
        self._max_rows = max_rows
        self._slices: deque[Slice] = deque()
        self._offset = 0
        self._position = FilePosition(0, 0)
        self._bad: list[PlacedBadRecord] = []

    def __bool__(self) -> bool:
        return bool(self._slices)

    def add(self, batch: Batch, offset: int, bad: Sequence[PlacedBadRecord] = ()) -> None:
        """All records of the piece that begins at `offset`; only when there are no slices left."""
        self._slices.extend(even_slices(batch, self._max_rows, bad))
        self._offset = offset

    def take(self) -> Batch:
        """The good records of the next slice; none only where there are bad ones."""
        taken = self._slices.popleft()
        self._position = FilePosition(self._offset, taken.start)
        self._bad = taken.bad
        return taken.batch

    @property
    def position(self) -> FilePosition:
        """Of the first record of the slice last taken."""
        return self._position

    @property
    def bad_records(self) -> list[PlacedBadRecord]:
        """Of the slice last taken."""
        return self._bad
