"""Slots are given by their ends."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from flinkpy.state.session_table import EndQueue

#: Either ends that are added, or an end up to which slots are taken.
steps = st.lists(st.one_of(st.lists(st.integers(0, 50), max_size=6), st.integers(0, 50)), max_size=40)


@given(steps)
def test_slots_are_returned_once_when_they_are_due(steps: list[list[int] | int]) -> None:
    queue, waiting, next_slot = EndQueue(), {}, 0
    for step in steps:
        if isinstance(step, list):
            slots = np.arange(next_slot, next_slot + len(step))
            next_slot += len(step)
            queue.add(slots, np.array(step, dtype=np.int64))
            waiting.update(zip(slots.tolist(), step))
        else:
            due = sorted(slot for slot, end in waiting.items() if end <= step)
            assert queue.pop_until(step).tolist() == due
            for slot in due:
                del waiting[slot]
        assert queue.first_end == min(waiting.values(), default=None)
