"""RocksDBPaneTable: panes in memory, and in the database for checkpoints.

Open panes are aggregated in memory. Before a snapshot what was changed since the last one is written, and a pane that
is dropped is deleted, so that an incremental checkpoint holds what is new. An entry's key in the database is the tuple
of the key columns' values and the number of the pane.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import numpy as np
import pyarrow as pa

from flinkpy.state.aggregate_table import TableLayout
from flinkpy.state.pane_table import PaneTable
from flinkpy.state.rocksdb.aggregate_table import RowCodec
from flinkpy.state.rocksdb.cached_state import in_order
from flinkpy.state.rocksdb.database import RocksDatabase
from flinkpy.state.rocksdb.key_codec import StateKeyCodec, after_prefix

#: Rows that are read at once.
_PIECE = 16_384


class RocksDBPaneTable(PaneTable):
    def __init__(
        self,
        layout: TableLayout,
        database: RocksDatabase,
        codec: StateKeyCodec,
        max_parallelism: int,
        key_groups_owned: range,
    ) -> None:
        super().__init__(layout)
        self._rows = RowCodec(layout)
        self._database = database
        self._codec = codec
        self._max_parallelism = max_parallelism
        #: Of each slot: whether the database has it, and whether it has it like this.
        self._is_stored = np.zeros(0, dtype=bool)
        self._is_changed = np.zeros(0, dtype=bool)
        for key_group in key_groups_owned:
            prefix = codec.prefix(key_group)
            pairs = database.scan(prefix, after_prefix(prefix))
            while piece := list(islice(pairs, _PIECE)):
                slots = self.restore_batch(self._rows.batch(piece))
                self._make_room()
                self._is_stored[slots] = True

    def add(
        self, key_columns: list[pa.Array], panes: np.ndarray, value_columns: Sequence[pa.Array | None]
    ) -> np.ndarray:
        slots = super().add(key_columns, panes, value_columns)
        self._make_room()
        self._is_changed[slots] = True
        return slots

    def _make_room(self) -> None:
        if len(self._is_stored) < self._size:
            room = max(self._size, 2 * len(self._is_stored))
            self._is_stored = np.append(self._is_stored, np.zeros(room - len(self._is_stored), dtype=bool))
            self._is_changed = np.append(self._is_changed, np.zeros(room - len(self._is_changed), dtype=bool))

    def drop_before(self, pane: int) -> None:
        expired = self.panes()
        slots, _ = self.slots_of_panes(expired[expired < pane])
        stored = slots[self._is_stored.take(slots)]
        if len(stored):
            self._database.write((key, None) for key in sorted(self._encoded(stored)))
        super().drop_before(pane)

    def _keep(self, slots: np.ndarray, may_drop_keys: bool = True) -> None:
        self._make_room()
        self._is_stored, self._is_changed = self._is_stored.take(slots), self._is_changed.take(slots)
        super()._keep(slots, may_drop_keys)

    def spill(self) -> None:
        """Write what the database does not have."""
        live = self._live_slots()
        changed = live[self._is_changed.take(live)]
        if len(changed):
            indices = pa.array(changed)
            columns = [
                column.take(indices) for accumulator in self.accumulators for column in accumulator.freeze(self._size)()
            ]
            self._database.write(in_order(self._encoded(changed), self._rows.encode_values(columns)))
            self._is_changed[changed] = False
            self._is_stored[changed] = True

    def _encoded(self, slots: np.ndarray) -> list[bytes]:
        columns = [*self.keys(self.key_numbers(slots)), pa.array(self._pane_of_slot.take(slots))]
        return self._rows.encode_keys(self._codec, columns, self._max_parallelism)
