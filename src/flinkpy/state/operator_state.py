"""OperatorStateBackend: state that belongs to a subtask instead of a key.

Three kinds, which differ in how a restore hands them out: list state is split among the subtasks, union list state goes
to each of them as a whole, broadcast state is the same in all.

Source: org.apache.flink.runtime.state.DefaultOperatorStateBackend.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Any

from flinkpy.common.errors import UnsupportedOperationError


class OperatorStateMode(enum.Enum):
    """How a restore redistributes the state."""

    SPLIT_DISTRIBUTE = 1
    UNION = 2
    BROADCAST = 3


class OperatorListState:
    """Elements of this subtask."""

    __slots__ = ("elements",)

    def __init__(self) -> None:
        self.elements: list[Any] = []

    def get(self) -> list[Any]:
        return self.elements.copy()

    def add(self, value: Any) -> None:
        self.elements.append(value)

    def add_all(self, values: Iterable[Any]) -> None:
        self.elements.extend(values)

    def update(self, values: Iterable[Any]) -> None:
        self.elements = list(values)

    def clear(self) -> None:
        self.elements.clear()


class HeapBroadcastState:
    """A dict that every subtask keeps the same copy of."""

    __slots__ = ("entries",)

    def __init__(self) -> None:
        self.entries: dict[Any, Any] = {}

    def get(self, key: Any) -> Any:
        return self.entries.get(key)

    def put(self, key: Any, value: Any) -> None:
        self.entries[key] = value

    def put_all(self, dict_value: dict[Any, Any]) -> None:
        self.entries.update(dict_value)

    def remove(self, key: Any) -> None:
        self.entries.pop(key, None)

    def contains(self, key: Any) -> bool:
        return key in self.entries

    def is_empty(self) -> bool:
        return not self.entries

    def items(self) -> list[tuple[Any, Any]]:
        return list(self.entries.items())

    def keys(self) -> list[Any]:
        return list(self.entries)

    def values(self) -> list[Any]:
        return list(self.entries.values())

    def clear(self) -> None:
        self.entries.clear()

    __getitem__ = get
    __setitem__ = put
    __delitem__ = remove
    __contains__ = contains

    def __iter__(self) -> Any:
        return iter(self.keys())


class OperatorStateBackend:
    """Thread: task thread. Asking twice for the same name gives the same state; in another mode it is an error."""

    def __init__(self) -> None:
        self._states: dict[str, tuple[OperatorStateMode, Any]] = {}

    def get_list_state(self, descriptor: Any) -> OperatorListState:
        return self._state(descriptor, OperatorStateMode.SPLIT_DISTRIBUTE, OperatorListState)

    def get_union_list_state(self, descriptor: Any) -> OperatorListState:
        return self._state(descriptor, OperatorStateMode.UNION, OperatorListState)

    def get_broadcast_state(self, state_descriptor: Any) -> HeapBroadcastState:
        return self._state(state_descriptor, OperatorStateMode.BROADCAST, HeapBroadcastState)

    def states(self) -> dict[str, tuple[OperatorStateMode, Any]]:
        """Mode and state by name, for snapshots."""
        return dict(self._states)

    def _state(self, descriptor: Any, mode: OperatorStateMode, create: type[Any]) -> Any:
        name = descriptor.get_name()
        known = self._states.setdefault(name, (mode, create()))
        if known[0] is not mode:
            raise UnsupportedOperationError(f"operator state {name!r} is {known[0].name} already, not {mode.name}")
        return known[1]
