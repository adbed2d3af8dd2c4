from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from flinkpy._proto import job_pb2
from flinkpy.common import Configuration
from flinkpy.common.errors import JobSubmissionError
from flinkpy.datastream import DataStream, StreamExecutionEnvironment
from flinkpy.graph.operator_hashes import id_of_uid


def job_graph(build: Callable[[DataStream], Any], parallelism: int = 2, **options: str) -> job_pb2.JobGraph:
    configuration = Configuration.from_dict({"parallelism.default": str(parallelism), **options})
    env = StreamExecutionEnvironment(configuration)
    build(env.from_sequence(1, 10))
    return env.generate_job_graph()


def ids(graph: job_pb2.JobGraph) -> dict[str, str]:
    return {operator.name: operator.operator_id for vertex in graph.vertices for operator in vertex.chain}


def keyed(numbers: DataStream) -> DataStream:
    return numbers.map(str).name("First").key_by(lambda x: x).map(str).name("Second")


def test_same_program_has_the_same_ids() -> None:
    assert ids(job_graph(keyed)) == ids(job_graph(keyed))
    assert len(set(ids(job_graph(keyed)).values())) == 3


def test_ids_do_not_depend_on_parallelism_chaining_functions_and_settings() -> None:
    expected = ids(job_graph(keyed))

    def changed(numbers: DataStream) -> None:
        first = numbers.map(lambda x: (x, x)).name("First").set_buffer_timeout(5).set_description("other")
        first.key_by(lambda x: x[0]).map(repr).name("Second").set_parallelism(3).set_max_parallelism(700)

    assert ids(job_graph(changed, parallelism=1)) == expected
    assert ids(job_graph(keyed, **{"pipeline.operator-chaining.enabled": "false"})) == expected


def test_ids_do_not_depend_on_operators_added_later() -> None:
    def longer(numbers: DataStream) -> None:
        keyed(numbers).print()

    expected = ids(job_graph(keyed))
    assert {name: identity for name, identity in ids(job_graph(longer)).items() if name in expected} == expected


def test_operator_inserted_before_changes_the_ids_behind_it_but_not_those_of_uids() -> None:
    def inserted(numbers: DataStream) -> None:
        keyed(numbers.map(abs).name("New")).uid("second")

    before, after = ids(job_graph(lambda numbers: keyed(numbers).uid("second"))), ids(job_graph(inserted))
    assert before["First"] != after["First"]
    assert before["Second"] == after["Second"] == id_of_uid("second")


def test_uid_hash_is_the_id() -> None:
    graph = job_graph(lambda numbers: numbers.map(str).name("M").set_uid_hash("0123456789ABCDEF" * 2))

    assert ids(graph)["M"] == "0123456789abcdef" * 2
    with pytest.raises(ValueError, match="32 character"):
        job_graph(lambda numbers: numbers.map(str).set_uid_hash("xyz"))


def test_duplicate_uid_is_rejected_with_both_operators() -> None:
    def twice(numbers: DataStream) -> None:
        numbers.map(str).name("One").uid("same").map(str).name("Two").uid("same")

    with pytest.raises(JobSubmissionError, match="operators 'One' and 'Two' have the same uid 'same'"):
        job_graph(twice)


def test_duplicate_uid_hash_is_rejected() -> None:
    def twice(numbers: DataStream) -> None:
        numbers.map(str).name("One").set_uid_hash("ab" * 16).map(str).name("Two").uid("u").set_uid_hash("AB" * 16)

    with pytest.raises(JobSubmissionError, match="operators 'One' and 'Two' have the same id abab"):
        job_graph(twice)


def test_missing_uid_is_rejected_if_ids_may_not_be_generated() -> None:
    no_uids = {"pipeline.auto-generate-uids": "false"}

    with pytest.raises(JobSubmissionError, match="operator 'Source: Sequence Source' has no uid"):
        job_graph(keyed, **no_uids)

    def named(numbers: DataStream) -> None:
        numbers.uid("source").map(str).uid("map")

    assert list(ids(job_graph(named, **no_uids)).values()) == [id_of_uid("source"), id_of_uid("map")]


def test_uid_and_max_parallelism_reach_the_job_graph() -> None:
    graph = job_graph(
        lambda numbers: numbers.key_by(lambda x: x).map(str).uid("m").set_max_parallelism(256),
        **{"pipeline.max-parallelism": "512"},
    )

    source, mapped = graph.vertices
    assert (source.max_parallelism, mapped.max_parallelism) == (512, 256)
    assert mapped.chain[0].uid == "m"
