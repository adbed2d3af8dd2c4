"""GROUP BY over changelogs equals a naive record-at-a-time reference, for any batches, restarts and parallelism."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import pytest
from changelogs import Change, TableSubtasks, grouped_changelog, materialized, to_batch, type_info
from hypothesis import given, settings
from hypothesis import strategies as st
from streaming_fakes import OperatorHarness

from flinkpy.graph.operator_specs import FieldKeySelector
from flinkpy.graph.table_specs import (
    GlobalGroupAggregateSpec,
    GroupAggregateSpec,
    LocalGroupAggregateSpec,
    MiniBatch,
)
from flinkpy.sql.rex import AggregateCall
from flinkpy.sql.types import logical_types as lt
from flinkpy.sql.types.arrow import row_type_of
from flinkpy.sql.types.internal_type_info import InternalTypeInfo
from flinkpy.state import group_table
from flinkpy.state.row_groups import kernels

_INPUT = type_info(
    k1=lt.VarCharType(),
    k2=lt.BigIntType(),
    number=lt.BigIntType(),
    real=lt.DoubleType(),
    money=lt.DecimalType(precision=10, scale=2),
    text=lt.VarCharType(),
    flag=lt.BooleanType(),
)
_TYPES = [field.type for field in _INPUT.row_type.fields]
_KEY, _NUMBER, _REAL, _MONEY, _TEXT, _FLAG = (0, 1), 2, 3, 4, 5, 6


def _call(function: str, argument: int | None = None, kind: lt.LogicalType | None = None, **more: Any) -> AggregateCall:
    kind = kind or (lt.BigIntType() if argument is None else _TYPES[argument])
    name = f"{function}_{argument}_{more}"
    return AggregateCall(function, () if argument is None else (argument,), kind, name, **more)


_LONG = lt.BigIntType()
_ADDITIVE = [
    _call("COUNT"),
    _call("COUNT", filter_index=_FLAG),
    _call("COUNT", _TEXT, lt.BigIntType()),
    _call("SUM", _NUMBER),
    _call("SUM", _NUMBER, filter_index=_FLAG),
    _call("$SUM0", _NUMBER),
    _call("AVG", _NUMBER),
    _call("SUM", _REAL),
    _call("AVG", _REAL),
    _call("SUM", _MONEY, lt.DecimalType(precision=38, scale=2)),
    _call("AVG", _MONEY, lt.DecimalType(precision=38, scale=6)),
    _call("COUNT", _NUMBER, lt.BigIntType(), is_distinct=True),
    _call("COUNT", _NUMBER, lt.BigIntType(), is_distinct=True, filter_index=_FLAG),
    _call("COUNT", _TEXT, lt.BigIntType(), is_distinct=True),
    _call("SUM", _NUMBER, is_distinct=True),
]
_RETRACTING = [_call(function, argument) for function in ("MIN", "MAX") for argument in (_NUMBER, _TEXT)]
_APPEND_ONLY = [
    _call(function, argument, filter_index=filter_index)
    for function in ("MIN", "MAX", "FIRST_VALUE", "LAST_VALUE")
    for argument, filter_index in ((_NUMBER, _FLAG), (_REAL, None), (_MONEY, None), (_TEXT, None), (_FLAG, None))
]

_ROWS = st.tuples(
    st.sampled_from(["a", "b", None]),
    st.sampled_from([1, 2, None]),
    st.none() | st.integers(-3, 3),
    # Sums of such numbers are exact in any order of addition.
    st.none() | st.sampled_from([0.5, -2.25, 1024.0]),
    st.none() | st.integers(-1000, 1000).map(lambda cents: Decimal(cents) / 4).map(lambda d: round(d, 2)),
    st.none() | st.sampled_from(["x", "yy", "Z", "é"]),
    st.none() | st.booleans(),
)
_CUTS = st.lists(st.integers(0, 40), max_size=5)
_BACKENDS = [{}, {"state.backend.type": "rocksdb"}]


@st.composite
def changelogs(draw: st.DrawFn, has_strays: bool = False) -> list[Change]:
    """A changelog in which rows are taken back after they were added; with `has_strays` also others are."""
    changes: list[Change] = []
    present: list[Any] = []
    for _ in range(draw(st.integers(0, 30))):
        action = draw(st.integers(0, 3))
        if action and present:
            row = present.pop(draw(st.integers(0, len(present) - 1)))
            if action == 1:
                changes.append(("-D", *row))
                continue
            changes.append(("-U", *row))
            row = (*row[:2], *draw(_ROWS)[2:])
            changes.append(("+U", *row))
        elif has_strays and draw(st.integers(0, 9)) == 0:
            changes.append(("-D", *draw(_ROWS)))
            if any(row[:2] == changes[-1][1:3] for row in present):
                changes.pop()
            continue
        else:
            row = draw(_ROWS)
            changes.append(("+I", *row))
        present.append(row)
    return changes


def _spec(calls: list[AggregateCall], **more: Any) -> GroupAggregateSpec:
    grouping = more.pop("grouping", _KEY)
    fields = [_INPUT.row_type.fields[position] for position in grouping]
    output = type_info(**{field.name: field.type for field in fields}, **{call.name: call.type for call in calls})
    return GroupAggregateSpec(
        FieldKeySelector(tuple(field.name for field in fields)),
        grouping=grouping,
        aggregates=tuple(calls),
        input_types=(_INPUT,),
        output_type=output,
        **more,
    )


@contextmanager
def _forms(is_compiled: bool, working_set: int = group_table.MAX_WORKING_SET) -> Iterator[None]:
    before = kernels.is_enabled, group_table.MAX_WORKING_SET, group_table._MIN_EVICTED
    kernels.is_enabled, group_table.MAX_WORKING_SET, group_table._MIN_EVICTED = is_compiled, working_set, 1
    try:
        yield
    finally:
        kernels.is_enabled, group_table.MAX_WORKING_SET, group_table._MIN_EVICTED = before


def _run(
    spec: GroupAggregateSpec,
    changes: list[Change],
    cuts: list[int],
    restart_at: int,
    parallelism: tuple[int, int],
    configuration: dict[str, str],
) -> list[Change]:
    with TableSubtasks(spec, parallelism[0], configuration) as subtasks:
        subtasks.process(changes[:restart_at], cuts)
        subtasks.restart(parallelism[1])
        subtasks.process(changes[restart_at:], cuts)
        return list(subtasks.finish())


def _per_key(changes: list[Change], width: int) -> dict[Any, list[Change]]:
    by_key: dict[Any, list[Change]] = {}
    for change in changes:
        by_key.setdefault(change[1 : 1 + width], []).append(change)
    return by_key


_PARALLELISM = st.tuples(st.integers(1, 2), st.integers(1, 3))


@pytest.mark.parametrize("configuration", _BACKENDS, ids=["heap", "rocksdb"])
@pytest.mark.parametrize("is_compiled", [True, False], ids=["compiled", "numpy"])
@settings(deadline=None, max_examples=6)
@given(changelogs(has_strays=True), _CUTS, st.integers(0, 30), _PARALLELISM, st.booleans())
def test_the_changelog_is_that_of_a_record_at_a_time_engine(
    is_compiled: bool,
    configuration: dict[str, str],
    changes: list[Change],
    cuts: list[int],
    restart_at: int,
    parallelism: tuple[int, int],
    generate_update_before: bool,
) -> None:
    calls = [*_ADDITIVE, *_RETRACTING]
    spec = _spec(calls, needs_retraction=True, generate_update_before=generate_update_before)
    with _forms(is_compiled, working_set=3):
        actual = _run(spec, changes, cuts, restart_at, parallelism, configuration)

    expected = grouped_changelog(changes, _KEY, calls, _TYPES, generate_update_before)
    assert _per_key(actual, 2) == _per_key(expected, 2)


@pytest.mark.parametrize("configuration", _BACKENDS, ids=["heap", "rocksdb"])
@pytest.mark.parametrize("is_compiled", [True, False], ids=["compiled", "numpy"])
@settings(deadline=None, max_examples=6)
@given(st.lists(_ROWS, max_size=30), _CUTS, st.integers(0, 30), _PARALLELISM)
def test_the_changelog_of_inserts_is_that_of_a_record_at_a_time_engine(
    is_compiled: bool,
    configuration: dict[str, str],
    rows: list[Any],
    cuts: list[int],
    restart_at: int,
    parallelism: tuple[int, int],
) -> None:
    changes = [("+I", *row) for row in rows]
    calls = [*_APPEND_ONLY, *_ADDITIVE[3:]]
    spec = _spec(calls, needs_retraction=False, generate_update_before=True)
    with _forms(is_compiled, working_set=3):
        actual = _run(spec, changes, cuts, restart_at, parallelism, configuration)

    assert _per_key(actual, 2) == _per_key(grouped_changelog(changes, _KEY, calls, _TYPES), 2)


@pytest.mark.parametrize("configuration", _BACKENDS, ids=["heap", "rocksdb"])
@pytest.mark.parametrize("is_compiled", [True, False], ids=["compiled", "numpy"])
@settings(deadline=None, max_examples=6)
@given(changelogs(), _CUTS, st.integers(0, 30), _PARALLELISM, st.integers(1, 10))
def test_a_mini_batch_gives_the_same_table(
    is_compiled: bool,
    configuration: dict[str, str],
    changes: list[Change],
    cuts: list[int],
    restart_at: int,
    parallelism: tuple[int, int],
    size: int,
) -> None:
    spec = _spec(
        _ADDITIVE, needs_retraction=True, generate_update_before=True, mini_batch=MiniBatch(size, latency_ms=100)
    )
    with _forms(is_compiled, working_set=3):
        actual = _run(spec, changes, cuts, restart_at, parallelism, configuration)

    expected = grouped_changelog(changes, _KEY, _ADDITIVE, _TYPES)
    assert materialized(actual) == materialized(expected)
    assert len(actual) <= len(expected)


@pytest.mark.parametrize("configuration", _BACKENDS, ids=["heap", "rocksdb"])
@settings(deadline=None, max_examples=8)
@given(changelogs(), _CUTS, st.integers(1, 10), st.integers(1, 2), st.integers(1, 3), st.booleans())
def test_two_phases_give_the_same_table(
    configuration: dict[str, str],
    changes: list[Change],
    cuts: list[int],
    size: int,
    num_locals: int,
    parallelism: int,
    is_insert_only: bool,
) -> None:
    if is_insert_only:
        changes = [("+I", *change[1:]) for change in changes if change[0] in ("+I", "+U")]
    calls = [*_ADDITIVE, *(_APPEND_ONLY[:10] if is_insert_only else _RETRACTING)]
    mini_batch = MiniBatch(size, latency_ms=100)
    needs_retraction = not is_insert_only
    single = _spec(calls, needs_retraction=needs_retraction, generate_update_before=True)
    local = LocalGroupAggregateSpec(
        input_types=(_INPUT,),
        grouping=_KEY,
        aggregates=tuple(calls),
        needs_retraction=needs_retraction,
        mini_batch=mini_batch,
    )
    locals_ = [OperatorHarness(local) for _ in range(num_locals)]
    half = len(changes) // 2
    outputs: list[Any] = []
    for position, change in enumerate(changes):
        # Rows that belong together take the same way. They meet again in the second phase.
        harness = locals_[zlib.crc32(repr(change[1:3]).encode()) % num_locals]
        harness.operator.process_batch(to_batch([change], _INPUT))
        if position in cuts:
            harness.operator.prepare_snapshot_pre_barrier(1)
        if position == half:
            for each in locals_:
                each.operator.finish()
            outputs.append([item for each in locals_ for item in each.output.items])
            for each in locals_:
                each.output.items.clear()
    for each in locals_:
        each.operator.finish()
    outputs.append([item for each in locals_ for item in each.output.items])
    batches = [batch for part in outputs for batch in part]
    if not batches:
        return
    final = GlobalGroupAggregateSpec(
        single.key_selector,
        input_types=(InternalTypeInfo(row_type_of(batches[0].values.schema)),),
        output_type=single.output_type,
        grouping=_KEY,
        aggregates=tuple(calls),
        local_input_type=_INPUT,
        needs_retraction=needs_retraction,
        generate_update_before=True,
        mini_batch=mini_batch,
    )
    with TableSubtasks(final, parallelism, configuration) as subtasks:
        for number, part in enumerate(outputs):
            for batch in part:
                subtasks.process_batch(batch)
            if number == 0:
                subtasks.restart(parallelism % 2 + 1)
        actual = subtasks.finish()

    assert materialized(actual) == materialized(grouped_changelog(changes, _KEY, calls, _TYPES))


@settings(deadline=None, max_examples=6)
@given(changelogs(), _CUTS, st.integers(0, 30))
def test_rows_without_grouping_are_one_group(changes: list[Change], cuts: list[int], restart_at: int) -> None:
    spec = _spec(_ADDITIVE, grouping=(), needs_retraction=True, generate_update_before=True)

    actual = _run(spec, changes, cuts, restart_at, (1, 1), {})

    assert actual == grouped_changelog(changes, (), _ADDITIVE, _TYPES)


_NESTED = type_info(items=lt.ArrayType(lt.BigIntType()), counts=lt.MapType(lt.VarCharType(), lt.BigIntType()), n=_LONG)
_ITEMS = st.none() | st.lists(st.none() | st.integers(0, 1), max_size=2)
_COUNTS = st.none() | st.permutations([("x", 1), ("y", 2)]).map(dict) | st.just({"x": 1})


@pytest.mark.parametrize("configuration", _BACKENDS, ids=["heap", "rocksdb"])
@settings(deadline=None, max_examples=5)
@given(st.lists(st.tuples(_ITEMS, _COUNTS, st.integers(0, 3)), max_size=20), _CUTS, st.integers(0, 20), _PARALLELISM)
def test_groups_of_nested_values_are_those_of_equal_values(
    configuration: dict[str, str], rows: list[Any], cuts: list[int], restart_at: int, parallelism: tuple[int, int]
) -> None:
    calls = [_call("COUNT"), AggregateCall("COUNT", (1,), _LONG, "maps", is_distinct=True)]
    output = type_info(items=_NESTED.row_type.fields[0].type, **{call.name: call.type for call in calls})
    spec = GroupAggregateSpec(
        FieldKeySelector(("items",)),
        grouping=(0,),
        aggregates=tuple(calls),
        input_types=(_NESTED,),
        output_type=output,
        needs_retraction=False,
        generate_update_before=True,
    )
    with _forms(False, working_set=3):
        actual = _run(spec, [("+I", *row) for row in rows], cuts, restart_at, parallelism, configuration)

    expected: dict[Any, list[Any]] = {}
    for items, counts, _ in rows:
        expected.setdefault(repr(items), []).append(None if counts is None else frozenset(counts.items()))
    final = {repr(change[1]): change[2:] for change in actual}
    assert final == {key: (len(maps), len({*maps} - {None})) for key, maps in expected.items()}
