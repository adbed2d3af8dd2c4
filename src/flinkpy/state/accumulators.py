"""Columns of accumulators, one value per slot: the batch face of keyed state, for built-in aggregates.

Each function consumes a whole batch (slots and values) with NumPy's unbuffered `ufunc.at`, which costs about a
nanosecond a row. Nulls are left out, as SQL does; SUM, MIN, MAX and MEAN of nothing but nulls are null.
"""

from __future__ import annotations

import decimal
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.records.numpy_dtypes import numpy_dtype

_INITIAL_CAPACITY = 1_024
#: Python's own context rounds to 28 digits.
_EXACT = decimal.Context(prec=76)

#: Makes the Arrow columns of a frozen accumulator. Thread: any.
FrozenColumns = Callable[[], list[pa.Array]]


class Accumulator(ABC):
    """Thread: task thread. `slots` are int64[n]; every slot in them is below the `size` given to `grow` before."""

    #: Arrow columns that hold it in a snapshot.
    num_columns = 1

    @property
    def extra_bytes(self) -> int:
        """Memory beyond a number or two per slot, about."""
        return 0

    @abstractmethod
    def grow(self, size: int) -> None:
        """Make room for slots below `size`."""

    @abstractmethod
    def add(self, slots: np.ndarray, values: pa.Array | None) -> None:
        """Take in a batch."""

    @abstractmethod
    def merge(self, slots: np.ndarray, other: Any, other_slots: np.ndarray) -> None:
        """Take in slots of an accumulator of the same kind: `other_slots[i]` goes into `slots[i]`."""

    @abstractmethod
    def keep(self, slots: np.ndarray) -> None:
        """From now on slot i is what slot `slots[i]` was; the others are gone. They are in ascending order."""

    @abstractmethod
    def results(self, slots: np.ndarray) -> pa.Array:
        """The result of each of the slots."""

    @abstractmethod
    def freeze(self, size: int) -> FrozenColumns:
        """Copy the slots below `size`; what is returned makes `num_columns` columns of them later."""

    @abstractmethod
    def restore(self, slots: np.ndarray, columns: list[pa.Array]) -> None:
        """Set slots, each there once, to what `freeze` gave."""


def create_accumulator(function: str, value_type: pa.DataType | None) -> Accumulator:
    """`function`: COUNT SUM MIN MAX MEAN FIRST LAST COUNT_DISTINCT VAR_POP VAR_SAMP STDDEV_POP STDDEV_SAMP;
    `value_type` None: COUNT of rows.
    """
    name = function.upper()
    if name == "COUNT":
        return CountAccumulator()
    if value_type is None:
        raise UnsupportedOperationError(f"{function} needs a column")
    if name == "SUM":
        return DecimalSumAccumulator(value_type) if pa.types.is_decimal(value_type) else SumAccumulator(value_type)
    if name == "MEAN":
        return MeanAccumulator(value_type)
    if name in ("FIRST", "LAST"):
        from flinkpy.state.ordered_accumulator import OrderedAccumulator

        return OrderedAccumulator(name, value_type)
    if name == "COUNT_DISTINCT":
        from flinkpy.state.distinct_accumulator import DistinctCountAccumulator

        return DistinctCountAccumulator(value_type)
    if name.startswith(("VAR_", "STDDEV_")):
        from flinkpy.state.moments_accumulator import FUNCTIONS, MomentsAccumulator

        if name in FUNCTIONS:
            return MomentsAccumulator(name, value_type)
    if name in ("MIN", "MAX"):
        if _is_object(value_type):
            return ObjectExtremeAccumulator(name, value_type)
        return ExtremeAccumulator(name, value_type)
    raise UnsupportedOperationError(
        f"aggregate function {function!r}: there are COUNT, COUNT_DISTINCT, SUM, MIN, MAX, MEAN, FIRST, LAST, "
        "VAR_POP, VAR_SAMP, STDDEV_POP and STDDEV_SAMP"
    )


def _is_object(value_type: pa.DataType) -> bool:
    types = pa.types
    return (
        types.is_string(value_type)
        or types.is_large_string(value_type)
        or types.is_binary(value_type)
        or types.is_large_binary(value_type)
        or types.is_decimal(value_type)
    )


def _grown(values: np.ndarray, size: int, fill: object) -> np.ndarray:
    """At least doubled, so that growing costs a constant per slot."""
    if size <= len(values):
        return values
    grown = np.full(max(size, 2 * len(values), _INITIAL_CAPACITY), fill, dtype=values.dtype)
    grown[: len(values)] = values
    return grown


def _without_nulls(slots: np.ndarray, values: pa.Array) -> tuple[np.ndarray, pa.Array]:
    if not values.null_count:
        return slots, values
    return slots[values.is_valid().to_numpy(zero_copy_only=False)], values.drop_null()


class CountAccumulator(Accumulator):
    """Rows, or values that are not null."""

    def __init__(self) -> None:
        self.counts = np.zeros(0, dtype=np.int64)

    def grow(self, size: int) -> None:
        self.counts = _grown(self.counts, size, 0)

    def add(self, slots: np.ndarray, values: pa.Array | None) -> None:
        if values is not None:
            slots, _ = _without_nulls(slots, values)
        np.add.at(self.counts, slots, 1)

    def merge(self, slots: np.ndarray, other: CountAccumulator, other_slots: np.ndarray) -> None:
        np.add.at(self.counts, slots, other.counts.take(other_slots))

    def keep(self, slots: np.ndarray) -> None:
        self.counts = self.counts.take(slots)

    def results(self, slots: np.ndarray) -> pa.Array:
        return pa.array(self.counts.take(slots))

    def freeze(self, size: int) -> FrozenColumns:
        counts = self.counts[:size].copy()
        return lambda: [pa.array(counts)]

    def restore(self, slots: np.ndarray, columns: list[pa.Array]) -> None:
        self.counts[slots] = columns[0].to_numpy()


class _NumberAccumulator(Accumulator):
    """One number per slot, and whether any value has come yet."""

    def __init__(self, dtype: np.dtype, initial: object) -> None:
        self.numbers = np.zeros(0, dtype=dtype)
        self.has_value = np.zeros(0, dtype=bool)
        self._initial = initial

    def grow(self, size: int) -> None:
        self.numbers = _grown(self.numbers, size, self._initial)
        self.has_value = _grown(self.has_value, size, False)

    def keep(self, slots: np.ndarray) -> None:
        self.numbers = self.numbers.take(slots)
        self.has_value = self.has_value.take(slots)

    def _merge_has_value(self, slots: np.ndarray, other: _NumberAccumulator, other_slots: np.ndarray) -> None:
        has_value = other.has_value.take(other_slots)
        self.has_value[slots if has_value.all() else slots[has_value]] = True

    def freeze(self, size: int) -> FrozenColumns:
        """Null where no value came."""
        numbers, has_value = self.numbers[:size].copy(), self.has_value[:size].copy()
        return lambda: [pa.array(numbers, mask=~has_value)]

    def restore(self, slots: np.ndarray, columns: list[pa.Array]) -> None:
        slots, values = _without_nulls(slots, columns[0])
        self.numbers[slots] = values.to_numpy()
        self.has_value[slots] = True


class SumAccumulator(_NumberAccumulator):
    """Integers in int64 (wrapping around, as Flink's do), the rest in float64."""

    def __init__(self, value_type: pa.DataType) -> None:
        if pa.types.is_integer(value_type) or pa.types.is_boolean(value_type):
            super().__init__(np.dtype(np.int64), 0)
        elif pa.types.is_floating(value_type):
            super().__init__(np.dtype(np.float64), 0)
        else:
            raise UnsupportedOperationError(f"SUM and MEAN need a column of numbers, not {value_type}")

    def add(self, slots: np.ndarray, values: pa.Array | None) -> None:
        assert values is not None
        slots, values = _without_nulls(slots, values)
        numbers = values.to_numpy(zero_copy_only=False).astype(self.numbers.dtype, copy=False)
        np.add.at(self.numbers, slots, numbers)
        self.has_value[slots] = True

    def merge(self, slots: np.ndarray, other: SumAccumulator, other_slots: np.ndarray) -> None:
        np.add.at(self.numbers, slots, other.numbers.take(other_slots))
        self._merge_has_value(slots, other, other_slots)

    def results(self, slots: np.ndarray) -> pa.Array:
        return pa.array(self.numbers.take(slots), mask=~self.has_value.take(slots))


class _ObjectAccumulator(Accumulator):
    """A Python object per slot; None where no value came."""

    def __init__(self, stored_type: pa.DataType) -> None:
        self._stored_type = stored_type
        self.values: list[Any] = []

    def grow(self, size: int) -> None:
        self.values.extend([None] * (size - len(self.values)))

    def merge(self, slots: np.ndarray, other: _ObjectAccumulator, other_slots: np.ndarray) -> None:
        known = other.values
        self.add(slots, pa.array([known[slot] for slot in other_slots.tolist()], self._stored_type))

    def keep(self, slots: np.ndarray) -> None:
        known = self.values
        self.values = [known[slot] for slot in slots.tolist()]

    def results(self, slots: np.ndarray) -> pa.Array:
        known = self.values
        return pa.array([known[slot] for slot in slots.tolist()], self._stored_type)

    def freeze(self, size: int) -> FrozenColumns:
        values = self.values[:size]
        return lambda: [pa.array(values, self._stored_type)]

    def restore(self, slots: np.ndarray, columns: list[pa.Array]) -> None:
        known = self.values
        for slot, value in zip(slots.tolist(), columns[0].to_pylist()):
            known[slot] = value


class DecimalSumAccumulator(_ObjectAccumulator):
    """Exact sums of decimals, of 38 digits at most: Arrow sums up each batch; a Python object per key touched."""

    def __init__(self, value_type: pa.DataType) -> None:
        super().__init__(pa.decimal128(38, value_type.scale))

    def add(self, slots: np.ndarray, values: pa.Array | None) -> None:
        assert values is not None
        if len(slots) == 1:
            added = [(int(slots[0]), values[0].as_py())]
        else:
            sums = pa.table({"slot": slots, "value": values}).group_by("slot").aggregate([("value", "sum")])
            added = list(zip(sums["slot"].to_pylist(), sums["value_sum"].to_pylist()))
        known = self.values
        for slot, value in added:
            if value is not None:
                known[slot] = value if known[slot] is None else _EXACT.add(known[slot], value)


class MeanAccumulator(Accumulator):
    """Sum and count; the mean is a float64."""

    num_columns = 2

    def __init__(self, value_type: pa.DataType) -> None:
        self._is_decimal = pa.types.is_decimal(value_type)
        self.sum = SumAccumulator(pa.float64() if self._is_decimal else value_type)
        self.count = CountAccumulator()

    def grow(self, size: int) -> None:
        self.sum.grow(size)
        self.count.grow(size)

    def add(self, slots: np.ndarray, values: pa.Array | None) -> None:
        assert values is not None
        slots, values = _without_nulls(slots, values)
        self.sum.add(slots, values.cast(pa.float64()) if self._is_decimal else values)
        self.count.add(slots, None)

    def merge(self, slots: np.ndarray, other: MeanAccumulator, other_slots: np.ndarray) -> None:
        self.sum.merge(slots, other.sum, other_slots)
        self.count.merge(slots, other.count, other_slots)

    def keep(self, slots: np.ndarray) -> None:
        self.sum.keep(slots)
        self.count.keep(slots)

    def results(self, slots: np.ndarray) -> pa.Array:
        counts = self.count.counts.take(slots)
        is_null = counts == 0
        return pa.array(self.sum.numbers.take(slots) / np.where(is_null, 1, counts), mask=is_null)

    def freeze(self, size: int) -> FrozenColumns:
        sums, counts = self.sum.freeze(size), self.count.freeze(size)
        return lambda: sums() + counts()

    def restore(self, slots: np.ndarray, columns: list[pa.Array]) -> None:
        self.sum.restore(slots, columns[:1])
        self.count.restore(slots, columns[1:])


class ExtremeAccumulator(_NumberAccumulator):
    """MIN or MAX of numbers, times or booleans, in the column's type. NaN counts only where nothing else came."""

    def __init__(self, function: str, value_type: pa.DataType) -> None:
        self._value_type = value_type
        self._plain_type = _plain_type(value_type)
        dtype = numpy_dtype(self._plain_type)
        is_min = function == "MIN"
        initial: object = np.nan
        if dtype.kind in "iu":
            initial = np.iinfo(dtype).max if is_min else np.iinfo(dtype).min
        super().__init__(dtype, initial)
        # fmin and fmax prefer a number to NaN; for integers they are minimum and maximum.
        self._update = np.fmin if is_min else np.fmax

    def add(self, slots: np.ndarray, values: pa.Array | None) -> None:
        assert values is not None
        slots, values = _without_nulls(slots, values)
        if pa.types.is_boolean(values.type):
            plain = values.cast(self._plain_type)
        else:
            plain = values.view(self._plain_type)
        self._update.at(self.numbers, slots, plain.to_numpy())
        self.has_value[slots] = True

    def merge(self, slots: np.ndarray, other: ExtremeAccumulator, other_slots: np.ndarray) -> None:
        # Where no value came there is the number that changes nothing.
        self._update.at(self.numbers, slots, other.numbers.take(other_slots))
        self._merge_has_value(slots, other, other_slots)

    def results(self, slots: np.ndarray) -> pa.Array:
        plain = pa.array(self.numbers.take(slots), mask=~self.has_value.take(slots))
        if pa.types.is_boolean(self._value_type):
            return plain.cast(self._value_type)
        return plain.view(self._value_type)


def _plain_type(value_type: pa.DataType) -> pa.DataType:
    """The number type whose order is that of the values."""
    if pa.types.is_integer(value_type) or value_type in (pa.float32(), pa.float64()):
        return value_type
    if pa.types.is_boolean(value_type):
        return pa.int8()
    if pa.types.is_temporal(value_type) and not pa.types.is_interval(value_type):
        return pa.int32() if value_type.bit_width == 32 else pa.int64()
    raise UnsupportedOperationError(f"MIN and MAX need a column of numbers or times, not {value_type}")


class ObjectExtremeAccumulator(_ObjectAccumulator):
    """MIN or MAX of strings, bytes or decimals: Arrow finds each batch's extremes; a Python object per key touched."""

    def __init__(self, function: str, value_type: pa.DataType) -> None:
        super().__init__(value_type)
        self._function = function.lower()
        self._is_min = function == "MIN"

    def add(self, slots: np.ndarray, values: pa.Array | None) -> None:
        table = pa.table({"slot": slots, "value": values})
        extremes = table.group_by("slot").aggregate([("value", self._function)])
        known = self.values
        for slot, value in zip(extremes["slot"].to_pylist(), extremes[f"value_{self._function}"].to_pylist()):
            current = known[slot]
            if value is not None and (current is None or (value < current if self._is_min else value > current)):
                known[slot] = value
