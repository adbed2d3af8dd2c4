"""The states of the heap backend: one dict per descriptor, from key to value.

Every method is on the path of each record, so each is one dict operation and two attribute loads.

Source: org.apache.flink.runtime.state.heap.Heap*State; what they answer is PyFlink's: None where there is nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from flinkpy.state.backend import KeyContext


class HeapState:
    """Common part. `table` belongs to the backend, which snapshots it."""

    __slots__ = ("_context", "_get", "table")

    def __init__(self, context: KeyContext) -> None:
        self._context = context
        self.table: dict[Any, Any] = {}
        self._get = self.table.get

    def clear(self) -> None:
        self.table.pop(self._context.key, None)


class HeapValueState(HeapState):
    """Never holds None: `update(None)` removes the value."""

    __slots__ = ()

    def value(self) -> Any:
        return self._get(self._context.key)

    def update(self, value: Any) -> None:
        if value is None:
            self.table.pop(self._context.key, None)
        else:
            self.table[self._context.key] = value


class HeapListState(HeapState):
    __slots__ = ()

    def get(self) -> list[Any]:
        """A copy: what the function does with it does not change the state."""
        values = self._get(self._context.key)
        return [] if values is None else values.copy()

    def __iter__(self) -> Iterator[Any]:
        return iter(self.get())

    def add(self, value: Any) -> None:
        values = self._get(self._context.key)
        if values is None:
            self.table[self._context.key] = [value]
        else:
            values.append(value)

    def add_all(self, values: Iterable[Any]) -> None:
        added = list(values)
        if not added:
            return
        known = self._get(self._context.key)
        if known is None:
            self.table[self._context.key] = added
        else:
            known.extend(added)

    def update(self, values: Iterable[Any]) -> None:
        replaced = list(values)
        if replaced:
            self.table[self._context.key] = replaced
        else:
            self.clear()


class HeapMapState(HeapState):
    """A key without entries is not in the table."""

    __slots__ = ()

    def get(self, key: Any) -> Any:
        entries = self._get(self._context.key)
        return None if entries is None else entries.get(key)

    def put(self, key: Any, value: Any) -> None:
        entries = self._get(self._context.key)
        if entries is None:
            self.table[self._context.key] = {key: value}
        else:
            entries[key] = value

    def put_all(self, dict_value: dict[Any, Any]) -> None:
        if not dict_value:
            return
        entries = self._get(self._context.key)
        if entries is None:
            self.table[self._context.key] = dict(dict_value)
        else:
            entries.update(dict_value)

    def remove(self, key: Any) -> None:
        entries = self._get(self._context.key)
        if entries is not None:
            entries.pop(key, None)
            if not entries:
                del self.table[self._context.key]

    def contains(self, key: Any) -> bool:
        entries = self._get(self._context.key)
        return entries is not None and key in entries

    def is_empty(self) -> bool:
        return self._get(self._context.key) is None

    def items(self) -> list[tuple[Any, Any]]:
        """A copy, so that entries may be removed while it is read."""
        entries = self._get(self._context.key)
        return [] if entries is None else list(entries.items())

    def keys(self) -> list[Any]:
        entries = self._get(self._context.key)
        return [] if entries is None else list(entries)

    def values(self) -> list[Any]:
        entries = self._get(self._context.key)
        return [] if entries is None else list(entries.values())

    __getitem__ = get
    __setitem__ = put
    __delitem__ = remove
    __contains__ = contains

    def __iter__(self) -> Iterator[Any]:
        return iter(self.keys())


class HeapReducingState(HeapState):
    __slots__ = ("_reduce",)

    def __init__(self, context: KeyContext, reduce: Any) -> None:
        super().__init__(context)
        self._reduce = reduce

    def get(self) -> Any:
        return self._get(self._context.key)

    def add(self, value: Any) -> None:
        key = self._context.key
        table = self.table
        table[key] = self._reduce(table[key], value) if key in table else value


class HeapAggregatingState(HeapState):
    """Holds the accumulator."""

    __slots__ = ("_function",)

    def __init__(self, context: KeyContext, function: Any) -> None:
        super().__init__(context)
        self._function = function

    def get(self) -> Any:
        key = self._context.key
        return self._function.get_result(self.table[key]) if key in self.table else None

    def add(self, value: Any) -> None:
        key = self._context.key
        table = self.table
        accumulator = table[key] if key in table else self._function.create_accumulator()
        table[key] = self._function.add(value, accumulator)
