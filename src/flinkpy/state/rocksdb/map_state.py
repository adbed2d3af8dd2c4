"""Map state in RocksDB: one database entry per map entry. Its key is the key of the state, followed by the map key.

Source: org.apache.flink.state.rocksdb.RocksDBMapState.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flinkpy.records.key_identity import entry_key, user_key
from flinkpy.state.backend import KeyContext
from flinkpy.state.rocksdb.cached_state import MAX_GENERATION, MISSING, CachedState
from flinkpy.state.rocksdb.database import RocksDatabase
from flinkpy.state.rocksdb.key_codec import StateKeyCodec, after_prefix
from flinkpy.state.rocksdb.key_codec import decode as decode_key
from flinkpy.state.rocksdb.key_codec import encode as encode_key
from flinkpy.state.rocksdb.value_codec import PLAIN, Frozen, decode, encode, freeze, hold

#: Larger maps are not kept in memory once they are written.
_MAX_KEPT = 1_024
#: Marks an entry that does not exist. None is a valid value.
ABSENT: Any = object()


class _Map:
    """The cached map of one key.

    Attributes:
        entries: the cached values, or ABSENT, by `entry_key` of the map key.
        is_complete: entries that are not in `entries` do not exist.
        changed: the map keys of entries that differ from the database.
        is_cleared: the entries in the database must be deleted first.
    """

    __slots__ = ("changed", "entries", "is_cleared", "is_complete")

    def __init__(self) -> None:
        self.entries: dict[Any, Any] = {}
        self.is_complete = False
        self.changed: dict[Any, None] = {}
        self.is_cleared = False


class RocksDBMapState(CachedState):
    """A map per key."""

    __slots__ = ("_weight",)

    def __init__(self, context: KeyContext, database: RocksDatabase, keys: StateKeyCodec, max_dirty_bytes: int) -> None:
        super().__init__(context, database, keys, max_dirty_bytes)
        #: The number of entries that were changed or read since the last spill.
        self._weight = 0

    # -- one entry -------------------------------------------------------------------------------------------------

    def get(self, key: Any) -> Any:
        held = self._held(key)
        if type(held) is Frozen:
            return decode(held.data)
        return None if held is ABSENT else held

    def contains(self, key: Any) -> bool:
        return self._held(key) is not ABSENT

    def _held(self, key: Any) -> Any:
        kind = type(key)
        if kind is not int and kind is not str:
            key = entry_key(key)
        state_key = self._context.key
        known = self._find(state_key)
        if known is MISSING:
            known = _Map()
            self._remember(state_key, known)
        held = known.entries.get(key, MISSING)
        if held is MISSING:
            if known.is_complete:
                return ABSENT
            data = self._database.get(self._keys.encode(state_key) + encode_key(key))
            held = known.entries[key] = ABSENT if data is None else hold(data)
            self._count(held)
        return held

    def _count(self, held: Any) -> None:
        """Counts a new entry in memory, and reduces the memory if a limit is reached."""
        if type(held) is Frozen:
            self._bytes += len(held.data)
        self._weight += 1
        if self._weight >= MAX_GENERATION or self._bytes >= self._max_dirty_bytes:
            self._weight = 0
            if self._dirty:
                self.spill()
            else:
                self._old, self._clean = self._kept(self._clean), {}
                self._bytes = 0

    def _for_change(self, state_key: Any) -> _Map:
        known = self._find(state_key)
        if known is MISSING:
            known = _Map()
        self._dirty[state_key] = known
        return known  # type: ignore[no-any-return]

    def _put(self, key: Any, value: Any) -> None:
        kind = type(key)
        if kind is not int and kind is not str:
            key = entry_key(key)
        state_key = self._context.key
        known = self._dirty.get(state_key)
        if known is None:
            known = self._for_change(state_key)
        known.changed[key] = None
        if type(value) in PLAIN:
            known.entries[key] = value
            self._weight += 1
            if self._weight >= MAX_GENERATION:
                self.spill()
        else:
            held = known.entries[key] = freeze(value)
            self._count(held)

    # Methods call the private names of others, so that tracking sees the calls of functions only.
    put = _put

    def put_all(self, dict_value: dict[Any, Any]) -> None:
        for key, value in dict_value.items():
            self._put(key, value)

    def remove(self, key: Any) -> None:
        key = entry_key(key)
        state_key = self._context.key
        known = self._for_change(state_key)
        known.entries[key] = ABSENT
        known.changed[key] = None
        self._count(ABSENT)

    # -- the whole map ---------------------------------------------------------------------------------------------

    def _whole(self) -> dict[Any, Any]:
        """Returns the complete map, including ABSENT entries."""
        state_key = self._context.key
        known = self._find(state_key)
        if known is MISSING:
            known = _Map()
            self._remember(state_key, known)
        entries: dict[Any, Any] = known.entries
        if not known.is_complete:
            prefix = self._keys.encode(state_key)
            for data_key, data in self._database.scan(prefix, after_prefix(prefix)):
                key = entry_key(decode_key(data_key, len(prefix))[0])
                if key not in entries:
                    entries[key] = held = hold(data)
                    if type(held) is Frozen:
                        self._bytes += len(held.data)
            known.is_complete = True
            self._weight += len(entries)
        return entries

    def _items(self) -> list[tuple[Any, Any]]:
        """Returns a copy in no particular order, so entries may be removed during an iteration."""
        return [
            (user_key(key), decode(held.data) if type(held) is Frozen else held)
            for key, held in self._whole().items()
            if held is not ABSENT
        ]

    items = _items

    def keys(self) -> list[Any]:
        return [user_key(key) for key, held in self._whole().items() if held is not ABSENT]

    def values(self) -> list[Any]:
        return [value for _, value in self._items()]

    def is_empty(self) -> bool:
        state_key = self._context.key
        known = self._find(state_key)
        entries: dict[Any, Any] = {} if known is MISSING else known.entries
        if any(held is not ABSENT for held in entries.values()):
            return False
        if known is not MISSING and known.is_complete:
            return True
        prefix = self._keys.encode(state_key)
        pairs = self._database.scan(prefix, after_prefix(prefix))
        return all(entry_key(decode_key(data_key, len(prefix))[0]) in entries for data_key, _ in pairs)

    def clear(self) -> None:
        state_key = self._context.key
        known = self._for_change(state_key)
        if known.is_complete and not known.is_cleared:
            # All entries that may be in the database are known, so the next spill need not search for them.
            for key in known.entries:
                known.entries[key] = ABSENT
                known.changed[key] = None
        else:
            known.entries, known.changed = {}, {}
            known.is_cleared = known.is_complete = True
        self._count(ABSENT)

    __getitem__ = get
    __setitem__ = put
    __delitem__ = remove
    __contains__ = contains

    def __iter__(self) -> Iterator[Any]:
        return iter(self.keys())

    # -- writing ---------------------------------------------------------------------------------------------------

    def _write(self, dirty: dict[Any, Any]) -> None:
        changes: list[tuple[bytes, bytes | None]] = []
        for prefix, known in zip(self._keys.encode_many(list(dirty)), dirty.values()):
            entries = known.entries
            own: dict[bytes, bytes | None] = {}
            if known.is_cleared:
                own.update((key, None) for key, _ in self._database.scan(prefix, after_prefix(prefix)))
                known.is_cleared = False
            for key in known.changed:
                held = entries[key]
                own[prefix + encode_key(key)] = None if held is ABSENT else encode(held)
            known.changed = {}
            changes += own.items()
        changes.sort(key=_key_of)
        self._database.write(changes)

    def _kept(self, dirty: dict[Any, Any]) -> dict[Any, Any]:
        self._weight = 0
        kept = {}
        for key, known in dirty.items():
            if len(known.entries) <= _MAX_KEPT:
                if known.is_complete:
                    known.entries = {entry: held for entry, held in known.entries.items() if held is not ABSENT}
                kept[key] = known
        return kept


def _key_of(pair: tuple[bytes, bytes | None]) -> bytes:
    return pair[0]
