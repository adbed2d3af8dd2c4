"""Assigners of windows that do not depend on time: count windows, and the global window.

Source: pyflink.datastream.window.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, TypeVar

from flinkpy.common.serializer import TypeSerializer
from flinkpy.common.typeinfo import Types
from flinkpy.datastream.state import ValueStateDescriptor
from flinkpy.datastream.window.assigner import WindowAssigner
from flinkpy.datastream.window.other_triggers import CountTrigger, NeverTrigger
from flinkpy.datastream.window.trigger import Trigger
from flinkpy.datastream.window.windows import CountWindow, CountWindowSerializer, GlobalWindow, GlobalWindowSerializer

T = TypeVar("T")


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
