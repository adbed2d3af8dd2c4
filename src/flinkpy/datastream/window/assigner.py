"""WindowAssigner: says which windows a record belongs to.

Source: pyflink.datastream.window; org.apache.flink.streaming.api.windowing.assigners.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from flinkpy.common.time import Duration, Time
from flinkpy.datastream.window.windows import MIN_TIMESTAMP

if TYPE_CHECKING:
    from flinkpy.common.serializer import TypeSerializer
    from flinkpy.datastream.base_functions import RuntimeContext
    from flinkpy.datastream.window.trigger import Trigger

T = TypeVar("T")
W = TypeVar("W")
W2 = TypeVar("W2")


class WindowAssigner(ABC, Generic[T, W]):
    class WindowAssignerContext(ABC):
        @abstractmethod
        def get_current_processing_time(self) -> int: ...

        @abstractmethod
        def get_runtime_context(self) -> RuntimeContext:
            """Its keyed state is that of the record's key."""

    @abstractmethod
    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[W]:
        """The windows of a record, any number. `timestamp` is `-2**63` where it has none."""

    @abstractmethod
    def get_default_trigger(self, env: Any) -> Trigger[T, W]:
        """The trigger where the program names none."""

    @abstractmethod
    def get_window_serializer(self) -> TypeSerializer[W]: ...

    @abstractmethod
    def is_event_time(self) -> bool:
        """Whether windows end by the watermark; else by the clock."""


class MergingWindowAssigner(WindowAssigner[T, W]):
    """Windows of it may grow together."""

    class MergeCallback(ABC, Generic[W2]):
        @abstractmethod
        def merge(self, to_be_merged: Iterable[W2], merge_result: W2) -> None:
            """`to_be_merged` are to become `merge_result`."""

    @abstractmethod
    def merge_windows(self, windows: Iterable[W], callback: MergingWindowAssigner.MergeCallback[W]) -> None:
        """Tell `callback` which of the windows are to be merged."""


class SessionWindowTimeGapExtractor(ABC):
    """Says for each record how long (ms) its session stays open after it."""

    @abstractmethod
    def extract(self, element: Any) -> int: ...


def millis_of(time: Time | Duration) -> int:
    """Whole ms of what a program gives as a length of time."""
    if isinstance(time, Time):
        return time.to_milliseconds()
    if isinstance(time, Duration):
        return time.to_millis()
    raise TypeError(f"a length of time must be a Time or a Duration, not {time!r}")


def check_timestamp(timestamp: int) -> None:
    """An event-time window needs records with timestamps."""
    if timestamp <= MIN_TIMESTAMP:
        raise ValueError(
            "Record has Java Long.MIN_VALUE timestamp (= no timestamp marker). Is the time characteristic set to "
            "'ProcessingTime', or did you forget to call 'data_stream.assign_timestamps_and_watermarks(...)'?"
        )
