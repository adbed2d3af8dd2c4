"""PyFlink's `pyflink.datastream.time_domain`. TimeDomain lives in `flinkpy.functions.timers`."""

from __future__ import annotations

from flinkpy.functions.timers import TimeDomain

__all__ = [
    "TimeDomain",
]
