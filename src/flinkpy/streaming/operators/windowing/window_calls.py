"""Adapts all kinds of window functions to `call(key, window, contents)` and `clear(window)`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from flinkpy.datastream.window_functions import (
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from flinkpy.streaming.operators.windowing.window_contexts import WindowFunctionContext

WindowCall = Callable[[Any, Any, list[Any]], "Iterable[Any] | None"]


def window_call(function: Any, context: WindowFunctionContext) -> WindowCall:
    """Returns `call(key, window, contents)` for any kind of window function. For None it returns the contents."""
    if function is None:
        return lambda key, window, contents: contents
    if isinstance(function, WindowFunction):
        return function.apply  # type: ignore[no-any-return]
    if isinstance(function, AllWindowFunction):
        apply = function.apply
        return lambda key, window, contents: apply(window, contents)
    process = function.process
    if isinstance(function, ProcessWindowFunction):

        def process_keyed(key: Any, window: Any, contents: list[Any]) -> Iterable[Any] | None:
            context.current_window = window
            return process(key, context, contents)  # type: ignore[no-any-return]

        return process_keyed
    assert isinstance(function, ProcessAllWindowFunction), function

    def process_all(key: Any, window: Any, contents: list[Any]) -> Iterable[Any] | None:
        context.current_window = window
        return process(context, contents)  # type: ignore[no-any-return]

    return process_all


def clear_call(function: Any, context: WindowFunctionContext) -> Callable[[Any], None] | None:
    """Returns `clear(window)` for a window function; None if the function does not define `clear`."""
    if not isinstance(function, ProcessWindowFunction | ProcessAllWindowFunction):
        return None
    if type(function).clear in (ProcessWindowFunction.clear, ProcessAllWindowFunction.clear):
        return None
    clear: Callable[[Any], None] = function.clear

    def clear_window(window: Any) -> None:
        context.current_window = window
        clear(context)

    return clear_window
