"""Conversions between columns of times and milliseconds."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

#: The milliseconds of NULL.
NO_TIME = -(1 << 63)
_PER_MILLISECOND = {"s": (1_000, 1), "ms": (1, 1), "us": (1, 1_000), "ns": (1, 1_000_000)}


def milliseconds(column: pa.Array) -> np.ndarray:
    """Returns int64[n]: milliseconds since the epoch, rounded down. NULL is NO_TIME.

    Args:
        column: TIMESTAMP, TIMESTAMP_LTZ, or BIGINT of milliseconds.
    """
    factor, divisor = _PER_MILLISECOND[column.type.unit] if pa.types.is_timestamp(column.type) else (1, 1)
    numbers = column.view(pa.int64())
    mask = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
    values: np.ndarray = numbers.fill_null(0).to_numpy() if mask is not None else numbers.to_numpy()
    if factor != 1:
        values = values * factor
    elif divisor != 1:
        values = values // divisor
    if mask is not None:
        values = np.where(mask, NO_TIME, values)
    return values


def timestamps(times_ms: np.ndarray, kind: pa.DataType) -> pa.Array:
    """Returns milliseconds since the epoch as a column of type TIMESTAMP, TIMESTAMP_LTZ or BIGINT."""
    if not pa.types.is_timestamp(kind):
        return pa.array(times_ms, pa.int64())
    factor = {"s": 1, "ms": 1, "us": 1_000, "ns": 1_000_000}[kind.unit]
    return pa.array(times_ms * factor if kind.unit != "s" else times_ms // 1_000).view(kind)
