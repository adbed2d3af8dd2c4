"""Programs with asynchronous functions, joins and partitions: their operators, and arguments that are refused."""

from __future__ import annotations

from typing import Any

import pytest

from flinkpy.common import Duration, Time, Types
from flinkpy.common.errors import UnsupportedOperationError, UserError
from flinkpy.datastream import (
    AsyncBatchFunction,
    AsyncDataStream,
    AsyncFunction,
    AsyncRetryStrategy,
    DataStream,
    MapPartitionFunction,
    ProcessJoinFunction,
    StreamExecutionEnvironment,
)
from flinkpy.datastream.async_retry_strategies import NO_RETRY_STRATEGY
from flinkpy.datastream.window import TumblingEventTimeWindows
from flinkpy.graph import operator_specs as specs
from flinkpy.graph.partitioning import GLOBAL

RECORD = Types.TUPLE([Types.STRING(), Types.LONG()])
SECOND = Time.seconds(1)


class Same(AsyncFunction):
    async def async_invoke(self, value: Any) -> list[Any]:
        return [value]


class Pair(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: Any) -> Any:
        yield left, right


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment()


@pytest.fixture
def stream(env: StreamExecutionEnvironment) -> DataStream:
    return env.from_collection([("a", 1)], RECORD)


def spec_of(stream: DataStream) -> Any:
    return stream.transformation.spec  # type: ignore[attr-defined]


class TestAsync:
    def test_operator_spec_contains_the_settings_of_the_program(self, stream: DataStream) -> None:
        strategy = AsyncRetryStrategy.fixed_delay(1, 1, None, None)
        ordered = AsyncDataStream.ordered_wait_with_retry(stream, Same(), SECOND, strategy, 7, Types.LONG())
        spec = spec_of(ordered)
        assert (spec.timeout_ms, spec.capacity, spec.retry_strategy, spec.is_ordered) == (1000, 7, strategy, True)
        assert ordered.get_type() == Types.LONG()
        assert ordered.get_name() == "async wait operator"

        spec = spec_of(AsyncDataStream.unordered_wait(stream, Same(), SECOND))
        assert (spec.capacity, spec.retry_strategy, spec.is_ordered) == (100, NO_RETRY_STRATEGY, False)
        assert AsyncRetryStrategy.no_restart() is NO_RETRY_STRATEGY

    def test_the_operator_knows_the_key_of_its_records(self, stream: DataStream) -> None:
        spec = spec_of(AsyncDataStream.ordered_wait(stream.key_by("f0"), Same(), SECOND))
        assert spec.key_selector.get_key(("a", 1)) == "a"
        assert spec.key_type == Types.STRING()

    def test_a_function_that_is_not_async_def_is_refused(self, stream: DataStream) -> None:
        class Plain(AsyncFunction):
            def async_invoke(self, value: Any) -> Any:  # type: ignore[override]
                return [value]

        with pytest.raises(TypeError, match=r"Method 'async_invoke' of .*Plain'>' should be declared as 'async def'"):
            AsyncDataStream.unordered_wait(stream, Plain(), SECOND)
        with pytest.raises(TypeError, match="must be an AsyncFunction"):
            AsyncDataStream.ordered_wait(stream, lambda value: value, SECOND)  # type: ignore[arg-type]

    def test_retries_need_a_strategy_a_predicate_and_a_timeout(self, stream: DataStream) -> None:
        strategy = AsyncRetryStrategy.fixed_delay(1, 1, None, None)
        wait: Any = AsyncDataStream.unordered_wait_with_retry
        with pytest.raises(ValueError, match="Async retry strategy should not be None"):
            wait(stream, Same(), SECOND, None)
        with pytest.raises(ValueError, match="Timeout should be configured when do async with retry"):
            wait(stream, Same(), Time.seconds(0), strategy)

        class WithoutPredicate(AsyncRetryStrategy):
            def can_retry(self, current_attempts: int) -> bool:
                return False

            def get_backoff_time_millis(self, current_attempts: int) -> int:
                return 1

            def get_retry_predicate(self) -> Any:
                return None

        with pytest.raises(ValueError, match=r"Retry predicate of the async retry strategy '.*' is None"):
            wait(stream, Same(), SECOND, WithoutPredicate())

    def test_the_timeout_must_be_a_time(self, stream: DataStream) -> None:
        with pytest.raises(TypeError, match="timeout must be a Time, not 5"):
            AsyncDataStream.unordered_wait(stream, Same(), 5)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="timeout must be a Time, not 5"):
            AsyncDataStream.unordered_wait_batch(stream, Batched(), 5, 10)  # type: ignore[arg-type]

    @pytest.mark.parametrize("capacity", [0, -1, 1.5, True])
    def test_the_capacity_must_be_a_positive_number(self, stream: DataStream, capacity: Any) -> None:
        with pytest.raises(ValueError, match="capacity must be a positive number"):
            AsyncDataStream.unordered_wait(stream, Same(), SECOND, capacity)


class Batched(AsyncBatchFunction):
    async def async_invoke_batch(self, values: list[Any]) -> list[list[Any]]:
        return [[value] for value in values]


class TestAsyncBatches:
    def test_operator_spec_contains_the_settings_of_the_program(self, stream: DataStream) -> None:
        spec = spec_of(AsyncDataStream.ordered_wait_batch(stream, Batched(), SECOND, 32, 640))
        assert (spec.max_batch_size, spec.capacity, spec.is_ordered) == (32, 640, True)
        spec = spec_of(AsyncDataStream.unordered_wait_batch(stream, Batched(), SECOND, 32))
        assert (spec.max_batch_size, spec.capacity, spec.is_ordered) == (32, 1000, False)

    def test_wrong_arguments_are_refused(self, stream: DataStream) -> None:
        class Plain(AsyncBatchFunction):
            def async_invoke_batch(self, values: list[Any]) -> Any:  # type: ignore[override]
                return values

        with pytest.raises(TypeError, match=r"'async_invoke_batch' of .* should be declared as 'async def'"):
            AsyncDataStream.ordered_wait_batch(stream, Plain(), SECOND, 32)
        with pytest.raises(TypeError, match="must be an AsyncBatchFunction"):
            AsyncDataStream.ordered_wait_batch(stream, Same(), SECOND, 32)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="max_batch_size must be a positive number"):
            AsyncDataStream.ordered_wait_batch(stream, Batched(), SECOND, 0)


class TestIntervalJoin:
    def test_exclusive_bounds_are_a_millisecond_narrower(self, stream: DataStream) -> None:
        keyed = stream.key_by("f0")
        between = keyed.interval_join(keyed).between(Time.milliseconds(-5), Duration.of_seconds(1))
        assert (spec_of(between.process(Pair())).lower_bound_ms, spec_of(between.process(Pair())).upper_bound_ms) == (
            -5,
            1000,
        )
        spec = spec_of(between.lower_bound_exclusive().upper_bound_exclusive().process(Pair()))
        assert (spec.lower_bound_ms, spec.upper_bound_ms) == (-4, 999)
        assert spec.key_type == Types.STRING()

    def test_wrong_arguments_are_refused(self, env: StreamExecutionEnvironment, stream: DataStream) -> None:
        keyed = stream.key_by("f0")
        with pytest.raises(ValueError, match="is above the upper bound"):
            keyed.interval_join(keyed).between(Time.seconds(2), Time.seconds(1))
        with pytest.raises(TypeError, match="must be a Time or a Duration"):
            keyed.interval_join(keyed).between(1, 2)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="must be a KeyedStream"):
            keyed.interval_join(stream)  # type: ignore[arg-type]
        with pytest.raises(UnsupportedOperationError, match="only supported in event time"):
            keyed.interval_join(keyed).in_processing_time().between(Time.seconds(1), Time.seconds(2))
        between = keyed.interval_join(keyed).in_event_time().between(Time.seconds(1), Time.seconds(2))
        with pytest.raises(TypeError, match="must be a ProcessJoinFunction"):
            between.process(lambda left, right: left)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="the output tag of late data must be an OutputTag"):
            between.side_output_left_late_data("late")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="must have keys of one type"):
            keyed.interval_join(stream.key_by("f1")).between(Time.seconds(1), Time.seconds(2)).process(Pair())
        other = StreamExecutionEnvironment.get_execution_environment().from_collection([("a", 1)], RECORD)
        with pytest.raises(UserError, match="same StreamExecutionEnvironment"):
            keyed.interval_join(other.key_by("f0"))


class TestWindowJoin:
    def test_both_inputs_are_partitioned_by_their_keys(self, stream: DataStream) -> None:
        windows = stream.join(stream).where("f0").equal_to(lambda record: record[0], Types.STRING())
        joined = windows.window(TumblingEventTimeWindows.of(SECOND)).apply(lambda one, other: one, RECORD)
        operator: Any = joined.transformation
        assert isinstance(operator.spec, specs.CoGroupSpec)
        assert operator.keyed_inputs == (0, 1)
        assert operator.spec.window.key_type == Types.STRING()
        assert joined.get_type() == RECORD

    def test_wrong_arguments_are_refused(self, stream: DataStream) -> None:
        with pytest.raises(UserError, match="The keys for the two inputs are not equal"):
            stream.co_group(stream).where("f0").equal_to("f1")
        with pytest.raises(TypeError, match="must be a DataStream"):
            stream.join("other")  # type: ignore[arg-type]
        keys = stream.co_group(stream).where("f0").equal_to("f0")
        with pytest.raises(TypeError, match="window_assigner should be a WindowAssigner"):
            keys.window("tumbling")  # type: ignore[arg-type]
        windows = keys.window(TumblingEventTimeWindows.of(SECOND))
        with pytest.raises(TypeError, match="must be a CoGroupFunction"):
            windows.apply(lambda one, other: one)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="trigger should be a Trigger"):
            windows.trigger("now")  # type: ignore[arg-type]


class TestPartitions:
    def test_partitions_have_the_parallelism_of_the_stream(self, env: StreamExecutionEnvironment) -> None:
        env.set_parallelism(4)
        numbers = env.from_sequence(1, 10).map(lambda number: number).set_parallelism(3)
        assert numbers.get_parallelism() == 3
        assert numbers.full_window_partition().reduce(max).get_parallelism() == 3

    def test_wrong_arguments_are_refused(self, stream: DataStream) -> None:
        windows = stream.full_window_partition()
        with pytest.raises(TypeError, match="must be a MapPartitionFunction or a callable"):
            windows.map_partition(3)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="not the class"):
            windows.map_partition(MapPartitionFunction)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="should be an AggregateFunction"):
            windows.aggregate(max)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="has no field"):
            windows.sort_partition("f7")


class TestStreams:
    def test_global_sends_everything_to_one_subtask(self, stream: DataStream) -> None:
        partitioning = stream.global_().transformation.partitioning  # type: ignore[attr-defined]
        assert partitioning.kind == GLOBAL

    def test_connected_streams_expose_their_inputs(self, env: StreamExecutionEnvironment, stream: DataStream) -> None:
        other = env.from_sequence(1, 2)
        connected = stream.connect(other)
        assert (connected.get_first_input(), connected.get_second_input()) == (stream, other)
        assert (connected.get_type1(), connected.get_type2()) == (RECORD, Types.LONG())
        assert connected.get_execution_environment() is env

    def test_streams_have_ids_of_their_own(self, stream: DataStream) -> None:
        assert stream.get_id() != stream.map(lambda record: record).get_id()
