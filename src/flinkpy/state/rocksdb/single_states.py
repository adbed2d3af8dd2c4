"""Value, reducing and aggregating state in RocksDB, with one database entry per key.

Source: org.apache.flink.state.rocksdb.{RocksDBValueState,RocksDBReducingState,RocksDBAggregatingState}.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from flinkpy.state.backend import KeyContext
from flinkpy.state.rocksdb.cached_state import MAX_GENERATION, MISSING, CachedState
from flinkpy.state.rocksdb.database import RocksDatabase
from flinkpy.state.rocksdb.key_codec import StateKeyCodec
from flinkpy.state.rocksdb.value_codec import PLAIN, Frozen, decode, encode_many, freeze, hold, hold_many


def objects(values: list[Any]) -> np.ndarray:
    """Returns the values as object[n]."""
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


class _SingleState(CachedState):
    """Base class of states with one value per key. The cache holds None for a key without a value."""

    __slots__ = ()

    def _write(self, dirty: dict[Any, Any]) -> None:
        keys, order = self._keys.encode_sorted(list(dirty))
        held = objects(list(dirty.values()))[order].tolist()
        if None not in held:
            self._database.put_many(keys, encode_many(held))
            return
        encoded = iter(encode_many([value for value in held if value is not None]))
        self._database.write((key, None if value is None else next(encoded)) for key, value in zip(keys, held))

    def _load(self, key: Any) -> Any:
        """Returns the held value of a key that is not in `dirty`."""
        held = self._clean.get(key, MISSING)
        if held is MISSING:
            held = self._old.get(key, MISSING)
            if held is MISSING:
                data = self._database.get(self._keys.encode(key))
                held = None if data is None else hold(data)
                if type(held) is Frozen:
                    self._bytes += len(held.data)
            self._remember(key, held)
        return held

    def clear(self) -> None:
        self._dirty[self._context.key] = None
        if len(self._dirty) >= MAX_GENERATION:
            self.spill()

    def _put_held(self, key: Any, value: Any) -> None:
        """Stores a value that is neither a plain object nor None."""
        held = freeze(value)
        self._dirty[key] = held
        if type(held) is Frozen:
            self._bytes += len(held.data)
            if self._bytes >= self._max_dirty_bytes:
                self.spill()


class RocksDBValueState(_SingleState):
    """A value per key."""

    __slots__ = ()

    def value(self) -> Any:
        key = self._context.key
        held = self._dirty.get(key, MISSING)
        if held is MISSING:
            held = self._load(key)
        return decode(held.data) if type(held) is Frozen else held

    def update(self, value: Any) -> None:
        key = self._context.key
        if type(value) in PLAIN:
            self._dirty[key] = value
        else:
            self._put_held(key, value)
        if len(self._dirty) >= MAX_GENERATION:
            self.spill()

    # -- batch face ------------------------------------------------------------------------------------------------

    def get_many(self, keys: Iterable[Any]) -> list[Any]:
        """Returns the value of each key, None for a key without one. Reads all uncached keys in one probe."""
        keys = keys if isinstance(keys, list) else list(keys)
        dirty, clean, old = self._dirty, self._clean, self._old
        if dirty or clean or old:
            values = [dirty.get(key, MISSING) for key in keys]
            missing = [index for index, held in enumerate(values) if held is MISSING]
            for generation in (clean, old):
                if missing and generation:
                    for index in missing:
                        values[index] = generation.get(keys[index], MISSING)
                    missing = [index for index in missing if values[index] is MISSING]
            if missing:
                for index, held in zip(missing, self._load_many([keys[index] for index in missing])):
                    values[index] = held
        else:
            values = self._load_many(keys)
        if Frozen in set(map(type, values)):
            return [decode(held.data) if type(held) is Frozen else held for held in values]
        return values

    def _load_many(self, keys: list[Any]) -> list[Any]:
        """Reads the values of uncached keys from the database."""
        encoded, order = self._keys.encode_sorted(keys)
        found = objects(hold_many(self._database.get_many(encoded)))
        in_order = np.empty_like(found)
        in_order[order] = found
        held = in_order.tolist()
        if len(keys) < MAX_GENERATION:
            self._bytes += sum(len(value.data) for value in held if type(value) is Frozen)
            self._clean.update(zip(keys, held))
            if len(self._clean) >= MAX_GENERATION or self._bytes >= self._max_dirty_bytes:
                self._old, self._clean = self._clean, {}
                self._bytes = 0
        return held

    def put_many(self, keys: Iterable[Any], values: Iterable[Any]) -> None:
        """Replaces the values. None removes a value. If a key occurs twice, its last value is kept."""
        values = values if isinstance(values, list) else list(values)
        if not set(map(type, values)) <= PLAIN:
            values = [freeze(value) for value in values]
            self._bytes += sum(len(held.data) for held in values if type(held) is Frozen)
        self._dirty.update(zip(keys, values, strict=True))
        if len(self._dirty) >= MAX_GENERATION or self._bytes >= self._max_dirty_bytes:
            self.spill()


class RocksDBReducingState(_SingleState):
    """The reduced value per key."""

    __slots__ = ("_reduce",)

    def __init__(
        self, context: KeyContext, database: RocksDatabase, keys: StateKeyCodec, max_dirty_bytes: int, reduce: Any
    ) -> None:
        super().__init__(context, database, keys, max_dirty_bytes)
        self._reduce = reduce

    def get(self) -> Any:
        key = self._context.key
        held = self._dirty.get(key, MISSING)
        if held is MISSING:
            held = self._load(key)
        return decode(held.data) if type(held) is Frozen else held

    def add(self, value: Any) -> None:
        key = self._context.key
        held = self._dirty.get(key, MISSING)
        if held is MISSING:
            held = self._load(key)
        known = decode(held.data) if type(held) is Frozen else held
        reduced = value if known is None else self._reduce(known, value)
        if type(reduced) in PLAIN:
            self._dirty[key] = reduced
        else:
            self._put_held(key, reduced)
        if len(self._dirty) >= MAX_GENERATION:
            self.spill()


class RocksDBAggregatingState(_SingleState):
    """The accumulator of an AggregateFunction per key.

    A recently changed accumulator is held as an object, because only the aggregate function sees it.
    """

    __slots__ = ("_function",)

    def __init__(
        self, context: KeyContext, database: RocksDatabase, keys: StateKeyCodec, max_dirty_bytes: int, function: Any
    ) -> None:
        super().__init__(context, database, keys, max_dirty_bytes)
        self._function = function

    def _accumulator(self, key: Any) -> Any:
        held = self._dirty.get(key, MISSING)
        if held is MISSING:
            held = self._load(key)
        return decode(held.data) if type(held) is Frozen else held

    def get(self) -> Any:
        accumulator = self._accumulator(self._context.key)
        return None if accumulator is None else self._function.get_result(accumulator)

    def add(self, value: Any) -> None:
        key = self._context.key
        accumulator = self._accumulator(key)
        if accumulator is None:
            accumulator = self._function.create_accumulator()
        self._dirty[key] = self._function.add(value, accumulator)
        if len(self._dirty) >= MAX_GENERATION:
            self.spill()

    def accumulator(self) -> Any:
        """Returns the accumulator; None if there is none."""
        return self._accumulator(self._context.key)

    def set_accumulator(self, accumulator: Any) -> None:
        self._dirty[self._context.key] = accumulator
        if len(self._dirty) >= MAX_GENERATION:
            self.spill()

    def _kept(self, dirty: dict[Any, Any]) -> dict[Any, Any]:
        """See CachedState. Drops mutable accumulators, which may have been returned as results, so that they are read
        from their bytes.
        """
        return {key: held for key, held in dirty.items() if held is None or type(held) in PLAIN}
