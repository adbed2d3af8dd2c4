"""PaneBuffers: hold the contents of panes while a batch of records is added and panes are merged.

In a heap backend the buffer works on the state's own values. In other backends, and while a snapshot shares these
values, each pane is read on first use and written back by `finish`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from flinkpy.records.namespaced_key import NamespacedKey
from flinkpy.state.heap_states import HeapListState, HeapValueState
from flinkpy.streaming.operators.windowing.window_contents import Accumulator, ReducedValue, WindowContents


class PaneBuffer(ABC):
    """The contents of panes during one batch. Thread: task thread."""

    @abstractmethod
    def add(self, pane: NamespacedKey, value: Any) -> None: ...

    @abstractmethod
    def merge(self, pane: NamespacedKey, moved: list[NamespacedKey]) -> None:
        """Adds the contents of the `moved` panes to `pane`, in their order."""

    def finish(self) -> None:
        """Writes all changes back to the state."""
        return


class _ValuesRead(dict[NamespacedKey, Any]):
    """Reads missing values from the state; None if a pane is empty."""

    def __init__(self, contents: WindowContents) -> None:
        super().__init__()
        self._context = contents.context
        self._read = contents.state.value

    def get(self, pane: NamespacedKey, default: Any = None) -> Any:
        if pane not in self:
            self._context.key = pane
            self[pane] = self._read()
        return self[pane]


class _OneValueBuffer(PaneBuffer):
    def __init__(self, contents: WindowContents, merge: Callable[[Any, Any], Any]) -> None:
        self._state = state = contents.state
        self._is_direct = type(state) is HeapValueState and not state.is_shared
        self._values: dict[Any, Any] = state.table if self._is_direct else _ValuesRead(contents)
        self._get = self._values.get
        self._merge = merge

    def _put(self, pane: NamespacedKey, value: Any) -> None:
        if value is None and self._is_direct:
            self._values.pop(pane, None)
        else:
            self._values[pane] = value

    def merge(self, pane: NamespacedKey, moved: list[NamespacedKey]) -> None:
        value = self._get(pane)
        for other_pane in moved:
            other = self._get(other_pane)
            if other is not None:
                self._put(other_pane, None)
                value = other if value is None else self._merge(value, other)
        self._put(pane, value)

    def finish(self) -> None:
        if not self._is_direct:
            self._state.put_many(list(self._values), list(self._values.values()))


class _ReducedBuffer(_OneValueBuffer):
    def __init__(self, contents: ReducedValue) -> None:
        super().__init__(contents, contents.reduce)
        self._reduce = contents.reduce

    def add(self, pane: NamespacedKey, value: Any) -> None:
        known = self._get(pane)
        if known is not None:
            value = self._reduce(known, value)
        if value is None:
            self._put(pane, None)
        else:
            self._values[pane] = value


class _AccumulatorBuffer(_OneValueBuffer):
    def __init__(self, contents: Accumulator) -> None:
        super().__init__(contents, contents.function.merge)
        self._create = contents.function.create_accumulator
        self._add = contents.function.add

    def add(self, pane: NamespacedKey, value: Any) -> None:
        accumulator = self._get(pane)
        if accumulator is None:
            accumulator = self._create()
        accumulator = self._add(value, accumulator)
        if accumulator is None:
            self._put(pane, None)
        else:
            self._values[pane] = accumulator


class _RecordsBuffer(PaneBuffer):
    """Holds the added records until `finish`. In a heap state it adds them directly."""

    def __init__(self, contents: WindowContents) -> None:
        self._contents = contents
        state = contents.state
        self._is_direct = type(state) is HeapListState and not state.is_shared
        self._added: dict[Any, list[Any]] = state.table if self._is_direct else {}

    def add(self, pane: NamespacedKey, value: Any) -> None:
        known = self._added.get(pane)
        if known is None:
            self._added[pane] = [value]
        else:
            known.append(value)

    def merge(self, pane: NamespacedKey, moved: list[NamespacedKey]) -> None:
        self.finish()
        self._contents.merge(pane, moved)

    def finish(self) -> None:
        if not self._is_direct:
            context, add_all = self._contents.context, self._contents.state.add_all
            for context.key, values in self._added.items():
                add_all(values)
            self._added.clear()


def pane_buffer(contents: WindowContents) -> PaneBuffer:
    if isinstance(contents, ReducedValue):
        return _ReducedBuffer(contents)
    if isinstance(contents, Accumulator):
        return _AccumulatorBuffer(contents)
    return _RecordsBuffer(contents)
