"""Reading what can be read of a piece of a file that has bad records in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import pyarrow as pa

from flinkpy.formats.bad_records import BadRecord
from flinkpy.formats.slicing import PlacedBadRecord

#: Reads records `first` to `last` of the piece: columns, None where there are none, or raises.
ParseRange = Callable[[int, int], pa.RecordBatch | None]
#: A range with a bad record is cut into so many parts: few, and a bad record costs many calls; many, and all records
#: are read again and again.
_PARTS = 16
_PARTS_OF_SMALL = 4
_SMALL = 256


class PartlyGood:
    """What was read: `columns` of the good records, None without any; `bad`, each with its place among all records."""

    def __init__(self) -> None:
        self._parts: list[pa.RecordBatch] = []
        self._num_records = 0
        self.bad: list[PlacedBadRecord] = []

    def add(self, columns: pa.RecordBatch | None, bad: Sequence[PlacedBadRecord] = ()) -> None:
        """The next records, with the places of bad ones among them."""
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
    """Everything that `parse` takes, in few calls where few records are bad.

    Args:
        errors: what `parse` raises for bad records.
        on_bad: makes the bad record of the one that `parse` does not take by itself.
        leaf: looks at records one by one, where there are no more than `leaf_records`; adds them to what was read.
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
