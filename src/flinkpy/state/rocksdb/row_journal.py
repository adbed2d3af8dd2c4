"""RowJournal: keeps rows of a table in memory also in the database, as batches of changes per key group.

The database has, for each key group, a sequence of entries. Each one has the rows that were added or changed before one
call of `write`, as an Arrow batch, and the ids of the rows that were removed. A later entry replaces rows of earlier
ones. So an incremental checkpoint contains only new data, and no row costs an entry of its own. When less than half of
the stored rows of a key group are live, or when it has many small entries, they are written anew as one.

```
key   = key group (u16) | number of the state (u16) | tag (u8) | number of the entry (int64)
entry = number of removed ids (u32) | removed ids (int64 each) | Arrow batch: columns of the row, id
```
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from flinkpy.state.growing import with_room
from flinkpy.state.rocksdb.database import Pair, RocksDatabase
from flinkpy.state.rocksdb.key_codec import PREFIX, StateKeyCodec

_COUNT = struct.Struct("<I")
_NUMBER = struct.Struct(">q")
_NO_IDS = np.empty(0, dtype=np.int64)
#: Marks a row without an id or key group.
_NONE = -1
#: A key group with more entries than this is written anew if they have fewer rows on average than _SMALL_ENTRY.
_MAX_SMALL_ENTRIES, _SMALL_ENTRY = 32, 128
#: The number of key groups that one call writes anew.
_MAX_ANEW = 2
#: A key group with fewer stored rows is not written anew because of removed ones.
_MIN_STORED = 64


def encode_entry(batch: pa.RecordBatch, removed: np.ndarray) -> bytes:
    rows = batch.serialize().to_pybytes() if batch.num_rows else b""
    return _COUNT.pack(len(removed)) + removed.astype("<i8").tobytes() + rows


def decode_entry(data: bytes, schema: pa.Schema) -> tuple[pa.RecordBatch | None, np.ndarray]:
    """Returns the rows of an entry, and the ids of removed ones."""
    (count,) = _COUNT.unpack_from(data)
    end = _COUNT.size + 8 * count
    removed = np.frombuffer(data, dtype="<i8", count=count, offset=_COUNT.size)
    if end == len(data):
        return None, removed
    return pa.ipc.read_record_batch(pa.py_buffer(data[end:]), schema), removed


class StoredRows(NamedTuple):
    """The rows of a key group in the database.

    Attributes:
        live: the rows that are neither outdated nor removed, in the order of their ids; None if nothing was stored.
        num_rows: the number of stored rows.
        num_entries: the number of entries.
        last_entry: the number of the last entry.
        last_id: the highest id of a row, or of a removed one: an entry that lists it would remove a new row with it.
    """

    live: pa.RecordBatch | None
    num_rows: int
    num_entries: int
    last_entry: int
    last_id: int


def read_rows(pairs: Iterable[Pair], schema: pa.Schema) -> StoredRows:
    """Reads all entries of a key group.

    Args:
        schema: of the entries' batches. Its last column is the id.
    """
    entries = [(_NUMBER.unpack_from(key, PREFIX.size + 1)[0], data) for key, data in pairs]
    batches: list[pa.RecordBatch] = []
    removals = [_NO_IDS]
    for _, data in entries:
        batch, ids = decode_entry(data, schema)
        removals.append(ids)
        if batch is not None:
            batches.append(batch)
    last = entries[-1][0] if entries else 0
    removed = np.concatenate(removals)
    last_id = int(removed.max(initial=_NONE))
    if not batches:
        return StoredRows(None, 0, len(entries), last, last_id)
    rows = pa.concat_batches(batches)
    ids = rows.column(len(schema) - 1).to_numpy()
    # The last version of each row. Ids are never used again.
    order = np.argsort(ids, kind="stable")
    is_last = np.append(ids[order][1:] != ids[order][:-1], True)
    kept = order[is_last]
    kept = kept[~np.isin(ids[kept], removed)]
    return StoredRows(rows.take(pa.array(kept)), rows.num_rows, len(entries), last, max(last_id, int(ids.max())))


class RowJournal:
    """Thread: task thread.

    Args:
        tag: the byte after the prefix in the keys of its entries.
        schema: of the entries' batches. Its last column is the id.
    """

    def __init__(
        self, database: RocksDatabase, codec: StateKeyCodec, max_parallelism: int, tag: int, schema: pa.Schema
    ) -> None:
        self._database = database
        self._codec = codec
        self._max_parallelism = max_parallelism
        self._tag = bytes([tag])
        self._after_tag = bytes([tag + 1])
        self.schema = schema
        #: By row: its id and its key group, and if the database has it, and if it differs from there.
        self._ids = _NO_IDS
        self._group = np.empty(0, dtype=np.int32)
        self._is_stored = self._is_dirty = np.empty(0, dtype=bool)
        self._end = 0
        self._next_id = 0
        #: The number of rows that differ from the database.
        self.num_dirty = 0
        #: The key groups and ids of stored rows that have been removed since the last call of `write`.
        self._removed: list[tuple[np.ndarray, np.ndarray]] = []
        #: By key group: the stored rows (including outdated ones), the live rows, and the entries.
        self.stored_rows = np.zeros(max_parallelism, dtype=np.int64)
        self._live_rows = np.zeros(max_parallelism, dtype=np.int64)
        self.entries = np.zeros(max_parallelism, dtype=np.int64)
        self._last_entry = 0

    def load(self, key_groups_owned: Iterable[int]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yields the key groups with their live rows. The caller passes the rows' numbers to `restored`."""
        for key_group in key_groups_owned:
            stored = read_rows(self._database.scan(*self._range(key_group)), self.schema)
            self._last_entry = max(self._last_entry, stored.last_entry)
            self._next_id = max(self._next_id, stored.last_id + 1)
            self.stored_rows[key_group], self.entries[key_group] = stored.num_rows, stored.num_entries
            if stored.live is not None and stored.live.num_rows:
                yield key_group, stored.live

    def restored(self, rows: np.ndarray, key_group: int, ids: np.ndarray) -> None:
        """Notes the numbers of rows that `load` yielded."""
        self._make_room(rows)
        self._ids[rows], self._group[rows] = ids, key_group
        self._is_stored[rows], self._is_dirty[rows] = True, False
        self._live_rows[key_group] += len(rows)

    def _range(self, key_group: int) -> tuple[bytes, bytes]:
        prefix = self._codec.prefix(key_group)
        return prefix + self._tag, prefix + self._after_tag

    def _make_room(self, rows: np.ndarray) -> None:
        end = int(rows.max()) + 1
        if end > self._end:
            self._ids, self._group = with_room(self._ids, end), with_room(self._group, end)
            self._is_stored, self._is_dirty = with_room(self._is_stored, end), with_room(self._is_dirty, end)
            self._ids[self._end : end] = self._group[self._end : end] = _NONE
            self._is_stored[self._end : end] = self._is_dirty[self._end : end] = False
            self._end = end

    # -- changes -----------------------------------------------------------------------------------------------------

    def change(self, rows: np.ndarray) -> None:
        """Notes that distinct rows are new or have changed."""
        if not len(rows):
            return
        self._make_room(rows)
        new = rows[self._ids.take(rows) < 0]
        self._ids[new] = np.arange(self._next_id, self._next_id + len(new))
        self._next_id += len(new)
        self.num_dirty += len(rows) - int(np.count_nonzero(self._is_dirty.take(rows)))
        self._is_dirty[rows] = True

    def has(self, rows: np.ndarray) -> np.ndarray:
        """Returns bool[n]: true for rows that `change` or `restored` has noted."""
        known = rows < self._end
        return known if not self._end else known & (self._ids.take(np.where(known, rows, 0)) >= 0)

    def unplaced(self) -> np.ndarray:
        """Returns the changed rows whose key groups are not known yet. The caller passes them to `place`."""
        dirty = self._dirty()
        return dirty[self._group.take(dirty) < 0]

    def place(self, rows: np.ndarray, groups: np.ndarray) -> None:
        """Sets the key groups of new rows."""
        self._group[rows] = groups
        self._live_rows += np.bincount(groups, minlength=self._max_parallelism)

    def remove(self, rows: np.ndarray) -> None:
        """Notes that distinct rows are gone. Their numbers may be used for others. Unknown rows are ignored."""
        rows = rows[rows < self._end]
        rows = rows[self._ids.take(rows) >= 0]
        if not len(rows):
            return
        groups = self._group.take(rows)
        is_stored = self._is_stored.take(rows)
        if is_stored.any():
            self._removed.append((groups[is_stored], self._ids.take(rows[is_stored])))
        self._live_rows -= np.bincount(groups[groups >= 0], minlength=self._max_parallelism)
        self.num_dirty -= int(np.count_nonzero(self._is_dirty.take(rows)))
        self._ids[rows] = self._group[rows] = _NONE
        self._is_stored[rows] = self._is_dirty[rows] = False

    def keep(self, rows: np.ndarray) -> None:
        """Renumbers the rows: row i is what `rows[i]` was. The others have been removed."""
        known = rows[rows < self._end]
        self._ids, self._group = self._ids.take(known), self._group.take(known)
        self._is_stored, self._is_dirty = self._is_stored.take(known), self._is_dirty.take(known)
        self._end = len(known)

    def _dirty(self) -> np.ndarray:
        return np.flatnonzero(self._is_dirty[: self._end]) if self.num_dirty else _NO_IDS

    # -- the database ------------------------------------------------------------------------------------------------

    def write(self, columns_of: Callable[[np.ndarray], Sequence[pa.Array]]) -> None:
        """Writes the changes since the last call to the database. The key groups of all rows are known.

        Args:
            columns_of: returns the columns of rows, without their ids.
        """
        dirty = self._dirty()
        removed_groups = np.concatenate([groups for groups, _ in self._removed] or [_NO_IDS])
        removed_ids = np.concatenate([ids for _, ids in self._removed] or [_NO_IDS])
        self._removed.clear()
        added = np.bincount(self._group.take(dirty), minlength=self._max_parallelism)
        touched = np.flatnonzero(added + np.bincount(removed_groups, minlength=self._max_parallelism))
        if not len(touched):
            return
        self._last_entry += 1
        anew = self._to_write_anew(touched, added)
        if len(anew):
            is_anew = np.zeros(self._max_parallelism, dtype=bool)
            is_anew[anew] = True
            live = np.flatnonzero(self._ids[: self._end] >= 0)
            others = dirty[~is_anew.take(self._group.take(dirty))]
            dirty = np.concatenate([others, live[is_anew.take(self._group.take(live))]])
            removed_ids = removed_ids[~is_anew.take(removed_groups)]
            removed_groups = removed_groups[~is_anew.take(removed_groups)]
            for key_group in anew.tolist():
                self._database.delete_range(*self._range(key_group))
            self.stored_rows[anew] = self.entries[anew] = 0
        self._database.write(self._new_entries(touched, dirty, removed_groups, removed_ids, columns_of))
        self.stored_rows += np.bincount(self._group.take(dirty), minlength=self._max_parallelism)
        self.entries[touched] += 1
        self._is_stored[dirty] = True
        self._is_dirty[dirty] = False
        self.num_dirty = 0

    def _to_write_anew(self, touched: np.ndarray, added: np.ndarray) -> np.ndarray:
        """Returns the key groups whose entries are to be replaced by one."""
        stored, entries = self.stored_rows + added, self.entries + 1
        is_garbage = (stored > _MIN_STORED) & (stored > 2 * self._live_rows)
        is_small = (entries > _MAX_SMALL_ENTRIES) & (stored < entries * _SMALL_ENTRY)
        anew = touched[(is_garbage | is_small)[touched]]
        return anew[np.argsort(-stored[anew], kind="stable")[:_MAX_ANEW]]

    def _new_entries(
        self,
        touched: np.ndarray,
        rows: np.ndarray,
        removed_groups: np.ndarray,
        removed_ids: np.ndarray,
        columns_of: Callable[[np.ndarray], Sequence[pa.Array]],
    ) -> Iterator[Pair]:
        """Yields the entries of key groups, in their order."""
        # Rows of one key keep their order, because ids rise in the order of addition.
        rows = rows[np.lexsort((self._ids.take(rows), self._group.take(rows)))]
        groups = self._group.take(rows)
        batch = pa.RecordBatch.from_arrays([*columns_of(rows), pa.array(self._ids.take(rows))], schema=self.schema)
        order = np.argsort(removed_groups, kind="stable")
        removed_groups, removed_ids = removed_groups[order], removed_ids[order]
        ends = np.searchsorted(groups, touched, side="right").tolist()
        begins = np.searchsorted(groups, touched).tolist()
        lasts = np.searchsorted(removed_groups, touched, side="right").tolist()
        firsts = np.searchsorted(removed_groups, touched).tolist()
        number = self._tag + _NUMBER.pack(self._last_entry)
        for key_group, begin, end, first, last in zip(touched.tolist(), begins, ends, firsts, lasts):
            key = self._codec.prefix(key_group) + number
            yield key, encode_entry(batch.slice(begin, end - begin), removed_ids[first:last])
