"""RocksDBRowTable: a RowTable whose rows are in files of the backend, and in the database for checkpoints.

A full chunk of rows is written to a file and mapped into memory. So the operating system keeps the rows that are in use
in memory and drops the others. The index of keys and the numbers of rows stay in memory, about 40 to 100 bytes per row.

The database has, for each key group, a sequence of entries. Each one has the rows that were added or changed before one
snapshot, as an Arrow batch, and the ids of the rows that were removed. A later entry replaces rows of earlier ones. A
snapshot adds one entry per key group that has changed, so an incremental checkpoint contains only new data. When less
than half of the stored rows of a key group are live, or when it has many small entries, they are written anew as one.

```
entry = number of removed ids (u32) | removed ids (int64 each) | Arrow batch: columns, numbers of the row, id
```
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from flinkpy.records.key_hash import hash_columns, key_groups
from flinkpy.state.rocksdb.database import Pair, RocksDatabase
from flinkpy.state.rocksdb.key_codec import PREFIX, StateKeyCodec, after_prefix, decode
from flinkpy.state.row_chunks import RowChunks
from flinkpy.state.row_kernels import NONE
from flinkpy.state.row_table import RowLayout, RowTable
from flinkpy.state.window_table import with_room

_COUNT = struct.Struct("<I")
_NO_IDS = np.empty(0, dtype=np.int64)
#: A key group with more entries than this is written anew if they have fewer rows on average than _SMALL_ENTRY.
_MAX_SMALL_ENTRIES, _SMALL_ENTRY = 32, 128
#: The changes of this number of records are written together, which takes some 10 ms. A snapshot writes the rest.
_MAX_CHANGES = 32_768
#: The number of key groups that one call writes anew.
_MAX_ANEW = 4
#: A key group with fewer stored rows is not written anew because of removed ones.
_MIN_STORED = 64


def entry_schema(layout: RowLayout) -> pa.Schema:
    """Returns the schema of an entry's batch."""
    columns = [pa.field(f"c{i}", kind) for i, kind in enumerate(layout.types)]
    numbers = [pa.field(f"n{i}", pa.int64()) for i in range(len(layout.stored_ints))]
    return pa.schema([*columns, *numbers, pa.field("id", pa.int64())])


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


def live_rows(pairs: Iterable[Pair], layout: RowLayout) -> tuple[pa.RecordBatch | None, int, int, int]:
    """Reads all entries of a key group.

    Returns: its live rows in the order of their ids; the number of stored rows; that of entries; the last entry.
    """
    schema = entry_schema(layout)
    entries = sorted((decode(key, PREFIX.size)[0], data) for key, data in pairs)
    batches: list[pa.RecordBatch] = []
    removed = [_NO_IDS]
    for _, data in entries:
        batch, gone = decode_entry(data, schema)
        removed.append(gone)
        if batch is not None:
            batches.append(batch)
    last = entries[-1][0] if entries else 0
    if not batches:
        return None, 0, len(entries), last
    rows = pa.concat_batches(batches)
    ids = rows.column(len(schema) - 1).to_numpy()
    # The last version of each row. Ids are never used again.
    order = np.argsort(ids, kind="stable")
    is_last = np.append(ids[order][1:] != ids[order][:-1], True)
    kept = order[is_last]
    kept = kept[~np.isin(ids[kept], np.concatenate(removed))]
    return rows.take(pa.array(kept)), rows.num_rows, len(entries), last


class RocksDBRowTable(RowTable):
    """Thread: task thread.

    Args:
        directory: an existing directory for the files with full chunks.
    """

    def __init__(
        self,
        layout: RowLayout,
        now_ms: Callable[[], int],
        database: RocksDatabase,
        codec: StateKeyCodec,
        max_parallelism: int,
        key_groups_owned: range,
        directory: Path,
    ) -> None:
        super().__init__(layout, now_ms)
        self._chunks = MappedChunks(layout.types, directory)
        self._database = database
        self._codec = codec
        self._max_parallelism = max_parallelism
        self._schema = entry_schema(layout)
        #: By row: its id, its key group, and if the database has it, and if it differs from there.
        self._ids = _NO_IDS
        self._group = np.empty(0, dtype=np.int32)
        self._is_stored = self._is_dirty = np.empty(0, dtype=bool)
        self._next_id = 0
        #: The records since the last call of `spill`.
        self._num_changes = 0
        #: The key groups and ids of stored rows that have been removed since the last snapshot.
        self._removed: list[tuple[np.ndarray, np.ndarray]] = []
        #: By key group: the stored rows (including outdated ones), the live rows, and the entries.
        self._stored_rows = np.zeros(max_parallelism, dtype=np.int64)
        self._live_rows = np.zeros(max_parallelism, dtype=np.int64)
        self._entries = np.zeros(max_parallelism, dtype=np.int64)
        self._last_entry = 0
        for key_group in key_groups_owned:
            self._load(key_group)

    def _load(self, key_group: int) -> None:
        prefix = self._codec.prefix(key_group)
        batch, stored, entries, last = live_rows(self._database.scan(prefix, after_prefix(prefix)), self.layout)
        self._last_entry = max(self._last_entry, last)
        self._stored_rows[key_group], self._entries[key_group] = stored, entries
        if batch is None or not batch.num_rows:
            return
        ids = batch.column(batch.num_columns - 1).to_numpy()
        rows = self.restore_batch(batch.select(range(batch.num_columns - 1)))
        self._ids[rows], self._is_stored[rows], self._is_dirty[rows] = ids, True, False
        self._next_id = max(self._next_id, int(ids.max()) + 1)

    # -- changes -----------------------------------------------------------------------------------------------------

    def add(
        self, slots: np.ndarray, columns: Sequence[pa.Array], ints: dict[str, np.ndarray] | None = None
    ) -> np.ndarray:
        rows = super().add(slots, columns, ints)
        if not len(rows):
            return rows
        end = self._end
        self._ids, self._group = with_room(self._ids, end), with_room(self._group, end)
        self._is_stored, self._is_dirty = with_room(self._is_stored, end), with_room(self._is_dirty, end)
        self._ids[rows] = np.arange(self._next_id, self._next_id + len(rows))
        self._next_id += len(rows)
        groups = key_groups(hash_columns(self.layout.key_columns(columns)), self._max_parallelism)
        self._group[rows] = groups
        self._live_rows += np.bincount(groups, minlength=self._max_parallelism)
        self._is_stored[rows] = False
        self._is_dirty[rows] = True
        return rows

    def replace(self, rows: np.ndarray, columns: Sequence[pa.Array], ints: dict[str, np.ndarray] | None = None) -> None:
        super().replace(rows, columns, ints)
        self._is_dirty[rows] = True

    def set_ints(self, name: str, rows: np.ndarray, values: np.ndarray) -> None:
        super().set_ints(name, rows, values)
        self._is_dirty[rows] = True

    def touch(self, rows: np.ndarray) -> None:
        super().touch(rows)
        if self.layout.ttl_ms:
            self._is_dirty[rows] = True

    def _remove(self, rows: np.ndarray, slots: np.ndarray) -> None:
        stored = rows[self._is_stored.take(rows)] if len(rows) else rows
        if len(stored):
            self._removed.append((self._group.take(stored), self._ids.take(stored)))
        if len(rows):
            self._live_rows -= np.bincount(self._group.take(rows), minlength=self._max_parallelism)
            self._is_dirty[rows] = False
            self._is_stored[rows] = False
        super()._remove(rows, slots)

    def after_batch(self, num_records: int) -> None:
        super().after_batch(num_records)
        self._num_changes += num_records
        if self._num_changes >= _MAX_CHANGES:
            self.spill()

    # -- the database ------------------------------------------------------------------------------------------------

    def spill(self) -> None:
        """Writes the changes since the last call to the database."""
        self._num_changes = 0
        dirty = np.flatnonzero(self._is_dirty[: self._end])
        removed_groups = np.concatenate([groups for groups, _ in self._removed] or [_NO_IDS])
        removed_ids = np.concatenate([ids for _, ids in self._removed] or [_NO_IDS])
        self._removed.clear()
        added = np.bincount(self._group.take(dirty), minlength=self._max_parallelism)
        touched = np.flatnonzero(added + np.bincount(removed_groups, minlength=self._max_parallelism))
        if not len(touched):
            return
        self._last_entry += 1
        stored, entries = self._stored_rows + added, self._entries + 1
        is_garbage = (stored > _MIN_STORED) & (stored > 2 * self._live_rows)
        is_small = (entries > _MAX_SMALL_ENTRIES) & (stored < entries * _SMALL_ENTRY)
        anew = touched[(is_garbage | is_small)[touched]]
        anew = anew[np.argsort(-stored[anew], kind="stable")[:_MAX_ANEW]]
        if len(anew):
            is_anew = np.zeros(self._max_parallelism, dtype=bool)
            is_anew[anew] = True
            live = np.flatnonzero(self._slot[: self._end] != NONE)
            others = dirty[~is_anew.take(self._group.take(dirty))]
            dirty = np.concatenate([others, live[is_anew.take(self._group.take(live))]])
            removed_ids = removed_ids[~is_anew.take(removed_groups)]
            removed_groups = removed_groups[~is_anew.take(removed_groups)]
            for key_group in anew.tolist():
                prefix = self._codec.prefix(key_group)
                end = after_prefix(prefix)
                assert end is not None
                self._database.delete_range(prefix, end)
            self._stored_rows[anew] = self._entries[anew] = 0
        self._database.write(self._new_entries(touched, dirty, removed_groups, removed_ids))
        self._stored_rows += np.bincount(self._group.take(dirty), minlength=self._max_parallelism)
        self._entries[touched] += 1
        self._is_stored[dirty] = True
        self._is_dirty[dirty] = False

    def _new_entries(
        self, touched: np.ndarray, rows: np.ndarray, removed_groups: np.ndarray, removed_ids: np.ndarray
    ) -> Iterator[Pair]:
        """Yields the entries of key groups, in their order."""
        # Rows of one key keep their order, because ids rise in the order of addition.
        rows = rows[np.lexsort((self._ids.take(rows), self._group.take(rows)))]
        groups = self._group.take(rows)
        batch = self._batch(rows)
        order = np.argsort(removed_groups, kind="stable")
        removed_groups, removed_ids = removed_groups[order], removed_ids[order]
        number = np.array([self._last_entry])
        for key_group in touched.tolist():
            begin, end = np.searchsorted(groups, [key_group, key_group + 1]).tolist()
            first, last = np.searchsorted(removed_groups, [key_group, key_group + 1]).tolist()
            (key,) = self._codec.encode_ints(np.array([key_group]), number)
            yield key, encode_entry(batch.slice(begin, end - begin), removed_ids[first:last])

    def _batch(self, rows: np.ndarray) -> pa.RecordBatch:
        columns = self.take(rows) + [pa.array(self._ints[name].take(rows)) for name in self.layout.stored_ints]
        return pa.RecordBatch.from_arrays([*columns, pa.array(self._ids.take(rows))], schema=self._schema)


class MappedChunks(RowChunks):
    """RowChunks whose full chunks are files that are mapped into memory. Thread: task thread."""

    def __init__(self, types: Sequence[pa.DataType], directory: Path) -> None:
        super().__init__(types)
        self._directory = directory
        self._prefix = f"rows-{uuid.uuid4()}"
        self._files: dict[int, Path] = {}
        self._next_file = 0

    def _filled(self, columns: list[pa.Array]) -> list[pa.Array]:
        path = self._directory / f"{self._prefix}-{self._next_file}"
        self._next_file += 1
        self._files[self._tail] = path
        batch = pa.RecordBatch.from_arrays(columns, names=[f"c{i}" for i in range(len(columns))])
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
            writer.write_batch(batch)
        mapped = pa.ipc.open_file(pa.memory_map(str(path))).get_batch(0)
        return list(mapped.columns)

    def drop(self, chunk: int) -> None:
        super().drop(chunk)
        # The mapping stays valid while arrays refer to it.
        self._files.pop(chunk).unlink(missing_ok=True)
