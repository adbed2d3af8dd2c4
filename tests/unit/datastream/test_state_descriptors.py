from __future__ import annotations

import pytest

from flinkpy.common import Time, Types
from flinkpy.datastream import AggregateFunction, ReduceFunction
from flinkpy.datastream.async_retry_predicates import empty_result_predicate, exception_type_predicate
from flinkpy.datastream.functions import AsyncRetryStrategy, SourceFunction
from flinkpy.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)


def test_descriptor_has_name_type_and_ttl() -> None:
    descriptor = ValueStateDescriptor("count", Types.LONG())
    ttl = StateTtlConfig.new_builder(Time.seconds(1)).update_ttl_on_read_and_write().build()
    descriptor.enable_time_to_live(ttl)

    assert descriptor.get_name() == "count"
    assert descriptor.type_info == Types.LONG()
    assert descriptor.ttl_config is ttl
    assert MapStateDescriptor("m", Types.STRING(), Types.INT()).type_info == Types.MAP(Types.STRING(), Types.INT())
    assert ListStateDescriptor("l", Types.INT()).element_type == Types.INT()


@pytest.mark.parametrize("name", ["", None, 3])
def test_name_must_be_a_string(name: object) -> None:
    with pytest.raises(ValueError, match="non-empty string"):
        ValueStateDescriptor(name, Types.LONG())  # type: ignore[arg-type]


def test_type_must_be_a_type_information() -> None:
    with pytest.raises(TypeError, match="TypeInformation"):
        ValueStateDescriptor("a", int)  # type: ignore[arg-type]


def test_reducing_state_takes_a_callable_or_a_function() -> None:
    descriptor = ReducingStateDescriptor("r", max, Types.INT())

    assert isinstance(descriptor.get_reduce_function(), ReduceFunction)
    assert descriptor.get_reduce_function().reduce(1, 2) == 2
    with pytest.raises(TypeError, match="ReduceFunction or a callable"):
        ReducingStateDescriptor("r", 3, Types.INT())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="AggregateFunction"):
        AggregatingStateDescriptor("a", max, Types.INT())  # type: ignore[arg-type]


class Count(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: object, accumulator: int) -> int:
        return accumulator + 1

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


def test_aggregating_state_keeps_its_function() -> None:
    assert isinstance(AggregatingStateDescriptor("a", Count(), Types.INT()).get_agg_function(), Count)


def test_ttl_builder_sets_everything() -> None:
    config = (
        StateTtlConfig.new_builder(Time.seconds(1))
        .return_expired_if_not_cleaned_up()
        .cleanup_full_snapshot()
        .cleanup_incrementally(10, True)
        .cleanup_in_rocksdb_compact_filter(5)
        .build()
    )

    assert config.is_enabled()
    assert config.get_state_visibility() is StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp
    strategies = config.get_cleanup_strategies()
    assert strategies.in_full_snapshot()
    incremental = strategies.get_incremental_cleanup_strategy()
    assert incremental is not None
    assert (incremental.get_cleanup_size(), incremental.run_cleanup_for_every_record()) == (10, True)
    with pytest.raises(ValueError, match="positive"):
        StateTtlConfig.new_builder(Time.seconds(0)).build()


def test_background_cleanup_can_be_disabled() -> None:
    strategies = StateTtlConfig.new_builder(Time.seconds(1)).disable_cleanup_in_background().build()

    assert strategies.get_cleanup_strategies().get_incremental_cleanup_strategy() is None


def test_retry_strategies_count_and_back_off() -> None:
    fixed = AsyncRetryStrategy.fixed_delay(2, 100, empty_result_predicate, None)
    growing = AsyncRetryStrategy.exponential_backoff(3, 100, 500, 2.0, None, None)

    assert [fixed.can_retry(attempt) for attempt in (1, 2, 3)] == [True, True, False]
    assert [growing.get_backoff_time_millis(attempt) for attempt in (1, 2, 3, 4)] == [100, 200, 400, 500]
    assert fixed.get_retry_predicate().result_predicate() is empty_result_predicate
    assert not AsyncRetryStrategy.no_restart().can_retry(1)
    assert exception_type_predicate(ValueError(), ValueError)


def test_java_functions_cannot_run() -> None:
    with pytest.raises(Exception, match="no JVM"):
        SourceFunction("org.apache.flink.Some")
