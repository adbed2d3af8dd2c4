"""TimeDomain: event time or processing time."""

from __future__ import annotations

from enum import Enum

__all__ = ["TimeDomain"]


class TimeDomain(Enum):
    """The kind of time by which a timer fires."""

    EVENT_TIME = 0
    PROCESSING_TIME = 1
