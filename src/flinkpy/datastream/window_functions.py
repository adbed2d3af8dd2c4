"""WindowFunction, ProcessWindowFunction and their variants without keys: functions over the records of a window."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from flinkpy.datastream.base_functions import Function, KeyedStateStore

if TYPE_CHECKING:
    from flinkpy.datastream.output_tag import OutputTag

IN = TypeVar("IN")
OUT = TypeVar("OUT")
KEY = TypeVar("KEY")
W = TypeVar("W")
W2 = TypeVar("W2")


class WindowFunction(Function, Generic[IN, OUT, KEY, W]):
    """A function over the records of a key and window, for `WindowedStream.apply`."""

    @abstractmethod
    def apply(self, key: KEY, window: W, inputs: Iterable[IN]) -> Iterable[OUT]:
        """Returns an iterable of the results of a window, or yields them.

        Args:
            key: the key.
            window: the window, such as a TimeWindow.
            inputs: the records of the window; or the one result of `reduce` or `aggregate` before this function.
        """


class AllWindowFunction(Function, Generic[IN, OUT, W]):
    """A WindowFunction of a stream without keys, for `AllWindowedStream.apply`."""

    @abstractmethod
    def apply(self, window: W, inputs: Iterable[IN]) -> Iterable[OUT]:
        """Returns an iterable of the results of a window, or yields them."""


class ProcessWindowFunction(Function, Generic[IN, OUT, KEY, W]):
    """A function over the records of a key and window, with access to time and state, for `WindowedStream.process`.

    Example:
        ```
        class CountPerWindow(ProcessWindowFunction):
            def process(self, key, context, elements):
                yield key, context.window().start, len(list(elements))
        ```
    """

    class Context(ABC, Generic[W2]):
        """Information about the window."""

        @abstractmethod
        def window(self) -> W2:
            """Returns the window."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """Returns the time of the machine's clock in milliseconds since the epoch."""

        @abstractmethod
        def current_watermark(self) -> int:
            """Returns the current watermark in milliseconds."""

        @abstractmethod
        def window_state(self) -> KeyedStateStore:
            """Returns the state of this key and window. `clear` must remove it."""

        @abstractmethod
        def global_state(self) -> KeyedStateStore:
            """Returns the state of this key, which all its windows share."""

        def output(self, output_tag: OutputTag, value: Any) -> None:
            """Emits a record to a side output, as `yield output_tag, value` does. Beyond PyFlink."""
            raise NotImplementedError

    @abstractmethod
    def process(self, key: KEY, context: ProcessWindowFunction.Context, elements: Iterable[IN]) -> Iterable[OUT]:
        """Returns an iterable of the results of a window, or yields them.

        Args:
            key: the key.
            context: information about the window, and its state.
            elements: the records of the window; or the one result of `reduce` or `aggregate` before this function.
        """

    def clear(self, context: ProcessWindowFunction.Context) -> None:
        """Removes what the function keeps in `window_state`. It is called when the window ends."""
        return


class ProcessAllWindowFunction(Function, Generic[IN, OUT, W]):
    """A ProcessWindowFunction of a stream without keys, for `AllWindowedStream.process`."""

    class Context(ABC, Generic[W2]):
        """Information about the window."""

        @abstractmethod
        def window(self) -> W2:
            """Returns the window."""

        @abstractmethod
        def window_state(self) -> KeyedStateStore:
            """Returns the state of this window. `clear` must remove it."""

        @abstractmethod
        def global_state(self) -> KeyedStateStore:
            """Returns the state that all windows share."""

        def output(self, output_tag: OutputTag, value: Any) -> None:
            """Emits a record to a side output, as `yield output_tag, value` does. Beyond PyFlink."""
            raise NotImplementedError

    @abstractmethod
    def process(self, context: ProcessAllWindowFunction.Context, elements: Iterable[IN]) -> Iterable[OUT]:
        """Returns an iterable of the results of a window, or yields them."""

    def clear(self, context: ProcessAllWindowFunction.Context) -> None:
        """Removes what the function keeps in `window_state`. It is called when the window ends."""
        return


class PassThroughWindowFunction(WindowFunction[IN, IN, KEY, W]):
    """Returns the records of the window unchanged."""

    def apply(self, key: KEY, window: W, inputs: Iterable[IN]) -> Iterable[IN]:
        yield from inputs


class PassThroughAllWindowFunction(AllWindowFunction[IN, IN, W]):
    def apply(self, window: W, inputs: Iterable[IN]) -> Iterable[IN]:
        yield from inputs
