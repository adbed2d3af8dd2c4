"""Programs for each kind of operator. Their results do not depend on the batches or the distribution of records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from flinkpy.common import Duration, Row, Time, Types, WatermarkStrategy
from flinkpy.common.watermark_strategy import TimestampAssigner
from flinkpy.datastream import (
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    DataStream,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    OutputTag,
    ProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from flinkpy.datastream.functions import (
    AggregateFunction,
    CoGroupFunction,
    ProcessJoinFunction,
    ProcessWindowFunction,
)
from flinkpy.datastream.partition_windowed_stream import Order
from flinkpy.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from flinkpy.datastream.window import (
    CountTumblingWindowAssigner,
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)

Program = Callable[[StreamExecutionEnvironment], DataStream]

PAIR = Types.TUPLE([Types.INT(), Types.LONG()])
NAMED = Types.ROW_NAMED(["word", "number"], [Types.STRING(), Types.LONG()])
EVEN = OutputTag("even", Types.LONG())
ODD = OutputTag("odd")
TEXT = OutputTag("text", Types.STRING())
RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())
PROGRAMS: dict[str, Program] = {}


def program(build: Program) -> Program:
    PROGRAMS[build.__name__] = build
    return build


def pairs(env: StreamExecutionEnvironment, count: int = 60, type_info: Any = None) -> DataStream:
    """Returns a stream of (key, number)."""
    return env.from_collection([(i * 7 % 5, i) for i in range(count)], type_info)


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[1])


def timed(stream: DataStream) -> DataStream:
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(3))
    return stream.assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(SecondField()))


def key_of(record: Any) -> Any:
    return record[0]


def added(one: Any, other: Any) -> Any:
    return one[0], one[1] + other[1]


# -- without keys --------------------------------------------------------------------------------------------------


@program
def functions_of_single_records(env: StreamExecutionEnvironment) -> DataStream:
    numbers = env.from_collection(list(range(50)))
    return numbers.map(lambda x: x * 3).filter(lambda x: x % 2 == 0).flat_map(lambda x: [x, f"{x}"])


class Split(ProcessFunction):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[Any]:
        if value % 2:
            yield ODD, (value, None)
        else:
            yield EVEN, value
        yield value * 10


@program
def side_outputs_of_a_process_function(env: StreamExecutionEnvironment) -> DataStream:
    split = env.from_collection(list(range(30))).process(Split())
    evens = split.get_side_output(EVEN).map(lambda x: ("even", x))
    return split.map(lambda x: ("main", x)).union(evens, split.get_side_output(ODD).map(lambda x: ("odd", x)))


@program
def typed_records_and_columns(env: StreamExecutionEnvironment) -> DataStream:
    import pyarrow.compute as pc

    words = env.from_collection([Row(f"w{i % 4}", i) for i in range(40)], NAMED)
    kept = words.filter_batches(lambda batch: pc.greater(batch.column("number"), 5))
    return (
        kept.map_batches(lambda batch: batch, NAMED)
        .map(lambda row: (row.word, row.number + 1), Types.TUPLE([Types.STRING(), Types.LONG()]))
        .project(1, 0)
    )


@program
def a_number_sequence_dealt_out_anew(env: StreamExecutionEnvironment) -> DataStream:
    return env.from_sequence(1, 200).rebalance().map(lambda x: x % 17).shuffle().map(lambda x: x + 1)


@program
def one_subtask_after_several(env: StreamExecutionEnvironment) -> DataStream:
    return env.from_sequence(1, 100).map(lambda x: x * 2).rescale().map(lambda x: x + 1).set_parallelism(1)


@program
def a_custom_partitioner_and_everything_to_everybody(env: StreamExecutionEnvironment) -> DataStream:
    numbers = env.from_sequence(1, 30)
    own = numbers.partition_custom(lambda key, count: key % count, lambda x: x).map(lambda x: ("own", x))
    return own.union(numbers.broadcast().map(lambda x: ("all", x)), numbers.global_().map(lambda x: ("first", x)))


@program
def a_union_of_several_streams(env: StreamExecutionEnvironment) -> DataStream:
    one, other = env.from_collection([1, 2, 3], Types.LONG()), env.from_sequence(10, 20)
    return one.union(other, one.map(lambda x: -x, Types.LONG())).map(lambda x: x * 2)


@program
def event_times_are_kept(env: StreamExecutionEnvironment) -> DataStream:
    class Times(ProcessFunction):
        def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[Any]:
            yield value, ctx.timestamp()

    return timed(pairs(env, type_info=PAIR)).rebalance().process(Times())


# -- with keys -----------------------------------------------------------------------------------------------------


@program
def a_reduced_keyed_stream(env: StreamExecutionEnvironment) -> DataStream:
    return pairs(env).key_by(key_of).reduce(added)


@program
def a_typed_rolling_sum_and_the_largest(env: StreamExecutionEnvironment) -> DataStream:
    keyed = pairs(env, type_info=PAIR).rebalance().key_by(lambda pair: pair[0], Types.INT())
    return keyed.sum(1).union(keyed.max_by(1))


@program
def keys_of_any_type(env: StreamExecutionEnvironment) -> DataStream:
    keys = [None, "a", b"a", (1, "x"), 1.5, True, 10**30, ("nested", (1, 2))]
    records = env.from_collection([(keys[i % len(keys)], i) for i in range(64)])
    return records.rebalance().key_by(lambda record: record[0]).reduce(added)


class Running(KeyedProcessFunction):
    """Emits the number of records of the key so far, and sets an event-time timer for each key."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self._seen = runtime_context.get_list_state(ListStateDescriptor("seen", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        count = (self._count.value() or 0) + 1
        self._count.update(count)
        self._seen.add(value[1])
        ctx.timer_service().register_event_time_timer(1_000)
        yield ctx.get_current_key(), value[1], count, ctx.timer_service().current_watermark()

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        yield ctx.get_current_key(), timestamp, list(self._seen.get()), ctx.timer_service().current_watermark()


@program
def keyed_state_and_timers(env: StreamExecutionEnvironment) -> DataStream:
    return timed(pairs(env, type_info=PAIR)).key_by(key_of).process(Running())


@program
def untyped_keyed_state_and_timers(env: StreamExecutionEnvironment) -> DataStream:
    return timed(pairs(env)).rebalance().key_by(key_of).process(Running())


@program
def functions_of_records_on_a_keyed_stream(env: StreamExecutionEnvironment) -> DataStream:
    keyed = pairs(env).key_by(key_of)
    return keyed.map(lambda t: t[1]).union(keyed.filter(lambda t: t[1] > 50).map(lambda t: -t[1]))


class Listed(ProcessWindowFunction):
    def process(self, key: Any, context: ProcessWindowFunction.Context, elements: Any) -> Iterator[Any]:
        yield key, context.window().start, sorted(element[1] for element in elements)


class Mean(AggregateFunction):
    def create_accumulator(self) -> Any:
        return 0, 0

    def add(self, value: Any, accumulator: Any) -> Any:
        return accumulator[0] + value[1], accumulator[1] + 1

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, one: Any, other: Any) -> Any:
        return one[0] + other[0], one[1] + other[1]


@program
def windows_of_event_time(env: StreamExecutionEnvironment) -> DataStream:
    keyed = timed(pairs(env, type_info=PAIR)).key_by(key_of)
    tumbling = keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(10))).process(Listed())
    sliding = keyed.window(SlidingEventTimeWindows.of(Time.milliseconds(20), Time.milliseconds(10))).aggregate(Mean())
    sessions = keyed.window(EventTimeSessionWindows.with_gap(Time.milliseconds(6))).process(Listed())
    return tumbling.map(repr).union(sliding.map(repr), sessions.map(repr))


@program
def windows_of_counts(env: StreamExecutionEnvironment) -> DataStream:
    return timed(pairs(env)).key_by(key_of).window(CountTumblingWindowAssigner.of(4)).aggregate(Mean())


# -- two inputs ----------------------------------------------------------------------------------------------------


class Label(CoMapFunction):
    def map1(self, value: Any) -> Any:
        return "one", value

    def map2(self, value: Any) -> Any:
        return "two", value


class Twice(CoFlatMapFunction):
    def flat_map1(self, value: Any) -> Iterator[Any]:
        yield from [value] * 2

    def flat_map2(self, value: Any) -> list[Any]:
        return []


class Tell(CoProcessFunction):
    def process_element1(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield "first", value

    def process_element2(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield TEXT, value
        yield "second", value


@program
def functions_of_two_streams(env: StreamExecutionEnvironment) -> DataStream:
    connected = env.from_sequence(1, 20).connect(env.from_collection(["a", "b"]))
    told = connected.process(Tell())
    return connected.map(Label()).union(connected.flat_map(Twice()), told, told.get_side_output(TEXT).map(lambda x: x))


class Both(KeyedCoProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self._total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element1(self, value: Any, ctx: Any) -> Iterator[Any]:
        self._total.update((self._total.value() or 0) + value[1])
        ctx.timer_service().register_event_time_timer(10_000)
        return iter(())

    process_element2 = process_element1

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield ctx.get_current_key(), self._total.value()


@program
def keyed_functions_of_two_streams(env: StreamExecutionEnvironment) -> DataStream:
    one, other = timed(pairs(env)).key_by(key_of), timed(pairs(env, 25)).key_by(key_of)
    return one.connect(other).process(Both())


class Paired(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: Any) -> Iterator[Any]:
        yield left, right


class Sizes(CoGroupFunction):
    def co_group(self, first: Any, second: Any) -> Iterator[Any]:
        yield sorted(first), sorted(second)


@program
def joins_and_groups_of_two_streams(env: StreamExecutionEnvironment) -> DataStream:
    one, other = timed(pairs(env)), timed(pairs(env, 30))
    interval = one.key_by(key_of).interval_join(other.key_by(key_of))
    between = interval.between(Time.milliseconds(-5), Time.milliseconds(5)).process(Paired())
    window = TumblingEventTimeWindows.of(Time.milliseconds(20))
    joined = one.join(other).where(key_of).equal_to(key_of).window(window).apply(lambda a, b: (a, b))
    grouped = one.co_group(other).where(key_of).equal_to(key_of).window(window).apply(Sizes())
    return between.map(repr).union(joined.map(repr), grouped.map(repr))


class Rules(BroadcastProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield value, sorted(ctx.get_broadcast_state(RULES).items())

    def process_broadcast_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        ctx.get_broadcast_state(RULES).put(value, len(value))
        return iter(())


class KeyedRules(KeyedBroadcastProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield ctx.get_current_key(), value, sorted(ctx.get_broadcast_state(RULES).items())

    def process_broadcast_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        ctx.get_broadcast_state(RULES).put(value, len(value))
        return iter(())


@program
def broadcast_state(env: StreamExecutionEnvironment) -> DataStream:
    rules = env.from_collection(["x", "yy", "zzz"], Types.STRING()).broadcast(RULES)
    return env.from_sequence(1, 20).connect(rules).process(Rules())


@program
def broadcast_state_of_a_keyed_stream(env: StreamExecutionEnvironment) -> DataStream:
    rules = env.from_collection(["x", "yy"], Types.STRING()).broadcast(RULES)
    return pairs(env, 20).key_by(key_of).connect(rules).process(KeyedRules())


# -- whole partitions, and streams that are read twice ----------------------------------------------------------------


@program
def whole_partitions(env: StreamExecutionEnvironment) -> DataStream:
    numbers = env.from_collection([(i * 37 % 11, i) for i in range(40)], PAIR).set_parallelism(1)
    one = numbers.map(lambda t: t, PAIR).set_parallelism(1)
    window = one.full_window_partition()
    sorted_ = window.sort_partition(0, Order.ASCENDING)
    counted = window.map_partition(lambda values: [("count", sum(1 for _ in values))])
    return sorted_.map(lambda t: ("sorted", t[0])).union(counted)


@program
def a_random_stream_with_two_consumers(env: StreamExecutionEnvironment) -> DataStream:
    import random

    random_numbers = env.from_sequence(1, 50).map(lambda x: (x, random.random()))
    one = random_numbers.key_by(lambda t: t[0]).map(lambda t: (t, 1))
    other = random_numbers.rebalance().map(lambda t: (t, 1))
    # The stream must be computed once: then every number comes exactly twice.
    both = one.union(other).key_by(lambda t: t[0]).reduce(lambda a, b: (a[0], a[1] + b[1]))
    return both.map(lambda t: t[1])
