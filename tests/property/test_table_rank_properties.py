"""Top-N equals a Top-N of one record after the other, for any changelog, cut into batches and restart."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from table_subtasks import BACKEND, Change, TableSubtasks, materialised, row_info

from flinkpy.graph.operator_specs import FieldKeySelector
from flinkpy.graph.table_specs import MiniBatch, RankSpec, SortField
from flinkpy.sql.types import logical_types as lt

_TYPE = row_info(id=lt.IntType(), k=lt.BigIntType(), v=lt.IntType(), s=lt.VarCharType(lt.MAX_LENGTH))


class ReferenceRank:
    """Sorts the list of a partition anew after each record, and compares it with the list before."""

    def __init__(self, spec: RankSpec) -> None:
        self._spec = spec
        self._lists: dict[Any, list[tuple[Any, ...]]] = {}

    def _sort_key(self, row: tuple[Any, ...]) -> list[Any]:
        key = []
        for field in self._spec.order:
            value = row[field.column]
            is_null = value is None
            rank = 0 if value is None else (ord(value) if isinstance(value, str) else value)
            key.append((is_null != field.nulls_first, rank if field.ascending else -rank))
        return key

    def process(self, change: Change) -> list[Change]:
        kind, row = change[0], change[1:]
        spec = self._spec
        rows = self._lists.setdefault(row[1], [])
        before = list(rows)
        if kind in ("-U", "-D"):
            if row in rows:
                rows.remove(row)
        else:
            old = next((each for each in rows if spec.strategy == "UPDATE" and each[0] == row[0]), None)
            if old is not None and self._sort_key(old) == self._sort_key(row):
                rows[rows.index(old)] = row
            else:
                if old is not None:
                    rows.remove(old)
                rows.append(row)
                rows.sort(key=self._sort_key)
            if spec.strategy != "RETRACT":
                del rows[spec.rank_end :]
            if old is not None and not self._has_rank:
                return [("-U", *old), ("+U", *row)][0 if spec.generate_update_before else 1 :]
        return self._changes(before[: spec.rank_end], rows[: spec.rank_end])

    @property
    def _is_fast_top_1(self) -> bool:
        """True if a row that takes the only place updates the one before."""
        return self._spec.rank_end == 1 and not self._has_rank and self._spec.strategy != "RETRACT"

    @property
    def _has_rank(self) -> bool:
        return self._spec.output_rank_number or self._spec.rank_start > 1

    def _changes(self, before: list[Any], after: list[Any]) -> list[Change]:
        spec = self._spec
        out: list[Change] = []
        if self._is_fast_top_1 and before and after:
            if before[0] is after[0]:
                return []
            return [("-U", *before[0]), ("+U", *after[0])][0 if spec.generate_update_before else 1 :]
        if not self._has_rank:
            out += [("-D", *row) for row in before if not any(row is each for each in after)]
            return out + [("+I", *row) for row in after if not any(row is each for each in before)]
        for rank in range(spec.rank_start, max(len(before), len(after)) + 1):
            was = before[rank - 1] if rank <= len(before) else None
            now = after[rank - 1] if rank <= len(after) else None
            number = (rank,) if spec.output_rank_number else ()
            if was is now:
                continue
            if now is None:
                out.append(("-D", *was, *number))
            elif was is None:
                out.append(("+I", *now, *number))
            else:
                if spec.generate_update_before:
                    out.append(("-U", *was, *number))
                out.append(("+U", *now, *number))
        return out


_SORT_FIELDS = st.lists(
    st.tuples(st.sampled_from([2, 3]), st.booleans(), st.booleans()), min_size=1, max_size=2, unique_by=lambda f: f[0]
).map(lambda fields: tuple(SortField(*field) for field in fields))


@st.composite
def specs(draw: st.DrawFn) -> RankSpec:
    start = draw(st.sampled_from([1, 1, 2]))
    return RankSpec(
        FieldKeySelector(("k",)),
        "ROW_NUMBER",
        (1,),
        draw(_SORT_FIELDS),
        start,
        draw(st.integers(start, 4)),
        output_rank_number=draw(st.booleans()),
        strategy=draw(st.sampled_from(["APPEND", "RETRACT", "UPDATE"])),
        primary_key=(0,),
        generate_update_before=draw(st.booleans()),
        input_types=(_TYPE,),
    )


@st.composite
def changelogs(draw: st.DrawFn, strategy: str) -> list[Change]:
    there: list[tuple[Any, ...]] = []
    changes: list[Change] = []
    for number in range(draw(st.integers(0, 25))):
        if strategy == "RETRACT" and there and draw(st.integers(0, 2)) == 0:
            row = there.pop(draw(st.integers(0, len(there) - 1)))
            changes.append((draw(st.sampled_from(["-U", "-D"])), *row))
            continue
        identity = draw(st.integers(0, 4)) if strategy == "UPDATE" else number
        key = identity % 2 if strategy == "UPDATE" else draw(st.none() | st.integers(0, 1))
        row = (identity, key, draw(st.none() | st.integers(0, 3)), draw(st.sampled_from(["a", "b", None])))
        there.append(row)
        changes.append((draw(st.sampled_from(["+I", "+U"])), *row))
    return changes


def in_order(changes: list[Change], spec: RankSpec) -> list[Any]:
    """A row that rises is taken back before its new rank is emitted, which the reference does not do."""
    return sorted(map(repr, changes)) if spec.strategy == "UPDATE" else changes


@settings(max_examples=60, deadline=None)
@given(
    BACKEND,
    st.data(),
    specs(),
    st.sets(st.integers(0, 25)),
    st.dictionaries(st.integers(0, 25), st.integers(1, 3), max_size=2),
)
def test_top_n_emits_the_changes_of_a_top_n_record_by_record(
    backend: str, data: st.DataObject, spec: RankSpec, cuts: set[int], restarts: dict[int, int]
) -> None:
    changes = data.draw(changelogs(spec.strategy))
    reference = ReferenceRank(spec)
    subtasks = TableSubtasks(spec, backend)
    try:
        start = 0
        for end in range(1, len(changes) + 1):
            if end < len(changes) and end not in cuts and end not in restarts:
                continue
            expected = [reference.process(change) for change in changes[start:end]]
            emitted = subtasks.process(changes[start:end])
            if len(subtasks.operators) > 1:
                assert sorted(map(repr, emitted)) == sorted(repr(each) for part in expected for each in part)
            else:
                for part in expected:
                    assert in_order(emitted[: len(part)], spec) == in_order(part, spec)
                    emitted = emitted[len(part) :]
                assert emitted == []
            start = end
            if end in restarts:
                subtasks = subtasks.restart(restarts[end])
    finally:
        subtasks.close()


@settings(max_examples=60, deadline=None)
@given(BACKEND, st.data(), specs(), st.integers(0, 25), st.integers(1, 3))
def test_a_mini_batch_folds_the_changes_of_a_rank(
    backend: str, data: st.DataObject, spec: RankSpec, restart_at: int, parallelism: int
) -> None:
    changes = data.draw(changelogs(spec.strategy))
    spec = replace(spec, generate_update_before=True)
    reference = ReferenceRank(spec)
    subtasks = TableSubtasks(replace(spec, mini_batch=MiniBatch(6, 1_000)), backend)
    emitted: list[Change] = []
    try:
        for start in range(0, len(changes), 4):
            emitted += subtasks.process(changes[start : start + 4])
            if start // 4 == restart_at // 4:
                for operator in subtasks.operators:
                    operator.prepare_snapshot_pre_barrier(1)
                emitted += subtasks.taken()
                subtasks = subtasks.restart(parallelism)
        emitted += subtasks.finish()
    finally:
        subtasks.close()

    expected = [each for change in changes for each in reference.process(change)]
    table: dict[Any, int] = {}
    for kind, *row in emitted:
        # No row is taken back before it has been sent.
        table[tuple(row)] = table.get(tuple(row), 0) + (1 if kind in ("+I", "+U") else -1)
        assert table[tuple(row)] >= 0
    assert materialised(emitted) == materialised(expected)
    assert len(emitted) <= len(expected)


def test_a_mini_batch_sends_the_last_row_of_top_1_only() -> None:
    order = (SortField(2),)
    spec = RankSpec(FieldKeySelector(("k",)), "ROW_NUMBER", (1,), order, 1, 1, input_types=(_TYPE,))
    subtasks = TableSubtasks(replace(spec, mini_batch=MiniBatch(100, 1_000)))
    assert subtasks.process([("+I", number, 1, 9 - number, "a") for number in range(5)]) == []
    subtasks.clock.advance(1_001)
    assert subtasks.run_timers() == [("+I", 4, 1, 5, "a")]
    subtasks.process([("+I", number, 1, 9 - number, "a") for number in range(5, 8)])
    assert subtasks.finish() == [("-U", 4, 1, 5, "a"), ("+U", 7, 1, 2, "a")]
    subtasks.close()
