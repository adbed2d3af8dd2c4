"""CachedState: what was lately read or written of one state stays in memory, by key, in three generations.

`dirty` is what the database does not have yet. When it is full it is written, in one batch in order of key, and becomes
`clean`; what was clean becomes `old`, what was old is forgotten. What is read joins `clean`. A key is looked up in
`dirty`, `clean`, `old`, and then in the database; so what is found first is the newest, and keys in use stay.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

from flinkpy.state.backend import KeyContext
from flinkpy.state.rocksdb.database import RocksDatabase
from flinkpy.state.rocksdb.key_codec import StateKeyCodec

#: Keys of one generation; some 10 MB where keys and values are small.
MAX_GENERATION = 65_536
MISSING: Any = object()


class CachedState(ABC):
    """Thread: task thread.

    Args:
        max_dirty_bytes: of values that are held as bytes, before they are written.
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
        #: Of values held as bytes, in dirty and clean.
        self._bytes = 0

    def _find(self, key: Any) -> Any:
        """What is held for the key; MISSING: nothing."""
        held = self._dirty.get(key, MISSING)
        if held is MISSING:
            held = self._clean.get(key, MISSING)
            if held is MISSING:
                held = self._old.get(key, MISSING)
                if held is not MISSING:
                    self._remember(key, held)
        return held

    def _remember(self, key: Any, held: Any) -> None:
        """`held` is what the database has."""
        self._clean[key] = held
        if len(self._clean) >= MAX_GENERATION or self._bytes >= self._max_dirty_bytes:
            self._old, self._clean = self._clean, {}
            self._bytes = 0

    def spill(self) -> None:
        """Write what the database does not have."""
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
        """To the database, in order of key."""

    def _kept(self, dirty: dict[Any, Any]) -> dict[Any, Any]:
        """What stays in memory of what has been written."""
        return dirty

    def forget(self) -> None:
        """Everything in memory, written or not."""
        self._dirty, self._clean, self._old = {}, {}, {}
        self._bytes = 0


def in_order(keys: list[bytes], values: Iterable[bytes | None]) -> Iterator[tuple[bytes, bytes | None]]:
    """Pairs in order of key; the keys are distinct."""
    return iter(sorted(zip(keys, values), key=_key_of))


def _key_of(pair: tuple[bytes, Any]) -> bytes:
    return pair[0]
