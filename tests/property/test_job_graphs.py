"""The JobGraph of any program is valid, complete and the same every time."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given, settings

from flinkpy._proto import job_pb2
from flinkpy.common import Configuration
from flinkpy.datastream import DataStream, StreamExecutionEnvironment
from flinkpy.graph.chaining import build_chains
from flinkpy.graph.stream_graph import StreamGraphOptions, build_stream_graph
from flinkpy.graph.validation import validate_job_graph

#: (operation, index of its stream, index of the other stream, parallelism)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["map", "keyed", "union", "rebalance", "shuffle", "broadcast", "print", "isolated", "group"]),
        st.integers(0, 30),
        st.integers(0, 30),
        st.integers(1, 3),
    ),
    min_size=1,
    max_size=15,
)


def build(env: StreamExecutionEnvironment, steps: list[tuple[str, int, int, int]]) -> None:
    streams: list[DataStream] = [env.from_sequence(1, 2), env.from_collection([1]).map(int)]
    streams = [stream.map(int) for stream in streams]
    for operation, first, second, parallelism in steps:
        stream, other = streams[first % len(streams)], streams[second % len(streams)]
        match operation:
            case "map":
                streams.append(stream.map(int).set_parallelism(parallelism))
            case "keyed":
                streams.append(stream.key_by(int).reduce(max).set_parallelism(parallelism))
            case "union":
                streams.append(stream.union(other).map(int).set_parallelism(parallelism))
            case "rebalance" | "shuffle" | "broadcast":
                streams.append(getattr(stream, operation)().map(int).set_parallelism(parallelism))
            case "isolated":
                streams.append(stream.map(int).disable_chaining())
            case "group":
                streams.append(stream.map(int).slot_sharing_group(f"g{parallelism}"))
            case "print":
                stream.print().set_parallelism(parallelism)


def generate(steps: list[tuple[str, int, int, int]]) -> job_pb2.JobGraph:
    env = StreamExecutionEnvironment(Configuration().set_integer("parallelism.default", 2))
    build(env, steps)
    return env.generate_job_graph("same")


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_job_graph_is_valid_and_the_same_every_time(steps: list[tuple[str, int, int, int]]) -> None:
    first, second = generate(steps), generate(steps)

    validate_job_graph(first)
    for job_graph in (first, second):
        job_graph.job_id, job_graph.created_ms = "", 0
    assert first == second


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_every_operator_is_in_one_chain_and_every_edge_leads_on(steps: list[tuple[str, int, int, int]]) -> None:
    env = StreamExecutionEnvironment(Configuration().set_integer("parallelism.default", 2))
    build(env, steps)
    graph = build_stream_graph(env._operators, "p", StreamGraphOptions(parallelism=2))

    chains = build_chains(graph)

    assert sorted(node.id for chain in chains for node in chain.nodes) == [node.id for node in graph.nodes]
    for chain in chains:
        assert len({(node.parallelism, node.slot_sharing_group) for node in chain.nodes}) == 1
        for node in chain.nodes[1:]:
            assert len(node.in_edges) == 1, "only the head of a chain has several inputs"
            assert node.in_edges[0].source in chain.nodes[: chain.nodes.index(node)], "producers come first"
        for edge in chain.results:
            assert edge.target in [other.head for other in chains]
