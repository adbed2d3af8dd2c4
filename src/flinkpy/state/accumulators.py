"""Columns of accumulators for built-in aggregate functions: one accumulator per slot, where each key has a slot.

Each accumulator class consumes a whole batch (slots and values) with NumPy's unbuffered `ufunc.at`, which costs about a
nanosecond per row. Nulls are ignored, as in SQL. SUM, MIN, MAX and MEAN are null if all values are null.
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
#: The precision of intermediate sums. Python's default context rounds to 28 digits.
_EXACT = decimal.Context(prec=76)

#: Returns the Arrow columns of a frozen accumulator. Thread: any.
FrozenColumns = Callable[[], list[pa.Array]]


class Accumulator(ABC):
    """The accumulators of one aggregate function, indexed by slot. Thread: task thread.

    `slots` arguments are int64[n]. Each slot is below the `size` of the last call of `grow`.
    """

    #: The number of Arrow columns of the accumulators in a snapshot.
    num_columns = 1

    @property
    def extra_bytes(self) -> int:
        """The approximate memory in bytes beyond one or two numbers per slot."""
        return 0

    @abstractmethod
    def grow(self, size: int) -> None:
        """Makes room for slots below `size`."""

    @abstractmethod
    def add(self, slots: np.ndarray, values: pa.Array | None) -> None:
        """Adds a batch: `values[i]` to slot `slots[i]`. `values` is None for a COUNT of rows."""

    @abstractmethod
    def merge(self, slots: np.ndarray, other: Any, other_slots: np.ndarray) -> None:
        """Merges slot `other_slots[i]` of an accumulator of the same class into slot `slots[i]`."""

    @abstractmethod
    def keep(self, slots: np.ndarray) -> None:
        """Keeps only these slots, and renumbers them: slot `slots[i]` becomes slot i. `slots` is ascending."""

    @abstractmethod
    def results(self, slots: np.ndarray) -> pa.Array:
        """Returns the result of each slot."""

    @abstractmethod
    def freeze(self, size: int) -> FrozenColumns:
        """Copies the slots below `size`. Returns a function that later makes `num_columns` columns from the copy."""

    @abstractmethod
    def restore(self, slots: np.ndarray, columns: list[pa.Array]) -> None:
        """Sets the slots to the columns that `freeze` produced. Each slot occurs once."""


def create_accumulator(function: str, value_type: pa.DataType | None) -> Accumulator:
    """Creates the accumulator of a built-in aggregate function.

    Args:
        function: COUNT, SUM, MIN, MAX, MEAN, FIRST, LAST, COUNT_DISTINCT, VAR_POP, VAR_SAMP, STDDEV_POP or
            STDDEV_SAMP, in upper or lower case.
        value_type: the type of the aggregated column; None for a COUNT of rows.

    Raises: UnsupportedOperationError for another function, or a type that the function does not accept.
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
        return OrderedAccumulator(name, value_type)
    if name == "COUNT_DISTINCT":
        from flinkpy.state.distinct_accumulator import DistinctCountAccumulator

        return DistinctCountAccumulator(value_type)
    if name in _MOMENT_FUNCTIONS:
        return MomentsAccumulator(name, value_type)
    if name in ("MIN", "MAX"):
        if _is_object(value_type):
            return ObjectExtremeAccumulator(name, value_type)
        return ExtremeAccumulator(name, value_type)
    raise UnsupportedOperationError(
        f"unknown aggregate function {function!r}; use COUNT, COUNT_DISTINCT, SUM, MIN, MAX, MEAN, FIRST, LAST, "
        "VAR_POP, VAR_SAMP, STDDEV_POP or STDDEV_SAMP"
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
    """Returns an array of at least that size. The size at least doubles, so growing costs a constant per slot."""
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
    """COUNT: the number of rows, or of values that are not null."""

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
    """One number per slot, and a flag that is set once the slot has a value."""

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
        """See Accumulator. Slots without a value become null."""
        numbers, has_value = self.numbers[:size].copy(), self.has_value[:size].copy()
        return lambda: [pa.array(numbers, mask=~has_value)]

    def restore(self, slots: np.ndarray, columns: list[pa.Array]) -> None:
        slots, values = _without_nulls(slots, columns[0])
        self.numbers[slots] = values.to_numpy()
        self.has_value[slots] = True


class SumAccumulator(_NumberAccumulator):
    """SUM of numbers. Integers are summed in int64 and wrap around as in Flink, all others in float64."""

    def __init__(self, value_type: pa.DataType) -> None:
        if pa.types.is_integer(value_type) or pa.types.is_boolean(value_type):
            super().__init__(np.dtype(np.int64), 0)
        elif pa.types.is_floating(value_type):
            super().__init__(np.dtype(np.float64), 0)
        else:
            raise UnsupportedOperationError(f"SUM and MEAN need a numeric column, not {value_type}")

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
    """One Python object per slot; None if the slot has no value."""

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
    """SUM of decimals: exact, with at most 38 digits.

    Arrow sums each batch. Only the keys of the batch cost a Python operation each.
    """

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
    """MEAN: a sum and a count per slot. The result is a float64."""

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
    """MIN or MAX of numbers, times or booleans, in the type of the column. Prefers other values to NaN."""

    def __init__(self, function: str, value_type: pa.DataType) -> None:
        self._value_type = value_type
        self._plain_type = _plain_type(value_type)
        dtype = numpy_dtype(self._plain_type)
        is_min = function == "MIN"
        initial: object = np.nan
        if dtype.kind in "iu":
            initial = np.iinfo(dtype).max if is_min else np.iinfo(dtype).min
        super().__init__(dtype, initial)
        # fmin and fmax prefer a number to NaN. For integers they are the same as minimum and maximum.
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
        # A slot without a value holds the initial number, which does not change the result.
        self._update.at(self.numbers, slots, other.numbers.take(other_slots))
        self._merge_has_value(slots, other, other_slots)

    def results(self, slots: np.ndarray) -> pa.Array:
        plain = pa.array(self.numbers.take(slots), mask=~self.has_value.take(slots))
        if pa.types.is_boolean(self._value_type):
            return plain.cast(self._value_type)
        return plain.view(self._value_type)


def _plain_type(value_type: pa.DataType) -> pa.DataType:
    """Returns the numeric type that represents the values in the same order."""
    if pa.types.is_integer(value_type) or value_type in (pa.float32(), pa.float64()):
        return value_type
    if pa.types.is_boolean(value_type):
        return pa.int8()
    if pa.types.is_temporal(value_type) and not pa.types.is_interval(value_type):
        return pa.int32() if value_type.bit_width == 32 else pa.int64()
    raise UnsupportedOperationError(f"MIN and MAX need a column of numbers, times, strings or bytes, not {value_type}")


class ObjectExtremeAccumulator(_ObjectAccumulator):
    """MIN or MAX of strings, bytes or decimals.

    Arrow finds the extremes of each batch. Only the keys of the batch cost a Python operation each.
    """

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


_NEVER = -1


class OrderedAccumulator(Accumulator):
    """FIRST and LAST: a value per slot, and the number of the record it came with. Nulls are ignored.

    Records are numbered in the order of their arrival. When slots are merged, the numbers tell which of two values came
    first. A key is always in one subtask, and restored values have smaller numbers than later ones.
    """

    num_columns = 2

    def __init__(self, function: str, value_type: pa.DataType) -> None:
        self._is_first = function == "FIRST"
        self._value_type = value_type
        try:
            self._plain: pa.DataType | None = _plain_type(value_type)
        except UnsupportedOperationError:
            self._plain = None
        #: Numbers, or Python objects for types without a plain numeric type.
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
        """Stores values, given in the order of their moments. If a slot occurs twice, NumPy keeps the last write."""
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
        """Returns the values as numbers or Python objects. They must not contain nulls."""
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


_MOMENT_FUNCTIONS = ("VAR_POP", "VAR_SAMP", "STDDEV_POP", "STDDEV_SAMP")


class MomentsAccumulator(Accumulator):
    """VAR_POP, VAR_SAMP, STDDEV_POP and STDDEV_SAMP. Nulls are ignored.

    A slot keeps the number of values, one of the values (the first) as origin, the sum of the distances of the values
    to the origin, and the sum of the squared distances. Sums of the values themselves would lose all precision if the
    values are large and close together. With one of the values as origin, the sums lose at most as many digits as the
    count of values has.
    """

    num_columns = 4

    def __init__(self, function: str, value_type: pa.DataType) -> None:
        types = pa.types
        if not (types.is_integer(value_type) or types.is_floating(value_type) or types.is_decimal(value_type)):
            raise UnsupportedOperationError(f"{function} needs a numeric column, not {value_type}")
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
        """Sets the origin of slots without values to their first number.

        The rows are reversed because NumPy keeps the last write to a slot.
        """
        rows = np.flatnonzero(self.counts.take(slots) == 0)[::-1]
        self.origins[slots[rows]] = numbers[rows]

    def keep(self, slots: np.ndarray) -> None:
        self.counts, self.origins = self.counts.take(slots), self.origins.take(slots)
        self.distances, self.squares = self.distances.take(slots), self.squares.take(slots)

    def results(self, slots: np.ndarray) -> pa.Array:
        """Returns float64; null without values, and null for the SAMP functions with a single value."""
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
