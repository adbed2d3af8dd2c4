"""BuildSide: the rows of one side in memory, with an index by key. Finds the partners of the other side's rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from flinkpy.streaming.operators.column_join.join_keys import JoinKeys

#: The maximum number of pairs per batch of results.
MAX_PAIRS = 65_536


#: 2**64 divided by the golden ratio, made odd: different words stay different, and words near each other are spread.
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


class WordIndex:
    """Finds rows by their words. The index spreads the words by a multiplication and sorts them.

    A directory of the highest bits shows where to search. Building the index takes one sort. A lookup takes two memory
    reads and usually one comparison.

    Args:
        words: int64[n] or uint64[n]: the words of the rows 0 to n.

    Attributes:
        order: int64[n]: the rows, grouped by word. The rows of a word keep their order.
        starts, counts: int64[m]: for each distinct word, the start and number of its rows in `order`.
    """

    def __init__(self, words: np.ndarray) -> None:
        spread = words.view(np.uint64) * _MULTIPLIER
        self.order = np.argsort(spread, kind="stable")
        spread = spread[self.order]
        is_first = np.ones(len(spread), dtype=bool)
        np.not_equal(spread[1:], spread[:-1], out=is_first[1:])
        self.starts = np.flatnonzero(is_first)
        self.counts = np.diff(self.starts, append=len(spread))
        self._words = spread[self.starts]
        bits = max(1, len(self._words).bit_length())
        self._shift = np.uint64(64 - bits)
        sizes = np.bincount((self._words >> self._shift).astype(np.int64), minlength=1 << bits)
        self._directory = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(sizes)])

    def find(self, words: np.ndarray) -> np.ndarray:
        """Returns the position of each word among the distinct words as int64[n]; -1 if it is not in the index."""
        found = np.full(len(words), -1, dtype=np.int64)
        if not len(self._words) or not len(words):
            return found
        wanted = words.view(np.uint64) * _MULTIPLIER
        bucket = (wanted >> self._shift).astype(np.int64)
        place, end = self._directory.take(bucket), self._directory.take(bucket + 1)
        rows = np.flatnonzero(place < end)
        place, end, wanted = place[rows], end[rows], wanted[rows]
        while len(rows):
            there = self._words.take(place)
            is_equal = there == wanted
            found[rows[is_equal]] = place[is_equal]
            place = place + 1
            left = np.flatnonzero((there < wanted) & (place < end))
            rows, place, end, wanted = rows[left], place[left], end[left], wanted[left]
        return found


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

    def pairs(self, slots: np.ndarray, keep_unmatched: bool) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yields (rows of the other side, rows of this side) in the order of the other side.

        Args:
            keep_unmatched: True to also yield rows of the other side without a partner, with partner -1.
        """
        if self._is_unique or not len(self._counts):
            rows = np.arange(len(slots)) if keep_unmatched else np.flatnonzero(slots >= 0)
            slots = slots[rows]
            partners = self._order[self._starts[slots]] if len(self._counts) else slots
            if keep_unmatched:
                partners = np.where(slots >= 0, partners, -1)
            for start in range(0, len(rows), MAX_PAIRS):
                yield rows[start : start + MAX_PAIRS], partners[start : start + MAX_PAIRS]
            return
        counts = np.where(slots >= 0, self._counts[slots], 1 if keep_unmatched else 0)
        ends = np.cumsum(counts)
        total = int(ends[-1]) if len(ends) else 0
        for start in range(0, total, MAX_PAIRS):
            numbers = np.arange(start, min(start + MAX_PAIRS, total))
            rows = np.searchsorted(ends, numbers, side="right")
            slot = slots[rows]
            within = numbers - (ends[rows] - counts[rows])
            partners = self._order[np.minimum(self._starts[slot] + within, len(self._order) - 1)]
            yield rows, np.where(slot >= 0, partners, -1) if keep_unmatched else partners
