"""Window assigners: assign records to tumbling, sliding, session, count and global windows.

A WindowStagger shifts the tumbling windows of each subtask, so that not all of them fire at the same moment. It is
beyond PyFlink.

Source: pyflink.datastream.window; org.apache.flink.streaming.api.windowing.assigners.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from flinkpy.common.serializer import TypeSerializer
from flinkpy.common.time import Duration, Time
from flinkpy.common.typeinfo import Types
from flinkpy.functions.state import ValueStateDescriptor
from flinkpy.functions.window_triggers import (
    CountTrigger,
    EventTimeTrigger,
    NeverTrigger,
    ProcessingTimeTrigger,
    Trigger,
)
from flinkpy.functions.windows import (
    MIN_TIMESTAMP,
    CountWindow,
    CountWindowSerializer,
    GlobalWindow,
    GlobalWindowSerializer,
    TimeWindow,
    TimeWindowSerializer,
    millis_of,
)

if TYPE_CHECKING:
    from flinkpy.functions.function import RuntimeContext
    from flinkpy.functions.output_tag import OutputTag
    from flinkpy.functions.state import StateDescriptor

T = TypeVar("T")
W = TypeVar("W")
W2 = TypeVar("W2")


class WindowAssigner(ABC, Generic[T, W]):
    """Assigns each record to any number of windows."""

    class WindowAssignerContext(ABC):
        """Access to the clock and to state."""

        @abstractmethod
        def get_current_processing_time(self) -> int:
            """Returns the time of the machine's clock in milliseconds since the epoch."""

        @abstractmethod
        def get_runtime_context(self) -> RuntimeContext:
            """Returns the RuntimeContext. Its keyed state belongs to the record's key."""

    @abstractmethod
    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[W]:
        """Returns the windows of a record.

        Args:
            element: the record.
            timestamp: its event time in milliseconds; `-2**63` if it has none.
            context: access to the clock and to state.
        """

    @abstractmethod
    def get_default_trigger(self, env: Any) -> Trigger[T, W]:
        """Returns the trigger that is used if the program sets none."""

    @abstractmethod
    def get_window_serializer(self) -> TypeSerializer[W]:
        """Returns the serializer of the windows."""

    @abstractmethod
    def is_event_time(self) -> bool:
        """Returns True if windows end by the watermark, False if they end by the clock."""


class MergingWindowAssigner(WindowAssigner[T, W]):
    """An assigner whose windows can be merged, such as sessions."""

    class MergeCallback(ABC, Generic[W2]):
        """Receives the windows that are to be merged."""

        @abstractmethod
        def merge(self, to_be_merged: Iterable[W2], merge_result: W2) -> None:
            """Merges the windows `to_be_merged` into `merge_result`."""

    @abstractmethod
    def merge_windows(self, windows: Iterable[W], callback: MergingWindowAssigner.MergeCallback[W]) -> None:
        """Calls `callback` for each group of windows that are to be merged."""


class SessionWindowTimeGapExtractor(ABC):
    """Determines the session gap of each record."""

    @abstractmethod
    def extract(self, element: Any) -> int:
        """Returns how long the session stays open after this record, in milliseconds."""


def check_timestamp(timestamp: int) -> None:
    """Raises: ValueError if a record of an event-time window has no timestamp."""
    if timestamp <= MIN_TIMESTAMP:
        raise ValueError(
            "Record has Java Long.MIN_VALUE timestamp (= no timestamp marker). Is the time characteristic set to "
            "'ProcessingTime', or did you forget to call 'data_stream.assign_timestamps_and_watermarks(...)'?"
        )


class WindowOperationDescriptor:
    """The assigner, the trigger, the function and the settings of a window operation."""

    def __init__(
        self,
        assigner: WindowAssigner,
        trigger: Trigger,
        allowed_lateness: int,
        late_data_output_tag: OutputTag | None,
        window_state_descriptor: StateDescriptor,
        window_serializer: TypeSerializer,
        internal_window_function: Any,
    ) -> None:
        self.assigner = assigner
        self.trigger = trigger
        self.allowed_lateness = allowed_lateness
        self.late_data_output_tag = late_data_output_tag
        self.window_state_descriptor = window_state_descriptor
        self.internal_window_function = internal_window_function
        self.window_serializer = window_serializer

    def generate_op_name(self) -> str:
        return type(self.assigner).__name__

    def generate_op_desc(self, windowed_stream_type: str, func_desc: str) -> str:
        return f"{windowed_stream_type}({self.assigner}, {type(self.trigger).__name__}, {func_desc})"


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


class _CountWindows(WindowAssigner[T, CountWindow]):
    """Counts the records of each key in state. A window is full with `_window_size` records."""

    _window_size: int
    _count_descriptor: ValueStateDescriptor

    def _next_position(self, context: WindowAssigner.WindowAssignerContext) -> int:
        """Returns the number of records of the key before this one, and counts this one."""
        count_state = context.get_runtime_context().get_state(self._count_descriptor)
        position = count_state.value() or 0
        count_state.update(position + 1)
        return position

    def get_default_trigger(self, env: Any) -> Trigger[T, Any]:
        return CountTrigger(self._window_size)

    def get_window_serializer(self) -> TypeSerializer[CountWindow]:
        return CountWindowSerializer()

    def is_event_time(self) -> bool:
        return False


class CountTumblingWindowAssigner(_CountWindows[T]):
    """Tumbling windows of `window_size` records per key."""

    def __init__(self, window_size: int) -> None:
        self._window_size = _positive(window_size, "size")
        self._count_descriptor = ValueStateDescriptor("tumble-count-assigner", Types.LONG())

    @staticmethod
    def of(window_size: int) -> CountTumblingWindowAssigner:
        return CountTumblingWindowAssigner(window_size)

    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[CountWindow]:
        return [CountWindow(self._next_position(context) // self._window_size)]

    def __repr__(self) -> str:
        return f"CountTumblingWindowAssigner({self._window_size})"


class CountSlidingWindowAssigner(_CountWindows[T]):
    """Sliding windows of `window_size` records per key. A window starts with every `window_slide`-th record."""

    def __init__(self, window_size: int, window_slide: int) -> None:
        self._window_size = _positive(window_size, "size")
        self._window_slide = _positive(window_slide, "slide")
        self._count_descriptor = ValueStateDescriptor("slide-count-assigner", Types.LONG())

    @staticmethod
    def of(window_size: int, window_slide: int) -> CountSlidingWindowAssigner:
        return CountSlidingWindowAssigner(window_size, window_slide)

    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[CountWindow]:
        position = self._next_position(context)
        slide = self._window_slide
        latest = position // slide
        # The earliest window that is not full starts after `position - size`.
        earliest = max(0, (position - self._window_size) // slide + 1)
        return [CountWindow(number) for number in range(latest, earliest - 1, -1)]

    def __repr__(self) -> str:
        return f"CountSlidingWindowAssigner({self._window_size}, {self._window_slide})"


class GlobalWindows(WindowAssigner[T, GlobalWindow]):
    """Assigns all records of a key to one window. Its default trigger never fires, so the program must set one."""

    def __init__(self) -> None:
        super().__init__()

    @staticmethod
    def create() -> GlobalWindows:
        return GlobalWindows()

    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[GlobalWindow]:
        return [GlobalWindow.get()]

    def get_default_trigger(self, env: Any) -> Trigger[T, GlobalWindow]:
        return NeverTrigger()

    def get_window_serializer(self) -> TypeSerializer[GlobalWindow]:
        return GlobalWindowSerializer()

    def is_event_time(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "GlobalWindows()"


def _positive(number: int, what: str) -> int:
    if isinstance(number, bool) or not isinstance(number, int) or number <= 0:
        raise ValueError(f"the {what} of a count window must be a positive number of records, not {number!r}")
    return number
