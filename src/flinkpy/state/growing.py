"""with_room: arrays that grow."""

from __future__ import annotations

import numpy as np

_MIN_CAPACITY = 1 << 10


def with_room(values: np.ndarray, size: int) -> np.ndarray:
    """Returns an array of at least that size. The size at least doubles, so growing costs a constant per entry."""
    if size <= len(values):
        return values
    grown = np.empty(max(size, 2 * len(values), _MIN_CAPACITY), dtype=values.dtype)
    grown[: len(values)] = values
    return grown
