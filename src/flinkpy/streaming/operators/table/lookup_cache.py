"""LookupCache: the rows that a lookup join has found lately, by key, in columns.

Source: org.apache.flink.table.connector.source.lookup.cache.DefaultLookupCache.
Differs: each subtask has its own. Expired keys are dropped once per lifetime. When the cache is full, it drops a
sixteenth of its keys at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from flinkpy.graph.table_specs import LookupCacheOptions
from flinkpy.state.row_table import RowLayout, RowTable

#: When the row was looked up, when it was last used, and 1 for a key that has no row.
_WRITTEN, _USED, _IS_MISSING = "written", "used", "is_missing"
#: The part of the keys that a full cache drops, so that it does not look for the oldest ones with each batch.
_DROPPED = 16


class LookupCache:
    """Thread: task thread.

    Args:
        keys, rows: the columns of a key, and of a row of the table.
        now_ms: the clock.
    """

    def __init__(
        self, options: LookupCacheOptions, keys: pa.Schema, rows: pa.Schema, now_ms: Callable[[], int]
    ) -> None:
        self._options = options
        self._rows = rows
        self._now_ms = now_ms
        width = len(keys)
        self._columns = list(range(width, width + len(rows)))
        layout = RowLayout((*keys.types, *rows.types), tuple(range(width)), ints=(_WRITTEN, _USED, _IS_MISSING))
        self._table = RowTable(layout)
        limits = ((_WRITTEN, options.expire_after_write_ms), (_USED, options.expire_after_access_ms))
        self._lifetimes_ms = {name: lifetime_ms for name, lifetime_ms in limits if lifetime_ms is not None}
        #: When the rows were last searched for expired ones.
        self._swept_ms = now_ms()

    @property
    def num_keys(self) -> int:
        return self._table.num_keys

    def find(self, keys: Sequence[pa.Array]) -> tuple[np.ndarray, np.ndarray, pa.RecordBatch]:
        """Looks up distinct keys.

        Returns:
            bool[n]: true for keys that the cache knows.
            int64[m], ascending: for each found row the position of its key; the rows.
        """
        now, table = self._now_ms(), self._table
        positions, rows = table.rows_of(table.find(keys))
        is_fresh = self._is_fresh(rows, now)
        table.remove(rows[~is_fresh])
        positions, rows = positions[is_fresh], rows[is_fresh]
        table.set_ints(_USED, rows, np.full(len(rows), now))
        is_known = np.zeros(len(keys[0]), dtype=bool)
        is_known[positions] = True
        has_row = table.ints(_IS_MISSING, rows) == 0
        columns = table.take(rows[has_row], self._columns)
        return is_known, positions[has_row], pa.RecordBatch.from_arrays(columns, schema=self._rows)

    def put(self, keys: Sequence[pa.Array], key_of_row: np.ndarray, rows: pa.RecordBatch) -> None:
        """Adds keys that the cache does not know, with all their rows. The arguments are as results of `find`."""
        missing = np.setdiff1d(np.arange(len(keys[0])), key_of_row)
        if not self._options.caches_missing_keys:
            missing = missing[:0]
        places = pa.array(np.concatenate([key_of_row, missing]))
        if not len(places):
            return
        self._drop_expired()
        columns = [key.take(places) for key in keys]
        for column in rows.columns:
            columns.append(pa.concat_arrays([column, pa.nulls(len(missing), column.type)]))
        now = np.full(len(places), self._now_ms())
        is_missing = np.arange(len(places)) >= len(key_of_row)
        ints = {_WRITTEN: now, _USED: now, _IS_MISSING: is_missing.astype(np.int64)}
        table = self._table
        # A key that another batch has asked for at the same time is replaced.
        _, old = table.rows_of(np.unique(table.find(keys)))
        table.remove(old)
        table.add(table.slots_of(columns[: len(keys)]), columns, ints)
        self._drop_oldest()

    def _is_fresh(self, rows: np.ndarray, now: int) -> np.ndarray:
        """Returns bool[n]: false for rows whose lifetime has ended."""
        is_fresh = np.ones(len(rows), dtype=bool)
        for name, lifetime_ms in self._lifetimes_ms.items():
            is_fresh &= self._table.ints(name, rows) + lifetime_ms > now
        return is_fresh

    def _drop_expired(self) -> None:
        """Drops expired keys that are not asked for again, once per lifetime: the cost per use of a key is constant."""
        now = self._now_ms()
        if not self._lifetimes_ms or now < self._swept_ms + min(self._lifetimes_ms.values()):
            return
        self._swept_ms = now
        rows = self._table.live_rows()
        self._table.remove(rows[~self._is_fresh(rows, now)])

    def _drop_oldest(self) -> None:
        most = self._options.max_rows
        table = self._table
        if most is None or table.num_keys <= most:
            return
        rows = table.live_rows()
        by_use = rows[np.argsort(table.ints(_USED, rows), kind="stable")]
        slots = table.slots_of_rows(by_use)
        _, firsts = np.unique(slots, return_index=True)
        oldest = slots[np.sort(firsts)][: table.num_keys - most + most // _DROPPED]
        table.remove(table.rows_of(oldest)[1])
