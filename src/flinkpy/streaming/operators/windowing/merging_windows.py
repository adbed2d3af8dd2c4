"""MergingWindowSet: the windows of one key that may still merge, and the window under which each has its state.

A merged window keeps the state of one of its parts, so that merging moves as little state as possible.

Source: org.apache.flink.streaming.runtime.operators.windowing.MergingWindowSet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from flinkpy.common.errors import InternalError
from flinkpy.datastream.window import MergingWindowAssigner
from flinkpy.streaming.operators.windowing.panes import namespace_of, window_of

#: `merge(result, merged windows, state window of the result, state windows whose contents must move there)`
MergeFunction = Callable[[Any, list[Any], Any, list[Any]], None]


class _MergeResults(MergingWindowAssigner.MergeCallback):
    def __init__(self) -> None:
        self.results: dict[Any, list[Any]] = {}

    def merge(self, to_be_merged: Iterable[Any], merge_result: Any) -> None:
        self.results[merge_result] = list(to_be_merged)


class MergingWindowSet:
    """The windows of one key that may still merge, and the window under which each has its state.

    A merged window keeps the state of one of its parts, so that merging moves as little state as possible.

    Source: org.apache.flink.streaming.runtime.operators.windowing.MergingWindowSet.

    Args:
        state: a value state of the current key. It holds a tuple of (namespace, namespace of its state) pairs.
    """

    def __init__(self, assigner: MergingWindowAssigner, state: Any) -> None:
        self._assigner = assigner
        self._state = state
        stored = state.value() or ()
        self._state_windows = {window_of(window): window_of(state_window) for window, state_window in stored}
        self._stored = dict(self._state_windows)

    def persist(self) -> None:
        if self._state_windows != self._stored:
            pairs = self._state_windows.items()
            self._state.update(tuple((namespace_of(window), namespace_of(state)) for window, state in pairs) or None)

    def state_window(self, window: Any) -> Any:
        """Returns the window under which `window` has its state; None if `window` is not in the set."""
        return self._state_windows.get(window)

    def retire(self, window: Any) -> None:
        if self._state_windows.pop(window, None) is None:
            raise InternalError(f"window {window} is not in the set of windows that may merge")

    def add(self, window: Any, merge: MergeFunction) -> Any:
        """Adds a window, and returns the window that it is part of now. Calls `merge` if other windows merged into it."""
        callback = _MergeResults()
        self._assigner.merge_windows([*self._state_windows, window], callback)
        result = window
        was_merged = False
        for merge_result, merged in callback.results.items():
            if window in merged:
                merged.remove(window)
                was_merged = True
                result = merge_result
            state_windows = [self._state_windows.pop(part) for part in merged if part in self._state_windows]
            if not state_windows:
                # There is only the new window, which merges with no other.
                self._state_windows[merge_result] = merge_result
                continue
            state_window, *moved = state_windows
            self._state_windows[merge_result] = state_window
            if merge_result not in merged or len(merged) != 1:
                merge(merge_result, merged, state_window, moved)
        if result == window and not was_merged:
            # If the window is already in the set, its state stays where it is.
            self._state_windows.setdefault(window, window)
        return result
