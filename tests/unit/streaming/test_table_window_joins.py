from __future__ import annotations

import random
from dataclasses import replace

import pytest
from table_subtasks import TableSubtasks, materialised, row_info

from flinkpy.graph.operator_specs import FieldKeySelector
from flinkpy.graph.table_specs import JoinType, WindowJoinSpec, WindowSlices
from flinkpy.sql.session_settings import SessionSettings
from flinkpy.sql.types import logical_types as lt

LEFT = row_info(k=lt.BigIntType(), a=lt.IntType(), window_end=lt.BigIntType())
RIGHT = row_info(k0=lt.BigIntType(), b=lt.IntType(), window_end0=lt.BigIntType())
END = (1 << 63) - 1


def window_join(join_type: JoinType, is_event_time: bool = True) -> WindowJoinSpec:
    window = WindowSlices("TUMBLE", 10, end_column=2, is_event_time=is_event_time)
    selectors = (FieldKeySelector(("k",)), FieldKeySelector(("k0",)))
    return WindowJoinSpec(selectors, join_type, (0,), (0,), (True,), window, window, input_types=(LEFT, RIGHT))


def expected_rows(join_type: JoinType, left: list[tuple], right: list[tuple]) -> dict[tuple, int]:
    def matches(one: tuple, other: tuple) -> bool:
        return one[0] is not None and (one[0], one[2]) == (other[0], other[2])

    changes = [("+I", *one, *other) for one in left for other in right if matches(one, other)]
    alone = [one for one in left if not any(matches(one, other) for other in right)]
    if join_type is JoinType.ANTI:
        changes = [("+I", *one) for one in alone]
    elif join_type is JoinType.SEMI:
        changes = [("+I", *one) for one in left if one not in alone]
    if join_type in (JoinType.LEFT, JoinType.FULL):
        changes += [("+I", *one, None, None, None) for one in alone]
    if join_type in (JoinType.RIGHT, JoinType.FULL):
        changes += [("+I", None, None, None, *other) for other in right if not any(matches(one, other) for one in left)]
    return materialised(changes)


@pytest.mark.parametrize("join_type", list(JoinType))
def test_the_rows_of_a_window_are_joined_when_it_ends(join_type):
    chance = random.Random(1)
    sides = [
        [(chance.choice([None, 1, 2, 3]), number, chance.choice([10, 20, 30])) for number in range(40)]
        for _ in range(2)
    ]
    join = TableSubtasks(window_join(join_type), parallelism=2)
    got = []
    for start in range(0, 40, 10):
        for side in (0, 1):
            assert join.process([("+I", *row) for row in sides[side][start : start + 10]], side) == []
        join = join.restart(parallelism=1 + start % 3)
    for watermark in (8, 9, 25, END):
        emitted = join.watermark(watermark)
        # A window is emitted when the watermark reaches its last ms.
        assert all(row[3] - 1 <= watermark for row in emitted if row[3] is not None)
        got += emitted

    assert materialised(got) == expected_rows(join_type, *sides)
    assert all(table.size == 0 for operator in join.operators for table in operator._tables)


def test_rows_of_a_window_that_has_ended_are_dropped():
    join = TableSubtasks(window_join(JoinType.LEFT))
    join.watermark(9)

    join.process([("+I", 1, 1, 10), ("+I", 1, 2, 11)])
    assert join.watermark(END) == [("+I", 1, 2, 11, None, None, None)]


def test_windows_of_processing_time_end_by_the_clock():
    join = TableSubtasks(window_join(JoinType.INNER, is_event_time=False))
    join.process([("+I", 1, 1, 1_010)])
    join.process([("+I", 1, 2, 1_010)], 1)

    assert join.watermark(END) == []
    assert join.run_timers() == []
    join.clock.advance(10)
    assert join.run_timers() == [("+I", 1, 1, 1_010, 1, 2, 1_010)]


def test_windows_of_a_zone_end_in_its_time():
    spec = window_join(JoinType.INNER)
    window = replace(spec.left_window, is_zoned=True)
    zoned = replace(spec, left_window=window, right_window=window, settings=SessionSettings(time_zone="Etc/GMT-2"))
    join = TableSubtasks(zoned)
    hours = 7_200_000
    join.watermark(5)
    for side in (0, 1):
        join.process([("+I", 1, side, hours + 10), ("+I", 1, 7, hours)], side)
    assert join.watermark(8) == []
    assert join.watermark(9) == [("+I", 1, 0, hours + 10, 1, 1, hours + 10)]
    metrics = join.operators[0].context.metrics
    assert metrics.counter("numLateRecordsDropped").get_count() == 2
    assert metrics.meter("lateRecordsDroppedRate").get_count() == 2
