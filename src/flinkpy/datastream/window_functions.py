"""Functions over the records of a window."""

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
    @abstractmethod
    def apply(self, key: KEY, window: W, inputs: Iterable[IN]) -> Iterable[OUT]: ...


class AllWindowFunction(Function, Generic[IN, OUT, W]):
    @abstractmethod
    def apply(self, window: W, inputs: Iterable[IN]) -> Iterable[OUT]: ...


class ProcessWindowFunction(Function, Generic[IN, OUT, KEY, W]):
    """As WindowFunction, with time and state."""

    class Context(ABC, Generic[W2]):
        @abstractmethod
        def window(self) -> W2: ...

        @abstractmethod
        def current_processing_time(self) -> int: ...

        @abstractmethod
        def current_watermark(self) -> int: ...

        @abstractmethod
        def window_state(self) -> KeyedStateStore:
            """State of this key and window; `clear` must remove it."""

        @abstractmethod
        def global_state(self) -> KeyedStateStore:
            """State of this key, whatever the window."""

        def output(self, output_tag: OutputTag, value: Any) -> None:
            """A record for a side output, as `yield output_tag, value` is. Beyond PyFlink."""
            raise NotImplementedError

    @abstractmethod
    def process(self, key: KEY, context: ProcessWindowFunction.Context, elements: Iterable[IN]) -> Iterable[OUT]: ...

    def clear(self, context: ProcessWindowFunction.Context) -> None:
        """The window is over: remove what was kept in `window_state`."""
        return


class ProcessAllWindowFunction(Function, Generic[IN, OUT, W]):
    class Context(ABC, Generic[W2]):
        @abstractmethod
        def window(self) -> W2: ...

        @abstractmethod
        def window_state(self) -> KeyedStateStore: ...

        @abstractmethod
        def global_state(self) -> KeyedStateStore: ...

        def output(self, output_tag: OutputTag, value: Any) -> None:
            """A record for a side output, as `yield output_tag, value` is. Beyond PyFlink."""
            raise NotImplementedError

    @abstractmethod
    def process(self, context: ProcessAllWindowFunction.Context, elements: Iterable[IN]) -> Iterable[OUT]: ...

    def clear(self, context: ProcessAllWindowFunction.Context) -> None:
        return


class PassThroughWindowFunction(WindowFunction[IN, IN, KEY, W]):
    """The window's records as they are."""

    def apply(self, key: KEY, window: W, inputs: Iterable[IN]) -> Iterable[IN]:
        yield from inputs


class PassThroughAllWindowFunction(AllWindowFunction[IN, IN, W]):
    def apply(self, window: W, inputs: Iterable[IN]) -> Iterable[IN]:
        yield from inputs
