"""Numbers on operator events, so that one that is sent again after its answer was lost is not taken twice.

Each direction between a task attempt and its coordinators counts from 1; a new attempt begins anew. What arrives out of
this order can only be a repetition, because the sender has one call under way at a time and gives the attempt up where
it cannot tell whether a call arrived.
"""

from __future__ import annotations


class SentEvents:
    """Numbers the events of one direction. Thread: main thread of its endpoint."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last = 0

    def next_number(self) -> int:
        self._last += 1
        return self._last


class ReceivedEvents:
    """Knows what has been taken of one direction. Thread: main thread of its endpoint."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last = 0

    def is_new(self, number: int) -> bool:
        """Whether the event is to be handled; False: it was handled before."""
        if number <= self._last:
            return False
        self._last = number
        return True
