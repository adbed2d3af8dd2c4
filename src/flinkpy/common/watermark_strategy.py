"""WatermarkStrategy: the source of event timestamps and the generation of watermarks. It is plain data; tasks use it.

Source: pyflink.common.watermark_strategy. Beyond PyFlink: `WatermarkStrategy.with_timestamp_column`, and
`WatermarkStrategy.for_generator` with `WatermarkGenerator`, `WatermarkOutput` and `Watermark`, as in
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
    """Extracts the event time of a record."""

    @abc.abstractmethod
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        """Returns the event time of a record in milliseconds since the epoch.

        Args:
            value: the record.
            record_timestamp: the current timestamp of the record in ms; the smallest int64 if it has none.
        """


class Watermark:
    """Declares that no more records with a timestamp at or below this one are expected. Immutable.

    Source: org.apache.flink.api.common.eventtime.Watermark.
    """

    MAX_WATERMARK: ClassVar[Watermark]

    __slots__ = ("_timestamp",)

    def __init__(self, timestamp: int) -> None:
        if isinstance(timestamp, bool) or not isinstance(timestamp, int):
            raise TypeError(f"the timestamp of a watermark must be an int (milliseconds), not {timestamp!r}")
        if not -(1 << 63) <= timestamp < 1 << 63:
            raise ValueError(f"the timestamp of a watermark must fit into 64 bits, which {timestamp} does not")
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
    """The output of a WatermarkGenerator.

    Source: org.apache.flink.api.common.eventtime.WatermarkOutput.
    """

    @abc.abstractmethod
    def emit_watermark(self, watermark: Watermark) -> None:
        """Emits the watermark if it is greater than all previous ones. Ends idleness."""

    @abc.abstractmethod
    def mark_idle(self) -> None:
        """Marks the output as idle: downstream operators do not wait for it before a watermark or `mark_active`."""

    @abc.abstractmethod
    def mark_active(self) -> None:
        """Marks the output as active: downstream operators wait for it again."""


class WatermarkGenerator(abc.ABC):
    """Generates watermarks from records or at intervals. Each task, or each split of a source, has its own.

    Source: org.apache.flink.api.common.eventtime.WatermarkGenerator.
    """

    @abc.abstractmethod
    def on_event(self, event: Any, timestamp: int, output: WatermarkOutput) -> None:
        """Called for each record after it was emitted; a watermark emitted here follows the record directly.

        Args:
            event: the record.
            timestamp: timestamp of the record in ms; the smallest int64 if it has none.
            output: output for watermarks.
        """

    @abc.abstractmethod
    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Called every `pipeline.auto-watermark-interval`, between records; never if that is 0."""


#: Creates the generator of one task or split; usually the generator's class.
WatermarkGeneratorSupplier = Callable[[], WatermarkGenerator]


class WatermarkStrategy:
    """Describes how a stream gets timestamps and watermarks. Immutable: each `with_*` method returns a new strategy.

    Example:
        strategy = (
            WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5))
            .with_timestamp_column("event_time")
            .with_idleness(Duration.of_minutes(1))
        )
        stream.assign_timestamps_and_watermarks(strategy)

    Attributes:
        out_of_orderness_ms: how far a record may be behind the newest one without being late; None for no watermarks,
            or for those of `generator_supplier`.
        generator_supplier: creates the program's own generators, or None.
        timestamp_assigner: extracts timestamps. None keeps the existing timestamps, unless `timestamp_column` is set.
        timestamp_column: name or position of the field that contains the timestamp, or None.
        idle_timeout_ms: after this time without a record the stream counts as idle; None for never.
        alignment: (group, maximum drift in ms, update interval in ms), or None.
        column_watermarks: for the source of a table its `SourceWatermarks`, which make watermarks from columns of whole
            batches. Records then need no timestamps.
    """

    def __init__(self, j_watermark_strategy: int | None = None) -> None:
        self.out_of_orderness_ms = j_watermark_strategy
        self.generator_supplier: WatermarkGeneratorSupplier | None = None
        self.timestamp_assigner: TimestampAssigner | None = None
        self.timestamp_column: str | int | None = None
        self.idle_timeout_ms: int | None = None
        self.alignment: tuple[str, int, int] | None = None
        self.column_watermarks: Any = None

    def with_timestamp_assigner(self, timestamp_assigner: TimestampAssigner) -> WatermarkStrategy:
        """Extracts event timestamps with `timestamp_assigner`. Replaces a timestamp column."""
        if not isinstance(timestamp_assigner, TimestampAssigner):
            raise TypeError("The input must be a TimestampAssigner")
        return self._with("timestamp_assigner", timestamp_assigner)._with("timestamp_column", None)

    def with_timestamp_column(self, column: str | int) -> WatermarkStrategy:
        """Reads the event time from a field of the records, without a Python call per record. Beyond PyFlink.

        A record whose value is missing or of another type fails the task with a TypeMismatchError.

        Args:
            column: name or position of a field of a ROW or TUPLE stream, or of a column of a RecordBatch. In a stream
                of any other type, 0 or "f0" is the record itself. The values are integers (milliseconds since the
                epoch) or timestamps. Timestamps without a time zone are in UTC; parts of a millisecond are rounded
                down.
        """
        if isinstance(column, bool) or not isinstance(column, (str, int)):
            raise TypeError(f"a timestamp column must be a name or a position, not {column!r}")
        if isinstance(column, int) and column < 0:
            raise ValueError(f"the position of the timestamp column cannot be negative: {column}")
        return self._with("timestamp_column", column)._with("timestamp_assigner", None)

    def with_idleness(self, idle_timeout: Duration) -> WatermarkStrategy:
        """Marks the stream as idle after `idle_timeout` without a record, so it does not hold back watermarks."""
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
        """Pauses a source that is too far ahead of the slowest source in its group.

        Has an effect only in a strategy that is passed to `from_source`.

        Args:
            watermark_group: name of the group; the sources of a job with the same group wait for each other.
            max_allowed_watermark_drift: maximum distance between a source's watermark and the slowest one in the group.
            update_interval: interval at which readers report their watermarks and get the allowed one; default 1 s.
        """
        if not isinstance(watermark_group, str) or not watermark_group:
            raise ValueError(f"the watermark group must be a non-empty str, not {watermark_group!r}")
        interval_ms = 1000 if update_interval is None else _as_ms(update_interval)
        if interval_ms <= 0:
            raise ValueError("The update interval of watermark alignment must be positive")
        return self._with("alignment", (watermark_group, _as_ms(max_allowed_watermark_drift), interval_ms))

    @staticmethod
    def for_monotonous_timestamps() -> WatermarkStrategy:
        """Returns a strategy for streams whose timestamps never decrease."""
        return WatermarkStrategy(0)

    @staticmethod
    def for_bounded_out_of_orderness(max_out_of_orderness: Duration) -> WatermarkStrategy:
        """Returns a strategy for records that are at most `max_out_of_orderness` behind the newest record."""
        bound_ms = _as_ms(max_out_of_orderness)
        if bound_ms < 0:
            raise ValueError("The maximum out-of-orderness cannot be negative")
        return WatermarkStrategy(bound_ms)

    @staticmethod
    def for_generator(supplier: WatermarkGeneratorSupplier) -> WatermarkStrategy:
        """Returns a strategy with the program's own watermark generators. Beyond PyFlink.

        Args:
            supplier: a subclass of WatermarkGenerator, or a function without arguments that creates one. It is called
                once per task, or once per split of a source.
        """
        if isinstance(supplier, WatermarkGenerator) or not callable(supplier):
            raise TypeError(
                f"for_generator needs a class or a function that creates a WatermarkGenerator, not {supplier!r}"
            )
        strategy = WatermarkStrategy(None)
        strategy.generator_supplier = supplier
        return strategy

    @staticmethod
    def for_columns(watermarks: Any) -> WatermarkStrategy:
        """Returns the strategy of a table's source. Beyond PyFlink.

        Args:
            watermarks: a `flinkpy.graph.table_specs.SourceWatermarks`.
        """
        strategy = WatermarkStrategy(None)
        strategy.column_watermarks = watermarks
        if watermarks.params.idle_timeout_ms:
            strategy.idle_timeout_ms = watermarks.params.idle_timeout_ms
        strategy.alignment = watermarks.params.alignment
        return strategy

    @property
    def does_nothing(self) -> bool:
        """True if the strategy changes nothing in a stream."""
        return (
            not self.makes_watermarks
            and self.timestamp_assigner is None
            and self.timestamp_column is None
            and (self.idle_timeout_ms is None and self.alignment is None)
        )

    @property
    def makes_watermarks(self) -> bool:
        return (
            self.out_of_orderness_ms is not None
            or self.generator_supplier is not None
            or self.column_watermarks is not None
        )

    @staticmethod
    def no_watermarks() -> WatermarkStrategy:
        """Returns a strategy without watermarks."""
        return WatermarkStrategy(None)

    def _with(self, name: str, value: Any) -> WatermarkStrategy:
        changed = copy.copy(self)
        setattr(changed, name, value)
        return changed


class AssignerWithPeriodicWatermarksWrapper:
    """Exists only for PyFlink's API: Java assigners cannot run in flinkpy."""

    def __init__(self, j_assigner_with_periodic_watermarks: Any) -> None:
        raise UnsupportedOperationError(
            "AssignerWithPeriodicWatermarksWrapper: flinkpy has no JVM; use WatermarkStrategy with a TimestampAssigner"
        )


def _as_ms(duration: Duration) -> int:
    if not isinstance(duration, Duration):
        raise TypeError(f"expected a Duration, not {duration!r}")
    return duration.to_millis()
