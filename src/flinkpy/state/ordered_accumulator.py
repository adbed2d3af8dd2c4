"""OrderedAccumulator: FIRST and LAST: a value per slot, and when it came.

Records are numbered as they come, so that it can be told which of two values was first when slots are put together. A
key is always in one subtask, and what was restored has smaller numbers than what comes after.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.records.numpy_dtypes import numpy_dtype
from flinkpy.state.accumulators import Accumulator, FrozenColumns, _grown, _plain_type, _without_nulls

_NEVER = -1


class OrderedAccumulator(Accumulator):
    """Thread: task thread. Nulls are left out."""

    num_columns = 2

    def __init__(self, function: str, value_type: pa.DataType) -> None:
        self._is_first = function == "FIRST"
        self._value_type = value_type
        try:
            self._plain: pa.DataType | None = _plain_type(value_type)
        except UnsupportedOperationError:
            self._plain = None
        #: Numbers, or Python objects.
        self.values = np.zeros(0, dtype=object if self._plain is None else numpy_dtype(self._plain))
        self.moments = np.zeros(0, dtype=np.int64)
        self._next_moment = 0

    def grow(self, size: int) -> None:
        self.values = _grown(self.values, size, None if self._plain is None else 0)
        self.moments = _grown(self.moments, size, _NEVER)

    def add(self, slots: np.ndarray, values: pa.Array | None) -> None:
        assert values is not None
        slots, values = _without_nulls(slots, values)
        moments = np.arange(self._next_moment, self._next_moment + len(slots))
        self._next_moment += len(slots)
        if self._is_first:
            rows = np.flatnonzero(self.moments.take(slots) == _NEVER)
            if not len(rows):
                return
            slots, moments, values = slots[rows], moments[rows], values.take(pa.array(rows))
        self._put(slots, self._unpacked(values), moments)

    def merge(self, slots: np.ndarray, other: OrderedAccumulator, other_slots: np.ndarray) -> None:
        moments = other.moments.take(other_slots)
        known = self.moments.take(slots)
        if self._is_first:
            rows = np.flatnonzero((moments != _NEVER) & ((known == _NEVER) | (moments < known)))
        else:
            rows = np.flatnonzero(moments > known)
        rows = rows[np.argsort(moments[rows])]
        self._put(slots[rows], other.values.take(other_slots[rows]), moments[rows])

    def _put(self, slots: np.ndarray, values: np.ndarray, moments: np.ndarray) -> None:
        """All in the order of the moments. Of several for one slot NumPy keeps what is written last."""
        if self._is_first:
            slots, values, moments = slots[::-1], values[::-1], moments[::-1]
        self.values[slots] = values
        self.moments[slots] = moments

    def keep(self, slots: np.ndarray) -> None:
        self.values = self.values.take(slots)
        self.moments = self.moments.take(slots)

    def results(self, slots: np.ndarray) -> pa.Array:
        return self._packed(self.values.take(slots), self.moments.take(slots) == _NEVER)

    def freeze(self, size: int) -> FrozenColumns:
        values, moments = self.values[:size].copy(), self.moments[:size].copy()
        return lambda: [self._packed(values, moments == _NEVER), pa.array(moments)]

    def restore(self, slots: np.ndarray, columns: list[pa.Array]) -> None:
        moments = columns[1].to_numpy()
        self.moments[slots] = moments
        if len(moments):
            self._next_moment = max(self._next_moment, int(moments.max()) + 1)
        slots, values = _without_nulls(slots, columns[0])
        self.values[slots] = self._unpacked(values)

    def _unpacked(self, values: pa.Array) -> np.ndarray:
        """Of values without nulls."""
        if self._plain is None:
            unpacked = np.empty(len(values), dtype=object)
            unpacked[:] = values.to_pylist()
            return unpacked
        if pa.types.is_boolean(values.type):
            return values.cast(self._plain).to_numpy()
        return values.view(self._plain).to_numpy()

    def _packed(self, values: np.ndarray, is_null: np.ndarray) -> pa.Array:
        if self._plain is None:
            return pa.array(values.tolist(), self._value_type)
        packed = pa.array(values, self._plain, mask=is_null)
        return packed.cast(self._value_type) if pa.types.is_boolean(self._value_type) else packed.view(self._value_type)
