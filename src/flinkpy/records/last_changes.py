"""The last change of each key in batches of changes, which is all that a sink with keys has to write."""

from __future__ import annotations

from typing import Any

import numpy as np

from flinkpy.common.types import RowKind
from flinkpy.records.batch import Batch

#: Both delete the row with their key, unless another change follows.
_DELETIONS = (RowKind.UPDATE_BEFORE.value, RowKind.DELETE.value)


def last_changes(batches: list[Batch], keys: tuple[int, ...]) -> Batch:
    """Returns the last change of each key, as UPDATE_AFTER or DELETE, in the order in which they came.

    Args:
        batches: `RecordBatch[schema]` each.
        keys: the positions of the key columns.
    """
    rows, kinds = _joined(batches)
    columns = [rows.column(place).to_pylist() for place in keys]
    last = {key: place for place, key in enumerate(zip(*columns))}
    places = np.sort(np.fromiter(last.values(), np.int64, len(last)))
    changed = np.where(is_deletion(kinds), RowKind.DELETE.value, RowKind.UPDATE_AFTER.value).astype(np.int8)
    return Batch(rows, None, changed).take(places)


def is_deletion(kinds: np.ndarray) -> np.ndarray:
    """Returns bool[n]: True for kinds of changes that remove the row with their key."""
    return np.isin(kinds, _DELETIONS)


def _joined(batches: list[Batch]) -> tuple[Any, np.ndarray]:
    """Returns the rows of batches as one RecordBatch, and their kinds."""
    import pyarrow as pa

    kinds = np.concatenate(
        [np.zeros(batch.num_rows, np.int8) if batch.kinds is None else batch.kinds for batch in batches]
    )
    tables: Any = [batch.values for batch in batches]
    if len(tables) == 1:
        return tables[0], kinds
    (rows,) = pa.Table.from_batches(tables).combine_chunks().to_batches()
    return rows, kinds


class HeldChanges:
    """Batches of changes that wait to be written. Thread: task thread."""

    def __init__(self) -> None:
        self._batches: list[Batch] = []
        self.num_rows = 0

    def add(self, batch: Batch) -> None:
        if batch.num_rows:
            self._batches.append(batch)
            self.num_rows += batch.num_rows

    def take(self, num_rows: int) -> list[Batch]:
        """Removes and returns the batches of the first changes."""
        taken: list[Batch] = []
        while num_rows and self._batches:
            first = self._batches[0]
            size = min(num_rows, first.num_rows)
            taken.append(first.slice(0, size))
            self._batches[:1] = [first.slice(size, first.num_rows - size)] if size < first.num_rows else []
            self.num_rows -= size
            num_rows -= size
        return taken
