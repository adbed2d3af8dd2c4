"""The states of the heap backend. Each state is a dict from key to value.

Every method may be called for each record, so it costs one dict operation, two attribute loads and one check.

**Copy on write.** A snapshot refers to the values and is written while the task continues. So while a snapshot is
running, a mutable value is copied before it is changed or handed to user code, which could change it. `_owned` holds
the keys whose values no running snapshot refers to; it is None if no snapshot is running. Replacing a value needs no
copy.

Source: org.apache.flink.runtime.state.heap.{Heap*State,CopyOnWriteStateMap}. As in PyFlink, a state without a value
returns None.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from flinkpy.records.key_identity import entry_key, user_key, user_keys
from flinkpy.state.key_context import KeyContext
from flinkpy.state.private_copy import ATOMIC, private_copy


class HeapState:
    """Base class of the states. The backend owns `table` and takes snapshots of it.

    Code that uses `table` directly may replace values at any time. It must not change a value in place while
    `is_shared`.
    """

    __slots__ = ("_context", "_get", "_owned", "table")

    def __init__(self, context: KeyContext, table: dict[Any, Any] | None = None) -> None:
        self._context = context
        self.table: dict[Any, Any] = {} if table is None else table
        self._get = self.table.get
        self._owned: set[Any] | None = None

    def clear(self) -> None:
        self.table.pop(self._context.key, None)

    # -- snapshots, by the backend ---------------------------------------------------------------------------------

    @property
    def is_shared(self) -> bool:
        """True if a running snapshot may refer to values of the table."""
        return self._owned is not None

    def freeze(self) -> tuple[list[Any], list[Any]]:
        """Returns the keys and the values. The values do not change until `thaw`."""
        self._owned = set()
        return list(self.table), list(self.table.values())

    def thaw(self) -> None:
        """Ends copy on write: no snapshot is running any more. Thread: any."""
        self._owned = None

    def _own(self, key: Any) -> Any:
        """Returns the value of the key, which may be changed in place; None if there is none."""
        value = self._get(key)
        owned = self._owned
        if owned is None or type(value) in ATOMIC or key in owned:
            return value
        copied = private_copy(value)
        if copied is not value:
            self.table[key] = copied
            owned.add(key)
        return copied

    def _put(self, key: Any, value: Any) -> None:
        """Replaces the value by one that no snapshot refers to."""
        self.table[key] = value
        owned = self._owned
        if owned is not None and type(value) not in ATOMIC:
            owned.add(key)


class HeapValueState(HeapState):
    """A value per key. It never holds None: `update(None)` removes the value."""

    __slots__ = ()

    def value(self) -> Any:
        if self._owned is None:
            return self._get(self._context.key)
        return self._own(self._context.key)

    def update(self, value: Any) -> None:
        if value is None:
            self.table.pop(self._context.key, None)
        elif self._owned is None:
            self.table[self._context.key] = value
        else:
            self._put(self._context.key, value)

    # -- batch face ------------------------------------------------------------------------------------------------

    def get_many(self, keys: Iterable[Any]) -> list[Any]:
        """Returns the value of each key, None for a key without one."""
        if self._owned is None:
            return list(map(self._get, keys))
        return list(map(self._own, keys))

    def put_many(self, keys: Iterable[Any], values: Iterable[Any]) -> None:
        """Replaces the values. None removes a value. If a key occurs twice, its last value is kept."""
        owned = self._owned
        if owned is not None:
            keys = list(keys)
            owned.update(keys)
        values = list(values)
        if None not in values:
            self.table.update(zip(keys, values))
            return
        table = self.table
        for key, value in zip(keys, values):
            if value is None:
                table.pop(key, None)
            else:
                table[key] = value


class HeapListState(HeapState):
    """A list per key."""

    __slots__ = ()

    def get(self) -> list[Any]:
        """Returns a copy of the list, so user code may change it without changing the state."""
        values = self._get(self._context.key) if self._owned is None else self._own(self._context.key)
        return [] if values is None else values.copy()

    def __iter__(self) -> Iterator[Any]:
        return iter(self.get())

    def add(self, value: Any) -> None:
        values = self._get(self._context.key) if self._owned is None else self._own(self._context.key)
        if values is None:
            self._put(self._context.key, [value])
        else:
            values.append(value)

    def add_all(self, values: Iterable[Any]) -> None:
        added = list(values)
        if not added:
            return
        known = self._own(self._context.key)
        if known is None:
            self._put(self._context.key, added)
        else:
            known.extend(added)

    def update(self, values: Iterable[Any]) -> None:
        replaced = list(values)
        if replaced:
            self._put(self._context.key, replaced)
        else:
            self.table.pop(self._context.key, None)


class HeapMapState(HeapState):
    """A dict per key. A key without entries is not in the table.

    Map keys are stored as `records.key_identity.entry_key` returns them.
    """

    __slots__ = ()

    def get(self, key: Any) -> Any:
        kind = type(key)
        if kind is not int and kind is not str:
            key = entry_key(key)
        entries = self._get(self._context.key)
        if entries is None:
            return None
        value = entries.get(key)
        if self._owned is None or type(value) in ATOMIC:
            return value
        return self._own(self._context.key).get(key)

    def put(self, key: Any, value: Any) -> None:
        kind = type(key)
        if kind is not int and kind is not str:
            key = entry_key(key)
        entries = self._get(self._context.key) if self._owned is None else self._own(self._context.key)
        if entries is None:
            self._put(self._context.key, {key: value})
        else:
            entries[key] = value

    def put_all(self, dict_value: dict[Any, Any]) -> None:
        if not dict_value:
            return
        added = {entry_key(key): value for key, value in dict_value.items()}
        entries = self._own(self._context.key)
        if entries is None:
            self._put(self._context.key, added)
        else:
            entries.update(added)

    def remove(self, key: Any) -> None:
        kind = type(key)
        if kind is not int and kind is not str:
            key = entry_key(key)
        entries = self._get(self._context.key)
        if entries is not None and key in entries:
            entries = self._own(self._context.key)
            del entries[key]
            if not entries:
                del self.table[self._context.key]

    def contains(self, key: Any) -> bool:
        kind = type(key)
        if kind is not int and kind is not str:
            key = entry_key(key)
        entries = self._get(self._context.key)
        return entries is not None and key in entries

    def is_empty(self) -> bool:
        return self._get(self._context.key) is None

    def items(self) -> list[tuple[Any, Any]]:
        """Returns a copy, so entries may be removed during an iteration."""
        entries = self._own(self._context.key)
        return [] if entries is None else [(user_key(key), value) for key, value in entries.items()]

    def keys(self) -> list[Any]:
        entries = self._get(self._context.key)
        return [] if entries is None else list(user_keys(list(entries)))

    def values(self) -> list[Any]:
        entries = self._own(self._context.key)
        return [] if entries is None else list(entries.values())

    __getitem__ = get
    __setitem__ = put
    __delitem__ = remove
    __contains__ = contains

    def __iter__(self) -> Iterator[Any]:
        return iter(self.keys())


class HeapReducingState(HeapState):
    """The reduced value per key."""

    __slots__ = ("_reduce",)

    def __init__(self, context: KeyContext, reduce: Any, table: dict[Any, Any] | None = None) -> None:
        super().__init__(context, table)
        self._reduce = reduce

    def get(self) -> Any:
        if self._owned is None:
            return self._get(self._context.key)
        return self._own(self._context.key)

    def add(self, value: Any) -> None:
        key = self._context.key
        if self._owned is not None:
            self._own(key)
        table = self.table
        self._put(key, self._reduce(table[key], value) if key in table else value)


class HeapAggregatingState(HeapState):
    """The accumulator of an AggregateFunction per key."""

    __slots__ = ("_function",)

    def __init__(self, context: KeyContext, function: Any, table: dict[Any, Any] | None = None) -> None:
        super().__init__(context, table)
        self._function = function

    def get(self) -> Any:
        key = self._context.key
        if self._owned is not None:
            self._own(key)
        return self._function.get_result(self.table[key]) if key in self.table else None

    def add(self, value: Any) -> None:
        key = self._context.key
        if self._owned is not None:
            self._own(key)
        table = self.table
        accumulator = table[key] if key in table else self._function.create_accumulator()
        self._put(key, self._function.add(value, accumulator))

    def accumulator(self) -> Any:
        """Returns the accumulator, which may be changed in place; None if there is none."""
        return self._own(self._context.key)

    def set_accumulator(self, accumulator: Any) -> None:
        self._put(self._context.key, accumulator)
