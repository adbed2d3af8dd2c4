"""BuildSide: the rows of one side in memory, with an index by key, and the pairs that rows of the other side make."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from flinkpy.streaming.operators.column_join.join_keys import JoinKeys
from flinkpy.streaming.operators.column_join.word_index import WordIndex

#: Pairs come in pieces of this many, however many there are.
MAX_PAIRS = 65_536


class BuildSide:
    """Args:
    columns: no key has a null.
    """

    def __init__(self, columns: pa.Table, keys: JoinKeys) -> None:
        self.columns = columns.combine_chunks()
        self._keys = keys
        #: (index, its rows' numbers here, number of the first of its slots); one but for words of several keys.
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
            # Other keys of the same word: hardly ever any. In their own order, as all rows are.
            rows = np.sort(order[is_other])
        nothing = [np.empty(0, dtype=np.int64)]
        self._starts, self._counts, self._order = (np.concatenate(each or nothing) for each in (starts, counts, orders))
        self._is_unique = bool((self._counts == 1).all())

    def slots_of(self, keys: JoinKeys) -> np.ndarray:
        """int64[n]: the slot of each row's key, -1 where no row here has it."""
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
        """(rows of the other side, rows of this one), in the other side's order; with `keep_lonely` those without a
        partner have -1.
        """
        if self._is_unique or not len(self._counts):
            rows = np.arange(len(slots)) if keep_lonely else np.flatnonzero(slots >= 0)
            slots = slots[rows]
            mine = self._order[self._starts[slots]] if len(self._counts) else slots
            if keep_lonely:
                mine = np.where(slots >= 0, mine, -1)
            for start in range(0, len(rows), MAX_PAIRS):
                yield rows[start : start + MAX_PAIRS], mine[start : start + MAX_PAIRS]
            return
        counts = np.where(slots >= 0, self._counts[slots], 1 if keep_lonely else 0)
        ends = np.cumsum(counts)
        total = int(ends[-1]) if len(ends) else 0
        for start in range(0, total, MAX_PAIRS):
            numbers = np.arange(start, min(start + MAX_PAIRS, total))
            rows = np.searchsorted(ends, numbers, side="right")
            slot = slots[rows]
            within = numbers - (ends[rows] - counts[rows])
            mine = self._order[np.minimum(self._starts[slot] + within, len(self._order) - 1)]
            yield rows, np.where(slot >= 0, mine, -1) if keep_lonely else mine
