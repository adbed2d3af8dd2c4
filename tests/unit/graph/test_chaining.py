from __future__ import annotations

import json

import pytest

from flinkpy.common import Configuration, Types
from flinkpy.common.errors import JobSubmissionError
from flinkpy.datastream import OutputTag, ProcessFunction, StreamExecutionEnvironment
from flinkpy.graph.validation import validate_job_graph


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment(Configuration().set_integer("parallelism.default", 2))


def vertices(env: StreamExecutionEnvironment) -> list[tuple[str, int]]:
    job_graph = env.generate_job_graph()
    validate_job_graph(job_graph)
    return [(vertex.name, vertex.parallelism) for vertex in job_graph.vertices]


def test_operators_of_the_same_parallelism_are_chained(env: StreamExecutionEnvironment) -> None:
    env.from_sequence(1, 2).map(str).filter(bool).print()

    assert vertices(env) == [("Source: Sequence Source -> Map -> Filter -> Sink: Print to Std. Out", 2)]


def test_collection_source_is_not_parallel_and_so_not_chained(env: StreamExecutionEnvironment) -> None:
    env.from_collection([1]).map(str).print()

    assert vertices(env) == [("Source: Collection Source", 1), ("Map -> Sink: Print to Std. Out", 2)]


def test_key_by_breaks_the_chain(env: StreamExecutionEnvironment) -> None:
    env.from_sequence(1, 2).key_by(lambda x: x).reduce(max).print()

    assert vertices(env) == [("Source: Sequence Source", 2), ("Keyed Reduce -> Sink: Print to Std. Out", 2)]


def test_branches_are_shown_in_parentheses(env: StreamExecutionEnvironment) -> None:
    stream = env.from_sequence(1, 2)
    stream.map(str).name("A").print()
    stream.map(str).name("B")

    assert vertices(env) == [("Source: Sequence Source -> (A -> Sink: Print to Std. Out, B)", 2)]


def test_disabled_chaining_isolates_an_operator(env: StreamExecutionEnvironment) -> None:
    env.from_sequence(1, 2).map(str).map(str).disable_chaining().name("Alone").map(str)

    assert [name for name, _ in vertices(env)] == ["Source: Sequence Source -> Map", "Alone", "Map"]


def test_new_chain_starts_at_its_operator(env: StreamExecutionEnvironment) -> None:
    env.from_sequence(1, 2).map(str).start_new_chain().name("Head").map(str)

    assert [name for name, _ in vertices(env)] == ["Source: Sequence Source", "Head -> Map"]


def test_chaining_can_be_switched_off_for_the_whole_job(env: StreamExecutionEnvironment) -> None:
    env.disable_operator_chaining()
    env.from_sequence(1, 2).map(str).print()

    assert len(vertices(env)) == 3


def test_slot_sharing_groups_are_inherited_and_not_chained_across(env: StreamExecutionEnvironment) -> None:
    env.from_sequence(1, 2).map(str).slot_sharing_group("blue").map(str).name("Inherits").print()
    job_graph = env.generate_job_graph()

    assert [(vertex.name, vertex.slot_sharing_group) for vertex in job_graph.vertices] == [
        ("Source: Sequence Source", "default"),
        ("Map -> Inherits -> Sink: Print to Std. Out", "blue"),
    ]


def test_inputs_of_different_groups_fall_back_to_the_default_group(env: StreamExecutionEnvironment) -> None:
    blue = env.from_sequence(1, 2).slot_sharing_group("blue")
    red = env.from_sequence(1, 2).slot_sharing_group("red")
    blue.union(red).map(str)
    job_graph = env.generate_job_graph()

    assert job_graph.vertices[-1].slot_sharing_group == "default"


def test_different_max_parallelism_is_chained_unless_configured(env: StreamExecutionEnvironment) -> None:
    env.from_sequence(1, 2).map(str).set_max_parallelism(64).map(str).set_max_parallelism(32)
    job_graph = env.generate_job_graph()
    assert [vertex.max_parallelism for vertex in job_graph.vertices] == [32]

    env.configure(
        Configuration().set_boolean("pipeline.operator-chaining.chain-operators-with-different-max-parallelism", False)
    )
    env.from_sequence(1, 2).map(str).set_max_parallelism(64).map(str).set_max_parallelism(32)
    assert [vertex.max_parallelism for vertex in env.generate_job_graph().vertices] == [-1, 64, 32]


def test_union_is_several_edges_of_one_input(env: StreamExecutionEnvironment) -> None:
    first, second = env.from_sequence(1, 2), env.from_sequence(3, 4)
    first.union(second, first).map(str)
    job_graph = env.generate_job_graph()
    validate_job_graph(job_graph)

    union = job_graph.vertices[-1]
    assert union.name == "Map"
    assert [edge.input_index for edge in union.inputs] == [0, 0, 0]
    produced = [result.id for vertex in job_graph.vertices for result in vertex.results]
    assert sorted(edge.source_data_set_id for edge in union.inputs) == sorted(produced)
    assert len(set(produced)) == 3


def test_partitionings_have_their_names_and_patterns(env: StreamExecutionEnvironment) -> None:
    source = env.from_sequence(1, 2)
    for stream in (
        source.shuffle(),
        source.rescale(),
        source.rebalance(),
        source.forward(),
        source.broadcast(),
        source.partition_custom(lambda key, count: key % count, lambda value: value),
    ):
        stream.map(str).disable_chaining()
    job_graph = env.generate_job_graph()

    results = [(result.partitioner_name, result.distribution) for result in job_graph.vertices[0].results]
    all_to_all, pointwise = 1, 2
    assert results == [
        ("SHUFFLE", all_to_all),
        ("RESCALE", pointwise),
        ("REBALANCE", all_to_all),
        ("FORWARD", pointwise),
        ("BROADCAST", all_to_all),
        ("CUSTOM", all_to_all),
    ]


def test_last_partitioning_wins(env: StreamExecutionEnvironment) -> None:
    env.from_sequence(1, 2).shuffle().rebalance().map(str)

    assert [result.partitioner_name for result in env.generate_job_graph().vertices[0].results] == ["REBALANCE"]


def test_forward_does_not_allow_another_parallelism(env: StreamExecutionEnvironment) -> None:
    env.from_sequence(1, 2).forward().map(str).name("narrow").set_parallelism(1)

    with pytest.raises(JobSubmissionError, match="'narrow' has 1"):
        env.generate_job_graph()


def test_buffer_timeout_is_that_of_the_producer(env: StreamExecutionEnvironment) -> None:
    env.set_buffer_timeout(-1)
    env.from_sequence(1, 2).rebalance().map(str).set_buffer_timeout(7).rebalance().map(str)
    job_graph = env.generate_job_graph()

    assert [result.buffer_timeout_ms for vertex in job_graph.vertices for result in vertex.results] == [-1, 7]


class _Split(ProcessFunction):
    def process_element(self, value, ctx):  # type: ignore[no-untyped-def]
        yield value


def test_side_output_is_an_output_with_its_tag_and_type(env: StreamExecutionEnvironment) -> None:
    tag = OutputTag("odd", Types.LONG())
    main = env.from_sequence(1, 2).process(_Split(), Types.STRING())
    main.map(str)
    main.get_side_output(tag).map(str).name("Odd").disable_chaining()
    job_graph = env.generate_job_graph()
    validate_job_graph(job_graph)

    head = job_graph.vertices[0]
    assert head.name == "Source: Sequence Source -> Process -> Map"
    outputs = [(o.WhichOneof("target"), o.side_output_tag) for o in head.chain[1].outputs]
    assert outputs == [("chained_operator", ""), ("result", "odd")]
    assert head.results[0].type_pickle
    import pickle

    assert pickle.loads(head.results[0].type_pickle) == Types.LONG()


def test_operator_ids_do_not_change_from_run_to_run(env: StreamExecutionEnvironment) -> None:
    def build() -> list[str]:
        stream = env.from_sequence(1, 2).map(str)
        stream.key_by(lambda x: x).reduce(max).uid("reducer").print()
        return [op.operator_id for vertex in env.generate_job_graph().vertices for op in vertex.chain]

    ids = build()

    assert ids == build()
    assert len(set(ids)) == len(ids)
    assert all(len(identity) == 32 for identity in ids)


def test_uid_keeps_an_operators_id_when_the_graph_changes(env: StreamExecutionEnvironment) -> None:
    env.from_sequence(1, 2).map(str).uid("the-map")
    before = env.generate_job_graph().vertices[0].chain[1].operator_id
    env.from_sequence(1, 2).filter(bool).rebalance().map(str).uid("the-map")

    assert env.generate_job_graph().vertices[1].chain[0].operator_id == before


def test_same_uid_twice_is_an_error_that_names_both(env: StreamExecutionEnvironment) -> None:
    env.from_sequence(1, 2).map(str).name("A").uid("x").map(str).name("B").uid("x")

    with pytest.raises(JobSubmissionError, match="'A' and 'B' have the same uid 'x'"):
        env.generate_job_graph()


def test_uid_hash_is_the_operators_id(env: StreamExecutionEnvironment) -> None:
    env.from_sequence(1, 2).map(str).set_uid_hash("0123456789ABCDEF" * 2)

    assert env.generate_job_graph().vertices[0].chain[1].operator_id == "0123456789abcdef" * 2
    with pytest.raises(ValueError, match="32 character"):
        env.from_sequence(1, 2).set_uid_hash("xyz")


def test_missing_uid_is_an_error_if_ids_may_not_be_generated(env: StreamExecutionEnvironment) -> None:
    env.get_config().disable_auto_generated_uids()
    env.from_sequence(1, 2).uid("source").map(str)

    with pytest.raises(JobSubmissionError, match="operator 'Map' has no uid"):
        env.generate_job_graph()


def test_parallelism_above_its_maximum_is_an_error(env: StreamExecutionEnvironment) -> None:
    env.from_sequence(1, 2).map(str).set_parallelism(8).set_max_parallelism(4)

    with pytest.raises(JobSubmissionError, match="parallelism 8 is higher than its maximum parallelism 4"):
        env.generate_job_graph()


def test_program_without_operators_cannot_be_executed(env: StreamExecutionEnvironment) -> None:
    env.from_sequence(1, 2)

    with pytest.raises(JobSubmissionError, match="No operators defined"):
        env.generate_job_graph()


def test_program_is_cleared_after_the_graph_is_generated(env: StreamExecutionEnvironment) -> None:
    env.from_sequence(1, 2).print()
    env.generate_job_graph()

    with pytest.raises(JobSubmissionError, match="No operators defined"):
        env.generate_job_graph()


def test_thousands_of_operators_do_not_exhaust_the_stack(env: StreamExecutionEnvironment) -> None:
    stream = env.from_sequence(1, 2)
    for _ in range(2_000):
        stream = stream.map(abs)
    job_graph = env.generate_job_graph()

    assert len(job_graph.vertices[0].chain) == 2_001
    validate_job_graph(job_graph)


def test_execution_plan_lists_nodes_with_their_predecessors(env: StreamExecutionEnvironment) -> None:
    env.from_collection([(1, 2)]).map(lambda x: x).key_by(lambda x: x[0]).sum(1).print()

    nodes = json.loads(env.get_execution_plan())["nodes"]

    assert [(node["id"], node["type"], node["pact"], node["parallelism"]) for node in nodes] == [
        (1, "Source: Collection Source", "Data Source", 1),
        (2, "Map", "Operator", 2),
        (3, "Keyed Aggregation", "Operator", 2),
        (4, "Sink: Print to Std. Out", "Data Sink", 2),
    ]
    strategies = [[p["ship_strategy"] for p in node.get("predecessors", [])] for node in nodes]
    assert strategies == [[], ["REBALANCE"], ["HASH"], ["FORWARD"]]
    assert env.generate_job_graph().vertices, "the plan forgets nothing"
