"""Compiled functions over columns, alone and in operators. Compiling takes tenths of a second, so there are few."""

from __future__ import annotations

import builtins
import math

import cloudpickle
import pyarrow as pa
import pytest
from column_windows import END, MIN, Engine, window_spec
from streaming_fakes import OperatorHarness

from flinkpy.common.errors import FunctionError, StateMigrationError, TypeMismatchError, UnsupportedOperationError
from flinkpy.common.typeinfo import Types
from flinkpy.datastream.compiled import AddColumns, compiled, compiled_aggregate, type_with_columns
from flinkpy.graph import operator_specs as specs

ORDERS = Types.ROW_NAMED(["item", "price", "n"], [Types.STRING(), Types.DOUBLE(), Types.INT()])


def orders(**columns):
    schema = pa.schema([("item", pa.string()), ("price", pa.float64()), ("n", pa.int32())])
    return pa.RecordBatch.from_pydict(columns, schema=schema)


def worth(price, n):
    if n < 0:
        raise ValueError("nothing is sold backwards")
    return math.sqrt(price) * n


#: Computes the mean and the number of the prices. `merge` works like `add`.
MEAN = {
    "initial": (0.0, 0),
    "add": lambda acc, price: (acc[0] + price, acc[1] + 1),
    "merge": lambda one, other: (one[0] + other[0], one[1] + other[1]),
    "result": lambda acc: acc[0] / acc[1],
    "output_type": Types.DOUBLE(),
}


def test_map_columns_adds_and_replaces_columns_and_keeps_nulls_timestamps_and_the_rest():
    functions = {"worth": compiled(worth, Types.DOUBLE()), "n": compiled(lambda n: n + 1, Types.LONG())}
    spec = specs.MapBatchesSpec(AddColumns(functions), input_types=(ORDERS,))
    harness = OperatorHarness(cloudpickle.loads(cloudpickle.dumps(spec)))

    rows = harness.process(orders(item=["a", "b", "c"], price=[4.0, None, 9.0], n=[1, 2, None]), [7, 8, 9])

    assert rows == [("a", 4.0, 2, 2.0), ("b", None, 3, None), ("c", 9.0, None, None)]
    assert harness.output.timestamps == [7, 8, 9]
    assert type_with_columns(ORDERS, functions) == Types.ROW_NAMED(
        ["item", "price", "n", "worth"], [Types.STRING(), Types.DOUBLE(), Types.LONG(), Types.DOUBLE()]
    )
    with pytest.raises(FunctionError, match=r"compiled function worth raised ValueError: nothing is sold backwards"):
        harness.process(orders(item=["a"], price=[4.0], n=[-1]))


def test_a_compiled_function_can_be_a_filter():
    spec = specs.FilterBatchesSpec(compiled(lambda price: price > 5, Types.BOOLEAN()), input_types=(ORDERS,))
    harness = OperatorHarness(spec)

    assert harness.process(orders(item=["a", "b", "c"], price=[4.0, None, 9.0], n=[1, 2, 3])) == [("c", 9.0, 3)]


def test_a_function_that_numba_cannot_compile_is_named():
    def shouting(price):
        return open(price).read().upper()

    harness = OperatorHarness(specs.MapBatchesSpec(AddColumns({"x": compiled(shouting, Types.DOUBLE())})))
    with pytest.raises(TypeMismatchError, match=r"the function .*shouting cannot be compiled for columns of float64"):
        harness.process(orders(item=["a"], price=[1.0], n=[1]))


def test_a_function_of_other_types_than_numbers_is_refused():
    with pytest.raises(TypeError, match="output_type must be the type of a number or BOOLEAN"):
        compiled(worth, Types.STRING())
    with pytest.raises(TypeError, match="takes a function of numbers, not 7"):
        compiled(7, Types.LONG())
    with pytest.raises(TypeError, match="arguments without a position"):
        compiled(lambda *numbers: 1, Types.LONG())
    with pytest.raises(TypeError, match="x is a function of 'size'"):
        type_with_columns(ORDERS, {"x": compiled(lambda size: size, Types.LONG())})
    with pytest.raises(TypeError, match="declared TUPLE or ROW"):
        type_with_columns(None, {"x": compiled(lambda size: size, Types.LONG())})
    with pytest.raises(TypeMismatchError, match="takes numbers, but column 'item' is string"):
        compiled(lambda item: item, Types.LONG())(orders(item=["a"], price=[1.0], n=[1]))
    with pytest.raises(ValueError, match="needs a `result`"):
        compiled_aggregate("price", **{**MEAN, "result": None})
    with pytest.raises(TypeError, match="initial must be a number"):
        compiled_aggregate("price", **{**MEAN, "initial": "0"})


def test_a_missing_numba_error_names_the_extra_to_install(monkeypatch):
    real = builtins.__import__

    def without_numba(name, *rest):
        if name == "numba":
            raise ImportError("No module named 'numba'")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without_numba)
    with pytest.raises(UnsupportedOperationError, match=r"pip install 'flinkpy\[numba\]'"):
        compiled(lambda n: n, Types.DOUBLE())(orders(item=["a"], price=[1.0], n=[1]))


def keyed(*aggregates):
    selector = specs.FieldKeySelector(("item",))
    return specs.ColumnAggregateSpec(selector, aggregates, "FINAL", input_types=(ORDERS,))


def test_a_compiled_aggregate_adds_in_order_and_ignores_nulls():
    # Computes the last rise of the price in the order of the records, and the largest quantity.
    rise = compiled_aggregate(
        "price",
        initial=(0.0, 0.0),
        add=lambda acc, price: (price, price - acc[0]),
        result=lambda acc: acc[1],
        output_type=Types.DOUBLE(),
        name="rise",
    )
    most = compiled_aggregate(
        ["n", "price"], initial=0, add=lambda acc, n, price: max(acc, n), output_type=Types.LONG(), name="most"
    )
    harness = OperatorHarness(keyed(rise, most, specs.ColumnAggregate("rows", "COUNT")))
    harness.process(orders(item=["a", "b", "a"], price=[1.0, None, 4.0], n=[5, 9, 2]))
    harness.process(orders(item=["a", "a"], price=[None, 6.0], n=[90, 4]))
    harness.operator.finish()

    assert harness.output.rows == [("a", 2.0, 5, 4), ("b", None, None, 1)]


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("options", [{"size_ms": 10}, {"size_ms": 10, "slide_ms": 5}, {"gap_ms": 5}])
def test_compiled_aggregates_of_windows_survive_a_restore(backend, options):
    mean = compiled_aggregate("v", **MEAN, name="mean")
    engine = Engine(window_spec(**options, aggregates=(mean,)), backend=backend)
    engine.add([("a", 1, 1), ("a", None, 2), ("b", None, 3), ("a", 4, 4)])
    engine = engine.restart(parallelism=2)
    engine.add([("a", 10, 4)])
    engine.watermark(END)

    assert {row[3] for row in engine.take() if row[0] == "a"} == {5.0}
    engine = engine.restart()
    engine.add([("b", None, 3)])
    engine.watermark(END)
    assert {row[3] for row in engine.take()} == {None}


def test_sliding_windows_refuse_a_compiled_aggregate_without_merge():
    mean = compiled_aggregate("v", **{**MEAN, "merge": None}, name="mean")
    engine = Engine(window_spec(size_ms=10, slide_ms=5, aggregates=(mean,)))
    engine.add([("a", 1, 1)])
    with pytest.raises(UnsupportedOperationError, match="'mean' has no `merge`"):
        engine.watermark(END)


def test_accumulators_of_other_types_cannot_be_restored():
    engine = Engine(window_spec(size_ms=10, aggregates=(compiled_aggregate("v", **MEAN, name="mean"),)))
    engine.add([("a", 1, 1)])
    engine.watermark(MIN)
    other = compiled_aggregate("v", **{**MEAN, "initial": (0.0, 0.0)}, name="mean")
    engine.spec = window_spec(size_ms=10, aggregates=(other,))
    with pytest.raises(StateMigrationError, match=r"\(double, int64\).* is .*\(double, double\)"):
        engine.restart()


def test_flat_map_batches_emits_any_number_of_batches():
    def halves(batch):
        yield batch.slice(0, batch.num_rows // 2)
        yield pa.Table.from_batches([batch.slice(batch.num_rows // 2)])

    harness = OperatorHarness(specs.FlatMapBatchesSpec(halves))
    assert harness.process(pa.RecordBatch.from_pydict({"x": [1, 2, 3]}), [1, 2, 3]) == [1, 2, 3]
    assert [item.num_rows for item in harness.output.items] == [1, 2]
    assert harness.output.timestamps == [None] * 3
    nothing = OperatorHarness(specs.FlatMapBatchesSpec(lambda batch: None))
    assert nothing.process(pa.RecordBatch.from_pydict({"x": [1]})) == []
    with pytest.raises(TypeMismatchError, match=r"must return pyarrow\.RecordBatches, not int"):
        OperatorHarness(specs.FlatMapBatchesSpec(lambda batch: [1])).process(pa.RecordBatch.from_pydict({"x": [1]}))
    with pytest.raises(FunctionError, match="FlatMapBatchesSpec: ZeroDivisionError"):
        broken = specs.FlatMapBatchesSpec(lambda batch: (1 // 0 for _ in "x"))
        OperatorHarness(broken).process(pa.RecordBatch.from_pydict({"x": [1]}))
