"""A checkpoint that does not fit the job is refused before any task runs. The error names the misfit."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from flinkpy._proto import checkpoint_pb2 as pb
from flinkpy._proto import job_pb2
from flinkpy.checkpoint.job_description import (
    InputDescription,
    OperatorDescription,
    VertexDescription,
    describe_job_graph,
)
from flinkpy.checkpoint.metadata import FORMAT_VERSION
from flinkpy.checkpoint.restore_checks import check_restore
from flinkpy.checkpoint.state_assignment import assign_state
from flinkpy.common.errors import StateRestoreError
from flinkpy.common.key_groups import key_group_range

PATH = "/savepoints/savepoint-1"


def a_file() -> pb.StreamStateHandle:
    return pb.StreamStateHandle(path="/c/f", size_bytes=1)


def metadata_with(*operator_ids: str, parallelism: int = 2, max_parallelism: int = 128) -> pb.CheckpointMetadata:
    """Every subtask of every operator has a file of its key groups."""
    metadata = pb.CheckpointMetadata(version=FORMAT_VERSION, python_version="3.11.4", job_id="other")
    for operator_id in operator_ids:
        operator = metadata.operators.add(
            operator_id=operator_id,
            uid=f"uid-{operator_id}",
            name=f"Operator {operator_id}",
            parallelism=parallelism,
            max_parallelism=max_parallelism,
        )
        for subtask in range(parallelism):
            handle = operator.subtasks[subtask].keyed.add().key_groups
            own = key_group_range(max_parallelism, parallelism, subtask)
            handle.key_groups.start, handle.key_groups.end = own.start, own.end
            handle.file.CopyFrom(a_file())
    return metadata


def vertex(name: str, *operator_ids: str, parallelism: int = 2, **options) -> VertexDescription:
    operators = tuple(OperatorDescription(o, f"uid-{o}", f"Operator {o}") for o in operator_ids)
    settings = {"max_parallelism": 128, **options}
    return VertexDescription(name, name, operators, parallelism, **settings)


def refused(*parts: str):
    return pytest.raises(StateRestoreError, match=".*".join(map(re.escape, parts)))


def test_a_checkpoint_of_the_same_job_can_be_restored():
    checked = check_restore(metadata_with("a", "b"), [vertex("V", "a", "b")], PATH, python_version="3.11.9")
    assert (checked.unclaimed, checked.warnings) == ([], [])


def test_an_operator_that_is_new_starts_without_state():
    job = [vertex("V", "a", "new")]
    checked = check_restore(metadata_with("a"), job, PATH, python_version="3.11.9")
    assignment = assign_state(metadata_with("a"), checked.vertices)
    assert set(assignment.task_states["V", 0].operators) == {"a"}


def test_unclaimed_state_is_refused_with_names_and_a_remedy():
    with refused(PATH, "'Operator gone' (id gone, uid 'uid-gone')", "allowNonRestoredState"):
        check_restore(metadata_with("a", "gone"), [vertex("V", "a")], PATH)


def test_unclaimed_state_may_be_skipped():
    checked = check_restore(metadata_with("a", "gone"), [vertex("V", "a")], PATH, allow_non_restored_state=True)
    assert [operator.operator_id for operator in checked.unclaimed] == ["gone"]
    assert any("'Operator gone'" in warning for warning in checked.warnings)
    assert set(assign_state(metadata_with("a", "gone"), checked.vertices).task_states["V", 1].operators) == {"a"}


def test_a_removed_operator_without_state_is_no_error():
    metadata = metadata_with("a")
    metadata.operators.add(operator_id="gone", parallelism=2, max_parallelism=128).subtasks[0].SetInParent()
    assert check_restore(metadata, [vertex("V", "a")], PATH).unclaimed == []


def test_the_state_of_a_coordinator_alone_counts_as_state():
    metadata = metadata_with("a")
    metadata.operators.add(operator_id="source", name="Source").coordinator.CopyFrom(a_file())
    with refused("'Source'"):
        check_restore(metadata, [vertex("V", "a")], PATH)


def test_coordinators_get_their_own_state():
    metadata = metadata_with("a", "b")
    metadata.operators[1].coordinator.CopyFrom(pb.StreamStateHandle(data=b"splits", size_bytes=6))
    assignment = assign_state(metadata, [vertex("V", "a", "b")])
    assert {key: handle.data for key, handle in assignment.coordinator_states.items()} == {"b": b"splits"}


@pytest.mark.parametrize("what", ["operator id", "uid"])
def test_two_operators_with_one_identity_are_refused(what):
    first, second = OperatorDescription("x", "u", "First"), OperatorDescription("y", "v", "Second")
    second = replace(second, operator_id="x") if what == "operator id" else replace(second, uid="u")
    job = [VertexDescription("V", "V", (first,), 1, 128), VertexDescription("W", "W", (second,), 1, 128)]
    with refused(what, "'First'", "'Second'"):
        check_restore(metadata_with(), job, PATH)


def test_the_max_parallelism_of_the_state_replaces_a_derived_one():
    metadata = metadata_with("a", max_parallelism=512)
    checked = check_restore(metadata, [vertex("V", "a", parallelism=300)], PATH)
    assert checked.vertices[0].max_parallelism == 512


def test_a_configured_max_parallelism_cannot_change():
    with refused("'Operator a'", "was 512", PATH, "now 128"):
        check_restore(
            metadata_with("a", max_parallelism=512), [vertex("V", "a", is_max_parallelism_configured=True)], PATH
        )


def test_operators_of_one_chain_have_one_max_parallelism():
    metadata = metadata_with("a", "b")
    metadata.operators[1].max_parallelism = 256
    with refused("'Operator b'", "was 256"):
        check_restore(metadata, [vertex("V", "a", "b")], PATH)


def test_more_subtasks_than_key_groups_are_refused():
    with refused("parallelism 17", "max parallelism 16"):
        check_restore(metadata_with("a", max_parallelism=16), [vertex("V", "a", parallelism=17)], PATH)


def test_metadata_of_a_newer_release_is_refused():
    metadata = metadata_with("a")
    metadata.version, metadata.flinkpy_version = FORMAT_VERSION + 1, "9.9"
    with refused(PATH, "9.9"):
        check_restore(metadata, [vertex("V", "a")], PATH)


def test_another_minor_version_of_python_is_reported():
    (warning,) = check_restore(metadata_with("a"), [vertex("V", "a")], PATH, python_version="3.12.1").warnings
    assert "Python 3.11 and is read by Python 3.12" in warning


def finished_job() -> list[VertexDescription]:
    return [
        vertex("S", "s"),
        vertex("V", "v", inputs=(InputDescription("S", 0, "HASH"),)),
    ]


def finished(metadata: pb.CheckpointMetadata, *operator_ids: str) -> pb.CheckpointMetadata:
    for operator in metadata.operators:
        if operator.operator_id in operator_ids:
            operator.is_fully_finished = True
            operator.subtasks.clear()
    return metadata


def test_a_finished_operator_stays_finished_at_any_parallelism():
    metadata = finished(metadata_with("s", "v"), "s")
    job = [replace(v, parallelism=5) for v in finished_job()]
    checked = check_restore(metadata, job, PATH)
    states = assign_state(metadata, checked.vertices).task_states
    assert [states["S", subtask].is_finished for subtask in range(5)] == [True] * 5
    assert [states["V", subtask].is_finished for subtask in range(5)] == [False] * 5


def test_a_finished_operator_with_pending_work_runs_again():
    metadata = metadata_with("s")
    metadata.operators[0].is_fully_finished = True
    committables = metadata.operators[0].subtasks[1].operator.add(file=a_file())
    committables.states.add(name="committables", mode=pb.SPLIT_DISTRIBUTE, offsets=[0], lengths=[1])
    states = assign_state(metadata, [vertex("S", "s")]).task_states
    assert [states["S", subtask].is_finished for subtask in range(2)] == [True, False]
    assert states["S", 1].operators["s"].operator
    assert not states["S", 0].operators


def test_a_finished_operator_must_not_get_an_input_that_runs():
    with refused("'V' had finished"):
        check_restore(finished(metadata_with("s", "v"), "v"), finished_job(), PATH)


def test_an_operator_chained_to_a_finished_one_must_have_finished_too():
    with refused("some operators of 'V'"):
        check_restore(finished(metadata_with("a", "b"), "a"), [vertex("V", "a", "b")], PATH)


def partly_finished(mode: int) -> pb.CheckpointMetadata:
    metadata = metadata_with("a", parallelism=3)
    metadata.operators[0].finished_subtasks.append(1)
    metadata.operators[0].subtasks[1].Clear()
    handle = metadata.operators[0].subtasks[0].operator.add(file=a_file())
    handle.states.add(name="list", mode=mode, offsets=[0, 1, 2], lengths=[1, 1, 1])
    return metadata


def test_finished_subtasks_stay_finished_at_the_same_parallelism():
    states = assign_state(partly_finished(pb.SPLIT_DISTRIBUTE), [vertex("V", "a", parallelism=3)]).task_states
    assert [states["V", subtask].is_finished for subtask in range(3)] == [False, True, False]


def test_no_subtask_stays_finished_with_another_parallelism():
    states = assign_state(partly_finished(pb.SPLIT_DISTRIBUTE), [vertex("V", "a", parallelism=2)]).task_states
    assert [states["V", subtask].is_finished for subtask in range(2)] == [False, False]


@pytest.mark.parametrize("parallelism", [2, 3])
def test_incomplete_union_state_is_refused(parallelism):
    with refused("'Operator a'", "union list state", "(1)"):
        assign_state(partly_finished(pb.UNION), [vertex("V", "a", parallelism=parallelism)])


def in_flight(kind: str, consumers: int) -> tuple[pb.CheckpointMetadata, list[VertexDescription]]:
    """A batch that the source queued for the second subtask of the consumer."""
    metadata = metadata_with("s", "v")
    metadata.operators[0].subtasks[0].channels.add(is_output=True, channel_index=1, file=a_file(), offsets=[0])
    job = [vertex("S", "s"), vertex("V", "v", parallelism=consumers, inputs=(InputDescription("S", 0, kind),))]
    return metadata, job


@pytest.mark.parametrize("kind", ["FORWARD", "RESCALE", "BROADCAST", "CUSTOM"])
def test_in_flight_data_of_an_edge_that_cannot_be_rescaled_is_refused(kind):
    metadata, job = in_flight(kind, 3)
    with refused("'V'", "from 2 to 3", kind, "aligned checkpoint or a savepoint"):
        assign_state(metadata, job)


def test_in_flight_data_of_a_removed_output_is_refused():
    metadata, job = in_flight("HASH", 2)
    with refused("in-flight data of 'S', output 0"):
        assign_state(metadata, [job[0], replace(job[1], inputs=())])


def test_in_flight_data_can_be_skipped():
    metadata, job = in_flight("CUSTOM", 3)
    states = assign_state(metadata, job, ignore_in_flight_data=True).task_states
    assert not any(o.channels for snapshot in states.values() for o in snapshot.operators.values())


def test_an_operator_that_is_now_in_the_middle_of_a_chain_has_no_channel_for_its_in_flight_data():
    metadata, job = in_flight("HASH", 2)
    metadata.operators[1].subtasks[0].channels.add(file=a_file())
    chained = replace(job[1], operators=(OperatorDescription("new"), *job[1].operators))
    with refused("'V'", "middle of a chain"):
        assign_state(metadata, [job[0], chained])


def test_a_job_graph_is_described_by_its_chains_and_edges():
    graph = job_pb2.JobGraph()
    source = graph.vertices.add(id="S", name="source", parallelism=3, max_parallelism=-1)
    source.chain.add(operator_id="s", uid="my source", name="numbers")
    source.results.add(id="d0", partitioner_name="FORWARD")
    source.results.add(id="d1", partitioner_name="HASH")
    sink = graph.vertices.add(id="V", name="sink", parallelism=300, max_parallelism=1024)
    sink.chain.add(operator_id="a")
    sink.chain.add(operator_id="b")
    sink.inputs.add(source_data_set_id="d1")
    assert describe_job_graph(graph) == [
        VertexDescription("S", "source", (OperatorDescription("s", "my source", "numbers"),), 3, 128),
        VertexDescription(
            "V",
            "sink",
            (OperatorDescription("a"), OperatorDescription("b")),
            300,
            1024,
            (InputDescription("S", 1, "HASH"),),
            True,
        ),
    ]
