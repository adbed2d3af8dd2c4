"""PaneTable: accumulators of (key, pane) pairs. A pane is a slice of time, and is dropped as a whole."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from flinkpy.state.aggregate_table import TableLayout
from flinkpy.state.int_slots import IntSlots
from flinkpy.state.window_table import NO_SLOTS, WindowTable

_MIN_STRIDE = 1 << 10
#: The table may always have this number of cells (16 MiB). Above it the number of cells per entry is limited.
_MIN_CELLS = 1 << 22
_CELLS_PER_ENTRY = 16
_LAST_PANE = np.iinfo(np.int64).max


class PaneTable(WindowTable):
    """A WindowTable for tumbling and sliding windows. Slots are valid until the next `drop_before`.

    Thread: task thread.
    """

    def __init__(self, layout: TableLayout) -> None:
        super().__init__(layout)
        self._slots_by_pane: dict[int, list[np.ndarray]] = {}
        self._panes = self._sizes = NO_SLOTS
        #: The slot of each cell, or -1. If most cells would be empty, `_hashed` maps the cells in use to slots instead.
        self._cells = np.empty(0, dtype=np.int32)
        self._hashed: IntSlots | None = None
        self._start_numbering()

    def _start_numbering(self) -> None:
        """Renumbers panes and keys. Each pane has a row, each key a column: cell = row * stride + column."""
        self._stride = _MIN_STRIDE
        while self._stride < self._keys.size:
            self._stride *= 2
        self._rows: dict[int, int] = {}
        self._num_rows = 0
        self._free_rows: list[int] = []

    # -- what there is -----------------------------------------------------------------------------------------------

    def panes(self) -> np.ndarray:
        """Returns int64[n]: the panes that have entries, in order. The caller must not change the array."""
        return self._panes

    def sizes(self) -> np.ndarray:
        """Returns int64[n]: the number of keys of each pane. The caller must not change the array."""
        return self._sizes

    def slots_of_panes(self, panes: np.ndarray) -> np.ndarray:
        """Returns the slots of these panes, pane after pane."""
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
        """Returns int64[n]: the slot of each (key, pane) pair, negative if there is none."""
        rows = np.array([self._rows.get(pane, -1) for pane in panes.tolist()], dtype=np.int64)
        cells = rows * self._stride + key_numbers
        if self._hashed is not None:
            slots = self._hashed.find(cells)
        else:
            slots = self._cells.take(np.maximum(cells, 0)).astype(np.int64)
        slots[rows < 0] = -1
        return slots

    def merged_results(self, groups: np.ndarray, slots: np.ndarray, num_groups: int) -> list[pa.Array]:
        """Merges slots to groups: `slots[i]` belongs to `groups[i]`. Returns one result column per aggregate."""
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
        """Adds records.

        Args:
            key_columns: one array per key column.
            panes: int64[n]: the pane of each record.
            value_columns: one array per aggregate; None for a COUNT of rows.

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
            # The keys of this batch have no slots yet, so no key may be dropped.
            self.keep(self.live_slots(), may_drop_keys=False)
        rows = self._rows_of(panes)
        if self._hashed is None and not self._has_room(self.size + len(panes)):
            self._hash_all()
            rows = self._rows_of(panes)
        cells = rows * self._stride + keys
        slots, new = self._cell_slots(cells) if self._hashed is None else self._hashed.slots_of(cells)
        if len(new):
            new_panes = panes.take(new)
            self._remember(self._append(keys.take(new), [new_panes]), new_panes)
        return slots

    def _restore_entries(self, key_columns: list[pa.Array], times: list[np.ndarray]) -> np.ndarray:
        return self._slots(key_columns, times[0])

    def _cell_slots(self, cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the slots of cells and the positions of the new ones; see `IntSlots.slots_of`."""
        table = self._cells
        slots = table.take(cells)
        missing = np.flatnonzero(slots < 0)
        if not len(missing):
            return slots.astype(np.int64), missing
        wanted = cells[missing]
        numbers = np.arange(len(wanted), dtype=np.int32)
        # The writes go backwards, so the first appearance of a cell wins.
        table[wanted[::-1]] = numbers[::-1]
        is_first = table.take(wanted) == numbers
        table[wanted[is_first]] = np.arange(self._size, self._size + int(is_first.sum()))
        slots[missing] = table.take(wanted)
        return slots.astype(np.int64), missing[is_first]

    def _has_room(self, entries: int) -> bool:
        """Makes cells for all rows. Returns False if too many of them would be empty."""
        wanted = self._num_rows * self._stride
        if wanted <= len(self._cells):
            return True
        if wanted > max(_MIN_CELLS, _CELLS_PER_ENTRY * entries):
            return False
        grown = np.full(max(wanted, 2 * len(self._cells)), -1, dtype=np.int32)
        grown[: len(self._cells)] = self._cells
        self._cells = grown
        return True

    def _hash_all(self) -> None:
        """Changes to the hash table. `drop_before` may change back to cells."""
        self._cells = np.empty(0, dtype=np.int32)
        self._hashed = IntSlots()
        self.keep(self.live_slots(), may_drop_keys=False)

    def _rows_of(self, panes: np.ndarray) -> np.ndarray:
        """Returns int64[n]: the row of each pane; or int64[1] if all panes are equal."""
        low, high = int(panes.min()), int(panes.max())
        if low == high:
            return np.array([self._row_of(low)])
        span = high - low + 1
        if span > 4 * len(panes) + 64:
            distinct, inverse = np.unique(panes, return_inverse=True)
            return np.array([self._row_of(pane) for pane in distinct.tolist()], dtype=np.int64)[inverse]
        relative = panes - low
        rows = np.zeros(span, dtype=np.int64)
        rows[relative] = 1
        present = np.flatnonzero(rows)
        rows[present] = [self._row_of(pane) for pane in (present + low).tolist()]
        return rows.take(relative)

    def _row_of(self, pane: int) -> int:
        row = self._rows.get(pane)
        if row is None:
            if self._free_rows:
                row = self._free_rows.pop()
            else:
                row = self._num_rows
                self._num_rows += 1
            self._rows[pane] = row
        return row

    def _remember(self, slots: np.ndarray, panes: np.ndarray) -> None:
        low, high = int(panes.min()), int(panes.max())
        if low == high:
            self._add_to_panes(np.array([low]), [slots])
            return
        # NumPy sorts integers of up to 16 bits by radix, which is linear. Wider integers cost n log n.
        order = np.argsort((panes - low).astype(np.uint16) if high - low < 1 << 16 else panes, kind="stable")
        in_order = panes.take(order)
        starts = np.flatnonzero(np.append(True, in_order[1:] != in_order[:-1]))
        self._add_to_panes(in_order.take(starts), np.split(slots.take(order), starts[1:]))

    def _add_to_panes(self, panes: np.ndarray, slots: list[np.ndarray]) -> None:
        """Adds slots to panes. The panes are distinct and in order."""
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
        """Drops all earlier panes. No more records of them may arrive."""
        # The pane after the last timestamp may not fit into 64 bits.
        end = int(np.searchsorted(self._panes, min(pane, _LAST_PANE), side="left" if pane <= _LAST_PANE else "right"))
        for expired in self._panes[:end].tolist():
            self.dropped(self._slots_of(expired))
            row = self._rows.pop(expired)
            del self._slots_by_pane[expired]
            if self._hashed is None:
                self._cells[row * self._stride : (row + 1) * self._stride] = -1
                self._free_rows.append(row)
        self._panes, self._sizes = self._panes[end:], self._sizes[end:]
        if self._compact_if_sparse() and self._hashed is not None:
            self._unhash()

    def _unhash(self) -> None:
        """Changes back to cells if the remaining entries do not need the hash table."""
        if self._num_rows * self._stride <= max(_MIN_CELLS, _CELLS_PER_ENTRY * self._size):
            self._hashed = None
            self._index_all()

    def _index_all(self) -> None:
        self._slots_by_pane.clear()
        self._panes = self._sizes = NO_SLOTS
        self._cells.fill(-1)
        self._start_numbering()
        if self._hashed is not None:
            self._hashed.clear()
        if self._size:
            panes = self._times[0]
            cells = self._rows_of(panes) * self._stride + self._key_of_slot
            if self._hashed is not None:
                self._hashed.slots_of(cells)
            elif self._has_room(self._size):
                self._cells[cells] = np.arange(self._size)
            else:
                self._cells = np.empty(0, dtype=np.int32)
                self._hashed = IntSlots()
                self._hashed.slots_of(cells)
            self._remember(np.arange(self._size), panes)
