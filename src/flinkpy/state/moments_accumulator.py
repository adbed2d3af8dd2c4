"""MomentsAccumulator: VAR_POP, VAR_SAMP, STDDEV_POP and STDDEV_SAMP: what it takes to tell how far values are apart.

Per slot: how many values there are, one of them (the first), and the sums of the others' distances to it and of their
squares. Sums of the values themselves would lose everything where these are large and close together. With one of the
values as the origin at most as many digits are lost as the number of values has.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.state.accumulators import Accumulator, FrozenColumns, _grown, _without_nulls

FUNCTIONS = ("VAR_POP", "VAR_SAMP", "STDDEV_POP", "STDDEV_SAMP")


class MomentsAccumulator(Accumulator):
    """Thread: task thread. Nulls are left out."""

    num_columns = 4

    def __init__(self, function: str, value_type: pa.DataType) -> None:
        types = pa.types
        if not (types.is_integer(value_type) or types.is_floating(value_type) or types.is_decimal(value_type)):
            raise UnsupportedOperationError(f"{function} needs a column of numbers, not {value_type}")
        self._is_sample = function.endswith("SAMP")
        self._is_root = function.startswith("STDDEV")
        self.counts = np.zeros(0, dtype=np.int64)
        self.origins = np.zeros(0, dtype=np.float64)
        self.distances = np.zeros(0, dtype=np.float64)
        self.squares = np.zeros(0, dtype=np.float64)

    def grow(self, size: int) -> None:
        self.counts = _grown(self.counts, size, 0)
        self.origins = _grown(self.origins, size, 0)
        self.distances = _grown(self.distances, size, 0)
        self.squares = _grown(self.squares, size, 0)

    def add(self, slots: np.ndarray, values: pa.Array | None) -> None:
        assert values is not None
        slots, values = _without_nulls(slots, values)
        numbers = values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        self._find_origins(slots, numbers)
        with np.errstate(invalid="ignore", over="ignore"):
            distances = numbers - self.origins.take(slots)
            np.add.at(self.squares, slots, distances * distances)
            np.add.at(self.distances, slots, distances)
        np.add.at(self.counts, slots, 1)

    def merge(self, slots: np.ndarray, other: MomentsAccumulator, other_slots: np.ndarray) -> None:
        counts = other.counts.take(other_slots)
        if not counts.all():
            is_there = counts > 0
            slots, other_slots, counts = slots[is_there], other_slots[is_there], counts[is_there]
        origins, distances = other.origins.take(other_slots), other.distances.take(other_slots)
        squares = other.squares.take(other_slots)
        self._find_origins(slots, origins)
        with np.errstate(invalid="ignore", over="ignore"):
            moved = origins - self.origins.take(slots)
            np.add.at(self.squares, slots, squares + moved * (2 * distances + counts * moved))
            np.add.at(self.distances, slots, distances + counts * moved)
        np.add.at(self.counts, slots, counts)

    def _find_origins(self, slots: np.ndarray, numbers: np.ndarray) -> None:
        """Slots without values get the first of theirs: of several NumPy keeps what is written last."""
        rows = np.flatnonzero(self.counts.take(slots) == 0)[::-1]
        self.origins[slots[rows]] = numbers[rows]

    def keep(self, slots: np.ndarray) -> None:
        self.counts, self.origins = self.counts.take(slots), self.origins.take(slots)
        self.distances, self.squares = self.distances.take(slots), self.squares.take(slots)

    def results(self, slots: np.ndarray) -> pa.Array:
        """DOUBLE; null of no values, and with SAMP of one too."""
        counts, distances = self.counts.take(slots), self.distances.take(slots)
        divisors = counts - 1 if self._is_sample else counts
        is_null = divisors < 1
        with np.errstate(invalid="ignore", over="ignore"):
            spread = self.squares.take(slots) - distances * distances / np.where(counts == 0, 1, counts)
            variances = np.maximum(spread, 0) / np.where(is_null, 1, divisors)
        return pa.array(np.sqrt(variances) if self._is_root else variances, mask=is_null)

    def freeze(self, size: int) -> FrozenColumns:
        parts = [part[:size].copy() for part in (self.counts, self.origins, self.distances, self.squares)]
        return lambda: [pa.array(part) for part in parts]

    def restore(self, slots: np.ndarray, columns: list[pa.Array]) -> None:
        parts = (self.counts, self.origins, self.distances, self.squares)
        for part, column in zip(parts, columns, strict=True):
            part[slots] = column.to_numpy()
