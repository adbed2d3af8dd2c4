from __future__ import annotations

import random

import pytest
from table_subtasks import TableSubtasks, row_info

from flinkpy.graph.operator_specs import FieldKeySelector
from flinkpy.graph.table_specs import SinkMaterializeSpec
from flinkpy.sql.types import logical_types as lt

ROW = row_info(pk=lt.BigIntType(), uk=lt.IntType(), v=lt.VarCharType(lt.MAX_LENGTH))


def spec(upsert_key: tuple[int, ...]) -> SinkMaterializeSpec:
    return SinkMaterializeSpec(FieldKeySelector(("pk",)), (0,), upsert_key, input_types=(ROW,))


def test_a_row_that_is_deleted_after_its_successor_was_inserted_changes_nothing():
    sink = TableSubtasks(spec(()))

    assert sink.process([("+I", 1, 1, "a"), ("+I", 1, 2, "b"), ("-D", 1, 1, "a")]) == [
        ("+I", 1, 1, "a"),
        ("+U", 1, 2, "b"),
    ]
    assert sink.restart().process([("-U", 1, 9, "x"), ("-D", 1, 2, "b")]) == [("-D", 1, 2, "b")]


def test_the_row_before_becomes_visible_when_the_last_one_is_taken_back():
    sink = TableSubtasks(spec(()))
    sink.process([("+I", 1, 1, "a"), ("+I", 1, 2, "b")])

    assert sink.process([("-D", 1, 2, "b")]) == [("+U", 1, 1, "a")]


@pytest.mark.parametrize("upsert_key", [(), (1,)])
def test_changes_are_those_of_one_record_after_the_other(upsert_key):
    chance = random.Random(1)
    sink = TableSubtasks(spec(upsert_key))
    lists: dict[int, list[tuple]] = {}
    for step in range(30):
        changes = [
            (chance.choice(["+I", "+U", "-U", "-D"]), chance.randint(0, 3), chance.randint(0, 2), chance.choice("ab"))
            for _ in range(chance.randint(1, 12))
        ]
        expected = []
        for kind, *values in changes:
            row, rows = tuple(values), lists.setdefault(values[0], [])
            is_same = [each == row if not upsert_key else each[1] == row[1] for each in rows]
            found = is_same.index(True) if True in is_same else None
            if kind in ("+I", "+U"):
                expected.append(("+U" if rows else "+I", *row))
                if upsert_key and found is not None:
                    rows[found] = row
                else:
                    rows.append(row)
            elif found is not None:
                was_last = found == len(rows) - 1
                del rows[found]
                if not rows:
                    expected.append(("-D", *row))
                elif was_last:
                    expected.append(("+U", *rows[-1]))
        assert sink.process(changes) == expected
        if step % 10 == 9:
            sink = sink.restart()
    sink.close()
