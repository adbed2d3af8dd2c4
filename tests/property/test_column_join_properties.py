"""Joins of columns give the results of comparing all pairs of rows, for any batches, order of arrival and memory."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from streaming_fakes import OperatorHarness

from flinkpy.graph import operator_specs as specs
from flinkpy.records.batch import Batch

#: By kind of key: the type on each side, and values of which some are equal.
_KEYS: dict[str, tuple[pa.DataType, pa.DataType, st.SearchStrategy[Any]]] = {
    "number": (pa.int64(), pa.int32(), st.integers(-2, 3)),
    "text": (pa.string(), pa.large_string(), st.sampled_from(["", "a", "b", "abcdefgh", "abcdefghi"])),
    "money": (
        pa.decimal128(10, 2),
        pa.decimal128(12, 3),
        st.sampled_from([Decimal("1.50"), Decimal("-2"), Decimal(0)]),
    ),
    "flag": (pa.bool_(), pa.bool_(), st.booleans()),
    "day": (pa.date32(), pa.date32(), st.sampled_from([dt.date(2024, 1, 1), dt.date(1969, 1, 1)])),
    "real": (pa.float64(), pa.float32(), st.sampled_from([0.0, -0.0, 1.5])),
    "moment": (
        pa.timestamp("ms"),
        pa.timestamp("us"),
        st.sampled_from([dt.datetime(2024, 1, 1, 1), dt.datetime(1960, 1, 1)]),
    ),
    "data": (pa.binary(), pa.binary(), st.sampled_from([b"", b"\0", b"xyz"])),
}


@st.composite
def joins(draw: st.DrawFn) -> tuple[list[str], list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    names = draw(st.lists(st.sampled_from(sorted(_KEYS)), min_size=1, max_size=3, unique=True))
    key = st.tuples(*(st.none() | _KEYS[name][2] for name in names))
    sides = [draw(st.lists(key, max_size=25)) for _ in range(2)]
    return names, *sides


def run(
    names: list[str],
    left: list[tuple[Any, ...]],
    right: list[tuple[Any, ...]],
    how: str,
    arrivals: list[tuple[int, int]],
    memory: str,
) -> list[tuple[Any, ...]]:
    """Joins rows that arrive in the order of `arrivals`: (input, number of rows). The remaining rows follow, the build
    side first.
    """
    tables = []
    for index, rows in enumerate((left, right)):
        columns = [pa.array([row[i] for row in rows], _KEYS[name][index]) for i, name in enumerate(names)]
        numbers = pa.array(range(len(rows)), pa.int64())
        tables.append(pa.RecordBatch.from_arrays([*columns, numbers], names=[*names, "lr"[index]]))
    selector = specs.FieldKeySelector(tuple(names))
    spec = specs.ColumnJoinSpec((selector, selector), how=how)
    harness = OperatorHarness(spec, configuration={"execution.batch.column-operator.memory": memory})
    done = [0, 0]
    for index, count in [*arrivals, (1, 100)]:
        part = tables[index].slice(done[index], count)
        done[index] += part.num_rows
        harness.operator.process_batch(Batch(part), index)
    harness.operator.end_input(1)
    harness.operator.process_batch(Batch(tables[0].slice(done[0])), 0)
    harness.operator.end_input(0)
    harness.operator.finish()
    harness.operator.close()
    batches = [item.values for item in harness.output.items if isinstance(item, Batch)]
    wanted = ["l", "r"] if how in ("inner", "left") else ["l"]
    return sorted((tuple(row[name] for name in wanted) for b in batches for row in b.to_pylist()), key=repr)


def reference(left: list[tuple[Any, ...]], right: list[tuple[Any, ...]], how: str) -> list[tuple[Any, ...]]:
    results: list[tuple[Any, ...]] = []
    for number, key in enumerate(left):
        # Not compared with ==, because 0.0 and -0.0 are two keys.
        partners = [] if None in key else [other for other, one in enumerate(right) if repr(one) == repr(key)]
        if how == "inner":
            results += [(number, other) for other in partners]
        elif how == "left":
            results += [(number, other) for other in partners or [None]]
        elif bool(partners) == (how == "semi"):
            results.append((number,))
    return sorted(results, key=repr)


@settings(max_examples=100, deadline=None)
@given(
    joins(),
    st.sampled_from(["inner", "left", "semi", "anti"]),
    st.lists(st.tuples(st.integers(0, 1), st.integers(1, 10)), max_size=5),
    st.sampled_from(["1 b", "500 b", "3 kb", "1 mb"]),
)
def test_joins_give_the_results_of_comparing_all_rows(
    sides: tuple[list[str], list[tuple[Any, ...]], list[tuple[Any, ...]]],
    how: str,
    arrivals: list[tuple[int, int]],
    memory: str,
) -> None:
    names, left, right = sides

    assert run(names, left, right, how, arrivals, memory) == reference(left, right, how)
