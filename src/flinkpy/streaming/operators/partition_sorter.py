"""PartitionSorter: sorts records that do not fit in memory by the keys of a key selector."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from flinkpy.graph.operator_specs import FieldKeySelector
from flinkpy.records.batch import Batch
from flinkpy.streaming.operators.lane_border import as_rows
from flinkpy.streaming.sort.row_sizes import RowSizes
from flinkpy.streaming.sort.spill_file import RowSpillFile, SpillDirectory

if TYPE_CHECKING:
    from flinkpy.graph.operator_specs import PartitionSpec

#: The maximum number of results per batch.
OUTPUT_ROWS = 4096
#: The maximum number of runs that are merged at once. One block of each is in memory and takes 1/_BLOCK_SHARE of it.
_FAN_IN = 64
_BLOCK_SHARE = 2 * _FAN_IN


class PartitionSorter:
    """Writes sorted runs to files and merges them record by record. Thread: task thread."""

    def __init__(self, spec: PartitionSpec, input_type: Any, spills: SpillDirectory, memory_bytes: int) -> None:
        self._get_key: Callable[[Any], Any] = spec.function.get_key
        self._fields = spec.function.fields if isinstance(spec.function, FieldKeySelector) else None
        self._descending = spec.descending
        self._input_type = input_type
        self._spills = spills
        self._memory_bytes = memory_bytes
        self._block_rows = OUTPUT_ROWS

    def sorted(self, batches: Iterable[Batch]) -> Iterator[list[Any]]:
        """Yields all records as Python objects. Records with equal keys keep their order of arrival."""
        runs = []
        for rows, num_bytes in self._gathered(batches):
            rows.sort(key=self._get_key, reverse=self._descending)
            row_bytes = max(1, num_bytes // len(rows))
            self._block_rows = max(1, min(OUTPUT_ROWS, self._memory_bytes // _BLOCK_SHARE // row_bytes))
            runs.append(self._written(rows))
        while len(runs) > _FAN_IN:
            runs = [self._written(self._merged(runs[i : i + _FAN_IN])) for i in range(0, len(runs), _FAN_IN)]
        merged = self._merged(runs)
        while part := list(islice(merged, OUTPUT_ROWS)):
            yield part

    def _gathered(self, batches: Iterable[Batch]) -> Iterator[tuple[list[Any], int]]:
        """Yields (records, estimated size in bytes), with as many records as fit in memory."""
        sizes = RowSizes()
        rows: list[Any] = []
        size = 0
        for batch in batches:
            more = as_rows(batch, self._input_type)
            rows.extend(more)
            size += sizes.bytes_of(more)
            if size >= self._memory_bytes:
                yield rows, size
                rows, size = [], 0
        if rows:
            yield rows, size

    def _written(self, rows: Iterable[Any]) -> RowSpillFile:
        file = self._spills.row_file()
        iterator = iter(rows)
        while block := list(islice(iterator, self._block_rows)):
            file.write(block)
        return file

    def _merged(self, runs: Sequence[RowSpillFile]) -> Iterator[Any]:
        # The merge is stable, also in descending order: of equal keys, records of earlier runs come first.
        yield from heapq.merge(*map(_records, runs), key=self._get_key, reverse=self._descending)


def _records(run: RowSpillFile) -> Iterator[Any]:
    for block in run.read():
        yield from block
    run.delete()


def sorted_table(table: pa.Table, fields: Sequence[int | str], descending: bool) -> pa.Table | None:
    """Returns the table in Python's order, sorted stably; None if Arrow's order differs (None, NaN, objects)."""
    keys = []
    for field in fields:
        column = table.column(field)
        if column.null_count or not _has_pythons_order(column.type):
            return None
        if pa.types.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py():
            return None
        keys.append(column)
    order = "descending" if descending else "ascending"
    names = [str(position) for position in range(len(keys))]
    # The position as the last sort key makes the order stable in both directions.
    positions = pa.chunked_array([pa.array(range(table.num_rows), pa.int64())])
    by = pa.table([*keys, positions], [*names, "position"])
    indices = pc.sort_indices(by, [*((name, order) for name in names), ("position", "ascending")])
    return table.take(indices)


def _has_pythons_order(data_type: pa.DataType) -> bool:
    return (
        pa.types.is_integer(data_type)
        or pa.types.is_floating(data_type)
        or pa.types.is_boolean(data_type)
        or pa.types.is_string(data_type)
        or pa.types.is_date(data_type)
    )
