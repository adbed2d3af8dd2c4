"""Functions that call window functions of every kind."""

from __future__ import annotations

from typing import Any

import pytest

from flinkpy.datastream.functions import (
    AllWindowFunction,
    InternalIterableAllWindowFunction,
    InternalIterableProcessAllWindowFunction,
    InternalIterableProcessWindowFunction,
    InternalIterableWindowFunction,
    InternalSingleValueAllWindowFunction,
    InternalSingleValueProcessAllWindowFunction,
    InternalSingleValueProcessWindowFunction,
    InternalSingleValueWindowFunction,
    InternalWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)


class Calls:
    """Records the arguments of the wrapped function."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def open(self, runtime_context: Any) -> None:
        self.seen.append(("open", runtime_context))

    def close(self) -> None:
        self.seen.append("close")


class Keyed(Calls, WindowFunction):
    def apply(self, key: Any, window: Any, inputs: Any) -> Any:
        return [(key, window, list(inputs))]


class All(Calls, AllWindowFunction):
    def apply(self, window: Any, inputs: Any) -> Any:
        return [(0, window, list(inputs))]


class KeyedProcess(Calls, ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        assert (context.current_watermark(), context.current_processing_time()) == (1, 2)
        assert (context.window_state(), context.global_state()) == ("window state", "global state")
        return [(key, context.window(), list(elements))]

    def clear(self, context: Any) -> None:
        self.seen.append(("clear", context.window()))


class AllProcess(Calls, ProcessAllWindowFunction):
    def process(self, context: Any, elements: Any) -> Any:
        assert (context.window_state(), context.global_state()) == ("window state", "global state")
        return [(0, context.window(), list(elements))]

    def clear(self, context: Any) -> None:
        self.seen.append(("clear", context.window()))


class Context(InternalWindowFunction.InternalWindowContext):
    def current_watermark(self) -> int:
        return 1

    def current_processing_time(self) -> int:
        return 2

    def window_state(self) -> Any:
        return "window state"

    def global_state(self) -> Any:
        return "global state"


@pytest.mark.parametrize(
    ("internal", "function", "has_one_value"),
    [
        (InternalSingleValueWindowFunction, Keyed, True),
        (InternalIterableWindowFunction, Keyed, False),
        (InternalSingleValueAllWindowFunction, All, True),
        (InternalIterableAllWindowFunction, All, False),
        (InternalSingleValueProcessWindowFunction, KeyedProcess, True),
        (InternalIterableProcessWindowFunction, KeyedProcess, False),
        (InternalSingleValueProcessAllWindowFunction, AllProcess, True),
        (InternalIterableProcessAllWindowFunction, AllProcess, False),
    ],
)
def test_internal_functions_call_the_user_function_by_its_interface(
    internal: Any, function: Any, has_one_value: bool
) -> None:
    wrapped = function()
    called = internal(wrapped)
    called.open("context")

    results = called.process(0, "window", Context(), 7 if has_one_value else [7, 8])
    called.clear("window", Context())
    called.close()

    assert list(results) == [(0, "window", [7] if has_one_value else [7, 8])]
    clears = [("clear", "window")] if "Process" in function.__name__ else []
    assert wrapped.seen == [("open", "context"), *clears, "close"]
