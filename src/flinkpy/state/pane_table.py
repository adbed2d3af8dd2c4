"""PaneTable: accumulators of (key, pane) pairs, where a pane is a slice of time; a pane is dropped as a whole."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from flinkpy.state.aggregate_table import TableLayout
from flinkpy.state.int_slots import IntSlots
from flinkpy.state.window_table import NO_SLOTS, WindowTable

_MIN_STRIDE = 1 << 10
_LAST_PANE = np.iinfo(np.int64).max


class PaneTable(WindowTable):
    """Thread: task thread. Slots are valid until the next `drop_before`."""

    def __init__(self, layout: TableLayout) -> None:
        super().__init__(layout)
        self._slots_by_pane: dict[int, list[np.ndarray]] = {}
        self._panes = self._sizes = NO_SLOTS
        self._index = IntSlots()
        self._start_numbering()

    def _start_numbering(self) -> None:
        """Slots are found by number of the pane times stride plus number of the key; panes count as they come."""
        self._stride = _MIN_STRIDE
        while self._stride < self._keys.size:
            self._stride *= 2
        self._pane_ids: dict[int, int] = {}
        self._num_pane_ids = 0
        self._index.clear()

    # -- what there is -----------------------------------------------------------------------------------------------

    def panes(self) -> np.ndarray:
        """int64[n]: the panes that have anything, in order. Not to be changed."""
        return self._panes

    def sizes(self) -> np.ndarray:
        """int64[n]: the number of keys in each of them. Not to be changed."""
        return self._sizes

    def slots_of_panes(self, panes: np.ndarray) -> np.ndarray:
        """The slots of all of them in turn."""
        chunks = [self._slots_of(pane) for pane in panes.tolist()]
        return np.concatenate(chunks) if chunks else NO_SLOTS

    def _slots_of(self, pane: int) -> np.ndarray:
        chunks = self._slots_by_pane[pane]
        if len(chunks) > 1:
            chunks[:] = [np.concatenate(chunks)]
        return chunks[0]

    def live_slots(self) -> np.ndarray:
        if not self._dead:
            return np.arange(self._size)
        chunks = [chunk for chunks in self._slots_by_pane.values() for chunk in chunks]
        return np.sort(np.concatenate(chunks)) if chunks else NO_SLOTS

    def find(self, key_numbers: np.ndarray, panes: np.ndarray) -> np.ndarray:
        """int64[n]: the slot of each pair, negative where there is none."""
        ids = np.array([self._pane_ids.get(pane, -1) for pane in panes.tolist()], dtype=np.int64)
        slots = self._index.find(ids * self._stride + key_numbers)
        slots[ids < 0] = -1
        return slots

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
        self.changed(slots)
        return slots

    def _slots(self, key_columns: list[pa.Array], panes: np.ndarray) -> np.ndarray:
        keys = self._keys.slots_of(key_columns)
        if self._keys.size > self._stride:
            # The keys of this batch are not of any slot yet: none may go.
            self.keep(self.live_slots(), may_drop_keys=False)
        slots, new = self._index.slots_of(self._numbers_of(panes) * self._stride + keys)
        if len(new):
            new_panes = panes.take(new)
            self._remember(self._append(keys.take(new), [new_panes]), new_panes)
        return slots

    def _restore_entries(self, key_columns: list[pa.Array], times: list[np.ndarray]) -> np.ndarray:
        return self._slots(key_columns, times[0])

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

    def _remember(self, slots: np.ndarray, panes: np.ndarray) -> None:
        low, high = int(panes.min()), int(panes.max())
        if low == high:
            self._add_to_panes(np.array([low]), [slots])
            return
        # NumPy sorts integers of up to 16 bits by radix: linear, where wider ones cost n log n.
        order = np.argsort((panes - low).astype(np.uint16) if high - low < 1 << 16 else panes, kind="stable")
        in_order = panes.take(order)
        starts = np.flatnonzero(np.append(True, in_order[1:] != in_order[:-1]))
        self._add_to_panes(in_order.take(starts), np.split(slots.take(order), starts[1:]))

    def _add_to_panes(self, panes: np.ndarray, slots: list[np.ndarray]) -> None:
        """Each pane is there once, in order."""
        places = np.searchsorted(self._panes, panes)
        known = self._panes.take(places, mode="clip") == panes if len(self._panes) else np.zeros(len(panes), dtype=bool)
        if not known.all():
            self._panes = np.insert(self._panes, places[~known], panes[~known])
            self._sizes = np.insert(self._sizes, places[~known], 0)
            places = np.searchsorted(self._panes, panes)
        self._sizes[places] += np.array([len(each) for each in slots])
        by_pane = self._slots_by_pane
        for pane, each in zip(panes.tolist(), slots):
            by_pane.setdefault(pane, []).append(each)

    def drop_before(self, pane: int) -> None:
        """Forget all panes with smaller numbers. No records of them come any more."""
        # At the end of time the next pane may be one that 64 bits cannot hold.
        end = int(np.searchsorted(self._panes, min(pane, _LAST_PANE), side="left" if pane <= _LAST_PANE else "right"))
        for expired in self._panes[:end].tolist():
            self.dropped(self._slots_of(expired))
            del self._slots_by_pane[expired], self._pane_ids[expired]
        self._panes, self._sizes = self._panes[end:], self._sizes[end:]
        self._compact_if_sparse()

    def _index_all(self) -> None:
        self._slots_by_pane.clear()
        self._panes = self._sizes = NO_SLOTS
        self._start_numbering()
        if self._size:
            panes = self._times[0]
            self._index.slots_of(self._numbers_of(panes) * self._stride + self._key_of_slot)
            self._remember(np.arange(self._size), panes)
