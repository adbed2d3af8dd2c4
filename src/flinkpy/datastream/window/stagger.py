"""WindowStagger: tumbling windows that do not all end, and so do not all give their results, at the same moment.

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
    """How far the windows of each subtask are moved."""

    #: Not at all: the windows of all subtasks begin together.
    ALIGNED = "ALIGNED"
    #: By some part of their size.
    RANDOM = "RANDOM"
    #: They begin when the first record comes.
    NATURAL = "NATURAL"

    def get_stagger_offset(self, current_processing_time: int, size: int) -> int:
        """In ms, from 0 to `size`, exclusive."""
        if self is WindowStagger.RANDOM:
            return random.randrange(size)
        return current_processing_time % size if self is WindowStagger.NATURAL else 0


class StaggeredWindows(WindowAssigner[T, TimeWindow]):
    """Tumbling windows of `size` ms of which one begins at `offset`, moved by what `stagger` gives each subtask when
    its first record comes. That is no part of its state: after a recovery new windows may begin elsewhere.
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
        """Each subtask finds an offset of its own."""
        return {**self.__dict__, "_stagger_offset": None}

    def __repr__(self) -> str:
        kind = "TumblingEventTimeWindows" if self._event_time else "TumblingProcessingTimeWindows"
        return f"{kind}({self._size}, {self._offset}, {self._stagger.name})"
