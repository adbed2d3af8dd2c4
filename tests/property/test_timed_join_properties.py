"""Interval and temporal joins equal joins of one record after the other, cut into batches, restarted and rescaled."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st
from table_subtasks import BACKEND, Change, TableSubtasks, row_info

from flinkpy.graph.operator_specs import FieldKeySelector
from flinkpy.graph.table_specs import JoinType, ProcessTimeTemporalJoinSpec, TableIntervalJoinSpec, TemporalJoinSpec
from flinkpy.sql.rex import InputRef, RexCall
from flinkpy.sql.types import logical_types as lt

_ROW = {"k": lt.BigIntType(), "t": lt.BigIntType(), "a": lt.IntType()}
_LEFT = row_info(**_ROW)
_RIGHT = row_info(**{f"{name}0": kind for name, kind in _ROW.items()})
_SELECTORS = (FieldKeySelector(("k",)), FieldKeySelector(("k0",)))
_SMALLER = RexCall(lt.BooleanType(), "<=", (InputRef(lt.IntType(), 2), InputRef(lt.IntType(), 5)))
_END = (1 << 63) - 1
_NOTHING = (None, None, None)

#: Events: (0 or 1, row) for a row of an input, (None, watermark).
Event = tuple[int | None, Any]
_ROWS = st.tuples(st.sampled_from([None, 0, 1, 1]), st.integers(0, 12), st.sampled_from([0, 1, 2, None]))
_EVENTS = st.lists(
    st.one_of(
        st.tuples(st.integers(0, 1), _ROWS),
        st.tuples(st.integers(0, 1), _ROWS),
        st.tuples(st.none(), st.integers(0, 15)),
    ),
    max_size=25,
)
_PLAN = (
    BACKEND,
    _EVENTS,
    st.sets(st.integers(0, 25)),
    st.dictionaries(st.integers(0, 25), st.integers(1, 3), max_size=2),
)


def rising(events: list[Event]) -> list[Event]:
    """Returns the events with watermarks that never fall, and the end of time."""
    last, made = -100, []
    for side, value in events:
        if side is None:
            last = value = max(last, value)
        made.append((side, value))
    return [*made, (None, _END)]


def run(
    spec: Any, backend: str, events: list[Event], cuts: set[int], restarts: dict[int, int], reference: Any
) -> TableSubtasks:
    """Feeds the events to subtasks and to the reference, and compares what both emit."""
    subtasks = TableSubtasks(spec, backend)
    start = 0
    while start < len(events):
        side, value = events[start]
        end = start + 1
        if side is None:
            expected = reference.watermark(value)
            emitted = subtasks.watermark(value)
        else:
            while end < len(events) and events[end][0] == side and end not in cuts and end not in restarts:
                end += 1
            rows = [row for _, row in events[start:end]]
            expected = [change for row in rows for change in reference.process(side, row)]
            emitted = subtasks.process([row if isinstance(row[0], str) else ("+I", *row) for row in rows], side)
        assert sorted(map(repr, emitted)) == sorted(map(repr, expected)), events[start]
        start = end
        if start in restarts:
            subtasks = subtasks.restart(restarts[start])
            reference.restart()
    return subtasks


class ReferenceIntervalJoin:
    """Joins one record after the other, with lists of [row, has a match]."""

    def __init__(self, spec: TableIntervalJoinSpec) -> None:
        self._spec = spec
        self._watermark = -(1 << 63)
        self._sides: tuple[list[list[Any]], list[list[Any]]] = ([], [])
        self._outer = (
            spec.join_type in (JoinType.LEFT, JoinType.FULL),
            spec.join_type in (JoinType.RIGHT, JoinType.FULL),
        )

    def _last(self, side: int, row: tuple[Any, ...]) -> int:
        """The last time of a partner."""
        return row[1] + (self._spec.upper_bound_ms if side == 0 else -self._spec.lower_bound_ms)

    def _matches(self, left: tuple[Any, ...], right: tuple[Any, ...]) -> bool:
        if left[0] is None or left[0] != right[0]:
            return False
        if not self._spec.lower_bound_ms <= right[1] - left[1] <= self._spec.upper_bound_ms:
            return False
        return self._spec.condition is None or (left[2] is not None and right[2] is not None and left[2] <= right[2])

    def process(self, side: int, row: tuple[Any, ...]) -> list[Change]:
        out: list[Change] = []
        for entry in self._sides[1 - side]:
            pair = (row, entry[0]) if side == 0 else (entry[0], row)
            if self._matches(*pair):
                entry[1] = True
                out.append(("+I", *pair[0], *pair[1]))
        if self._spec.lower_bound_ms <= self._spec.upper_bound_ms and self._last(side, row) > self._watermark:
            self._sides[side].append([row, bool(out)])
        elif not out and self._outer[side]:
            out.append(self._padded(side, row))
        return out

    @staticmethod
    def _padded(side: int, row: tuple[Any, ...]) -> Change:
        return ("+I", *row, *_NOTHING) if side == 0 else ("+I", *_NOTHING, *row)

    def restart(self) -> None:
        """A restarted operator waits for a watermark: no row is late before."""
        self._watermark = -(1 << 63)

    def watermark(self, time: int) -> list[Change]:
        self._watermark = time
        out: list[Change] = []
        for side, rows in enumerate(self._sides):
            gone = [
                entry for entry in rows if self._last(side, entry[0]) + self._spec.min_cleanup_ms < time or time == _END
            ]
            rows[:] = [entry for entry in rows if entry not in gone]
            out += [self._padded(side, row) for row, matched in gone if not matched and self._outer[side]]
        return out


@settings(max_examples=40, deadline=None)
@example(
    "hashmap",
    [(0, (None, 0, 0)), (None, 2), (0, (None, 0, 0))],
    set(),
    {2: 1},
    JoinType.FULL,
    (-3, 2),
    None,
    0,
)
@given(
    *_PLAN,
    st.sampled_from([JoinType.INNER, JoinType.LEFT, JoinType.RIGHT, JoinType.FULL]),
    st.sampled_from([(-3, 2), (0, 0), (2, 5), (-6, -1), (1, 0)]),
    st.sampled_from([None, _SMALLER]),
    st.sampled_from([0, 0, 4]),
)
def test_an_interval_join_emits_the_rows_of_a_join_record_by_record(
    backend: str,
    events: list[Event],
    cuts: set[int],
    restarts: dict[int, int],
    join_type: JoinType,
    bounds: tuple[int, int],
    condition: Any,
    min_cleanup_ms: int,
) -> None:
    spec = TableIntervalJoinSpec(
        _SELECTORS,
        join_type,
        (0,),
        (0,),
        (True,),
        *bounds,
        True,
        1,
        1,
        condition,
        min_cleanup_ms,
        input_types=(_LEFT, _RIGHT),
    )
    subtasks = run(spec, backend, rising(events), cuts, restarts, ReferenceIntervalJoin(spec))
    try:
        assert all(table.size == 0 for operator in subtasks.operators for table in operator._tables)
    finally:
        subtasks.close()


class ReferenceTemporalJoin:
    """Joins one record after the other, with a dict of versions by time for each key."""

    def __init__(self, spec: TemporalJoinSpec) -> None:
        self._spec = spec
        self._left: list[Change] = []
        self._versions: dict[Any, dict[int, Change]] = {}

    def process(self, side: int, change: Change) -> list[Change]:
        if side == 0:
            self._left.append(change)
        else:
            self._versions.setdefault(change[1], {})[change[2]] = change
        return []

    def _version(self, left: Change) -> Change | None:
        times = [time for time in self._versions.get(left[1], {}) if time <= left[2]]
        if not times or (left[1] is None and self._spec.filter_nulls[0]):
            return None
        found = self._versions[left[1]][max(times)]
        if found[0] in ("-U", "-D"):
            return None
        if self._spec.condition is not None and (left[3] is None or found[3] is None or left[3] > found[3]):
            return None
        return found

    def restart(self) -> None:
        """Changes nothing: the next watermark decides."""

    def watermark(self, time: int) -> list[Change]:
        out: list[Change] = []
        for left in self._left:
            if left[2] <= time:
                found = self._version(left)
                if found is not None:
                    out.append((*left, *found[1:]))
                elif self._spec.join_type is JoinType.LEFT:
                    out.append((*left, *_NOTHING))
        self._left = [left for left in self._left if left[2] > time]
        for versions in self._versions.values():
            past = [each for each in versions if each <= time]
            for each in past:
                if each < max(past):
                    del versions[each]
        return out

    def num_rows(self) -> int:
        kept = [each for key, each in self._versions.items() if key is not None or not self._spec.filter_nulls[0]]
        return sum(map(len, (self._left, *kept)))


_KINDS = st.lists(st.sampled_from(["+I", "+I", "-U", "+U", "-D"]), min_size=25, max_size=25)


@settings(max_examples=40, deadline=None)
@given(
    *_PLAN, _KINDS, st.sampled_from([JoinType.INNER, JoinType.LEFT]), st.sampled_from([None, _SMALLER]), st.booleans()
)
def test_a_temporal_join_emits_the_rows_of_a_join_record_by_record(
    backend: str,
    events: list[Event],
    cuts: set[int],
    restarts: dict[int, int],
    kinds: list[str],
    join_type: JoinType,
    condition: Any,
    filters_nulls: bool,
) -> None:
    types = (_LEFT, _RIGHT)
    spec = TemporalJoinSpec(_SELECTORS, join_type, (0,), (0,), (filters_nulls,), 1, 1, condition, input_types=types)
    reference = ReferenceTemporalJoin(spec)
    changes = [(side, value if side is None else (kind, *value)) for (side, value), kind in zip(events, kinds)]
    subtasks = run(spec, backend, rising(changes), cuts, restarts, reference)
    try:
        sizes = [table.size for operator in subtasks.operators for table in operator._tables]
        assert sum(sizes) == reference.num_rows()
    finally:
        subtasks.close()


class ReferenceProcessTimeJoin:
    """Joins one record after the other, with a dict of the latest row of each key."""

    def __init__(self, spec: ProcessTimeTemporalJoinSpec) -> None:
        self._spec = spec
        self._latest: dict[Any, Change] = {}

    def process(self, side: int, change: Change) -> list[Change]:
        if side == 1:
            self._latest.pop(change[1], None)
            if change[0] in ("+I", "+U"):
                self._latest[change[1]] = change
            return []
        found = self._latest.get(change[1])
        is_match = found is not None and (
            self._spec.condition is None or (None not in (change[3], found[3]) and change[3] <= found[3])
        )
        if is_match:
            return [(*change, *found[1:])]
        return [(*change, *_NOTHING)] if self._spec.join_type is JoinType.LEFT else []

    def restart(self) -> None:
        """Changes nothing: the latest rows are in the snapshot."""

    def watermark(self, time: int) -> list[Change]:
        return []


@given(*_PLAN, _KINDS, st.sampled_from([JoinType.INNER, JoinType.LEFT]), st.sampled_from([None, _SMALLER]))
def test_a_temporal_join_by_processing_time_finds_the_latest_row_of_each_key(
    backend: str,
    events: list[Event],
    cuts: set[int],
    restarts: dict[int, int],
    kinds: list[str],
    join_type: JoinType,
    condition: Any,
) -> None:
    spec = ProcessTimeTemporalJoinSpec(
        _SELECTORS, join_type, (0,), (0,), (False,), condition, input_types=(_LEFT, _RIGHT)
    )
    changes = [(side, value if side is None else (kind, *value)) for (side, value), kind in zip(events, kinds)]
    run(spec, backend, rising(changes), cuts, restarts, ReferenceProcessTimeJoin(spec)).close()
