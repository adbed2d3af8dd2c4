"""WindowContents: the contents of panes until their function is called.

A value of None is never kept: a reduced value or accumulator that is None counts as an empty pane.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from functools import reduce
from typing import Any

from flinkpy.functions.stream_functions import AggregateFunction
from flinkpy.records.namespaced_key import NamespacedKey
from flinkpy.state.backend import KeyContext, KeyedStateBackend
from flinkpy.state.private_copy import ATOMIC, private_copy
from flinkpy.streaming.operators.stream_operator import OperatorStateDescriptor
from flinkpy.streaming.operators.windowing.pane_state import merge_lists, merge_values

#: The name of the state in the backend.
WINDOW_CONTENTS = "window-contents"


class WindowContents(ABC):
    """The contents of the panes of one operator. Thread: task thread.

    For merging windows, a pane here is the pane of the state window.
    """

    state: Any

    def __init__(self) -> None:
        self.context = KeyContext()

    @abstractmethod
    def create_state(self, backend: KeyedStateBackend, type_info: Any) -> None: ...

    @abstractmethod
    def add(self, pane: NamespacedKey, value: Any, timestamp: int | None) -> None: ...

    @abstractmethod
    def get(self, pane: NamespacedKey) -> list[Any] | None:
        """Returns the elements for the window function; None if it must not be called."""

    @abstractmethod
    def merge(self, pane: NamespacedKey, merged: Iterable[NamespacedKey]) -> None: ...

    def clear(self, pane: NamespacedKey) -> None:
        self.context.key = pane
        self.state.clear()

    def _descriptor(self, type_info: Any) -> OperatorStateDescriptor:
        return OperatorStateDescriptor(WINDOW_CONTENTS, type_info, self.context)


class _OneValue(WindowContents):
    """Keeps one value for all records of a pane."""

    def create_state(self, backend: KeyedStateBackend, type_info: Any) -> None:
        self.state = backend.value_state(self._descriptor(type_info))


class ReducedValue(_OneValue):
    def __init__(self, reduce_function: Any) -> None:
        super().__init__()
        self.reduce = reduce_function.reduce

    def add(self, pane: NamespacedKey, value: Any, timestamp: int | None) -> None:
        self.context.key = pane
        known = self.state.value()
        self.state.update(value if known is None else self.reduce(known, value))

    def get(self, pane: NamespacedKey) -> list[Any] | None:
        self.context.key = pane
        value = self.state.value()
        return None if value is None else [value]

    def merge(self, pane: NamespacedKey, merged: Iterable[NamespacedKey]) -> None:
        state = self.state
        merge_values(state.value, state.update, state.clear, self.reduce, self.context, pane, merged)


class Accumulator(_OneValue):
    def __init__(self, aggregate_function: Any) -> None:
        super().__init__()
        self.function = aggregate_function

    def add(self, pane: NamespacedKey, value: Any, timestamp: int | None) -> None:
        self.context.key = pane
        accumulator = self.state.value()
        if accumulator is None:
            accumulator = self.function.create_accumulator()
        self.state.update(self.function.add(value, accumulator))

    def get(self, pane: NamespacedKey) -> list[Any] | None:
        self.context.key = pane
        accumulator = self.state.value()
        if accumulator is None:
            return None
        return result_of(self.function, accumulator, True)

    def merge(self, pane: NamespacedKey, merged: Iterable[NamespacedKey]) -> None:
        state = self.state
        merge_values(state.value, state.update, state.clear, self.function.merge, self.context, pane, merged)


class AllRecords(WindowContents):
    def create_state(self, backend: KeyedStateBackend, type_info: Any) -> None:
        self.state = backend.list_state(self._descriptor(type_info))

    def add(self, pane: NamespacedKey, value: Any, timestamp: int | None) -> None:
        self.context.key = pane
        self.state.add(value)

    def get(self, pane: NamespacedKey) -> list[Any] | None:
        self.context.key = pane
        return self.state.get() or None

    def merge(self, pane: NamespacedKey, merged: Iterable[NamespacedKey]) -> None:
        merge_lists(self.state, self.context, pane, merged)


class RecordsForEvictor(AllRecords):
    """Keeps each record as `(record, timestamp)`. The timestamp may be None."""

    def create_state(self, backend: KeyedStateBackend, type_info: Any) -> None:
        super().create_state(backend, None)

    def add(self, pane: NamespacedKey, value: Any, timestamp: int | None) -> None:
        super().add(pane, (value, timestamp), timestamp)

    def replace(self, pane: NamespacedKey, records: list[tuple[Any, int | None]]) -> None:
        self.context.key = pane
        self.state.update(records)


def result_of(function: Any, accumulator: Any, is_kept: bool) -> list[Any] | None:
    """Returns the result of an accumulator as `get` does.

    If the accumulator stays in use, the result is copied: it may contain the accumulator, which later records change.
    """
    result = function.get_result(accumulator)
    if is_kept and type(result) not in ATOMIC:
        result = private_copy(result)
    return None if result is None else [result]


def contents_for(aggregation: Any, has_evictor: bool) -> WindowContents:
    """Creates the contents for an aggregation: an AggregateFunction, an object with `reduce`, or None."""
    if has_evictor:
        return RecordsForEvictor()
    if aggregation is None:
        return AllRecords()
    return Accumulator(aggregation) if isinstance(aggregation, AggregateFunction) else ReducedValue(aggregation)


def aggregated(aggregation: Any, values: list[Any]) -> list[Any]:
    """Aggregates all values at once. Returns the result as a list, which is empty if the result is None."""
    if aggregation is None or not values:
        return values
    if isinstance(aggregation, AggregateFunction):
        accumulator = aggregation.create_accumulator()
        for value in values:
            accumulator = aggregation.add(value, accumulator)
        result = aggregation.get_result(accumulator)
    else:
        result = reduce(aggregation.reduce, values)
    return [] if result is None else [result]
