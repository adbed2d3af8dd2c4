from __future__ import annotations

import pytest
from table_subtasks import TableSubtasks, row_info

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.graph.operator_specs import FieldKeySelector
from flinkpy.graph.table_specs import JoinType, TableIntervalJoinSpec
from flinkpy.records.elements import Watermark
from flinkpy.sql.types import logical_types as lt

LEFT = row_info(k=lt.BigIntType(), t=lt.TimestampType(3), a=lt.IntType())
RIGHT = row_info(k0=lt.BigIntType(), t0=lt.TimestampType(3), b=lt.IntType())
END = (1 << 63) - 1


def interval_join(join_type: JoinType, lower: int, upper: int, is_event_time: bool = True) -> TableIntervalJoinSpec:
    selectors = (FieldKeySelector(("k",)), FieldKeySelector(("k0",)))
    bounds = (lower, upper, is_event_time, 1, 1)
    return TableIntervalJoinSpec(selectors, join_type, (0,), (0,), (True,), *bounds, input_types=(LEFT, RIGHT))


def values(changes: list[tuple]) -> list[tuple]:
    """Returns the changes without times."""
    return [(kind, a, b) for kind, _, _, a, _, _, b in changes]


def test_rows_are_dropped_when_the_watermark_has_passed_the_last_time_of_a_partner():
    join = TableSubtasks(interval_join(JoinType.FULL, -10, 20))
    left, right = join.operators[0]._tables
    join.process([("+I", 1, 100, 1)])
    join.process([("+I", 2, 100, 2)], 1)

    assert values(join.watermark(110)) == []
    # The right row could have left partners until 110, the left row right ones until 120.
    assert values(join.watermark(111)) == [("+I", None, 2)] and (left.size, right.size) == (1, 0)
    assert values(join.watermark(120)) == []
    assert values(join.watermark(121)) == [("+I", 1, None)] and left.size == 0


def test_a_late_row_joins_with_rows_that_still_wait_and_waits_no_longer_than_it_must():
    join = TableSubtasks(interval_join(JoinType.LEFT, -10, 20))
    join.process([("+I", 1, 100, 7)], 1)
    join.watermark(105)

    assert values(join.process([("+I", 1, 95, 1), ("+I", 1, 80, 2), ("+I", 1, 79, 3)])) == [
        ("+I", 1, 7),
        ("+I", 2, 7),
        ("+I", 3, None),
    ]
    # The partners of the second row have times up to 100, so it is not kept.
    assert join.operators[0]._tables[0].size == 1


def test_watermarks_are_held_back_until_no_older_results_can_come():
    join = TableSubtasks(interval_join(JoinType.INNER, -10, 25))
    operator, output = join.operators[0], join._outputs[0]
    for time in (100, END):
        operator.process_element(Watermark(time))

    assert [each.timestamp for each in output.items] == [75, END]


@pytest.mark.parametrize(("lower", "upper"), [(-10, 20), (-20, -10), (10, 20)])
def test_a_row_without_time_is_padded_at_once_and_not_kept(lower, upper):
    join = TableSubtasks(interval_join(JoinType.FULL, lower, upper))
    assert values(join.process([("+I", 1, None, 1)])) == [("+I", 1, None)]
    assert values(join.process([("+I", 1, None, 7)], 1)) == [("+I", None, 7)]
    assert [table.size for table in join.operators[0]._tables] == [0, 0]

    join = TableSubtasks(interval_join(JoinType.INNER, lower, upper))
    assert join.process([("+I", 1, None, 1)]) == join.process([("+I", 1, None, 7)], 1) == []
    assert [table.size for table in join.operators[0]._tables] == [0, 0]


def test_an_interval_that_is_empty_joins_nothing_and_keeps_nothing():
    join = TableSubtasks(interval_join(JoinType.LEFT, 5, 0))
    join.process([("+I", 1, 100, 7)], 1)

    assert values(join.process([("+I", 1, 97, 1)])) == [("+I", 1, None)]
    assert [table.size for table in join.operators[0]._tables] == [0, 0]


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_rows_of_processing_time_meet_while_the_clock_is_within_the_bounds(backend):
    join = TableSubtasks(interval_join(JoinType.LEFT, 0, 10, is_event_time=False), backend)
    join.process([("+I", 1, None, 1), ("+I", 2, None, 2)])
    join.clock.advance(10)
    assert values(join.process([("+I", 1, None, 7)], 1)) == [("+I", 1, 7)]
    join = join.restart(2)

    assert join.watermark(END) == join.run_timers() == []
    join.clock.advance(1)
    assert values(join.run_timers()) == [("+I", 2, None)]
    assert values(join.process([("+I", 1, None, 8)], 1)) == []
    assert all(table.size == 0 for operator in join.operators for table in operator._tables)
    join.close()


def test_many_pairs_of_one_key_are_looked_at_in_parts(monkeypatch):
    monkeypatch.setattr("flinkpy.streaming.operators.table.table_interval_join_operator._MAX_PAIRS", 50)
    join = TableSubtasks(interval_join(JoinType.INNER, -1, 1))
    join.process([("+I", 1, 100 + time, time) for time in range(40)])

    found = values(join.process([("+I", 1, 100 + time, time) for time in range(40)], 1))
    assert found == [("+I", a, b) for b in range(40) for a in range(max(0, b - 1), min(40, b + 2))]


def test_updates_and_semi_joins_are_refused():
    with pytest.raises(UnsupportedOperationError, match="Interval Join: SEMI Join"):
        TableSubtasks(interval_join(JoinType.SEMI, 0, 0))
    join = TableSubtasks(interval_join(JoinType.INNER, 0, 0))
    with pytest.raises(UnsupportedOperationError, match="no DELETE"):
        join.process([("-D", 1, 1, 1)])
