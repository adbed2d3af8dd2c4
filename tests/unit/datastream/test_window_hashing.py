"""Facts of PyFlink 2.3.0."""

from __future__ import annotations

import pytest

from flinkpy.datastream.window import long_to_int_with_bit_mixing, mod_inverse


@pytest.mark.parametrize("odd", [1, 3, 7, 20_001, (1 << 40) + 1])
def test_inverse_is_one_modulo_two_to_the_32(odd: int) -> None:
    assert odd * mod_inverse(odd) % (1 << 32) == 1


def test_bits_are_mixed_as_pyflink_mixes_them() -> None:
    assert long_to_int_with_bit_mixing(0) == 0
    assert long_to_int_with_bit_mixing(1) == 147849196037467560671341166926513243621
