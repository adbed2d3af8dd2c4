from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from streaming_fakes import CollectingOutput, OperatorHarness

from flinkpy.common.errors import FunctionError, TypeMismatchError, UnsupportedOperationError
from flinkpy.common.typeinfo import Types
from flinkpy.common.types import Row
from flinkpy.datastream.functions import (
    AggregateFunction,
    KeyedProcessFunction,
    KeySelectorFunctionWrapper,
    MapFunction,
    ProcessFunction,
    ReduceFunctionWrapper,
)
from flinkpy.datastream.output_tag import OutputTag
from flinkpy.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from flinkpy.datastream.time_domain import TimeDomain
from flinkpy.graph import operator_specs as specs
from flinkpy.records.batch import Batch
from flinkpy.records.elements import MAX_WATERMARK, Watermark
from flinkpy.streaming.operators.fused_code import RowStep, Step, compile_steps
from flinkpy.streaming.operators.row_emitter import RowEmitter

FIRST = specs.FieldKeySelector((0,))
ODD = OutputTag("odd", Types.INT())
UNREAD = OutputTag("unread", Types.INT())


def keyed(function, selector=FIRST, **kwargs) -> OperatorHarness:
    return OperatorHarness(specs.KeyedProcessSpec(selector, function), **kwargs)


class Count(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield ctx.get_current_key(), count


def test_state_belongs_to_the_key():
    harness = keyed(Count())

    harness.process([("a", 1), ("b", 1), ("a", 1)])
    rows = harness.process([("b", 1), ("a", 1)])

    assert rows == [("a", 1), ("b", 1), ("a", 2), ("b", 2), ("a", 3)]


def test_results_carry_the_timestamp_of_their_record():
    class Twice(KeyedProcessFunction):
        def process_element(self, value, ctx):
            if value[1] == "drop":
                return None
            return [(ctx.timestamp(), i) for i in range(2)]

    harness = keyed(Twice())
    rows = harness.process([(1, "x"), (2, "drop"), (3, "x")], [10, 20, 30])

    assert rows == [(10, 0), (10, 1), (30, 0), (30, 1)]
    assert harness.output.timestamps == [10, 10, 30, 30]


def test_side_outputs_get_the_tagged_records_and_unread_tags_are_dropped():
    class Split(KeyedProcessFunction):
        def process_element(self, value, ctx):
            if value[0] % 2:
                yield ODD, value[0]
            elif value[0] == 4:
                yield UNREAD, value[0]
            else:
                yield value

    harness = keyed(Split(), side_tags=("odd",))
    rows = harness.process([(n,) for n in range(6)], [n * 10 for n in range(6)])

    assert rows == [(0,), (2,)]
    assert harness.output.timestamps == [0, 20]
    assert harness.side["odd"].rows == [1, 3, 5]
    assert harness.side["odd"].timestamps == [10, 30, 50]


@pytest.mark.parametrize("rows", [[()], [(), (ODD, 1)], [1, (ODD, 1), "x"], [(ODD, 1)], [(ODD, 1, 2)], [("a",)]])
def test_only_pairs_that_begin_with_a_tag_go_to_a_side_output(rows):
    main, side = CollectingOutput(), CollectingOutput()

    RowEmitter(main, {"odd": side}).emit(rows, None)

    assert main.rows == [row for row in rows if row != (ODD, 1)]
    assert side.rows == [1] * rows.count((ODD, 1))


class Timers(KeyedProcessFunction):
    def process_element(self, value, ctx):
        _, when = value
        ctx.timer_service().register_event_time_timer(when)
        ctx.timer_service().register_event_time_timer(when)

    def on_timer(self, timestamp, ctx):
        assert ctx.time_domain() is TimeDomain.EVENT_TIME
        yield ctx.get_current_key(), timestamp, ctx.timestamp(), ctx.timer_service().current_watermark()
        if timestamp == 5:
            ctx.timer_service().register_event_time_timer(7)
            ctx.timer_service().delete_event_time_timer(8)


def test_event_time_timers_fire_once_and_in_order_before_the_watermark_is_emitted():
    harness = keyed(Timers())
    harness.process([("a", 8), ("b", 5), ("b", 8), ("c", 20)])
    assert harness.output.items == []

    harness.watermark(10)

    assert harness.output.rows == [("b", 5, 5, 10), ("b", 7, 7, 10), ("a", 8, 8, 10)]
    assert harness.output.timestamps == [5, 7, 8]
    assert harness.output.items[-1] == Watermark(10)
    harness.watermark(MAX_WATERMARK)
    assert harness.output.rows[-1][:2] == ("c", 20)


class ProcessingTimers(KeyedProcessFunction):
    def process_element(self, value, ctx):
        service = ctx.timer_service()
        service.register_processing_time_timer(service.current_processing_time() + value[1])
        if value[0] == "gone":
            service.delete_processing_time_timer(service.current_processing_time() + value[1])

    def on_timer(self, timestamp, ctx):
        assert ctx.time_domain() is TimeDomain.PROCESSING_TIME
        yield ctx.get_current_key(), timestamp


def test_processing_time_timers_fire_when_the_clock_has_passed_them():
    harness = keyed(ProcessingTimers())
    harness.process([("late", 50), ("early", 10), ("gone", 10)])

    harness.advance(9)
    assert harness.output.rows == []
    harness.advance(2)
    assert harness.output.rows == [("early", 1_010)]
    harness.advance(100)
    assert harness.output.rows == [("early", 1_010), ("late", 1_050)]
    assert harness.output.timestamps == [None, None]


class AllStates(KeyedProcessFunction):
    def open(self, runtime_context):
        self.list = runtime_context.get_list_state(ListStateDescriptor("list", Types.INT()))
        self.map = runtime_context.get_map_state(MapStateDescriptor("map", Types.INT(), Types.INT()))
        self.sum = runtime_context.get_reducing_state(ReducingStateDescriptor("sum", lambda a, b: a + b, Types.INT()))
        self.mean = runtime_context.get_aggregating_state(AggregatingStateDescriptor("mean", Mean(), Types.INT()))

    def process_element(self, value, ctx):
        _, number = value
        self.list.add(number)
        self.map.put(number, number * number)
        self.sum.add(number)
        self.mean.add(number)
        yield list(self.list.get()), dict(self.map.items()), self.sum.get(), self.mean.get()


class Mean(AggregateFunction):
    def create_accumulator(self):
        return (0, 0)

    def add(self, value, accumulator):
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a, acc_b):
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


def test_functions_can_use_every_kind_of_state():
    rows = keyed(AllStates()).process([("a", 1), ("b", 5), ("a", 3)])

    assert rows == [([1], {1: 1}, 1, 1.0), ([5], {5: 25}, 5, 5.0), ([1, 3], {1: 1, 3: 9}, 4, 2.0)]


def test_state_without_a_key_is_refused():
    class WantsState(MapFunction):
        def open(self, runtime_context):
            runtime_context.get_state(ValueStateDescriptor("s", Types.INT()))

        def map(self, value):
            return value

    from flinkpy.streaming.operators.runtime_context import StreamingRuntimeContext

    harness = OperatorHarness(specs.ProjectSpec((0,)))
    with pytest.raises(UnsupportedOperationError, match="state 's' needs a keyed stream"):
        WantsState().open(StreamingRuntimeContext(harness.context))


def test_a_failing_timer_names_the_operator():
    class Fails(Timers):
        def on_timer(self, timestamp, ctx):
            raise ValueError("in timer")

    harness = keyed(Fails())
    harness.process([("a", 1)])

    with pytest.raises(FunctionError, match="operator KeyedProcessSpec: ValueError: in timer"):
        harness.watermark(5)


def test_a_failing_key_selector_names_the_operator():
    harness = keyed(Count(), KeySelectorFunctionWrapper(lambda v: v["missing"]))

    with pytest.raises(FunctionError, match="TypeError"):
        harness.process([("a", 1)])


def test_a_process_function_without_keys_knows_time_but_has_no_timers():
    class Tell(ProcessFunction):
        def process_element(self, value, ctx):
            yield value, ctx.timestamp(), ctx.timer_service().current_watermark()
            if value == "timer":
                ctx.timer_service().register_event_time_timer(1)

    harness = OperatorHarness(specs.ProcessSpec(Tell()))
    harness.watermark(7)

    assert harness.process(["a"], [10]) == [("a", 10, 7)]
    assert harness.process(["b"]) == [("a", 10, 7), ("b", None, 7)]
    with pytest.raises(UnsupportedOperationError, match="timers need a keyed stream"):
        harness.process(["timer"])


class Dedupe:
    def open(self, runtime_context):
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.BOOLEAN()))

    def filter(self, value):
        if self.seen.value():
            return False
        self.seen.update(True)
        return True

    def map(self, value):
        return value, self.filter(value)

    def flat_map(self, value):
        return [value, value] if self.filter(value) else None

    def close(self):
        return


@pytest.mark.parametrize(
    ("kind", "rows", "times"),
    [
        ("FILTER", [(1,), (2,)], [0, 2]),
        ("MAP", [((1,), True), ((1,), False), ((2,), True)], [0, 1, 2]),
        ("FLAT_MAP", [(1,), (1,), (2,), (2,)], [0, 0, 2, 2]),
    ],
)
def test_map_flat_map_and_filter_may_use_keyed_state(kind, rows, times):
    harness = OperatorHarness(specs.KeyedMapSpec(FIRST, Dedupe(), kind))

    assert harness.process([(1,), (1,), (2,)], [0, 1, 2]) == rows
    assert harness.output.timestamps == times


def test_reduce_gives_one_result_per_record():
    harness = OperatorHarness(specs.ReduceSpec(FIRST, ReduceFunctionWrapper(lambda a, b: (a[0], a[1] + b[1]))))

    harness.process([("a", 1), ("b", 10)])
    rows = harness.process([("a", 2), ("a", 3)])

    assert rows == [("a", 1), ("b", 10), ("a", 3), ("a", 6)]


K = specs.RollingKind


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (K.SUM, [5, 8, 9, 14]),
        (K.MIN, [5, 3, 1, 1]),
        (K.MAX, [5, 5, 5, 5]),
        (K.MIN_BY, [("a", 5, "p"), ("a", 3, "q"), ("a", 1, "r"), ("a", 1, "r")]),
        (K.MAX_BY, [("a", 5, "p"), ("a", 5, "p"), ("a", 5, "p"), ("a", 5, "p")]),
    ],
)
def test_rolling_aggregates_replace_a_field_of_the_first_record_or_keep_the_whole(kind, expected):
    records = [("a", 5, "p"), ("a", 3, "q"), ("a", 1, "r"), ("a", 5, "s")]
    if kind in (K.SUM, K.MIN, K.MAX):
        expected = [("a", number, "p") for number in expected]

    tuples = OperatorHarness(specs.RollingAggregateSpec(FIRST, kind, 1)).process(records)
    rows = OperatorHarness(specs.RollingAggregateSpec(FIRST, kind, 1)).process([Row(*r) for r in records])

    assert tuples == expected
    assert rows == [Row(*r) for r in expected]


def test_a_rolling_sum_of_single_values_refuses_a_field_other_than_0():
    same_key = KeySelectorFunctionWrapper(lambda v: 0)

    assert OperatorHarness(specs.RollingAggregateSpec(same_key, K.SUM, 0)).process([1, 2, 3]) == [1, 3, 6]
    with pytest.raises(TypeMismatchError, match="single value has only field 0"):
        OperatorHarness(specs.RollingAggregateSpec(same_key, K.SUM, 1)).process([1, 2])


def test_fused_code_gives_equal_results_with_and_without_positions():
    steps = [
        Step(RowStep.MAP, lambda v: v + 1),
        Step(RowStep.FLAT_MAP, lambda v: range(v % 4) if v % 5 else None),
        Step(RowStep.FILTER, lambda v: v != 1),
        Step(RowStep.MAP, lambda v: v * 10),
        Step(RowStep.FLAT_MAP, lambda v: np.array([v, v])),
    ]
    fused = compile_steps(steps, ["test"])
    rows = list(range(30))

    values, kept = fused.with_indices(rows)

    assert fused.values_only(rows) == values
    one_by_one = [fused.values_only([row]) for row in rows]
    assert values == [v for part in one_by_one for v in part]
    assert kept == [i for i, part in enumerate(one_by_one) for _ in part]


def test_batches_with_row_kinds_keep_them_through_a_filter():
    from flinkpy.datastream.functions import FilterFunctionWrapper
    from flinkpy.streaming.operators.fused_row_operator import FusedRowOperator, FusedStep

    harness = OperatorHarness(specs.ProjectSpec((0,)))
    output = CollectingOutput()
    step = FusedStep(RowStep.FILTER, FilterFunctionWrapper(lambda v: v > 1), harness.context)
    operator = FusedRowOperator([step], None, output, {})

    operator.process_batch(Batch([1, 2, 3], np.array([1, 2, 3]), np.array([0, 1, 3], dtype=np.int8)))

    (batch,) = output.items
    assert batch.values == [2, 3]
    assert batch.timestamps.tolist() == [2, 3]
    assert batch.kinds.tolist() == [1, 3]


def test_columns_become_rows_of_the_declared_type():
    columns = pa.RecordBatch.from_pydict({"f0": ["a", "b", "a"], "f1": [1, 2, 3]})
    harness = OperatorHarness(
        specs.KeyedProcessSpec(FIRST, Count(), input_types=(Types.TUPLE([Types.STRING(), Types.LONG()]),))
    )

    assert harness.process(columns) == [("a", 1), ("b", 1), ("a", 2)]
