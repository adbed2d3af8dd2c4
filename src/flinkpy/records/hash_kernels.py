"""The vectors of `key_hash` that hash texts and mix words, compiled by numba. Importing this module needs numba.

The results are those of the NumPy form.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np

from flinkpy.records import key_hash

_BODY_1, _BODY_2 = np.uint64(key_hash._BODY_1), np.uint64(key_hash._BODY_2)
_FMIX_1, _FMIX_2 = np.uint64(key_hash._FMIX_1), np.uint64(key_hash._FMIX_2)
_ADD, _FIVE = np.uint64(key_hash._ADD), np.uint64(5)


def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    try:
        return numba.njit(function, cache=True, nogil=True)  # type: ignore[no-any-return]
    except RuntimeError:
        # There is no directory for the cache.
        return numba.njit(function, nogil=True)  # type: ignore[no-any-return]


@_compiled
def _fmix(word: np.uint64) -> Any:
    word ^= word >> np.uint64(33)
    word *= _FMIX_1
    word ^= word >> np.uint64(33)
    word *= _FMIX_2
    return word ^ (word >> np.uint64(33))


@_compiled
def hash_texts(data: np.ndarray, starts: np.ndarray, lengths: np.ndarray, seed: np.uint64) -> Any:
    """Returns uint64[n]: the hash of each `data[start:start + length]`."""
    hashes = np.empty(len(starts), dtype=np.uint64)
    for row in range(len(starts)):
        start, length = starts[row], lengths[row]
        state = np.uint64(length) ^ seed
        for offset in range(0, length, 8):
            word = np.uint64(0)
            for place in range(min(8, length - offset)):
                word |= np.uint64(data[start + offset + place]) << np.uint64(8 * place)
            word *= _BODY_1
            word ^= word >> np.uint64(31)
            word *= _BODY_2
            word ^= state
            word = (word << np.uint64(27)) | (word >> np.uint64(37))
            state = word * _FIVE + _ADD
        hashes[row] = _fmix(state)
    return hashes


@_compiled
def mix_words(words: np.ndarray) -> None:
    """Mixes the bits of each word in place."""
    for row in range(len(words)):
        words[row] = _fmix(words[row])


def warm_up() -> None:
    """Compiles or loads the kernels, so that no batch waits for it."""
    none = np.empty(0, dtype=np.int64)
    # Most of Arrow's buffers are read-only, which is another type to numba.
    for is_writable in (True, False):
        data = np.empty(0, dtype=np.uint8)
        data.flags.writeable = is_writable
        hash_texts(data, none, none, np.uint64(0))
    mix_words(np.empty(0, dtype=np.uint64))
