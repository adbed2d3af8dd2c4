"""States with time-to-live, around the states of any backend, which hold `(value, time of last access)`.

An expired value is removed when it is found. Reading it gives None, or once more the value where the configuration
says so.

Source: org.apache.flink.runtime.state.ttl.Ttl*State. Differs: an expired map entry never makes a map seem not empty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from flinkpy.state.key_context import KeyContext
from flinkpy.state.meta_info import AGGREGATING, LIST, MAP, REDUCING, VALUE
from flinkpy.state.ttl import Stamped, TimeToLive


class TtlState:
    """Common part. `raw` is the backend's state."""

    def __init__(self, raw: Any, ttl: TimeToLive) -> None:
        self.raw = raw
        self.ttl = ttl
        #: Called at every access, where there is something to do.
        self.on_access: Callable[[], None] | None = None

    def clear(self) -> None:
        if self.on_access is not None:
            self.on_access()
        self.raw.clear()

    def clean(self) -> None:
        """Remove what has expired of the current key."""
        raise NotImplementedError


class _OneValueState(TtlState):
    """One stamped value per key: the layout of value, reducing and aggregating states."""

    def _read(self) -> Any:
        """The value as it is to be seen; None where there is none."""
        if self.on_access is not None:
            self.on_access()
        raw, ttl = self.raw, self.ttl
        stamped = raw.value()
        if stamped is None:
            return None
        now_ms = ttl.now_ms()
        if stamped[1] + ttl.ttl_ms <= now_ms:
            raw.clear()
            return stamped[0] if ttl.returns_expired else None
        if ttl.updates_on_read:
            raw.update((stamped[0], now_ms))
        return stamped[0]

    def _current(self) -> Any:
        """The value that another is to be added to; None where there is none."""
        if self.on_access is not None:
            self.on_access()
        stamped = self.raw.value()
        return stamped[0] if stamped is not None and self.ttl.is_visible(stamped) else None

    def _write(self, value: Any) -> None:
        self.raw.update((value, self.ttl.now_ms()))

    def clean(self) -> None:
        stamped = self.raw.value()
        if stamped is not None and self.ttl.is_expired(stamped):
            self.raw.clear()


class TtlValueState(_OneValueState):
    value = _OneValueState._read

    def update(self, value: Any) -> None:
        if self.on_access is not None:
            self.on_access()
        if value is None:
            self.raw.clear()
        else:
            self.raw.update((value, self.ttl.now_ms()))

    def get_many(self, keys: Iterable[Any]) -> list[Any]:
        """The value of each key, None where it has none."""
        keys = list(keys)
        ttl = self.ttl
        stored: list[Stamped | None] = self.raw.get_many(keys)
        if ttl.updates_on_read:
            alive = [
                (key, stamped[0])
                for key, stamped in zip(keys, stored)
                if stamped is not None and not ttl.is_expired(stamped)
            ]
            self.raw.put_many([key for key, _ in alive], [ttl.stamp(value) for _, value in alive])
        return [None if stamped is None or not ttl.is_visible(stamped) else stamped[0] for stamped in stored]

    def put_many(self, keys: Iterable[Any], values: Iterable[Any]) -> None:
        now = self.ttl.now_ms()
        self.raw.put_many(keys, [None if value is None else (value, now) for value in values])


class TtlReducingState(_OneValueState):
    def __init__(self, raw: Any, ttl: TimeToLive, reduce: Callable[[Any, Any], Any]) -> None:
        super().__init__(raw, ttl)
        self._reduce = reduce

    def get(self) -> Any:
        return self._read()

    def add(self, value: Any) -> None:
        current = self._current()
        self._write(value if current is None else self._reduce(current, value))


class TtlAggregatingState(_OneValueState):
    def __init__(self, raw: Any, ttl: TimeToLive, function: Any) -> None:
        super().__init__(raw, ttl)
        self._function = function

    def get(self) -> Any:
        accumulator = self._read()
        return None if accumulator is None else self._function.get_result(accumulator)

    def add(self, value: Any) -> None:
        current = self._current()
        self._write(self._function.add(value, self._function.create_accumulator() if current is None else current))

    def accumulator(self) -> Any:
        """None where there is none."""
        return self._current()

    def set_accumulator(self, accumulator: Any) -> None:
        self._write(accumulator)


class TtlListState(TtlState):
    """Elements expire one by one; they are removed together when the last one has."""

    def get(self) -> list[Any]:
        if self.on_access is not None:
            self.on_access()
        raw, ttl = self.raw, self.ttl
        elements: list[Stamped] = raw.get()
        if not elements:
            return []
        alive = [element for element in elements if not ttl.is_expired(element)]
        if not alive:
            raw.clear()
        elif ttl.updates_on_read:
            raw.update([ttl.stamp(value) for value, _ in alive])
        return [value for value, _ in (elements if ttl.returns_expired else alive)]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.get())

    def add(self, value: Any) -> None:
        if self.on_access is not None:
            self.on_access()
        self.raw.add(self.ttl.stamp(value))

    def add_all(self, values: Iterable[Any]) -> None:
        if self.on_access is not None:
            self.on_access()
        self.raw.add_all([self.ttl.stamp(value) for value in values])

    def update(self, values: Iterable[Any]) -> None:
        if self.on_access is not None:
            self.on_access()
        self.raw.update([self.ttl.stamp(value) for value in values])

    def clean(self) -> None:
        elements = self.raw.get()
        alive = [element for element in elements if not self.ttl.is_expired(element)]
        if len(alive) < len(elements):
            self.raw.update(alive)


class TtlMapState(TtlState):
    """Entries expire one by one."""

    def _entry(self, key: Any) -> Stamped | None:
        """The entry as it is to be seen."""
        if self.on_access is not None:
            self.on_access()
        raw, ttl = self.raw, self.ttl
        stamped: Stamped | None = raw.get(key)
        if stamped is None:
            return None
        if ttl.is_expired(stamped):
            raw.remove(key)
            return stamped if ttl.returns_expired else None
        if ttl.updates_on_read:
            raw.put(key, ttl.stamp(stamped[0]))
        return stamped

    def get(self, key: Any) -> Any:
        stamped = self._entry(key)
        return None if stamped is None else stamped[0]

    def contains(self, key: Any) -> bool:
        return self._entry(key) is not None

    def put(self, key: Any, value: Any) -> None:
        if self.on_access is not None:
            self.on_access()
        self.raw.put(key, self.ttl.stamp(value))

    def put_all(self, dict_value: dict[Any, Any]) -> None:
        if self.on_access is not None:
            self.on_access()
        now = self.ttl.now_ms()
        self.raw.put_all({key: (value, now) for key, value in dict_value.items()})

    def remove(self, key: Any) -> None:
        if self.on_access is not None:
            self.on_access()
        self.raw.remove(key)

    def is_empty(self) -> bool:
        if self.on_access is not None:
            self.on_access()
        if self.raw.is_empty():
            return True
        return not any(self.ttl.is_visible(stamped) for stamped in self.raw.values())

    def items(self) -> list[tuple[Any, Any]]:
        if self.on_access is not None:
            self.on_access()
        raw, ttl = self.raw, self.ttl
        seen = []
        renewed = {}
        for key, stamped in raw.items():
            is_expired = ttl.is_expired(stamped)
            if is_expired:
                raw.remove(key)
            elif ttl.updates_on_read:
                renewed[key] = ttl.stamp(stamped[0])
            if not is_expired or ttl.returns_expired:
                seen.append((key, stamped[0]))
        if renewed:
            raw.put_all(renewed)
        return seen

    def keys(self) -> list[Any]:
        return [key for key, _ in self.items()]

    def values(self) -> list[Any]:
        return [value for _, value in self.items()]

    def clean(self) -> None:
        for key, stamped in self.raw.items():
            if self.ttl.is_expired(stamped):
                self.raw.remove(key)

    __getitem__ = get
    __setitem__ = put
    __delitem__ = remove
    __contains__ = contains

    def __iter__(self) -> Iterator[Any]:
        return iter(self.keys())


def create_ttl_state(kind: str, raw: Any, ttl: TimeToLive, descriptor: Any) -> TtlState:
    if kind == VALUE:
        return TtlValueState(raw, ttl)
    if kind == LIST:
        return TtlListState(raw, ttl)
    if kind == MAP:
        return TtlMapState(raw, ttl)
    if kind == REDUCING:
        return TtlReducingState(raw, ttl, descriptor.get_reduce_function().reduce)
    assert kind == AGGREGATING, kind
    return TtlAggregatingState(raw, ttl, descriptor.get_agg_function())


def clean_keys(state: TtlState, context: KeyContext, keys: Iterable[Any]) -> int:
    """Remove what has expired of these keys; for any backend. Does not tell how old the others are: 0."""
    current = context.key
    try:
        for context.key in keys:
            state.clean()
    finally:
        context.key = current
    return 0
