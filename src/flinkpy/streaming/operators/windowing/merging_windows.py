"""MergingWindowSet: the windows of one key that may still grow together, and under which window each has its state.

A merged window keeps the state of one of those it was made of, so that merging moves as little as it can.

Source: org.apache.flink.streaming.runtime.operators.windowing.MergingWindowSet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from flinkpy.common.errors import InternalError
from flinkpy.datastream.window import MergingWindowAssigner
from flinkpy.streaming.operators.windowing.panes import namespace_of, window_of

#: `merge(result, merged windows, state window of the result, state windows whose content is to be moved there)`
MergeFunction = Callable[[Any, list[Any], Any, list[Any]], None]


class _MergeResults(MergingWindowAssigner.MergeCallback):
    def __init__(self) -> None:
        self.results: dict[Any, list[Any]] = {}

    def merge(self, to_be_merged: Iterable[Any], merge_result: Any) -> None:
        self.results[merge_result] = list(to_be_merged)


class MergingWindowSet:
    """`state`: a value state of the current key. Holds a tuple of (namespace, namespace of its state) pairs."""

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
        """None where the window is not in the set."""
        return self._state_windows.get(window)

    def retire(self, window: Any) -> None:
        if self._state_windows.pop(window, None) is None:
            raise InternalError(f"Window {window} is not in in-flight window set.")

    def add(self, window: Any, merge: MergeFunction) -> Any:
        """The window that `window` is part of from now on; `merge` is called where others became part of it."""
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
                # Only the new window: it is not merged with any.
                self._state_windows[merge_result] = merge_result
                continue
            state_window, *moved = state_windows
            self._state_windows[merge_result] = state_window
            if merge_result not in merged or len(merged) != 1:
                merge(merge_result, merged, state_window, moved)
        if result == window and not was_merged:
            # Where it is in the set already, its state stays where it is.
            self._state_windows.setdefault(window, window)
        return result
