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
    """Windows of `_size` ms every `_slide` ms, of which one begins at `_offset` after the epoch."""

    _size: int
    _slide: int
    _offset: int
    _event_time = True

    def windows_of(self, time: int) -> list[TimeWindow]:
        """The windows that `time` is in, the latest first."""
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
        """These windows, moved in each subtask by another stretch of time, so that they do not all give their results
        at once. Beyond PyFlink (the third argument of Java's `of`).
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
    """Windows by the clock of the machine, one after the other."""

    _event_time = False

    @staticmethod
    def of(size: Time | Duration, offset: Time | Duration | None = None) -> TumblingProcessingTimeWindows:
        """`offset` shifts where windows begin, which without it is at multiples of `size` from the epoch (UTC)."""
        return TumblingProcessingTimeWindows(millis_of(size), _offset_millis(offset))


class TumblingEventTimeWindows(_TumblingWindows[T]):
    """Windows by the timestamps of the records, one after the other."""

    @staticmethod
    def of(size: Time | Duration, offset: Time | Duration | None = None) -> TumblingEventTimeWindows:
        """`offset` shifts where windows begin, which without it is at multiples of `size` from the epoch (UTC)."""
        return TumblingEventTimeWindows(millis_of(size), _offset_millis(offset))


class SlidingProcessingTimeWindows(_SlidingWindows[T]):
    """Windows by the clock of the machine, a new one every `slide`; they overlap where `slide` is less than `size`."""

    _event_time = False

    @staticmethod
    def of(
        size: Time | Duration, slide: Time | Duration, offset: Time | Duration | None = None
    ) -> SlidingProcessingTimeWindows:
        """`offset` shifts where windows begin, which without it is at multiples of `slide` from the epoch (UTC)."""
        return SlidingProcessingTimeWindows(millis_of(size), millis_of(slide), _offset_millis(offset))


class SlidingEventTimeWindows(_SlidingWindows[T]):
    """Windows by the timestamps of the records, a new one every `slide`; they overlap where `slide` is less than
    `size`."""

    @staticmethod
    def of(
        size: Time | Duration, slide: Time | Duration, offset: Time | Duration | None = None
    ) -> SlidingEventTimeWindows:
        """`offset` shifts where windows begin, which without it is at multiples of `slide` from the epoch (UTC)."""
        return SlidingEventTimeWindows(millis_of(size), millis_of(slide), _offset_millis(offset))


def _offset_millis(offset: Time | Duration | None) -> int:
    return 0 if offset is None else millis_of(offset)
