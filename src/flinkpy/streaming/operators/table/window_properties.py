"""property_column: the columns of results that say which window they belong to."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.streaming.operators.table.time_columns import ZoneShift, timestamps
from flinkpy.streaming.tasks.processing_time_service import ProcessingTimeService


def property_column(
    name: str,
    starts: np.ndarray,
    ends: np.ndarray,
    kind: pa.DataType,
    shift: ZoneShift,
    clock: ProcessingTimeService,
) -> pa.Array:
    """Returns a property of windows, whose bounds are given in ms of the windows' time.

    Raises: UnsupportedOperationError for an unknown property.
    """
    if name in ("window_start", "start"):
        return timestamps(starts, kind)
    if name in ("window_end", "end"):
        return timestamps(ends, kind)
    if name in ("window_time", "rowtime"):
        times = ends - 1
        return timestamps(shift.to_utc(times) if getattr(kind, "tz", None) else times, kind)
    if name == "proctime":
        return timestamps(np.full(len(ends), clock.current_time_ms(), dtype=np.int64), kind)
    raise UnsupportedOperationError(f"unknown window property {name!r}")
