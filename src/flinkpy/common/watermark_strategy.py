"""WatermarkStrategy: where event time comes from, and how far behind it may arrive. Plain data: tasks do the work.

Source: pyflink.common.watermark_strategy.
"""

from __future__ import annotations

import abc
import copy
from typing import Any

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.common.time import Duration

__all__ = ["AssignerWithPeriodicWatermarksWrapper", "TimestampAssigner", "WatermarkStrategy"]


class TimestampAssigner(abc.ABC):
    """The event time of a record."""

    @abc.abstractmethod
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        """Milliseconds since the epoch. `record_timestamp` is what the record had, or the smallest int64."""


class WatermarkStrategy:
    """Immutable; every `with_*` gives a new one.

    Attributes:
        out_of_orderness_ms: how late a record may be without being late; None: no watermarks at all.
        timestamp_assigner: None keeps the timestamps the records have.
        idle_timeout_ms: after this long without a record the stream is left out of watermarks; None: never.
        alignment: (group, maximum drift in ms, update interval in ms), or None.
    """

    def __init__(self, j_watermark_strategy: int | None = None) -> None:
        self.out_of_orderness_ms = j_watermark_strategy
        self.timestamp_assigner: TimestampAssigner | None = None
        self.idle_timeout_ms: int | None = None
        self.alignment: tuple[str, int, int] | None = None

    def with_timestamp_assigner(self, timestamp_assigner: TimestampAssigner) -> WatermarkStrategy:
        if not isinstance(timestamp_assigner, TimestampAssigner):
            raise TypeError("The input must be a TimestampAssigner")
        return self._with("timestamp_assigner", timestamp_assigner)

    def with_idleness(self, idle_timeout: Duration) -> WatermarkStrategy:
        idle_timeout_ms = _as_ms(idle_timeout)
        if idle_timeout_ms <= 0:
            raise ValueError("The idle timeout must be positive")
        return self._with("idle_timeout_ms", idle_timeout_ms)

    def with_watermark_alignment(
        self,
        watermark_group: str,
        max_allowed_watermark_drift: Duration,
        update_interval: Duration | None = None,
    ) -> WatermarkStrategy:
        interval_ms = 1000 if update_interval is None else _as_ms(update_interval)
        return self._with("alignment", (watermark_group, _as_ms(max_allowed_watermark_drift), interval_ms))

    @staticmethod
    def for_monotonous_timestamps() -> WatermarkStrategy:
        """Timestamps never go back."""
        return WatermarkStrategy(0)

    @staticmethod
    def for_bounded_out_of_orderness(max_out_of_orderness: Duration) -> WatermarkStrategy:
        """A record is at most this much behind the newest one."""
        bound_ms = _as_ms(max_out_of_orderness)
        if bound_ms < 0:
            raise ValueError("The maximum out-of-orderness cannot be negative")
        return WatermarkStrategy(bound_ms)

    @staticmethod
    def no_watermarks() -> WatermarkStrategy:
        return WatermarkStrategy(None)

    def _with(self, name: str, value: Any) -> WatermarkStrategy:
        changed = copy.copy(self)
        setattr(changed, name, value)
        return changed


class AssignerWithPeriodicWatermarksWrapper:
    """Exists for its name: Java's old assigners cannot run here."""

    def __init__(self, j_assigner_with_periodic_watermarks: Any) -> None:
        raise UnsupportedOperationError(
            "AssignerWithPeriodicWatermarksWrapper: flinkpy has no JVM; use WatermarkStrategy with a TimestampAssigner"
        )


def _as_ms(duration: Duration) -> int:
    if not isinstance(duration, Duration):
        raise TypeError(f"a Duration is needed, not {duration!r}")
    return duration.to_millis()
