"""Groups: rows of a batch grouped by a number, with running results inside each group, without a loop over rows."""

from __future__ import annotations

import numpy as np


class Groups:
    """Rows grouped by key. The rows of a group keep their order.

    Args:
        keys: int64[n].

    Attributes:
        order: int64[n]: the rows, group after group.
        starts, ends: int64[m]: the begin and end of each group in `order`.
        keys: int64[m]: the key of each group, ascending.
        group_of: int64[n]: the group of each place in `order`.
    """

    def __init__(self, keys: np.ndarray) -> None:
        self.order = np.argsort(keys, kind="stable")
        in_order = keys[self.order]
        is_first = np.ones(len(keys), dtype=bool)
        np.not_equal(in_order[1:], in_order[:-1], out=is_first[1:])
        self.starts = np.flatnonzero(is_first)
        self.ends = np.append(self.starts[1:], len(keys)) if len(keys) else self.starts
        self.keys = in_order[self.starts]
        self.group_of = np.cumsum(is_first) - 1

    @property
    def count(self) -> int:
        """The number of groups."""
        return len(self.starts)

    @property
    def firsts(self) -> np.ndarray:
        """int64[m]: the first row of each group."""
        return self.order[self.starts]

    @property
    def lasts(self) -> np.ndarray:
        """int64[m]: the last row of each group."""
        return self.order[self.ends - 1]

    def running_maxima(self, values: np.ndarray) -> np.ndarray:
        """Returns int64[n]: for each place in `order`, the maximum of the group's values (in that order) up to it."""
        # Ranks in the high bits of the group's number: then a maximum over all places is one inside the group.
        order = np.argsort(values, kind="stable")
        ranks = np.empty(len(values), dtype=np.int64)
        ranks[order] = np.arange(len(values))
        best = np.maximum.accumulate(ranks + self.group_of * len(values)) - self.group_of * len(values)
        return values[order[best]]

    def running_sums(self, values: np.ndarray) -> np.ndarray:
        """Returns int64[n]: for each place in `order`, the sum of the group's values (in that order) up to it."""
        sums = np.cumsum(values)
        before = sums[self.starts] - values[self.starts]
        return sums - before[self.group_of] if len(sums) else sums
