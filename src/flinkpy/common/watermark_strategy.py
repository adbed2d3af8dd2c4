"""WatermarkStrategy: where event time comes from, and how far behind it may arrive. Plain data: tasks do the work.

Source: pyflink.common.watermark_strategy. Beyond PyFlink: `WatermarkStrategy.with_timestamp_column` and
`WatermarkStrategy.for_generator` with `WatermarkGenerator`, `WatermarkOutput` and `Watermark`, which are those of
org.apache.flink.api.common.eventtime.
"""

from __future__ import annotations

import abc
import copy
from collections.abc import Callable
from typing import Any, ClassVar

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.common.time import Duration

__all__ = [
    "AssignerWithPeriodicWatermarksWrapper",
    "TimestampAssigner",
    "Watermark",
    "WatermarkGenerator",
    "WatermarkOutput",
    "WatermarkStrategy",
]


class TimestampAssigner(abc.ABC):
    """The event time of a record."""

    @abc.abstractmethod
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        """Milliseconds since the epoch. `record_timestamp` is what the record had, or the smallest int64."""


class Watermark:
    """No record with a timestamp at or below this one is expected any more. Immutable.

    Source: org.apache.flink.api.common.eventtime.Watermark.
    """

    MAX_WATERMARK: ClassVar[Watermark]

    __slots__ = ("_timestamp",)

    def __init__(self, timestamp: int) -> None:
        if isinstance(timestamp, bool) or not isinstance(timestamp, int):
            raise TypeError(f"the timestamp of a watermark is milliseconds as an int, not {timestamp!r}")
        if not -(1 << 63) <= timestamp < 1 << 63:
            raise ValueError(f"the timestamp of a watermark has 64 bits, and {timestamp} has more")
        self._timestamp = timestamp

    @property
    def timestamp(self) -> int:
        """Milliseconds since the epoch."""
        return self._timestamp

    def get_timestamp(self) -> int:
        return self._timestamp

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Watermark) and other._timestamp == self._timestamp

    def __hash__(self) -> int:
        return hash(self._timestamp)

    def __repr__(self) -> str:
        return f"Watermark({self._timestamp})"


Watermark.MAX_WATERMARK = Watermark((1 << 63) - 1)


class WatermarkOutput(abc.ABC):
    """Where a WatermarkGenerator puts what it has to say.

    Source: org.apache.flink.api.common.eventtime.WatermarkOutput.
    """

    @abc.abstractmethod
    def emit_watermark(self, watermark: Watermark) -> None:
        """Emit it, where it is ahead of all before. Ends idleness."""

    @abc.abstractmethod
    def mark_idle(self) -> None:
        """Until the next watermark, or `mark_active`, nobody waits for this output."""

    @abc.abstractmethod
    def mark_active(self) -> None:
        """Others wait for this output again."""


class WatermarkGenerator(abc.ABC):
    """Makes watermarks from the records it is shown, or at intervals. One per task, or per split of a source.

    Source: org.apache.flink.api.common.eventtime.WatermarkGenerator.
    """

    @abc.abstractmethod
    def on_event(self, event: Any, timestamp: int, output: WatermarkOutput) -> None:
        """Called for every record, after it was emitted: a watermark emitted here comes directly behind it.

        `timestamp`: of the record in ms; the smallest int64 where it has none.
        """

    @abc.abstractmethod
    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Called every `pipeline.auto-watermark-interval`, between records; never where that is 0."""


#: Makes the generator of one task or split; usually the generator's class.
WatermarkGeneratorSupplier = Callable[[], WatermarkGenerator]


class WatermarkStrategy:
    """Immutable; every `with_*` gives a new one.

    Attributes:
        out_of_orderness_ms: how late a record may be without being late; None: no watermarks at all, or those of
            `generator_supplier`.
        generator_supplier: makes the program's own generators; None: there is none.
        timestamp_assigner: None keeps the timestamps the records have, unless `timestamp_column` is set.
        timestamp_column: name or position of the field that is the timestamp; None: no field is.
        idle_timeout_ms: after this long without a record the stream is left out of watermarks; None: never.
        alignment: (group, maximum drift in ms, update interval in ms), or None.
    """

    def __init__(self, j_watermark_strategy: int | None = None) -> None:
        self.out_of_orderness_ms = j_watermark_strategy
        self.generator_supplier: WatermarkGeneratorSupplier | None = None
        self.timestamp_assigner: TimestampAssigner | None = None
        self.timestamp_column: str | int | None = None
        self.idle_timeout_ms: int | None = None
        self.alignment: tuple[str, int, int] | None = None

    def with_timestamp_assigner(self, timestamp_assigner: TimestampAssigner) -> WatermarkStrategy:
        if not isinstance(timestamp_assigner, TimestampAssigner):
            raise TypeError("The input must be a TimestampAssigner")
        return self._with("timestamp_assigner", timestamp_assigner)._with("timestamp_column", None)

    def with_timestamp_column(self, column: str | int) -> WatermarkStrategy:
        """Take the event time from a field of the records, without a Python call per record. Beyond PyFlink.

        Args:
            column: name or position of a field of a ROW or TUPLE stream, or column of a RecordBatch; of a stream of any
                other type 0, or "f0", is the record itself. Milliseconds since the epoch as an integer, or a timestamp
                (one without a time zone is taken as UTC; parts of a millisecond are cut off towards the past).

        A record without a value there, or with one of another type, fails the task: TypeMismatchError.
        """
        if isinstance(column, bool) or not isinstance(column, (str, int)):
            raise TypeError(f"a timestamp column is a name or a position, not {column!r}")
        if isinstance(column, int) and column < 0:
            raise ValueError(f"the position of the timestamp column cannot be negative: {column}")
        return self._with("timestamp_column", column)._with("timestamp_assigner", None)

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
        """Let a source wait where it is further ahead of the slowest source of the group than the drift allows.

        Has an effect in a strategy that `from_source` is given.

        Args:
            watermark_group: name of the group; sources of one job with the same one wait for one another.
            update_interval: how often readers say how far they are, and are told how far they may go; None: 1 s.
        """
        if not isinstance(watermark_group, str) or not watermark_group:
            raise ValueError(f"the watermark group is a name, not {watermark_group!r}")
        interval_ms = 1000 if update_interval is None else _as_ms(update_interval)
        if interval_ms <= 0:
            raise ValueError("The update interval of watermark alignment must be positive")
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
    def for_generator(supplier: WatermarkGeneratorSupplier) -> WatermarkStrategy:
        """Watermarks from the program's own generators. Beyond PyFlink.

        Args:
            supplier: a subclass of WatermarkGenerator, or a function without arguments that makes one. Called once per
                task, or per split of a source, so that generators share nothing.
        """
        if isinstance(supplier, WatermarkGenerator) or not callable(supplier):
            raise TypeError(
                f"for_generator needs a class or a function that makes a WatermarkGenerator, not {supplier!r}"
            )
        strategy = WatermarkStrategy(None)
        strategy.generator_supplier = supplier
        return strategy

    @property
    def does_nothing(self) -> bool:
        """Whether a stream with this strategy is as it would be without."""
        return (
            not self.makes_watermarks
            and self.timestamp_assigner is None
            and self.timestamp_column is None
            and (self.idle_timeout_ms is None and self.alignment is None)
        )

    @property
    def makes_watermarks(self) -> bool:
        return self.out_of_orderness_ms is not None or self.generator_supplier is not None

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
