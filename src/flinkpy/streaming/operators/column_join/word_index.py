"""WordIndex: finds the rows of a 64-bit word, for a whole batch of words at once.

The words are spread by a multiplication and sorted; a directory of their highest bits says where to look. Building it
is one sort, and a look-up two reads of memory and mostly one comparison.
"""

from __future__ import annotations

import numpy as np

#: 2**64 divided by the golden ratio, odd: different words stay different, and near ones come apart.
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


class WordIndex:
    """Attributes:
    order: int64[n]: the rows, those of a word one after the other and in their own order.
    starts, counts: int64[m]: where each distinct word's rows are in `order`.
    """

    def __init__(self, words: np.ndarray) -> None:
        """`words`: int64[n] or uint64[n], of rows 0 to n."""
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
        """int64[n]: the position of each word among the distinct ones, -1 where it is not there."""
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
