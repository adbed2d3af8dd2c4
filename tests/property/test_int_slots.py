"""IntSlots behave like a dict in both of their forms and across the change between them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flinkpy.state import int_slots, word_table
from flinkpy.state.int_slots import IntSlots

small = st.integers(-50, 50)
wide = st.integers(-(1 << 63), (1 << 63) - 1)
batches = st.lists(st.lists(small, max_size=30) | st.lists(st.one_of(small, wide), max_size=30), max_size=8)


@given(batches)
@settings(max_examples=150, deadline=None)
def test_slots_match_a_dict_in_order_of_appearance(keys_by_batch):
    _assert_like_a_dict(keys_by_batch)


@given(batches)
@settings(max_examples=100, deadline=None)
def test_slots_match_a_dict_while_keys_move_between_tables(keys_by_batch):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(int_slots, "_MIN_MOVED", 1)
        patch.setattr(word_table, "_MIN_PLACES", 2)
        patch.setattr(word_table, "_MIN_MOVED", 1)
        patch.setattr(word_table, "_MIN_PREPARED", 1)
        _assert_like_a_dict(keys_by_batch)


def _assert_like_a_dict(keys_by_batch):
    slots, naive = IntSlots(), {}
    for keys in keys_by_batch:
        known = len(naive)
        for key in keys:
            naive.setdefault(key, len(naive))

        got, new = slots.slots_of(np.array(keys, dtype=np.int64))

        assert got.tolist() == [naive[key] for key in keys]
        assert [keys[i] for i in new] == list(naive)[known:]
        assert [keys.index(keys[i]) for i in new] == new.tolist()
        assert slots.size == len(naive)
        assert slots.find(np.array(list(naive), dtype=np.int64)).tolist() == list(naive.values())


def test_a_hash_table_that_grows_keeps_every_key():
    slots = IntSlots()
    keys = np.arange(20_000, dtype=np.int64) * 1_000_003
    for start in range(0, len(keys), 700):
        slots.slots_of(keys[start : start + 700])

    assert slots.slots_of(keys)[0].tolist() == list(range(20_000))


def test_creeping_keys_change_to_the_hash_form_and_keep_their_slots(monkeypatch):
    monkeypatch.setattr(int_slots, "MAX_DENSE_SPAN", 4_096)
    slots = IntSlots()
    for start in range(0, 10_000, 500):
        slots.slots_of(np.arange(start, start + 500, dtype=np.int64))

    assert slots.slots_of(np.arange(10_000, dtype=np.int64))[0].tolist() == list(range(10_000))


@given(batches, st.lists(st.one_of(small, wide), max_size=30))
@settings(max_examples=50, deadline=None)
def test_cleared_slots_behave_like_new_ones(keys_by_batch, keys):
    slots, fresh = IntSlots(), IntSlots()
    for batch in keys_by_batch:
        slots.slots_of(np.array(batch, dtype=np.int64))

    slots.clear()

    keys = np.array(keys, dtype=np.int64)
    assert (slots.find(keys) < 0).all()
    assert [part.tolist() for part in slots.slots_of(keys)] == [part.tolist() for part in fresh.slots_of(keys)]
    assert slots.find(keys).tolist() == fresh.find(keys).tolist()
