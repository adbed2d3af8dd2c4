"""BatchQueue: a queue of batches, in memory up to a limit and then in a file."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from flinkpy.records.batch import Batch
from flinkpy.streaming.sort.row_sizes import RowSizes
from flinkpy.streaming.sort.spill_file import RowSpillFile, SpillDirectory

#: The maximum number of records in a block of a file, and its approximate size.
_BLOCK_ROWS = 4_096
_BLOCK_BYTES = 4 << 20


class BatchQueue:
    """A first-in, first-out queue of batches. Thread: task thread.

    Attributes:
        num_rows: the number of records in all batches added.
        num_bytes: the size in memory of all batches added.
    """

    def __init__(self, spills: SpillDirectory, memory_bytes: int) -> None:
        self._spills = spills
        self._memory_bytes = memory_bytes
        self._sizes = RowSizes()
        self._batches: deque[Batch] = deque()
        self._schemas: list[pa.Schema] = []
        self._file: RowSpillFile | None = None
        self.num_rows = 0
        self.num_bytes = 0

    @property
    def has_spilled(self) -> bool:
        return self._file is not None

    def add(self, batch: Batch) -> None:
        values = batch.values
        size = self._sizes.bytes_of(values) if isinstance(values, list) else values.nbytes
        self.num_rows += batch.num_rows
        self.num_bytes += size
        if self._file is None and self.num_bytes <= self._memory_bytes:
            self._batches.append(batch)
            return
        if self._file is None:
            self._file = self._spills.row_file()
        rows = max(1, min(_BLOCK_ROWS, batch.num_rows * _BLOCK_BYTES // max(size, 1)))
        if not isinstance(values, list):
            rows = max(rows, batch.num_rows * _BLOCK_BYTES // max(size, 1))
        for start in range(0, batch.num_rows, rows):
            part = batch.slice(start, min(rows, batch.num_rows - start))
            self._file.write((self._packed(part.values), part.timestamps, part.kinds))

    def drain(self) -> Iterator[Batch]:
        """Yields every record once, in order, in batches that may be cut in other places.

        It frees each batch when the next one is requested.
        """
        while self._batches:
            yield self._batches.popleft()
        file, self._file = self._file, None
        if file is not None:
            for values, timestamps, kinds in file.read():
                yield Batch(self._unpacked(values), timestamps, kinds)
            file.delete()

    def _packed(self, values: pa.RecordBatch | list[Any]) -> Any:
        """Returns columns in Arrow's IPC format, which contains only the slice if the columns are a slice."""
        if isinstance(values, list):
            return values
        if not self._schemas or not self._schemas[-1].equals(values.schema):
            self._schemas.append(values.schema)
        return len(self._schemas) - 1, values.serialize().to_pybytes()

    def _unpacked(self, values: Any) -> pa.RecordBatch | list[Any]:
        if isinstance(values, list):
            return values
        schema, data = values
        return pa.ipc.read_record_batch(pa.py_buffer(data), self._schemas[schema])
