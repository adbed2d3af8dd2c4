"""The execution plan as JSON. It equals that of PyFlink 2.3.0 without PyFlink's helper operators."""

from __future__ import annotations

import json
from typing import Any

import pytest

from flinkpy.common import Configuration, Types
from flinkpy.common.errors import JobSubmissionError
from flinkpy.datastream import CoMapFunction, StreamExecutionEnvironment

PAIR = Types.TUPLE([Types.INT(), Types.INT()])


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment(Configuration())
    env.set_parallelism(2)
    return env


def plan(env: StreamExecutionEnvironment) -> list[dict[str, Any]]:
    return json.loads(env.get_execution_plan())["nodes"]


def same(value: Any) -> Any:
    return value


def test_every_partitioning_has_its_ship_strategy(env: StreamExecutionEnvironment) -> None:
    stream = env.from_collection([(1, 2)], PAIR).map(same).rebalance().map(same).key_by(same).map(same)
    stream = stream.shuffle().filter(bool).broadcast().map(same).rescale().map(same)
    stream.partition_custom(lambda key, n: 0, same).map(same).print()

    nodes = plan(env)
    strategies = [node["predecessors"][0]["ship_strategy"] for node in nodes[1:]]
    assert strategies == ["REBALANCE", "REBALANCE", "HASH", "SHUFFLE", "BROADCAST", "RESCALE", "CUSTOM", "FORWARD"]
    assert [node["pact"] for node in nodes] == ["Data Source", *["Operator"] * 7, "Data Sink"]
    assert [node["parallelism"] for node in nodes] == [1, *[2] * 8]
    assert nodes[0] == {
        "id": 1,
        "type": "Source: Collection Source",
        "pact": "Data Source",
        "contents": "Source: Collection Source",
        "parallelism": 1,
    }


def test_operator_lists_all_its_predecessors(env: StreamExecutionEnvironment) -> None:
    class Both(CoMapFunction):
        def map1(self, value: Any) -> Any:
            return value

        map2 = map1

    source = env.from_collection([(1, 2)], PAIR)
    united = source.union(source.map(same, PAIR))
    united.connect(source).map(Both()).name("co").print("out").name("px")

    source_node, mapped, co, sink = plan(env)
    assert [(edge["id"], edge["ship_strategy"]) for edge in co["predecessors"]] == [
        (source_node["id"], "REBALANCE"),
        (mapped["id"], "FORWARD"),
        (source_node["id"], "REBALANCE"),
    ]
    assert (co["type"], sink["type"], sink["contents"]) == ("co", "Sink: px", "Sink: px")


def test_description_is_the_contents_of_an_operator(env: StreamExecutionEnvironment) -> None:
    env.from_sequence(1, 2).map(same).set_description("leaves them as they are").print()

    assert [(node["type"], node["contents"]) for node in plan(env)][1] == ("Map", "leaves them as they are")


def test_requesting_the_plan_does_not_clear_the_program(env: StreamExecutionEnvironment) -> None:
    env.from_sequence(1, 2).print()

    assert plan(env) == plan(env)
    env.close()
    with pytest.raises(JobSubmissionError, match="No operators defined"):
        env.get_execution_plan()
