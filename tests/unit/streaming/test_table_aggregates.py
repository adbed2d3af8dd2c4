"""Aggregate functions of SQL: null rules, result types, retraction of ordered values, user functions, time-to-live."""

from __future__ import annotations

import math
import pickle
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest
from changelogs import TableSubtasks, type_info
from streaming_fakes import OperatorHarness

from flinkpy.common.errors import FunctionError, TableRuntimeError, TypeMismatchError, UnsupportedOperationError
from flinkpy.common.types import Row
from flinkpy.graph.operator_specs import FieldKeySelector
from flinkpy.graph.table_specs import GroupAggregateSpec, MiniBatch
from flinkpy.records.roaring_bitmap import bitmap_bytes, bitmap_text
from flinkpy.sql.functions.user_aggregates import UserAggregateFunction
from flinkpy.sql.rex import AggregateCall
from flinkpy.sql.types import logical_types as lt
from flinkpy.state.collected_functions import ApproxCountDistinct, JsonArrayAgg, JsonObjectAgg, Percentile
from flinkpy.state.object_accumulators import Collect
from flinkpy.table.data_view import ListView, MapView
from flinkpy.table.udf import AggregateFunction, udaf


def spec(kind: lt.LogicalType, *calls: AggregateCall, **more: Any) -> GroupAggregateSpec:
    more = {"needs_retraction": True, "generate_update_before": True, **more}
    return GroupAggregateSpec(
        FieldKeySelector(("key",)),
        input_types=(type_info(key=lt.VarCharType(), value=kind, separator=lt.VarCharType()),),
        output_type=type_info(key=lt.VarCharType(), **{call.name: call.type for call in calls}),
        grouping=(0,),
        aggregates=calls,
        **more,
    )


def call(function: str, kind: lt.LogicalType, **more: Any) -> AggregateCall:
    arguments = more.pop("arguments", (1,))
    return AggregateCall(function, arguments, kind, function.lower(), **more)


def last(kind: lt.LogicalType, aggregate: AggregateCall, values: list[Any], **more: Any) -> Any:
    """Returns the result for the values. A tuple ("-", value) takes a value back."""
    with TableSubtasks(spec(kind, aggregate, **more)) as subtasks:
        for value in values:
            if isinstance(value, tuple):
                subtasks.process([("-D", "a", value[1], "|")])
            else:
                subtasks.process([("+I", "a", value, "|")])
        return subtasks.output[-1][2]


_INT, _LONG, _TEXT = lt.IntType(), lt.BigIntType(), lt.VarCharType()


def test_a_sum_of_nulls_is_null_and_their_count_0() -> None:
    assert last(_INT, call("SUM", _INT), [None, None], needs_retraction=False) is None
    assert last(_INT, call("$SUM0", _INT), [None, None]) == 0
    assert last(_INT, call("COUNT", _LONG), [None, None]) == 0


def test_a_sum_is_null_again_when_its_last_value_is_taken_back() -> None:
    assert last(_INT, call("SUM", _INT), [None, 3, ("-", 3)]) is None


def test_a_sum_of_ints_is_an_int_that_wraps_around() -> None:
    assert last(_INT, call("SUM", _INT), [2**31 - 1, 1]) == -(2**31)
    assert last(lt.TinyIntType(), call("SUM", lt.TinyIntType()), [127, 1]) == -128


@pytest.mark.parametrize(("values", "expected"), [([1, 2], 1), ([-1, -2], -1), ([7, -2], 2), ([-7, 2], -2)])
def test_an_average_of_integers_is_cut_towards_zero(values: list[int], expected: int) -> None:
    assert last(_LONG, call("AVG", _LONG), values) == expected


def test_an_average_of_ints_does_not_overflow() -> None:
    assert last(_INT, call("AVG", _INT), [2**31 - 1, 2**31 - 1]) == 2**31 - 1


def test_decimals_have_the_types_of_flink() -> None:
    kind = lt.DecimalType(precision=10, scale=2)
    total, average = lt.DecimalType(precision=38, scale=2), lt.DecimalType(precision=38, scale=6)
    assert last(kind, call("SUM", total), [Decimal("99999999.99")] * 2) == Decimal("199999999.98")
    assert last(kind, call("AVG", average), [Decimal("1.00"), Decimal("1.00"), Decimal("0.00")]) == Decimal("0.666667")
    assert last(kind, call("AVG", average), [Decimal("-1.00"), Decimal("-1.00"), None, Decimal(0)]) == Decimal(
        "-0.666667"
    )


def test_a_decimal_sum_of_too_many_digits_is_null() -> None:
    kind = lt.DecimalType(precision=38, scale=0)
    assert last(kind, call("SUM", kind), [Decimal(10**38 - 1), Decimal(1)]) is None


def test_an_extreme_that_is_taken_back_gives_way_to_the_next() -> None:
    assert last(_LONG, call("MAX", _LONG), [1, 5, 3, 5, ("-", 5)]) == 5
    assert last(_LONG, call("MAX", _LONG), [1, 5, 3, ("-", 5)]) == 3
    assert last(_TEXT, call("MIN", _TEXT), ["b", "a", None, ("-", "a"), ("-", "b")]) is None


def test_the_first_and_last_values_follow_the_order_of_arrival() -> None:
    assert last(_LONG, call("FIRST_VALUE", _LONG), [None, 2, 1, ("-", 2)]) == 1
    assert last(_LONG, call("LAST_VALUE", _LONG), [2, 1, ("-", 1)]) == 2
    assert last(_LONG, call("LAST_VALUE", _LONG), [2, 1, None], needs_retraction=False) == 1


def test_lists_keep_the_order_of_arrival() -> None:
    assert last(_TEXT, call("LISTAGG", _TEXT), ["x", None, "y", "x", ("-", "x")]) == "y,x"
    assert last(_TEXT, call("LISTAGG", _TEXT, arguments=(1, 2)), ["x", "y"]) == "x|y"
    assert last(_LONG, call("ARRAY_AGG", lt.ArrayType(_LONG)), [1, None, 2, ("-", 1)]) == [None, 2]
    collected = last(_LONG, call("COLLECT", lt.MultisetType(_LONG)), [1, 2, 1, None, ("-", 2)])
    assert collected == [(1, 2)]


def test_variances_can_take_values_back() -> None:
    double = lt.DoubleType()
    values = [2.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0, 100.0, ("-", 100.0), 4.0]
    assert last(double, call("STDDEV_POP", double), values) == pytest.approx(2.0)
    assert last(double, call("VAR_SAMP", double), values) == pytest.approx(32 / 7)
    assert last(double, call("VAR_SAMP", double), [1.0]) is None


def test_a_variance_of_integers_is_an_integer() -> None:
    assert last(_LONG, call("VAR_POP", _LONG), [1, 2, 4]) == 1


def test_a_count_of_several_columns_counts_rows_without_null() -> None:
    assert last(_LONG, call("COUNT", _LONG, arguments=(1, 2)), [1, None, 3, ("-", None)]) == 2


def test_a_scalar_subquery_may_have_one_row() -> None:
    assert last(_LONG, call("SINGLE_VALUE", _LONG), [7]) == 7
    with pytest.raises(FunctionError, match="more than one row"):
        last(_LONG, call("SINGLE_VALUE", _LONG), [7, 8])


class WeightedAverage(AggregateFunction[int, list[int]]):
    def create_accumulator(self) -> list[int]:
        return [0, 0]

    def accumulate(self, accumulator: list[int], value: int, separator: str) -> None:
        accumulator[0] += value
        accumulator[1] += len(separator)

    def retract(self, accumulator: list[int], value: int, separator: str) -> None:
        accumulator[0] -= value
        accumulator[1] -= len(separator)

    def get_value(self, accumulator: list[int]) -> int:
        return accumulator[0] * 10 + accumulator[1]


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_a_users_function_keeps_its_accumulator_over_a_restart(backend: str) -> None:
    bound = UserAggregateFunction("weighted", WeightedAverage(), "general", (_LONG, lt.VarCharType()), _LONG)
    user = call("weighted", _LONG, arguments=(1, 2), user_function=bound)
    with TableSubtasks(spec(_LONG, user), configuration={"state.backend.type": backend}) as subtasks:
        subtasks.process([("+I", "a", 5, "|"), ("+I", "a", 2, "||")])
        subtasks.restart(2)
        subtasks.process([("-D", "a", 5, "|")])
        assert [change[2] for change in subtasks.output] == [51, 51, 73, 73, 22]


class Distinct(AggregateFunction[int, Any]):
    """Counts distinct values in views."""

    def create_accumulator(self) -> Any:
        return Row(MapView(), ListView())

    def accumulate(self, accumulator: Any, value: int) -> None:
        counts, order = accumulator
        if not counts.contains(value):
            order.add(value)
        counts[value] = counts[value] + 1 if value in counts else 1

    def retract(self, accumulator: Any, value: int) -> None:
        accumulator[0][value] -= 1

    def get_value(self, accumulator: Any) -> str:
        counts, order = accumulator
        return ",".join(str(value) for value in order.get() if counts[value])


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_views_are_kept_with_their_accumulator(backend: str) -> None:
    bound = UserAggregateFunction("listed", Distinct(), "general", (_LONG,), _TEXT)
    user = call("listed", _TEXT, user_function=bound)
    with TableSubtasks(spec(_LONG, user), configuration={"state.backend.type": backend}) as subtasks:
        subtasks.process([("+I", "a", 5, ""), ("+I", "a", 2, ""), ("+I", "a", 5, "")])
        subtasks.restart(2)
        subtasks.output.clear()
        subtasks.process([("-D", "a", 2, "")])
        assert subtasks.output == [("-U", "a", "5,2"), ("+U", "a", "5")]


def test_errors_of_a_users_function_name_it() -> None:
    bound = UserAggregateFunction("weighted", WeightedAverage(), "general", (_TEXT, _TEXT), _LONG)
    with pytest.raises(FunctionError, match="the function weighted raised TypeError") as failure:
        last(_TEXT, call("weighted", _LONG, arguments=(1, 2), user_function=bound), ["x"])
    assert "accumulator[0] += value" in failure.value.remote_traceback
    bound = UserAggregateFunction("listed", Distinct(), "general", (_LONG,), _LONG)
    with pytest.raises(TypeMismatchError, match="the function listed returned ''"):
        last(_LONG, call("listed", _LONG, user_function=bound), [5])


def test_vectorised_functions_get_all_rows_of_a_group() -> None:
    bound = UserAggregateFunction(
        "top", udaf(pc.max, result_type="BIGINT", func_type="arrow").function, "arrow", (_LONG,), _LONG
    )
    assert last(_LONG, call("top", _LONG, user_function=bound), [4, 9, None, ("-", 9)]) == 4
    pytest.importorskip("pandas")
    wrapper = udaf(lambda values: values.mean(), result_type="DOUBLE", func_type="pandas")
    bound = UserAggregateFunction("mean", wrapper.function, "pandas", (_LONG,), lt.DoubleType())
    assert last(_LONG, call("mean", lt.DoubleType(), user_function=bound), [1, 2, 6]) == 3.0


def test_percentiles_are_between_neighbours() -> None:
    answers = {0.0: 1.5, 0.1: 1.6, 0.5: 2.0, 1.0: 3.5}
    function = Percentile()
    accumulator = function.create()
    for value in (3.5, None, 1.5, 7.0, 2.0):
        function.accumulate(accumulator, (value, list(answers)))
    function.retract(accumulator, (7.0, list(answers)))
    assert function.value(accumulator) == list(answers.values())
    function.accumulate(accumulator, (9.0, 0.5, 4))
    assert function.value(accumulator) == 9.0


@pytest.mark.parametrize("is_restored", [False, True])
def test_all_nan_are_one_value_that_is_greater_than_numbers(is_restored: bool) -> None:
    percentile, distinct, collect = Percentile(), ApproxCountDistinct(), Collect()
    objects = [function.create() for function in (percentile, distinct, collect)]
    for value in (1.0, math.nan, 2.0, math.nan):
        percentile.accumulate(objects[0], (value, [0.0, 1 / 3, 1.0]))
        distinct.accumulate(objects[1], value)
        collect.accumulate(objects[2], value)
    if is_restored:
        objects = pickle.loads(pickle.dumps(objects))
    assert str(percentile.value(objects[0])) == "[1.0, 2.0, nan]"
    assert distinct.value(objects[1]) == 3
    assert str(collect.value(objects[2])) == "[(1.0, 1), (nan, 2), (2.0, 1)]"
    for _ in range(2):
        percentile.retract(objects[0], (float("nan"), [0.0, 1 / 3, 1.0]))
        distinct.retract(objects[1], float("nan"))
    assert percentile.value(objects[0])[2] == 2.0 and distinct.value(objects[1]) == 2


def test_json_aggregates_write_texts_and_take_them_back() -> None:
    array = JsonArrayAgg(is_absent_on_null=False)
    accumulator = array.create()
    assert array.value(accumulator) == "[]"
    for text in ("1", None, '"x"', "1"):
        array.accumulate(accumulator, text)
    array.retract(accumulator, "1")
    assert array.value(accumulator) == '[null,"x",1]'
    pairs = JsonObjectAgg(is_absent_on_null=True)
    members = pairs.create()
    pairs.accumulate(members, ("a", "1"))
    pairs.accumulate(members, ("b", None))
    assert pairs.value(members) == '{"a":1}'
    with pytest.raises(TableRuntimeError, match="Key 'a' is already present"):
        pairs.accumulate(members, ("a", "2"))


def test_bitmap_aggregates_can_take_bitmaps_back() -> None:
    one, two = (bitmap_bytes(np.array(values, dtype=np.uint32)) for values in ([1, 2], [2, 3]))
    shown = []
    for name in ("BITMAP_AND_AGG", "BITMAP_OR_AGG", "BITMAP_XOR_AGG"):
        kind = lt.BitmapType()
        shown += [
            bitmap_text(last(kind, call(name, kind), values)) for values in ([one, two, None], [one, two, ("-", two)])
        ]
    assert shown == ["{2}", "{1,2}", "{1,2,3}", "{1,2}", "{1,3}", "{1,2}"]
    assert last(_LONG, call("BITMAP_BUILD_CARDINALITY_AGG", _LONG), [7, -1, 7]) == 2
    assert last(_LONG, call("BITMAP_BUILD_AGG", lt.BitmapType()), [None]) is None


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_a_group_expires_with_its_distinct_values(backend: str) -> None:
    distinct = call("COUNT", _LONG, is_distinct=True)
    living = spec(_LONG, distinct, state_ttl_ms=1_000, needs_retraction=False)
    with TableSubtasks(living, configuration={"state.backend.type": backend}) as subtasks:
        subtasks.process([("+I", "a", 5, ""), ("+I", "b", 5, "")])
        subtasks.restart(1)
        subtasks.advance(600)
        subtasks.process([("+I", "b", 6, "")])
        subtasks.advance(600)
        subtasks.output.clear()
        subtasks.process([("+I", "a", 5, ""), ("+I", "b", 5, "")])
        # An update that changes nothing is emitted, so that the state of consumers lives as long.
        assert subtasks.output == [("+I", "a", 1), ("-U", "b", 2), ("+U", "b", 2)]


def test_a_mini_batch_ends_with_its_time() -> None:
    counted = call("COUNT", _LONG)
    folded = spec(_LONG, counted, mini_batch=MiniBatch(size=100, latency_ms=50))
    with TableSubtasks(folded) as subtasks:
        subtasks.process([("+I", "a", 5, ""), ("+I", "a", 6, "")])
        assert subtasks.output == []
        subtasks.advance(51)
        assert subtasks.output == [("+I", "a", 2)]


def test_an_unknown_function_is_refused_with_the_name_of_the_operator() -> None:
    with pytest.raises(UnsupportedOperationError, match=r"GroupAggregateSpec.*MEDIAN"):
        OperatorHarness(spec(_LONG, call("MEDIAN", _LONG)))
