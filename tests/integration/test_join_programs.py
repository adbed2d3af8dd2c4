"""Joins, co-groups and whole partitions in programs on real clusters."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from clusters import RunningCluster, StartCluster
from job_support import environment
from verifying.committed_reader import CommittedReader
from verifying.faults import Faults
from verifying.harness import RESTARTS, Run
from verifying.sequence_source import SequencePerKeySource
from verifying.two_phase_sink import TwoPhaseSink, committed_records

from flinkpy.common import Duration, Time, Types, WatermarkStrategy
from flinkpy.common.errors import UserError
from flinkpy.common.watermark_strategy import TimestampAssigner
from flinkpy.datastream import StreamExecutionEnvironment
from flinkpy.datastream.functions import AggregateFunction, CoGroupFunction, ProcessJoinFunction
from flinkpy.datastream.partition_windowed_stream import Order
from flinkpy.datastream.window import TumblingEventTimeWindows

RECORD = Types.TUPLE([Types.STRING(), Types.LONG()])


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return value[1]


@pytest.fixture
def env(shared_cluster: RunningCluster) -> StreamExecutionEnvironment:
    return environment(shared_cluster, 2)


def timed(env: StreamExecutionEnvironment, records: list[tuple[str, int]], type_info: Any = RECORD) -> Any:
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(1000))
    stream = env.from_collection(records, type_info)
    return stream.assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(SecondField()))


class Pair(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: Any) -> Any:
        yield left[0], left[1], right[1]


class Both(CoGroupFunction):
    def co_group(self, first: Any, second: Any) -> Any:
        yield len(first), len(second)


ONES = [("a", 1), ("b", 5), ("a", 12), ("c", 30)]
OTHERS = [("a", 2), ("a", 11), ("b", 4), ("d", 30)]
TEN = TumblingEventTimeWindows.of(Time.milliseconds(10))


@pytest.mark.parametrize("type_info", [RECORD, None], ids=["columns", "objects"])
def test_streams_are_joined_by_interval_and_by_window_and_grouped(
    env: StreamExecutionEnvironment, type_info: Any
) -> None:
    def key(record: Any) -> str:
        return str(record[0])

    def streams() -> tuple[Any, Any]:
        return timed(env, ONES, type_info), timed(env, OTHERS, type_info)

    ones, others = streams()
    interval = ones.key_by(key, Types.STRING()).interval_join(others.key_by(key, Types.STRING()))
    pairs = interval.between(Time.milliseconds(-1), Time.milliseconds(1)).process(Pair())
    assert sorted(pairs.execute_and_collect()) == [("a", 1, 2), ("a", 12, 11), ("b", 5, 4)]

    ones, others = streams()
    interval = ones.key_by(key, Types.STRING()).interval_join(others.key_by(key, Types.STRING()))
    between = interval.between(Time.milliseconds(-1), Time.milliseconds(1))
    assert list(between.lower_bound_exclusive().upper_bound_exclusive().process(Pair()).execute_and_collect()) == []

    ones, others = streams()
    result = ones.join(others).where(key).equal_to(key).window(TEN).apply(lambda one, other: (one[1], other[1]))
    assert sorted(result.execute_and_collect()) == [(1, 2), (5, 4), (12, 11)]

    ones, others = streams()
    grouped = ones.co_group(others).where(key).equal_to(key).window(TEN).apply(Both())
    assert sorted(grouped.execute_and_collect()) == [(0, 1), (1, 0), (1, 1), (1, 1), (1, 1)]


class Total(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + value[1]

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


def test_a_partition_contains_the_records_of_a_subtask_or_of_a_key(env: StreamExecutionEnvironment) -> None:
    def numbers() -> Any:
        return env.from_sequence(1, 1000)

    assert (
        sum(numbers().full_window_partition().map_partition(lambda values: [len(list(values))]).execute_and_collect())
        == 1000
    )
    totals = list(numbers().full_window_partition().reduce(lambda one, other: one + other).execute_and_collect())
    assert sum(totals) == 500_500
    assert len(totals) <= 2
    first = numbers().global_().full_window_partition().sort_partition(lambda n: n % 10, Order.DESCENDING)
    assert [n % 10 for n in first.execute_and_collect()] == sorted([n % 10 for n in range(1000)], reverse=True)

    def keyed() -> Any:
        return env.from_collection([*ONES, *OTHERS], RECORD).key_by("f0").full_window_partition()

    assert sorted(keyed().map_partition(lambda values: [len(list(values))]).execute_and_collect()) == [1, 1, 2, 4]
    assert sorted(keyed().aggregate(Total(), Types.LONG()).execute_and_collect()) == [9, 26, 30, 30]
    assert sorted(keyed().reduce(lambda one, other: (one[0], one[1] + other[1])).execute_and_collect()) == [
        ("a", 26),
        ("b", 9),
        ("c", 30),
        ("d", 30),
    ]
    largest = keyed().sort_partition("f1", Order.DESCENDING).execute_and_collect()
    assert [number for name, number in largest if name == "a"] == [12, 11, 2, 1]


def test_several_results_of_one_job_can_be_collected(env: StreamExecutionEnvironment) -> None:
    numbers = env.from_sequence(1, 10)
    even = numbers.filter(lambda n: n % 2 == 0).collect_async()
    odd = numbers.filter(lambda n: n % 2).collect_async()
    with pytest.raises(UserError, match="before execute_async"):
        next(even)
    with pytest.raises(UserError, match="call execute_async, not execute"):
        env.execute()
    env.execute_async()
    assert (sorted(even), sorted(odd)) == ([2, 4, 6, 8, 10], [1, 3, 5, 7, 9])


class NumberAsTime(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return value[1]


class Matched(ProcessJoinFunction):
    def __init__(self, faults: Faults) -> None:
        self._faults = faults

    def process_element(self, left: Any, right: Any, ctx: Any) -> Any:
        self._faults.hit("pair")
        yield "pair", left[0], left[1], right[1]


def test_a_killed_task_executor_costs_a_partition_nothing(start_cluster: StartCluster, tmp_path: Path) -> None:
    keys, numbers = 10, 150
    faults = Faults(tmp_path / "faults")
    faults.arm("record", "kill", 900)
    cluster = start_cluster(2)
    checkpoints = {
        "execution.checkpointing.interval": "150 ms",
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
    }
    env = environment(cluster, 1, **RESTARTS, **checkpoints)

    def count(record: tuple[int, int]) -> tuple[int, int]:
        faults.hit("record")
        return record

    pair = Types.TUPLE([Types.LONG(), Types.LONG()])
    source = SequencePerKeySource(keys, numbers, 1_000)
    records = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers").rebalance()
    windows = records.map(count, pair).uid("count").full_window_partition()
    windows.sort_partition("f1").uid("sort").sink_to(TwoPhaseSink(str(tmp_path / "output"), faults)).uid("sink")
    expected = Counter((key, number) for key in range(keys) for number in range(numbers))
    with CommittedReader(lambda: committed_records(tmp_path / "output"), expected) as reader:
        run = Run(cluster, env.execute_async("sort"), faults, reader, tmp_path / "hurry")
        try:
            run.wait_for_end()
        finally:
            run.end()
    assert faults.fired("record") == 1
    assert run.num_restarts >= 1
    reader.assert_complete()


@pytest.mark.parametrize("backend", [pytest.param("hashmap", marks=pytest.mark.chaos), "rocksdb"])
def test_a_killed_task_executor_loses_and_repeats_no_pair_of_a_join(
    start_cluster: StartCluster, tmp_path: Path, backend: str
) -> None:
    keys, numbers = 10, 150
    faults = Faults(tmp_path / "faults")
    faults.arm("pair", "kill", 900)
    cluster = start_cluster(3)
    env = environment(
        cluster,
        2,
        **RESTARTS,
        **{
            "execution.checkpointing.interval": "150 ms",
            "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
            "state.backend.type": backend,
        },
    )
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(numbers))

    def keyed(name: str) -> Any:
        source = SequencePerKeySource(keys, numbers, 700)
        records = env.from_source(source, strategy.with_timestamp_assigner(NumberAsTime()), name).uid(name)
        return records.key_by("f0")

    pairs = keyed("left").interval_join(keyed("right")).between(Time.milliseconds(-1), Time.milliseconds(1))
    pairs.process(Matched(faults)).uid("join").sink_to(TwoPhaseSink(str(tmp_path / "output"), faults)).uid("sink")
    expected = Counter(
        ("pair", key, left, right)
        for key in range(keys)
        for left in range(numbers)
        for right in range(max(0, left - 1), min(numbers, left + 2))
    )
    with CommittedReader(lambda: committed_records(tmp_path / "output"), expected) as reader:
        run = Run(cluster, env.execute_async("join"), faults, reader, tmp_path / "hurry")
        try:
            run.wait_for_end()
        finally:
            run.end()
    assert faults.fired("pair") == 1
    assert run.num_restarts >= 1
    reader.assert_complete()
