"""TableAggregation: computes aggregates that Arrow does not support, such as compiled ones, with accumulators.

When the table of accumulators exceeds its memory, it is written to files partitioned by key, and later rows are written
to files, too. So the rows of a key are still added one after the other, and accumulators need no `merge`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from flinkpy.state.aggregate_table import HeapAggregateTable, TableLayout
from flinkpy.streaming.operators.column_aggregation.grouped_aggregation import (
    MAX_LEVEL,
    MAX_RESULT_ROWS,
    NUM_PARTITIONS,
    partitions_of,
    write_partitioned,
)
from flinkpy.streaming.sort.spill_file import ColumnSpillFile, SpillDirectory

#: The size of a key's entries in hash tables that are half full, without the key itself.
_BYTES_PER_KEY = 64
_BYTES_PER_ACCUMULATOR = 32


class TableAggregation:
    """Aggregates rows in bounded memory. Thread: task thread.

    Args:
        level: how often the keys have been partitioned.
    """

    def __init__(self, layout: TableLayout, spills: SpillDirectory, memory_bytes: int, level: int = 0) -> None:
        self._layout = layout
        self._spills = spills
        self._memory_bytes = memory_bytes
        self._level = level
        self._table = HeapAggregateTable(layout)
        self._key_bytes = 0
        self._state_files: list[ColumnSpillFile] | None = None
        self._row_files: list[ColumnSpillFile] = []

    @property
    def has_spilled(self) -> bool:
        return self._state_files is not None

    def add(self, keys: list[pa.Array], values: list[pa.Array | None]) -> None:
        if self._state_files is not None:
            self._write_rows(keys, values)
            return
        table = self._table
        known = table.size
        table.add(keys, values)
        new = table.size - known
        if new and len(keys[0]):
            self._key_bytes += new * sum(key.nbytes for key in keys) // len(keys[0])
        self._spill_if_large()

    def results(self) -> Iterator[tuple[list[pa.Array], list[pa.Array]]]:
        """Yields (key columns, result columns), with each key once."""
        if self._state_files is None:
            table = self._table
            keys = table.keys()
            for start in range(0, table.size, MAX_RESULT_ROWS):
                end = min(start + MAX_RESULT_ROWS, table.size)
                slots = np.arange(start, end)
                yield [key.slice(start, end - start) for key in keys], table.results(slots)
            return
        width = len(self._layout.key_types)
        for index, state in enumerate(self._state_files):
            rows = self._row_files[index] if self._row_files else None
            part = TableAggregation(self._layout, self._spills, self._memory_bytes, self._level + 1)
            for batch in state.read():
                part._restore(batch)
            part._spill_if_large()
            for batch in rows.read() if rows is not None else ():
                part.add(batch.columns[:width], self._values_of(batch.columns[width:]))
            state.delete()
            if rows is not None:
                rows.delete()
            yield from part.results()

    def _restore(self, batch: pa.RecordBatch) -> None:
        self._table.restore_batch(batch)
        self._key_bytes += sum(column.nbytes for column in batch.columns[: len(self._layout.key_types)])

    def _spill_if_large(self) -> None:
        per_key = _BYTES_PER_KEY + _BYTES_PER_ACCUMULATOR * len(self._layout.aggregates)
        used_bytes = self._key_bytes + self._table.size * per_key + self._table.extra_bytes
        if used_bytes < self._memory_bytes or self._level >= MAX_LEVEL:
            return
        batch = self._table.to_batch()
        self._table = HeapAggregateTable(self._layout)
        if self._state_files is None:
            self._state_files = [self._spills.column_file(batch.schema) for _ in range(NUM_PARTITIONS)]
        keys = batch.columns[: len(self._layout.key_types)]
        write_partitioned(pa.Table.from_batches([batch]), partitions_of(keys, self._level), self._state_files)

    def _write_rows(self, keys: list[pa.Array], values: list[pa.Array | None]) -> None:
        columns = [*keys, *(value for value in values if value is not None)]
        batch = pa.RecordBatch.from_arrays(columns, names=[f"c{i}" for i in range(len(columns))])
        if not self._row_files:
            self._row_files = [self._spills.column_file(batch.schema) for _ in range(NUM_PARTITIONS)]
        write_partitioned(pa.Table.from_batches([batch]), partitions_of(keys, self._level), self._row_files)

    def _values_of(self, columns: list[pa.Array]) -> list[pa.Array | None]:
        """Returns the value column of each aggregate; None for a COUNT of rows."""
        given = iter(columns)
        return [None if aggregate.value_type is None else next(given) for aggregate in self._layout.aggregates]
