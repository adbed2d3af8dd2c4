"""Turns: the records of a batch in as few parts as it takes for records of one key to come one after the other."""

from __future__ import annotations

import numpy as np


def turns_of(keys: np.ndarray, is_alone: np.ndarray) -> list[np.ndarray]:
    """Positions of the records, in parts; each key's records are in order over the parts.

    Args:
        keys: int64[n].
        is_alone: bool[n]: the record must be the only one of its key in its part. Others may be with neighbours of
            their key.
    """
    if not len(keys):
        return []
    order = np.argsort(keys, kind="stable")
    in_order, alone = keys.take(order), is_alone.take(order)
    is_first = np.append(True, in_order[1:] != in_order[:-1])
    begins = is_first | alone | np.append(False, alone[:-1])
    parts = np.cumsum(begins)
    turn = np.empty(len(keys), dtype=np.int64)
    turn[order] = parts - np.maximum.accumulate(np.where(is_first, parts, 0))
    by_turn = np.argsort(turn, kind="stable")
    ends = np.cumsum(np.bincount(turn)).tolist()
    return [by_turn[start:end] for start, end in zip([0, *ends[:-1]], ends)]
