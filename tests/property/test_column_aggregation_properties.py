"""Aggregates over columns in batch mode equal those of the in-memory table for any batches and any memory."""

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

_SCHEMA = pa.schema(
    [
        ("number", pa.int64()),
        ("name", pa.string()),
        ("real", pa.float64()),
        ("money", pa.decimal128(12, 2)),
        ("small", pa.int16()),
        ("unsigned", pa.uint64()),
        ("flag", pa.bool_()),
        ("day", pa.date32()),
        ("moment", pa.timestamp("us")),
        ("data", pa.binary()),
    ]
)
_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "number": st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(0, 5),
    "name": st.text(st.characters(exclude_categories=["Cs"]), max_size=4),
    # Sums of such numbers are exact in any order of addition.
    "real": st.sampled_from([0.0, -0.0, 1.5, -2.25, 1024.0, float("nan")]),
    "money": st.integers(-(10**8), 10**8).map(lambda quarters: Decimal(quarters) / 4),
    "small": st.integers(-(1 << 15), (1 << 15) - 1),
    "unsigned": st.integers(0, (1 << 64) - 1),
    "flag": st.booleans(),
    "day": st.dates(dt.date(1900, 1, 1), dt.date(2100, 1, 1)),
    "moment": st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2100, 1, 1)),
    "data": st.binary(max_size=3),
}
_ROW = st.fixed_dictionaries({name: st.none() | values for name, values in _VALUES.items()})
_NUMBERS = ("number", "real", "money", "small", "unsigned", "flag")
_AGGREGATES = [
    specs.ColumnAggregate("rows", "COUNT"),
    *(specs.ColumnAggregate(f"{f} {c}", f, c) for c in _NUMBERS for f in ("SUM", "MEAN")),
    *(specs.ColumnAggregate(f"{f} {c}", f, c) for c in _VALUES for f in ("COUNT", "MIN", "MAX")),
    *(specs.ColumnAggregate(f"{f} {c}", f, c) for c in _VALUES if c != "money" for f in ("FIRST", "LAST")),
]
_OBJECTS = [
    specs.ColumnAggregate("first", "FIRST", "money"),
    specs.ColumnAggregate("last", "LAST", "money"),
    *(specs.ColumnAggregate(f"COUNT_DISTINCT {c}", "COUNT_DISTINCT", c) for c in _VALUES),
    *(specs.ColumnAggregate(f"{f} {c}", f, c) for c in ("number", "real", "money") for f in ("VAR_POP", "STDDEV_SAMP")),
]
_BATCH = {"execution.runtime-mode": "BATCH"}


def results(
    rows: list[dict[str, Any]],
    cuts: list[int],
    keys: tuple[str, ...],
    aggregates: list[specs.ColumnAggregate],
    configuration: dict[str, str],
    spec: Any = specs.ColumnAggregateSpec,
) -> list[pa.RecordBatch]:
    emit = {"emit": "FINAL"} if spec is specs.ColumnAggregateSpec else {}
    harness = OperatorHarness(
        spec(specs.FieldKeySelector(keys), tuple(aggregates), **emit), configuration=configuration
    )
    columns = pa.RecordBatch.from_pylist(rows, _SCHEMA)
    ends = sorted({min(cut, len(rows)) for cut in cuts} | {len(rows)})
    for start, end in zip([0, *ends], ends):
        harness.operator.process_batch(Batch(columns.slice(start, end - start)))
    harness.operator.end_input(0)
    harness.operator.finish()
    harness.operator.close()
    return [item.values for item in harness.output.items if isinstance(item, Batch)]


def as_rows(batches: list[pa.RecordBatch]) -> list[str]:
    """Returns the rows in a canonical order with one NaN.

    Batch boundaries decide if 0.0 or -0.0 is the minimum of both. Keys distinguish them, results do not.
    """
    rows = [row for batch in batches for row in batch.to_pylist()]
    return sorted(
        repr([_unsigned(value) if name not in _VALUES else value for name, value in row.items()]) for row in rows
    )


def _unsigned(value: Any) -> Any:
    return 0.0 if isinstance(value, float) and value == 0 else value


_MEMORY = st.sampled_from(["1 b", "300 b", "4 kb", "1 mb"])
_KEYS = st.lists(st.sampled_from(sorted(_VALUES)), min_size=1, max_size=3, unique=True).map(tuple)


@settings(max_examples=30, deadline=None)
@given(st.lists(_ROW, max_size=60), st.lists(st.integers(0, 60), max_size=8), _KEYS, _MEMORY)
def test_aggregates_that_spill_equal_those_of_the_table(
    rows: list[dict[str, Any]], cuts: list[int], keys: tuple[str, ...], memory: str
) -> None:
    expected = results(rows, [], keys, _AGGREGATES, {})
    given_memory = {**_BATCH, "execution.batch.column-operator.memory": memory}
    actual = results(rows, cuts, keys, _AGGREGATES, given_memory)

    assert as_rows(actual) == as_rows(expected)
    assert [batch.schema for batch in actual[:1]] == [batch.schema for batch in expected[:1]]


@settings(max_examples=20, deadline=None)
@given(st.lists(_ROW, max_size=60), st.lists(st.integers(0, 60), max_size=8), _KEYS, _MEMORY)
def test_aggregates_unknown_to_arrow_can_spill_too(
    rows: list[dict[str, Any]], cuts: list[int], keys: tuple[str, ...], memory: str
) -> None:
    aggregates = [*_OBJECTS, *_AGGREGATES[:3]]
    expected = results(rows, [], keys, aggregates, {})
    given_memory = {**_BATCH, "execution.batch.column-operator.memory": memory}

    assert as_rows(results(rows, cuts, keys, aggregates, given_memory)) == as_rows(expected)


@settings(max_examples=20, deadline=None)
@given(st.lists(_ROW, max_size=60), st.lists(st.integers(0, 60), max_size=8), _KEYS, _MEMORY)
def test_pre_aggregation_does_not_change_the_results(
    rows: list[dict[str, Any]], cuts: list[int], keys: tuple[str, ...], memory: str
) -> None:
    before = [each for each in _AGGREGATES if each.function in ("COUNT", "SUM", "MIN", "MAX")]
    behind = [specs.ColumnAggregate(e.name, "SUM" if e.function == "COUNT" else e.function, e.name) for e in before]
    given_memory = {**_BATCH, "execution.batch.column-operator.memory": memory}
    batches = results(rows, cuts, keys, before, given_memory, specs.PreAggregateSpec)
    final = OperatorHarness(
        specs.ColumnAggregateSpec(specs.FieldKeySelector(keys), tuple(behind), emit="FINAL"), configuration=_BATCH
    )
    for batch in batches:
        final.operator.process_batch(Batch(batch))
    final.operator.finish()

    actual = [item.values for item in final.output.items if isinstance(item, Batch)]
    assert as_rows(actual) == as_rows(results(rows, [], keys, before, {}))
