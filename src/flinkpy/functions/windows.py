"""Windows, the finite parts of a stream, and their serializers.

Source: pyflink.datastream.window; org.apache.flink.streaming.api.windowing.windows.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Iterable
from io import BytesIO
from typing import TYPE_CHECKING

from flinkpy.common.serializer import TypeSerializer
from flinkpy.common.time import Duration, Time

if TYPE_CHECKING:
    from flinkpy.functions.window_assigners import MergingWindowAssigner

#: The earliest time. As the timestamp of a record it means that the record has none.
MIN_TIMESTAMP = -(1 << 63)
MAX_TIMESTAMP = (1 << 63) - 1


def millis_of(time: Time | Duration) -> int:
    """Returns a length of time in milliseconds."""
    if isinstance(time, Time):
        return time.to_milliseconds()
    if isinstance(time, Duration):
        return time.to_millis()
    raise TypeError(f"a length of time must be a Time or a Duration, not {time!r}")


class Window(ABC):
    """The base of windows. A subclass needs `__eq__` and `__hash__`, and must be picklable."""

    __slots__ = ()

    @abstractmethod
    def max_timestamp(self) -> int:
        """Returns the last time that belongs to the window, in milliseconds."""


class TimeWindow(Window):
    """The window from `start` (inclusive) to `end` (exclusive), in milliseconds."""

    __slots__ = ("end", "start")

    def __init__(self, start: int, end: int) -> None:
        self.start = start
        self.end = end

    def max_timestamp(self) -> int:
        return self.end - 1

    def intersects(self, other: TimeWindow) -> bool:
        """Returns True if the windows overlap or touch."""
        return self.start <= other.end and self.end >= other.start

    def cover(self, other: TimeWindow) -> TimeWindow:
        """Returns the smallest window that contains both."""
        return TimeWindow(min(self.start, other.start), max(self.end, other.end))

    @staticmethod
    def get_window_start_with_offset(timestamp: int, offset: int, window_size: int) -> int:
        """Returns the start of the window of this size that contains `timestamp`, also for times before the epoch."""
        return timestamp - (timestamp - offset) % window_size

    @staticmethod
    def merge_windows(windows: Iterable[TimeWindow], callback: MergingWindowAssigner.MergeCallback) -> None:
        """Calls `callback` for each group of windows that overlap or touch, in order of time."""
        merged: list[tuple[TimeWindow, list[TimeWindow]]] = []
        for candidate in sorted(set(windows), key=_bounds):
            if merged and merged[-1][0].intersects(candidate):
                cover, members = merged[-1]
                members.append(candidate)
                merged[-1] = (cover.cover(candidate), members)
            else:
                merged.append((candidate, [candidate]))
        for cover, members in merged:
            if len(members) > 1:
                callback.merge(members, cover)

    def __hash__(self) -> int:
        return hash((self.start, self.end))

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.end == other.end and self.start == other.start

    def __lt__(self, other: TimeWindow) -> bool:
        return _bounds(self) < _bounds(_time_window(other))

    def __le__(self, other: TimeWindow) -> bool:
        return _bounds(self) <= _bounds(_time_window(other))

    def __repr__(self) -> str:
        return f"TimeWindow(start={self.start}, end={self.end})"


def _bounds(window: TimeWindow) -> tuple[int, int]:
    return window.start, window.end


def _time_window(other: object) -> TimeWindow:
    if not isinstance(other, TimeWindow):
        raise TypeError(f"Does not support comparison with non-TimeWindow {other}")
    return other


class CountWindow(Window):
    """A window of a number of records. `id` counts the windows of a key from 0."""

    __slots__ = ("id",)

    def __init__(self, id: int) -> None:
        self.id = id

    def max_timestamp(self) -> int:
        return MAX_TIMESTAMP

    def __hash__(self) -> int:
        return hash(self.id)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.id == other.id

    def __repr__(self) -> str:
        return f"CountWindow(id={self.id})"


class GlobalWindow(Window):
    """The window that contains all records."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__()

    @staticmethod
    def get() -> GlobalWindow:
        return GlobalWindow()

    def max_timestamp(self) -> int:
        return MAX_TIMESTAMP

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "GlobalWindow"


_TWO_LONGS = struct.Struct(">qq")
_LONG = struct.Struct(">q")


class TimeWindowSerializer(TypeSerializer[TimeWindow]):
    """Serializes start and end as 8 bytes each, big endian."""

    def __init__(self) -> None:
        super().__init__()

    def serialize(self, element: TimeWindow, stream: BytesIO) -> None:
        stream.write(_TWO_LONGS.pack(element.start, element.end))

    def deserialize(self, stream: BytesIO) -> TimeWindow:
        return TimeWindow(*_TWO_LONGS.unpack(stream.read(_TWO_LONGS.size)))


class CountWindowSerializer(TypeSerializer[CountWindow]):
    """Serializes the id as 8 bytes, big endian."""

    def __init__(self) -> None:
        super().__init__()

    def serialize(self, element: CountWindow, stream: BytesIO) -> None:
        stream.write(_LONG.pack(element.id))

    def deserialize(self, stream: BytesIO) -> CountWindow:
        return CountWindow(*_LONG.unpack(stream.read(_LONG.size)))


class GlobalWindowSerializer(TypeSerializer[GlobalWindow]):
    """Serializes the window as one byte, 0."""

    def __init__(self) -> None:
        super().__init__()

    def serialize(self, element: GlobalWindow, stream: BytesIO) -> None:
        stream.write(b"\0")

    def deserialize(self, stream: BytesIO) -> GlobalWindow:
        stream.read(1)
        return GlobalWindow.get()


# PyFlink computes hash codes of windows with these functions. Windows here do not need them, but programs may import
# them.
_FIRST_MULTIPLIER = 0xBF58476D1CE4E5B9
_SECOND_MULTIPLIER = 0x94D049BB133111EB


def long_to_int_with_bit_mixing(x: int) -> int:
    """Returns the SplitMix64 finalizer of a number, without a limit of bits."""
    mixed = (x ^ x >> 30) * _FIRST_MULTIPLIER
    mixed = (mixed ^ mixed >> 27) * _SECOND_MULTIPLIER
    return mixed ^ mixed >> 31


def mod_inverse(x: int) -> int:
    """Returns the inverse of an odd number modulo `2**32`."""
    inverse = x**3
    for _ in range(3):
        inverse *= 2 - x * inverse
    return inverse
