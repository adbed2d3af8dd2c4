"""Conversions between columns of times and milliseconds."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flinkpy.common.errors import FunctionError
from flinkpy.graph.table_specs import WindowSlices
from flinkpy.records.elements import MAX_WATERMARK
from flinkpy.sql.session_settings import SessionSettings
from flinkpy.streaming.operators.stream_operator import OperatorContext

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


def event_times(column: pa.Array, name: str, context: OperatorContext) -> np.ndarray:
    """Returns int64[n]: the event times of rows in ms. Raises: FunctionError if one is NULL."""
    if column.null_count:
        raise FunctionError(
            f"{context.environment.task_name}, operator {context.name}: the rowtime column {name!r} is NULL in a row; "
            "filter such rows before this operation"
        )
    return milliseconds(column)


def timestamps(times_ms: np.ndarray, kind: pa.DataType) -> pa.Array:
    """Returns milliseconds since the epoch as a column of type TIMESTAMP, TIMESTAMP_LTZ or BIGINT."""
    if not pa.types.is_timestamp(kind):
        return pa.array(times_ms, pa.int64())
    factor = {"s": 1, "ms": 1, "us": 1_000, "ns": 1_000_000}[kind.unit]
    return pa.array(times_ms * factor if kind.unit != "s" else times_ms // 1_000).view(kind)


#: Times outside of these years are shifted as the first or last of them.
_FIRST_MS, _LAST_MS = -62_135_596_800_000 + 86_400_000, 253_402_300_799_999 - 86_400_000


class ZoneShift:
    """Shifts milliseconds since the epoch to the wall-clock time of a zone, and back.

    Source: org.apache.flink.table.runtime.util.TimeWindowUtil.

    Args:
        time_zone: an IANA name, or an offset such as `+01:00`.
    """

    def __init__(self, time_zone: str) -> None:
        self._zone = time_zone
        self._is_idle = time_zone in ("UTC", "Z", "+00:00", "Etc/UTC", "GMT")

    @staticmethod
    def of(window: WindowSlices, settings: SessionSettings) -> ZoneShift:
        """Returns the shift to the time in which the bounds of windows are."""
        return ZoneShift(settings.time_zone if window.is_zoned else "UTC")

    def to_local(self, times: np.ndarray) -> np.ndarray:
        if self._is_idle:
            return times
        column = pa.array(np.clip(times, _FIRST_MS, _LAST_MS)).view(pa.timestamp("ms", self._zone))
        local: np.ndarray = pc.local_timestamp(column).view(pa.int64()).to_numpy()
        return times + (local - np.clip(times, _FIRST_MS, _LAST_MS))

    def to_utc(self, times: np.ndarray) -> np.ndarray:
        """Shifts back. The earlier of two times is meant if the clock was set back, the later if it was set forward."""
        if self._is_idle:
            return times
        column = pa.array(np.clip(times, _FIRST_MS, _LAST_MS)).view(pa.timestamp("ms"))
        utc = pc.assume_timezone(column, self._zone, ambiguous="earliest", nonexistent="latest")
        shifted: np.ndarray = utc.view(pa.int64()).to_numpy()
        return times + (shifted - np.clip(times, _FIRST_MS, _LAST_MS))

    def local_progress(self, time: int) -> int:
        """Returns the local time up to which windows may fire when the time since the epoch has passed `time`."""
        if self._is_idle or time >= MAX_WATERMARK or time < _FIRST_MS:
            return time
        return int(self.to_local(np.array([time + 1]))[0]) - 1
