"""List state in RocksDB. New elements are stored as a new chunk, so `add` does not read the list.

The key of a chunk is the key of the list, followed by a number that grows over the whole database. Its value is a
pickled list of elements in the form in which they are held (`value_codec.freeze`). All elements added between two
spills are one chunk. A list that is read and has many chunks is rewritten as one chunk.

Source: org.apache.flink.state.rocksdb.RocksDBListState. Differs: it uses chunks instead of RocksDB's merge operator,
which rocksdict does not have.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from flinkpy.state.backend import KeyContext
from flinkpy.state.pickling import dumps, loads
from flinkpy.state.rocksdb.cached_state import MAX_GENERATION, MISSING, CachedState
from flinkpy.state.rocksdb.database import RocksDatabase
from flinkpy.state.rocksdb.key_codec import StateKeyCodec, after_prefix
from flinkpy.state.rocksdb.value_codec import PLAIN, Frozen, decode, freeze, thaw

CHUNK_NUMBER = struct.Struct(">Q")
#: A list with more chunks is rewritten when it is read.
_MAX_CHUNKS = 16
#: Longer lists are not kept in memory once they are written.
_MAX_KEPT = 1_024


def encode_chunk(held: list[Any]) -> bytes:
    """Returns the bytes of a chunk, given its elements as `freeze` returned them."""
    return dumps(held)


def decode_chunk(data: bytes) -> list[Any]:
    """Returns the values of a chunk's elements."""
    held = loads(data)
    if Frozen in set(map(type, held)):
        return [thaw(element) for element in held]
    return held  # type: ignore[no-any-return]


class _List:
    """The cached list of one key.

    Attributes:
        elements: all elements; None if they have not been read.
        added: the elements that the database does not have.
        chunks: the keys of the chunks in the database; None if they have not been read.
        is_replaced: the chunks in the database must be deleted first.
    """

    __slots__ = ("added", "chunks", "elements", "is_replaced")

    def __init__(self) -> None:
        self.elements: list[Any] | None = None
        self.added: list[Any] = []
        self.chunks: list[bytes] | None = None
        self.is_replaced = False


class RocksDBListState(CachedState):
    """A list per key. `next_chunk` returns ascending chunk numbers."""

    __slots__ = ("_added", "_next_chunk")

    def __init__(
        self,
        context: KeyContext,
        database: RocksDatabase,
        keys: StateKeyCodec,
        max_dirty_bytes: int,
        next_chunk: Callable[[], int],
    ) -> None:
        super().__init__(context, database, keys, max_dirty_bytes)
        self._next_chunk = next_chunk
        self._added = 0

    def get(self) -> list[Any]:
        """Returns a copy of the list, so user code may change it without changing the state."""
        key = self._context.key
        known = self._find(key)
        if known is MISSING:
            known = _List()
            self._read(key, known)
            self._remember(key, known)
        elif known.elements is None:
            self._read(key, known)
        elements = known.elements
        if Frozen in set(map(type, elements)):
            return [decode(element.data) if type(element) is Frozen else element for element in elements]
        return elements.copy()  # type: ignore[no-any-return]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.get())

    def _read(self, key: Any, known: _List) -> None:
        prefix = self._keys.encode(key)
        chunks: list[bytes] = []
        elements: list[Any] = []
        for chunk, data in self._database.scan(prefix, after_prefix(prefix)):
            chunks.append(chunk)
            elements += loads(data)
        known.chunks = chunks
        known.elements = elements + known.added
        if len(chunks) > _MAX_CHUNKS:
            known.is_replaced = True
            known.added = known.elements.copy()
            self._changed(key, known, len(known.added))

    def _for_change(self, key: Any) -> _List:
        known = self._find(key)
        return _List() if known is MISSING else known  # type: ignore[no-any-return]

    def _changed(self, key: Any, known: _List, weight: int) -> None:
        self._dirty[key] = known
        self._added += weight
        if self._added >= MAX_GENERATION or self._bytes >= self._max_dirty_bytes:
            self.spill()

    def add(self, value: Any) -> None:
        if type(value) not in PLAIN:
            self._add_all((value,))
            return
        key = self._context.key
        known = self._dirty.get(key)
        if known is None:
            known = self._dirty[key] = self._for_change(key)
        known.added.append(value)
        if known.elements is not None:
            known.elements.append(value)
        self._added += 1
        if self._added >= MAX_GENERATION:
            self.spill()

    def _add_all(self, values: Iterable[Any]) -> None:
        added = [freeze(value) for value in values]
        if not added:
            return
        key = self._context.key
        known = self._for_change(key)
        known.added += added
        if known.elements is not None:
            known.elements += added
        self._count_bytes(added)
        self._changed(key, known, len(added))

    # Methods call the private names of others, so that tracking sees the calls of functions only.
    add_all = _add_all

    def _count_bytes(self, added: list[Any]) -> None:
        for held in added:
            if type(held) is Frozen:
                self._bytes += len(held.data)

    def _update(self, values: Iterable[Any]) -> None:
        replaced = [freeze(value) for value in values]
        key = self._context.key
        known = self._for_change(key)
        known.elements, known.added, known.is_replaced = replaced, replaced.copy(), True
        self._count_bytes(replaced)
        self._changed(key, known, len(replaced) + 1)

    update = _update

    def clear(self) -> None:
        self._update(())

    def _write(self, dirty: dict[Any, Any]) -> None:
        changes: list[tuple[bytes, bytes | None]] = []
        for prefix, known in zip(self._keys.encode_many(list(dirty)), dirty.values()):
            if known.is_replaced:
                if known.chunks is None:
                    known.chunks = [chunk for chunk, _ in self._database.scan(prefix, after_prefix(prefix))]
                changes += [(chunk, None) for chunk in known.chunks]
                known.chunks = []
                known.is_replaced = False
            if known.added:
                chunk = prefix + CHUNK_NUMBER.pack(self._next_chunk())
                changes.append((chunk, encode_chunk(known.added)))
                known.added = []
                if known.chunks is not None:
                    known.chunks.append(chunk)
        changes.sort()
        self._database.write(changes)

    def _kept(self, dirty: dict[Any, Any]) -> dict[Any, Any]:
        self._added = 0
        return {
            key: known
            for key, known in dirty.items()
            if known.elements is not None and len(known.elements) <= _MAX_KEPT
        }
