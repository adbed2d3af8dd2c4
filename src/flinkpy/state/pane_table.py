"""PaneTable: accumulators of (key, pane) pairs, where a pane is a slice of time; the state of windows over columns.

A pane is dropped as a whole once no window needs it any more. Its slots are then dead, and when most are, the rest move
together, so that memory follows what is alive. In a snapshot an entry is the key columns, the number of the pane, and
the columns of the accumulators; its key group is that of the key.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from flinkpy.state.accumulators import FrozenColumns
from flinkpy.state.aggregate_table import FrozenTable, TableLayout
from flinkpy.state.int_slots import IntSlots
from flinkpy.state.key_slots import KeySlots
from flinkpy.state.meta_info import StateMetaInfo

_MIN_STRIDE = 1 << 10
#: Fewer dead slots than this are left where they are.
_MIN_DEAD = 1 << 12
_NONE = np.empty(0, dtype=np.int64)


class PaneTable:
    """Thread: task thread. Slots are valid until the next `drop_before`."""

    def __init__(self, layout: TableLayout) -> None:
        self.layout = layout
        self.accumulators = layout.create_accumulators()
        #: Of every slot, the live and the dead.
        self._key_of_slot = _NONE
        self._pane_of_slot = _NONE
        self._size = 0
        self._dead = 0
        self._slots_by_pane: dict[int, list[np.ndarray]] = {}
        self._keys = KeySlots(list(layout.key_types))
        self._start_numbering()

    def _start_numbering(self) -> None:
        """Slots are found by number of the pane times stride plus number of the key; panes count as they come."""
        self._stride = _MIN_STRIDE
        while self._stride < self._keys.size:
            self._stride *= 4
        self._pane_ids: dict[int, int] = {}
        self._num_pane_ids = 0
        self._index = IntSlots()

    # -- what there is -----------------------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """Number of live (key, pane) pairs."""
        return self._size - self._dead

    @property
    def num_keys(self) -> int:
        """The numbers of keys are below it."""
        return self._keys.size

    def panes(self) -> np.ndarray:
        """int64[n]: the panes that have anything, in order."""
        return np.array(sorted(self._slots_by_pane), dtype=np.int64)

    def slots_of_panes(self, panes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(the slots of all of them in turn, int64[n + 1]: where those of each pane begin)."""
        chunks = [self._slots_of(pane) for pane in panes.tolist()]
        ends = np.zeros(len(chunks) + 1, dtype=np.int64)
        np.cumsum([len(chunk) for chunk in chunks], out=ends[1:])
        return np.concatenate(chunks) if chunks else _NONE, ends

    def _slots_of(self, pane: int) -> np.ndarray:
        chunks = self._slots_by_pane[pane]
        if len(chunks) > 1:
            chunks[:] = [np.concatenate(chunks)]
        return chunks[0]

    def key_numbers(self, slots: np.ndarray) -> np.ndarray:
        """int64[n]: the number of each slot's key."""
        return self._key_of_slot.take(slots)

    def keys(self, numbers: np.ndarray) -> list[pa.Array]:
        """Per key column, the values of the keys with these numbers."""
        indices = pa.array(numbers)
        return [column.take(indices) for column in self._keys.keys()]  # noqa: SIM118

    def find(self, key_numbers: np.ndarray, panes: np.ndarray) -> np.ndarray:
        """int64[n]: the slot of each pair, negative where there is none."""
        ids = np.array([self._pane_ids.get(pane, -1) for pane in panes.tolist()], dtype=np.int64)
        slots = self._index.find(ids * self._stride + key_numbers)
        slots[ids < 0] = -1
        return slots

    def results(self, slots: np.ndarray) -> list[pa.Array]:
        """Per aggregate, the result of each of the slots."""
        return [accumulator.results(slots) for accumulator in self.accumulators]

    def merged_results(self, groups: np.ndarray, slots: np.ndarray, num_groups: int) -> list[pa.Array]:
        """Per aggregate, the result of each group, where `slots[i]` belongs to group `groups[i]`."""
        merged = self.layout.create_accumulators()
        for target, source in zip(merged, self.accumulators):
            target.grow(num_groups)
            target.merge(groups, source, slots)
        all_groups = np.arange(num_groups)
        return [accumulator.results(all_groups) for accumulator in merged]

    # -- changes -----------------------------------------------------------------------------------------------------

    def add(
        self, key_columns: list[pa.Array], panes: np.ndarray, value_columns: Sequence[pa.Array | None]
    ) -> np.ndarray:
        """Take in records; a value column per aggregate, None for a COUNT of rows.

        Returns: int64[n]: the slot of each record.
        """
        slots = self._slots(key_columns, panes)
        for accumulator, values in zip(self.accumulators, value_columns, strict=True):
            accumulator.add(slots, values)
        return slots

    def _slots(self, key_columns: list[pa.Array], panes: np.ndarray) -> np.ndarray:
        keys = self._keys.slots_of(key_columns)
        if self._keys.size > self._stride:
            # The keys of this batch are not of any slot yet: none may go.
            self._keep(self._live_slots(), may_drop_keys=False)
        slots, new = self._index.slots_of(self._numbers_of(panes) * self._stride + keys)
        if len(new):
            new_panes = panes.take(new)
            self._remember(keys.take(new), new_panes, self._size)
            size = self._size
            for accumulator in self.accumulators:
                accumulator.grow(size)
        return slots

    def _numbers_of(self, panes: np.ndarray) -> np.ndarray:
        """int64[n], or int64[1] where all are the same."""
        low, high = int(panes.min()), int(panes.max())
        if low == high:
            return np.array([self._number_of(low)])
        span = high - low + 1
        if span > 4 * len(panes) + 64:
            distinct, inverse = np.unique(panes, return_inverse=True)
            return np.array([self._number_of(pane) for pane in distinct.tolist()], dtype=np.int64)[inverse]
        relative = panes - low
        numbers = np.zeros(span, dtype=np.int64)
        numbers[relative] = 1
        present = np.flatnonzero(numbers)
        numbers[present] = [self._number_of(pane) for pane in (present + low).tolist()]
        return numbers.take(relative)

    def _number_of(self, pane: int) -> int:
        number = self._pane_ids.get(pane)
        if number is None:
            number = self._pane_ids[pane] = self._num_pane_ids
            self._num_pane_ids += 1
        return number

    def _remember(self, keys: np.ndarray, panes: np.ndarray, first_slot: int) -> None:
        """Slots from `first_slot` on are of these keys and panes."""
        end = first_slot + len(keys)
        self._key_of_slot = _with_room(self._key_of_slot, end)
        self._pane_of_slot = _with_room(self._pane_of_slot, end)
        self._key_of_slot[first_slot:end] = keys
        self._pane_of_slot[first_slot:end] = panes
        self._size = end
        by_pane = self._slots_by_pane
        if int(panes.min()) == int(panes.max()):
            by_pane.setdefault(int(panes[0]), []).append(np.arange(first_slot, end))
            return
        order = np.argsort(panes, kind="stable")
        in_order = panes.take(order)
        starts = np.flatnonzero(np.append(True, in_order[1:] != in_order[:-1]))
        slots = order + first_slot
        for pane, start, stop in zip(in_order.take(starts).tolist(), starts.tolist(), [*starts[1:].tolist(), None]):
            by_pane.setdefault(pane, []).append(slots[start:stop])

    def drop_before(self, pane: int) -> None:
        """Forget all panes with smaller numbers. No records of them come any more."""
        for expired in [known for known in self._slots_by_pane if known < pane]:
            self._dead += sum(map(len, self._slots_by_pane.pop(expired)))
            del self._pane_ids[expired]
        if self._dead >= _MIN_DEAD and 2 * self._dead > self._size:
            self._keep(self._live_slots())

    def _live_slots(self) -> np.ndarray:
        """In ascending order."""
        if not self._dead:
            return np.arange(self._size)
        chunks = [chunk for chunks in self._slots_by_pane.values() for chunk in chunks]
        return np.sort(np.concatenate(chunks)) if chunks else _NONE

    def _keep(self, slots: np.ndarray, may_drop_keys: bool = True) -> None:
        """Number slots, and where most keys are gone also the keys, anew."""
        keys, panes = self._key_of_slot.take(slots), self._pane_of_slot.take(slots)
        if len(slots) < self._size:
            for accumulator in self.accumulators:
                accumulator.keep(slots)
            if may_drop_keys:
                keys = self._keep_keys(keys)
        self._size = self._dead = 0
        self._slots_by_pane.clear()
        self._start_numbering()
        if len(slots):
            self._index.slots_of(self._numbers_of(panes) * self._stride + keys)
            self._remember(keys, panes, 0)

    def _keep_keys(self, keys: np.ndarray) -> np.ndarray:
        """The new numbers of the keys."""
        is_used = np.zeros(self._keys.size, dtype=bool)
        is_used[keys] = True
        used = np.flatnonzero(is_used)
        if 2 * len(used) > self._keys.size:
            return keys
        values = self.keys(used)
        self._keys = KeySlots(list(self.layout.key_types))
        if len(used):
            self._keys.slots_of(values)
        return (np.cumsum(is_used) - 1).take(keys)

    # -- snapshots, by the backend ---------------------------------------------------------------------------------

    def freeze(self, meta: StateMetaInfo) -> FrozenTable:
        if self._dead:
            self._keep(self._live_slots())
        size = self._size
        return FrozenPanes(
            meta,
            self._keys.key_chunks(),
            self._key_of_slot[:size].copy(),
            self._pane_of_slot[:size].copy(),
            [accumulator.freeze(size) for accumulator in self.accumulators],
        )

    def restore(self, data: bytes) -> None:
        """Add what `FrozenTable` wrote; its entries must not be there yet."""
        for batch in pa.ipc.open_stream(data):
            self.restore_batch(batch)

    def restore_batch(self, batch: pa.RecordBatch) -> np.ndarray:
        """Add key columns, panes, and columns of the accumulators; returns the slots."""
        columns = batch.columns
        width = len(self.layout.key_types)
        slots = self._slots(columns[:width], columns[width].to_numpy())
        width += 1
        for accumulator in self.accumulators:
            accumulator.restore(slots, columns[width : width + accumulator.num_columns])
            width += accumulator.num_columns
        return slots


class FrozenPanes(FrozenTable):
    """Copies of a table's columns; the keys are put to their entries when it is written."""

    def __init__(
        self,
        meta: StateMetaInfo,
        key_chunks: list[list[pa.Array]],
        key_of_slot: np.ndarray,
        pane_of_slot: np.ndarray,
        accumulators: list[FrozenColumns],
    ) -> None:
        super().__init__(meta, len(key_of_slot), key_chunks, accumulators)
        self._key_of_slot = key_of_slot
        self._pane_of_slot = pane_of_slot

    def _unsorted(self) -> pa.RecordBatch:
        indices = pa.array(self._key_of_slot)
        columns = [pa.concat_arrays(chunks).take(indices) for chunks in self._key_chunks]
        columns.append(pa.array(self._pane_of_slot))
        for accumulator in self._accumulators:
            columns += accumulator()
        return pa.RecordBatch.from_arrays(columns, names=[f"c{i}" for i in range(len(columns))])


def _with_room(values: np.ndarray, size: int) -> np.ndarray:
    if size <= len(values):
        return values
    grown = np.empty(max(size, 2 * len(values), _MIN_STRIDE), dtype=np.int64)
    grown[: len(values)] = values
    return grown
