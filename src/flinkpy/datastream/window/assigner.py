"""WindowAssigner, which assigns records to windows, and WindowOperationDescriptor.

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
    from flinkpy.datastream.output_tag import OutputTag
    from flinkpy.datastream.state import StateDescriptor
    from flinkpy.datastream.window.trigger import Trigger

T = TypeVar("T")
W = TypeVar("W")
W2 = TypeVar("W2")


class WindowAssigner(ABC, Generic[T, W]):
    """Assigns each record to any number of windows."""

    class WindowAssignerContext(ABC):
        """Access to the clock and to state."""

        @abstractmethod
        def get_current_processing_time(self) -> int:
            """Returns the time of the machine's clock in milliseconds since the epoch."""

        @abstractmethod
        def get_runtime_context(self) -> RuntimeContext:
            """Returns the RuntimeContext. Its keyed state belongs to the record's key."""

    @abstractmethod
    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[W]:
        """Returns the windows of a record.

        Args:
            element: the record.
            timestamp: its event time in milliseconds; `-2**63` if it has none.
            context: access to the clock and to state.
        """

    @abstractmethod
    def get_default_trigger(self, env: Any) -> Trigger[T, W]:
        """Returns the trigger that is used if the program sets none."""

    @abstractmethod
    def get_window_serializer(self) -> TypeSerializer[W]:
        """Returns the serializer of the windows."""

    @abstractmethod
    def is_event_time(self) -> bool:
        """Returns True if windows end by the watermark, False if they end by the clock."""


class MergingWindowAssigner(WindowAssigner[T, W]):
    """An assigner whose windows can be merged, such as sessions."""

    class MergeCallback(ABC, Generic[W2]):
        """Receives the windows that are to be merged."""

        @abstractmethod
        def merge(self, to_be_merged: Iterable[W2], merge_result: W2) -> None:
            """Merges the windows `to_be_merged` into `merge_result`."""

    @abstractmethod
    def merge_windows(self, windows: Iterable[W], callback: MergingWindowAssigner.MergeCallback[W]) -> None:
        """Calls `callback` for each group of windows that are to be merged."""


class SessionWindowTimeGapExtractor(ABC):
    """Determines the session gap of each record."""

    @abstractmethod
    def extract(self, element: Any) -> int:
        """Returns how long the session stays open after this record, in milliseconds."""


def millis_of(time: Time | Duration) -> int:
    """Returns a length of time in milliseconds."""
    if isinstance(time, Time):
        return time.to_milliseconds()
    if isinstance(time, Duration):
        return time.to_millis()
    raise TypeError(f"a length of time must be a Time or a Duration, not {time!r}")


def check_timestamp(timestamp: int) -> None:
    """Raises: ValueError if a record of an event-time window has no timestamp."""
    if timestamp <= MIN_TIMESTAMP:
        raise ValueError(
            "Record has Java Long.MIN_VALUE timestamp (= no timestamp marker). Is the time characteristic set to "
            "'ProcessingTime', or did you forget to call 'data_stream.assign_timestamps_and_watermarks(...)'?"
        )


class WindowOperationDescriptor:
    """The assigner, the trigger, the function and the settings of a window operation."""

    def __init__(
        self,
        assigner: WindowAssigner,
        trigger: Trigger,
        allowed_lateness: int,
        late_data_output_tag: OutputTag | None,
        window_state_descriptor: StateDescriptor,
        window_serializer: TypeSerializer,
        internal_window_function: Any,
    ) -> None:
        self.assigner = assigner
        self.trigger = trigger
        self.allowed_lateness = allowed_lateness
        self.late_data_output_tag = late_data_output_tag
        self.window_state_descriptor = window_state_descriptor
        self.internal_window_function = internal_window_function
        self.window_serializer = window_serializer

    def generate_op_name(self) -> str:
        return type(self.assigner).__name__

    def generate_op_desc(self, windowed_stream_type: str, func_desc: str) -> str:
        return f"{windowed_stream_type}({self.assigner}, {type(self.trigger).__name__}, {func_desc})"
