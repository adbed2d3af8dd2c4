from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from table_subtasks import TableSubtasks, row_info

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.graph.operator_specs import FieldKeySelector
from flinkpy.graph.table_specs import RankSpec, SortField, SortLimitSpec
from flinkpy.sql.types import logical_types as lt
from flinkpy.streaming.operators.table import rank_kernels, rank_operator
from flinkpy.streaming.operators.table.order_codes import order_codes

ROW = row_info(k=lt.BigIntType(), v=lt.IntType(), n=lt.BigIntType())


def rank_spec(rank_end: int | None = 2, **options: object) -> RankSpec:
    selector = FieldKeySelector(("k",))
    order = (SortField(1, ascending=False, nulls_first=False),)
    return RankSpec(selector, "ROW_NUMBER", (0,), order, 1, rank_end, input_types=(ROW,), **options)  # type: ignore[arg-type]


def test_a_row_that_enters_the_top_n_deletes_the_one_that_leaves_it():
    rank = TableSubtasks(rank_spec())

    assert rank.process([("+I", 1, 5, 0), ("+I", 1, 3, 0), ("+I", 1, 3, 1), ("+I", 1, 4, 0)]) == [
        ("+I", 1, 5, 0),
        ("+I", 1, 3, 0),
        ("-D", 1, 3, 0),
        ("+I", 1, 4, 0),
    ]


def test_rank_numbers_of_the_rows_behind_a_new_one_are_updated():
    rank = TableSubtasks(rank_spec(output_rank_number=True, generate_update_before=False))

    assert rank.process([("+I", 1, 3, 0), ("+I", 1, 5, 0)]) == [
        ("+I", 1, 3, 0, 1),
        ("+U", 1, 5, 0, 1),
        ("+I", 1, 3, 0, 2),
    ]


def test_a_retracted_row_makes_room_for_the_next_one():
    rank = TableSubtasks(rank_spec(1, strategy="RETRACT"))
    rank.process([("+I", 1, 5, 0), ("+I", 1, 4, 0)])
    rank = rank.restart()

    assert rank.process([("-D", 1, 5, 0), ("-D", 1, 9, 9)]) == [("-D", 1, 5, 0), ("+I", 1, 4, 0)]


def test_an_updated_row_leaves_its_rank_before_it_gets_a_better_one():
    rank = TableSubtasks(rank_spec(3, strategy="UPDATE", primary_key=(0, 2), output_rank_number=True))
    rank.process([("+I", 1, 5, 0), ("+I", 1, 4, 1), ("+I", 1, 3, 2)])

    assert rank.process([("+U", 1, 9, 2)]) == [
        ("-U", 1, 5, 0, 1),
        ("-U", 1, 3, 2, 3),
        ("+U", 1, 9, 2, 1),
        ("-U", 1, 4, 1, 2),
        ("+U", 1, 5, 0, 2),
        ("+U", 1, 4, 1, 3),
    ]


def test_the_end_of_the_ranks_can_be_a_column():
    rank = TableSubtasks(rank_spec(None, rank_end_column=2))

    assert rank.process([("+I", 1, 5, 1), ("+I", 2, 5, 2), ("+I", 1, 4, 1), ("+I", 2, 4, 2)]) == [
        ("+I", 1, 5, 1),
        ("+I", 2, 5, 2),
        ("+I", 2, 4, 2),
    ]


def test_ranks_beside_row_number_and_retractions_of_inserts_are_refused():
    with pytest.raises(UnsupportedOperationError, match="DENSE_RANK"):
        TableSubtasks(RankSpec(FieldKeySelector(("k",)), "DENSE_RANK", (0,), (), input_types=(ROW,)))
    with pytest.raises(UnsupportedOperationError, match="APPEND takes no DELETE"):
        TableSubtasks(rank_spec()).process([("-D", 1, 1, 1)])


def test_the_loops_do_the_same_without_numba(monkeypatch):
    changes = [("+I", key, value % 7, value) for value in range(60) for key in (1, 2)]
    results = []
    for is_compiled in (True, False):
        if not is_compiled:
            monkeypatch.setattr(rank_kernels, "upper_bound", rank_kernels._upper_bound)
            monkeypatch.setattr(rank_kernels, "shifted", rank_kernels._shifted)
            loop = rank_kernels.in_python(rank_kernels.append_top_n)
            monkeypatch.setattr(rank_operator, "rank_kernels", {"APPEND": loop}.__getitem__)
        rank = TableSubtasks(rank_spec(3, output_rank_number=True))
        results.append(rank.process(changes[:50]) + rank.process(changes[50:]))
    assert results[0] == results[1] != []


def test_changes_beyond_the_room_for_them_are_emitted_in_parts(monkeypatch):
    changes = [("+I", 1, value, value) for value in range(40)]
    expected = TableSubtasks(rank_spec(4, output_rank_number=True)).process(changes)
    monkeypatch.setattr(rank_operator, "_MIN_CHANGES", 1)

    assert TableSubtasks(rank_spec(4, output_rank_number=True)).process(changes) == expected


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.int64(), [-(1 << 63), -1, 0, (1 << 63) - 1]),
        (pa.float64(), [float("-inf"), -1.5, 0.0, 2.0, float("inf"), float("nan")]),
        (pa.string(), ["", "a", "ab", "b"]),
        (pa.decimal128(10, 2), [-1, 0, 1]),
        (pa.bool_(), [False, True]),
        (pa.timestamp("us"), [-5, 0, 5]),
    ],
    ids=str,
)
@pytest.mark.parametrize("nulls_first", [True, False])
@pytest.mark.parametrize("ascending", [True, False])
def test_order_codes_order_values_of_every_type(kind, values, ascending, nulls_first):
    column = pa.array([*values, None, *values], kind)
    codes = order_codes([column], [SortField(0, ascending, nulls_first)])

    count = len(values)
    assert codes[:count].tolist() == codes[count + 1 :].tolist()
    steps = np.diff(codes[:count].astype(object))
    assert all(step > 0 for step in steps) if ascending else all(step < 0 for step in steps)
    null = codes[count]
    assert all(null < code for code in codes[:count]) if nulls_first else all(null > code for code in codes[:count])


def test_order_codes_of_several_columns_compare_them_in_turn():
    columns = [pa.array([1, 1, 0, 1]), pa.array(["b", "a", "z", "b"]), pa.array([0.0, -1.0, 5.0, 0.5])]
    fields = [SortField(0), SortField(1, ascending=False), SortField(2)]

    assert np.argsort(order_codes(columns, fields), kind="stable").tolist() == [2, 0, 3, 1]


def test_a_limit_with_an_offset_emits_the_rows_between():
    spec = SortLimitSpec(FieldKeySelector(()), (SortField(1),), offset=1, limit=2, input_types=(ROW,))
    limit = TableSubtasks(spec)

    assert limit.process([("+I", 1, 5, 0), ("+I", 2, 4, 0)]) == [("+I", 1, 5, 0)]
    changes = limit.restart().process([("+I", 3, 3, 0), ("+I", 4, 9, 0)])
    assert changes == [("-U", 1, 5, 0), ("+U", 2, 4, 0), ("+I", 1, 5, 0)]


def test_a_limit_without_an_order_keeps_the_first_rows():
    spec = SortLimitSpec(FieldKeySelector(()), (), limit=2, needs_retraction=True, input_types=(ROW,))
    limit = TableSubtasks(spec)
    limit.process([("+I", 1, 5, 0), ("+I", 2, 4, 0), ("+I", 3, 1, 0)])

    assert limit.process([("-D", 1, 5, 0)]) == [("-D", 1, 5, 0), ("+I", 3, 1, 0)]
