"""Random numbers of events: each is a function of the event's id and the number of the draw, so any field can be made
without the fields before it.

The numbers of an event are those of a `java.util.SplittableRandom` whose seed is the mixed id of the event.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

#: The increment of SplittableRandom's seed: 2**64 divided by the golden ratio, made odd.
GOLDEN_GAMMA = 0x9E3779B97F4A7C15
_MASK_64 = (1 << 64) - 1
_LOW_32 = np.uint64(0xFFFFFFFF)
_SHIFT_32 = np.uint64(32)
_SHIFT_30 = np.uint64(30)
_SHIFT_27 = np.uint64(27)
_SHIFT_31 = np.uint64(31)
_MULTIPLIER_1 = np.uint64(0xBF58476D1CE4E5B9)
_MULTIPLIER_2 = np.uint64(0x94D049BB133111EB)

#: A price has three digits of 11 bits: enough that neighbouring prices differ by less than one at the highest price.
_PRICE_BITS = 11
#: The highest price is 10 to this power, in units of the lowest price.
_PRICE_DECADES = 6


def mix64(values: Array) -> Array:
    """Returns uint64[n]: each value with its bits mixed, as SplittableRandom does. The argument is not changed."""
    mixed = values >> _SHIFT_30
    mixed ^= values
    mixed *= _MULTIPLIER_1
    mixed ^= mixed >> _SHIFT_27
    mixed *= _MULTIPLIER_2
    mixed ^= mixed >> _SHIFT_31
    return mixed


class Draws:
    """The random numbers of n seeds. A number that several fields use is computed once.

    Args:
        keys: int64[n], the ids from which the seeds are made.
    """

    def __init__(self, keys: Array) -> None:
        self._seeds = mix64(keys.view(np.uint64))
        self._drawn: dict[int, Array] = {}

    def __len__(self) -> int:
        return len(self._seeds)

    def word(self, number: int) -> Array:
        """Returns uint64[n], the draw with this number, from 0 on."""
        word = self._drawn.get(number)
        if word is None:
            word = mix64(self._seeds + np.uint64(((number + 1) * GOLDEN_GAMMA) & _MASK_64))
            self._drawn[number] = word
        return word

    def low(self, number: int, bound: int | Array) -> Array:
        """Returns int64[n] from 0 to `bound` - 1, from the low half of a draw. Bounds are below 2**31."""
        return _scaled(self.word(number) & _LOW_32, bound)

    def high(self, number: int, bound: int | Array) -> Array:
        """Returns int64[n] from 0 to `bound` - 1, from the high half of a draw. Bounds are below 2**31."""
        return _scaled(self.word(number) >> _SHIFT_32, bound)

    def price(self, number: int) -> Array:
        """Returns int64[n], prices from 100 to 10**8 whose logarithms are uniform.

        They are products of table entries, because functions like `pow` differ in their last digit between platforms.
        """
        word = self.word(number)
        tables = price_tables()
        mask = np.uint64((1 << _PRICE_BITS) - 1)
        factor = tables[0][word >> np.uint64(64 - _PRICE_BITS)]
        for i in (1, 2):
            factor *= tables[i][(word >> np.uint64(64 - (i + 1) * _PRICE_BITS)) & mask]
        factor *= 100.0
        factor += 0.5
        return factor.astype(np.int64)

    def lanes(self, first: int, count: int) -> Array:
        """Returns uint32[n, count] below 2**16: four from each draw, the lowest bits of `first` first."""
        words = np.empty((len(self), -(-count // 4)), dtype="<u8")
        for i in range(words.shape[1]):
            words[:, i] = self.word(first + i)
        return words.view("<u2")[:, :count].astype(np.uint32)


def _scaled(halves: Array, bound: int | Array) -> Array:
    halves *= np.uint64(bound) if isinstance(bound, int) else bound.view(np.uint64)
    halves >>= _SHIFT_32
    return halves.view(np.int64)


@cache
def price_tables() -> tuple[Array, Array, Array]:
    """Returns three tables of 2**11 factors. The product of one entry of each is 10**(6 * x) for x from 0 to 1.

    Only square roots and products are used, which IEEE 754 defines to the last bit.
    """
    root = 10.0**_PRICE_DECADES
    tables = []
    for _ in range(3):
        roots = []
        for _ in range(_PRICE_BITS):
            root = math.sqrt(root)
            roots.append(root)
        table = np.ones(1 << _PRICE_BITS)
        indices = np.arange(1 << _PRICE_BITS)
        for bit, factor in enumerate(roots):
            table[(indices >> (_PRICE_BITS - 1 - bit)) & 1 == 1] *= factor
        tables.append(table)
    return tables[0], tables[1], tables[2]
