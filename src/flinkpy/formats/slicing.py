"""Cutting batches to the size that a reader may give."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from flinkpy.formats.file_format import FilePosition
from flinkpy.records.batch import Batch


def even_slices(batch: Batch, max_rows: int) -> Iterator[Batch]:
    """The batch in as few parts as possible, all of nearly the same size; nothing of an empty batch."""
    rows = batch.num_rows
    if not rows:
        return
    parts = -(-rows // max_rows)
    if parts == 1:
        yield batch
        return
    for part in range(parts):
        start = rows * part // parts
        yield batch.slice(start, rows * (part + 1) // parts - start)


class SlicedPieces:
    """The slices of one piece of a file after the other, each with its position. Thread: task thread."""

    def __init__(self, max_rows: int) -> None:
        self._max_rows = max_rows
        self._slices: deque[Batch] = deque()
        self._offset = 0
        self._next_record = 0
        self._position = FilePosition(0, 0)

    def __bool__(self) -> bool:
        return bool(self._slices)

    def add(self, batch: Batch, offset: int) -> None:
        """All records of the piece that begins at `offset`; only when there are no slices left."""
        self._slices.extend(even_slices(batch, self._max_rows))
        self._offset, self._next_record = offset, 0

    def take(self) -> Batch:
        batch = self._slices.popleft()
        self._position = FilePosition(self._offset, self._next_record)
        self._next_record += batch.num_rows
        return batch

    @property
    def position(self) -> FilePosition:
        """Of the first record of the slice last taken."""
        return self._position
