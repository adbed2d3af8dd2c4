"""The distinct values among codes of keys."""

from __future__ import annotations

import numpy as np


def distinct_codes(codes: np.ndarray, span: int) -> tuple[np.ndarray, np.ndarray]:
    """(the distinct codes in order, for each code its place among them); codes are from 0 to `span`, exclusive."""
    if span > 8 * len(codes) + 65_536:
        distinct, groups = np.unique(codes, return_inverse=True)
        return distinct, groups
    is_there = np.zeros(span, dtype=bool)
    is_there[codes] = True
    distinct = np.flatnonzero(is_there)
    places = np.empty(span, dtype=np.int64)
    places[distinct] = np.arange(len(distinct))
    return distinct, places.take(codes)
