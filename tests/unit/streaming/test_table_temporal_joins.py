from __future__ import annotations

import pytest
from table_subtasks import TableSubtasks, row_info

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.graph.operator_specs import FieldKeySelector
from flinkpy.graph.table_specs import JoinType, ProcessTimeTemporalJoinSpec, TemporalJoinSpec
from flinkpy.sql.types import logical_types as lt

ORDERS = row_info(currency=lt.VarCharType(3), t=lt.BigIntType(), amount=lt.IntType())
RATES = row_info(currency0=lt.VarCharType(3), t0=lt.BigIntType(), rate=lt.IntType())


def temporal_join(join_type: JoinType = JoinType.INNER, state_ttl_ms: int = 0) -> TemporalJoinSpec:
    selectors = (FieldKeySelector(("currency",)), FieldKeySelector(("currency0",)))
    types = (ORDERS, RATES)
    return TemporalJoinSpec(
        selectors, join_type, (0,), (0,), (True,), 1, 1, state_ttl_ms=state_ttl_ms, input_types=types
    )


def rated(changes: list[tuple]) -> list[tuple]:
    return [(kind, amount, rate) for kind, _, _, amount, _, _, rate in changes]


def test_rows_get_the_version_of_their_time_once_the_watermark_reaches_it():
    join = TableSubtasks(temporal_join(JoinType.LEFT))
    join.process([("+I", "EUR", 1, 10), ("+U", "EUR", 4, 40), ("-D", "EUR", 9, 40), ("+I", "EUR", 12, 120)], 1)
    join.process([("+I", "EUR", time, time) for time in (10, 0, 6, 3, 12, 4)])

    assert rated(join.watermark(5)) == [("+I", 0, None), ("+I", 3, 10), ("+I", 4, 40)]
    assert rated(join.watermark(12)) == [("+I", 10, None), ("+I", 6, 40), ("+I", 12, 120)]
    assert [table.size for table in join.operators[0]._tables] == [0, 1]


def test_changes_of_the_left_input_keep_their_kinds_and_their_order():
    join = TableSubtasks(temporal_join())
    join.process([("+I", "EUR", 1, 10)], 1)
    join.process([("+I", "EUR", 5, 1), ("-U", "EUR", 5, 1), ("+U", "EUR", 5, 2), ("-D", "EUR", 5, 2)])

    assert rated(join.watermark(5)) == [("+I", 1, 10), ("-U", 1, 10), ("+U", 2, 10), ("-D", 2, 10)]


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_a_key_is_forgotten_when_nothing_has_happened_to_it_for_its_time_to_live(backend):
    join = TableSubtasks(temporal_join(JoinType.LEFT, state_ttl_ms=100), backend)
    join.process([("+I", "EUR", 1, 10), ("+I", "USD", 1, 20)], 1)
    join.clock.advance(60)
    join.process([("+I", "EUR", 50, 1)])
    join = join.restart()
    join.clock.advance(60)
    # The order has let the time of its rate begin again.
    join.process([("+I", "USD", 50, 2), ("+I", "USD", 500, 3)])

    assert rated(join.watermark(50)) == [("+I", 1, 10), ("+I", 2, None)]
    join.clock.advance(100)
    # This row takes the place of one that has expired.
    join.process([("+I", "USD", 600, 4)])
    assert rated(join.watermark(500)) == []
    assert rated(join.watermark(600)) == [("+I", 4, None)]
    assert [table.size for table in join.operators[0]._tables] == [0, 0]
    join.close()


def test_right_and_full_joins_are_refused():
    with pytest.raises(UnsupportedOperationError, match="only support INNER JOIN and LEFT JOIN, but was FULL JOIN"):
        TableSubtasks(temporal_join(JoinType.FULL))


def test_by_processing_time_the_latest_row_is_forgotten_after_its_time_to_live():
    spec = ProcessTimeTemporalJoinSpec(
        (FieldKeySelector(("currency",)), FieldKeySelector(("currency0",))),
        JoinType.LEFT,
        (0,),
        (0,),
        (False,),
        state_ttl_ms=100,
        input_types=(ORDERS, RATES),
    )
    join = TableSubtasks(spec)
    join.process([("+I", "EUR", 1, 10), ("+I", "USD", 1, 20), ("+U", "EUR", 1, 11)], 1)
    join.clock.advance(60)
    assert rated(join.process([("-U", "EUR", 0, 1)])) == [("-U", 1, 11)]
    join.clock.advance(60)
    # The order has let the time of its rate begin again.
    assert rated(join.process([("+I", "EUR", 0, 2), ("+I", "USD", 0, 3)])) == [("+I", 2, 11), ("+I", 3, None)]
