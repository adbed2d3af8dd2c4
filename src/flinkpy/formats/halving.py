"""Reading what can be read of a piece of a file that has bad records in it."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from flinkpy.formats.bad_records import BadRecord
from flinkpy.formats.slicing import PlacedBadRecord

#: Reads records `first` to `last` of the piece: columns, None where there are none, or raises.
ParseRange = Callable[[int, int], pa.RecordBatch | None]


class PartlyGood:
    """What was read: `columns` of the good records, None without any; `bad`, each with its place among all records."""

    def __init__(self) -> None:
        self._parts: list[pa.RecordBatch] = []
        self._num_records = 0
        self.bad: list[PlacedBadRecord] = []

    def add(self, columns: pa.RecordBatch | None) -> None:
        if columns is not None and columns.num_rows:
            self._parts.append(columns)
            self._num_records += columns.num_rows

    def add_bad(self, record: BadRecord) -> None:
        self.bad.append((self._num_records, record))
        self._num_records += 1

    @property
    def columns(self) -> pa.RecordBatch | None:
        if len(self._parts) < 2:
            return self._parts[0] if self._parts else None
        return pa.Table.from_batches(self._parts).combine_chunks().to_batches()[0]


def parse_by_halves(
    num_records: int,
    parse: ParseRange,
    errors: tuple[type[BaseException], ...],
    on_bad: Callable[[int, BaseException], BadRecord],
) -> PartlyGood:
    """Everything that `parse` takes, in few calls where few records are bad.

    Args:
        errors: what `parse` raises for bad records.
        on_bad: makes the bad record of the one that `parse` does not take by itself.
    """
    result = PartlyGood()
    ranges = [(0, num_records)]
    while ranges:
        first, last = ranges.pop()
        if first >= last:
            continue
        try:
            result.add(parse(first, last))
        except errors as error:
            if last - first == 1:
                result.add_bad(on_bad(first, error))
            else:
                middle = (first + last) // 2
                ranges += [(middle, last), (first, middle)]
    return result
