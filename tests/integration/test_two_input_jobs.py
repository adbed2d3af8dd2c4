"""Operators with two inputs on a real cluster: co-functions, keyed and not, and broadcast state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from clusters import RunningCluster
from job_support import environment

from flinkpy.common import Types
from flinkpy.datastream import (
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    DataStream,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    OutputTag,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from flinkpy.datastream.state import MapStateDescriptor, ValueStateDescriptor

RULES = MapStateDescriptor("rules", Types.LONG(), Types.LONG())
LATE = OutputTag("first", Types.STRING())


@pytest.fixture
def env(shared_cluster: RunningCluster) -> StreamExecutionEnvironment:
    return environment(shared_cluster, 2)


def collected(stream: DataStream) -> list[Any]:
    return sorted(stream.execute_and_collect())


class Label(CoMapFunction):
    def map1(self, value: int) -> tuple[str, int]:
        return ("one", value)

    def map2(self, value: int) -> tuple[str, int] | None:
        return ("two", value) if value % 2 else None


class Repeat(CoFlatMapFunction):
    def flat_map1(self, value: int) -> Iterator[int]:
        yield from [value] * 2

    def flat_map2(self, value: int) -> list[int]:
        return []


class Total(KeyedCoProcessFunction):
    """Emits the running total of the key over both streams."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element1(self, value: int, ctx: Any) -> Iterator[tuple[int, int]]:
        self._total.update((self._total.value() or 0) + value)
        yield ctx.get_current_key(), self._total.value()

    process_element2 = process_element1


class SplitSides(CoProcessFunction):
    def process_element1(self, value: int, ctx: Any) -> Iterator[Any]:
        yield LATE, f"first {value}"

    def process_element2(self, value: int, ctx: Any) -> Iterator[Any]:
        yield value


class CountRules(BroadcastProcessFunction):
    def process_element(self, value: int, ctx: Any) -> Iterator[tuple[str, int]]:
        yield "element", value

    def process_broadcast_element(self, value: int, ctx: Any) -> Iterator[tuple[str, int]]:
        rules = ctx.get_broadcast_state(RULES)
        rules.put(value, value)
        yield "rules", len(list(rules.keys()))


class KeyedRules(KeyedBroadcastProcessFunction):
    def process_element(self, value: int, ctx: Any) -> Iterator[tuple[str, int]]:
        yield "key", ctx.get_current_key()

    def process_broadcast_element(self, value: int, ctx: Any) -> Iterator[tuple[str, int]]:
        ctx.get_broadcast_state(RULES).put(value, value)
        yield "rule", value


def test_co_map_drops_results_of_none(env: StreamExecutionEnvironment) -> None:
    mapped = env.from_sequence(1, 3).connect(env.from_sequence(11, 14)).map(Label())

    assert collected(mapped) == [("one", 1), ("one", 2), ("one", 3), ("two", 11), ("two", 13)]


def test_co_flat_map_emits_any_number_of_results(env: StreamExecutionEnvironment) -> None:
    repeated = env.from_sequence(1, 3).connect(env.from_sequence(1, 100)).flat_map(Repeat(), Types.LONG())

    assert collected(repeated) == [1, 1, 2, 2, 3, 3]


def test_two_keyed_streams_share_the_state_of_a_key(env: StreamExecutionEnvironment) -> None:
    connected = env.from_sequence(1, 300).connect(env.from_sequence(1, 300))
    totals = connected.key_by(lambda n: n % 3, lambda n: n % 3, Types.LONG()).process(Total())

    results = collected(totals)

    assert len(results) == 600
    highest = dict(results)
    assert highest == {key: 2 * sum(n for n in range(1, 301) if n % 3 == key) for key in range(3)}


def test_an_operator_with_two_inputs_can_have_side_outputs(env: StreamExecutionEnvironment) -> None:
    processed = env.from_sequence(1, 2).connect(env.from_sequence(8, 9)).process(SplitSides(), Types.LONG())

    assert collected(processed.get_side_output(LATE)) == ["first 1", "first 2"]


def test_every_subtask_gets_every_broadcast_record(env: StreamExecutionEnvironment) -> None:
    ruled = env.from_sequence(1, 4).connect(env.from_sequence(1, 3).broadcast(RULES)).process(CountRules())

    results = collected(ruled)

    assert [value for kind, value in results if kind == "element"] == [1, 2, 3, 4]
    assert [value for kind, value in results if kind == "rules"] == [1, 1, 2, 2, 3, 3]


def test_a_keyed_stream_can_read_broadcast_state(env: StreamExecutionEnvironment) -> None:
    keyed = env.from_sequence(1, 4).key_by(lambda n: n % 2)
    ruled = keyed.connect(env.from_sequence(1, 2).broadcast(RULES)).process(KeyedRules())

    assert collected(ruled) == [("key", 0)] * 2 + [("key", 1)] * 2 + [("rule", 1)] * 2 + [("rule", 2)] * 2
