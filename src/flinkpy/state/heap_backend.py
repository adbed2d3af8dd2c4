"""HeapKeyedStateBackend: keyed state in Python dicts (`state.backend.type: hashmap`).

Source: org.apache.flink.runtime.state.heap.HeapKeyedStateBackend.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from flinkpy.state.backend import KeyedStateBackend
from flinkpy.state.heap_states import (
    HeapAggregatingState,
    HeapListState,
    HeapMapState,
    HeapReducingState,
    HeapState,
    HeapValueState,
)


class HeapKeyedStateBackend(KeyedStateBackend):
    """Values are kept as the objects they are; a function that changes one it has stored has changed the state."""

    def create_state(self, kind: str, descriptor: Any) -> HeapState:
        if kind == "value":
            return HeapValueState(self.key_context)
        if kind == "list":
            return HeapListState(self.key_context)
        if kind == "map":
            return HeapMapState(self.key_context)
        if kind == "reducing":
            return HeapReducingState(self.key_context, descriptor.get_reduce_function().reduce)
        return HeapAggregatingState(self.key_context, descriptor.get_agg_function())

    def table(self, state_name: str) -> dict[Any, Any]:
        """The live table of a state: key to value."""
        state = self._states[state_name][1]
        assert isinstance(state, HeapState)
        return state.table

    def keys(self, state_name: str) -> Iterable[Any]:
        return list(self.table(state_name))

    def num_entries(self) -> int:
        return sum(len(self.table(name)) for name in self._states)

    def close(self) -> None:
        for _, state in self._states.values():
            state.table.clear()
        self._states.clear()
