"""RocksDBEntryStore: the entries of a GroupTable or GroupMap in a RocksDB database.

The working set is in the database as a RowJournal: many entries are written as one Arrow batch per key group, and never
read before a restore. An entry that leaves memory is removed from the journal, and gets a database entry of its own,
which is read when its key occurs again. After that, the journal has newer values of it if it changes.

The keys of the journal's entries begin with a tag that no encoded key has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice

import numpy as np
import pyarrow as pa

from flinkpy.records.key_hash import hash_columns, key_groups
from flinkpy.state.aggregate_table import TableLayout
from flinkpy.state.group_table import EntrySource
from flinkpy.state.growing import with_room
from flinkpy.state.rocksdb.cached_state import in_order
from flinkpy.state.rocksdb.database import Pair, RocksDatabase
from flinkpy.state.rocksdb.key_codec import PREFIX, StateKeyCodec, after_prefix
from flinkpy.state.rocksdb.row_journal import RowJournal, read_rows
from flinkpy.state.rocksdb.tables import RowCodec

#: The byte after the prefix in keys of the journal.
_JOURNAL_TAG = 0
#: Rows of one batch when a table is read: those of the journal, and those that have entries of their own. Decoding the
#: latter takes some ms.
_BATCH_ROWS, _DECODED_ROWS = 16_384, 2_048


def _journal_schema(rows: RowCodec) -> pa.Schema:
    types = [*rows.layout.entry_types, *rows.value_types]
    columns = [pa.field(f"c{i}", kind) for i, kind in enumerate(types)]
    return pa.schema([*columns, pa.field("is_evicted", pa.bool_()), pa.field("id", pa.int64())])


class RocksDBEntryStore:
    """Thread: task thread."""

    def __init__(
        self,
        layout: TableLayout,
        database: RocksDatabase,
        codec: StateKeyCodec,
        max_parallelism: int,
        key_groups_owned: Iterable[int],
    ) -> None:
        self._rows = RowCodec(layout)
        self._database = database
        self._codec = codec
        self._max_parallelism = max_parallelism
        self._key_groups = list(key_groups_owned)
        self._journal = RowJournal(database, codec, max_parallelism, _JOURNAL_TAG, _journal_schema(self._rows))
        #: bool by slot: true if the database has an own entry of this key, which may be outdated.
        self._is_evicted = np.zeros(0, dtype=bool)
        self._end = 0
        self.has_evicted = any(self._has_evicted_in(key_group) for key_group in self._key_groups)
        #: The round over evicted entries: the place of its key group, the next key there, and if there are entries.
        self._round_at = 0
        self._round_key: bytes | None = None
        self._round_found = False

    def _has_evicted_in(self, key_group: int) -> bool:
        prefix = self._codec.prefix(key_group)
        pairs = self._database.scan(prefix + bytes([_JOURNAL_TAG + 1]), after_prefix(prefix))
        return next(pairs, None) is not None

    @property
    def num_changed(self) -> int:
        return self._journal.num_dirty

    # -- restored entries --------------------------------------------------------------------------------------------

    def load(self) -> Iterator[tuple[pa.RecordBatch, tuple[int, pa.RecordBatch]]]:
        for key_group, batch in self._journal.load(self._key_groups):
            yield batch.select(range(batch.num_columns - 2)), (key_group, batch)

    def loaded(self, slots: np.ndarray, note: tuple[int, pa.RecordBatch]) -> None:
        key_group, batch = note
        self._journal.restored(slots, key_group, batch.column(batch.num_columns - 1).to_numpy())
        self._set_evicted(slots, batch.column(batch.num_columns - 2).to_numpy(zero_copy_only=False))

    def _set_evicted(self, slots: np.ndarray, values: np.ndarray | bool) -> None:
        end = int(slots.max()) + 1 if len(slots) else 0
        if end > self._end:
            self._is_evicted = with_room(self._is_evicted, end)
            self._is_evicted[self._end : end] = False
            self._end = end
        self._is_evicted[slots] = values

    def _evicted(self, slots: np.ndarray) -> np.ndarray:
        """Returns bool[n]: true for slots whose keys have entries of their own."""
        known = slots < self._end
        return known if not self._end else known & self._is_evicted.take(np.where(known, slots, 0))

    # -- evicted entries ---------------------------------------------------------------------------------------------

    def read(self, slots: np.ndarray, columns: list[pa.Array]) -> tuple[np.ndarray, list[pa.Array]]:
        keys = self._encoded(columns)
        order = sorted(range(len(keys)), key=keys.__getitem__)
        found = self._database.get_many([keys[index] for index in order])
        rows = np.array([index for index, data in zip(order, found) if data is not None], dtype=np.int64)
        values = self._rows.decode_values([data for data in found if data is not None]) if len(rows) else []
        self._set_evicted(slots.take(rows), True)
        return rows, values

    def evict(self, entries: EntrySource, slots: np.ndarray) -> None:
        self.has_evicted = self._round_found = True
        changed = slots[self._journal.has(slots)]
        values = self._rows.encode_values(entries.values(changed))
        self._database.write(in_order(self._encoded(entries.identity(changed)), values))
        self._journal.remove(slots)
        self._set_evicted(slots, False)

    def delete_groups(self, key_columns: list[pa.Array]) -> None:
        found: list[bytes] = []
        for prefix in self._rows.encode_prefixes(self._codec, key_columns, self._max_parallelism):
            found += [key for key, _ in self._database.scan(prefix, after_prefix(prefix))]
        self._database.write((key, None) for key in sorted(found))

    def next_evicted(self, count: int) -> tuple[list[bytes], list[pa.Array], bool]:
        pairs: list[Pair] = []
        while len(pairs) < count and self._round_at < len(self._key_groups):
            prefix = self._codec.prefix(self._key_groups[self._round_at])
            first = self._round_key or prefix + bytes([_JOURNAL_TAG + 1])
            pairs += islice(self._database.scan(first, after_prefix(prefix)), count - len(pairs))
            if len(pairs) == count:
                self._round_key = pairs[-1][0] + b"\0"
            else:
                self._round_at, self._round_key = self._round_at + 1, None
        self._round_found |= bool(pairs)
        has_ended = self._round_at == len(self._key_groups)
        if has_ended:
            self.has_evicted, self._round_at, self._round_found = self._round_found, 0, False
        return [key for key, _ in pairs], self._rows.decode_values([data for _, data in pairs]), has_ended

    def delete_evicted(self, keys: list[bytes]) -> list[pa.Array]:
        # An entry in memory whose flag says that it is evicted may lose it here: then its key is deleted twice.
        self._database.write((key, None) for key in keys)
        return self._rows.decode_keys(keys)

    def _encoded(self, columns: list[pa.Array]) -> list[bytes]:
        return self._rows.encode_keys(self._codec, columns, self._max_parallelism)

    # -- entries in memory -------------------------------------------------------------------------------------------

    def changed(self, slots: np.ndarray) -> None:
        self._journal.change(slots)

    def removed(self, slots: np.ndarray) -> None:
        self._journal.remove(slots)

    def keep(self, slots: np.ndarray) -> None:
        self._journal.keep(slots)
        self._is_evicted = self._evicted(slots)
        self._end = len(slots)

    def spill(self, entries: EntrySource) -> None:
        gone = np.flatnonzero(self._is_evicted[: self._end] & ~entries.is_live[: self._end])
        if len(gone):
            self._database.write((key, None) for key in sorted(self._encoded(entries.identity(gone))))
            self._is_evicted[gone] = False
        new = self._journal.unplaced()
        if len(new):
            keys = entries.identity(new)[: len(self._rows.layout.key_types)]
            self._journal.place(new, key_groups(hash_columns(keys), self._max_parallelism))
        self._journal.write(
            lambda slots: [*entries.identity(slots), *entries.values(slots), pa.array(self._evicted(slots))]
        )


def table_batches(pairs: Iterable[Pair], rows: RowCodec) -> Iterator[pa.RecordBatch]:
    """Yields the entries of a key group of any table: the identifying columns, then those of the accumulators.

    Args:
        pairs: all pairs of the key group in their order.
    """
    pairs = iter(pairs)
    journal = []
    others: Iterator[Pair] = iter(())
    for pair in pairs:
        if pair[0][PREFIX.size] != _JOURNAL_TAG:
            others = chain([pair], pairs)
            break
        journal.append(pair)
    outdated: set[bytes] = set()
    if journal:
        batch = read_rows(journal, _journal_schema(rows)).live
        if batch is not None and batch.num_rows:
            evicted = batch.filter(batch.column(batch.num_columns - 2))
            width = len(rows.layout.entry_types)
            outdated = set(rows.encode_suffixes(evicted.columns[:width])) if evicted.num_rows else set()
            batch = batch.select(range(batch.num_columns - 2))
            yield from (batch.slice(begin, _BATCH_ROWS) for begin in range(0, batch.num_rows, _BATCH_ROWS))
    piece: list[Pair] = []
    for pair in others:
        if pair[0][PREFIX.size :] not in outdated:
            piece.append(pair)
        if len(piece) >= _DECODED_ROWS:
            yield rows.batch(piece)
            piece = []
    if piece:
        yield rows.batch(piece)
