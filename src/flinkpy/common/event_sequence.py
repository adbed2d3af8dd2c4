"""Sequence numbers of operator events; they detect an event that was sent again because its answer was lost.

Each direction between a task attempt and its coordinators counts from 1, and a new attempt starts at 1 again. An event
out of order can only be a repetition: the sender has one call in flight at a time, and it fails the attempt if it
cannot know whether a call arrived.
"""

from __future__ import annotations


class SentEvents:
    """Numbers the sent events of one direction. Thread: main thread of the endpoint."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last = 0

    def next_number(self) -> int:
        self._last += 1
        return self._last


class ReceivedEvents:
    """Detects repeated events of one direction. Thread: main thread of the endpoint."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last = 0

    def is_new(self, number: int) -> bool:
        """True if the event has not been handled yet; records it as handled."""
        if number <= self._last:
            return False
        self._last = number
        return True
