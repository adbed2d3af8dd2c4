"""The tables of windows in RocksDB. All open windows are in memory, and in the database for checkpoints.

The database has them as a RowJournal: the changes of many windows are one entry per key group. They are written when
there are many, and before a snapshot, and never read before a restore. So a window that ends between two checkpoints
is usually never written, and an incremental checkpoint contains only new data.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from flinkpy.state.aggregate_table import TableLayout
from flinkpy.state.pane_table import PaneTable
from flinkpy.state.rocksdb.database import RocksDatabase
from flinkpy.state.rocksdb.entry_store import RocksDBEntryStore
from flinkpy.state.rocksdb.key_codec import StateKeyCodec
from flinkpy.state.session_table import SessionTable
from flinkpy.state.table_accumulators import TableAccumulator
from flinkpy.state.window_table import WindowTable

#: The number of changed windows that are written without waiting for a snapshot. This takes some 10 ms.
_MAX_CHANGED = 1 << 16
#: The number of entries that are read at once in the form that has one entry per window.
_PIECE = 16_384


class _StoredTable(WindowTable):
    """A WindowTable in memory that also keeps its entries in the database. Thread: task thread."""

    def __init__(
        self,
        layout: TableLayout,
        database: RocksDatabase,
        codec: StateKeyCodec,
        max_parallelism: int,
        key_groups_owned: range,
    ) -> None:
        super().__init__(layout)
        self._store = RocksDBEntryStore(layout, database, codec, max_parallelism, key_groups_owned)
        #: bool by slot: true if the window differs from the database.
        self._is_changed = np.zeros(0, dtype=bool)
        #: A bound for the number of changed windows.
        self._num_changed = 0
        #: Copying a part of other accumulators costs as much as copying all of them.
        self._may_write_early = all(isinstance(each, TableAccumulator) for each in self.accumulators)
        for batch, note in self._store.load():
            self._store.loaded(self.restore_batch(batch), note)
        self._load_single_entries()

    def _load_single_entries(self) -> None:
        """Reads windows that have a database entry each. They become part of the journal."""
        while self._store.has_evicted:
            keys, values, _ = self._store.next_evicted(_PIECE)
            if keys:
                columns = [*self._store.delete_evicted(keys), *values]
                batch = pa.RecordBatch.from_arrays(columns, names=[f"c{i}" for i in range(len(columns))])
                self.changed(self.restore_batch(batch))

    # -- what the store writes -----------------------------------------------------------------------------------------

    @property
    def is_live(self) -> np.ndarray:
        """See EntrySource. The store knows of removed entries."""
        return np.ones(self._size, dtype=bool)

    def identity(self, slots: np.ndarray) -> list[pa.Array]:
        """See EntrySource."""
        return [*self.keys(self.key_numbers(slots)), *(pa.array(times.take(slots)) for times in self._times)]

    def values(self, slots: np.ndarray) -> list[pa.Array]:
        """See EntrySource."""
        columns: list[pa.Array] = []
        for accumulator in self.accumulators:
            if isinstance(accumulator, TableAccumulator):
                columns += accumulator.columns(slots)
            else:
                indices = pa.array(slots)
                columns += [column.take(indices) for column in accumulator.freeze(self._size)()]
        return columns

    # -- changes -------------------------------------------------------------------------------------------------------

    def changed(self, slots: np.ndarray) -> None:
        super().changed(slots)
        self._make_room()
        self._is_changed[slots] = True
        self._num_changed += len(slots)
        if self._num_changed >= _MAX_CHANGED and self._may_write_early:
            self._num_changed = int(np.count_nonzero(self._is_changed))
            if self._num_changed >= _MAX_CHANGED:
                self.spill()

    def _make_room(self) -> None:
        missing = self._size - len(self._is_changed)
        if missing > 0:
            room = np.zeros(max(missing, len(self._is_changed)), dtype=bool)
            self._is_changed = np.append(self._is_changed, room)

    def dropped(self, slots: np.ndarray) -> None:
        super().dropped(slots)
        self._make_room()
        self._is_changed[slots] = False
        self._store.removed(slots)

    def keep(self, slots: np.ndarray, may_drop_keys: bool = True) -> None:
        self._make_room()
        self._is_changed = self._is_changed.take(slots)
        self._store.keep(slots)
        super().keep(slots, may_drop_keys)

    def spill(self) -> None:
        """Writes the changes to the database."""
        self._store.changed(np.flatnonzero(self._is_changed))
        self._is_changed.fill(False)
        self._num_changed = 0
        self._store.spill(self)


class RocksDBPaneTable(_StoredTable, PaneTable):
    """A PaneTable that keeps its entries in the database."""


class RocksDBSessionTable(_StoredTable, SessionTable):
    """A SessionTable that keeps its entries in the database."""
