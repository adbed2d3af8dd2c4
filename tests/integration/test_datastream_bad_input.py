"""Each mistake in a DataStream program causes one error that names the culprit and the remedy."""

from __future__ import annotations

import re
import threading
from typing import Any

import pytest
from clusters import RunningCluster
from job_support import FIXED_DELAY, environment, wait_until_idle

from flinkpy.common import Time, Types, WatermarkStrategy
from flinkpy.common.errors import JobExecutionError, StateSerializationError, TypeMismatchError
from flinkpy.common.watermark_strategy import TimestampAssigner
from flinkpy.datastream import (
    AggregateFunction,
    KeyedProcessFunction,
    ProcessFunction,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
)
from flinkpy.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from flinkpy.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from flinkpy.datastream.window import Trigger, TriggerResult, TumblingEventTimeWindows

PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])


class ByField(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return value[1]


@pytest.fixture
def cluster(shared_cluster: RunningCluster) -> RunningCluster:
    return shared_cluster


IN_EVENT_TIME = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(ByField())


def pairs(env: StreamExecutionEnvironment) -> Any:
    return env.from_collection([("a", 1), ("a", 2)], type_info=PAIR)


def windows(env: StreamExecutionEnvironment) -> Any:
    keyed = pairs(env).assign_timestamps_and_watermarks(IN_EVENT_TIME).key_by(lambda pair: pair[0])
    return keyed.window(TumblingEventTimeWindows.of(Time.seconds(1)))


class Five(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        return 5


class FiveOfAWindow(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        return 5


class Undecided(Trigger):
    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> Any:
        return None

    def on_processing_time(self, time: int, window: Any, ctx: Any) -> Any:
        return TriggerResult.CONTINUE

    on_event_time = on_processing_time

    def on_merge(self, window: Any, ctx: Any) -> None:
        pass

    def clear(self, window: Any, ctx: Any) -> None:
        pass


class Keep(KeyedProcessFunction):
    """Puts an object that cannot be pickled into state of the given kind."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def open(self, runtime_context: Any) -> None:
        anything = Types.PICKLED_BYTE_ARRAY()
        if self.kind == "value":
            self.keep = runtime_context.get_state(ValueStateDescriptor("locks", anything)).update
        elif self.kind == "list":
            self.keep = runtime_context.get_list_state(ListStateDescriptor("locks", anything)).add
        else:
            state = runtime_context.get_map_state(MapStateDescriptor("locks", Types.STRING(), anything))
            self.keep = lambda lock: state.put("x", lock)

    def process_element(self, value: Any, ctx: Any) -> Any:
        # Only once per key: a later access while a snapshot is written would fail before the snapshot does.
        if value < 3:
            self.keep(threading.Lock())
        yield value


class Locks(AggregateFunction):
    def create_accumulator(self) -> Any:
        return threading.Lock()

    def add(self, value: Any, accumulator: Any) -> Any:
        return accumulator

    def get_result(self, accumulator: Any) -> int:
        return 1

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a


def failure_of(cluster: RunningCluster, env: StreamExecutionEnvironment, stream: Any) -> JobExecutionError:
    stream.print()
    with pytest.raises(JobExecutionError) as raised:
        env.execute()
    wait_until_idle(cluster)
    return raised.value


@pytest.mark.parametrize(
    ("program", "told"),
    [
        (lambda env: pairs(env).process(Five()), "operator Process.* must yield them or return an iterable"),
        (
            lambda env: pairs(env).flat_map(lambda pair: 5),
            "Flat Map.* must yield them or return an iterable",
        ),
        (lambda env: windows(env).process(FiveOfAWindow()), "must yield them or return an iterable"),
        (
            lambda env: pairs(env).key_by(lambda pair: {"k": 1}).reduce(lambda a, b: a),
            "cannot be a key, because it can change",
        ),
        (lambda env: windows(env).trigger(Undecided()).process(FiveOfAWindow()), "must return a TriggerResult"),
    ],
)
def test_the_error_of_a_wrong_return_value_says_what_to_return(
    cluster: RunningCluster, program: Any, told: str
) -> None:
    env = environment(cluster, 1)
    failure = failure_of(cluster, env, program(env))
    headline = str(failure).splitlines()[-1]
    assert re.search(told, headline), headline


def test_a_value_of_another_type_than_declared_is_reported_once(cluster: RunningCluster) -> None:
    env = environment(cluster, 1)
    failure = failure_of(cluster, env, pairs(env).map(lambda pair: pair[0], output_type=Types.INT()))
    assert "operator Map: 'a' (str) is not a Integer" in str(failure)
    assert isinstance(failure.cause, TypeMismatchError) and failure.cause.__cause__ is None


@pytest.mark.parametrize("kind", ["value", "list", "map"])
def test_state_that_cannot_be_pickled_fails_the_job_at_the_checkpoint(cluster: RunningCluster, kind: str) -> None:
    """The heap backend pickles state only in a checkpoint. The job does not restart, because it would fail again."""
    env = environment(cluster, 1, **FIXED_DELAY, **{"execution.checkpointing.interval": "50 ms"})
    source = DataGeneratorSource(lambda n: n, 1_000_000, RateLimiterStrategy.per_second(200), Types.LONG())
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    stream = numbers.key_by(lambda n: n % 3).process(Keep(kind), Types.LONG())
    message = str(failure_of(cluster, env, stream))
    for part in ("checkpoint 1 failed", "'KeyedProcess'", "state 'locks'", "key ", "_thread.lock"):
        assert part in message
    assert "cannot be pickled, so it cannot be kept in state" in message


@pytest.mark.parametrize("kind", ["value", "list", "map"])
def test_state_that_cannot_be_pickled_fails_the_job_at_once_in_rocksdb(cluster: RunningCluster, kind: str) -> None:
    env = environment(cluster, 1, **FIXED_DELAY, **{"state.backend.type": "rocksdb"})
    stream = env.from_sequence(0, 9).key_by(lambda n: n % 3).process(Keep(kind), Types.LONG())
    failure = failure_of(cluster, env, stream)
    assert isinstance(failure.cause, StateSerializationError) and failure.cause.__cause__ is None
    assert "self.keep(threading.Lock())" in str(failure), "the user's line comes first"
    assert "operator KeyedProcess: <unlocked _thread.lock" in str(failure)


def test_the_error_of_an_accumulator_that_cannot_be_pickled_names_the_window_in_rocksdb(
    cluster: RunningCluster,
) -> None:
    env = environment(cluster, 1, **{"state.backend.type": "rocksdb"})
    failure = failure_of(cluster, env, windows(env).aggregate(Locks()))
    assert "operator TumblingEventTimeWindows: <unlocked _thread.lock" in str(failure)
    assert "Traceback" not in str(failure), "the error contains nothing of the user's code"


class Texts(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield f"text {value}"


@pytest.mark.parametrize("how", ["map", "flat_map", "process"])
def test_a_result_of_another_type_than_declared_fails_at_its_own_operator(cluster: RunningCluster, how: str) -> None:
    stream = environment(cluster, 1).from_sequence(1, 3)
    declared = {
        "map": lambda: stream.map(lambda value: f"text {value}", output_type=Types.INT()),
        "flat_map": lambda: stream.flat_map(lambda value: [f"text {value}"], output_type=Types.INT()),
        "process": lambda: stream.process(Texts(), output_type=Types.INT()),
    }[how]()
    declared.name("the culprit").map(lambda value: value + 1).name("innocent").print()
    with pytest.raises(JobExecutionError) as raised:
        stream.get_execution_environment().execute()
    assert isinstance(raised.value.cause, TypeMismatchError)
    assert "operator the culprit: 'text 1' (str) is not a Integer" in str(raised.value)


def test_chains_of_any_length_run(cluster: RunningCluster) -> None:
    stream = environment(cluster, 1).from_collection([1, 2], type_info=Types.LONG())
    for _ in range(30):
        stream = stream.flat_map(lambda value: [value + 1])
    for _ in range(400):
        stream = stream.process(AddOne())
    with stream.execute_and_collect() as results:
        assert list(results) == [431, 432]


class AddOne(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value + 1
