"""State with a time-to-live: wrappers around the states of any backend, and the clean-up of expired values.

Each value, list element or map value is stored as `(value, time of last access in ms)` in all backends and snapshots.
A state removes an expired value when it finds it. The read that finds it returns None or, if so configured, the value
one last time.

Source: org.apache.flink.runtime.state.ttl.{Ttl*State,TtlUtils,TtlIncrementalCleanup,TtlStateSnapshotTransformer}.
Differs: a map whose entries have all expired is empty, even before they are removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from flinkpy.state.key_context import KeyContext
from flinkpy.state.meta_info import AGGREGATING, LIST, MAP, REDUCING, VALUE

#: The number of accesses to a state between two steps of its clean-up.
_ACCESSES = 16

#: `(value, time of last access in ms)`.
Stamped = tuple[Any, int]


class TimeToLive:
    """The values of a StateTtlConfig. Thread: any.

    Attributes:
        ttl_ms: the time from the last access of a value to its expiry.
        updates_on_read: a read counts as an access.
        returns_expired: an expired value is visible until it is removed.
    """

    def __init__(self, config: Any, now_ms: Callable[[], int]) -> None:
        self.ttl_ms: int = config.get_ttl().to_milliseconds()
        self.updates_on_read = config.get_update_type().name == "OnReadAndWrite"
        self.returns_expired = config.get_state_visibility().name == "ReturnExpiredIfNotCleanedUp"
        self.now_ms = now_ms
        strategies = config.get_cleanup_strategies()
        #: Snapshots leave out expired values.
        self.cleans_snapshots: bool = strategies.in_full_snapshot()
        #: (entries checked per access, True to check also for every record); None without an incremental clean-up.
        self.incremental: tuple[int, bool] | None = None
        strategy = strategies.get_incremental_cleanup_strategy()
        if strategy is not None:
            self.incremental = (strategy.get_cleanup_size(), strategy.run_cleanup_for_every_record())

    def stamp(self, value: Any) -> Stamped:
        return (value, self.now_ms())

    def is_expired(self, stamped: Stamped) -> bool:
        return stamped[1] + self.ttl_ms <= self.now_ms()

    def is_visible(self, stamped: Stamped) -> bool:
        return self.returns_expired or stamped[1] + self.ttl_ms > self.now_ms()

    def unexpired(self, kind: str, stored: Any, now_ms: int) -> Any | None:
        """Returns the unexpired part of a key's entry in a state of that kind.

        Returns `stored` itself if nothing has expired, and None if everything has.
        """
        alive_after = now_ms - self.ttl_ms
        if kind == LIST:
            kept = [element for element in stored if element[1] > alive_after]
            return stored if len(kept) == len(stored) else kept or None
        if kind == MAP:
            entries = {key: element for key, element in stored.items() if element[1] > alive_after}
            return stored if len(entries) == len(stored) else entries or None
        return stored if stored[1] > alive_after else None


class IncrementalCleanup:
    """Checks the keys of a state in rounds, a few keys at a time, and removes expired values. Thread: task thread.

    After a whole round it waits until the oldest value that it has seen expires. Nothing can expire before, because all
    values written since are younger.

    Args:
        size: the number of keys to check per access.
        keys: returns the keys of the state, at the begin of each round.
        clean: removes the expired values of these keys and returns the oldest time stamp that is left.
    """

    def __init__(
        self,
        ttl: TimeToLive,
        size: int,
        keys: Callable[[], Iterable[Any]],
        clean: Callable[[Sequence[Any]], int],
    ) -> None:
        self._ttl = ttl
        self._size = size
        self._keys = keys
        self._clean = clean
        self._round: list[Any] = []
        self._oldest = 0
        self._accesses = 0

    def on_access(self) -> None:
        """Counts an access. Runs the steps of several accesses at once, to reduce the overhead."""
        self._accesses += 1
        if self._accesses == _ACCESSES:
            self._accesses = 0
            self.run(_ACCESSES)

    def run(self, times: int) -> None:
        """Runs `times` steps of `size` keys each, but not beyond the end of the round."""
        if not self._round:
            now_ms = self._ttl.now_ms()
            if now_ms < self._oldest + self._ttl.ttl_ms:
                return
            self._round = list(self._keys())
            self._oldest = now_ms
        count = self._size * times
        piece = self._round[-count:]
        del self._round[-count:]
        self._oldest = min(self._oldest, self._clean(piece))


class TtlState:
    """Base class of states with a time-to-live. `raw` is the state of the backend."""

    def __init__(self, raw: Any, ttl: TimeToLive) -> None:
        self.raw = raw
        self.ttl = ttl
        #: Called at each access if a clean-up is configured.
        self.on_access: Callable[[], None] | None = None

    def clear(self) -> None:
        if self.on_access is not None:
            self.on_access()
        self.raw.clear()

    def clean(self) -> None:
        """Removes the expired values of the current key."""
        raise NotImplementedError


class _OneValueState(TtlState):
    """A state with one stamped value per key: base class of value, reducing and aggregating states."""

    def _read(self) -> Any:
        """Returns the visible value; None if there is none."""
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
        """Returns the visible value, for `add`; None if there is none. It does not count as a read."""
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
        """Returns the value of each key, None for a key without one."""
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
        """Returns the accumulator; None if there is none."""
        return self._current()

    def set_accumulator(self, accumulator: Any) -> None:
        self._write(accumulator)


class TtlListState(TtlState):
    """A list state whose elements expire separately. `get` removes them when all of them have expired."""

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
    """A map state whose entries expire separately."""

    def _entry(self, key: Any) -> Stamped | None:
        """Returns the visible entry of a map key; None if there is none."""
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

    def _items(self) -> list[tuple[Any, Any]]:
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

    items = _items

    def keys(self) -> list[Any]:
        return [key for key, _ in self._items()]

    def values(self) -> list[Any]:
        return [value for _, value in self._items()]

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
    """Removes the expired values of these keys, in any backend.

    Returns 0 as the lower bound of the remaining time stamps, because it does not look at them.
    """
    current = context.key
    try:
        for context.key in keys:
            state.clean()
    finally:
        context.key = current
    return 0
