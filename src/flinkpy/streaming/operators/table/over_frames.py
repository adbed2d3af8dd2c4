"""OVER aggregates of whole partitions: computes one result per row from the rows of its frame.

Rows are sorted by partition and order. A frame is a run of sorted rows. Sums and counts come from prefix sums, extremes
from a table of the extremes of all runs whose length is a power of two. Other functions are called once per frame.

Source: org.apache.flink.table.runtime.operators.over.*.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.graph.table_specs import OverWindow, SortField
from flinkpy.sql.rex import AggregateCall
from flinkpy.state.object_accumulators import ObjectAccumulator, ObjectFunction
from flinkpy.state.row_groups import RowGroups, neutral_extreme, running_sums
from flinkpy.state.table_accumulators import (
    AvgAccumulator,
    CountAccumulator,
    ExtremeAccumulator,
    PositionAccumulator,
    SumAccumulator,
    TableAccumulator,
    is_numeric_form,
    number_dtype,
    to_numbers,
)
from flinkpy.streaming.operators.table.aggregate_handler import aggregate_column, argument_of, filter_mask
from flinkpy.streaming.operators.table.time_columns import milliseconds

_RANKS = frozenset({"ROW_NUMBER", "RANK", "DENSE_RANK", "PERCENT_RANK", "CUME_DIST", "NTILE"})
#: Up to this length of frames, floating point numbers are summed frame by frame, which loses no digits.
_MAX_EXACT_FRAME = 256


def sort_keys(columns: Sequence[pa.Array], order: Sequence[SortField]) -> list[np.ndarray]:
    """Returns arrays for np.lexsort, the least significant one first."""
    keys: list[np.ndarray] = []
    for field in reversed(order):
        column = columns[field.column]
        codes = _codes(column)
        if not field.ascending:
            codes = ~codes if codes.dtype.kind == "i" else -codes
        keys.append(codes)
        if column.null_count:
            is_null = column.is_null().to_numpy(zero_copy_only=False)
            keys.append((~is_null if field.nulls_first else is_null).astype(np.int64))
    return keys


def _codes(column: pa.Array) -> np.ndarray:
    """Returns numbers in the order of the values."""
    if is_numeric_form(column.type):
        return to_numbers(column)
    encoded = pc.dictionary_encode(column)
    distinct = encoded.dictionary.to_pylist()
    rank = np.empty(len(distinct) + 1, dtype=np.int64)
    rank[sorted(range(len(distinct)), key=distinct.__getitem__)] = np.arange(len(distinct))
    return rank.take(encoded.indices.fill_null(len(distinct)).to_numpy(zero_copy_only=False))


class Partitions:
    """Sorted rows of partitions.

    Args:
        partition: int64[n]: the partition of each row.
        columns: of the rows.

    Attributes:
        rows: int64[n]: the rows in order. Rows that are equal in it keep their order.
        start, end: int64[n]: for each place, the first place of its partition, and the first one behind it.
        peer_start, peer_end: the same for its peers, which have equal values in the order.
    """

    def __init__(self, partition: np.ndarray, columns: Sequence[pa.Array], order: Sequence[SortField]) -> None:
        self.columns = columns
        self.order = order
        keys = sort_keys(columns, order)
        self.rows = np.lexsort((*keys, partition)) if keys else np.argsort(partition, kind="stable")
        self.partition = partition.take(self.rows)
        is_first = _begins([self.partition])
        self.start, self.end = _runs(is_first)
        begins_peers = _begins([self.partition, *(key.take(self.rows) for key in keys)])
        self.peer_start, self.peer_end = _runs(begins_peers)
        self.peer_number = np.cumsum(begins_peers)

    def frames(self, window: OverWindow) -> tuple[np.ndarray, np.ndarray]:
        """Returns int64[n], int64[n]: the first place of each place's frame, and the first one behind it."""
        places = np.arange(len(self.rows))
        if window.is_rows:
            low = self.start if window.lower is None else np.maximum(places + window.lower, self.start)
            high = self.end if window.upper is None else np.minimum(places + window.upper + 1, self.end)
            return low, np.maximum(low, high)
        low = self._bound(window.lower, self.start, self.peer_start, is_upper=False)
        high = self._bound(window.upper, self.end, self.peer_end, is_upper=True)
        return low, np.maximum(low, high)

    def _bound(self, bound: int | None, unbounded: np.ndarray, peers: np.ndarray, is_upper: bool) -> np.ndarray:
        if bound is None:
            return unbounded
        if bound == 0:
            return peers
        (field,) = self.order
        column = self.columns[field.column]
        values = milliseconds(column) if pa.types.is_timestamp(column.type) else to_numbers(column)
        values = values.take(self.rows)
        if not field.ascending:
            values = -values
        # Moving each partition behind the one before it makes one ascending array of all.
        numbers = np.cumsum(_begins([self.partition])) - 1
        span = int(values.max() - values.min()) + 2 * abs(bound) + 2 if len(values) else 1
        moved = (values - (values.min() if len(values) else 0)).astype(np.int64) + numbers * span
        places = np.searchsorted(moved, moved + bound, side="right" if is_upper else "left")
        return np.clip(places, self.start, self.end)


def _begins(keys: list[np.ndarray]) -> np.ndarray:
    begins = np.ones(len(keys[0]), dtype=bool)
    if len(begins):
        begins[1:] = False
        for key in keys:
            begins[1:] |= key[1:] != key[:-1]
    return begins


def _runs(begins: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    starts = np.flatnonzero(begins)
    sizes = np.diff(np.append(starts, len(begins)))
    return np.repeat(starts, sizes), np.repeat(starts + sizes, sizes)


def over_results(partition: np.ndarray, columns: pa.RecordBatch, windows: Sequence[OverWindow]) -> list[pa.Array]:
    """Returns one column per aggregate of the windows, in the order of the rows.

    Args:
        partition: int64[n]: the partition of each row. Its rows are all here.
    """
    results = []
    for window in windows:
        places = Partitions(partition, columns.columns, window.order)
        back = np.empty(len(places.rows), dtype=np.int64)
        back[places.rows] = np.arange(len(back))
        in_order = columns.take(pa.array(places.rows))
        low, high = places.frames(window)
        for call in window.aggregates:
            results.append(_evaluated(call, places, in_order, low, high, window).take(pa.array(back)))
    return results


def _evaluated(
    call: AggregateCall,
    places: Partitions | None,
    columns: pa.RecordBatch,
    low: np.ndarray,
    high: np.ndarray,
    window: OverWindow,
) -> pa.Array:
    function = call.function.upper()
    if places is not None and function in _RANKS:
        return _ranks(function, call, places, columns)
    if places is not None and function in ("LAG", "LEAD"):
        return _shifted(function, call, places, columns)
    mask = None if call.filter_index is None else filter_mask(columns, call.filter_index)
    argument = argument_of(call, columns)
    accumulator = aggregate_column(call, columns.schema, needs_retraction=False).create_accumulator()
    assert isinstance(accumulator, TableAccumulator)
    is_valid = np.ones(columns.num_rows, dtype=bool) if mask is None else mask
    if argument is not None and argument.null_count and call.user_function is None:
        is_valid = is_valid & argument.is_valid().to_numpy(zero_copy_only=False)
    if call.is_distinct and not isinstance(accumulator, ExtremeAccumulator):
        return _distinct(accumulator, argument, is_valid, low, high)
    if isinstance(accumulator, CountAccumulator):
        return accumulator.values([_sums(is_valid.astype(np.int64), low, high)])
    if isinstance(accumulator, (SumAccumulator, AvgAccumulator)):
        terms, counts = accumulator._terms(argument, is_valid.view(np.int8))
        sums = _float_sums(terms, places, low, high, window) if terms.dtype.kind == "f" else _sums(terms, low, high)
        return accumulator.values([sums, _sums(counts, low, high)])
    if isinstance(accumulator, ExtremeAccumulator):
        return _extremes(accumulator, argument, is_valid, low, high, is_max=function == "MAX")
    if isinstance(accumulator, PositionAccumulator):
        return _ends(argument, is_valid, low, high, is_last=function == "LAST_VALUE")
    assert isinstance(accumulator, ObjectAccumulator)
    return _folded(accumulator, argument, is_valid, low, high)


def frame_results(call: AggregateCall, columns: pa.RecordBatch, low: np.ndarray, high: np.ndarray) -> pa.Array:
    """Returns the aggregate of each of m frames of rows.

    Args:
        low, high: int64[m]: the first row of each frame, and the first one behind it.
    """
    window = OverWindow((), (), True, 0, 0, (call,))
    return _evaluated(call, None, columns, low, high, window)


# -- functions of frames ----------------------------------------------------------------------------------------------


def _sums(terms: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    total = np.zeros(len(terms) + 1, dtype=terms.dtype)
    np.cumsum(terms, out=total[1:])
    sums: np.ndarray = total.take(high) - total.take(low)
    return sums


def _float_sums(
    terms: np.ndarray, places: Partitions | None, low: np.ndarray, high: np.ndarray, window: OverWindow
) -> np.ndarray:
    """Sums each frame in its own order, without the differences of prefix sums where that is possible."""
    if window.lower is None and places is not None:
        number = np.cumsum(_begins([places.partition])) - 1
        count = int(number[-1]) + 1 if len(number) else 0
        groups = RowGroups(number, np.arange(count), np.zeros(count, dtype=bool))
        running = running_sums(groups, np.zeros(count), terms)
        return np.where(high > low, running.take(np.maximum(high - 1, 0)) if len(running) else 0.0, 0.0)
    lengths = high - low
    longest = int(lengths.max(initial=0))
    if longest <= _MAX_EXACT_FRAME:
        sums = np.zeros(len(low))
        for step in range(longest):
            has = np.flatnonzero(lengths > step)
            sums[has] += terms.take(low.take(has) + step)
        return sums
    return _sums(terms, low, high)


def _extremes(
    accumulator: ExtremeAccumulator,
    argument: pa.Array,
    is_valid: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    is_max: bool,
) -> pa.Array:
    codes = _codes(argument)
    update = np.fmax if is_max else np.fmin
    neutral: Any = np.nan if codes.dtype.kind == "f" else neutral_extreme(codes.dtype, is_max)
    level = np.where(is_valid, codes, neutral)
    counts = _sums(is_valid.astype(np.int64), low, high)
    lengths = np.maximum(high - low, 1)
    exponents = np.frexp(lengths.astype(np.float64))[1] - 1
    results = level.take(np.minimum(low, max(len(level) - 1, 0))) if len(level) else level
    size = 1
    for exponent in range(int(exponents.max(initial=0)) + 1):
        chosen = np.flatnonzero((exponents == exponent) & (high > low))
        results[chosen] = update(level.take(low.take(chosen)), level.take(high.take(chosen) - size))
        if len(level) > size:
            level = update(level[: len(level) - size], level[size:])
        size *= 2
    if is_numeric_form(argument.type):
        return accumulator.values([results.astype(number_dtype(argument.type)), counts > 0])
    # The codes of objects are ranks: find a row with the same rank.
    order = np.argsort(codes, kind="stable")
    rows = np.searchsorted(codes.take(order), results)
    rows = order.take(np.minimum(rows, max(len(order) - 1, 0))) if len(order) else rows
    return argument.take(pa.array(rows, mask=counts == 0))


def _ends(argument: pa.Array, is_valid: np.ndarray, low: np.ndarray, high: np.ndarray, is_last: bool) -> pa.Array:
    places = np.arange(len(is_valid))
    if is_last:
        last_valid = np.maximum.accumulate(np.where(is_valid, places, -1))
        chosen = last_valid.take(np.maximum(high - 1, 0)) if len(places) else places
        is_null = (chosen < low) | (high <= low)
    else:
        first_valid = np.minimum.accumulate(np.where(is_valid, places, len(places))[::-1])[::-1]
        chosen = first_valid.take(np.minimum(low, max(len(places) - 1, 0))) if len(places) else places
        is_null = (chosen >= high) | (high <= low)
    return argument.take(pa.array(np.where(is_null, 0, chosen), mask=is_null))


def _distinct(
    accumulator: TableAccumulator, argument: pa.Array | None, is_valid: np.ndarray, low: np.ndarray, high: np.ndarray
) -> pa.Array:
    """Evaluates a function of distinct values frame by frame."""
    assert argument is not None
    values = argument.to_pylist()
    pieces = []
    for begin, end in zip(low.tolist(), high.tolist()):
        rows: dict[Any, int] = {}
        for row in range(begin, end):
            if is_valid[row]:
                rows.setdefault(values[row], row)
        accumulator.grow(1)
        for array, initial in zip(accumulator.arrays, accumulator.initials):
            array[0] = initial
        chosen = argument.take(pa.array(list(rows.values()), pa.int64()))
        accumulator.add(np.zeros(len(chosen), dtype=np.int64), chosen)
        pieces.append(accumulator.results(np.zeros(1, dtype=np.int64)))
    return pa.concat_arrays(pieces) if pieces else accumulator.results(np.zeros(0, dtype=np.int64))


def _folded(
    accumulator: ObjectAccumulator, argument: pa.Array | None, is_valid: np.ndarray, low: np.ndarray, high: np.ndarray
) -> pa.Array:
    """Calls the function for each frame. Frames with the start of the one before continue with its accumulator."""
    function: ObjectFunction = accumulator.function
    values: list[Any]
    if argument is None:
        values = [() if function.takes_tuples else None] * len(low)
    else:
        values = function.decoded(argument)
    results: list[Any] = []
    current, start, at = function.create(), -1, 0
    for begin, end in zip(low.tolist(), high.tolist()):
        if begin != start or end < at:
            current, start, at = function.create(), begin, begin
        for row in range(at, end):
            if is_valid[row]:
                function.accumulate(current, values[row])
        at = end
        results.append(function.value(current))
    return function.encoded(results, accumulator.result_type)


# -- functions of the order -------------------------------------------------------------------------------------------


def _ranks(function: str, call: AggregateCall, places: Partitions, columns: pa.RecordBatch) -> pa.Array:
    at = np.arange(len(places.rows))
    row_number = at - places.start + 1
    if function == "ROW_NUMBER":
        return pa.array(row_number)
    rank = places.peer_start - places.start + 1
    if function == "RANK":
        return pa.array(rank)
    if function == "DENSE_RANK":
        first = places.peer_number.take(places.start) if len(at) else at
        return pa.array(places.peer_number - first + 1)
    sizes = places.end - places.start
    if function == "PERCENT_RANK":
        return pa.array(np.where(sizes > 1, (rank - 1) / np.maximum(sizes - 1, 1), 0.0))
    if function == "CUME_DIST":
        return pa.array((places.peer_end - places.start) / sizes)
    buckets = columns.column(call.arguments[0]).to_numpy(zero_copy_only=False).astype(np.int64)
    small, large = sizes // buckets, sizes % buckets
    in_large = row_number - 1 < large * (small + 1)
    bucket = np.where(
        in_large,
        (row_number - 1) // (small + 1),
        large + (row_number - 1 - large * (small + 1)) // np.maximum(small, 1),
    )
    return pa.array(bucket + 1)


def _shifted(function: str, call: AggregateCall, places: Partitions, columns: pa.RecordBatch) -> pa.Array:
    """LAG and LEAD: arguments are the value, the offset (1 if it is missing), and the default."""
    argument = columns.column(call.arguments[0])
    at = np.arange(len(places.rows))
    offset = lag_offset(call, columns)
    source = at - offset if function == "LAG" else at + offset
    is_outside = (source < places.start) | (source >= places.end)
    shifted = argument.take(pa.array(np.where(is_outside, 0, source), mask=is_outside))
    if len(call.arguments) < 3:
        return shifted
    default = columns.column(call.arguments[2]).cast(argument.type)
    return pc.if_else(pa.array(is_outside), default, shifted)


def lag_offset(call: AggregateCall, columns: pa.RecordBatch) -> int:
    if len(call.arguments) < 2 or not columns.num_rows:
        return 1
    offset = columns.column(call.arguments[1])[0].as_py()
    if offset is None or offset < 0:
        raise UnsupportedOperationError(f"the offset of {call.function} must not be negative, but is {offset}")
    return int(offset)
