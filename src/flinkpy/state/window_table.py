"""WindowTable: accumulators by key and window times. It is the state of column-wise window operators.

Each entry has a slot. An entry dies when no window needs it any more. When most slots are dead, the table is compacted,
so that its memory follows the number of live entries. In a snapshot an entry consists of the key columns, the times,
and the columns of the accumulators. Its key group is the key group of its key.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import pyarrow as pa

from flinkpy.state.accumulators import FrozenColumns
from flinkpy.state.aggregate_table import FrozenTable, TableLayout
from flinkpy.state.growing import with_room
from flinkpy.state.key_slots import KeySlots
from flinkpy.state.meta_info import StateMetaInfo

#: A table with fewer dead slots is not compacted.
_MIN_DEAD = 1 << 12
NO_SLOTS = np.empty(0, dtype=np.int64)


class WindowTable(ABC):
    """Base class of PaneTable and SessionTable. Slots are valid until entries are dropped. Thread: task thread."""

    def __init__(self, layout: TableLayout) -> None:
        self.layout = layout
        self.accumulators = layout.create_accumulators()
        #: The number of the key of each slot, including dead slots.
        self._key_of_slot = NO_SLOTS
        self._times = [NO_SLOTS] * layout.namespaces
        self._size = 0
        self._dead = 0
        self._keys = KeySlots(list(layout.key_types))
        #: Changes whenever the keys are renumbered.
        self.key_numbering = 0

    # -- what there is -----------------------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """The number of live entries."""
        return self._size - self._dead

    @property
    def num_keys(self) -> int:
        """The number of keys. The numbers of keys are below it."""
        return self._keys.size

    def key_numbers(self, slots: np.ndarray) -> np.ndarray:
        """Returns int64[n]: the number of each slot's key."""
        return self._key_of_slot.take(slots)

    def keys(self, numbers: np.ndarray) -> list[pa.Array]:
        """Returns the key columns of the keys with these numbers."""
        return self._keys.take(numbers)

    def results(self, slots: np.ndarray) -> list[pa.Array]:
        """Returns one column per aggregate with the results of the slots."""
        return [accumulator.results(slots) for accumulator in self.accumulators]

    @abstractmethod
    def live_slots(self) -> np.ndarray:
        """Returns the live slots in ascending order."""

    # -- slots -------------------------------------------------------------------------------------------------------

    def _append(self, keys: np.ndarray, times: list[np.ndarray]) -> np.ndarray:
        """Assigns slots to new entries with these keys and times."""
        first, end = self._size, self._size + len(keys)
        self._key_of_slot = with_room(self._key_of_slot, end)
        self._key_of_slot[first:end] = keys
        for position, values in enumerate(times):
            self._times[position] = with_room(self._times[position], end)
            self._times[position][first:end] = values
        self._size = end
        for accumulator in self.accumulators:
            accumulator.grow(end)
        return np.arange(first, end)

    def changed(self, slots: np.ndarray) -> None:
        """Called when these entries have changed."""
        return

    def dropped(self, slots: np.ndarray) -> None:
        """Called when these entries die. `live_slots` leaves them out from now on."""
        self._dead += len(slots)

    def _compact_if_sparse(self) -> bool:
        """Compacts the table if most of its slots are dead. Returns True if it did."""
        is_sparse = self._dead >= _MIN_DEAD and 2 * self._dead > self._size
        if is_sparse:
            self.keep(self.live_slots())
        return is_sparse

    def keep(self, slots: np.ndarray, may_drop_keys: bool = True) -> None:
        """Keeps only these slots, which are all live ones, and renumbers them.

        If most keys are unused, it renumbers the keys too, unless `may_drop_keys` is False.
        """
        keys = self._key_of_slot.take(slots)
        self._times = [times.take(slots) for times in self._times]
        if len(slots) < self._size:
            for accumulator in self.accumulators:
                accumulator.keep(slots)
            if may_drop_keys:
                keys = self._keep_keys(keys)
        self._key_of_slot = keys
        self._size, self._dead = len(slots), 0
        self._index_all()

    @abstractmethod
    def _index_all(self) -> None:
        """Rebuilds the index from keys and times to slots. All slots below the size are live."""

    def _keep_keys(self, keys: np.ndarray) -> np.ndarray:
        """Drops unused keys if they are the majority. Returns the new numbers of `keys`."""
        is_used = np.zeros(self._keys.size, dtype=bool)
        is_used[keys] = True
        used = np.flatnonzero(is_used)
        if 2 * len(used) > self._keys.size:
            return keys
        values = self.keys(used)
        self.key_numbering += 1
        self._keys = KeySlots(list(self.layout.key_types))
        if len(used):
            self._keys.slots_of(values)
        return (np.cumsum(is_used) - 1).take(keys)

    # -- snapshots, by the backend ---------------------------------------------------------------------------------

    def freeze(self, meta: StateMetaInfo) -> FrozenTable:
        if self._dead:
            self.keep(self.live_slots())
        size = self._size
        return FrozenWindowTable(
            meta,
            self._keys.key_chunks(),
            self._key_of_slot[:size].copy(),
            [times[:size].copy() for times in self._times],
            [accumulator.freeze(size) for accumulator in self.accumulators],
        )

    def restore(self, data: bytes) -> None:
        """Adds a stored table. Its entries must be new."""
        for batch in pa.ipc.open_stream(data):
            self.restore_batch(batch)

    def restore_batch(self, batch: pa.RecordBatch) -> np.ndarray:
        """Adds entries, given as key columns, times, and columns of the accumulators. Returns their slots."""
        columns = batch.columns
        width = len(self.layout.key_types)
        end = width + self.layout.namespaces
        slots = self._restore_entries(columns[:width], [times.to_numpy() for times in columns[width:end]])
        for accumulator in self.accumulators:
            accumulator.restore(slots, columns[end : end + accumulator.num_columns])
            end += accumulator.num_columns
        return slots

    @abstractmethod
    def _restore_entries(self, key_columns: list[pa.Array], times: list[np.ndarray]) -> np.ndarray:
        """Assigns slots to these new entries."""


class FrozenWindowTable(FrozenTable):
    """Copies of a window table's columns. The key columns of the entries are made when it is written."""

    def __init__(
        self,
        meta: StateMetaInfo,
        key_chunks: list[list[pa.Array]],
        key_of_slot: np.ndarray,
        times: list[np.ndarray],
        accumulators: list[FrozenColumns],
    ) -> None:
        super().__init__(meta, len(key_of_slot), key_chunks, accumulators)
        self._key_of_slot = key_of_slot
        self._times = times

    def _unsorted(self) -> pa.RecordBatch:
        indices = pa.array(self._key_of_slot)
        columns = [pa.concat_arrays(chunks).take(indices) for chunks in self._key_chunks]
        columns += [pa.array(times) for times in self._times]
        for accumulator in self._accumulators:
            columns += accumulator()
        return pa.RecordBatch.from_arrays(columns, names=[f"c{i}" for i in range(len(columns))])
