"""PyFlink's functions for hash codes of windows. Windows here do not need them, but programs may import them."""

from __future__ import annotations

_FIRST_MULTIPLIER = 0xBF58476D1CE4E5B9
_SECOND_MULTIPLIER = 0x94D049BB133111EB


def long_to_int_with_bit_mixing(x: int) -> int:
    """Returns the SplitMix64 finalizer of a number, without a limit of bits."""
    mixed = (x ^ x >> 30) * _FIRST_MULTIPLIER
    mixed = (mixed ^ mixed >> 27) * _SECOND_MULTIPLIER
    return mixed ^ mixed >> 31


def mod_inverse(x: int) -> int:
    """Returns the inverse of an odd number modulo `2**32`."""
    inverse = x**3
    for _ in range(3):
        inverse *= 2 - x * inverse
    return inverse
