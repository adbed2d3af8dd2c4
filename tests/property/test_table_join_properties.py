"""Regular joins equal a join of one record after the other, for any changelog, cut into batches and restart."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from table_subtasks import BACKEND, Change, TableSubtasks, materialised, row_info

from flinkpy.graph.operator_specs import FieldKeySelector
from flinkpy.graph.table_specs import JoinInput, JoinSpec, JoinType, MiniBatch
from flinkpy.sql.rex import InputRef, RexCall
from flinkpy.sql.types import logical_types as lt

_LEFT = row_info(k=lt.BigIntType(), a=lt.IntType(), s=lt.VarCharType(lt.MAX_LENGTH))
_RIGHT = row_info(k0=lt.BigIntType(), b=lt.IntType())


#: a <= b, which is unknown if one of them is NULL.
_SMALLER = RexCall(lt.BooleanType(), "<=", (InputRef(lt.IntType(), 1), InputRef(lt.IntType(), 4)))


class ReferenceJoin:
    """Joins one record after the other, with lists of rows."""

    def __init__(self, spec: JoinSpec, has_condition: bool) -> None:
        self._type = spec.join_type
        self._filters_nulls = spec.filter_nulls[0]
        self._has_condition = has_condition
        self._inputs = (spec.left_input, spec.right_input)
        #: Per side, rows and their numbers of associations.
        self._rows: tuple[list[list[Any]], list[list[Any]]] = ([], [])
        self._outer = (
            spec.join_type in (JoinType.LEFT, JoinType.FULL),
            spec.join_type in (JoinType.RIGHT, JoinType.FULL),
        )

    def _matches(self, left: tuple[Any, ...], right: tuple[Any, ...]) -> bool:
        if left[0] != right[0] or (self._filters_nulls and left[0] is None):
            return False
        return not self._has_condition or (left[1] is not None and right[1] is not None and left[1] <= right[1])

    def _store(self, side: int, row: tuple[Any, ...], is_add: bool, associations: int) -> bool:
        """Returns True if the row replaces one with the same unique key."""
        rows, info = self._rows[side], self._inputs[side]

        def is_same(other: tuple[Any, ...]) -> bool:
            if info.join_key_is_unique:
                return row[0] == other[0]
            if info.unique_key is not None:
                return row[0] == other[0] and all(row[c] == other[c] for c in info.unique_key)
            return row == other

        has_identity = info.join_key_is_unique or info.unique_key is not None
        known = next((entry for entry in rows if is_same(entry[0])), None)
        if not is_add:
            if known is not None:
                rows.remove(known)
            return False
        if has_identity and known is not None:
            known[:] = [row, associations]
            return True
        rows.append([row, associations])
        return False

    def process(self, side: int, change: Change) -> list[Change]:
        kind, row = change[0], change[1:]
        is_add = kind in ("+I", "+U")
        pairs = [
            entry
            for entry in self._rows[1 - side]
            if (self._matches(row, entry[0]) if side == 0 else self._matches(entry[0], row))
        ]
        replaced = self._store(side, row, is_add, len(pairs))
        if self._type in (JoinType.SEMI, JoinType.ANTI):
            return self._semi(side, kind, row, is_add, replaced, pairs)
        nulls = (None,) * (2 if side == 0 else 3)
        out: list[Change] = []

        def emit(kind: str, mine: tuple[Any, ...] | None, other: tuple[Any, ...] | None) -> None:
            mine = mine or (None,) * (3 if side == 0 else 2)
            other = other or nulls
            out.append((kind, *mine, *other) if side == 0 else (kind, *other, *mine))

        is_outer, other_is_outer = self._outer[side], self._outer[1 - side]
        if not pairs and is_outer:
            emit("+I" if is_add else "-D", row, None)
        for entry in pairs:
            if other_is_outer and is_add and entry[1] == 0:
                emit("-D", None, entry[0])
            if is_outer:
                shown = "+I" if is_add else "-D"
            elif other_is_outer:
                shown = "+I" if is_add else kind
            else:
                shown = kind
            emit(shown, row, entry[0])
            if other_is_outer and not is_add and entry[1] == 1:
                emit("+I", None, entry[0])
            if other_is_outer:
                self._associate(entry, is_add, replaced)
        return out

    def _associate(self, entry: list[Any], is_add: bool, replaced: bool) -> None:
        if not is_add:
            entry[1] -= 1
        elif entry[1] == 0 or not replaced:
            entry[1] += 1

    def _semi(
        self, side: int, kind: str, row: tuple[Any, ...], is_add: bool, replaced: bool, pairs: list[list[Any]]
    ) -> list[Change]:
        is_semi = self._type is JoinType.SEMI
        if side == 0:
            return [(kind, *row)] if bool(pairs) == is_semi else []
        out: list[Change] = []
        for entry in pairs:
            if entry[1] == (0 if is_add else 1):
                shown = kind if is_semi else ("-D" if is_add else "+I")
                out.append((shown, *entry[0]))
            self._associate(entry, is_add, replaced)
        return out


def join_spec(
    join_type: JoinType, filters_nulls: bool, has_condition: bool, left: JoinInput, right: JoinInput
) -> JoinSpec:
    return JoinSpec(
        (FieldKeySelector(("k",)), FieldKeySelector(("k0",))),
        join_type,
        (0,),
        (0,),
        (filters_nulls,),
        _SMALLER if has_condition else None,
        left_input=left,
        right_input=right,
        input_types=(_LEFT, _RIGHT),
    )


_KEY = st.none() | st.integers(0, 2)
_VALUE = st.none() | st.integers(0, 2)
_ADD, _RETRACT = st.sampled_from(["+I", "+U"]), st.sampled_from(["-U", "-D"])
_ROWS = (st.tuples(_KEY, _VALUE, st.sampled_from(["x", None])), st.tuples(_KEY, _VALUE))


@st.composite
def changelogs(draw: st.DrawFn) -> list[tuple[int, Change]]:
    """Changes of both inputs. A change that retracts something retracts a row that is there."""
    there: tuple[list[tuple[Any, ...]], ...] = ([], [])
    changes: list[tuple[int, Change]] = []
    for _ in range(draw(st.integers(0, 25))):
        side = draw(st.integers(0, 1))
        if there[side] and draw(st.integers(0, 2)) == 0:
            row = there[side].pop(draw(st.integers(0, len(there[side]) - 1)))
            changes.append((side, (draw(_RETRACT), *row)))
        else:
            row = draw(_ROWS[side])
            there[side].append(row)
            changes.append((side, (draw(_ADD), *row)))
    return changes


_INPUTS = (
    st.sampled_from([JoinInput(), JoinInput((0, 1)), JoinInput((0,), True)]),
    st.sampled_from([JoinInput(), JoinInput((0, 1)), JoinInput((0,), True)]),
)


@st.composite
def keyed_changelogs(draw: st.DrawFn, inputs: tuple[JoinInput, JoinInput]) -> list[tuple[int, Change]]:
    """Changes of inputs that keep their unique keys: a row is taken back before another one of its key comes."""
    there: tuple[dict[Any, tuple[Any, ...]], ...] = ({}, {})
    changes: list[tuple[int, Change]] = []
    for number in range(draw(st.integers(0, 30))):
        side = draw(st.integers(0, 1))
        row = draw(_ROWS[side])
        info = inputs[side]
        columns = (0,) if info.join_key_is_unique else info.unique_key
        identity = number if columns is None else tuple(row[column] for column in columns)
        known = there[side]
        if known and (identity in known or draw(st.integers(0, 2)) == 0):
            gone = identity if identity in known else draw(st.sampled_from(sorted(known, key=repr)))
            changes.append((side, (draw(_RETRACT), *known.pop(gone))))
        else:
            known[identity] = row
            changes.append((side, (draw(_ADD), *row)))
    return changes


@settings(max_examples=30, deadline=None)
@given(
    BACKEND,
    st.sampled_from(list(JoinType)),
    st.booleans(),
    st.tuples(*_INPUTS).flatmap(lambda inputs: st.tuples(st.just(inputs), keyed_changelogs(inputs))),
    st.sets(st.integers(0, 30)),
    st.dictionaries(st.integers(0, 30), st.integers(1, 3), max_size=2),
    st.integers(1, 12),
)
def test_a_join_in_mini_batches_has_the_same_table(
    backend: str,
    join_type: JoinType,
    has_condition: bool,
    changelog: tuple[tuple[JoinInput, JoinInput], list[tuple[int, Change]]],
    cuts: set[int],
    restarts: dict[int, int],
    size: int,
) -> None:
    inputs, changes = changelog
    spec = join_spec(join_type, True, has_condition, *inputs)
    reference = ReferenceJoin(spec, has_condition)
    subtasks = TableSubtasks(replace(spec, mini_batch=MiniBatch(size, 1_000)), backend)
    emitted: list[Change] = []
    expected = [each for side, change in changes for each in reference.process(side, change)]
    try:
        start = 0
        for end in range(1, len(changes) + 1):
            is_last = end == len(changes) or changes[end][0] != changes[start][0]
            if is_last or end in cuts or end in restarts:
                emitted += subtasks.process([change for _, change in changes[start:end]], changes[start][0])
                start = end
            if end in restarts:
                emitted += subtasks.prepare_snapshot()
                subtasks = subtasks.restart(restarts[end])
        emitted += subtasks.finish()
    finally:
        subtasks.close()
    assert materialised(emitted) == materialised(expected)


def as_text(changes: list[Change]) -> list[str]:
    """The order of the rows that match one record is open, so it is left out."""
    return sorted(map(repr, changes))


@settings(max_examples=60, deadline=None)
@given(
    BACKEND,
    st.sampled_from(list(JoinType)),
    st.booleans(),
    st.booleans(),
    *_INPUTS,
    changelogs(),
    st.sets(st.integers(0, 25)),
    st.dictionaries(st.integers(0, 25), st.integers(1, 3), max_size=2),
)
def test_a_join_emits_the_changes_of_a_join_record_by_record(
    backend: str,
    join_type: JoinType,
    filters_nulls: bool,
    has_condition: bool,
    left: JoinInput,
    right: JoinInput,
    changes: list[tuple[int, Change]],
    cuts: set[int],
    restarts: dict[int, int],
) -> None:
    spec = join_spec(join_type, filters_nulls, has_condition, left, right)
    reference = ReferenceJoin(spec, has_condition)
    subtasks = TableSubtasks(spec, backend)
    try:
        start = 0
        for end in range(1, len(changes) + 1):
            is_last = end == len(changes) or changes[end][0] != changes[start][0]
            if not (is_last or end in cuts or end in restarts):
                continue
            side = changes[start][0]
            batch = [change for _, change in changes[start:end]]
            expected = [reference.process(side, change) for change in batch]
            emitted = subtasks.process(batch, side)
            if len(subtasks.operators) > 1:
                assert as_text(emitted) == as_text([each for part in expected for each in part])
            else:
                for part in expected:
                    assert as_text(emitted[: len(part)]) == as_text(part)
                    emitted = emitted[len(part) :]
                assert emitted == []
            start = end
            if end in restarts:
                subtasks = subtasks.restart(restarts[end])
    finally:
        subtasks.close()
