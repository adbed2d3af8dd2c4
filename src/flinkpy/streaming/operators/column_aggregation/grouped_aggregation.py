"""GroupedAggregation: groups rows into partial results, in memory up to a limit, then in files partitioned by key."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from flinkpy.records.key_hash import hash_columns
from flinkpy.streaming.operators.column_aggregation.partials import PartialAggregates
from flinkpy.streaming.sort.spill_file import ColumnSpillFile, SpillDirectory

_PARTITION_BITS = 4
NUM_PARTITIONS = 1 << _PARTITION_BITS
#: At this level most bits of the hash are used. Partitions are not divided further.
MAX_LEVEL = 7
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
#: The maximum number of rows per batch of results.
MAX_RESULT_ROWS = 65_536

# Shares of the memory, each 1/N of it. Merging needs its input, its output and a hash table at once, and the hash table
# doubles when it grows. A quarter of the memory is reserved for freed memory that the allocator keeps.
_FEWEST_ROWS_SHARE = 40
_MOST_ROWS_SHARE = 20
_PARTIALS_SHARE = 16
#: If grouping reduces the rows by less than this factor, more rows are grouped at once.
_GOOD_REDUCTION = 4
#: The number of rows that are partitioned at once.
_SPILL_ROWS = 1 << 18
#: The maximum number of partial tables. Many small tables cost more than their bytes.
_MAX_TABLES = 64


class GroupedAggregation:
    """Aggregates rows in bounded memory. Thread: task thread.

    Args:
        memory_bytes: the limit for the data and for the work on it.
        level: how often the keys have been partitioned.
    """

    def __init__(self, partials: PartialAggregates, spills: SpillDirectory, memory_bytes: int, level: int = 0) -> None:
        self._partials = partials
        self._spills = spills
        self._memory_bytes = memory_bytes
        self._level = level
        self._rows: list[pa.RecordBatch] = []
        self._rows_bytes = 0
        self._rows_limit = memory_bytes // _FEWEST_ROWS_SHARE
        self._tables: list[pa.Table] = []
        self._tables_bytes = 0
        self._merged_bytes = 0
        self._files: list[ColumnSpillFile] | None = None

    @property
    def has_spilled(self) -> bool:
        return self._files is not None

    def add(self, rows: pa.RecordBatch) -> None:
        """Adds rows in the form of `PartialAggregates.rows`."""
        if not rows.num_rows:
            return
        self._rows.append(rows)
        self._rows_bytes += rows.nbytes
        if self._rows_bytes >= self._rows_limit:
            self._group_rows()

    def add_partials(self, table: pa.Table) -> None:
        self._tables.append(table)
        self._tables_bytes += table.nbytes
        # Merge when the tables have doubled, so that the total cost of merging is proportional to the input.
        has_doubled = self._tables_bytes >= 2 * self._merged_bytes
        is_large = self._tables_bytes * _PARTIALS_SHARE >= self._memory_bytes
        if not has_doubled or not (is_large or len(self._tables) >= _MAX_TABLES):
            if len(self._tables) >= _MAX_TABLES:
                # The first table is the merged one, which is large.
                self._tables[1:] = [pa.concat_tables(self._tables[1:]).combine_chunks()]
            return
        self._merge()
        if self._merged_bytes * _PARTIALS_SHARE >= self._memory_bytes and self._level < MAX_LEVEL:
            self._spill()

    def results(self) -> Iterator[pa.RecordBatch]:
        """Yields each key once, merged. Nothing may be added afterwards."""
        self._group_rows()
        files = self._files
        if files is None:
            if self._tables:
                self._merge()
                table, self._tables = self._tables[0], []
                yield from table.to_batches(max_chunksize=MAX_RESULT_ROWS)
            return
        if self._tables:
            self._merge()
            self._spill()
        for file in files:
            if file.num_rows:
                part = GroupedAggregation(self._partials, self._spills, self._memory_bytes, self._level + 1)
                for batch in file.read():
                    part.add_partials(pa.Table.from_batches([batch]))
                file.delete()
                yield from part.results()

    def _group_rows(self) -> None:
        rows, self._rows, self._rows_bytes = self._rows, [], 0
        if not rows:
            return
        grouped = self._partials.group(pa.Table.from_batches(rows))
        if grouped.num_rows * _GOOD_REDUCTION > sum(batch.num_rows for batch in rows):
            self._rows_limit = self._memory_bytes // _MOST_ROWS_SHARE
        del rows
        self.add_partials(grouped)

    def _merge(self) -> None:
        if len(self._tables) > 1:
            tables, self._tables = self._tables, []
            self._tables = [self._partials.merge(tables).combine_chunks()]
        self._merged_bytes = self._tables_bytes = self._tables[0].nbytes

    def _spill(self) -> None:
        table = self._tables.pop()
        self._merged_bytes = self._tables_bytes = 0
        if self._files is None:
            self._files = [self._spills.column_file(self._partials.schema) for _ in range(NUM_PARTITIONS)]
        for start in range(0, table.num_rows, _SPILL_ROWS):
            part = table.slice(start, _SPILL_ROWS)
            keys = [part.column(name) for name in self._partials.key_names]
            write_partitioned(part, partitions_of(keys, self._level), self._files)
        del table
        pa.default_memory_pool().release_unused()


def partitions_of(keys: list[pa.ChunkedArray], level: int) -> np.ndarray:
    """Returns the partition of each key as int64[n]. Each level uses other bits of the hash."""
    hashes = hash_columns([_hashable(key) for key in keys]).astype(np.uint64) * _MULTIPLIER
    shift = np.uint64(64 - _PARTITION_BITS * (level + 1))
    return ((hashes >> shift) & np.uint64(NUM_PARTITIONS - 1)).astype(np.int64)


def write_partitioned(table: pa.Table, partitions: np.ndarray, files: list[ColumnSpillFile]) -> None:
    """Writes each row to the file of its partition, in order."""
    order = np.argsort(partitions.astype(np.uint8), kind="stable")
    ends = np.cumsum(np.bincount(partitions, minlength=len(files))).tolist()
    ordered = table.combine_chunks().take(pa.array(order))
    start = 0
    for file, end in zip(files, ends):
        for batch in ordered.slice(start, end - start).to_batches(max_chunksize=MAX_RESULT_ROWS):
            file.write(batch)
        start = end


def _hashable(column: pa.ChunkedArray) -> pa.Array:
    """Returns the column in a form that is cheap to hash: decimals as integers instead of Python objects."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    if not pa.types.is_decimal128(array.type) or array.offset or not len(array):
        return array
    words = np.frombuffer(array.buffers()[1], dtype=np.int64, count=2 * len(array))
    mixed = pa.array(words[::2] ^ (words[1::2] * np.int64(31)))
    if not array.null_count:
        return mixed
    return pa.array(mixed.to_numpy(), mask=array.is_null().to_numpy(zero_copy_only=False))
