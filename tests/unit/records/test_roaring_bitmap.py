"""Roaring bitmaps keep their values, in containers of arrays, bits and runs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkpy.records.roaring_bitmap import bitmap_bytes, bitmap_text, bitmap_values

NUMBERS = st.integers(0, (1 << 32) - 1)
#: Ranges make runs; a step of two makes arrays and bitmaps of bits.
RANGES = st.builds(
    lambda start, size, step: range(start, start + size * step, step), NUMBERS, st.integers(0, 9000), st.integers(1, 2)
)


@given(st.lists(NUMBERS, max_size=20), st.lists(RANGES, max_size=3))
def test_values_are_read_as_they_were_written(single: list[int], ranges: list[range]) -> None:
    values = np.unique(np.array([*single, *(n for each in ranges for n in each if n < 1 << 32)], dtype=np.uint32))
    assert bitmap_values(bitmap_bytes(values)).tolist() == values.tolist()


def test_the_smallest_container_is_chosen() -> None:
    assert len(bitmap_bytes(np.arange(60_000, dtype=np.uint32))) == 15
    assert len(bitmap_bytes(np.arange(0, 60_000, 2, dtype=np.uint32))) == 16 + 8192
    assert len(bitmap_bytes(np.arange(0, 20, 2, dtype=np.uint32))) == 16 + 20


def test_bitmaps_are_shown_with_unsigned_numbers() -> None:
    assert bitmap_text(bitmap_bytes(np.array([1, (1 << 32) - 1], dtype=np.uint32))) == "{1,4294967295}"


@pytest.mark.parametrize("data", [b"", b"\x00", b"abcdefgh", bitmap_bytes(np.arange(9, dtype=np.uint32))[:-1]])
def test_other_bytes_are_an_error(data: bytes) -> None:
    with pytest.raises(ValueError, match="bytes are not a serialized roaring bitmap"):
        bitmap_values(data)
