"""RowTable: rows of a keyed operator in columns. Each key has a list of rows in the order in which they were added.

Joins, ranks and deduplication keep their inputs in it. All operations are for a batch: add rows, find the rows of keys,
read columns of rows, replace and remove rows. A row has a number, which stays until the row is removed; numbers of
removed rows are used again.

```
key columns --KeyIndex--> slot --linked list--> row numbers --position--> RowChunks (Arrow columns)
                                                            `-----------> one number per row for each of `layout.ints`
```

While no row has been removed or replaced, the number of a row is its position, and the arrays that changes need do not
exist. Then a row costs 8 bytes besides its columns.

In a snapshot each key group is a sequence of Arrow batches: the row's columns, then its numbers, then the time of its
last change if the state has a time-to-live.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from flinkpy.common.errors import StateMigrationError, StateRestoreError
from flinkpy.records.key_hash import hash_columns, key_groups
from flinkpy.records.segments import Groups
from flinkpy.state.growing import with_room
from flinkpy.state.heap_snapshot import FrozenState, ends_of_groups
from flinkpy.state.key_groups_file import KeyGroupsFileWriter
from flinkpy.state.key_index import KeyIndex, KeyWords
from flinkpy.state.meta_info import ROWS, StateMetaInfo
from flinkpy.state.row_chunks import CHUNK_BITS, CHUNK_ROWS, FrozenChunks, RowChunks
from flinkpy.state.row_kernels import NONE, RowKernels, kernels
from flinkpy.state.type_snapshot import PICKLED

#: Rows of one batch in a file. Writing them takes about a millisecond.
_BATCH_ROWS = 16_384
_NO_ROWS = np.empty(0, dtype=np.int64)
#: How many rows are checked for expiry per record, and at least per batch.
_SWEEP_PER_ROW, _MIN_SWEEP = 2, 1_024
#: The number of chunks that one call compacts. Each takes a few ms.
_COMPACTED_AT_ONCE = 2


@dataclass(frozen=True)
class RowLayout:
    """The columns of a table.

    Attributes:
        types: the types of the row's columns.
        key: the positions of the key columns. Without any, all rows have one key.
        row_key: the columns that identify a row under its key: a row with the same ones replaces it. None: rows may
            occur several times. Empty: there is one row per key.
        ints: the names of the numbers (int64) that each row has besides its columns.
        ttl_ms: rows are removed when they have not changed for this time; 0 for never.
    """

    types: tuple[pa.DataType, ...]
    key: tuple[int, ...]
    row_key: tuple[int, ...] | None = None
    ints: tuple[str, ...] = ()
    ttl_ms: int = 0

    def key_columns(self, columns: Sequence[pa.Array]) -> list[pa.Array]:
        """Returns the key columns of rows. Rows without key have a constant one."""
        return [columns[position] for position in self.key] or [pa.array(np.zeros(len(columns[0]), dtype=np.int8))]

    @property
    def key_types(self) -> list[pa.DataType]:
        return [self.types[position] for position in self.key] or [pa.int8()]

    @property
    def stored_ints(self) -> tuple[str, ...]:
        return (*self.ints, *(["__time"] if self.ttl_ms else []))

    def to_json(self) -> dict[str, Any]:
        schema = pa.schema([pa.field(f"c{i}", kind) for i, kind in enumerate(self.types)])
        return {
            "rows": base64.b64encode(schema.serialize().to_pybytes()).decode(),
            "key": list(self.key),
            "row_key": None if self.row_key is None else list(self.row_key),
            "ints": list(self.ints),
            "has_ttl": self.ttl_ms > 0,
        }

    @staticmethod
    def from_json(data: dict[str, Any]) -> RowLayout:
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(data["rows"])))
        row_key = data["row_key"]
        return RowLayout(
            tuple(schema.types),
            tuple(data["key"]),
            None if row_key is None else tuple(row_key),
            tuple(data["ints"]),
            int(data["has_ttl"]),
        )

    def meta_info(self, name: str) -> StateMetaInfo:
        return StateMetaInfo(name, ROWS, PICKLED, has_ttl=self.ttl_ms > 0, table=self.to_json())

    def check_restored(self, stored: StateMetaInfo, operator_name: str) -> None:
        """Checks that a table with this layout can read the stored state.

        Raises:
            StateRestoreError: the stored state is not a table of rows.
            StateMigrationError: the stored rows have other columns.
        """
        state = f"operator {operator_name!r}, state {stored.name!r}"
        details = {"operator": operator_name, "state": stored.name}
        if stored.kind != ROWS or stored.table is None:
            raise StateRestoreError(
                f"{state}: it was stored as a {stored.kind} state and is requested as a table of rows", details=details
            )
        was = RowLayout.from_json(stored.table)
        for what, old, new in (
            ("the columns", was.types, self.types),
            ("the positions of the key columns", was.key, self.key),
            ("the columns that identify a row", was.row_key, self.row_key),
            ("the numbers of a row", was.ints, self.ints),
        ):
            if old != new:
                raise StateMigrationError(
                    f"{state}: {what} were {_show(old)} and are {_show(new)} now", details=details
                )


class RowTable:
    """Rows by key, in memory. Thread: task thread.

    Args:
        now_ms: the clock for the time-to-live.
    """

    def __init__(
        self, layout: RowLayout, now_ms: Callable[[], int] | None = None, row_kernels: RowKernels | None = None
    ) -> None:
        self.layout = layout
        self._kernels = row_kernels or kernels()
        self._now_ms = now_ms
        self._keys = KeyIndex(KeyWords(layout.key_types), self._kernels)
        #: By slot.
        self._head = self._tail = self._counts = np.empty(0, dtype=np.int32)
        #: By row number.
        self._next = self._slot = np.empty(0, dtype=np.int32)
        self._ints = dict.fromkeys(layout.stored_ints, _NO_ROWS)
        self._chunks = RowChunks(layout.types)
        self._end = 0
        self._size = 0
        #: True if rows have been removed or replaced. Then the arrays below exist.
        self._is_changed = False
        #: By row number: the row before it in the list of its key; its position; when it was added.
        self._previous = self._position = np.empty(0, dtype=np.int32)
        self._added = _NO_ROWS
        self._next_added = 0
        #: By position: the row there, or NONE.
        self._row_at = np.empty(0, dtype=np.int32)
        self._live_in_chunk = np.empty(0, dtype=np.int64)
        self._free_rows = _NO_ROWS
        self._num_free_rows = 0
        self._sparse_chunks: list[int] = []
        self._sweep_at = 0
        #: For a layout with a row key: the row of each (key, row key).
        self._row_index: KeyIndex | None = None
        if layout.row_key:
            types = [*layout.key_types, *(layout.types[position] for position in layout.row_key)]
            self._row_index = KeyIndex(KeyWords(types), self._kernels)
            self._row_of_identity = np.empty(0, dtype=np.int32)
            self._identity_of_row = np.empty(0, dtype=np.int32)
        #: For a layout without one: the words of whole rows by row number, as far as `_has_words` says.
        self._row_words: KeyWords | None = None
        self._identity_words: KeyWords | None = None
        self._words = _NO_ROWS
        self._has_words = np.empty(0, dtype=bool)

    @property
    def size(self) -> int:
        """The number of rows."""
        return self._size

    @property
    def num_keys(self) -> int:
        return self._keys.size

    @property
    def size_bytes(self) -> int:
        """The memory of the columns of all rows."""
        return self._chunks.size_bytes

    # -- keys and rows -----------------------------------------------------------------------------------------------

    def find(self, key_columns: Sequence[pa.Array]) -> np.ndarray:
        """Returns int64[n]: the slot of each key; negative for keys without rows."""
        return self._keys.find(key_columns)

    def slots_of(self, key_columns: Sequence[pa.Array]) -> np.ndarray:
        """Returns int64[n]: the slot of each key. A new key gets one. It stays until the key's last row is removed.

        The caller adds rows for the new keys before the next call, or calls `forget_empty`.
        """
        slots, _ = self._keys.slots_of(key_columns)
        capacity = self._keys.capacity
        if capacity > len(self._head):
            known = len(self._head)
            self._head, self._tail = with_room(self._head, capacity), with_room(self._tail, capacity)
            self._counts = with_room(self._counts, capacity)
            self._head[known:] = self._tail[known:] = NONE
            self._counts[known:] = 0
        return slots

    def forget_empty(self, slots: np.ndarray) -> None:
        """Forgets the keys of these slots that have no rows."""
        empty = slots[self._counts.take(slots) == 0]
        if len(empty):
            self._keys.remove(np.unique(empty))

    def rows_of(self, slots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Finds all rows of keys.

        Returns: int64[m]: positions in `slots`, ascending; int64[m]: the rows of each, in the order of their addition.
        """
        positions, rows = self._kernels.rows_of(slots, self._head, self._counts, self._next)
        if self.layout.ttl_ms and len(rows):
            is_alive = self._alive(rows)
            if not is_alive.all():
                positions, rows = positions[is_alive], rows[is_alive]
        return positions, rows

    def counts_of(self, slots: np.ndarray) -> np.ndarray:
        """Returns int64[n]: the number of rows of each key, expired ones included."""
        if not len(self._counts):
            return np.zeros(len(slots), dtype=np.int64)
        return np.where(slots >= 0, self._counts.take(np.maximum(slots, 0)), 0).astype(np.int64)

    def row_of(self, slots: np.ndarray) -> np.ndarray:
        """Returns int64[n]: the first row of each key; negative if there is none. For tables of one row per key."""
        if not len(self._head):
            return np.full(len(slots), NONE, dtype=np.int64)
        rows = np.where(slots >= 0, self._head.take(np.maximum(slots, 0)), NONE).astype(np.int64)
        if self.layout.ttl_ms:
            known = np.flatnonzero(rows >= 0)
            rows[known[~self._alive(rows[known])]] = NONE
        return rows

    def slots_of_rows(self, rows: np.ndarray) -> np.ndarray:
        return self._slot.take(rows).astype(np.int64)

    def take(self, rows: np.ndarray, columns: Sequence[int] | None = None) -> list[pa.Array]:
        """Returns columns of rows: those at these positions, or all."""
        wanted = range(len(self.layout.types)) if columns is None else columns
        positions = self._position.take(rows).astype(np.int64) if self._is_changed else rows
        return self._chunks.take(positions, list(wanted))

    def ints(self, name: str, rows: np.ndarray) -> np.ndarray:
        """Returns int64[n]: this number of each row."""
        return self._ints[name].take(rows)

    def set_ints(self, name: str, rows: np.ndarray, values: np.ndarray) -> None:
        self._ints[name][rows] = values

    def sequence(self, rows: np.ndarray) -> np.ndarray:
        """Returns int64[n]: numbers that order rows by when they were added."""
        return self._added.take(rows) if self._is_changed else rows

    # -- changes -----------------------------------------------------------------------------------------------------

    def add(
        self, slots: np.ndarray, columns: Sequence[pa.Array], ints: dict[str, np.ndarray] | None = None
    ) -> np.ndarray:
        """Adds a row to the end of each key's list. Ignores `layout.row_key`. Returns int64[n]: the row numbers."""
        count = len(slots)
        if not count:
            return _NO_ROWS
        positions = self._chunks.append(columns)
        rows = positions if not self._is_changed else self._new_rows(count, positions)
        end = self._end = max(self._end, int(rows.max()) + 1)
        self._next, self._slot = with_room(self._next, end), with_room(self._slot, end)
        self._slot[rows] = slots
        for name in self._ints:
            self._ints[name] = with_room(self._ints[name], end)
        for name, values in (ints or {}).items():
            self._ints[name][rows] = values
        if self.layout.ttl_ms:
            self._ints["__time"][rows] = self._now()
        self._kernels.link(slots, rows, self._head, self._tail, self._counts, self._next, self._previous)
        self._size += count
        if len(self._has_words):
            self._has_words[rows[rows < len(self._has_words)]] = False
        return rows

    def _new_rows(self, count: int, positions: np.ndarray) -> np.ndarray:
        reused = min(count, self._num_free_rows)
        rows = np.empty(count, dtype=np.int64)
        rows[:reused] = self._free_rows[self._num_free_rows - reused : self._num_free_rows][::-1]
        rows[reused:] = np.arange(self._end, self._end + count - reused)
        self._num_free_rows -= reused
        end = self._end + count - reused
        self._previous = with_room(self._previous, end)
        self._position, self._added = with_room(self._position, end), with_room(self._added, end)
        self._added[rows] = np.arange(self._next_added, self._next_added + count)
        self._next_added += count
        self._place(rows, positions)
        return rows

    def _place(self, rows: np.ndarray, positions: np.ndarray) -> None:
        self._position[rows] = positions
        known = len(self._row_at)
        if self._chunks.num_chunks << CHUNK_BITS > known:
            self._row_at = with_room(self._row_at, self._chunks.num_chunks << CHUNK_BITS)
            self._row_at[known:] = NONE
            self._live_in_chunk = np.append(
                self._live_in_chunk, np.zeros(len(self._row_at) // CHUNK_ROWS - len(self._live_in_chunk), np.int64)
            )
        self._row_at[positions] = rows
        self._live_in_chunk += np.bincount(positions >> CHUNK_BITS, minlength=len(self._live_in_chunk))
        half = CHUNK_ROWS // 2
        self._sparse_chunks += [chunk for chunk in self._chunks.filled if self._live_in_chunk[chunk] <= half]
        self._chunks.filled.clear()

    def replace(self, rows: np.ndarray, columns: Sequence[pa.Array], ints: dict[str, np.ndarray] | None = None) -> None:
        """Replaces distinct rows. They keep their numbers and their places in the lists."""
        if not len(rows):
            return
        self._make_changeable()
        self._vacate(rows)
        self._place(rows, self._chunks.append(columns))
        for name, values in (ints or {}).items():
            self._ints[name][rows] = values
        if self.layout.ttl_ms:
            self._ints["__time"][rows] = self._now()
        if len(self._has_words):
            self._has_words[rows[rows < len(self._has_words)]] = False
        self._compact()

    def remove(self, rows: np.ndarray) -> None:
        """Removes distinct rows. A key without rows is forgotten, and its slot may be used again."""
        if not len(rows):
            return
        slots = self._slot.take(rows).astype(np.int64)
        if self._row_index is not None:
            self._row_index.remove(self._identity_of_row.take(rows).astype(np.int64))
        self._remove(rows, slots)
        self.forget_empty(slots)

    def remove_rows(self, rows: np.ndarray, slots: np.ndarray) -> None:
        """Removes distinct rows, and forgets those of the keys `slots` (which are the rows' keys) without rows."""
        self._remove(rows, self._slot.take(rows).astype(np.int64))
        self.forget_empty(slots)

    def _remove(self, rows: np.ndarray, slots: np.ndarray) -> None:
        """Removes rows, but keeps their keys."""
        if not len(rows):
            return
        self._make_changeable()
        self._kernels.unlink(slots, rows, self._head, self._tail, self._counts, self._next, self._previous)
        self._vacate(rows)
        self._slot[rows] = NONE
        end = self._num_free_rows + len(rows)
        self._free_rows = with_room(self._free_rows, end)
        self._free_rows[self._num_free_rows : end] = rows
        self._num_free_rows = end
        self._size -= len(rows)
        self._compact()

    def _vacate(self, rows: np.ndarray) -> None:
        """Gives up the positions of rows."""
        positions = self._position.take(rows).astype(np.int64)
        self._row_at[positions] = NONE
        chunks = positions >> CHUNK_BITS
        lost = np.bincount(chunks, minlength=len(self._live_in_chunk))
        before = self._live_in_chunk
        self._live_in_chunk = before - lost
        half = CHUNK_ROWS // 2
        now_sparse = np.flatnonzero((before > half) & (self._live_in_chunk <= half) & (lost > 0))
        # The tail is looked at when it is full.
        self._sparse_chunks += now_sparse[now_sparse != self._chunks.tail].tolist()

    def _compact(self) -> None:
        """Moves the rows of some sparse chunks to the end, and drops the chunks."""
        for _ in range(min(_COMPACTED_AT_ONCE, len(self._sparse_chunks))):
            chunk = self._sparse_chunks.pop()
            first = chunk << CHUNK_BITS
            rows = self._row_at[first : first + CHUNK_ROWS]
            rows = rows[rows != NONE].astype(np.int64)
            columns = self._chunks.take(self._position.take(rows).astype(np.int64), range(len(self.layout.types)))
            self._row_at[first : first + CHUNK_ROWS] = NONE
            self._live_in_chunk[chunk] = 0
            self._chunks.drop(chunk)
            if len(rows):
                self._place(rows, self._chunks.append(columns))

    def _make_changeable(self) -> None:
        """Creates the arrays that removing and replacing need."""
        if self._is_changed:
            return
        self._is_changed = True
        end = self._end
        self._previous = np.full(max(end, 1), NONE, dtype=np.int32)
        following = self._next[:end]
        linked = np.flatnonzero(following != NONE)
        self._previous[following[linked]] = linked
        # So far each row is at the position that is its number.
        self._position = np.arange(end, dtype=np.int32)
        self._added = np.arange(end)
        self._next_added = end
        num_chunks = self._chunks.num_chunks
        self._row_at = np.full(num_chunks << CHUNK_BITS, NONE, dtype=np.int32)
        self._row_at[:end] = self._position
        self._live_in_chunk = np.clip(end - (np.arange(num_chunks) << CHUNK_BITS), 0, CHUNK_ROWS)
        self._chunks.filled.clear()

    # -- rows that are identified by columns ---------------------------------------------------------------------------

    def find_identified(self, columns: Sequence[pa.Array]) -> np.ndarray:
        """Returns int64[n]: the row with the same key and row key as each of the given rows; negative if none."""
        assert self._row_index is not None
        identities = self._row_index.find(self._identity_columns(columns))
        if not self._row_index.capacity:
            return identities
        return np.where(identities >= 0, self._row_of_identity.take(np.maximum(identities, 0)), NONE).astype(np.int64)

    def _identity_columns(self, columns: Sequence[pa.Array]) -> list[pa.Array]:
        assert self.layout.row_key is not None
        return [*self.layout.key_columns(columns), *(columns[position] for position in self.layout.row_key)]

    def apply(
        self, columns: Sequence[pa.Array], is_add: np.ndarray | None, ints: dict[str, np.ndarray] | None = None
    ) -> np.ndarray:
        """Applies changes in their order: adds rows, or removes rows that are equal or have the same row key.

        To add a row with a row key that exists replaces that row. To remove a row that does not exist changes nothing.

        Args:
            columns: all columns of the rows.
            is_add: bool[n]; None if all are additions.
            ints: int64[n] per name: the numbers of added rows.

        Returns: bool[n]: true for each addition that replaced a row.
        """
        count = len(columns[0])
        nothing = np.zeros(count, dtype=bool)
        if not count:
            return nothing
        if self.layout.row_key is None:
            if is_add is None or is_add.all():
                self.add(self.slots_of(self.layout.key_columns(columns)), columns, ints)
            else:
                self._apply_to_multiset(columns, is_add, ints or {})
            return nothing
        return self._apply_to_identified(columns, nothing | True if is_add is None else is_add, ints or {})

    def _apply_to_identified(
        self, columns: Sequence[pa.Array], is_add: np.ndarray, ints: dict[str, np.ndarray]
    ) -> np.ndarray:
        """The last change of each identity in the batch decides."""
        index = self._row_index
        if index is None:
            slots = identities = self.slots_of(self.layout.key_columns(columns))
            rows = self._head.take(slots).astype(np.int64)
        else:
            slots = self.slots_of(self.layout.key_columns(columns))
            identities, new = index.slots_of(self._identity_columns(columns))
            self._row_of_identity = with_room(self._row_of_identity, index.capacity)
            self._row_of_identity[identities[new]] = NONE
            rows = self._row_of_identity.take(identities).astype(np.int64)
        if self.layout.ttl_ms:
            rows = self._without_expired(rows)
        groups = Groups(identities)
        replaced = np.zeros(len(is_add), dtype=bool)
        before = np.append(False, is_add[groups.order][:-1])
        before[groups.starts] = rows[groups.order[groups.starts]] >= 0
        replaced[groups.order] = before & is_add[groups.order]
        lasts = groups.lasts
        wanted, row = is_add[lasts], rows[lasts]
        to_replace = lasts[wanted & (row >= 0)]
        self.replace(row[wanted & (row >= 0)], _taken(columns, to_replace), _picked(ints, to_replace))
        to_add = np.sort(lasts[wanted & (row < 0)])
        added = self.add(slots[to_add], _taken(columns, to_add), _picked(ints, to_add))
        if index is not None:
            self._row_of_identity[identities[to_add]] = added
            self._identity_of_row = with_room(self._identity_of_row, self._end)
            self._identity_of_row[added] = identities[to_add]
            index.remove(identities[lasts[~wanted]])
        gone = lasts[~wanted]
        if len(gone):
            removed = row[~wanted & (row >= 0)]
            self._remove(removed, self._slot.take(removed).astype(np.int64))
            self.forget_empty(slots[gone])
        return replaced

    def _without_expired(self, rows: np.ndarray) -> np.ndarray:
        """Removes the expired ones of these rows, but keeps their keys. Returns the rows with NONE for those."""
        known = rows[rows >= 0]
        expired = np.unique(known[~self._alive(known)])
        if not len(expired):
            return rows
        self._remove(expired, self._slot.take(expired).astype(np.int64))
        if self._row_index is not None:
            self._row_of_identity[self._identity_of_row.take(expired)] = NONE
        return np.where(np.isin(rows, expired), NONE, rows)

    def _apply_to_multiset(self, columns: Sequence[pa.Array], is_add: np.ndarray, ints: dict[str, np.ndarray]) -> None:
        """Adds and removes as many copies of each row as are left after all changes of the batch."""
        words = self.words_of_columns(columns)
        slots = self.slots_of(self.layout.key_columns(columns))
        groups = Groups(words)
        # The rows that may be removed: those of the keys with removals, whose words occur among the removals.
        removing = np.unique(slots[~is_add])
        _, candidates = self.rows_of(removing)
        is_wanted = np.isin(self.words_of(candidates), words[~is_add])
        candidates = candidates[is_wanted]
        candidate_words = self.words_of(candidates)
        group_of = np.searchsorted(groups.keys, candidate_words)
        base = np.bincount(group_of, minlength=groups.count)
        steps = np.where(is_add, 1, -1)[groups.order]
        sums = groups.running_sums(steps)
        lowest = np.minimum.reduceat(sums + base[groups.group_of], groups.starts)
        final = base + sums[groups.ends - 1] - np.minimum(lowest, 0)
        difference = final - base
        # Adds the last additions of a group.
        adds_left = groups.running_sums(is_add[groups.order].astype(np.int64))
        total_adds = adds_left[groups.ends - 1]
        from_end = total_adds[groups.group_of] - adds_left
        is_added = is_add[groups.order] & (from_end < difference[groups.group_of])
        to_add = np.sort(groups.order[is_added])
        # Removes the first rows of a group.
        order = np.argsort(group_of, kind="stable")
        number = np.arange(len(order)) - (np.cumsum(base) - base)[group_of[order]]
        gone = order[number < -difference[group_of[order]]]
        self.add(slots[to_add], _taken(columns, to_add), _picked(ints, to_add))
        removed = candidates[gone]
        self._remove(removed, self._slot.take(removed).astype(np.int64))
        self.forget_empty(slots)

    def words_of_columns(self, columns: Sequence[pa.Array]) -> np.ndarray:
        """Returns int64[n]: one number per row, which is equal for equal rows."""
        if self._row_words is None:
            self._row_words = KeyWords(self.layout.types)
        return _one_word(self._row_words, columns)

    def identity_words(self, columns: Sequence[pa.Array]) -> np.ndarray:
        """Returns int64[n]: one number per row, which is equal for rows that `apply` takes for the same one."""
        row_key = self.layout.row_key
        if row_key is None:
            return self.words_of_columns(columns)
        if self._identity_words is None:
            self._identity_words = KeyWords([*self.layout.key_types, *(self.layout.types[place] for place in row_key)])
        return _one_word(self._identity_words, self._identity_columns(columns))

    def words_of(self, rows: np.ndarray) -> np.ndarray:
        """Returns the numbers that `words_of_columns` gives these rows. They are computed once per row."""
        known = len(self._has_words)
        if known < self._end:
            self._words = with_room(self._words, self._end)
            self._has_words = with_room(self._has_words, self._end)
            self._has_words[known:] = False
        missing = np.unique(rows[~self._has_words.take(rows)]) if len(rows) else rows
        if len(missing):
            self._words[missing] = self.words_of_columns(self.take(missing))
            self._has_words[missing] = True
        return self._words.take(rows)

    # -- time-to-live ------------------------------------------------------------------------------------------------

    def _now(self) -> int:
        assert self._now_ms is not None
        return self._now_ms()

    def _alive(self, rows: np.ndarray) -> np.ndarray:
        return self._ints["__time"].take(rows) > self._now() - self.layout.ttl_ms

    def exists(self, rows: np.ndarray) -> np.ndarray:
        """Returns bool[n]: true for rows that have neither been removed nor have expired."""
        if not self._is_changed:
            is_there = np.ones(len(rows), dtype=bool)
        else:
            is_there = self._slot.take(rows) != NONE
        return is_there & self._alive(rows) if self.layout.ttl_ms else is_there

    def touch(self, rows: np.ndarray) -> None:
        """Lets the time-to-live of rows begin again."""
        if self.layout.ttl_ms:
            self._ints["__time"][rows] = self._now()

    def after_batch(self, num_records: int) -> None:
        """Does work that is spread over batches: removes expired rows among the next ones, in a round over all."""
        if self.layout.ttl_ms:
            rows = self.next_rows(num_records)
            self.remove(rows[~self._alive(rows)])

    def next_rows(self, num_records: int) -> np.ndarray:
        """Returns the next rows of a round over all of them: some for each record of a batch. It is not a long search.

        A round ends although each record may add a row.
        """
        count = max(_MIN_SWEEP, _SWEEP_PER_ROW * num_records)
        rows = np.arange(self._sweep_at, min(self._sweep_at + count, self._end))
        self._sweep_at = 0 if self._sweep_at + count >= self._end else self._sweep_at + count
        return rows[self._slot.take(rows) != NONE] if self._is_changed else rows

    # -- snapshots, by the backend -----------------------------------------------------------------------------------

    def live_rows(self) -> np.ndarray:
        """Returns int64[n]: all rows, those of one key in their order."""
        if not self._is_changed:
            return np.arange(self._end)
        rows = np.flatnonzero(self._slot[: self._end] != NONE)
        return rows[np.argsort(self._added.take(rows), kind="stable")]

    def freeze(self, meta: StateMetaInfo) -> FrozenRows:
        is_live = self._slot[: self._end] != NONE if self._is_changed else None
        return FrozenRows(
            meta,
            self.layout,
            self._chunks.frozen(),
            self._size,
            is_live,
            self._position[: self._end].copy() if self._is_changed else None,
            self._added[: self._end].copy() if self._is_changed else None,
            [self._ints[name][: self._end].copy() for name in self.layout.stored_ints],
        )

    def restore(self, data: bytes) -> None:
        """Adds rows that a FrozenRows wrote."""
        for batch in pa.ipc.open_stream(data):
            self.restore_batch(batch)

    def restore_batch(self, batch: pa.RecordBatch) -> np.ndarray:
        """Adds rows: the columns, then the numbers. Returns the row numbers."""
        width = len(self.layout.types)
        columns = batch.columns[:width]
        names = self.layout.ints
        ints = {name: column.to_numpy() for name, column in zip(names, batch.columns[width:])}
        slots = self.slots_of(self.layout.key_columns(columns))
        rows = self._add_restored(slots, columns, ints)
        if self.layout.ttl_ms and batch.num_columns > width + len(names):
            self._ints["__time"][rows] = batch.column(width + len(names)).to_numpy()
        return rows

    def _add_restored(self, slots: np.ndarray, columns: list[pa.Array], ints: dict[str, np.ndarray]) -> np.ndarray:
        rows = self.add(slots, columns, ints)
        index = self._row_index
        if index is not None:
            identities, _ = index.slots_of(self._identity_columns(columns))
            self._row_of_identity = with_room(self._row_of_identity, index.capacity)
            self._row_of_identity[identities] = rows
            self._identity_of_row = with_room(self._identity_of_row, self._end)
            self._identity_of_row[rows] = identities
        return rows


def _one_word(words: KeyWords, columns: Sequence[pa.Array]) -> np.ndarray:
    first, second = words.words(columns)
    return first ^ (second << np.int64(1))


def _taken(columns: Sequence[pa.Array], rows: np.ndarray) -> list[pa.Array]:
    if len(rows) == len(columns[0]) and (not len(rows) or (rows == np.arange(len(rows))).all()):
        return list(columns)
    indices = pa.array(rows)
    return [column.take(indices) for column in columns]


def _picked(ints: dict[str, np.ndarray], rows: np.ndarray) -> dict[str, np.ndarray]:
    return {name: values[rows] for name, values in ints.items()}


class FrozenRows(FrozenState):
    """The rows of a table at one moment: references to its chunks, and copies of arrays of numbers."""

    def __init__(
        self,
        meta: StateMetaInfo,
        layout: RowLayout,
        chunks: FrozenChunks,
        size: int,
        is_live: np.ndarray | None,
        positions: np.ndarray | None,
        added: np.ndarray | None,
        ints: list[np.ndarray],
    ) -> None:
        super().__init__(meta)
        self._layout = layout
        self._chunks = chunks
        self._size = size
        self._is_live = is_live
        self._positions = positions
        self._added = added
        self._ints = ints
        self._rows = _NO_ROWS

    def __len__(self) -> int:
        return self._size

    def sort(self, max_parallelism: int) -> np.ndarray:
        if self._is_live is None or self._added is None:
            rows = np.arange(self._size)
        else:
            rows = np.flatnonzero(self._is_live)
            rows = rows[np.argsort(self._added.take(rows), kind="stable")]
        groups = np.empty(len(rows), dtype=np.uint16)
        for start in range(0, len(rows), CHUNK_ROWS):
            piece = rows[start : start + CHUNK_ROWS]
            keys = self._layout.key_columns(self._chunks.take(self._places(piece)))
            groups[start : start + len(piece)] = key_groups(hash_columns(keys), max_parallelism)
        self._rows = rows[np.argsort(groups, kind="stable")]
        return ends_of_groups(groups, max_parallelism)

    def _places(self, rows: np.ndarray) -> np.ndarray:
        return rows if self._positions is None else self._positions.take(rows).astype(np.int64)

    def write(self, writer: KeyGroupsFileWriter, index: int, start: int, end: int) -> None:
        for begin in range(start, end, _BATCH_ROWS):
            rows = self._rows[begin : min(end, begin + _BATCH_ROWS)]
            columns = self._chunks.take(self._places(rows)) + [pa.array(values.take(rows)) for values in self._ints]
            batch = pa.RecordBatch.from_arrays(columns, names=[f"c{i}" for i in range(len(columns))])
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as stream:
                stream.write_batch(batch)
            writer.write_payload(index, batch.num_rows, memoryview(sink.getvalue()))

    def drop(self) -> None:
        self._chunks.drop()
        self._ints.clear()
        self._rows = _NO_ROWS


class RestoredRows(FrozenState):
    """Restored rows that no operator has requested."""

    def __init__(self, meta: StateMetaInfo, batches: list[tuple[int, bytes]]) -> None:
        super().__init__(meta)
        self._batches = batches
        self._table: pa.RecordBatch | None = None

    def __len__(self) -> int:
        return sum(rows for rows, _ in self._batches)

    def sort(self, max_parallelism: int) -> np.ndarray:
        assert self.meta.table is not None
        layout = RowLayout.from_json(self.meta.table)
        batches = [batch for _, data in self._batches for batch in pa.ipc.open_stream(data)]
        table = pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
        groups = key_groups(hash_columns(layout.key_columns(table.columns)), max_parallelism)
        self._table = table.take(pa.array(np.argsort(groups.astype(np.uint16), kind="stable")))
        return ends_of_groups(groups, max_parallelism)

    def write(self, writer: KeyGroupsFileWriter, index: int, start: int, end: int) -> None:
        assert self._table is not None
        for begin in range(start, end, _BATCH_ROWS):
            batch = self._table.slice(begin, min(_BATCH_ROWS, end - begin))
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as stream:
                stream.write_batch(batch)
            writer.write_payload(index, batch.num_rows, memoryview(sink.getvalue()))

    def drop(self) -> None:
        self._table = None
        self._batches.clear()


def _show(value: Any) -> str:
    return "none" if value is None else f"({', '.join(map(str, value))})"
