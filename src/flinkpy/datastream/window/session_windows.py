"""Assigners of session windows, which end when no record of a key arrives for the length of a gap.

Source: pyflink.datastream.window; org.apache.flink.streaming.api.windowing.assigners.*SessionWindows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from flinkpy.common.serializer import TypeSerializer
from flinkpy.common.time import Duration, Time
from flinkpy.datastream.window.assigner import (
    MergingWindowAssigner,
    SessionWindowTimeGapExtractor,
    WindowAssigner,
    check_timestamp,
    millis_of,
)
from flinkpy.datastream.window.time_triggers import EventTimeTrigger, ProcessingTimeTrigger
from flinkpy.datastream.window.windows import TimeWindow, TimeWindowSerializer

if TYPE_CHECKING:
    from flinkpy.datastream.window.trigger import Trigger

T = TypeVar("T")


class _SessionWindows(MergingWindowAssigner[T, TimeWindow]):
    """Each record opens a window with the length of its gap. Overlapping windows are merged."""

    _session_gap: int
    _event_time = True

    def _gap_of(self, element: T) -> int:
        return self._session_gap

    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[TimeWindow]:
        if self._event_time:
            check_timestamp(timestamp)
        else:
            timestamp = context.get_current_processing_time()
        return [TimeWindow(timestamp, timestamp + self._gap_of(element))]

    def merge_windows(
        self, windows: Iterable[TimeWindow], callback: MergingWindowAssigner.MergeCallback[TimeWindow]
    ) -> None:
        TimeWindow.merge_windows(windows, callback)

    def get_default_trigger(self, env: Any) -> Trigger[T, TimeWindow]:
        return EventTimeTrigger() if self._event_time else ProcessingTimeTrigger()

    def get_window_serializer(self) -> TypeSerializer[TimeWindow]:
        return TimeWindowSerializer()

    def is_event_time(self) -> bool:
        return self._event_time

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._session_gap})"


class _StaticSessionWindows(_SessionWindows[T]):
    def __init__(self, session_gap: int) -> None:
        if session_gap <= 0:
            raise ValueError(f"{type(self).__name__} parameters must satisfy 0 < size")
        self._session_gap = session_gap


class _DynamicSessionWindows(_SessionWindows[T]):
    def __init__(self, session_window_time_gap_extractor: SessionWindowTimeGapExtractor) -> None:
        self._session_gap = 0
        self._session_window_time_gap_extractor = session_window_time_gap_extractor

    def _gap_of(self, element: T) -> int:
        gap = self._session_window_time_gap_extractor.extract(element)
        if gap <= 0:
            raise ValueError("Dynamic session time gap must satisfy 0 < gap")
        return gap


class ProcessingTimeSessionWindows(_StaticSessionWindows[T]):
    """Session windows by the machine's clock."""

    _event_time = False

    @staticmethod
    def with_gap(size: Time | Duration) -> ProcessingTimeSessionWindows:
        """Returns windows that end when no record has arrived for `size`."""
        return ProcessingTimeSessionWindows(millis_of(size))

    @staticmethod
    def with_dynamic_gap(extractor: SessionWindowTimeGapExtractor) -> DynamicProcessingTimeSessionWindows:
        """Returns windows whose gap the extractor determines for each record."""
        return DynamicProcessingTimeSessionWindows(extractor)


class EventTimeSessionWindows(_StaticSessionWindows[T]):
    """Session windows by the timestamps of the records."""

    @staticmethod
    def with_gap(size: Time | Duration) -> EventTimeSessionWindows:
        """Returns windows that end where the timestamps of two records are further apart than `size`."""
        return EventTimeSessionWindows(millis_of(size))

    @staticmethod
    def with_dynamic_gap(extractor: SessionWindowTimeGapExtractor) -> DynamicEventTimeSessionWindows:
        """Returns windows whose gap the extractor determines for each record."""
        return DynamicEventTimeSessionWindows(extractor)


class DynamicProcessingTimeSessionWindows(_DynamicSessionWindows[T]):
    """Session windows by the machine's clock, with a gap that depends on the record."""

    _event_time = False

    @staticmethod
    def with_dynamic_gap(extractor: SessionWindowTimeGapExtractor) -> DynamicProcessingTimeSessionWindows:
        """Returns windows whose gap the extractor determines for each record."""
        return DynamicProcessingTimeSessionWindows(extractor)


class DynamicEventTimeSessionWindows(_DynamicSessionWindows[T]):
    """Session windows by the timestamps of the records, with a gap that depends on the record."""

    @staticmethod
    def with_dynamic_gap(extractor: SessionWindowTimeGapExtractor) -> DynamicEventTimeSessionWindows:
        """Returns windows whose gap the extractor determines for each record."""
        return DynamicEventTimeSessionWindows(extractor)
