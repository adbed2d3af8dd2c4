"""Tables of windows over columns, in memory, and in the database for checkpoints.

Open windows are aggregated in memory. Before a snapshot what was changed since the last one is written, and what was
dropped is deleted at once, so that an incremental checkpoint holds what is new. An entry's key in the database is the
tuple of the key columns' values and its times.
"""

from __future__ import annotations

from itertools import islice

import numpy as np
import pyarrow as pa

from flinkpy.state.aggregate_table import TableLayout
from flinkpy.state.pane_table import PaneTable
from flinkpy.state.rocksdb.aggregate_table import RowCodec
from flinkpy.state.rocksdb.cached_state import in_order
from flinkpy.state.rocksdb.database import RocksDatabase
from flinkpy.state.rocksdb.key_codec import StateKeyCodec, after_prefix
from flinkpy.state.session_table import SessionTable
from flinkpy.state.window_table import WindowTable

#: Rows that are read at once.
_PIECE = 16_384


class _StoredTable(WindowTable):
    """Thread: task thread."""

    def __init__(
        self,
        layout: TableLayout,
        database: RocksDatabase,
        codec: StateKeyCodec,
        max_parallelism: int,
        key_groups_owned: range,
    ) -> None:
        super().__init__(layout)
        self._row_codec = RowCodec(layout)
        self._database = database
        self._codec = codec
        self._max_parallelism = max_parallelism
        #: Of each slot: whether the database has it, with which times, and whether it has it like this.
        self._is_stored = np.zeros(0, dtype=bool)
        self._stored_times = [np.zeros(0, dtype=np.int64)] * layout.namespaces
        self._is_changed = np.zeros(0, dtype=bool)
        for key_group in key_groups_owned:
            prefix = codec.prefix(key_group)
            pairs = database.scan(prefix, after_prefix(prefix))
            while piece := list(islice(pairs, _PIECE)):
                self._note_stored(self.restore_batch(self._row_codec.batch(piece)))

    def changed(self, slots: np.ndarray) -> None:
        super().changed(slots)
        self._make_room()
        self._is_changed[slots] = True

    def _make_room(self) -> None:
        missing = max(self._size, 2 * len(self._is_stored)) - len(self._is_stored)
        if len(self._is_stored) < self._size:
            self._is_stored = np.append(self._is_stored, np.zeros(missing, dtype=bool))
            self._is_changed = np.append(self._is_changed, np.zeros(missing, dtype=bool))
            room = np.zeros(missing, dtype=np.int64)
            self._stored_times = [np.append(times, room) for times in self._stored_times]

    def _note_stored(self, slots: np.ndarray) -> None:
        self._make_room()
        self._is_stored[slots] = True
        self._is_changed[slots] = False
        for stored, times in zip(self._stored_times, self._times):
            stored[slots] = times.take(slots)

    def dropped(self, slots: np.ndarray) -> None:
        super().dropped(slots)
        self._make_room()
        self._delete(slots[self._is_stored.take(slots)])

    def _delete(self, slots: np.ndarray) -> None:
        """As the database has them."""
        if len(slots):
            self._database.write((key, None) for key in sorted(self._encoded(slots, self._stored_times)))
            self._is_stored[slots] = False

    def keep(self, slots: np.ndarray, may_drop_keys: bool = True) -> None:
        self._make_room()
        self._is_stored, self._is_changed = self._is_stored.take(slots), self._is_changed.take(slots)
        self._stored_times = [times.take(slots) for times in self._stored_times]
        super().keep(slots, may_drop_keys)

    def spill(self) -> None:
        """Write what the database does not have."""
        self._make_room()
        live = self.live_slots()
        changed = live[self._is_changed.take(live)]
        if not len(changed):
            return
        moved = np.zeros(len(changed), dtype=bool)
        for stored, times in zip(self._stored_times, self._times):
            moved |= stored.take(changed) != times.take(changed)
        self._delete(changed[moved & self._is_stored.take(changed)])
        indices = pa.array(changed)
        frozen = [column for accumulator in self.accumulators for column in accumulator.freeze(self._size)()]
        values = self._row_codec.encode_values([column.take(indices) for column in frozen])
        self._database.write(in_order(self._encoded(changed, self._times), values))
        self._note_stored(changed)

    def _encoded(self, slots: np.ndarray, times: list[np.ndarray]) -> list[bytes]:
        columns = [*self.keys(self.key_numbers(slots)), *(pa.array(each.take(slots)) for each in times)]
        return self._row_codec.encode_keys(self._codec, columns, self._max_parallelism)


class RocksDBPaneTable(_StoredTable, PaneTable):
    pass


class RocksDBSessionTable(_StoredTable, SessionTable):
    pass
