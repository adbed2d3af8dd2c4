"""A lookup join of an updating input takes back what it has sent, cut into batches and restarted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from table_subtasks import BACKEND, Change, TableSubtasks
from test_table_lookup_joins import Names, found_rows, keyed_join

from flinkpy.graph.table_specs import JoinType


class Counting(Names):
    """Finds other rows at each call: `key` rows, named after the number of the call."""

    def lookup(self, keys: pa.RecordBatch) -> tuple[np.ndarray, pa.RecordBatch]:
        values = keys.column(0).to_pylist()
        self.asked.append(values)
        call = len(self.asked)
        return found_rows(
            [(place, key, f"{key}.{n} of {call}") for place, key in enumerate(values) for n in range(key)]
        )


class ReferenceKeyedJoin:
    """Joins one record after the other. A key remembers the rows that it has found."""

    def __init__(self, is_left: bool) -> None:
        self._is_left = is_left
        self._found: dict[Any, list[tuple[Any, ...]]] = {}

    def process(self, change: Change, call: int) -> list[Change]:
        kind, key, value = change
        if kind in ("+I", "+U"):
            self._found[value] = [(key, f"{key}.{n} of {call}") for n in range(key or 0)]
            rows = self._found[value]
        else:
            rows, kind = self._found.pop(value, []), "-D"
        if not rows and self._is_left:
            rows = [(None, None)]
        return [(kind, key, value, *row) for row in rows]


_CHANGES = st.lists(st.tuples(st.sampled_from([None, 0, 1, 2]), st.integers(0, 3), st.booleans()), max_size=25)


@settings(max_examples=40, deadline=None)
@given(BACKEND, _CHANGES, st.sets(st.integers(0, 25)), st.sampled_from([JoinType.INNER, JoinType.LEFT]), st.booleans())
def test_a_deletion_takes_back_what_was_sent_for_the_row_of_its_key(
    backend: str, drawn: list[tuple[int | None, int, bool]], cuts: set[int], join_type: JoinType, restarts: bool
) -> None:
    there: dict[int, int | None] = {}
    changes: list[Change] = []
    for key, value, is_update in drawn:
        if value in there:
            changes.append(("-U" if is_update else "-D", there.pop(value), value))
        else:
            there[value] = key
            changes.append(("+U" if is_update else "+I", key, value))
    names, reference = Counting(), ReferenceKeyedJoin(join_type is JoinType.LEFT)
    join = TableSubtasks(keyed_join(join_type, names), backend)
    try:
        start = 0
        for end in sorted({cut for cut in cuts if cut < len(changes)} | {len(changes)}):
            batch = changes[start:end]
            start = end
            if not batch:
                continue
            # Keys of the batch are asked together, if there are any.
            call = len(names.asked) + 1
            assert join.process(batch) == [each for change in batch for each in reference.process(change, call)]
            if restarts:
                join = join.restart()
                names = join.spec.join.lookup
    finally:
        join.close()
