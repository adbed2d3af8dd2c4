"""Behaviour of DataStream programs in streaming mode, in batch mode and in Spark, on clusters that tests share."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from clusters import RunningCluster
from engines import engine_properties

from flinkpy.common import Configuration, JobListener, Row, Types, WatermarkStrategy
from flinkpy.common.errors import JobExecutionError
from flinkpy.common.watermark_strategy import TimestampAssigner
from flinkpy.datastream import (
    AggregateFunction,
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    DataStream,
    FilterFunction,
    FlatMapFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    OutputTag,
    ProcessFunction,
    ReduceFunction,
    RuntimeContext,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
)
from flinkpy.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)

#: The time limit of a test. The first Spark job starts Spark.
pytestmark = pytest.mark.timeout(300)

MakeEnvironment = Callable[..., StreamExecutionEnvironment]
PAIR = Types.TUPLE([Types.STRING(), Types.INT()])
RULES = MapStateDescriptor("rules", Types.STRING(), Types.INT())
ODD = OutputTag("odd", Types.INT())
EVEN = OutputTag("even", Types.STRING())


@pytest.fixture(params=["native-streaming", "native-batch", "spark"])
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def mode(engine: str) -> RuntimeExecutionMode:
    return RuntimeExecutionMode.STREAMING if engine == "native-streaming" else RuntimeExecutionMode.BATCH


@pytest.fixture
def env(request: pytest.FixtureRequest, engine: str) -> StreamExecutionEnvironment:
    properties = engine_properties(engine)
    if engine == "spark":
        # One TaskExecutor, because each has its own Spark session, which takes seconds to start.
        properties |= request.getfixturevalue("engine_cluster").properties
    else:
        properties |= request.getfixturevalue("wide_cluster").properties
    entries = {"restart-strategy.type": "none", **properties}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(entries))
    env.set_parallelism(2)
    return env


def collected(stream: DataStream) -> list[Any]:
    with stream.execute_and_collect() as records:  # type: ignore[union-attr]
        return list(records)


def in_order_of_text(stream: DataStream) -> list[Any]:
    return sorted(collected(stream), key=repr)


def first(value: Any) -> Any:
    return value[0]


def pairs(env: StreamExecutionEnvironment, *values: tuple[str, int]) -> DataStream:
    return env.from_collection(list(values), PAIR)


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return value[1]


# -- functions without keys ----------------------------------------------------------------------------------------


class Repeat(FlatMapFunction):
    def flat_map(self, value: Any) -> Any:
        for _ in range(value[1]):
            yield value[0]


class Positive(FilterFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.limit = 0

    def filter(self, value: Any) -> bool:
        return value[1] > self.limit


def test_functions_and_function_objects_can_be_chained(env: StreamExecutionEnvironment) -> None:
    class Increase(MapFunction):
        def map(self, value: Any) -> Any:
            return value[0], value[1] + 1

    stream = pairs(env, ("a", 0), ("b", 1), ("c", -1)).map(Increase(), PAIR).filter(Positive()).flat_map(Repeat())

    assert in_order_of_text(stream.map(lambda value: value + "!", Types.STRING())) == ["a!", "b!", "b!"]


def test_process_function_may_return_an_iterable_or_yield(env: StreamExecutionEnvironment) -> None:
    class Returns(ProcessFunction):
        def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Any:
            return [value, (value[0], ctx.timestamp())]

    class Yields(ProcessFunction):
        def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Any:
            yield (*value, ctx.timer_service().current_watermark() < 0)

    stamped = pairs(env, ("a", 7)).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())
    )

    assert in_order_of_text(stamped.process(Returns()).process(Yields())) == [("a", 7, True), ("a", 7, True)]


def test_custom_partitioner_sees_keys_and_the_number_of_subtasks(env: StreamExecutionEnvironment) -> None:
    class Where(MapFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.subtask = runtime_context.get_index_of_this_subtask()
            assert runtime_context.get_number_of_parallel_subtasks() == 2

        def map(self, value: Any) -> Any:
            return value, self.subtask

    def partition(key: int, num_partitions: int) -> int:
        assert num_partitions == 2
        return key % num_partitions

    numbers = env.from_collection([1, 2, 3, 4]).map(lambda value: (value, "x"))
    stream = numbers.partition_custom(partition, lambda value: value[0]).map(Where())

    assert in_order_of_text(stream) == [((1, "x"), 1), ((2, "x"), 0), ((3, "x"), 1), ((4, "x"), 0)]


@pytest.mark.short_on_spark
def test_declared_types_convert_the_records(env: StreamExecutionEnvironment) -> None:
    row = (43878, 9147483648, 9147483648, "é", Decimal("1.50"), [1, 2], {"k": 0.5}, b"\0x", True)
    types = Types.ROW(
        [
            Types.SHORT(),
            Types.INT(),
            Types.LONG(),
            Types.STRING(),
            Types.BIG_DEC(),
            Types.LIST(Types.INT()),
            Types.MAP(Types.STRING(), Types.FLOAT()),
            Types.PRIMITIVE_ARRAY(Types.BYTE()),
            Types.BOOLEAN(),
        ]
    )
    stream = env.from_collection([1]).map(lambda _: Row(*row), types).rebalance().map(lambda value: value, types)

    (result,) = collected(stream)
    assert result == Row(-21658, 557549056, 9147483648, "é", Decimal("1.50"), [1, 2], {"k": 0.5}, b"\0x", True)
    assert str(result[4]) == "1.50"


def test_streams_of_one_type_can_be_united_with_and_without_keys(env: StreamExecutionEnvironment) -> None:
    one, two, three = pairs(env, ("a", 1)), pairs(env, ("b", 2)), pairs(env, ("c", 3))
    assert in_order_of_text(one.union(two, three)) == [("a", 1), ("b", 2), ("c", 3)]

    keyed = pairs(env, ("a", 1)).key_by(first).union(pairs(env, ("b", 2)).key_by(first))
    assert in_order_of_text(keyed.map(lambda value: value[1])) == [1, 2]


def test_results_can_be_collected_in_several_ways(env: StreamExecutionEnvironment) -> None:
    assert pairs(env, ("a", 1)).execute_and_collect(limit=5) == [("a", 1)]
    assert env.from_collection([1, 2, 3]).execute_and_collect("named", 2) == [1, 2]

    with env.from_collection(["x"]).execute_and_collect("named") as records:  # type: ignore[union-attr]
        assert records.next() == "x"
        with pytest.raises(StopIteration):
            records.next()


def test_keyed_stream_is_collected_with_its_keys(env: StreamExecutionEnvironment) -> None:
    given = [("b", 1), ("a", 2), ("b", 3), ("c", 4)]
    rows = collected(pairs(env, *given).key_by(first, Types.STRING()))

    assert rows == [Row(f0=pair[0], f1=pair) for pair in given], "in the order of the one subtask of the source"


def test_functions_find_their_interpreter(env: StreamExecutionEnvironment) -> None:
    env.set_python_executable(sys.executable)

    assert collected(env.from_collection([1]).map(lambda _: os.environ["python"])) == [sys.executable]  # noqa: SIM112


def test_error_of_a_function_is_in_the_error_of_the_job(env: StreamExecutionEnvironment) -> None:
    def fails(value: Any) -> Any:
        raise ValueError("flat_map_func error")

    with pytest.raises(JobExecutionError, match="flat_map_func error"):
        collected(env.from_collection(["a"]).flat_map(fails))


class Point:
    def __init__(self, x: int) -> None:
        self.x = x


def test_objects_of_classes_of_the_program_arrive_unchanged(env: StreamExecutionEnvironment) -> None:
    stream = env.from_collection([Point(1), Point(2)]).rebalance().map(lambda point: Point(point.x * 2))

    assert sorted(point.x for point in collected(stream)) == [2, 4]


def test_job_gives_its_name_id_and_results(env: StreamExecutionEnvironment) -> None:
    env.from_collection([1]).print()
    client = env.execute_async("my job")
    result = client.get_job_execution_result().result()

    assert str(result.get_job_id()) == str(client.get_job_id())
    assert result.get_net_runtime() >= 0
    assert result.get_all_accumulator_results() == {}


class Told(JobListener):
    def __init__(self) -> None:
        self.events: list[Any] = []

    def on_job_submitted(self, job_client: Any, error: BaseException | None) -> None:
        assert error is None
        self.events.append(("submitted", job_client.get_job_id()))

    def on_job_executed(self, job_execution_result: Any, error: BaseException | None) -> None:
        self.events.append(("executed", error or job_execution_result.get_job_id()))


def test_listener_hears_of_jobs_that_run_and_that_fail(env: StreamExecutionEnvironment) -> None:
    listener = Told()
    env.register_job_listener(listener)
    env.from_collection([1]).print()
    job_id = env.execute().get_job_id()
    assert listener.events == [("submitted", job_id), ("executed", job_id)]

    env.from_collection([0]).map(lambda value: 1 // value).print()
    with pytest.raises(JobExecutionError) as failure:
        env.execute()
    assert listener.events[-1] == ("executed", failure.value)


# -- keys and their state ------------------------------------------------------------------------------------------


class AllStates(KeyedProcessFunction):
    """Keeps the numbers of a key in every kind of state."""

    def open(self, runtime_context: RuntimeContext) -> None:
        class Mean(AggregateFunction):
            def create_accumulator(self) -> Any:
                return (0, 0)

            def add(self, value: Any, accumulator: Any) -> Any:
                return accumulator[0] + value, accumulator[1] + 1

            def get_result(self, accumulator: Any) -> Any:
                return accumulator[0] / accumulator[1]

            def merge(self, acc_a: Any, acc_b: Any) -> Any:
                return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]

        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.INT()))
        self.all = runtime_context.get_list_state(ListStateDescriptor("all", Types.INT()))
        self.seen = runtime_context.get_map_state(MapStateDescriptor("seen", Types.INT(), Types.INT()))
        self.sum = runtime_context.get_reducing_state(ReducingStateDescriptor("sum", lambda a, b: a + b, Types.INT()))
        self.mean = runtime_context.get_aggregating_state(
            AggregatingStateDescriptor("mean", Mean(), Types.TUPLE([Types.INT(), Types.INT()]))
        )

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
        number = value[1]
        before = self.last.value()
        self.last.update(number)
        self.all.add(number)
        self.seen[number] = (self.seen[number] or 0) + 1
        self.sum.add(number)
        self.mean.add(number)
        if number == 3:
            yield (
                ctx.get_current_key(),
                before,
                list(self.all),
                sorted(self.seen.items()),
                self.sum.get(),
                self.mean.get(),
            )


def test_keyed_process_function_can_use_all_kinds_of_state(env: StreamExecutionEnvironment) -> None:
    values = [("a", 1), ("b", 5), ("a", 2), ("b", 7), ("a", 3), ("b", 3)]
    stream = pairs(env, *values).key_by(first, Types.STRING()).process(AllStates())

    assert in_order_of_text(stream) == [
        ("a", 2, [1, 2, 3], [(1, 1), (2, 1), (3, 1)], 6, 2.0),
        ("b", 7, [5, 7, 3], [(3, 1), (5, 1), (7, 1)], 15, 5.0),
    ]


class Numbered:
    """Emits how many records of the key it has seen."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))

    def next(self) -> int:
        number = (self.count.value() or 0) + 1
        self.count.update(number)
        return number


def test_map_flat_map_and_filter_of_a_keyed_stream_can_use_state(env: StreamExecutionEnvironment) -> None:
    class Number(Numbered, MapFunction):
        def map(self, value: Any) -> Any:
            return value[0], self.next()

    class OddOnes(Numbered, FlatMapFunction):
        def flat_map(self, value: Any) -> Any:
            if self.next() % 2:
                yield value

    class NotTheFirst(Numbered, FilterFunction):
        def filter(self, value: Any) -> bool:
            return self.next() > 1

    values = [("a", 0), ("a", 0), ("b", 0), ("a", 0), ("b", 0)]

    def keyed() -> Any:
        return pairs(env, *values).key_by(first)

    assert in_order_of_text(keyed().map(Number())) == [("a", 1), ("a", 2), ("a", 3), ("b", 1), ("b", 2)]
    assert in_order_of_text(keyed().flat_map(OddOnes())) == [("a", 0), ("a", 0), ("b", 0)]
    assert in_order_of_text(keyed().filter(NotTheFirst())) == [("a", 0), ("a", 0), ("b", 0)]


def test_stream_can_be_keyed_again_by_another_key(env: StreamExecutionEnvironment) -> None:
    class Number(Numbered, MapFunction):
        def map(self, value: Any) -> Any:
            return value[0], value[1], self.next()

    stream = pairs(env, ("a", 1), ("b", 1), ("a", 2)).key_by(first).map(Number())

    counts = [value[1:] for value in collected(stream.key_by(lambda value: value[1]).map(Number()))]
    assert sorted(counts) == [(1, 1), (1, 2), (2, 1)]


def test_reduce_emits_every_result_in_streaming_mode_and_the_last_in_batch_mode(
    env: StreamExecutionEnvironment, mode: RuntimeExecutionMode
) -> None:
    class Add(ReduceFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.calls = runtime_context.get_state(ValueStateDescriptor("calls", Types.INT()))

        def reduce(self, value1: Any, value2: Any) -> Any:
            self.calls.update((self.calls.value() or 0) + 1)
            return value1[0], value1[1] + value2[1] + 100 * (self.calls.value() or 0)

    results = in_order_of_text(pairs(env, ("a", 1), ("b", 7), ("a", 2), ("a", 3)).key_by(first).reduce(Add()))

    last = [("a", 306), ("b", 7)]
    assert results == (last if mode is RuntimeExecutionMode.BATCH else [("a", 1), ("a", 103), ("a", 306), ("b", 7)])


@pytest.mark.parametrize(
    ("method", "every", "last"),
    [
        ("sum", [("a", 1, 9), ("a", 3, 9), ("a", 6, 9), ("b", 5, 9)], [("a", 6, 9), ("b", 5, 9)]),
        ("min", [("a", 1, 9), ("a", 1, 9), ("a", 1, 9), ("b", 5, 9)], [("a", 1, 9), ("b", 5, 9)]),
        ("max", [("a", 1, 9), ("a", 2, 9), ("a", 3, 9), ("b", 5, 9)], [("a", 3, 9), ("b", 5, 9)]),
        ("min_by", [("a", 1, 9), ("a", 1, 9), ("a", 1, 9), ("b", 5, 9)], [("a", 1, 9), ("b", 5, 9)]),
        ("max_by", [("a", 1, 9), ("a", 2, 8), ("a", 3, 7), ("b", 5, 9)], [("a", 3, 7), ("b", 5, 9)]),
    ],
)
def test_aggregates_are_computed_per_key(
    env: StreamExecutionEnvironment, mode: RuntimeExecutionMode, method: str, every: list[Any], last: list[Any]
) -> None:
    values = [("a", 1, 9), ("b", 5, 9), ("a", 2, 8), ("a", 3, 7)]
    for type_info, position in (
        (Types.TUPLE([Types.STRING(), Types.INT(), Types.INT()]), 1),
        (Types.ROW_NAMED(["k", "v", "w"], [Types.STRING(), Types.INT(), Types.INT()]), "v"),
    ):
        records = [Row(*value) if position == "v" else value for value in values]
        results = collected(getattr(env.from_collection(records, type_info).key_by(first), method)(position))
        assert sorted(map(tuple, results)) == (last if mode is RuntimeExecutionMode.BATCH else every)


def test_plain_values_can_be_summed(env: StreamExecutionEnvironment, mode: RuntimeExecutionMode) -> None:
    results = sorted(collected(env.from_collection([1, 2, 3], Types.INT()).key_by(lambda _: 0).sum()))

    assert results == ([6] if mode is RuntimeExecutionMode.BATCH else [1, 3, 6])


# -- two streams ---------------------------------------------------------------------------------------------------


class Marked(CoMapFunction):
    def map1(self, value: Any) -> Any:
        return None if value == 0 else f"1:{value}"

    def map2(self, value: Any) -> Any:
        return f"2:{value}"


class MarkedTwice(CoFlatMapFunction):
    def flat_map1(self, value: Any) -> Any:
        yield f"1:{value}"
        yield f"1:{value}"

    def flat_map2(self, value: Any) -> Any:
        return []


@pytest.mark.parametrize("output_type", [None, Types.STRING()])
def test_co_functions_handle_streams_of_two_types(env: StreamExecutionEnvironment, output_type: Any) -> None:
    def connected() -> Any:
        return env.from_collection([0, 1, 2], Types.INT()).connect(env.from_collection(["x"], Types.STRING()))

    assert in_order_of_text(connected().map(Marked(), output_type)) == ["1:1", "1:2", "2:x"]
    assert in_order_of_text(connected().flat_map(MarkedTwice(), output_type)) == [
        "1:0",
        "1:0",
        "1:1",
        "1:1",
        "1:2",
        "1:2",
    ]


def test_co_functions_of_keyed_streams_share_state(env: StreamExecutionEnvironment) -> None:
    class Sums(KeyedCoProcessFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.sum = runtime_context.get_state(ValueStateDescriptor("sum", Types.INT()))

        def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Any:
            self.sum.update((self.sum.value() or 0) + value[1])
            ctx.timer_service().register_event_time_timer(1_000_000)

        process_element2 = process_element1

        def on_timer(self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext) -> Any:
            yield ctx.get_current_key(), self.sum.value(), ctx.time_domain().name

    left, right = pairs(env, ("a", 1), ("b", 2)), pairs(env, ("a", 10), ("a", 20))
    stream = left.connect(right).key_by(first, first).process(Sums())

    assert in_order_of_text(stream) == [("a", 31, "EVENT_TIME"), ("b", 2, "EVENT_TIME")]


def test_keyed_co_map_and_co_flat_map_can_use_state(env: StreamExecutionEnvironment) -> None:
    class CountBoth(Numbered, CoMapFunction):
        def map1(self, value: Any) -> Any:
            return value[0], self.next()

        map2 = map1

    class CountBothFlat(Numbered, CoFlatMapFunction):
        def flat_map1(self, value: Any) -> Any:
            yield value[0], self.next()

        flat_map2 = flat_map1

    def connected() -> Any:
        return pairs(env, ("a", 0), ("b", 0)).connect(pairs(env, ("a", 0))).key_by(first, first)

    assert in_order_of_text(connected().map(CountBoth())) == [("a", 1), ("a", 2), ("b", 1)]
    assert in_order_of_text(connected().flat_map(CountBothFlat())) == [("a", 1), ("a", 2), ("b", 1)]


def test_broadcast_stream_reaches_every_subtask(env: StreamExecutionEnvironment, mode: RuntimeExecutionMode) -> None:
    class Lookup(BroadcastProcessFunction):
        def process_element(self, value: Any, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Any:
            yield value, ctx.get_broadcast_state(RULES).get("x")

        def process_broadcast_element(self, value: Any, ctx: BroadcastProcessFunction.Context) -> Any:
            ctx.get_broadcast_state(RULES).put(*value)
            yield "rule", value

    stream = env.from_collection([1, 2]).rebalance().connect(pairs(env, ("x", 5)).broadcast(RULES)).process(Lookup())
    results = in_order_of_text(stream)

    assert results[:2] == [("rule", ("x", 5)), ("rule", ("x", 5))]
    assert [value for value, _ in results[2:]] == [1, 2]
    if mode is RuntimeExecutionMode.BATCH:
        assert [rule for _, rule in results[2:]] == [5, 5], "of a batch the broadcast stream comes first"


def test_keyed_stream_with_a_broadcast_stream_can_use_state_and_timers(env: StreamExecutionEnvironment) -> None:
    class Ruled(Numbered, KeyedBroadcastProcessFunction):
        def process_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext) -> Any:
            self.next()
            ctx.timer_service().register_event_time_timer(1_000_000)
            yield from ()

        def process_broadcast_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.Context) -> Any:
            ctx.get_broadcast_state(RULES).put(*value)

        def on_timer(self, timestamp: int, ctx: KeyedBroadcastProcessFunction.OnTimerContext) -> Any:
            yield ctx.get_current_key(), self.count.value(), ctx.get_broadcast_state(RULES).get("x")

    keyed = pairs(env, ("a", 0), ("a", 0), ("b", 0)).key_by(first)
    stream = keyed.connect(pairs(env, ("x", 5)).broadcast(RULES)).process(Ruled())

    assert in_order_of_text(stream) == [("a", 2, 5), ("b", 1, 5)]


# -- side outputs --------------------------------------------------------------------------------------------------


def sides(value: int) -> Any:
    yield value
    if value % 2:
        yield ODD, value
    else:
        yield EVEN, f"even {value}"


class Sides(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        return sides(value)


class KeyedSides(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        return sides(value)


class CoSides(CoProcessFunction):
    def process_element1(self, value: Any, ctx: Any) -> Any:
        return sides(value)

    def process_element2(self, value: Any, ctx: Any) -> Any:
        yield ODD, value


class KeyedCoSides(KeyedCoProcessFunction):
    process_element1 = CoSides.process_element1
    process_element2 = CoSides.process_element2


class BroadcastSides(BroadcastProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        return sides(value)

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        yield ODD, value


class KeyedBroadcastSides(KeyedBroadcastProcessFunction):
    process_element = BroadcastSides.process_element
    process_broadcast_element = BroadcastSides.process_broadcast_element


def numbers(env: StreamExecutionEnvironment) -> DataStream:
    return env.from_collection([1, 2, 3], Types.INT())


def more(env: StreamExecutionEnvironment) -> DataStream:
    return env.from_collection([10], Types.INT())


def same(value: Any) -> Any:
    return value


@pytest.mark.parametrize(
    ("build", "odd"),
    [
        (lambda env: numbers(env).process(Sides(), Types.INT()), [1, 3]),
        (lambda env: numbers(env).map(same, Types.INT()).process(Sides(), Types.INT()), [1, 3]),
        (lambda env: numbers(env).key_by(same).process(KeyedSides(), Types.INT()), [1, 3]),
        (lambda env: numbers(env).connect(more(env)).process(CoSides(), Types.INT()), [1, 10, 3]),
        (
            lambda env: numbers(env).connect(more(env)).key_by(same, same).process(KeyedCoSides(), Types.INT()),
            [1, 10, 3],
        ),
        (
            lambda env: numbers(env).connect(more(env).broadcast(RULES)).process(BroadcastSides(), Types.INT()),
            [1, 10, 10, 3],
        ),
        (
            lambda env: (
                numbers(env)
                .key_by(same)
                .connect(more(env).broadcast(RULES))
                .process(KeyedBroadcastSides(), Types.INT())
            ),
            [1, 10, 10, 3],
        ),
    ],
    ids=["process", "chained", "keyed", "co", "keyed co", "broadcast", "keyed broadcast"],
)
def test_every_kind_of_process_function_can_have_side_outputs(
    env: StreamExecutionEnvironment, build: Callable[[StreamExecutionEnvironment], DataStream], odd: list[int]
) -> None:
    main = build(env).set_parallelism(2)  # automatic parallelism would use one subtask for so little data
    everything = (
        main.map(lambda value: f"main {value}", Types.STRING())
        .union(main.get_side_output(EVEN))
        .union(main.get_side_output(ODD).map(lambda value: f"odd {value}", Types.STRING()))
    )

    expected = ["even 2", "main 1", "main 2", "main 3", *(f"odd {value}" for value in odd)]
    assert sorted(collected(everything)) == expected


def test_side_output_can_be_collected_alone(env: StreamExecutionEnvironment) -> None:
    assert in_order_of_text(numbers(env).process(Sides(), Types.INT()).get_side_output(ODD)) == [1, 3]


def test_two_operators_can_use_one_tag(env: StreamExecutionEnvironment) -> None:
    one = numbers(env).process(Sides(), Types.INT())
    two = one.map(lambda value: value + 1, Types.INT()).process(Sides(), Types.INT())

    assert in_order_of_text(one.get_side_output(ODD).union(two.get_side_output(ODD))) == [1, 3, 3]


# -- output and logs of functions -----------------------------------------------------------------------------------


def test_log_lines_of_functions_are_in_the_log_of_their_process(
    env: StreamExecutionEnvironment, tmp_path_factory: pytest.TempPathFactory
) -> None:
    def tell(value: str) -> str:
        import logging

        logging.getLogger("my.program").warning("heard %s", value)
        return value

    token = f"token-{env.get_parallelism()}-{id(env)}"
    assert collected(env.from_collection([token]).map(tell)) == [token]
    logs: list[Path] = list(tmp_path_factory.getbasetemp().rglob("*.log"))
    assert any(f"heard {token}" in log.read_text(errors="replace") for log in logs if log.is_file())


def test_failed_batch_job_starts_over_even_with_checkpoints_enabled(
    wide_cluster: RunningCluster, tmp_path: Path
) -> None:
    entries = {
        **wide_cluster.properties,
        "execution.runtime-mode": "BATCH",
        "execution.checkpointing.interval": "10 ms",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "1",
        "restart-strategy.fixed-delay.delay": "10 ms",
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(entries))
    env.set_parallelism(2)
    mark = tmp_path / "failed"

    def fail_once(value: int) -> int:
        if value == 70 and not mark.exists():
            mark.touch()
            raise ValueError("this once")
        return value

    sums = env.from_sequence(1, 100).map(fail_once, Types.LONG()).key_by(lambda value: value % 3).sum()

    assert sorted(collected(sums)) == [1650, 1683, 1717]
    assert mark.exists()
