"""PyFlink's `pyflink.datastream.timerservice`. TimerService lives in `flinkpy.functions.timers`."""

from __future__ import annotations

from flinkpy.functions.timers import TimerService

__all__ = [
    "TimerService",
]
