"""WindowStagger: shifts the tumbling windows of each subtask, so that not all of them fire at the same moment.

Source: org.apache.flink.streaming.api.windowing.assigners.WindowStagger. Beyond PyFlink.
"""

from __future__ import annotations

import random
from collections.abc import Collection
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar

from flinkpy.common.serializer import TypeSerializer
from flinkpy.datastream.window.assigner import WindowAssigner, check_timestamp
from flinkpy.datastream.window.time_triggers import EventTimeTrigger, ProcessingTimeTrigger
from flinkpy.datastream.window.windows import TimeWindow, TimeWindowSerializer

if TYPE_CHECKING:
    from flinkpy.datastream.window.trigger import Trigger

T = TypeVar("T")


class WindowStagger(Enum):
    """Determines how far the windows of each subtask are shifted."""

    #: The windows are not shifted: those of all subtasks start together.
    ALIGNED = "ALIGNED"
    #: The windows are shifted by a random part of their size.
    RANDOM = "RANDOM"
    #: The windows start when the first record arrives.
    NATURAL = "NATURAL"

    def get_stagger_offset(self, current_processing_time: int, size: int) -> int:
        """Returns the shift in milliseconds, from 0 to `size - 1`."""
        if self is WindowStagger.RANDOM:
            return random.randrange(size)
        return current_processing_time % size if self is WindowStagger.NATURAL else 0


class StaggeredWindows(WindowAssigner[T, TimeWindow]):
    """Tumbling windows of `size` ms, shifted by `offset` and by the stagger of the subtask.

    The stagger is determined when the first record of the subtask arrives. It is not part of the state: after a
    recovery new windows may start at other times.
    """

    def __init__(self, size: int, offset: int, stagger: WindowStagger, is_event_time: bool) -> None:
        self._size = size
        self._offset = offset
        self._stagger = stagger
        self._event_time = is_event_time
        self._stagger_offset: int | None = None

    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[TimeWindow]:
        now = context.get_current_processing_time()
        if self._event_time:
            check_timestamp(timestamp)
        if self._stagger_offset is None:
            self._stagger_offset = self._stagger.get_stagger_offset(now, self._size)
        time = timestamp if self._event_time else now
        start = TimeWindow.get_window_start_with_offset(time, self._offset + self._stagger_offset, self._size)
        return [TimeWindow(start, start + self._size)]

    def get_default_trigger(self, env: Any) -> Trigger[T, TimeWindow]:
        return EventTimeTrigger() if self._event_time else ProcessingTimeTrigger()

    def get_window_serializer(self) -> TypeSerializer[TimeWindow]:
        return TimeWindowSerializer()

    def is_event_time(self) -> bool:
        return self._event_time

    def __getstate__(self) -> dict[str, Any]:
        """Omits the stagger, which each subtask determines itself."""
        return {**self.__dict__, "_stagger_offset": None}

    def __repr__(self) -> str:
        kind = "TumblingEventTimeWindows" if self._event_time else "TumblingProcessingTimeWindows"
        return f"{kind}({self._size}, {self._offset}, {self._stagger.name})"
