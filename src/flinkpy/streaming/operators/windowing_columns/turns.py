"""turns_of: splits a batch into parts, so that the records of one key are processed one after the other."""

from __future__ import annotations

import numpy as np


def turns_of(keys: np.ndarray, is_alone: np.ndarray) -> list[np.ndarray]:
    """Splits records into as few parts as possible. Returns the positions of the records of each part.

    The records of one key are in order over the parts.

    Args:
        keys: int64[n]: the key of each record.
        is_alone: bool[n]: True if the record must be the only one of its key in its part. Other records may share a
            part with their neighbours of the same key.
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
