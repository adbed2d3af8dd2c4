"""GroupTable and GroupMap: the keyed state of SQL's GROUP BY in columns.

A GroupTable maps key columns to accumulators. A GroupMap belongs to a GroupTable. It maps further columns of each key
to counts: the distinct values of the aggregates with DISTINCT. Entries can be removed. When most slots are unused, the
table is compacted.

Without a store all entries are in memory. With a store (RocksDB) memory holds a working set: the keys of recent
batches. The store notes which entries change and writes them, many in one piece, before a snapshot or when there are
many. When the working set is full, the half that was not used for the longest time moves to the store, some entries
with each batch. Then new keys of a batch are read from it in one probe.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np
import pyarrow as pa

from flinkpy.state.accumulators import FrozenColumns
from flinkpy.state.aggregate_table import FrozenTable, TableLayout
from flinkpy.state.growing import with_room
from flinkpy.state.key_slots import KeySlots
from flinkpy.state.meta_info import StateMetaInfo
from flinkpy.state.row_groups import RowGroups, kernels, number_rows, running_counts
from flinkpy.state.table_accumulators import TableAccumulator

_MIN_CAPACITY = 1 << 10
#: A table with fewer dead slots is not compacted.
_MIN_DEAD = 1 << 12
#: The maximum number of entries of a working set: about 200 MB if they are numbers.
MAX_WORKING_SET = 1 << 20
#: The number of changed entries that are written without waiting for a snapshot. This takes some 10 ms.
_MAX_CHANGED = 1 << 16
#: Each batch moves half as many entries to the store as it has rows, so that the working set at most doubles meanwhile;
#: and at least this number.
_MIN_EVICTED = 1 << 11
#: The number of slots among which they are looked for at once.
_SEARCHED = 1 << 16
NO_SLOTS = np.empty(0, dtype=np.int64)


class EntrySource(Protocol):
    """The entries in memory, for a store that writes them."""

    @property
    def is_live(self) -> np.ndarray: ...

    def identity(self, slots: np.ndarray) -> list[pa.Array]:
        """Returns the columns that identify entries outside of memory."""
        ...

    def values(self, slots: np.ndarray) -> list[pa.Array]:
        """Returns the columns of the accumulators."""
        ...


class EntryStore(Protocol):
    """Keeps the entries of a table outside of its memory. Thread: task thread.

    Entries in memory are known by their slots, and those outside by the columns that identify them.

    Attributes:
        has_evicted: False if all entries are in memory.
        num_changed: the number of entries that have changed since the last call of `spill`.
    """

    has_evicted: bool

    @property
    def num_changed(self) -> int: ...

    def load(self) -> Iterator[tuple[pa.RecordBatch, Any]]:
        """Yields the restored entries that belong into memory: the columns that identify them and those of the
        accumulators; and what to pass to `loaded` with their slots.
        """
        ...

    def loaded(self, slots: np.ndarray, note: Any) -> None: ...

    def read(self, slots: np.ndarray, columns: list[pa.Array]) -> tuple[np.ndarray, list[pa.Array]]:
        """Reads the evicted entries among these, which get these slots.

        Returns: the rows for which there is an entry, and the columns of the accumulators of these entries.
        """
        ...

    def changed(self, slots: np.ndarray) -> None:
        """Notes that the entries of these distinct slots are new or have changed."""
        ...

    def removed(self, slots: np.ndarray) -> None:
        """Notes that there are no entries in these distinct slots."""
        ...

    def keep(self, slots: np.ndarray) -> None:
        """Renumbers the slots: slot i is what `slots[i]` was. The others have no entries."""
        ...

    def evict(self, entries: EntrySource, slots: np.ndarray) -> None:
        """Writes these entries, which leave the memory."""
        ...

    def spill(self, entries: EntrySource) -> None:
        """Writes the changes since the last call."""
        ...

    def delete_groups(self, key_columns: list[pa.Array]) -> None:
        """Deletes all evicted entries of a GroupMap with these keys."""
        ...

    def next_evicted(self, count: int) -> tuple[list[bytes], list[pa.Array], bool]:
        """Reads the next entries in a round over all evicted ones.

        Args:
            count: the maximum number of entries.

        Returns: the entries' keys in the store; the columns of their accumulators, which are outdated for an entry that
            has changed in memory; and True if the round has ended, so that the next call begins another.
        """
        ...

    def delete_evicted(self, keys: list[bytes]) -> list[pa.Array]:
        """Deletes evicted entries by their keys in the store. Returns the columns that identify them."""
        ...


@dataclass(slots=True)
class Limit:
    """The number of entries that the current batch may still move to the store."""

    left: int


class _Entries:
    """Slots of accumulators by key columns, with a flag for the entries that exist."""

    def __init__(self, layout: TableLayout, key_types: list[pa.DataType], store: EntryStore | None) -> None:
        self.layout = layout
        self._key_types = key_types
        self._store = store
        self._keys = KeySlots(self._key_types)
        self.accumulators = cast(list[TableAccumulator], self.layout.create_accumulators())
        #: bool by slot: true if the entry exists.
        self.is_live = np.zeros(0, dtype=bool)
        self._num_live = 0
        self._scratch = np.zeros(0, dtype=np.int64)
        #: With a store, int64 by slot: the last batch that used it.
        self._used = np.zeros(0, dtype=np.int64)
        self._batch = 0
        #: bool by slot: true if the store has the entry instead of this slot.
        self._is_out = np.zeros(0, dtype=bool)
        self._has_out = False

    def _load(self) -> None:
        """Brings the restored entries into memory that belong there."""
        if self._store is not None:
            for batch, note in self._store.load():
                self._store.loaded(self._add(batch), note)

    @property
    def size(self) -> int:
        """The number of entries in memory."""
        return self._num_live

    @property
    def num_slots(self) -> int:
        return self._keys.size

    def _slots_of(self, columns: list[pa.Array]) -> np.ndarray:
        known = self._keys.size
        slots = self._keys.slots_of(columns)
        self._grow()
        if self._store is not None:
            self._used[slots] = self._batch
            if self._keys.size > known and self._store.has_evicted:
                self._read(np.arange(known, self._keys.size))
            if self._has_out:
                out = np.unique(slots[self._is_out.take(slots)])
                self._is_out[out] = False
                self._read(out)
        return slots

    def _grow(self) -> None:
        size = self._keys.size
        for accumulator in self.accumulators:
            accumulator.grow(size)
        if size > len(self.is_live):
            room = np.zeros(max(size, 2 * len(self.is_live), _MIN_CAPACITY) - len(self.is_live), dtype=bool)
            self.is_live = np.append(self.is_live, room)
        if self._store is not None:
            self._used = with_room(self._used, size)
            if len(self._is_out) < len(self._used):
                self._is_out = np.append(self._is_out, np.zeros(len(self._used) - len(self._is_out), dtype=bool))

    def _read(self, new: np.ndarray) -> None:
        """Reads the entries of distinct slots from the store."""
        assert self._store is not None
        rows, values = self._store.read(new, self.identity(new))
        if len(rows):
            found = new.take(rows)
            self._restore_values(found, values)
            self.is_live[found] = True
            self._num_live += len(found)

    def number_rows(self, slots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Numbers the distinct slots of a batch. See `row_groups.number_rows`."""
        if len(self._scratch) < self._keys.size:
            self._scratch = np.full(len(self.is_live), -1, dtype=np.int64)
        return number_rows(slots, self._scratch)

    def identity(self, slots: np.ndarray) -> list[pa.Array]:
        """See EntrySource."""
        return self._keys.take(slots)

    def values(self, slots: np.ndarray) -> list[pa.Array]:
        """See EntrySource."""
        return [column for each in self.accumulators for column in each.columns(slots)]

    def _restore_values(self, slots: np.ndarray, columns: list[pa.Array]) -> None:
        at = 0
        for accumulator in self.accumulators:
            accumulator.restore(slots, columns[at : at + accumulator.num_columns])
            at += accumulator.num_columns

    def set_live(self, slots: np.ndarray) -> None:
        """Notes that the entries of these distinct slots exist and have changed."""
        self._num_live += len(slots) - int(np.count_nonzero(self.is_live.take(slots)))
        self.is_live[slots] = True
        if self._store is not None:
            self._store.changed(slots)

    def remove(self, slots: np.ndarray) -> None:
        """Removes the entries of these distinct slots. Entries that do not exist are ignored."""
        if not len(slots):
            return
        self._num_live -= int(np.count_nonzero(self.is_live.take(slots)))
        self.is_live[slots] = False
        if self._store is not None:
            self._store.removed(slots)

    @property
    def _is_sparse(self) -> bool:
        dead = self._keys.size - self._num_live
        return dead >= _MIN_DEAD and 2 * dead > self._keys.size

    @property
    def _is_full(self) -> bool:
        return self._keys.size >= MAX_WORKING_SET

    def spill(self) -> None:
        """Writes the changes to the store."""
        if self._store is not None:
            self._store.spill(self)

    def _spill_if_many(self) -> None:
        if self._store is not None and self._store.num_changed >= _MAX_CHANGED:
            self._store.spill(self)

    def _evict(self, limit: Limit, is_gone: Callable[[np.ndarray], np.ndarray] | None = None) -> Iterator[None]:
        """Moves entries to the store: those that `is_gone` names, and, if it is full, the older half.

        Yields: when the limit of a batch is reached.
        """
        assert self._store is not None
        live = np.flatnonzero(self.is_live[: self._keys.size])
        last_used = -1
        if self._is_full and len(live):
            used = self._used.take(live)
            last_used = np.partition(used, len(used) // 2)[len(used) // 2]
        elif is_gone is None:
            return
        begin, end = 0, self._keys.size
        while begin < end:
            behind = min(begin + _SEARCHED, end)
            slots = begin + np.flatnonzero(self.is_live[begin:behind])
            is_evicted = self._used.take(slots) <= last_used
            if is_gone is not None:
                is_evicted |= is_gone(slots)
            evicted = slots[is_evicted]
            if len(evicted) > limit.left:
                evicted = evicted[: limit.left]
                behind = int(evicted[-1]) + 1
            if len(evicted):
                self._store.evict(self, evicted)
                self._clear(evicted)
                self.is_live[evicted] = False
                self._is_out[evicted] = self._has_out = True
                self._num_live -= len(evicted)
            begin = behind
            limit.left -= len(evicted)
            if not limit.left:
                yield

    def _clear(self, slots: np.ndarray) -> None:
        """Called when these slots no longer have entries, but may get them again."""
        return

    def restore(self, data: bytes) -> None:
        """Adds batches that a frozen table wrote. Their entries must be new."""
        for batch in pa.ipc.open_stream(data):
            self.restore_batch(batch)

    def restore_batch(self, batch: pa.RecordBatch) -> None:
        slots = self._add(batch)
        if self._store is not None:
            self._store.changed(slots)

    def _add(self, batch: pa.RecordBatch) -> np.ndarray:
        """Adds new entries. Returns their slots."""
        width = len(self.layout.entry_types)
        slots = self._restored_slots(batch.columns[:width])
        self._restore_values(slots, batch.columns[width:])
        self.is_live[slots] = True
        self._num_live += len(slots)
        return slots

    def _restored_slots(self, columns: list[pa.Array]) -> np.ndarray:
        slots = self._keys.slots_of(columns)
        self._grow()
        return slots


class GroupTable(_Entries):
    """Accumulators by key. Slots are valid until the next `slots_of`. Thread: task thread.

    Args:
        layout: the key columns and the aggregates.
        store: holds the entries that are not in memory; None if all are.
    """

    def __init__(self, layout: TableLayout, store: EntryStore | None = None) -> None:
        self.maps: list[GroupMap] = []
        super().__init__(layout, list(layout.key_types), store)
        self._sweep_at = 0
        #: Moves the older half to the store while it exists.
        self._eviction: Iterator[None] | None = None
        self._limit = Limit(0)
        self._load()

    def slots_of(self, key_columns: list[pa.Array]) -> np.ndarray:
        """Returns int64[n]: the slot of each row's key. Begins a batch, so earlier slots are no longer valid."""
        if self._store is None:
            if self._is_sparse:
                self._compact()
            for each in self.maps:
                each.begin_batch()
        else:
            self._begin_batch_with_store(len(key_columns[0]))
        return self._slots_of(key_columns)

    def _begin_batch_with_store(self, num_rows: int) -> None:
        self._batch += 1
        for table in (self, *self.maps):
            table._batch = self._batch
            table._spill_if_many()
        if self._eviction is None and any(table._is_full or table._is_sparse for table in (self, *self.maps)):
            self._eviction = self._evict_and_compact()
        if self._eviction is not None:
            self._limit.left = max(_MIN_EVICTED, num_rows // 2)
            has_ended = next(self._eviction, True)
            if has_ended:
                self._eviction = None

    def _evict_and_compact(self) -> Iterator[None]:
        """Makes room in memory. A group may come back in its slot until all have moved and the slots are compacted."""
        yield from self._evict(self._limit)
        for each in self.maps:
            yield from each.evict_with_groups(self._limit)
        for table in (*self.maps, self):
            table.spill()
        self._compact()

    def live_slots(self) -> np.ndarray:
        return np.flatnonzero(self.is_live[: self.num_slots])

    def next_live_slots(self, count: int) -> np.ndarray:
        """Returns the live slots among the next `count` ones, in a round over all entries in memory."""
        begin, end = self._sweep_at, min(self._sweep_at + count, self.num_slots)
        self._sweep_at = 0 if end == self.num_slots else end
        return begin + np.flatnonzero(self.is_live[begin:end])

    def remove_evicted(self, count: int, is_over: Callable[[list[pa.Array]], np.ndarray]) -> bool:
        """Removes evicted groups among the next `count` ones, in a round over all of them, with their entries in maps.

        Slots stay valid. A group that is in memory and has changed there stays, because its evicted form is outdated.

        Args:
            is_over: returns bool[n] for the columns of the accumulators: true for the groups to remove.

        Returns: True if the round has ended.
        """
        store = self._store
        if store is None or not store.has_evicted:
            return True
        keys, values, has_ended = store.next_evicted(count)
        over = np.flatnonzero(is_over(values)) if keys else NO_SLOTS
        if len(over):
            columns = store.delete_evicted([keys[index] for index in over.tolist()])
            if self.maps:
                slots = self._slots_of(columns)
                is_live = self.is_live.take(slots)
                has_changed = is_live & ~is_over(self.values(slots))
                self.remove(slots[~has_changed])
        return has_ended

    def keys_of(self, slots: np.ndarray) -> list[pa.Array]:
        """Returns the key columns of these slots."""
        return self._keys.take(slots)

    def key_chunks(self) -> list[list[pa.Array]]:
        return self._keys.key_chunks()

    def remove(self, slots: np.ndarray) -> None:
        """Removes groups with all their entries in maps."""
        super().remove(slots)
        for each in self.maps:
            each.remove_groups(slots)

    def _compact(self) -> None:
        live = self.live_slots()
        new_slots = np.full(self.num_slots, -1, dtype=np.int64)
        new_slots[live] = np.arange(len(live))
        # Slots keep their order, so the round goes on with the same entry.
        self._sweep_at = int(np.searchsorted(live, self._sweep_at))
        values = self._keys.take(live)
        self._keys = KeySlots(self._key_types)
        if len(live):
            self._keys.slots_of(values)
        for accumulator in self.accumulators:
            accumulator.keep(live)
        self.is_live = np.ones(len(live), dtype=bool)
        if self._store is not None:
            self._store.keep(live)
            self._used = self._used.take(live)
            self._is_out, self._has_out = np.zeros(len(live), dtype=bool), False
        for each in self.maps:
            each.renumber(new_slots)

    def freeze(self, meta: StateMetaInfo) -> FrozenTable:
        if self._num_live < self.num_slots:
            self._compact()
        frozen = [accumulator.freeze(self.num_slots) for accumulator in self.accumulators]
        return FrozenTable(meta, self.num_slots, self._keys.key_chunks(), frozen)


class GroupMap(_Entries):
    """Counts by key of a GroupTable and further columns. Thread: task thread.

    An entry has one count per column of counts. It is removed when all its counts are 0.

    Args:
        table: the groups.
        layout: `map_types` are the types of the further columns; each aggregate is a count.
    """

    def __init__(self, table: GroupTable, layout: TableLayout, store: EntryStore | None = None) -> None:
        self._table = table
        super().__init__(layout, [pa.int64(), *layout.map_types], store)
        #: int64 by slot: the group of each entry.
        self._group_of_slot = np.zeros(0, dtype=np.int64)
        self._num_grouped = 0
        table.maps.append(self)
        self._load()

    def begin_batch(self) -> None:
        if self._is_sparse:
            self.renumber(np.arange(self._table.num_slots))

    def evict_with_groups(self, limit: Limit) -> Iterator[None]:
        """Moves entries to the store: those whose groups are no longer in memory, and, if it is full, older ones."""
        return self._evict(limit, lambda slots: ~self._table.is_live.take(self._group_of_slot.take(slots)))

    def _grow(self) -> None:
        super()._grow()
        first, size = self._num_grouped, self._keys.size
        if size > first:
            groups = self._keys.take(np.arange(first, size))[0].to_numpy()
            self._group_of_slot = with_room(self._group_of_slot, size)
            self._group_of_slot[first:size] = groups
            self._num_grouped = size

    def identity(self, slots: np.ndarray) -> list[pa.Array]:
        groups, *values = self._keys.take(slots)
        return [*self._table.keys_of(groups.to_numpy()), *values]

    def changes(
        self, groups: RowGroups, columns: list[pa.Array], weights: Sequence[np.ndarray | None]
    ) -> list[np.ndarray]:
        """Adds values to the groups of a batch, or takes them back.

        Args:
            columns: the values of the rows.
            weights: for each count, int8[n]: 1 to add the row's value, -1 to take it back, 0 to leave it out; None if
                all values are added.

        Returns: for each count, int8[n]: 1 if the value is the first of its kind in its group, -1 if it was the last,
            0 if it is one of several.
        """
        slots = groups.slots.take(groups.group)
        entries = self._slots_of([pa.array(slots), *columns])
        module = kernels.get()
        if module is not None and groups.is_last is None:
            return self._changed_row_by_row(module, entries, weights)
        number, first_rows = self.number_rows(entries)
        is_fresh = groups.is_fresh.take(groups.group)
        if groups.is_last is not None:
            # Values of different lives of a key are different.
            codes = groups.group * len(first_rows) + number
            _, first_rows, number = np.unique(codes, return_index=True, return_inverse=True)
        of_entry = RowGroups(number, entries.take(first_rows), is_fresh.take(first_rows))
        results = [
            _first_and_last(of_entry, of_entry.before(accumulator.arrays[0], 0), own)
            for accumulator, own in zip(self.accumulators, weights)
        ]
        slots, is_last = of_entry.slots, None
        if groups.is_last is not None:
            self.remove_groups(groups.slots[~groups.is_last])
            is_last = groups.is_last.take(groups.group.take(first_rows))
            slots = slots[is_last]
        for accumulator, (_, after) in zip(self.accumulators, results):
            accumulator.arrays[0][slots] = after if is_last is None else after[is_last]
        self._note(slots)
        return [effect for effect, _ in results]

    def _changed_row_by_row(
        self, module: Any, entries: np.ndarray, weights: Sequence[np.ndarray | None]
    ) -> list[np.ndarray]:
        """Changes the counts with compiled code. The entries of a group without a former life have no counts."""
        all_rows = np.ones(len(entries), dtype=np.int8)
        has_effect = np.zeros(len(entries), dtype=bool)
        effects = []
        for accumulator, own in zip(self.accumulators, weights):
            effect = module.first_and_last(entries, accumulator.arrays[0], all_rows if own is None else own)
            has_effect |= effect != 0
            effects.append(effect)
        if self._store is None:
            entries = entries[has_effect]
        self._note(entries.take(self.number_rows(entries)[1]))
        return effects

    def merge(self, groups: RowGroups, columns: list[pa.Array], counts: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Adds counts of values to the groups. Counts do not fall below 0.

        Args:
            columns: the values.
            counts: for each count, int64[n]: how often the value was added, less how often it was taken back.

        Returns: for each count, int8[n]: 1 at the first row of a value that the group did not have, -1 at that of a
            value that it no longer has.
        """
        entries = self._slots_of([pa.array(groups.slots.take(groups.group)), *columns])
        number, first_rows = self.number_rows(entries)
        slots = entries.take(first_rows)
        is_fresh = groups.is_fresh.take(groups.group.take(first_rows))
        of_entry = RowGroups(number, slots, is_fresh)
        effects = []
        for accumulator, own in zip(self.accumulators, counts):
            before = of_entry.before(accumulator.arrays[0], 0)
            after = before.copy()
            np.add.at(after, number, own)
            np.maximum(after, 0, out=after)
            effect = np.zeros(len(entries), dtype=np.int8)
            effect[first_rows] = (after > 0).astype(np.int8) - (before > 0)
            accumulator.arrays[0][slots] = after
            effects.append(effect)
        self._note(slots)
        return effects

    def _note(self, slots: np.ndarray) -> None:
        """Notes that the entries have changed. Those without a count are removed."""
        has_any = np.zeros(len(slots), dtype=bool)
        for accumulator in self.accumulators:
            has_any |= accumulator.arrays[0].take(slots) != 0
        if has_any.all():
            self.set_live(slots)
        else:
            self.set_live(slots[has_any])
            self.remove(slots[~has_any])

    def remove_groups(self, groups: np.ndarray) -> None:
        """Removes the entries of these groups."""
        has_evicted = self._store is not None and self._store.has_evicted
        if not len(groups) or not (self._num_live or has_evicted):
            return
        if self._store is not None and has_evicted:
            self._store.delete_groups(self._table.keys_of(np.unique(groups)))
        is_removed = np.zeros(self._table.num_slots, dtype=bool)
        is_removed[groups] = True
        slots = np.flatnonzero(self.is_live[: self.num_slots] & is_removed.take(self._group_of_slot[: self.num_slots]))
        if len(slots):
            self._clear(slots)
            self.remove(slots)

    def _clear(self, slots: np.ndarray) -> None:
        for accumulator in self.accumulators:
            accumulator.arrays[0][slots] = 0

    def renumber(self, new_slots: np.ndarray) -> None:
        """Drops unused slots, after the slots of the groups have got new numbers: `new_slots` by old slot."""
        live = np.flatnonzero(self.is_live[: self.num_slots])
        _, *values = self._keys.take(live)
        groups = new_slots.take(self._group_of_slot.take(live))
        self._keys = KeySlots(self._key_types)
        if len(live):
            self._keys.slots_of([pa.array(groups), *values])
        for accumulator in self.accumulators:
            accumulator.keep(live)
        self._group_of_slot, self._num_grouped = groups, len(groups)
        self.is_live = np.ones(len(live), dtype=bool)
        if self._store is not None:
            self._store.keep(live)
            self._used = self._used.take(live)
            self._is_out, self._has_out = np.zeros(len(live), dtype=bool), False

    def _restored_slots(self, columns: list[pa.Array]) -> np.ndarray:
        width = len(self._table.layout.key_types)
        groups = self._table._slots_of(columns[:width])
        return super()._restored_slots([pa.array(groups), *columns[width:]])

    def freeze(self, meta: StateMetaInfo) -> FrozenTable:
        if self._num_live < self.num_slots:
            self.renumber(np.arange(self._table.num_slots))
        value_chunks = self._keys.key_chunks()[1:]
        return _FrozenMap(
            meta,
            self._table.key_chunks(),
            value_chunks,
            self._group_of_slot[: self.num_slots].copy(),
            [accumulator.freeze(self.num_slots) for accumulator in self.accumulators],
        )


def _first_and_last(
    of_entry: RowGroups, before: np.ndarray, weights: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the effect of each row on the set of values, and the counts of the entries after the batch."""
    num_rows = of_entry.num_rows
    effect = np.zeros(num_rows, dtype=np.int8)
    if weights is None or not (weights < 0).any():
        after = before.copy()
        rows = np.arange(num_rows) if weights is None else np.flatnonzero(weights)
        numbers = of_entry.group if weights is None else of_entry.group.take(rows)
        is_new = before.take(numbers) == 0
        rows_new, numbers_new = rows[is_new], numbers[is_new]
        first = np.empty(of_entry.num_groups, dtype=np.int64)
        first[numbers_new[::-1]] = rows_new[::-1]
        effect[rows_new] = first.take(numbers_new) == rows_new
        np.add.at(after, numbers, 1)
        return effect, after
    counts = running_counts(of_entry, before, weights)
    previous = of_entry.previous
    was = np.where(previous < 0, before.take(of_entry.group), counts.take(previous))
    effect[(was == 0) & (counts == 1)] = 1
    effect[(was == 1) & (counts == 0)] = -1
    return effect, counts.take(of_entry.last_rows)


class _FrozenMap(FrozenTable):
    """Copies of a map's columns. The key columns of the entries are made when it is written."""

    def __init__(
        self,
        meta: StateMetaInfo,
        key_chunks: list[list[pa.Array]],
        value_chunks: list[list[pa.Array]],
        group_of_slot: np.ndarray,
        accumulators: list[FrozenColumns],
    ) -> None:
        super().__init__(meta, len(group_of_slot), key_chunks, accumulators)
        self._value_chunks = value_chunks
        self._group_of_slot = group_of_slot

    def _unsorted(self) -> pa.RecordBatch:
        indices = pa.array(self._group_of_slot)
        columns = [pa.concat_arrays(chunks).take(indices) for chunks in self._key_chunks]
        columns += [pa.concat_arrays(chunks) for chunks in self._value_chunks]
        for accumulator in self._accumulators:
            columns += accumulator()
        return pa.RecordBatch.from_arrays(columns, names=[f"c{i}" for i in range(len(columns))])

    def drop(self) -> None:
        super().drop()
        self._value_chunks.clear()
