from __future__ import annotations

import datetime as dt
import decimal
import random

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from streaming_fakes import OperatorHarness

from flinkpy.common.errors import FunctionError, TypeMismatchError, UnsupportedOperationError
from flinkpy.common.typeinfo import Types
from flinkpy.common.types import Row
from flinkpy.datastream.functions import FilterFunctionWrapper
from flinkpy.graph import operator_specs as specs
from flinkpy.records.batch import Batch
from flinkpy.streaming.operators.fused_code import RowStep
from flinkpy.streaming.operators.fused_row_operator import FusedRowOperator, FusedStep

A = specs.ColumnAggregate


def columns(**values) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(values)


def test_map_batches_keeps_timestamps_if_the_length_stays():
    harness = OperatorHarness(specs.MapBatchesSpec(lambda b: columns(x=pc.add(b.column(0), 1))))

    assert harness.process(columns(x=[1, 2]), [10, 20]) == [2, 3]
    assert harness.output.timestamps == [10, 20]


def test_map_batches_may_change_the_length_or_return_nothing():
    harness = OperatorHarness(specs.MapBatchesSpec(lambda b: b.slice(0, b.num_rows - 2)))

    assert harness.process(columns(x=[1, 2, 3])) == [1]
    assert harness.process(columns(x=[1, 2])) == [1]


def test_map_batches_refuses_other_results_and_names_the_operator():
    with pytest.raises(TypeMismatchError, match=r"operator MapBatchesSpec: .* not list"):
        OperatorHarness(specs.MapBatchesSpec(lambda b: [1])).process(columns(x=[1]))
    with pytest.raises(FunctionError, match="operator MapBatchesSpec: KeyError"):
        OperatorHarness(specs.MapBatchesSpec(lambda b: b.column("no"))).process(columns(x=[1]))


@pytest.mark.parametrize(
    "function",
    [
        lambda b: pc.greater(b.column(0), 1),
        lambda b: b.column(0).to_numpy(zero_copy_only=False) > 1,
        lambda b: [False, True, None],
        lambda b: pc.field("x") == 2,
    ],
)
@pytest.mark.parametrize("timestamps", [None, [10, 20, 30]])
def test_filter_batches_accepts_any_kind_of_mask_and_null_drops_the_record(function, timestamps):
    harness = OperatorHarness(specs.FilterBatchesSpec(function))

    assert harness.process(columns(x=[1, 2, None]), timestamps) == [2]
    assert harness.output.timestamps == ([None] if timestamps is None else [20])


def test_filter_batches_refuses_a_mask_of_another_length():
    with pytest.raises(TypeMismatchError, match=r"must return bool\[2\], not bool\[1\]"):
        OperatorHarness(specs.FilterBatchesSpec(lambda b: [True])).process(columns(x=[1, 2]))


def test_projection_works_in_both_lanes():
    spec = specs.ProjectSpec((2, 0))

    assert OperatorHarness(spec).process([(1, 2, 3)]) == [(3, 1)]
    assert OperatorHarness(spec).process([Row(a=1, b=2, c=3)]) == [Row(c=3, a=1)]
    harness = OperatorHarness(spec)
    assert harness.process(columns(f0=[1], f1=[2], f2=[3])) == [(3, 1)]
    assert harness.output.items[0].values.schema.names == ["f0", "f1"]
    with pytest.raises(TypeMismatchError, match="fields"):
        OperatorHarness(spec).process([(1,)])


def aggregate(keys=("k",), emit="UPDATES", *aggregates) -> OperatorHarness:
    aggregates = aggregates or (A("n", "COUNT"), A("total", "SUM", "v"), A("low", "MIN", "v"), A("avg", "MEAN", "v"))
    return OperatorHarness(specs.ColumnAggregateSpec(specs.FieldKeySelector(tuple(keys)), aggregates, emit))


def test_updates_emits_the_new_row_of_every_changed_key():
    harness = aggregate()

    harness.process(columns(k=[1, 2, 1], v=[10, 5, 20]), [1, 2, 3])
    rows = harness.process(columns(k=[2], v=[7]), [4])

    assert rows == [(2, 1, 5, 5, 5.0), (1, 2, 30, 10, 15.0), (2, 2, 12, 5, 6.0)]
    assert harness.output.timestamps == [2, 3, 4]
    assert harness.output.items[0].values.schema.names == ["k", "n", "total", "low", "avg"]


def test_final_emits_each_key_once_at_the_end():
    harness = aggregate(emit="FINAL")
    harness.process(columns(k=["b", "a", "b"], v=[1, 2, 3]))
    harness.process(columns(k=["c"], v=[4]))
    assert harness.output.items == []

    harness.operator.finish()

    assert harness.output.rows == [("b", 2, 4, 1, 2.0), ("a", 1, 2, 2, 2.0), ("c", 1, 4, 4, 4.0)]


def test_null_values_are_ignored_and_null_is_a_key():
    harness = aggregate(
        ("k",), "FINAL", A("n", "COUNT"), A("nv", "COUNT", "v"), A("s", "SUM", "v"), A("m", "MEAN", "v")
    )
    harness.process(columns(k=[1, None, 1, None, 2], v=[1, None, None, None, 5]))
    harness.process(columns(k=[None, 3], v=[7, None]))

    harness.operator.finish()

    assert sorted(harness.output.rows, key=str) == sorted(
        [(1, 2, 1, 1, 1.0), (2, 1, 1, 5, 5.0), (3, 1, 0, None, None), (None, 3, 1, 7, 7.0)], key=str
    )


def test_minimum_and_maximum_keep_the_type_of_their_column():
    day = dt.date(2024, 1, 1)
    aggregates = tuple(A(f"{f}_{c}", f, c) for c in ("d", "s", "f", "b", "i") for f in ("MIN", "MAX"))
    harness = aggregate(("k",), "FINAL", *aggregates)
    harness.process(
        columns(
            k=[0, 0, 0],
            d=pa.array([day, day + dt.timedelta(1), None]),
            s=["x", None, "a"],
            f=[float("nan"), 2.5, -1.0],
            b=[True, False, None],
            i=pa.array([3, 1, 2], pa.int16()),
        )
    )

    harness.operator.finish()

    assert harness.output.rows == [(0, day, day + dt.timedelta(1), "a", "x", -1.0, 2.5, False, True, 1, 3)]
    assert harness.output.items[0].values.schema.field("MIN_i").type == pa.int16()


def test_rows_of_a_declared_type_become_columns():
    types = Types.ROW_NAMED(["k", "v"], [Types.STRING(), Types.INT()])
    spec = specs.ColumnAggregateSpec(specs.FieldKeySelector(("k",)), (A("s", "SUM", "v"),), input_types=(types,))

    assert OperatorHarness(spec).process([Row("a", 1), Row("a", 2)]) == [("a", 3)]


def test_unsupported_column_aggregation_is_refused_clearly():
    with pytest.raises(UnsupportedOperationError, match="aggregate function 'MEDIAN'"):
        aggregate(("k",), "FINAL", A("x", "MEDIAN", "v")).process(columns(k=[1], v=[1]))
    with pytest.raises(UnsupportedOperationError, match="numeric column, not string"):
        aggregate(("k",), "FINAL", A("x", "SUM", "v")).process(columns(k=[1], v=["a"]))
    with pytest.raises(TypeMismatchError, match="no column 'w'"):
        aggregate(("k",), "FINAL", A("x", "SUM", "w")).process(columns(k=[1], v=[1]))
    with pytest.raises(UnsupportedOperationError, match="only inserts"):
        aggregate().operator.process_batch(Batch(columns(k=[1], v=[1]), None, np.array([1], dtype=np.int8)))


@pytest.mark.parametrize("seed", range(6))
def test_aggregation_by_any_key_matches_a_plain_loop(seed):
    rng = random.Random(seed)
    draw_int = [lambda: rng.randrange(5), lambda: rng.randrange(1 << 40), lambda: rng.randrange(-(1 << 63), 1 << 63)][
        seed % 3
    ]
    draw_text = lambda: rng.choice(["", "a", "bb", None])  # noqa: E731
    harness = aggregate(("k", "t"), "FINAL", A("n", "COUNT"), A("s", "SUM", "v"), A("hi", "MAX", "v"))
    expected: dict = {}
    pool = [draw_int() for _ in range(40)]
    for _ in range(8):
        size = rng.randrange(1, 200)
        k = [rng.choice(pool) if rng.random() < 0.9 else None for _ in range(size)]
        t = [draw_text() for _ in range(size)]
        v = [rng.randrange(-100, 100) for _ in range(size)]
        harness.process(
            pa.RecordBatch.from_arrays([pa.array(k, pa.int64()), pa.array(t), pa.array(v)], ["k", "t", "v"])
        )
        for key, value in zip(zip(k, t), v):
            n, s, hi = expected.get(key, (0, 0, -1000))
            expected[key] = (n + 1, s + value, max(hi, value))

    harness.operator.finish()

    assert {(k, t): rest for k, t, *rest in map(tuple, harness.output.rows)} == {
        k: list(v) for k, v in expected.items()
    }


def test_decimals_are_summed_exactly():
    price = [decimal.Decimal("0.10"), decimal.Decimal("0.20"), None]
    harness = aggregate(("k",), "UPDATES", A("s", "SUM", "v"), A("m", "MEAN", "v"))

    harness.process(columns(k=[1, 1, 2], v=price))
    rows = harness.process(columns(k=[1], v=[decimal.Decimal("0.05")]))

    assert rows[0][:2] == (1, decimal.Decimal("0.30"))
    assert rows[1] == (2, None, None)
    assert rows[2][:2] == (1, decimal.Decimal("0.35"))


def test_a_row_filter_keeps_columnar_batches_columnar():
    spec = specs.FilterSpec(FilterFunctionWrapper(lambda v: v > 1), input_types=(Types.LONG(),))
    harness = OperatorHarness(specs.ProjectSpec((0,)))
    step = FusedStep(RowStep.FILTER, spec.function, harness.context)
    operator = FusedRowOperator([step], Types.LONG(), harness.output, {})

    operator.process_batch(Batch(columns(f0=[1, 2, 3]), np.array([10, 20, 30])))

    (batch,) = harness.output.items
    assert batch.is_columnar
    assert harness.output.rows == [2, 3]
    assert harness.output.timestamps == [20, 30]
