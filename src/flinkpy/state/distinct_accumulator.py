"""DistinctCountAccumulator: COUNT(DISTINCT column). It keeps the distinct values of each slot.

Each distinct value has a number. The accumulator keeps pairs of a slot and a value's number in one hash table and looks
up a whole batch at once, without a Python object per record. Nulls are ignored. -0.0 and 0.0 are one value, and so are
all NaNs.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from flinkpy.state.accumulators import Accumulator, FrozenColumns, _grown, _without_nulls
from flinkpy.state.int_slots import IntSlots
from flinkpy.state.key_slots import KeySlots
from flinkpy.state.table_accumulators import Stored, Weighted

#: The memory of a pair: an entry of the hash table, which is half full, and an element of two arrays.
_BYTES_PER_PAIR = 80


class DistinctCountAccumulator(Accumulator):
    """Counts the distinct values of each slot. Thread: task thread."""

    def __init__(self, value_type: pa.DataType) -> None:
        kind = value_type.value_type if pa.types.is_dictionary(value_type) else value_type
        self._value_type = kind
        #: Times are stored as numbers, because a Python datetime has no nanoseconds.
        self._stored_type = _number_type(kind)
        self.counts = np.zeros(0, dtype=np.int64)
        #: The distinct values. Merged accumulators may share it, because values are only ever added.
        self._values = KeySlots([kind], zeros_are_one=True)
        self._value_bytes = 0
        self._forget_pairs()

    @property
    def extra_bytes(self) -> int:
        return self._num_pairs * _BYTES_PER_PAIR + self._value_bytes

    def grow(self, size: int) -> None:
        self.counts = _grown(self.counts, size, 0)

    def add(self, slots: np.ndarray, values: pa.Array | None) -> None:
        assert values is not None
        if pa.types.is_dictionary(values.type):
            values = values.cast(self._value_type)
        slots, values = _without_nulls(slots, values)
        if not len(values):
            return
        known = self._values.size
        codes = self._values.slots_of([values])
        self._value_bytes += (self._values.size - known) * (values.nbytes // len(values))
        self._put(slots, codes)

    def merge(self, slots: np.ndarray, other: DistinctCountAccumulator, other_slots: np.ndarray) -> None:
        pairs, lengths = other._pairs_of(other_slots)
        codes = other._codes.take(pairs)
        if self._values is not other._values:
            if not self._values.size:
                self._values, self._value_bytes = other._values, other._value_bytes
            else:
                used, places = np.unique(codes, return_inverse=True)
                if len(used):
                    codes = self._values.slots_of([other._values.keys()[0].take(pa.array(used))]).take(places)
        self._put(np.repeat(slots, lengths), codes)

    def keep(self, slots: np.ndarray) -> None:
        self.counts = self.counts.take(slots)
        number = self._num_pairs
        if not number:
            return
        new_slots = np.full(max(int(slots.max(initial=0)), int(self._slots[:number].max())) + 1, -1, dtype=np.int64)
        new_slots[slots] = np.arange(len(slots))
        pair_slots = new_slots.take(self._slots[:number])
        is_kept = pair_slots >= 0
        pair_slots, codes = pair_slots[is_kept], self._codes[:number][is_kept]
        used, places = np.unique(codes, return_inverse=True)
        if 2 * len(used) < self._values.size:
            values = self._values.keys()[0].take(pa.array(used))
            self._values, self._value_bytes = KeySlots([self._value_type], zeros_are_one=True), values.nbytes
            codes = self._values.slots_of([values]).take(places) if len(used) else codes
        self._forget_pairs()
        if len(codes):
            self._pairs.slots_of((pair_slots << 32) | codes)
        self._append(pair_slots, codes)

    def results(self, slots: np.ndarray) -> pa.Array:
        return pa.array(self.counts.take(slots))

    def freeze(self, size: int) -> FrozenColumns:
        """See Accumulator. The column holds the list of the distinct values of each slot."""
        self._put_in_order()
        number = self._num_pairs
        offsets = np.searchsorted(self._slots[:number], np.arange(size + 1))
        codes = self._codes[: int(offsets[-1])].copy()
        chunks = self._values.key_chunks()[0]

        def columns() -> list[pa.Array]:
            values = _viewed(pa.concat_arrays(chunks).take(pa.array(codes)), self._stored_type)
            return [pa.LargeListArray.from_arrays(pa.array(offsets), values)]

        return columns

    def restore(self, slots: np.ndarray, columns: list[pa.Array]) -> None:
        lists = columns[0]
        lengths = lists.value_lengths().to_numpy(zero_copy_only=False)
        self.add(np.repeat(slots, lengths), _viewed(lists.flatten(), self._value_type))

    # -- pairs -------------------------------------------------------------------------------------------------------

    def _forget_pairs(self) -> None:
        self._pairs = IntSlots()
        self._slots = self._codes = np.zeros(0, dtype=np.int64)
        self._num_pairs = 0
        self._is_in_order = True

    def _put(self, slots: np.ndarray, codes: np.ndarray) -> None:
        # Slots and numbers of values stay below 2**31: memory runs out before.
        _, new = self._pairs.slots_of((slots << 32) | codes)
        if len(new):
            slots = slots.take(new)
            np.add.at(self.counts, slots, 1)
            self._append(slots, codes.take(new))

    def _append(self, slots: np.ndarray, codes: np.ndarray) -> None:
        start, end = self._num_pairs, self._num_pairs + len(slots)
        self._slots, self._codes = _grown(self._slots, end, 0), _grown(self._codes, end, 0)
        self._slots[start:end], self._codes[start:end] = slots, codes
        self._num_pairs = end
        self._is_in_order = False

    def _put_in_order(self) -> None:
        """Sorts the pairs by slot. The sort is fast, because it detects the run that is already in order."""
        if not self._is_in_order:
            number = self._num_pairs
            order = np.argsort(self._slots[:number], kind="stable")
            self._slots[:number], self._codes[:number] = self._slots.take(order), self._codes.take(order)
            self._is_in_order = True

    def _pairs_of(self, slots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the positions of the pairs of these slots, slot after slot, and the number of pairs per slot."""
        self._put_in_order()
        known = self._slots[: self._num_pairs]
        starts = np.searchsorted(known, slots)
        lengths = self.counts.take(slots)
        before = np.cumsum(lengths) - lengths
        return np.arange(int(lengths.sum())) + np.repeat(starts - before, lengths), lengths


class WeightedDistinctCountAccumulator(DistinctCountAccumulator):
    """COUNT(DISTINCT column) of SQL: its argument may be a Weighted or a Stored. Rows cannot be taken back."""

    def add(self, slots: np.ndarray, values: pa.Array | Weighted | Stored | None) -> None:
        if isinstance(values, Stored):
            self.restore(slots, values.columns)
            return
        if isinstance(values, Weighted):
            rows = np.flatnonzero(values.weights)
            assert values.values is not None
            slots, values = slots.take(rows), values.values.take(pa.array(rows))
        super().add(slots, values)

    def columns(self, slots: np.ndarray) -> list[pa.Array]:
        """Returns the columns of a snapshot for these slots."""
        return [column.take(pa.array(slots)) for column in self.freeze(len(self.counts))()]


def _viewed(values: pa.Array, kind: pa.DataType) -> pa.Array:
    return values if values.type == kind else values.view(kind)


def _number_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        return pa.int32() if kind.bit_width == 32 else pa.int64()
    return kind
