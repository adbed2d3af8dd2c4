"""WordIndex: finds the rows of 64-bit words, for a whole batch of words at once.

The words are spread by a multiplication and sorted. A directory of their highest bits shows where to search. Building
the index takes one sort. A lookup takes two memory reads and usually one comparison.
"""

from __future__ import annotations

import numpy as np

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
