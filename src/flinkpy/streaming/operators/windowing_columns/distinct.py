"""distinct_codes: finds the distinct values among key codes."""

from __future__ import annotations

import numpy as np


def distinct_codes(codes: np.ndarray, span: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the distinct codes in order, and the position of each code among them.

    Args:
        codes: int64[n], each at least 0 and below `span`.
    """
    if span > 8 * len(codes) + 65_536:
        distinct, groups = np.unique(codes, return_inverse=True)
        return distinct, groups
    is_there = np.zeros(span, dtype=bool)
    is_there[codes] = True
    distinct = np.flatnonzero(is_there)
    places = np.empty(span, dtype=np.int64)
    places[distinct] = np.arange(len(distinct))
    return distinct, places.take(codes)
