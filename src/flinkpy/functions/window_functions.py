"""WindowFunction, ProcessWindowFunction and their variants without keys: functions over the records of a window.

PyFlink's InternalWindowFunction classes give all of them the same signature. They are here for programs that import
them. The window operator calls the user's function itself.

Source: pyflink.datastream.functions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from flinkpy.functions.function import Function, KeyedStateStore, RuntimeContext

if TYPE_CHECKING:
    from flinkpy.functions.output_tag import OutputTag

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
            inputs: the records of the window; or the single result of a preceding `reduce` or `aggregate`.
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
            elements: the records of the window; or the single result of a preceding `reduce` or `aggregate`.
        """

    def clear(self, context: ProcessWindowFunction.Context) -> None:
        """Removes the state that the function keeps in `window_state`. It is called when the window ends."""
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
        """Removes the state that the function keeps in `window_state`. It is called when the window ends."""
        return


class PassThroughWindowFunction(WindowFunction[IN, IN, KEY, W]):
    """Returns the records of the window unchanged."""

    def apply(self, key: KEY, window: W, inputs: Iterable[IN]) -> Iterable[IN]:
        yield from inputs


class PassThroughAllWindowFunction(AllWindowFunction[IN, IN, W]):
    def apply(self, window: W, inputs: Iterable[IN]) -> Iterable[IN]:
        yield from inputs


class InternalWindowFunction(Function, Generic[IN, OUT, KEY, W]):
    class InternalWindowContext(ABC):
        @abstractmethod
        def current_processing_time(self) -> int: ...

        @abstractmethod
        def current_watermark(self) -> int: ...

        @abstractmethod
        def window_state(self) -> KeyedStateStore: ...

        @abstractmethod
        def global_state(self) -> KeyedStateStore: ...

    @abstractmethod
    def process(
        self, key: KEY, window: W, context: InternalWindowFunction.InternalWindowContext, input_data: IN
    ) -> Iterable[OUT]: ...

    @abstractmethod
    def clear(self, window: W, context: InternalWindowFunction.InternalWindowContext) -> None:
        """Removes the state of a window that has ended."""


_Context = InternalWindowFunction.InternalWindowContext


class _WrappingFunction(InternalWindowFunction[IN, OUT, KEY, W]):
    """Wraps a user's function, and opens and closes it."""

    def __init__(self, wrapped_function: Any) -> None:
        self._wrapped_function = wrapped_function

    def open(self, runtime_context: RuntimeContext) -> None:
        self._wrapped_function.open(runtime_context)

    def close(self) -> None:
        self._wrapped_function.close()

    def clear(self, window: W, context: _Context) -> None:
        return


class InternalSingleValueWindowFunction(_WrappingFunction[IN, OUT, KEY, W]):
    """Calls a WindowFunction with one value: the result of `reduce` or `aggregate`."""

    def __init__(self, wrapped_function: WindowFunction) -> None:
        super().__init__(wrapped_function)

    def process(self, key: KEY, window: W, context: _Context, input_data: IN) -> Iterable[OUT]:
        results: Iterable[OUT] = self._wrapped_function.apply(key, window, [input_data])
        return results


class InternalSingleValueAllWindowFunction(_WrappingFunction[IN, OUT, int, W]):
    """The variant of InternalSingleValueWindowFunction for streams without keys."""

    def __init__(self, wrapped_function: AllWindowFunction) -> None:
        super().__init__(wrapped_function)

    def process(self, key: int, window: W, context: _Context, input_data: IN) -> Iterable[OUT]:
        results: Iterable[OUT] = self._wrapped_function.apply(window, [input_data])
        return results


class InternalIterableWindowFunction(_WrappingFunction[Iterable[IN], OUT, KEY, W]):
    """Calls a WindowFunction with all records of a window."""

    def __init__(self, wrapped_function: WindowFunction) -> None:
        super().__init__(wrapped_function)

    def process(self, key: KEY, window: W, context: _Context, input_data: Iterable[IN]) -> Iterable[OUT]:
        results: Iterable[OUT] = self._wrapped_function.apply(key, window, input_data)
        return results


class InternalIterableAllWindowFunction(_WrappingFunction[Iterable[IN], OUT, int, W]):
    """The variant of InternalIterableWindowFunction for streams without keys."""

    def __init__(self, wrapped_function: AllWindowFunction) -> None:
        super().__init__(wrapped_function)

    def process(self, key: int, window: W, context: _Context, input_data: Iterable[IN]) -> Iterable[OUT]:
        results: Iterable[OUT] = self._wrapped_function.apply(window, input_data)
        return results


class _UnderlyingContext(Generic[W]):
    """The context of the window that is being processed."""

    _window: Any = None
    _underlying: Any = None

    def of(self, window: Any, underlying: _Context) -> Any:
        self._window, self._underlying = window, underlying
        return self

    def window(self) -> W:
        window: W = self._window
        return window

    def current_processing_time(self) -> int:
        time: int = self._underlying.current_processing_time()
        return time

    def current_watermark(self) -> int:
        watermark: int = self._underlying.current_watermark()
        return watermark

    def window_state(self) -> KeyedStateStore:
        store: KeyedStateStore = self._underlying.window_state()
        return store

    def global_state(self) -> KeyedStateStore:
        store: KeyedStateStore = self._underlying.global_state()
        return store


class InternalProcessWindowContext(_UnderlyingContext[W], ProcessWindowFunction.Context[W]):
    def __init__(self) -> None:
        return


class InternalProcessAllWindowContext(_UnderlyingContext[W], ProcessAllWindowFunction.Context[W]):
    def __init__(self) -> None:
        return


class _WrappingProcessFunction(_WrappingFunction[IN, OUT, KEY, W]):
    _internal_context: Any

    def clear(self, window: W, context: _Context) -> None:
        self._wrapped_function.clear(self._internal_context.of(window, context))


class InternalSingleValueProcessWindowFunction(_WrappingProcessFunction[IN, OUT, KEY, W]):
    """Calls a ProcessWindowFunction with one value: the result of `reduce` or `aggregate`."""

    def __init__(self, wrapped_function: ProcessWindowFunction) -> None:
        super().__init__(wrapped_function)
        self._internal_context: InternalProcessWindowContext = InternalProcessWindowContext()

    def process(self, key: KEY, window: W, context: _Context, input_data: IN) -> Iterable[OUT]:
        results: Iterable[OUT] = self._wrapped_function.process(
            key, self._internal_context.of(window, context), [input_data]
        )
        return results


class InternalSingleValueProcessAllWindowFunction(_WrappingProcessFunction[IN, OUT, int, W]):
    """The variant of InternalSingleValueProcessWindowFunction for streams without keys."""

    def __init__(self, wrapped_function: ProcessAllWindowFunction) -> None:
        super().__init__(wrapped_function)
        self._internal_context: InternalProcessAllWindowContext = InternalProcessAllWindowContext()

    def process(self, key: int, window: W, context: _Context, input_data: IN) -> Iterable[OUT]:
        results: Iterable[OUT] = self._wrapped_function.process(
            self._internal_context.of(window, context), [input_data]
        )
        return results


class InternalIterableProcessWindowFunction(_WrappingProcessFunction[Iterable[IN], OUT, KEY, W]):
    """Calls a ProcessWindowFunction with all records of a window."""

    def __init__(self, wrapped_function: ProcessWindowFunction) -> None:
        super().__init__(wrapped_function)
        self._internal_context: InternalProcessWindowContext = InternalProcessWindowContext()

    def process(self, key: KEY, window: W, context: _Context, input_data: Iterable[IN]) -> Iterable[OUT]:
        results: Iterable[OUT] = self._wrapped_function.process(
            key, self._internal_context.of(window, context), input_data
        )
        return results


class InternalIterableProcessAllWindowFunction(_WrappingProcessFunction[Iterable[IN], OUT, int, W]):
    """The variant of InternalIterableProcessWindowFunction for streams without keys."""

    def __init__(self, wrapped_function: ProcessAllWindowFunction) -> None:
        super().__init__(wrapped_function)
        self._internal_context: InternalProcessAllWindowContext = InternalProcessAllWindowContext()

    def process(self, key: int, window: W, context: _Context, input_data: Iterable[IN]) -> Iterable[OUT]:
        results: Iterable[OUT] = self._wrapped_function.process(self._internal_context.of(window, context), input_data)
        return results
