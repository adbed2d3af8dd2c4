"""order_codes: returns one int64 per row, and the order of these numbers is the order of an ORDER BY clause."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flinkpy.graph.table_specs import SortField

_MIN, _MAX = np.iinfo(np.int64).min, np.iinfo(np.int64).max


def order_codes(columns: Sequence[pa.Array], fields: Sequence[SortField]) -> np.ndarray:
    """Returns int64[n]: a row comes before another one if its number is lower. Rows with equal keys have equal numbers.

    The numbers can only be compared with each other, not with those of another call.

    Args:
        columns: the columns of `fields`, in their order.
    """
    codes = [_column_codes(column, field) for column, field in zip(columns, fields, strict=True)]
    if not codes:
        return np.zeros(0, dtype=np.int64)
    if len(codes) == 1 or not len(codes[0]):
        return codes[0]
    packed = _packed(codes)
    return _dense(codes) if packed is None else packed


def exact_times(column: pa.Array) -> np.ndarray:
    """Returns int64[n]: the numbers of a column of times, in its unit. NULL is before all others."""
    codes, _ = _ascending_codes(column)
    if column.null_count:
        codes = np.where(column.is_null().to_numpy(zero_copy_only=False), _MIN, codes)
    return codes


def _packed(codes: list[np.ndarray]) -> np.ndarray | None:
    """Returns the columns as digits of one number; None if they do not fit into 63 bits."""
    bounds = [(int(each.min()), int(each.max())) for each in codes]
    total = 1
    for low, high in bounds:
        total *= high - low + 1
    if total > _MAX:
        return None
    packed = codes[0] - bounds[0][0]
    for each, (low, high) in zip(codes[1:], bounds[1:]):
        packed = packed * (high - low + 1) + (each - low)
    return packed


def _dense(codes: list[np.ndarray]) -> np.ndarray:
    order = np.lexsort(codes[::-1])
    is_new = np.zeros(len(order), dtype=bool)
    for each in codes:
        in_order = each[order]
        is_new[1:] |= in_order[1:] != in_order[:-1]
    dense = np.empty(len(order), dtype=np.int64)
    dense[order] = np.cumsum(is_new)
    return dense


def _column_codes(column: pa.Array, field: SortField) -> np.ndarray:
    codes, is_exact = _ascending_codes(column)
    if not field.ascending:
        codes = ~codes
    if column.null_count:
        is_null = column.is_null().to_numpy(zero_copy_only=False)
        if is_exact and not is_null.all():
            known = codes[~is_null]
            if int(known.min()) == _MIN or int(known.max()) == _MAX:
                codes = _dense([np.where(is_null, 0, codes)])
        codes = np.where(is_null, _MIN if field.nulls_first else _MAX, codes)
    return codes


def _ascending_codes(column: pa.Array) -> tuple[np.ndarray, bool]:
    """Returns the codes, and True if they may be the least or largest number. Those of NULL are arbitrary."""
    kind, types = column.type, pa.types
    if types.is_boolean(kind):
        return column.cast(pa.uint8()).fill_null(0).to_numpy().astype(np.int64), False
    if types.is_floating(kind):
        numbers = column.fill_null(0).to_numpy(zero_copy_only=False).astype(np.float64) + 0.0
        numbers[np.isnan(numbers)] = np.nan
        bits = numbers.view(np.int64)
        # The bits of negative numbers fall as the numbers rise. NaN is above all others, as in Java.
        return np.where(bits < 0, bits ^ _MAX, bits), False
    if types.is_integer(kind) and not types.is_uint64(kind):
        return column.fill_null(0).to_numpy().astype(np.int64), True
    if types.is_temporal(kind) and not types.is_interval(kind):
        column = column.view(pa.int32() if kind.bit_width == 32 else pa.int64())
        return column.fill_null(0).to_numpy().astype(np.int64), True
    ranks = pc.rank(column, tiebreaker="dense")
    return ranks.to_numpy().astype(np.int64), False
