"""A multi-way join equals nested loops over one record after the other, and a chain of joins of two inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from table_subtasks import BACKEND, Change, TableSubtasks, materialised, row_info

from flinkpy.graph.operator_specs import FieldKeySelector
from flinkpy.graph.table_specs import JoinInput, JoinSpec, JoinType, MultiJoinSpec, MultiJoinStep
from flinkpy.sql.rex import InputRef, RexCall
from flinkpy.sql.types import logical_types as lt

_INPUTS = tuple(row_info(**{f"k{n}": lt.BigIntType(), f"v{n}": lt.IntType()}) for n in range(3))
_OUTPUT = row_info(**{f"{c}{n}": lt.BigIntType() if c == "k" else lt.IntType() for n in range(3) for c in "kv"})
_STEPS = (JoinType.INNER, JoinType.LEFT)
_Row = tuple[Any, ...]


def _smaller(left: int, right: int) -> RexCall:
    """A condition over two values, which is unknown if one of them is NULL."""
    return RexCall(lt.BooleanType(), "<=", (InputRef(lt.IntType(), left), InputRef(lt.IntType(), right)))


def multi_join(
    types: tuple[JoinType, JoinType], joins_to: int, conditions: tuple[bool, bool], has_keys: bool
) -> MultiJoinSpec:
    """Joins three inputs by their first column. The third one is compared with that of input `joins_to`."""
    steps = (
        MultiJoinStep(types[0], (0,), _smaller(1, 3) if conditions[0] else None),
        MultiJoinStep(types[1], (joins_to,), _smaller(3, 5) if conditions[1] else None),
    )
    return MultiJoinSpec(
        tuple(FieldKeySelector((f"k{n}",)) for n in range(3)),
        ((0,),) * 3,
        steps,
        (JoinInput((0, 1)) if has_keys else JoinInput(),) * 3,
        (0, 0, 0),
        input_types=_INPUTS,
        output_type=_OUTPUT,
    )


class ReferenceMultiJoin:
    """Joins one record after the other by nested loops over lists of rows."""

    def __init__(self, spec: MultiJoinSpec, conditions: tuple[bool, bool]) -> None:
        self._spec = spec
        self._conditions = conditions
        self._rows: list[list[_Row]] = [[], [], []]
        self._changes: list[Change] = []

    def process(self, source: int, change: Change) -> list[Change]:
        self._changes = []
        self._join(0, (), source, change[0], change[1:])
        row = change[1:]
        if change[0] in ("+I", "+U"):
            if self._spec.inputs[source].unique_key is None or row not in self._rows[source]:
                self._rows[source].append(row)
        elif row in self._rows[source]:
            self._rows[source].remove(row)
        return self._changes

    def _matches(self, number: int, before: tuple[_Row | None, ...], row: _Row) -> bool:
        if not number:
            return True
        other = before[self._spec.steps[number - 1].requires[0]]
        if other is None or other[0] is None or other[0] != row[0]:
            return False
        left = before[number - 1]
        has_values = left is not None and left[1] is not None and row[1] is not None
        return not self._conditions[number - 1] or (has_values and left[1] <= row[1])

    def _join(self, number: int, before: tuple[_Row | None, ...], source: int, kind: str, record: _Row) -> None:
        if number == 3:
            self._changes.append((kind, *(value for row in before for value in row or (None, None))))
            return
        is_left = number > 0 and self._spec.steps[number - 1].join_type is JoinType.LEFT
        found = [row for row in self._rows[number] if self._matches(number, before, row)]
        if number != source:
            for row in found or ([None] if is_left else []):
                self._join(number + 1, (*before, row), source, kind, record)
        elif self._matches(number, before, record):
            is_add = kind in ("+I", "+U")
            if is_left and is_add and not found:
                self._join(number + 1, (*before, None), source, "-D", record)
            self._join(number + 1, (*before, record), source, kind, record)
            if is_left and not is_add and len(found) == 1:
                self._join(number + 1, (*before, None), source, "+I", record)


_VALUE = st.none() | st.integers(0, 1)
_ADD, _RETRACT = st.sampled_from(["+I", "+U"]), st.sampled_from(["-U", "-D"])


@st.composite
def changelogs(draw: st.DrawFn, has_keys: bool) -> list[tuple[int, Change]]:
    """Changes of three inputs, which retract rows that are there. With keys, rows are distinct."""
    there: tuple[list[_Row], ...] = ([], [], [])
    changes: list[tuple[int, Change]] = []
    for _ in range(draw(st.integers(0, 25))):
        source = draw(st.integers(0, 2))
        row = (draw(_VALUE), draw(_VALUE))
        if there[source] and (draw(st.integers(0, 2)) == 0 or (has_keys and row in there[source])):
            row = there[source].pop(draw(st.integers(0, len(there[source]) - 1)))
            changes.append((source, (draw(_RETRACT), *row)))
        else:
            there[source].append(row)
            changes.append((source, (draw(_ADD), *row)))
    return changes


def _batches(
    changes: list[tuple[int, Change]], is_cut: Callable[[int], bool]
) -> list[tuple[int, int, list[tuple[int, Change]]]]:
    """Returns (end, source, changes) of batches, each of one input."""
    found, start = [], 0
    for end in range(1, len(changes) + 1):
        if end == len(changes) or changes[end][0] != changes[start][0] or is_cut(end):
            found.append((end, changes[start][0], changes[start:end]))
            start = end
    return found


@settings(max_examples=40, deadline=None)
@given(
    BACKEND,
    st.tuples(st.sampled_from(_STEPS), st.sampled_from(_STEPS)),
    st.integers(0, 1),
    st.tuples(st.booleans(), st.booleans()),
    st.booleans().flatmap(lambda has_keys: st.tuples(st.just(has_keys), changelogs(has_keys))),
    st.sets(st.integers(0, 25)),
    st.dictionaries(st.integers(0, 25), st.integers(1, 3), max_size=2),
)
def test_a_multi_join_emits_the_changes_of_nested_loops_record_by_record(
    backend: str,
    types: tuple[JoinType, JoinType],
    joins_to: int,
    conditions: tuple[bool, bool],
    changelog: tuple[bool, list[tuple[int, Change]]],
    cuts: set[int],
    restarts: dict[int, int],
) -> None:
    has_keys, changes = changelog
    spec = multi_join(types, joins_to, conditions, has_keys)
    reference = ReferenceMultiJoin(spec, conditions)
    subtasks = TableSubtasks(spec, backend)
    try:
        for end, source, batch in _batches(changes, lambda end: end in cuts or end in restarts):
            expected = [reference.process(source, change) for _, change in batch]
            emitted = subtasks.process([change for _, change in batch], source)
            if len(subtasks.operators) > 1:
                assert sorted(map(repr, emitted)) == sorted(repr(each) for part in expected for each in part)
            else:
                for part in expected:
                    assert sorted(map(repr, emitted[: len(part)])) == sorted(map(repr, part))
                    emitted = emitted[len(part) :]
                assert emitted == []
            if end in restarts:
                subtasks = subtasks.restart(restarts[end])
    finally:
        subtasks.close()


def _two_inputs(left: int, key: int, join_type: JoinType, condition: RexCall | None) -> JoinSpec:
    """Joins the first `left` inputs of the chain, as one, with the next by its column `key`."""
    fields = _OUTPUT.row_type.fields[: 2 * left]
    below = row_info(**{each.name: each.type for each in fields})
    selectors = FieldKeySelector((fields[key].name,)), FieldKeySelector((f"k{left}",))
    return JoinSpec(selectors, join_type, (key,), (0,), (True,), condition, input_types=(below, _INPUTS[left]))


@settings(max_examples=15, deadline=None)
@given(
    st.tuples(st.sampled_from(_STEPS), st.sampled_from(_STEPS)),
    st.integers(0, 1),
    st.tuples(st.booleans(), st.booleans()),
    changelogs(has_keys=False),
    st.sets(st.integers(0, 25)),
)
def test_a_multi_join_has_the_table_of_a_chain_of_joins(
    types: tuple[JoinType, JoinType],
    joins_to: int,
    conditions: tuple[bool, bool],
    changes: list[tuple[int, Change]],
    cuts: set[int],
) -> None:
    multi = TableSubtasks(multi_join(types, joins_to, conditions, has_keys=False))
    chain = [
        TableSubtasks(_two_inputs(1, 0, types[0], _smaller(1, 3) if conditions[0] else None)),
        TableSubtasks(_two_inputs(2, 2 * joins_to, types[1], _smaller(3, 5) if conditions[1] else None)),
    ]
    emitted: list[Change] = []
    expected: list[Change] = []
    try:
        for _, source, batch in _batches(changes, cuts.__contains__):
            rows = [change for _, change in batch]
            emitted += multi.process(rows, source)
            if source < 2:
                rows = chain[0].process(rows, source)
            expected += chain[1].process(rows, 0 if source < 2 else 1) if rows else []
            assert materialised(emitted) == materialised(expected)
    finally:
        for each in (multi, *chain):
            each.close()
