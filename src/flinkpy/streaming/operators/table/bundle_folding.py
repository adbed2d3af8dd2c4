"""Folds the changes of a mini-batch before a join, so that changes that cancel each other out are not joined.

Source: org.apache.flink.table.runtime.operators.join.stream.bundle.{InputSideHasNoUniqueKeyBundle,
InputSideHasUniqueKeyBundle, JoinKeyContainsUniqueKeyBundle}.
"""

from __future__ import annotations

import numpy as np

from flinkpy.records.segments import Groups
from flinkpy.streaming.operators.table.table_inputs import INSERT


def folded_rows(words: np.ndarray, is_add: np.ndarray) -> np.ndarray:
    """Folds changes of rows that may occur several times: additions and removals of equal rows cancel each other out.

    Args:
        words: int64[n]: equal for equal rows.
        is_add: bool[n].

    Returns: int64[m]: the changes that are left, ascending: of each row the last additions, or the last removals.
    """
    groups = Groups(words)
    steps = np.where(is_add, 1, -1)[groups.order]
    net = groups.running_sums(steps)[groups.ends - 1]
    is_candidate = steps * np.sign(net)[groups.group_of] > 0
    count = groups.running_sums(is_candidate.astype(np.int64))
    left = count[groups.ends - 1][groups.group_of] - count
    return np.sort(groups.order[is_candidate & (left < np.abs(net)[groups.group_of])])


def folded_identities(words: np.ndarray, is_add: np.ndarray, kinds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Folds changes of rows with a unique key: of each key the removal of the old row and the new row are left.

    Args:
        words: int64[n]: equal for rows with the same unique key.
        is_add: bool[n].
        kinds: int8[n].

    Returns:
        int64[m]: the changes that are left, ascending.
        int8[m]: their kinds. A row that the mini-batch inserts and then updates is inserted.
    """
    groups = Groups(words)
    before_additions = groups.running_sums(is_add[groups.order].astype(np.int64)) == 0
    # A key whose first change is a removal was there before.
    num_removals = np.add.reduceat(before_additions.astype(np.int64), groups.starts)
    has_removal = num_removals > 0
    removals = groups.order[(groups.starts + num_removals - 1)[has_removal]]
    ends_with_row = is_add[groups.lasts]
    additions = groups.lasts[ends_with_row]
    new_kinds = kinds[additions]
    new_kinds[kinds[groups.firsts[ends_with_row]] == INSERT] = INSERT
    kept = np.concatenate([removals, additions])
    order = np.argsort(kept)
    return kept[order], np.concatenate([kinds[removals], new_kinds])[order]
