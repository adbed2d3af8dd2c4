"""Evictors: remove records from a window before or after its function is called. Beyond PyFlink.

Source: org.apache.flink.streaming.api.windowing.evictors.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from flinkpy.common.time import Duration, Time
from flinkpy.functions.windows import millis_of

T = TypeVar("T")
W = TypeVar("W")


class TimestampedValue(Generic[T]):
    """A record of a window and its timestamp in milliseconds; None if it has none."""

    __slots__ = ("timestamp", "value")

    def __init__(self, value: T, timestamp: int | None = None) -> None:
        self.value = value
        self.timestamp = timestamp

    def get_value(self) -> T:
        return self.value

    def get_timestamp(self) -> int | None:
        return self.timestamp

    def has_timestamp(self) -> bool:
        return self.timestamp is not None

    def __repr__(self) -> str:
        return f"TimestampedValue({self.value!r}, {self.timestamp})"


class Evictor(ABC, Generic[T, W]):
    """Removes records from a window before or after its function is called.

    Both methods get the records as a list in the order of arrival, and remove records from it with `del` or `remove`.
    Removed records are lost to the window.
    """

    class EvictorContext(ABC):
        """Access to time and metrics."""

        @abstractmethod
        def get_current_processing_time(self) -> int:
            """Returns the time of the machine's clock in milliseconds since the epoch."""

        @abstractmethod
        def get_metric_group(self) -> Any:
            """Returns the MetricGroup of the operator."""

        @abstractmethod
        def get_current_watermark(self) -> int:
            """Returns the current watermark in milliseconds."""

    @abstractmethod
    def evict_before(
        self, elements: list[TimestampedValue[T]], size: int, window: W, ctx: Evictor.EvictorContext
    ) -> None:
        """Removes records before the window function is called. `size` is the number of elements."""

    @abstractmethod
    def evict_after(
        self, elements: list[TimestampedValue[T]], size: int, window: W, ctx: Evictor.EvictorContext
    ) -> None:
        """Removes records after the window function was called. `size` is the number of elements."""


class _BuiltInEvictor(Evictor[T, W]):
    """Evicts either before or after the window function."""

    _evicts_after: bool

    def _evict(self, elements: list[TimestampedValue[T]]) -> None:
        raise NotImplementedError

    def evict_before(
        self, elements: list[TimestampedValue[T]], size: int, window: W, ctx: Evictor.EvictorContext
    ) -> None:
        if not self._evicts_after:
            self._evict(elements)

    def evict_after(
        self, elements: list[TimestampedValue[T]], size: int, window: W, ctx: Evictor.EvictorContext
    ) -> None:
        if self._evicts_after:
            self._evict(elements)


class CountEvictor(_BuiltInEvictor[T, W]):
    """Keeps the last `max_count` records."""

    def __init__(self, max_count: int, do_evict_after: bool = False) -> None:
        self._max_count = max_count
        self._evicts_after = do_evict_after

    @staticmethod
    def of(max_count: int, do_evict_after: bool = False) -> CountEvictor:
        return CountEvictor(max_count, do_evict_after)

    def _evict(self, elements: list[TimestampedValue[T]]) -> None:
        del elements[: max(0, len(elements) - self._max_count)]


class DeltaEvictor(_BuiltInEvictor[T, W]):
    """Removes the records whose distance to the last record is at least `threshold`."""

    def __init__(
        self, threshold: float, delta_function: Callable[[Any, Any], float], do_evict_after: bool = False
    ) -> None:
        """Creates an evictor. `delta_function(record, last_record)` returns their distance."""
        if not callable(delta_function):
            raise TypeError("The delta function must be a callable of two records")
        self._threshold = threshold
        self._delta_function = delta_function
        self._evicts_after = do_evict_after

    @staticmethod
    def of(threshold: float, delta_function: Callable[[Any, Any], float], do_evict_after: bool = False) -> DeltaEvictor:
        return DeltaEvictor(threshold, delta_function, do_evict_after)

    def _evict(self, elements: list[TimestampedValue[T]]) -> None:
        if elements:
            delta, threshold, last = self._delta_function, self._threshold, elements[-1].value
            elements[:] = [element for element in elements if not delta(element.value, last) >= threshold]


class TimeEvictor(_BuiltInEvictor[T, W]):
    """Keeps the records of the last `window_size` milliseconds before the latest record.

    If the records have no timestamps, it keeps all. `of` takes a Time or Duration.
    """

    def __init__(self, window_size: int, do_evict_after: bool = False) -> None:
        self._window_size = window_size
        self._evicts_after = do_evict_after

    @staticmethod
    def of(window_size: Time | Duration, do_evict_after: bool = False) -> TimeEvictor:
        return TimeEvictor(millis_of(window_size), do_evict_after)

    def _evict(self, elements: list[TimestampedValue[T]]) -> None:
        times = [element.timestamp for element in elements if element.timestamp is not None]
        if not elements or elements[0].timestamp is None:
            return
        cutoff = max(times) - self._window_size
        elements[:] = [element for element in elements if element.timestamp is None or element.timestamp > cutoff]
