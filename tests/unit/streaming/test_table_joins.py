from __future__ import annotations

import pytest
from table_subtasks import TableSubtasks, materialised, row_info

from flinkpy.graph.operator_specs import FieldKeySelector
from flinkpy.graph.table_specs import JoinInput, JoinSpec, JoinType, MiniBatch
from flinkpy.sql.rex import InputRef, RexCall
from flinkpy.sql.types import logical_types as lt

LEFT = row_info(k=lt.BigIntType(), a=lt.VarCharType(lt.MAX_LENGTH))
RIGHT = row_info(k0=lt.BigIntType(), b=lt.VarCharType(lt.MAX_LENGTH))


def join_spec(join_type: JoinType, **options: object) -> JoinSpec:
    selectors = (FieldKeySelector(("k",)), FieldKeySelector(("k0",)))
    return JoinSpec(selectors, join_type, (0,), (0,), (True,), input_types=(LEFT, RIGHT), **options)  # type: ignore[arg-type]


def test_an_inner_join_emits_each_pair_with_the_kind_of_its_record():
    join = TableSubtasks(join_spec(JoinType.INNER))

    assert join.process([("+I", 1, "a"), ("+I", 2, "b")]) == []
    assert join.process([("+U", 1, "x"), ("+I", 1, "y"), ("+I", 3, "z")], 1) == [
        ("+U", 1, "a", 1, "x"),
        ("+I", 1, "a", 1, "y"),
    ]
    assert join.process([("-U", 1, "a"), ("+U", 1, "c")]) == [
        ("-U", 1, "a", 1, "x"),
        ("-U", 1, "a", 1, "y"),
        ("+U", 1, "c", 1, "x"),
        ("+U", 1, "c", 1, "y"),
    ]


def test_a_full_join_takes_padded_rows_back_before_their_first_match_and_emits_them_after_the_last_one_is_gone():
    join = TableSubtasks(join_spec(JoinType.FULL))

    assert join.process([("+I", 1, "a"), ("+I", None, "n")]) == [
        ("+I", 1, "a", None, None),
        ("+I", None, "n", None, None),
    ]
    assert join.process([("+I", 1, "x"), ("+I", 1, "y")], 1) == [
        ("-D", 1, "a", None, None),
        ("+I", 1, "a", 1, "x"),
        ("+I", 1, "a", 1, "y"),
    ]
    assert join.process([("-D", 1, "x"), ("-D", 1, "y"), ("+I", None, "m")], 1) == [
        ("-D", 1, "a", 1, "x"),
        ("-D", 1, "a", 1, "y"),
        ("+I", 1, "a", None, None),
        ("+I", None, None, None, "m"),
    ]


def test_a_semi_join_emits_a_row_while_it_has_a_match_and_an_anti_join_while_it_has_none():
    semi, anti = TableSubtasks(join_spec(JoinType.SEMI)), TableSubtasks(join_spec(JoinType.ANTI))

    assert semi.process([("+I", 1, "a")]) == []
    assert anti.process([("+I", 1, "a"), ("+I", None, "n")]) == [("+I", 1, "a"), ("+I", None, "n")]
    matches = [("+I", 1, "x"), ("+I", 1, "y")]
    assert semi.process(matches, 1) == [("+I", 1, "a")]
    assert anti.process(matches, 1) == [("-D", 1, "a")]
    gone = [("-D", 1, "y"), ("-U", 1, "x")]
    assert semi.process(gone, 1) == [("-U", 1, "a")]
    assert anti.process(gone, 1) == [("+I", 1, "a")]


def test_a_row_with_the_unique_key_of_a_stored_one_replaces_it():
    join = TableSubtasks(join_spec(JoinType.INNER, left_input=JoinInput((0,), True)))
    join.process([("+I", 1, "a"), ("+U", 1, "b")])
    join.process([("+U", 1, "c")])

    assert join.process([("+I", 1, "x")], 1) == [("+I", 1, "c", 1, "x")]


@pytest.mark.parametrize("ttl_ms", [0, 100])
def test_rows_match_until_their_time_to_live_is_over(ttl_ms):
    join = TableSubtasks(join_spec(JoinType.INNER, left_state_ttl_ms=ttl_ms))
    join.process([("+I", 1, "a")])
    join.clock.advance(99)
    assert len(join.process([("+I", 1, "x")], 1)) == 1
    join = join.restart()
    join.clock.advance(1)

    assert len(join.process([("+I", 1, "y")], 1)) == (0 if ttl_ms else 1)
    assert join.operators[0]._tables[0].size == (0 if ttl_ms else 1)


def at_most(left: int, right: int) -> RexCall:
    """Returns the condition that the left column is not after the right one."""
    text = lt.VarCharType(lt.MAX_LENGTH)
    return RexCall(lt.BooleanType(), "<=", (InputRef(text, left), InputRef(text, right)))


def test_pairs_meet_the_rest_of_the_condition():
    inner = TableSubtasks(join_spec(JoinType.INNER, condition=at_most(1, 3)))
    left = TableSubtasks(join_spec(JoinType.LEFT, condition=at_most(1, 3)))
    for join in (inner, left):
        join.process([("+I", 1, "a"), ("+I", 1, "c"), ("+I", 1, None)])

    assert inner.process([("+I", 1, "b")], 1) == [("+I", 1, "a", 1, "b")]
    assert left.process([("+I", 1, "b")], 1) == [("-D", 1, "a", None, None), ("+I", 1, "a", 1, "b")]
    inner.close()
    left.close()


def test_a_join_without_keys_pairs_every_row_with_every_row():
    spec = JoinSpec((FieldKeySelector(()), FieldKeySelector(())), JoinType.INNER, (), (), (), input_types=(LEFT, RIGHT))
    join = TableSubtasks(spec)
    join.process([("+I", 1, "a"), ("+I", None, "b")])
    join = join.restart()

    changes = join.process([("+I", 7, "x"), ("+I", 8, "y")], 1)
    assert materialised(changes) == {
        (1, "a", 7, "x"): 1,
        (None, "b", 7, "x"): 1,
        (1, "a", 8, "y"): 1,
        (None, "b", 8, "y"): 1,
    }


def test_rows_survive_many_snapshots_and_changes_of_backend_and_parallelism():
    join = TableSubtasks(join_spec(JoinType.LEFT, left_state_ttl_ms=1_000_000), "rocksdb-incremental", 2)
    rows: dict[tuple[object, str], int] = {}
    backends = ["rocksdb-incremental", "rocksdb-incremental", "rocksdb", "hashmap", "rocksdb-incremental"]
    for number, backend in enumerate(backends):
        changes = [("+I", key, f"{number}-{key}") for key in (None, *range(40))]
        changes += [("-D", *row) for row in list(rows)[::2]]
        # A row that is added and removed between two snapshots is never stored.
        changes += [("+I", 99, "short"), ("-D", 99, "short")]
        for kind, *row in changes:
            rows[tuple(row)] = rows.get(tuple(row), 0) + (1 if kind == "+I" else -1)
        rows = {row: count for row, count in rows.items() if count}
        for start in range(0, len(changes), 17):
            join.process(changes[start : start + 17])
        join = join.restart(1 + number % 3, "rocksdb" if backend == "hashmap" else backend)
        if backend == "hashmap":
            join = join.restart(2, "hashmap")

    pairs = join.process([("+I", key, "r") for key in range(40)], 1)
    joined = {(change[1], change[2]) for change in pairs if change[3] is not None}
    assert joined == {row for row in rows if row[0] is not None}
    join.close()


def test_removed_rows_leave_the_database():
    join = TableSubtasks(join_spec(JoinType.INNER), "rocksdb")
    for number in range(80):
        join.process([("+I", key, f"{number}-{key}") for key in range(20)])
        join.process([("-D", key, f"{number - 1}-{key}") for key in range(20)] if number else [("-D", 1, "none")])
        join.operators[0].backend._spill()
    table = join.operators[0]._tables[0]

    assert table.size == join.operators[0].backend.num_entries() == 20
    assert int(table.journal.stored_rows.sum()) <= 128 * 3
    assert int(table.journal.entries.max()) <= 33
    join.close()


# -- mini-batches ----------------------------------------------------------------------------------------------------


def test_changes_that_cancel_each_other_out_are_not_joined():
    join = TableSubtasks(join_spec(JoinType.LEFT, mini_batch=MiniBatch(9, 100)))
    join.process([("+I", 1, "x"), ("+I", 2, "y"), ("-D", 1, "x")], 1)
    changes = [("+I", 1, "a"), ("-U", 1, "a"), ("+U", 1, "b"), ("+I", 2, "c"), ("+I", 2, "c")]

    assert join.process(changes) == []
    # The ninth row ends the mini-batch. The right rows are first, so the left ones are not padded in between.
    assert join.process([("-D", 2, "c")]) == [("+I", 1, "b", None, None), ("+I", 2, "c", 2, "y")]


def test_a_row_with_a_unique_key_is_updated_once_per_mini_batch():
    spec = join_spec(JoinType.INNER, left_input=JoinInput((0,), True), mini_batch=MiniBatch(100, 50))
    join = TableSubtasks(spec)
    join.process([("+I", 1, "x"), ("+I", 2, "y")], 1)
    join.process([("+I", 1, "a"), ("-U", 1, "a"), ("+U", 1, "b"), ("+I", 2, "c"), ("-D", 2, "c")])
    join.clock.advance(51)
    assert join.run_timers() == [("+I", 1, "b", 1, "x")]

    join.process([("-U", 1, "b"), ("+U", 1, "c"), ("-U", 1, "c"), ("+U", 1, "d")])
    assert join.watermark(7) == [("-U", 1, "b", 1, "x"), ("+U", 1, "d", 1, "x")]


def test_semi_joins_have_no_mini_batches():
    join = TableSubtasks(join_spec(JoinType.SEMI, mini_batch=MiniBatch(100, 50)))
    join.process([("+I", 1, "x")], 1)

    assert join.process([("+I", 1, "a")]) == [("+I", 1, "a")]
