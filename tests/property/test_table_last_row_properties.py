"""Deduplication and normalised changelogs equal those of one record after the other, for any cut and restart."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from table_subtasks import BACKEND, Change, TableSubtasks, materialised, row_info

from flinkpy.graph.operator_specs import FieldKeySelector
from flinkpy.graph.table_specs import ChangelogNormalizeSpec, DeduplicateSpec, MiniBatch
from flinkpy.sql.types import logical_types as lt

_TYPE = row_info(k=lt.BigIntType(), t=lt.BigIntType(), v=lt.VarCharType(lt.MAX_LENGTH))
_SELECTOR = FieldKeySelector(("k",))


class ReferenceLastRow:
    """A dict of the last row of each key."""

    def __init__(self, spec: Any) -> None:
        self._spec = spec
        self._rows: dict[Any, tuple[Any, ...]] = {}

    def process(self, change: Change) -> list[Change]:
        kind, row = change[0], change[1:]
        spec, key = self._spec, row[0]
        old = self._rows.get(key)
        by_time = isinstance(spec, DeduplicateSpec) and spec.time_column is not None
        if kind in ("-U", "-D"):
            self._rows.pop(key, None)
            return [] if old is None else [("-D", *old)]
        if isinstance(spec, DeduplicateSpec) and old is not None:
            if by_time and (row[1] < old[1] if spec.keep_last else row[1] >= old[1]):
                return []
            if not by_time and not spec.keep_last:
                return []
        self._rows[key] = row
        if old is None:
            return [("+I", *row)]
        if old == row and not by_time:
            return []
        return [("-U", *old), ("+U", *row)][0 if spec.generate_update_before else 1 :]


@st.composite
def specs(draw: st.DrawFn) -> Any:
    options: dict[str, Any] = {"generate_update_before": draw(st.booleans()), "input_types": (_TYPE,)}
    if draw(st.integers(0, 2)) == 0:
        return ChangelogNormalizeSpec(_SELECTOR, (0,), **options)
    return DeduplicateSpec(_SELECTOR, (0,), draw(st.booleans()), draw(st.sampled_from([None, 1])), **options)


def changelogs(spec: Any) -> st.SearchStrategy[list[Change]]:
    kinds = ["+I", "+U", "-D", "-U"] if isinstance(spec, ChangelogNormalizeSpec) else ["+I"]
    key, value = st.none() | st.integers(0, 2), st.sampled_from(["a", "b", None])
    return st.lists(st.tuples(st.sampled_from(kinds), key, st.integers(0, 4), value), max_size=25)


@settings(max_examples=60, deadline=None)
@given(
    BACKEND,
    st.data(),
    specs(),
    st.sets(st.integers(0, 25)),
    st.dictionaries(st.integers(0, 25), st.integers(1, 3), max_size=2),
)
def test_the_changelog_is_that_of_one_record_after_the_other(
    backend: str, data: st.DataObject, spec: Any, cuts: set[int], restarts: dict[int, int]
) -> None:
    changes = data.draw(changelogs(spec))
    reference = ReferenceLastRow(spec)
    subtasks = TableSubtasks(spec, backend)
    try:
        start = 0
        for end in range(1, len(changes) + 1):
            if end < len(changes) and end not in cuts and end not in restarts:
                continue
            expected = [each for change in changes[start:end] for each in reference.process(change)]
            emitted = subtasks.process(changes[start:end])
            if len(subtasks.operators) > 1:
                assert sorted(map(repr, emitted)) == sorted(map(repr, expected))
            else:
                assert emitted == expected
            start = end
            if end in restarts:
                subtasks = subtasks.restart(restarts[end])
    finally:
        subtasks.close()


@settings(max_examples=40, deadline=None)
@given(st.data(), specs(), st.sets(st.integers(0, 25)))
def test_a_mini_batch_folds_the_changes_of_a_key(data: st.DataObject, spec: Any, cuts: set[int]) -> None:
    if not spec.generate_update_before:
        return
    changes = data.draw(changelogs(spec))
    folded = type(spec)(
        *(getattr(spec, name) for name in ("key_selector", "unique_key" if hasattr(spec, "unique_key") else "key")),
        **{
            name: getattr(spec, name)
            for name in ("generate_update_before", "input_types", "keep_last", "time_column")
            if hasattr(spec, name)
        },
        mini_batch=MiniBatch(10, 1_000),
    )
    reference, subtasks = ReferenceLastRow(spec), TableSubtasks(folded)
    expected = [each for change in changes for each in reference.process(change)]
    emitted: list[Change] = []
    for start in range(0, len(changes), 4):
        emitted += subtasks.process(changes[start : start + 4])
    emitted += subtasks.finish()
    subtasks.close()

    assert materialised(emitted) == materialised(expected)
