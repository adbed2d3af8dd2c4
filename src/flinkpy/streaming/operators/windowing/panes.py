"""Panes: a pane is one window of one key, and the NamespacedKey of all its state and timers.

| window | pane |
|---|---|
| TimeWindow | (key, start, end) |
| CountWindow | (key, id) |
| GlobalWindow | (key,) |
| any other | (key, the window) |
"""

from __future__ import annotations

from typing import Any

from flinkpy.datastream.window import CountWindow, GlobalWindow, TimeWindow
from flinkpy.records.namespaced_key import NamespacedKey

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
