"""The vertices of a batch job whose parallelism the JobMaster decides."""

from __future__ import annotations

from typing import Any

import pytest

from flinkpy.common import Configuration
from flinkpy.common.errors import JobSubmissionError
from flinkpy.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from flinkpy.graph.validation import validate_job_graph


def batch_environment(**entries: str) -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment(Configuration.from_dict({"parallelism.default": "4", **entries}))
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    return env


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    return batch_environment()


def parallelisms(env: StreamExecutionEnvironment) -> dict[str, Any]:
    job_graph = env.generate_job_graph()
    validate_job_graph(job_graph)
    return {
        vertex.name.rpartition(" -> ")[2]: vertex.parallelism
        if vertex.parallelism > 0
        else f"up to {vertex.parallelism_bound}"
        for vertex in job_graph.vertices
    }


def program(env: StreamExecutionEnvironment) -> Any:
    """source => reduce => sink"""
    return env.from_sequence(1, 9).name("source").key_by(lambda x: x).reduce(max).name("reduce").rebalance()


def test_job_master_decides_for_operators_without_a_parallelism(env: StreamExecutionEnvironment) -> None:
    program(env).map(str).name("map").print().name("sink")
    assert parallelisms(env) == {"Source: source": "up to 4", "reduce": "up to 4", "Sink: sink": "up to 4"}


def test_explicit_parallelism_is_kept(env: StreamExecutionEnvironment) -> None:
    program(env).map(str).name("map").set_parallelism(3).print().name("sink").set_parallelism(3)
    assert parallelisms(env) == {"Source: source": "up to 4", "reduce": "up to 4", "Sink: sink": 3}


def test_explicit_parallelism_of_one_operator_fixes_its_chain(env: StreamExecutionEnvironment) -> None:
    program(env).map(str).name("map").set_parallelism(4).print().name("sink")
    assert parallelisms(env)["Sink: sink"] == 4


def test_explicit_parallelism_fixes_vertices_connected_by_forward_edges(env: StreamExecutionEnvironment) -> None:
    program(env).map(str).name("first").map(str).name("second").start_new_chain().set_parallelism(4).name("second")
    assert parallelisms(env) == {"Source: source": "up to 4", "reduce": "up to 4", "first": 4, "second": 4}


def test_custom_partitioner_fixes_the_parallelism_of_its_consumer(env: StreamExecutionEnvironment) -> None:
    program(env).partition_custom(lambda key, count: key % count, lambda x: x).map(str).name("map")
    assert parallelisms(env)["map"] == 4


def test_non_parallel_operator_has_a_fixed_parallelism(env: StreamExecutionEnvironment) -> None:
    env.from_collection([1]).map(str).name("map").set_parallelism(1).print().name("sink").set_parallelism(1)
    assert set(parallelisms(env).values()) == {1}


def test_streaming_mode_fixes_every_parallelism() -> None:
    env = StreamExecutionEnvironment(Configuration.from_dict({"parallelism.default": "4"}))
    program(env).print().name("sink")
    assert set(parallelisms(env).values()) == {4}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("execution.batch.adaptive.auto-parallelism.enabled", "false"),
        ("execution.batch-shuffle-mode", "ALL_EXCHANGES_PIPELINED"),
    ],
)
def test_configuration_can_disable_the_decision(key: str, value: str) -> None:
    env = batch_environment(**{key: value})
    program(env).print().name("sink")
    assert set(parallelisms(env).values()) == {4}


def test_undecided_parallelism_without_a_bound_is_rejected(env: StreamExecutionEnvironment) -> None:
    program(env).print()
    job_graph = env.generate_job_graph()
    job_graph.vertices[0].parallelism_bound = 0
    with pytest.raises(JobSubmissionError, match="parallelism -1"):
        validate_job_graph(job_graph)
