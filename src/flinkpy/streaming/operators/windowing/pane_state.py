"""Panes, and the state per pane: the contents of windows, and the state of triggers and window functions.

A pane is one window of one key. It is the NamespacedKey of all state and timers of the window.

| window | pane |
|---|---|
| TimeWindow | (key, start, end) |
| CountWindow | (key, id) |
| GlobalWindow | (key,) |
| any other | (key, the window) |
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.functions.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from flinkpy.functions.windows import CountWindow, GlobalWindow, TimeWindow
from flinkpy.records.namespaced_key import NamespacedKey
from flinkpy.state.backend import KeyContext, KeyedStateBackend

_KINDS: tuple[tuple[type, Callable[..., Any]], ...] = (
    (ListStateDescriptor, KeyedStateBackend.list_state),
    (ReducingStateDescriptor, KeyedStateBackend.reducing_state),
    (AggregatingStateDescriptor, KeyedStateBackend.aggregating_state),
    (ValueStateDescriptor, KeyedStateBackend.value_state),
    (MapStateDescriptor, KeyedStateBackend.map_state),
)


class PaneStateStore:
    """The state of the current pane of `context`. Implements PyFlink's KeyedStateStore.

    Args:
        prefix: the prefix of the state names in the backend. It separates them from the states of the key.
    """

    def __init__(self, backend: KeyedStateBackend, context: KeyContext, prefix: str) -> None:
        self._backend = backend
        self._context = context
        self._prefix = prefix
        self._states: dict[tuple[type, str], Any] = {}

    def state_of(self, descriptor: Any) -> Any:
        """Returns the state for a descriptor. The class of the descriptor determines the kind of state."""
        key = (type(descriptor), descriptor.get_name())
        state = self._states.get(key)
        if state is None:
            create = next((create for kind, create in _KINDS if isinstance(descriptor, kind)), None)
            if create is None:
                raise UnsupportedOperationError(f"Unsupported state descriptor: {type(descriptor).__name__}")
            scoped = copy.copy(descriptor)
            scoped.name = f"{self._prefix}{descriptor.get_name()}"
            scoped.key_context = self._context
            state = self._states[key] = create(self._backend, scoped)
        return state

    get_state = get_list_state = get_map_state = get_reducing_state = get_aggregating_state = state_of

    def merge(self, descriptor: Any, pane: NamespacedKey, merged: Iterable[NamespacedKey]) -> None:
        """Merges the state of the `merged` panes into that of `pane`.

        Raises: UnsupportedOperationError if it is a value or map state.
        """
        state = self.state_of(descriptor)
        if isinstance(descriptor, AggregatingStateDescriptor):
            merge_values(
                state.accumulator,
                state.set_accumulator,
                state.clear,
                descriptor.get_agg_function().merge,
                self._context,
                pane,
                merged,
            )
        elif isinstance(descriptor, ListStateDescriptor):
            merge_lists(state, self._context, pane, merged)
        elif isinstance(descriptor, ReducingStateDescriptor):
            context = self._context
            current = context.key
            values = []
            for context.key in merged:
                value = state.get()
                if value is not None:
                    values.append(value)
                    state.clear()
            context.key = pane
            for value in values:
                state.add(value)
            context.key = current
        else:
            raise UnsupportedOperationError(
                "The given state descriptor does not refer to a mergeable state (MergingState)"
            )


class NoPaneStateStore:
    """Raises on every access: merging windows have no per-window state for functions."""

    def state_of(self, descriptor: Any) -> Any:
        raise UnsupportedOperationError("Per-window state is not allowed when using merging windows.")

    get_state = get_list_state = get_map_state = get_reducing_state = get_aggregating_state = state_of


def merge_values(
    read: Callable[[], Any],
    write: Callable[[Any], None],
    clear: Callable[[], None],
    merge: Callable[[Any, Any], Any],
    context: KeyContext,
    pane: NamespacedKey,
    merged: Iterable[NamespacedKey],
) -> None:
    """Merges the values of the `merged` panes into that of `pane`, in their order, and clears them."""
    current = context.key
    context.key = pane
    value = read()
    for context.key in merged:
        other = read()
        if other is not None:
            clear()
            value = other if value is None else merge(value, other)
    context.key = pane
    if value is not None:
        write(value)
    context.key = current


def merge_lists(state: Any, context: KeyContext, pane: NamespacedKey, merged: Iterable[NamespacedKey]) -> None:
    current = context.key
    elements: list[Any] = []
    for context.key in merged:
        elements += state.get()
        state.clear()
    context.key = pane
    state.add_all(elements)
    context.key = current


#: The part of a pane after the key, which identifies the window.
Namespace = tuple[Any, ...]


def namespace_of(window: Any) -> Namespace:
    kind = type(window)
    if kind is TimeWindow:
        return window.start, window.end
    if kind is CountWindow:
        return (window.id,)
    if kind is GlobalWindow:
        return ()
    return (window,)


def window_of(namespace: Namespace) -> Any:
    """Returns the window of a namespace. The inverse of `namespace_of`."""
    if len(namespace) == 2:
        return TimeWindow(*namespace)
    if not namespace:
        return GlobalWindow()
    return CountWindow(namespace[0]) if type(namespace[0]) is int else namespace[0]


def pane_of(key: Any, namespace: Namespace) -> NamespacedKey:
    return NamespacedKey((key, *namespace))
