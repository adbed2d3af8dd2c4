"""CachedState: the cache of one state in RocksDB. It holds recently used entries by key, in three generations.

`dirty` holds the changes that the database does not have yet. When it is full, it is written in one batch in the order
of the keys and becomes `clean`. The previous `clean` becomes `old`, and the previous `old` is dropped. Entries that
were read from the database are added to `clean`. A lookup goes through `dirty`, `clean`, `old` and the database in this
order. So it finds the newest entry first, and keys in use stay in memory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

from flinkpy.state.backend import KeyContext
from flinkpy.state.rocksdb.database import RocksDatabase
from flinkpy.state.rocksdb.key_codec import StateKeyCodec

#: The maximum number of keys of a generation: about 10 MB if keys and values are small.
MAX_GENERATION = 65_536
MISSING: Any = object()


class CachedState(ABC):
    """Base class of the states of the backend. Thread: task thread.

    Args:
        max_dirty_bytes: the total size at which values held as bytes are written.
    """

    __slots__ = ("_bytes", "_clean", "_context", "_database", "_dirty", "_keys", "_max_dirty_bytes", "_old")

    def __init__(self, context: KeyContext, database: RocksDatabase, keys: StateKeyCodec, max_dirty_bytes: int) -> None:
        self._context = context
        self._database = database
        self._keys = keys
        self._max_dirty_bytes = max_dirty_bytes
        self._dirty: dict[Any, Any] = {}
        self._clean: dict[Any, Any] = {}
        self._old: dict[Any, Any] = {}
        #: The total size of the values held as bytes in `dirty` and `clean`.
        self._bytes = 0

    def _find(self, key: Any) -> Any:
        """Returns the cached entry of the key; MISSING if it is not cached."""
        held = self._dirty.get(key, MISSING)
        if held is MISSING:
            held = self._clean.get(key, MISSING)
            if held is MISSING:
                held = self._old.get(key, MISSING)
                if held is not MISSING:
                    self._remember(key, held)
        return held

    def _remember(self, key: Any, held: Any) -> None:
        """Caches an entry that is in the database."""
        self._clean[key] = held
        if len(self._clean) >= MAX_GENERATION or self._bytes >= self._max_dirty_bytes:
            self._old, self._clean = self._clean, {}
            self._bytes = 0

    def spill(self) -> None:
        """Writes the changes to the database."""
        dirty = self._dirty
        if not dirty:
            return
        self._write(dirty)
        self._old = self._clean
        self._clean = self._kept(dirty)
        self._dirty = {}
        self._bytes = 0

    @abstractmethod
    def _write(self, dirty: dict[Any, Any]) -> None:
        """Writes entries to the database in the order of their keys."""

    def _kept(self, dirty: dict[Any, Any]) -> dict[Any, Any]:
        """Returns the part of the written entries that stays in memory."""
        return dirty

    def forget(self) -> None:
        """Drops all entries in memory, including changes that are not written."""
        self._dirty, self._clean, self._old = {}, {}, {}
        self._bytes = 0


def in_order(keys: list[bytes], values: Iterable[bytes | None]) -> Iterator[tuple[bytes, bytes | None]]:
    """Returns the pairs in the order of the keys, which are distinct."""
    return iter(sorted(zip(keys, values), key=_key_of))


def _key_of(pair: tuple[bytes, Any]) -> bytes:
    return pair[0]
