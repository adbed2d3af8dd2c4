"""Accumulators of SQL's aggregate functions in columns, with retraction, Flink's result types and SQL's rules for NULL.

They work in every table of accumulators. Beyond `add` and `merge` they can `update` the groups of a batch: take rows
back, and return the result after each row. Values are NumPy numbers where possible: int64 for integers, times and
booleans, float64 for floating point numbers, and Python integers without their scale for decimals.

Source: org.apache.flink.table.planner.functions.aggfunctions.*.
"""

from __future__ import annotations

import decimal
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.records.numpy_dtypes import numpy_dtype
from flinkpy.state.accumulators import Accumulator, FrozenColumns
from flinkpy.state.row_groups import (
    RowGroups,
    folded_extremes,
    folded_sums,
    neutral_extreme,
    number_rows,
    running_extremes,
    running_sums,
)

#: The prefix of these functions in an AggregateColumn. Without it a function has the rules of the DataStream API.
SQL = "SQL."
#: The prefix, after the other one, of functions of distinct values.
DISTINCT = "DISTINCT."
_MIN_CAPACITY = 1_024
_MAX_PRECISION = 38
_EXACT = decimal.Context(prec=77)


def create_table_accumulator(function: str, value_type: pa.DataType | None) -> TableAccumulator:
    """Creates the accumulator of a function of SQL.

    Args:
        function: COUNT, SUM, $SUM0, AVG, MIN, MAX, FIRST_VALUE, LAST_VALUE, or a function of `object_accumulators`,
            after the prefix `SQL.`, or `SQL.DISTINCT.` for distinct values.
        value_type: the type of the argument; None for COUNT(*).

    Raises: UnsupportedOperationError for another function, or a type that the function does not accept.
    """
    name = function.removeprefix(SQL)
    if name == "COUNT":
        return CountAccumulator()
    if name == "$UPDATED":
        return UpdatedAccumulator()
    if value_type is None:
        raise UnsupportedOperationError(f"{name} needs an argument")
    if name in ("SUM", "$SUM0"):
        return SumAccumulator(value_type, is_zero_if_empty=name == "$SUM0")
    if name == "AVG":
        return AvgAccumulator(value_type)
    if name in ("MIN", "MAX"):
        return ExtremeAccumulator(value_type, is_max=name == "MAX")
    if name in ("FIRST_VALUE", "LAST_VALUE"):
        return PositionAccumulator(value_type, is_last=name == "LAST_VALUE")
    if name.startswith(DISTINCT):
        from flinkpy.state.distinct_values import DistinctAccumulator

        return DistinctAccumulator(name.removeprefix(DISTINCT), value_type)
    from flinkpy.state.object_accumulators import create_object_accumulator

    return create_object_accumulator(name, value_type)


@dataclass(frozen=True, slots=True)
class Weighted:
    """An argument with weights: 1 to add the row's value, -1 to take it back, 0 to leave it out."""

    values: pa.Array | None
    weights: np.ndarray


@dataclass(frozen=True, slots=True)
class Stored:
    """Accumulators as the columns of a snapshot, which are merged instead of values that are added."""

    columns: list[pa.Array]


class TableAccumulator(Accumulator):
    """An accumulator whose state is a few NumPy arrays, indexed by slot. Thread: task thread.

    Args:
        arrays: (type of the column in snapshots, dtype, initial value) of each array. An object array holds what
            `to_pylist` returns for its column, or, if the type is DECIMAL, integers without the scale.
    """

    def __init__(self, arrays: list[tuple[pa.DataType, Any, Any]]) -> None:
        self._stored_types = [kind for kind, _, _ in arrays]
        self.initials = [initial for _, _, initial in arrays]
        self.arrays = [np.zeros(0, dtype=dtype) for _, dtype, _ in arrays]
        self.num_columns = len(arrays)
        #: See `row_groups.number_rows`.
        self._scratch = np.zeros(0, dtype=np.int64)

    # -- of subclasses -------------------------------------------------------------------------------------------

    @abstractmethod
    def after(
        self,
        groups: RowGroups,
        before: list[np.ndarray],
        values: pa.Array | None,
        weights: np.ndarray | None,
        is_running: bool,
    ) -> list[np.ndarray]:
        """Returns the arrays of the groups after each row, or after the batch.

        Args:
            before: [m]: the arrays of the groups before the batch.
            values: the argument of each row; None for COUNT(*).
            weights: int8[n]: 1 to add the row, -1 to take it back, 0 to leave it out. None: all are added.
            is_running: True to return arrays of n rows, False for arrays of m groups.
        """

    @abstractmethod
    def values(self, arrays: list[np.ndarray]) -> pa.Array:
        """Returns the results of accumulators, given as their arrays."""

    @abstractmethod
    def merged(self, groups: RowGroups, before: list[np.ndarray], others: list[np.ndarray]) -> list[np.ndarray]:
        """Returns the arrays of the groups after they have been merged with `others`, the arrays of n accumulators."""

    # -- for group tables ----------------------------------------------------------------------------------------

    def update(
        self, groups: RowGroups, values: pa.Array | None, weights: np.ndarray | None, is_running: bool
    ) -> pa.Array:
        """Updates the accumulators with the rows of a batch.

        Args: see `after`.

        Returns: the results of the m groups before the batch, followed by the results after each of the n rows, or of
            the m groups after the batch.
        """
        before = self.before(groups)
        after = self.after(groups, before, values, weights, is_running)
        last = groups.last_rows if is_running else None
        for array, new in zip(self.arrays, after):
            groups.store(array, new if last is None else new.take(last))
        return self.values([np.concatenate(pair) for pair in zip(before, after)])

    def update_merged(self, groups: RowGroups, columns: list[pa.Array]) -> pa.Array:
        """Merges accumulators, given as the columns of a snapshot. Returns results as `update` does, per group."""
        before = self.before(groups)
        after = self.merged(groups, before, self.from_columns(columns))
        for array, new in zip(self.arrays, after):
            groups.store(array, new)
        return self.values([np.concatenate(pair) for pair in zip(before, after)])

    def before(self, groups: RowGroups) -> list[np.ndarray]:
        return [groups.before(array, initial) for array, initial in zip(self.arrays, self.initials)]

    # -- Accumulator ---------------------------------------------------------------------------------------------

    def grow(self, size: int) -> None:
        for position, (array, initial) in enumerate(zip(self.arrays, self.initials)):
            if size > len(array):
                capacity = max(size, 2 * len(array), _MIN_CAPACITY)
                # Zeros cost nothing until they are used, so that a batch does not wait for millions of them.
                is_zero = array.dtype.kind in "iub" and not initial
                grown = np.zeros(capacity, array.dtype) if is_zero else np.full(capacity, initial, array.dtype)
                grown[: len(array)] = array
                self.arrays[position] = grown

    def add(self, slots: np.ndarray, values: pa.Array | Weighted | Stored | None) -> None:
        """Adds a batch, see the base class."""
        if isinstance(values, Stored):
            self.merge_arrays(slots, self.from_columns(values.columns))
        elif isinstance(values, Weighted):
            self.add_weighted(slots, values.values, values.weights)
        else:
            self.add_weighted(slots, values, None)

    def add_weighted(self, slots: np.ndarray, values: pa.Array | None, weights: np.ndarray | None) -> None:
        groups = self._groups_of(slots)
        after = self.after(groups, self.before(groups), values, weights, False)
        for array, new in zip(self.arrays, after):
            array[groups.slots] = new

    def merge(self, slots: np.ndarray, other: TableAccumulator, other_slots: np.ndarray) -> None:
        self.merge_arrays(slots, [array.take(other_slots) for array in other.arrays])

    def merge_arrays(self, slots: np.ndarray, others: list[np.ndarray]) -> None:
        groups = self._groups_of(slots)
        for array, new in zip(self.arrays, self.merged(groups, self.before(groups), others)):
            array[groups.slots] = new

    def _groups_of(self, slots: np.ndarray) -> RowGroups:
        if len(self._scratch) < len(self.arrays[0]):
            self._scratch = np.full(len(self.arrays[0]), -1, dtype=np.int64)
        number, first_rows = number_rows(slots, self._scratch)
        return RowGroups(number, slots.take(first_rows), np.zeros(len(first_rows), dtype=bool))

    def keep(self, slots: np.ndarray) -> None:
        self.arrays = [array.take(slots) for array in self.arrays]

    def results(self, slots: np.ndarray) -> pa.Array:
        return self.values([array.take(slots) for array in self.arrays])

    def freeze(self, size: int) -> FrozenColumns:
        arrays = [array[:size].copy() for array in self.arrays]
        return lambda: self.to_columns(arrays)

    def restore(self, slots: np.ndarray, columns: list[pa.Array]) -> None:
        for array, values in zip(self.arrays, self.from_columns(columns)):
            array[slots] = values

    def columns(self, slots: np.ndarray) -> list[pa.Array]:
        """Returns the columns of a snapshot for these slots."""
        return self.to_columns([array.take(slots) for array in self.arrays])

    def to_columns(self, arrays: list[np.ndarray]) -> list[pa.Array]:
        return [_stored(array, kind) for array, kind in zip(arrays, self._stored_types)]

    def from_columns(self, columns: list[pa.Array]) -> list[np.ndarray]:
        return [_restored(column, array.dtype) for column, array in zip(columns, self.arrays)]


def _stored(array: np.ndarray, kind: pa.DataType) -> pa.Array:
    if array.dtype.kind != "O":
        return from_numbers(array, None, kind)
    if pa.types.is_decimal(kind):
        return decimals(array, kind)
    return pa.array(array.tolist(), kind)


def _restored(column: pa.Array, dtype: np.dtype) -> np.ndarray:
    if dtype.kind != "O":
        return to_numbers(column).astype(dtype, copy=False)
    if pa.types.is_decimal(column.type):
        return _unscaled(column)
    return _objects(column.to_pylist())


def _objects(values: list[Any]) -> np.ndarray:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


# -- numbers and Arrow ---------------------------------------------------------------------------------------------


def is_numeric_form(kind: pa.DataType) -> bool:
    """True if values of the type have a form as int64 or float64 in the same order."""
    types = pa.types
    if types.is_integer(kind) or types.is_boolean(kind) or kind in (pa.float32(), pa.float64()):
        return True
    return types.is_temporal(kind) and not types.is_interval(kind)


def number_dtype(kind: pa.DataType) -> np.dtype:
    return np.dtype(np.float64 if pa.types.is_floating(kind) else np.int64)


def to_numbers(column: pa.Array) -> np.ndarray:
    """Returns int64[n] or float64[n]. NULL is 0."""
    kind = column.type
    if pa.types.is_temporal(kind):
        column = column.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    elif pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    if column.null_count:
        column = column.fill_null(0)
    return column.to_numpy(zero_copy_only=False).astype(number_dtype(kind), copy=False)


def from_numbers(numbers: np.ndarray, is_null: np.ndarray | None, kind: pa.DataType) -> pa.Array:
    """Returns a column of the type from numbers. Integers that are too large wrap around."""
    if is_null is not None and not is_null.any():
        is_null = None
    if pa.types.is_temporal(kind):
        plain = np.int32 if kind.bit_width == 32 else np.int64
        return pa.array(numbers.astype(plain, copy=False), mask=is_null).view(kind)
    return pa.array(numbers.astype(numpy_dtype(kind), copy=False), mask=is_null)


def _unscaled(column: pa.Array) -> np.ndarray:
    """Returns object[n]: the decimals as integers without their scale. NULL is None."""
    scale = column.type.scale
    values = [None if value is None else int(value.scaleb(scale, _EXACT)) for value in column.to_pylist()]
    return _objects(values)


def decimals(unscaled: np.ndarray, kind: pa.DataType) -> pa.Array:
    """Returns decimals from integers without their scale. Numbers that do not fit become NULL, as in Flink."""
    limit = 10**kind.precision
    values = [
        None if each is None or not -limit < each < limit else decimal.Decimal(each).scaleb(-kind.scale, _EXACT)
        for each in unscaled.tolist()
    ]
    return pa.array(values, kind)


def _is_valid(column: pa.Array) -> np.ndarray | None:
    return column.is_valid().to_numpy(zero_copy_only=False) if column.null_count else None


def _counted(column: pa.Array, weights: np.ndarray | None) -> np.ndarray | None:
    """Returns bool[n]: true for rows with a value and a weight; None if all have."""
    is_valid = _is_valid(column)
    if weights is None:
        return is_valid
    has_weight = weights != 0
    if is_valid is not None:
        has_weight &= is_valid
    return has_weight


# -- COUNT, SUM, AVG -----------------------------------------------------------------------------------------------


def _count_terms(values: pa.Array | None, weights: np.ndarray | None, num_rows: int) -> np.ndarray:
    terms = np.ones(num_rows, dtype=np.int64) if weights is None else weights.astype(np.int64)
    if values is not None and (is_valid := _is_valid(values)) is not None:
        terms *= is_valid
    return terms


class CountAccumulator(TableAccumulator):
    """COUNT: the number of rows, or of values that are not NULL. Source: CountAggFunction, Count1AggFunction."""

    def __init__(self) -> None:
        super().__init__([(pa.int64(), np.int64, 0)])

    def after(
        self,
        groups: RowGroups,
        before: list[np.ndarray],
        values: pa.Array | None,
        weights: np.ndarray | None,
        is_running: bool,
    ) -> list[np.ndarray]:
        terms = _count_terms(values, weights, groups.num_rows)
        return [(running_sums if is_running else folded_sums)(groups, before[0], terms)]

    def add_weighted(self, slots: np.ndarray, values: pa.Array | None, weights: np.ndarray | None) -> None:
        np.add.at(self.arrays[0], slots, _count_terms(values, weights, len(slots)))

    def merge_arrays(self, slots: np.ndarray, others: list[np.ndarray]) -> None:
        np.add.at(self.arrays[0], slots, others[0])

    def values(self, arrays: list[np.ndarray]) -> pa.Array:
        return pa.array(arrays[0])

    def merged(self, groups: RowGroups, before: list[np.ndarray], others: list[np.ndarray]) -> list[np.ndarray]:
        return [folded_sums(groups, before[0], others[0])]


class SumAccumulator(TableAccumulator):
    """SUM, and $SUM0, which is 0 instead of NULL.

    The sum of integers has the type of the argument and wraps around. The sum of DECIMAL(p, s) is a DECIMAL(38, s), and
    NULL if it has more digits. A second array counts the values that are not NULL.

    Source: SumAggFunction, SumWithRetractAggFunction, Sum0AggFunction.
    """

    def __init__(self, value_type: pa.DataType, is_zero_if_empty: bool = False) -> None:
        kind = value_type
        if pa.types.is_decimal(kind):
            self._type: pa.DataType = pa.decimal128(_MAX_PRECISION, kind.scale)
            array: tuple[pa.DataType, Any, Any] = (pa.string(), object, 0)
        elif pa.types.is_integer(kind) or kind in (pa.float32(), pa.float64()):
            self._type = kind
            dtype = number_dtype(kind)
            array = (pa.float64() if dtype.kind == "f" else pa.int64(), dtype, 0)
        else:
            raise UnsupportedOperationError(f"SUM and AVG need a number, not {kind}")
        self._is_zero_if_empty = is_zero_if_empty
        super().__init__([array, (pa.int64(), np.int64, 0)])

    def to_columns(self, arrays: list[np.ndarray]) -> list[pa.Array]:
        sums, counts = arrays
        if sums.dtype.kind == "O":
            # A sum may have more digits than a DECIMAL while it is accumulated.
            return [pa.array([str(each) for each in sums.tolist()], pa.string()), pa.array(counts)]
        return super().to_columns(arrays)

    def from_columns(self, columns: list[pa.Array]) -> list[np.ndarray]:
        if self.arrays[0].dtype.kind == "O":
            return [_objects([int(each) for each in columns[0].to_pylist()]), columns[1].to_numpy()]
        return super().from_columns(columns)

    def after(
        self,
        groups: RowGroups,
        before: list[np.ndarray],
        values: pa.Array | None,
        weights: np.ndarray | None,
        is_running: bool,
    ) -> list[np.ndarray]:
        sums = running_sums if is_running else folded_sums
        terms, counts = self._terms(values, weights)
        return [sums(groups, before[0], terms), sums(groups, before[1], counts)]

    def add_weighted(self, slots: np.ndarray, values: pa.Array | None, weights: np.ndarray | None) -> None:
        terms, counts = self._terms(values, weights)
        np.add.at(self.arrays[0], slots, terms)
        np.add.at(self.arrays[1], slots, counts)

    def merge_arrays(self, slots: np.ndarray, others: list[np.ndarray]) -> None:
        np.add.at(self.arrays[0], slots, others[0])
        np.add.at(self.arrays[1], slots, others[1])

    def _terms(self, values: pa.Array | None, weights: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        assert values is not None
        if pa.types.is_decimal(values.type):
            terms = _unscaled(values.fill_null(0))
        else:
            terms = to_numbers(values)
        if weights is not None:
            terms = np.where(weights == 0, 0, terms * weights) if terms.dtype.kind == "f" else terms * weights
        return terms, _count_terms(values, weights, len(values))

    def values(self, arrays: list[np.ndarray]) -> pa.Array:
        sums, counts = arrays
        is_null = None if self._is_zero_if_empty else counts == 0
        if sums.dtype.kind == "O":
            if is_null is not None:
                sums = sums.copy()
                sums[is_null] = None
            return decimals(sums, self._type)
        return from_numbers(sums, is_null, self._type)

    def merged(self, groups: RowGroups, before: list[np.ndarray], others: list[np.ndarray]) -> list[np.ndarray]:
        return [folded_sums(groups, mine, theirs) for mine, theirs in zip(before, others)]


class AvgAccumulator(SumAccumulator):
    """AVG. The average of integers is an integer of the argument's type, cut towards 0; that of DECIMAL(p, s) a
    DECIMAL(38, max(6, s)), rounded half up.

    Integers are summed in 64 bits. Source: AvgAggFunction.
    """

    def __init__(self, value_type: pa.DataType) -> None:
        super().__init__(value_type)
        self._scale = 0
        if pa.types.is_decimal(value_type):
            self._scale = value_type.scale
            self._type = pa.decimal128(_MAX_PRECISION, max(6, value_type.scale))

    def values(self, arrays: list[np.ndarray]) -> pa.Array:
        sums, counts = arrays
        is_null = counts == 0
        divisors = np.where(is_null, 1, counts)
        if sums.dtype.kind == "O":
            factor = 10 ** (self._type.scale - self._scale)
            rounded = [
                None if null else _half_up(total * factor, count)
                for total, count, null in zip(sums.tolist(), divisors.tolist(), is_null.tolist())
            ]
            return decimals(_objects(rounded), self._type)
        if sums.dtype.kind == "f":
            return from_numbers(sums / divisors, is_null, self._type)
        quotients = sums // divisors
        is_cut_down = (quotients * divisors != sums) & ((sums < 0) != (divisors < 0))
        return from_numbers(quotients + is_cut_down, is_null, self._type)


def _half_up(total: int, count: int) -> int:
    if count < 0:
        total, count = -total, -count
    quotient, rest = divmod(abs(total), count)
    quotient += 2 * rest >= count
    return quotient if total >= 0 else -quotient


class UpdatedAccumulator(CountAccumulator):
    """The time of the last update of a group, in ms, which the operator sets itself."""


# -- one of the values -----------------------------------------------------------------------------------------------


class OneValueAccumulator(TableAccumulator):
    """A value per group, as a number where its type has such a form and otherwise as an object, and whether it is set.

    Args:
        value_type: the type of the value.
        initial: the number of groups without a value.
    """

    def __init__(self, value_type: pa.DataType, initial: Callable[[np.dtype[Any]], int]) -> None:
        self._type = value_type
        self._is_number = is_numeric_form(value_type)
        array: tuple[pa.DataType, Any, Any] = (value_type, object, None)
        if self._is_number:
            dtype = number_dtype(value_type)
            array = (pa.float64() if dtype.kind == "f" else pa.int64(), dtype, initial(dtype))
        super().__init__([array, (pa.bool_(), bool, False)])

    def to_columns(self, arrays: list[np.ndarray]) -> list[pa.Array]:
        if self._is_number:
            return super().to_columns(arrays)
        return [pa.array(arrays[0].tolist(), self._type), pa.array(arrays[1])]

    def from_columns(self, columns: list[pa.Array]) -> list[np.ndarray]:
        if self._is_number:
            return super().from_columns(columns)
        return [_objects(columns[0].to_pylist()), columns[1].to_numpy(zero_copy_only=False)]

    def values(self, arrays: list[np.ndarray]) -> pa.Array:
        if self._is_number:
            return from_numbers(arrays[0], ~arrays[1], self._type)
        return pa.array(arrays[0].tolist(), self._type)


# -- MIN, MAX ------------------------------------------------------------------------------------------------------


class ExtremeAccumulator(OneValueAccumulator):
    """MIN or MAX of input without retractions. NULLs are ignored. Source: MinAggFunction, MaxAggFunction.

    Raises: UnsupportedOperationError from `after` if a row is taken back.
    """

    def __init__(self, value_type: pa.DataType, is_max: bool) -> None:
        if pa.types.is_nested(value_type) or pa.types.is_null(value_type):
            raise UnsupportedOperationError(f"MIN and MAX need values with an order, not {value_type}")
        self._is_max = is_max
        super().__init__(value_type, lambda dtype: neutral_extreme(dtype, is_max) if dtype.kind == "i" else 0)

    def after(
        self,
        groups: RowGroups,
        before: list[np.ndarray],
        values: pa.Array | None,
        weights: np.ndarray | None,
        is_running: bool,
    ) -> list[np.ndarray]:
        assert values is not None
        counted = self._counted(values, weights)
        if self._is_number:
            return self._extremes(groups, before, to_numbers(values), counted, is_running)
        in_order, known_ranks, ranks = _ranked(before[0].tolist(), values)
        extremes, has = self._extremes(groups, [known_ranks, before[1]], ranks, counted, is_running)
        return [_objects([*in_order, None]).take(np.where(has, extremes, len(in_order))), has]

    def update(
        self, groups: RowGroups, values: pa.Array | None, weights: np.ndarray | None, is_running: bool
    ) -> pa.Array:
        """See the base class. Results of objects are taken from the distinct ones, without an object per row."""
        if self._is_number:
            return super().update(groups, values, weights, is_running)
        assert values is not None
        before = self.before(groups)
        in_order, known_ranks, ranks = _ranked(before[0].tolist(), values)
        counted = self._counted(values, weights)
        after, has = self._extremes(groups, [known_ranks, before[1]], ranks, counted, is_running)
        last = groups.last_rows if is_running else np.arange(groups.num_groups)
        objects = _objects([*in_order, None])
        groups.store(self.arrays[0], objects.take(np.where(has.take(last), after.take(last), len(in_order))))
        groups.store(self.arrays[1], has.take(last))
        is_null = ~np.concatenate([before[1], has])
        return pa.array(in_order, self._type).take(pa.array(np.concatenate([known_ranks, after]), mask=is_null))

    def _counted(self, values: pa.Array, weights: np.ndarray | None) -> np.ndarray | None:
        if weights is not None and (weights < 0).any():
            raise UnsupportedOperationError("MIN and MAX without retraction got a row to take back")
        return _counted(values, weights)

    def add_weighted(self, slots: np.ndarray, values: pa.Array | None, weights: np.ndarray | None) -> None:
        if not self._is_number or self.arrays[0].dtype.kind == "f" or (weights is not None and (weights < 0).any()):
            super().add_weighted(slots, values, weights)
            return
        assert values is not None
        numbers = to_numbers(values)
        if (counted := _counted(values, weights)) is not None:
            slots, numbers = slots[counted], numbers[counted]
        self.merge_arrays(slots, [numbers, np.ones(len(slots), dtype=bool)])

    def merge_arrays(self, slots: np.ndarray, others: list[np.ndarray]) -> None:
        if not self._is_number or self.arrays[0].dtype.kind == "f":
            super().merge_arrays(slots, others)
            return
        # A slot without a value has the initial number, which changes no extreme.
        (np.maximum if self._is_max else np.minimum).at(self.arrays[0], slots, others[0])
        self.arrays[1][slots[others[1]]] = True

    def _extremes(
        self,
        groups: RowGroups,
        before: list[np.ndarray],
        values: np.ndarray,
        counted: np.ndarray | None,
        is_running: bool,
    ) -> list[np.ndarray]:
        extremes = running_extremes if is_running else folded_extremes
        return list(extremes(groups, before[0], before[1], values, counted, self._is_max))

    def merged(self, groups: RowGroups, before: list[np.ndarray], others: list[np.ndarray]) -> list[np.ndarray]:
        values, has = others
        if self._is_number:
            return self._extremes(groups, before, values, has, False)
        in_order, known_ranks, ranks = _ranked(before[0].tolist(), pa.array(values.tolist(), self._type))
        extremes, has = self._extremes(groups, [known_ranks, before[1]], ranks, has, False)
        return [_objects([*in_order, None]).take(np.where(has, extremes, len(in_order))), has]


def _ranked(known: list[Any], values: pa.Array) -> tuple[list[Any], np.ndarray, np.ndarray]:
    """Replaces objects by their ranks among all of them.

    Returns: the distinct objects in order, the ranks of `known`, and those of the values. The rank of NULL is 0.
    """
    encoded = pc.dictionary_encode(values)
    distinct = encoded.dictionary.to_pylist()
    in_order = sorted({value for value in (*distinct, *known) if value is not None})
    rank_of = {value: rank for rank, value in enumerate(in_order)}
    rank_of[None] = 0
    ranks = np.array([rank_of[value] for value in distinct] or [0], dtype=np.int64)
    numbers = encoded.indices.fill_null(0).to_numpy(zero_copy_only=False)
    return in_order, np.array([rank_of[value] for value in known], dtype=np.int64), ranks.take(numbers)


# -- FIRST_VALUE, LAST_VALUE ---------------------------------------------------------------------------------------


class PositionAccumulator(OneValueAccumulator):
    """FIRST_VALUE or LAST_VALUE of input without retractions, in the order of arrival. NULLs are ignored.

    Source: FirstValueAggFunction, LastValueAggFunction.
    """

    def __init__(self, value_type: pa.DataType, is_last: bool) -> None:
        self._is_last = is_last
        super().__init__(value_type, lambda dtype: 0)

    def after(
        self,
        groups: RowGroups,
        before: list[np.ndarray],
        values: pa.Array | None,
        weights: np.ndarray | None,
        is_running: bool,
    ) -> list[np.ndarray]:
        assert values is not None
        if weights is not None and (weights < 0).any():
            raise UnsupportedOperationError("FIRST_VALUE and LAST_VALUE without retraction got a row to take back")
        numbers = to_numbers(values) if self._is_number else _objects(values.to_pylist())
        return self._chosen(groups, before, numbers, _counted(values, weights), is_running)

    def _chosen(
        self,
        groups: RowGroups,
        before: list[np.ndarray],
        values: np.ndarray,
        counted: np.ndarray | None,
        is_running: bool,
    ) -> list[np.ndarray]:
        """Chooses the first or last row of each group. Row -1 is the value before the batch."""
        extremes = running_extremes if is_running else folded_extremes
        none = np.full(groups.num_groups, -1, dtype=np.int64)
        rows, has = extremes(groups, none, before[1], np.arange(groups.num_rows), counted, self._is_last)
        group = groups.group if is_running else np.arange(groups.num_groups)
        is_before = ~has | (rows < 0)
        chosen = np.concatenate([before[0], values]).take(np.where(is_before, group, groups.num_groups + rows))
        return [chosen, has]

    def merged(self, groups: RowGroups, before: list[np.ndarray], others: list[np.ndarray]) -> list[np.ndarray]:
        return self._chosen(groups, before, others[0], others[1], False)
