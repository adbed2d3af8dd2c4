"""WindowTable: accumulators of entries that are a key and times; the state of windows over columns.

An entry has a slot. Entries die when no window needs them any more; when most slots are dead the rest move together, so
that memory follows what is alive. In a snapshot an entry is the key columns, the times, and the columns of the
accumulators; its key group is that of the key.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import pyarrow as pa

from flinkpy.state.accumulators import FrozenColumns
from flinkpy.state.aggregate_table import FrozenTable, TableLayout
from flinkpy.state.key_slots import KeySlots
from flinkpy.state.meta_info import StateMetaInfo

_MIN_CAPACITY = 1 << 10
#: Fewer dead slots than this are left where they are.
_MIN_DEAD = 1 << 12
NO_SLOTS = np.empty(0, dtype=np.int64)


class WindowTable(ABC):
    """Thread: task thread. Slots are valid until entries are dropped."""

    def __init__(self, layout: TableLayout) -> None:
        self.layout = layout
        self.accumulators = layout.create_accumulators()
        #: Of every slot, the live and the dead.
        self._key_of_slot = NO_SLOTS
        self._times = [NO_SLOTS] * layout.namespaces
        self._size = 0
        self._dead = 0
        self._keys = KeySlots(list(layout.key_types))
        #: Another one whenever keys get other numbers.
        self.key_numbering = 0

    # -- what there is -----------------------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """Number of live entries."""
        return self._size - self._dead

    @property
    def num_keys(self) -> int:
        """The numbers of keys are below it."""
        return self._keys.size

    def key_numbers(self, slots: np.ndarray) -> np.ndarray:
        """int64[n]: the number of each slot's key."""
        return self._key_of_slot.take(slots)

    def keys(self, numbers: np.ndarray) -> list[pa.Array]:
        """Per key column, the values of the keys with these numbers."""
        return self._keys.take(numbers)

    def results(self, slots: np.ndarray) -> list[pa.Array]:
        """Per aggregate, the result of each of the slots."""
        return [accumulator.results(slots) for accumulator in self.accumulators]

    @abstractmethod
    def live_slots(self) -> np.ndarray:
        """In ascending order."""

    # -- slots -------------------------------------------------------------------------------------------------------

    def _append(self, keys: np.ndarray, times: list[np.ndarray]) -> np.ndarray:
        """Slots for new entries of these keys and times."""
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
        """These entries are not what they were."""
        return

    def dropped(self, slots: np.ndarray) -> None:
        """These entries are dead from now on; `live_slots` leaves them out."""
        self._dead += len(slots)

    def _compact_if_sparse(self) -> bool:
        """Whether it was."""
        is_sparse = self._dead >= _MIN_DEAD and 2 * self._dead > self._size
        if is_sparse:
            self.keep(self.live_slots())
        return is_sparse

    def keep(self, slots: np.ndarray, may_drop_keys: bool = True) -> None:
        """Number slots, and where most keys are gone also the keys, anew. `slots`: all that are alive."""
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
        """All slots below the size are alive: find them anew by their keys and times."""

    def _keep_keys(self, keys: np.ndarray) -> np.ndarray:
        """The new numbers of the keys."""
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
        return FrozenEntries(
            meta,
            self._keys.key_chunks(),
            self._key_of_slot[:size].copy(),
            [times[:size].copy() for times in self._times],
            [accumulator.freeze(size) for accumulator in self.accumulators],
        )

    def restore(self, data: bytes) -> None:
        """Add what `freeze` wrote; its entries must not be there yet."""
        for batch in pa.ipc.open_stream(data):
            self.restore_batch(batch)

    def restore_batch(self, batch: pa.RecordBatch) -> np.ndarray:
        """Add key columns, times, and columns of the accumulators; returns the slots."""
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
        """Slots for these entries, which are new."""


class FrozenEntries(FrozenTable):
    """Copies of a table's columns; the keys are put to their entries when it is written."""

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


def with_room(values: np.ndarray, size: int) -> np.ndarray:
    """At least doubled where it is too short, so that growing costs a constant per entry."""
    if size <= len(values):
        return values
    grown = np.empty(max(size, 2 * len(values), _MIN_CAPACITY), dtype=values.dtype)
    grown[: len(values)] = values
    return grown
