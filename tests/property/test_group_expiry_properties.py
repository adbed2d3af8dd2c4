"""Groups with a time-to-live: the changelog is that of a reference, whether groups are in memory or evicted from it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from changelogs import Change, TableSubtasks, grouped_changelog, type_info
from hypothesis import given, settings
from hypothesis import strategies as st

from flinkpy.graph.operator_specs import FieldKeySelector
from flinkpy.graph.table_specs import GroupAggregateSpec
from flinkpy.sql.rex import AggregateCall
from flinkpy.sql.types import logical_types as lt
from flinkpy.state import group_table
from flinkpy.streaming.operators.table import group_expiry

_TTL_MS = 100
_INPUT = type_info(key=lt.BigIntType(), number=lt.BigIntType(), text=lt.VarCharType())
_TYPES = [field.type for field in _INPUT.row_type.fields]
_LONG = lt.BigIntType()
#: The count of rows changes with each of them, so that each is emitted.
_PLAIN = [AggregateCall("COUNT", (), _LONG, "rows"), AggregateCall("SUM", (1,), _LONG, "total")]
_DISTINCT = [*_PLAIN, AggregateCall("COUNT", (2,), _LONG, "texts", is_distinct=True)]
_BACKENDS = [{}, {"state.backend.type": "rocksdb"}]

_ROWS = st.tuples(st.integers(0, 6), st.integers(-3, 3), st.sampled_from(["x", "y", None]))
#: Each step: the ms that pass, the rows that come then, and the parallelism after a restart, 0 or less without one.
_STEPS = st.lists(
    st.tuples(st.sampled_from([0, 30, 60, 130]), st.lists(_ROWS, min_size=1, max_size=6), st.integers(-2, 2)),
    max_size=12,
)


@contextmanager
def _small(working_set: int, swept: int) -> Iterator[None]:
    """Lets few groups fit into memory, and few be looked at per batch."""
    before = group_table.MAX_WORKING_SET, group_table._MIN_EVICTED, group_expiry._MIN_SWEPT
    group_table.MAX_WORKING_SET, group_table._MIN_EVICTED, group_expiry._MIN_SWEPT = working_set, 1, swept
    try:
        yield
    finally:
        group_table.MAX_WORKING_SET, group_table._MIN_EVICTED, group_expiry._MIN_SWEPT = before


def _spec(calls: list[AggregateCall]) -> GroupAggregateSpec:
    output = type_info(key=_LONG, **{call.name: call.type for call in calls})
    return GroupAggregateSpec(
        FieldKeySelector(("key",)),
        grouping=(0,),
        aggregates=tuple(calls),
        needs_retraction=False,
        generate_update_before=True,
        state_ttl_ms=_TTL_MS,
        input_types=(_INPUT,),
        output_type=output,
    )


def _expected(steps: list[Any], calls: list[AggregateCall]) -> dict[int, list[Change]]:
    """Returns the changes of each key: a group that had no row for the time-to-live begins anew."""
    lives: dict[int, list[list[Change]]] = {}
    last: dict[int, int] = {}
    now = 0
    for passed, rows, _ in steps:
        now += passed
        for row in rows:
            key = row[0]
            if key not in last or last[key] + _TTL_MS <= now:
                lives.setdefault(key, []).append([])
            lives[key][-1].append(("+I", *row))
            last[key] = now
    return {
        key: [change for life in of_key for change in grouped_changelog(life, (0,), calls, _TYPES)]
        for key, of_key in lives.items()
    }


@pytest.mark.parametrize("configuration", _BACKENDS, ids=["heap", "rocksdb"])
@pytest.mark.parametrize("calls", [_PLAIN, _DISTINCT], ids=["plain", "distinct"])
@settings(deadline=None, max_examples=6)
@given(_STEPS, st.integers(1, 4))
def test_a_group_begins_anew_after_its_time_to_live(
    configuration: dict[str, str], calls: list[AggregateCall], steps: list[Any], swept: int
) -> None:
    with _small(working_set=3, swept=swept), TableSubtasks(_spec(calls), 1, configuration) as subtasks:
        for passed, rows, parallelism in steps:
            subtasks.advance(passed)
            if parallelism > 0:
                subtasks.restart(parallelism)
            subtasks.process([("+I", *row) for row in rows])
        actual: dict[int, list[Change]] = {}
        for change in subtasks.finish():
            actual.setdefault(change[1], []).append(change)

    assert actual == _expected(steps, calls)


@pytest.mark.parametrize("calls", [_PLAIN, _DISTINCT], ids=["plain", "distinct"])
def test_expired_groups_leave_the_database_also_if_they_never_occur_again(calls: list[AggregateCall]) -> None:
    def evicted(table: group_table.GroupTable) -> int:
        store = table._store
        assert store is not None
        found = 0
        while True:
            keys, _, has_ended = store.next_evicted(1000)
            found += len(keys)
            if has_ended:
                return found

    with (
        _small(working_set=64, swept=16),
        TableSubtasks(_spec(calls), 1, {"state.backend.type": "rocksdb"}) as subtasks,
    ):
        for key in range(0, 1000, 20):
            subtasks.process([("+I", key + i, 1, text) for i in range(20) for text in ("x", "y")])
        table = subtasks.subtasks[0].operator._table
        assert evicted(table) > 200
        subtasks.restart(1)
        subtasks.advance(_TTL_MS)
        for _ in range(100):
            subtasks.process([("+I", -1, 1, "x")])
        table = subtasks.subtasks[0].operator._table
        # The group that still occurs may have been evicted meanwhile.
        for entries in (table, *table.maps):
            assert entries.size == 1
            assert evicted(entries) <= 1
        subtasks.restart(1)
        table = subtasks.subtasks[0].operator._table
        for entries in (table, *table.maps):
            assert entries.size + evicted(entries) == 1
        subtasks.process([("+I", -1, 1, "x")])
        assert subtasks.output[-1][:3] == ("+U", -1, 101)
