"""Keys are given slots, and slots their keys back, at a cost that does not grow with the number of keys."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from flinkpy.state.key_slots import KeySlots


def slots_of_batches(batches: int, rows: int) -> KeySlots:
    """Each batch has new keys: an int and a string, null among them."""
    slots = KeySlots([pa.int64(), pa.string()])
    for batch in range(batches):
        numbers = list(range(batch * rows, (batch + 1) * rows))
        slots.slots_of([pa.array(numbers), pa.array([None if n == 5 else f"k{n}" for n in numbers], pa.string())])
    return slots


@pytest.mark.parametrize(("batches", "rows"), [(0, 1), (1, 7), (100, 1), (37, 11)])
def test_keys_can_be_selected_by_slots_in_any_order(batches: int, rows: int) -> None:
    slots = slots_of_batches(batches, rows)
    wanted = np.random.default_rng(1).integers(0, slots.size, 50) if slots.size else np.empty(0, dtype=np.int64)

    numbers, names = slots.take(wanted)

    assert numbers.to_pylist() == wanted.tolist()
    assert names.to_pylist() == [None if n == 5 else f"k{n}" for n in wanted.tolist()]


def test_keys_added_one_by_one_are_kept_in_few_chunks() -> None:
    slots = slots_of_batches(1_000, 1)

    assert [len(chunks) <= 10 for chunks in slots.key_chunks()] == [True, True]
    assert pa.concat_arrays(slots.key_chunks()[0]).to_pylist() == list(range(1_000))


def test_chunks_do_not_become_larger_than_the_largest() -> None:
    slots = KeySlots([pa.int64()])
    for start in (0, 600_000):
        slots.slots_of([pa.array(np.arange(start, start + 600_000))])

    assert [len(chunk) for chunk in slots.key_chunks()[0]] == [600_000, 600_000]
    assert slots.take(np.array([1_199_999, 0, 600_000]))[0].to_pylist() == [1_199_999, 0, 600_000]
