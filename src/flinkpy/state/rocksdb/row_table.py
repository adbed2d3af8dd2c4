"""RocksDBRowTable: a RowTable whose rows are in files of the backend, and in the database for checkpoints.

A full chunk of rows is written to a file and mapped into memory. So the operating system keeps the rows that are in use
in memory and drops the others. The index of keys and the numbers of rows stay in memory, about 40 to 100 bytes per row.
The database has the rows as a RowJournal.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from flinkpy.records.key_hash import hash_columns, key_groups
from flinkpy.state.rocksdb.database import RocksDatabase
from flinkpy.state.rocksdb.key_codec import StateKeyCodec
from flinkpy.state.rocksdb.row_journal import RowJournal
from flinkpy.state.row_chunks import RowChunks
from flinkpy.state.row_table import RowLayout, RowTable

#: The byte after the prefix in keys of the database: that of encoded integers.
ROWS_TAG = 1
#: The changes of this number of records are written together, which takes about 10 ms. A snapshot writes the rest.
_MAX_CHANGES = 16_384


def entry_schema(layout: RowLayout) -> pa.Schema:
    """Returns the schema of an entry's batch."""
    columns = [pa.field(f"c{i}", kind) for i, kind in enumerate(layout.types)]
    numbers = [pa.field(f"n{i}", pa.int64()) for i in range(len(layout.stored_ints))]
    return pa.schema([*columns, *numbers, pa.field("id", pa.int64())])


class RocksDBRowTable(RowTable):
    """Thread: task thread.

    Args:
        directory: an existing directory for the files with full chunks.
    """

    def __init__(
        self,
        layout: RowLayout,
        now_ms: Callable[[], int],
        database: RocksDatabase,
        codec: StateKeyCodec,
        max_parallelism: int,
        key_groups_owned: Iterable[int],
        directory: Path,
    ) -> None:
        super().__init__(layout, now_ms)
        self._chunks = MappedChunks(layout.types, directory)
        self._max_parallelism = max_parallelism
        self.journal = RowJournal(database, codec, max_parallelism, ROWS_TAG, entry_schema(layout))
        #: The records since the last call of `spill`.
        self._num_changes = 0
        self._is_loading = True
        for key_group, batch in self.journal.load(key_groups_owned):
            rows = self.restore_batch(batch.select(range(batch.num_columns - 1)))
            self.journal.restored(rows, key_group, batch.column(batch.num_columns - 1).to_numpy())
        self._is_loading = False

    # -- changes -----------------------------------------------------------------------------------------------------

    def add(
        self, slots: np.ndarray, columns: Sequence[pa.Array], ints: dict[str, np.ndarray] | None = None
    ) -> np.ndarray:
        rows = super().add(slots, columns, ints)
        if len(rows) and not self._is_loading:
            self.journal.change(rows)
            groups = key_groups(hash_columns(self.layout.key_columns(columns)), self._max_parallelism)
            self.journal.place(rows, groups)
        return rows

    def replace(self, rows: np.ndarray, columns: Sequence[pa.Array], ints: dict[str, np.ndarray] | None = None) -> None:
        super().replace(rows, columns, ints)
        self.journal.change(rows)

    def set_ints(self, name: str, rows: np.ndarray, values: np.ndarray) -> None:
        super().set_ints(name, rows, values)
        self.journal.change(rows)

    def touch(self, rows: np.ndarray) -> None:
        super().touch(rows)
        if self.layout.ttl_ms:
            self.journal.change(rows)

    def _remove(self, rows: np.ndarray, slots: np.ndarray) -> None:
        self.journal.remove(rows)
        super()._remove(rows, slots)

    def after_batch(self, num_records: int) -> None:
        super().after_batch(num_records)
        self._num_changes += num_records
        if self._num_changes >= _MAX_CHANGES:
            self.spill()

    # -- the database ------------------------------------------------------------------------------------------------

    def spill(self) -> None:
        """Writes the changes since the last call to the database."""
        self._num_changes = 0
        self.journal.write(self._stored_columns)

    def _stored_columns(self, rows: np.ndarray) -> list[pa.Array]:
        return self.take(rows) + [pa.array(self._ints[name].take(rows)) for name in self.layout.stored_ints]


class MappedChunks(RowChunks):
    """RowChunks whose full chunks are files that are mapped into memory. Thread: task thread."""

    def __init__(self, types: Sequence[pa.DataType], directory: Path) -> None:
        super().__init__(types)
        self._directory = directory
        self._prefix = f"rows-{uuid.uuid4()}"
        self._files: dict[int, Path] = {}
        self._next_file = 0

    def _filled(self, columns: list[pa.Array]) -> list[pa.Array]:
        path = self._directory / f"{self._prefix}-{self._next_file}"
        self._next_file += 1
        self._files[self._tail] = path
        batch = pa.RecordBatch.from_arrays(columns, names=[f"c{i}" for i in range(len(columns))])
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
            writer.write_batch(batch)
        mapped = pa.ipc.open_file(pa.memory_map(str(path))).get_batch(0)
        return list(mapped.columns)

    def drop(self, chunk: int) -> None:
        super().drop(chunk)
        # The mapping stays valid while arrays refer to it.
        self._files.pop(chunk).unlink(missing_ok=True)
