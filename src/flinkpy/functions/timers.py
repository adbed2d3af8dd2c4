"""TimeDomain and TimerService: the times and the timers of process functions.

Source: pyflink.datastream.time_domain, pyflink.datastream.timerservice.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum


class TimeDomain(Enum):
    """The kind of time by which a timer fires."""

    EVENT_TIME = 0
    PROCESSING_TIME = 1


class TimerService(ABC):
    """The current time, and the timers of the current key. Times are in milliseconds since the epoch."""

    @abstractmethod
    def current_processing_time(self) -> int:
        """Returns the time of the machine's clock."""

    @abstractmethod
    def current_watermark(self) -> int:
        """Returns the current watermark."""

    @abstractmethod
    def register_processing_time_timer(self, timestamp: int) -> None:
        """Registers a timer that fires when the clock reaches `timestamp`. Registering it twice has no effect."""

    @abstractmethod
    def register_event_time_timer(self, timestamp: int) -> None:
        """Registers a timer that fires when the watermark reaches `timestamp`. Registering it twice has no effect."""

    @abstractmethod
    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Deletes a processing-time timer. It has no effect if there is none."""

    @abstractmethod
    def delete_event_time_timer(self, timestamp: int) -> None:
        """Deletes an event-time timer. It has no effect if there is none."""
