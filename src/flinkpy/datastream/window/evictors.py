"""Evictors: remove records from a window before or after its function is called. Beyond PyFlink.

Source: org.apache.flink.streaming.api.windowing.evictors.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from flinkpy.common.time import Duration, Time
from flinkpy.datastream.window.assigner import millis_of

T = TypeVar("T")
W = TypeVar("W")


class TimestampedValue(Generic[T]):
    """A record of a window. `timestamp` (ms) is None where it has none."""

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
    """Both methods are given the records in the order they came, as a list, and remove from it with `del` or
    `remove`; what they remove is gone for good."""

    class EvictorContext(ABC):
        @abstractmethod
        def get_current_processing_time(self) -> int: ...

        @abstractmethod
        def get_metric_group(self) -> Any: ...

        @abstractmethod
        def get_current_watermark(self) -> int: ...

    @abstractmethod
    def evict_before(
        self, elements: list[TimestampedValue[T]], size: int, window: W, ctx: Evictor.EvictorContext
    ) -> None:
        """Before the function of the window is called. `size` is the number of elements."""

    @abstractmethod
    def evict_after(
        self, elements: list[TimestampedValue[T]], size: int, window: W, ctx: Evictor.EvictorContext
    ) -> None:
        """After the function of the window was called."""


class _BuiltInEvictor(Evictor[T, W]):
    """Evicts either before or after."""

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
    """Removes the records whose distance to the last one is `threshold` or more."""

    def __init__(
        self, threshold: float, delta_function: Callable[[Any, Any], float], do_evict_after: bool = False
    ) -> None:
        """`delta_function(record, last record)` is their distance."""
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
    """Keeps the records of the last `window_size` ms, counted from the latest record. Without timestamps it keeps all.

    Takes ms, or with `of` a Time or Duration.
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
