"""Accumulators of SQL aggregates that keep a Python object per group, and process one row after the other.

They take rows back for every function: MIN and MAX count their values, FIRST_VALUE, LAST_VALUE, LISTAGG and ARRAY_AGG
keep theirs in the order of arrival. In a snapshot an object is a pickle.

Source: org.apache.flink.table.runtime.functions.aggregate.*.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from flinkpy.common.errors import FunctionError, UnsupportedOperationError
from flinkpy.state.accumulators import FrozenColumns
from flinkpy.state.pickling import dumps, loads
from flinkpy.state.row_groups import RowGroups
from flinkpy.state.table_accumulators import TableAccumulator


class ObjectFunction:
    """An aggregate function over Python values. NULLs have been left out unless `takes_nulls`.

    Attributes:
        takes_nulls: True if `accumulate` and `retract` are called with None, too.
        takes_tuples: True if the values are tuples of arguments.
    """

    takes_nulls = False
    takes_tuples = False

    @abstractmethod
    def create(self) -> Any:
        """Returns the accumulator of an empty group."""

    @abstractmethod
    def accumulate(self, accumulator: Any, value: Any) -> None: ...

    @abstractmethod
    def retract(self, accumulator: Any, value: Any) -> None: ...

    @abstractmethod
    def merge(self, accumulator: Any, other: Any) -> None:
        """Adds the content of `other`, whose rows come after those of `accumulator`. `other` is not changed."""

    @abstractmethod
    def value(self, accumulator: Any) -> Any:
        """Returns the result, which later changes of the accumulator do not change."""

    def decoded(self, values: pa.Array) -> list[Any]:
        """Returns the arguments of each row: Python values, or tuples of them."""
        if self.takes_tuples:
            return list(zip(*(each.to_pylist() for each in values.flatten())))
        return values.to_pylist()  # type: ignore[no-any-return]

    def encoded(self, results: list[Any], kind: pa.DataType) -> pa.Array:
        """Returns results as a column."""
        return pa.array(results, kind)


class CountedExtreme(ObjectFunction):
    """MIN or MAX whose values can be taken back. The accumulator counts each value, and caches the extreme.

    A value that is taken back before it was added has a negative count and is not a candidate.

    Source: MinWithRetractAggFunction, MaxWithRetractAggFunction.
    """

    def __init__(self, is_max: bool) -> None:
        self._choose: Callable[..., Any] = max if is_max else min

    def create(self) -> list[Any]:
        return [{}, None]

    def accumulate(self, accumulator: list[Any], value: Any) -> None:
        self._change(accumulator, value, 1)

    def retract(self, accumulator: list[Any], value: Any) -> None:
        self._change(accumulator, value, -1)

    def _change(self, accumulator: list[Any], value: Any, by: int) -> None:
        counts, extreme = accumulator
        count = counts.get(value, 0) + by
        if count:
            counts[value] = count
        else:
            del counts[value]
        if count == by == 1:
            accumulator[1] = value if extreme is None else self._choose(extreme, value)
        elif count <= 0 and value == extreme:
            accumulator[1] = self._choose((each for each, n in counts.items() if n > 0), default=None)

    def merge(self, accumulator: list[Any], other: list[Any]) -> None:
        counts = accumulator[0]
        for value, count in other[0].items():
            total = counts.get(value, 0) + count
            if total:
                counts[value] = total
            else:
                del counts[value]
        accumulator[1] = self._choose((each for each, n in counts.items() if n > 0), default=None)

    def value(self, accumulator: list[Any]) -> Any:
        return accumulator[1]


class _Listed(ObjectFunction):
    """Keeps the values in the order of arrival. A value that is taken back is removed where it came first.

    The accumulator is [values, values that were taken back before they were added].
    """

    def create(self) -> list[list[Any]]:
        return [[], []]

    def accumulate(self, accumulator: list[list[Any]], value: Any) -> None:
        values, owed = accumulator
        if value in owed:
            owed.remove(value)
        else:
            values.append(value)

    def retract(self, accumulator: list[list[Any]], value: Any) -> None:
        values, owed = accumulator
        if value in values:
            values.remove(value)
        else:
            owed.append(value)

    def merge(self, accumulator: list[list[Any]], other: list[list[Any]]) -> None:
        for value in other[1]:
            self.retract(accumulator, value)
        for value in other[0]:
            self.accumulate(accumulator, value)


class EndValue(_Listed):
    """FIRST_VALUE or LAST_VALUE whose values can be taken back.

    Source: FirstValueWithRetractAggFunction, LastValueWithRetractAggFunction.
    """

    def __init__(self, is_last: bool) -> None:
        self._position = -1 if is_last else 0

    def value(self, accumulator: list[list[Any]]) -> Any:
        return accumulator[0][self._position] if accumulator[0] else None


class ArrayAgg(_Listed):
    """ARRAY_AGG. It is NULL for no rows. Source: ArrayAggFunction."""

    def __init__(self, takes_nulls: bool = True) -> None:
        self.takes_nulls = takes_nulls

    def value(self, accumulator: list[list[Any]]) -> Any:
        return list(accumulator[0]) or None


class ListAgg(_Listed):
    """LISTAGG. Source: ListAggFunction, ListAggWithRetractAggFunction."""

    def __init__(self, separator: str = ",") -> None:
        self._separator = separator

    def value(self, accumulator: list[list[Any]]) -> Any:
        return self._separator.join(accumulator[0]) if accumulator[0] else None


class SeparatedListAgg(_Listed):
    """LISTAGG with a separator column. Its values are (text, separator); the separator precedes later texts.

    Source: ListAggWsWithRetractAggFunction.
    """

    takes_tuples = True

    def accumulate(self, accumulator: list[list[Any]], value: Any) -> None:
        if None not in value:
            super().accumulate(accumulator, value)

    def retract(self, accumulator: list[list[Any]], value: Any) -> None:
        if None not in value:
            super().retract(accumulator, value)

    def value(self, accumulator: list[list[Any]]) -> Any:
        values = accumulator[0]
        if not values:
            return None
        return values[0][0] + "".join(separator + text for text, separator in values[1:])


class Counted(ObjectFunction):
    """Keeps the count of each value. A value that is taken back before it was added has a negative count.

    In the accumulator, NaN is None, because two NaN objects are different keys of a dict, and ARRAY and ROW values are
    tuples.
    """

    def create(self) -> dict[Any, int]:
        return {}

    def change(self, accumulator: dict[Any, int], value: Any, by: int) -> None:
        key = _as_key(value)
        count = accumulator.get(key, 0) + by
        if count:
            accumulator[key] = count
        else:
            del accumulator[key]

    def accumulate(self, accumulator: dict[Any, int], value: Any) -> None:
        self.change(accumulator, value, 1)

    def retract(self, accumulator: dict[Any, int], value: Any) -> None:
        self.change(accumulator, value, -1)

    def merge(self, accumulator: dict[Any, int], other: dict[Any, int]) -> None:
        for value, count in other.items():
            self.change(accumulator, value, count)

    def counts(self, accumulator: dict[Any, int]) -> list[tuple[Any, int]]:
        """Returns the values that are there, and their counts."""
        return [(math.nan if key is None else key, count) for key, count in accumulator.items() if count > 0]


def _as_key(value: Any) -> Any:
    if isinstance(value, float):
        return None if math.isnan(value) else value
    return _hashable(value)


def _hashable(value: Any) -> Any:
    if isinstance(value, dict):
        value = list(value.values())
    return tuple(map(_hashable, value)) if isinstance(value, list | tuple) else value


class Collect(Counted):
    """COLLECT: the MULTISET of the values. Source: CollectAggFunction."""

    def value(self, accumulator: dict[Any, int]) -> Any:
        return self.counts(accumulator)


class Moments(ObjectFunction):
    """VAR_POP, VAR_SAMP, STDDEV_POP and STDDEV_SAMP as a DOUBLE.

    The accumulator is [count, mean, sum of squared distances from the mean], which stays exact where sums of squares
    cancel out.
    """

    def __init__(self, name: str) -> None:
        self._is_sample = name.endswith("_SAMP")
        self._is_deviation = name.startswith("STDDEV")

    def create(self) -> list[Any]:
        return [0, 0.0, 0.0]

    def accumulate(self, accumulator: list[Any], value: Any) -> None:
        count, mean, squares = accumulator
        value = float(value)
        count += 1
        distance = value - mean
        mean += distance / count
        accumulator[:] = count, mean, squares + distance * (value - mean)

    def retract(self, accumulator: list[Any], value: Any) -> None:
        count, mean, squares = accumulator
        value = float(value)
        if count <= 1:
            accumulator[:] = count - 1, 0.0, 0.0
            return
        distance = value - mean
        mean -= distance / (count - 1)
        accumulator[:] = count - 1, mean, max(0.0, squares - distance * (value - mean))

    def merge(self, accumulator: list[Any], other: list[Any]) -> None:
        count, mean, squares = accumulator
        total = count + other[0]
        if not other[0] or not total:
            return
        distance = other[1] - mean
        accumulator[:] = (
            total,
            mean + distance * other[0] / total,
            squares + other[2] + distance * distance * count * other[0] / total,
        )

    def value(self, accumulator: list[Any]) -> Any:
        count, _, squares = accumulator
        divisor = count - 1 if self._is_sample else count
        if divisor <= 0:
            return None
        return math.sqrt(squares / divisor) if self._is_deviation else squares / divisor


class SingleValue(_Listed):
    """SINGLE_VALUE: the value of a scalar subquery. Source: SingleValueAggFunction.

    Raises: FunctionError from `accumulate` for a second row.
    """

    takes_nulls = True

    def accumulate(self, accumulator: list[list[Any]], value: Any) -> None:
        super().accumulate(accumulator, value)
        if len(accumulator[0]) > 1:
            raise FunctionError("a scalar subquery returned more than one row; it must return at most one")

    def value(self, accumulator: list[list[Any]]) -> Any:
        return accumulator[0][0] if accumulator[0] else None


class UserAggregate(ObjectFunction):
    """A user's aggregate function. Its values are tuples of arguments.

    Args:
        function: a UserAggregateFunction.
    """

    takes_nulls = True
    takes_tuples = True

    def __init__(self, function: Any) -> None:
        self._function = function

    def create(self) -> Any:
        return self._function.create()

    def accumulate(self, accumulator: Any, value: Any) -> None:
        self._function.accumulate(accumulator, value)

    def retract(self, accumulator: Any, value: Any) -> None:
        self._function.retract(accumulator, value)

    def merge(self, accumulator: Any, other: Any) -> None:
        self._function.merge(accumulator, other)

    def value(self, accumulator: Any) -> Any:
        return self._function.value(accumulator)

    def decoded(self, values: pa.Array) -> list[Any]:
        rows: list[Any] = self._function.decoded(values.flatten())
        return rows

    def encoded(self, results: list[Any], kind: pa.DataType) -> pa.Array:
        return self._function.encoded(results)


def create_object_accumulator(name: str, value_type: pa.DataType | None) -> ObjectAccumulator:
    """Creates the accumulator of a function.

    Args:
        name: MIN, MAX, FIRST_VALUE or LAST_VALUE with the suffix `_RETRACT`; SINGLE_VALUE, ARRAY_AGG,
            ARRAY_AGG_OF_VALUES (without NULLs), LISTAGG, LISTAGG_WS, COLLECT, VAR_POP, VAR_SAMP, STDDEV_POP,
            STDDEV_SAMP, or a function of `collected_functions`.
        value_type: the type of the argument; a struct if there are several.

    Raises: UnsupportedOperationError for an unknown function.
    """
    if value_type is None:
        raise UnsupportedOperationError(f"{name} needs an argument")
    if name in ("MIN_RETRACT", "MAX_RETRACT"):
        return ObjectAccumulator(CountedExtreme(is_max=name == "MAX_RETRACT"), value_type)
    if name in ("FIRST_VALUE_RETRACT", "LAST_VALUE_RETRACT"):
        return ObjectAccumulator(EndValue(is_last=name == "LAST_VALUE_RETRACT"), value_type)
    if name == "SINGLE_VALUE":
        return ObjectAccumulator(SingleValue(), value_type)
    if name == "ARRAY_AGG":
        return ObjectAccumulator(ArrayAgg(), pa.list_(value_type))
    if name == "ARRAY_AGG_OF_VALUES":
        return ObjectAccumulator(ArrayAgg(takes_nulls=False), pa.list_(value_type))
    if name == "LISTAGG":
        return ObjectAccumulator(ListAgg(), pa.string())
    if name == "LISTAGG_WS":
        return ObjectAccumulator(SeparatedListAgg(), pa.string())
    if name == "COLLECT":
        return ObjectAccumulator(Collect(), pa.map_(value_type, pa.int32()))
    if name in ("VAR_POP", "VAR_SAMP", "STDDEV_POP", "STDDEV_SAMP"):
        return ObjectAccumulator(Moments(name), pa.float64())
    from flinkpy.state.collected_functions import create_collected_accumulator

    collected = create_collected_accumulator(name, value_type)
    if collected is None:
        raise UnsupportedOperationError(f"the aggregate function {name} is not supported")
    return collected


class ObjectAccumulator(TableAccumulator):
    """One Python object per slot, or None for an empty group. Thread: task thread.

    Args:
        function: None if the accumulator only serves to read snapshots.
        result_type: the type of the results.
    """

    def __init__(self, function: ObjectFunction | None, result_type: pa.DataType) -> None:
        super().__init__([(pa.binary(), object, None)])
        self._function = function
        self._result_type = result_type

    @property
    def function(self) -> ObjectFunction:
        assert self._function is not None, "this accumulator only reads snapshots"
        return self._function

    # -- groups --------------------------------------------------------------------------------------------------

    def update(
        self, groups: RowGroups, values: pa.Array | None, weights: np.ndarray | None, is_running: bool
    ) -> pa.Array:
        """See the base class. Results are computed row by row, because the objects change."""
        current, results = self._begin(groups)
        function, group = self.function, groups.group.tolist()
        for row, value, weight in _rows(values, weights, groups.num_rows, function):
            if is_running:
                while len(results) < groups.num_groups + row:
                    results.append(function.value(current[group[len(results) - groups.num_groups]]))
            if weight > 0:
                function.accumulate(current[group[row]], value)
            else:
                function.retract(current[group[row]], value)
        if is_running:
            results += [function.value(current[number]) for number in group[len(results) - groups.num_groups :]]
        return self._end(groups, current, results, is_running)

    def update_merged(self, groups: RowGroups, columns: list[pa.Array]) -> pa.Array:
        current, results = self._begin(groups)
        for number, other in zip(groups.group.tolist(), columns[0].to_pylist()):
            if other is not None:
                self.function.merge(current[number], loads(other))
        return self._end(groups, current, results, False)

    @property
    def result_type(self) -> pa.DataType:
        return self._result_type

    def _begin(self, groups: RowGroups) -> tuple[list[Any], list[Any]]:
        """Returns the objects of the groups, and their results."""
        create = self.function.create
        current = [create() if each is None else each for each in groups.before(self.arrays[0], None).tolist()]
        return current, [self.function.value(each) for each in current]

    def _end(self, groups: RowGroups, current: list[Any], results: list[Any], is_running: bool) -> pa.Array:
        after = np.empty(len(current), dtype=object)
        for position, each in enumerate(current):
            after[position] = each
        groups.store(self.arrays[0], after)
        if not is_running:
            results = results + [self.function.value(each) for each in current]
        return self.function.encoded(results, self._result_type)

    # -- windows and snapshots -----------------------------------------------------------------------------------

    def add_weighted(self, slots: np.ndarray, values: pa.Array | None, weights: np.ndarray | None) -> None:
        function, objects = self.function, self.arrays[0]
        for row, value, weight in _rows(values, weights, len(slots), function):
            slot = slots[row]
            if objects[slot] is None:
                objects[slot] = function.create()
            if weight > 0:
                function.accumulate(objects[slot], value)
            else:
                function.retract(objects[slot], value)

    def merge_arrays(self, slots: np.ndarray, others: list[np.ndarray]) -> None:
        function, objects = self.function, self.arrays[0]
        for slot, other in zip(slots.tolist(), others[0]):
            if other is not None:
                if objects[slot] is None:
                    objects[slot] = function.create()
                function.merge(objects[slot], other)

    def results(self, slots: np.ndarray) -> pa.Array:
        function, empty = self.function, self.function.create()
        objects = self.arrays[0]
        values = [function.value(empty if objects[slot] is None else objects[slot]) for slot in slots.tolist()]
        return function.encoded(values, self._result_type)

    def freeze(self, size: int) -> FrozenColumns:
        # The objects change after this, so they are pickled now.
        column = self.to_columns([self.arrays[0][:size]])
        return lambda: column

    def to_columns(self, arrays: list[np.ndarray]) -> list[pa.Array]:
        return [pa.array([None if each is None else dumps(each) for each in arrays[0].tolist()], pa.binary())]

    def from_columns(self, columns: list[pa.Array]) -> list[np.ndarray]:
        objects = np.empty(len(columns[0]), dtype=object)
        for position, data in enumerate(columns[0].to_pylist()):
            objects[position] = None if data is None else loads(data)
        return [objects]

    def after(self, *_: Any) -> list[np.ndarray]:
        raise AssertionError("objects are updated in place")

    def merged(self, *_: Any) -> list[np.ndarray]:
        raise AssertionError("objects are merged in place")

    def values(self, arrays: list[np.ndarray]) -> pa.Array:
        raise AssertionError("objects give their results one by one")


def _rows(
    values: pa.Array | None, weights: np.ndarray | None, num_rows: int, function: ObjectFunction
) -> list[tuple[int, Any, int]]:
    """Returns (row, value, weight) of the rows that count."""
    takes_nulls = function.takes_nulls
    arguments: list[Any]
    if values is None:
        arguments = [() if function.takes_tuples else None] * num_rows
    else:
        arguments = function.decoded(values)
    own = [1] * num_rows if weights is None else weights.tolist()
    return [
        (row, value, weight)
        for row, (value, weight) in enumerate(zip(arguments, own))
        if weight and (takes_nulls or value is not None)
    ]
