"""BuildSide: the rows of one side in memory, with an index by key. Finds the partners of the other side's rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from flinkpy.streaming.operators.column_join.join_keys import JoinKeys
from flinkpy.streaming.operators.column_join.word_index import WordIndex

#: The maximum number of pairs per batch of results.
MAX_PAIRS = 65_536


class BuildSide:
    """The indexed rows of one side.

    Args:
        columns: the rows. Their keys have no nulls.
    """

    def __init__(self, columns: pa.Table, keys: JoinKeys) -> None:
        self.columns = columns.combine_chunks()
        self._keys = keys
        #: (index, first row of each word, first slot). There is one level, unless several keys have the same word.
        self._levels: list[tuple[WordIndex, np.ndarray, int]] = []
        starts, counts, orders = [], [], []
        rows = np.arange(columns.num_rows)
        num_slots = num_ordered = 0
        while len(rows):
            index = WordIndex(keys.words[rows])
            order, is_other = rows[index.order], np.zeros(len(rows), dtype=bool)
            first = order[index.starts]
            if not keys.is_exact:
                is_other = ~keys.equal(order, keys, np.repeat(first, index.counts))
            self._levels.append((index, first, num_slots))
            here = index.counts
            if is_other.any():
                here = here - np.add.reduceat(is_other.astype(np.int64), index.starts)
            kept = order[~is_other] if is_other.any() else order
            counts.append(here)
            starts.append(num_ordered + np.cumsum(here) - here)
            orders.append(kept)
            num_slots += len(here)
            num_ordered += len(kept)
            # Other keys with the same word, which are very rare. Keep them in the order of the rows.
            rows = np.sort(order[is_other])
        nothing = [np.empty(0, dtype=np.int64)]
        self._starts, self._counts, self._order = (np.concatenate(each or nothing) for each in (starts, counts, orders))
        self._is_unique = bool((self._counts == 1).all())

    def slots_of(self, keys: JoinKeys) -> np.ndarray:
        """Returns the slot of each key as int64[n]; -1 if no row of this side has the key."""
        found = np.full(len(keys.words), -1, dtype=np.int64)
        rows = np.arange(len(keys.words)) if keys.is_null is None else np.flatnonzero(~keys.is_null)
        for index, first, base in self._levels:
            positions = index.find(keys.words[rows] if len(rows) < len(keys.words) else keys.words)
            is_there = positions >= 0
            rows, positions = rows[is_there], positions[is_there]
            if keys.is_exact:
                found[rows] = base + positions
                break
            is_equal = keys.equal(rows, self._keys, first[positions])
            found[rows[is_equal]] = base + positions[is_equal]
            rows = rows[~is_equal]
        return found

    def pairs(self, slots: np.ndarray, keep_lonely: bool) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yields (rows of the other side, rows of this side) in the order of the other side.

        Args:
            keep_lonely: True to also yield rows of the other side without a partner, with partner -1.
        """
        if self._is_unique or not len(self._counts):
            rows = np.arange(len(slots)) if keep_lonely else np.flatnonzero(slots >= 0)
            slots = slots[rows]
            partners = self._order[self._starts[slots]] if len(self._counts) else slots
            if keep_lonely:
                partners = np.where(slots >= 0, partners, -1)
            for start in range(0, len(rows), MAX_PAIRS):
                yield rows[start : start + MAX_PAIRS], partners[start : start + MAX_PAIRS]
            return
        counts = np.where(slots >= 0, self._counts[slots], 1 if keep_lonely else 0)
        ends = np.cumsum(counts)
        total = int(ends[-1]) if len(ends) else 0
        for start in range(0, total, MAX_PAIRS):
            numbers = np.arange(start, min(start + MAX_PAIRS, total))
            rows = np.searchsorted(ends, numbers, side="right")
            slot = slots[rows]
            within = numbers - (ends[rows] - counts[rows])
            partners = self._order[np.minimum(self._starts[slot] + within, len(self._order) - 1)]
            yield rows, np.where(slot >= 0, partners, -1) if keep_lonely else partners
