"""How big an embedded cluster is."""

from __future__ import annotations

import pytest

from flinkpy._proto import job_pb2
from flinkpy.client.embedded_cluster import EmbeddedCluster, plan_task_executors
from flinkpy.common.configuration import Configuration
from flinkpy.graph.required_slots import required_slots


def graph(*vertices: tuple[int, str]) -> job_pb2.JobGraph:
    return job_pb2.JobGraph(
        vertices=[
            job_pb2.JobVertex(id=str(index), parallelism=parallelism, slot_sharing_group=group)
            for index, (parallelism, group) in enumerate(vertices)
        ]
    )


def test_vertices_of_one_sharing_group_need_as_many_slots_as_the_widest() -> None:
    assert required_slots(graph((1, ""), (4, "default"), (2, ""))) == 4


def test_sharing_groups_need_slots_of_their_own() -> None:
    assert required_slots(graph((2, "a"), (3, "b"), (1, "a"))) == 5


@pytest.mark.parametrize(
    ("slots", "cores", "expected"),
    [
        (1, 8, (1, 1)),  # one slot: one process
        (2, 8, (2, 1)),  # parallel: a process each
        (2, 1, (2, 1)),  # even on one core, so that it is a cluster
        (8, 2, (2, 4)),  # not more processes than cores
        (5, 2, (2, 3)),  # enough slots where they do not divide
        (16, 16, (16, 1)),
    ],
)
def test_processes_follow_slots_and_cores(slots: int, cores: int, expected: tuple[int, int]) -> None:
    assert plan_task_executors(slots, Configuration(), cores) == expected


def test_configured_slots_decide_how_many_processes_hold_the_job() -> None:
    configuration = Configuration.from_dict({"taskmanager.numberOfTaskSlots": "2"})
    assert plan_task_executors(5, configuration, cores=8) == (3, 2)


def test_a_configured_number_of_processes_is_the_least() -> None:
    configuration = Configuration.from_dict({"minicluster.number-of-taskmanagers": "3"})
    assert plan_task_executors(1, configuration, cores=2) == (3, 1)


def test_jobs_of_different_profiles_share_no_process() -> None:
    cluster = EmbeddedCluster()
    cluster._slots_each = 2
    cluster._claims = {"a": ("", 1), "b": ("blue", 3)}
    assert cluster._needed_with("", 1) == 3
    assert cluster._needed_with("blue", 1) == 3
    assert cluster._needed_with("red", 1) == 4
