"""Assigners of tumbling and sliding windows of a fixed length.

Source: pyflink.datastream.window; org.apache.flink.streaming.api.windowing.assigners.{Tumbling,Sliding}*Windows.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, TypeVar

from flinkpy.common.serializer import TypeSerializer
from flinkpy.common.time import Duration, Time
from flinkpy.datastream.window.assigner import WindowAssigner, check_timestamp, millis_of
from flinkpy.datastream.window.stagger import StaggeredWindows, WindowStagger
from flinkpy.datastream.window.time_triggers import EventTimeTrigger, ProcessingTimeTrigger
from flinkpy.datastream.window.windows import TimeWindow, TimeWindowSerializer

if TYPE_CHECKING:
    from flinkpy.datastream.window.trigger import Trigger

T = TypeVar("T")


class _FixedWindows(WindowAssigner[T, TimeWindow]):
    """Windows of `_size` ms that start every `_slide` ms, one of them `_offset` ms after the epoch."""

    _size: int
    _slide: int
    _offset: int
    _event_time = True

    def windows_of(self, time: int) -> list[TimeWindow]:
        """Returns the windows that contain `time`, the latest first."""
        size = self._size
        latest = TimeWindow.get_window_start_with_offset(time, self._offset, self._slide)
        return [TimeWindow(start, start + size) for start in range(latest, time - size, -self._slide)]

    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[TimeWindow]:
        if not self._event_time:
            return self.windows_of(context.get_current_processing_time())
        check_timestamp(timestamp)
        return self.windows_of(timestamp)

    def get_default_trigger(self, env: Any) -> Trigger[T, TimeWindow]:
        return EventTimeTrigger() if self._event_time else ProcessingTimeTrigger()

    def get_window_serializer(self) -> TypeSerializer[TimeWindow]:
        return TimeWindowSerializer()

    def is_event_time(self) -> bool:
        return self._event_time


class _TumblingWindows(_FixedWindows[T]):
    def __init__(self, size: int, offset: int) -> None:
        if abs(offset) >= size:
            raise ValueError(f"{type(self).__name__} parameters must satisfy abs(offset) < size")
        self._size = self._slide = size
        self._offset = offset

    def with_stagger(self, window_stagger: WindowStagger) -> WindowAssigner[T, TimeWindow]:
        """Returns these windows, shifted by a different time in each subtask, so that not all fire at once.

        Beyond PyFlink (the third argument of Java's `of`).
        """
        if not isinstance(window_stagger, WindowStagger):
            raise TypeError(f"with_stagger needs a WindowStagger, such as WindowStagger.RANDOM, not {window_stagger!r}")
        if window_stagger is WindowStagger.ALIGNED:
            return self
        return StaggeredWindows(self._size, self._offset, window_stagger, self._event_time)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._size}, {self._offset})"


class _SlidingWindows(_FixedWindows[T]):
    def __init__(self, size: int, slide: int, offset: int) -> None:
        if abs(offset) >= slide or size <= 0:
            raise ValueError(f"{type(self).__name__} parameters must satisfy abs(offset) < slide and size > 0")
        self._size = size
        self._slide = slide
        self._offset = offset

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._size}, {self._slide}, {self._offset})"


class TumblingProcessingTimeWindows(_TumblingWindows[T]):
    """Windows of a fixed length by the machine's clock, one after the other."""

    _event_time = False

    @staticmethod
    def of(size: Time | Duration, offset: Time | Duration | None = None) -> TumblingProcessingTimeWindows:
        """Returns windows of a length.

        Args:
            size: the length of a window.
            offset: the shift of the starts, which are at multiples of `size` since the epoch (UTC) without it. Its
                absolute value must be less than `size`.
        """
        return TumblingProcessingTimeWindows(millis_of(size), _offset_millis(offset))


class TumblingEventTimeWindows(_TumblingWindows[T]):
    """Windows of a fixed length by the timestamps of the records, one after the other.

    Example:
        ```
        keyed.window(TumblingEventTimeWindows.of(Time.minutes(5))).sum("price")
        ```
    """

    @staticmethod
    def of(size: Time | Duration, offset: Time | Duration | None = None) -> TumblingEventTimeWindows:
        """Returns windows of a length.

        Args:
            size: the length of a window.
            offset: the shift of the starts, which are at multiples of `size` since the epoch (UTC) without it. Its
                absolute value must be less than `size`.
        """
        return TumblingEventTimeWindows(millis_of(size), _offset_millis(offset))


class SlidingProcessingTimeWindows(_SlidingWindows[T]):
    """Windows of a fixed length by the machine's clock that start every `slide`.

    They overlap if `slide` is less than `size`.
    """

    _event_time = False

    @staticmethod
    def of(
        size: Time | Duration, slide: Time | Duration, offset: Time | Duration | None = None
    ) -> SlidingProcessingTimeWindows:
        """Returns windows of a length and a distance.

        Args:
            size: the length of a window.
            slide: the time between the starts of two windows.
            offset: the shift of the starts, which are at multiples of `slide` since the epoch (UTC) without it. Its
                absolute value must be less than `slide`.
        """
        return SlidingProcessingTimeWindows(millis_of(size), millis_of(slide), _offset_millis(offset))


class SlidingEventTimeWindows(_SlidingWindows[T]):
    """Windows of a fixed length by the timestamps of the records that start every `slide`.

    They overlap if `slide` is less than `size`.
    """

    @staticmethod
    def of(
        size: Time | Duration, slide: Time | Duration, offset: Time | Duration | None = None
    ) -> SlidingEventTimeWindows:
        """Returns windows of a length and a distance.

        Args:
            size: the length of a window.
            slide: the time between the starts of two windows.
            offset: the shift of the starts, which are at multiples of `slide` since the epoch (UTC) without it. Its
                absolute value must be less than `slide`.
        """
        return SlidingEventTimeWindows(millis_of(size), millis_of(slide), _offset_millis(offset))


def _offset_millis(offset: Time | Duration | None) -> int:
    return 0 if offset is None else millis_of(offset)
