"""ON CONFLICT DO ERROR and DO NOTHING: rows of one primary key are judged when the watermark has passed them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from table_subtasks import BACKEND, Change, TableSubtasks, row_info

from flinkpy.common.errors import TableRuntimeError
from flinkpy.graph.operator_specs import FieldKeySelector
from flinkpy.graph.table_specs import ConflictMaterializeSpec, WatermarkTimestampSpec
from flinkpy.sql.types import logical_types as lt

ROW = row_info(pk=lt.BigIntType(), uk=lt.IntType(), v=lt.VarCharType(lt.MAX_LENGTH))
TIMED = row_info(pk=lt.BigIntType(), uk=lt.IntType(), v=lt.VarCharType(lt.MAX_LENGTH), w=lt.BigIntType())


def spec(on_conflict: str, upsert_key: tuple[int, ...] = ()) -> ConflictMaterializeSpec:
    return ConflictMaterializeSpec(
        FieldKeySelector(("pk",)), (0,), upsert_key, on_conflict, input_types=(TIMED,), output_type=ROW
    )


def test_each_change_gets_the_watermark_at_which_it_came() -> None:
    operator = TableSubtasks(
        WatermarkTimestampSpec(input_types=(ROW,), output_type=TIMED), selectors=(FieldKeySelector(()),)
    )
    operator.process([("+I", 1, 1, "a")])
    operator.watermark(7)
    assert operator.process([("-D", 1, 1, "a")]) == [("-D", 1, 1, "a", 7)]


def test_a_successor_that_comes_before_the_deletion_is_no_conflict() -> None:
    sink = TableSubtasks(spec("ERROR"))
    sink.process([("+I", 1, 1, "a", 0)])
    assert sink.watermark(0) == [("+I", 1, 1, "a")]
    assert sink.process([("+I", 1, 2, "b", 5), ("-D", 1, 1, "a", 5)]) == []
    assert sink.watermark(4) == []
    assert sink.watermark(5) == [("+U", 1, 2, "b")]


def test_a_deletion_that_comes_before_its_row_takes_it_back() -> None:
    sink = TableSubtasks(spec("ERROR"))
    sink.process([("-D", 1, 1, "a", 0), ("+I", 1, 1, "a", 0), ("+I", 1, 2, "b", 0)])
    assert sink.watermark(0) == [("+I", 1, 2, "b")]


def test_two_rows_of_one_key_are_an_error_that_names_the_key() -> None:
    sink = TableSubtasks(spec("ERROR"))
    sink.process([("+I", 1, 1, "a", 0), ("+I", 1, 2, "b", 0)])
    with pytest.raises(TableRuntimeError, match=r"Primary key constraint violation.*\[pk=1\].*DO NOTHING"):
        sink.watermark(0)


def test_the_first_row_of_a_key_stays_if_conflicts_do_nothing() -> None:
    sink = TableSubtasks(spec("NOTHING"))
    sink.process([("+I", 1, 1, "a", 0), ("+I", 1, 2, "b", 0), ("+I", 2, 1, "c", 0)])
    assert sink.watermark(0) == [("+I", 1, 1, "a"), ("+I", 2, 1, "c")]
    sink.process([("+I", 1, 3, "x", 1)])
    assert sink.watermark(1) == []
    assert sink.restart().process([("-D", 1, 1, "a", 2)]) == []


def test_the_end_of_the_input_tells_all_rows() -> None:
    sink = TableSubtasks(spec("ERROR"))
    sink.process([("+I", 1, 1, "a", 9)])
    assert sink.finish() == [("+I", 1, 1, "a")]


class Reference:
    """The record-at-a-time operator."""

    def __init__(self, by_key: bool) -> None:
        self._by_key = by_key
        self._sent: dict[int, Any] = {}
        self._waiting: dict[int, list[Change]] = {}

    def process(self, changes: list[Change]) -> None:
        for change in changes:
            self._waiting.setdefault(change[1], []).append(change)

    def _is_same(self, a: Any, b: Any) -> bool:
        return bool(a[1] == b[1] if self._by_key else a == b)

    def watermark(self, time: int) -> list[Change]:
        emitted: list[Change] = []
        for key in sorted(self._waiting):
            due = sorted((each for each in self._waiting[key] if each[4] <= time), key=lambda each: each[4])
            if not due:
                continue
            self._waiting[key] = [each for each in self._waiting[key] if each[4] > time]
            sent = self._sent.get(key)
            emitted += self._emitted(key, sent, self._rows(due, sent))
        return emitted

    def _rows(self, due: list[Change], sent: Any) -> list[Any]:
        rows = [] if sent is None else [sent]
        debts: list[Any] = []
        last = None
        for kind, *values, at in due:
            row = tuple(values)
            if at != last:
                debts, last = [], at
            place = next((i for i, each in enumerate(rows) if self._is_same(each, row)), None)
            if kind in ("+I", "+U"):
                if row in debts:
                    debts.remove(row)
                elif self._by_key and place is not None:
                    rows[place] = row
                else:
                    rows.append(row)
            elif place is None:
                debts.append(row)
            else:
                del rows[place]
        return rows

    def _emitted(self, key: int, sent: Any, rows: list[Any]) -> list[Change]:
        if not rows:
            self._sent.pop(key, None)
            return [] if sent is None else [("-D", *sent)]
        if sent is not None and (len(rows) > 1 or rows[0] == sent):
            return []
        self._sent[key] = rows[0]
        return [("+I" if sent is None else "+U", *rows[0])]


CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["+I", "+I", "+U", "-U", "-D"]), st.integers(0, 2), st.integers(0, 2), st.sampled_from("ab")
    ),
    max_size=8,
)


@settings(max_examples=15)
@given(st.lists(CHANGES, min_size=1, max_size=5), st.sampled_from([(), (1,)]), BACKEND, st.integers(1, 2))
def test_changes_are_those_of_one_record_after_the_other(
    steps: list[list[Change]], upsert_key: tuple[int, ...], backend: str, parallelism: int
) -> None:
    sink = TableSubtasks(spec("NOTHING", upsert_key), backend=backend)
    reference = Reference(bool(upsert_key))
    for time, changes in enumerate(steps):
        timed = [(*change, time + place % 2) for place, change in enumerate(changes)]
        if timed:
            sink.process(timed)
        reference.process(timed)
        assert sorted(sink.watermark(time)) == sorted(reference.watermark(time))
        sink = sink.restart(parallelism)
    assert sorted(sink.watermark(99)) == sorted(reference.watermark(99))
    sink.close()
