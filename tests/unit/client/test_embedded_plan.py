"""The number of processes and slots of an embedded cluster."""

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


def test_a_sharing_group_needs_as_many_slots_as_its_widest_vertex() -> None:
    assert required_slots(graph((1, ""), (4, "default"), (2, ""))) == 4


def test_sharing_groups_need_separate_slots() -> None:
    assert required_slots(graph((2, "a"), (3, "b"), (1, "a"))) == 5


@pytest.mark.parametrize(
    ("slots", "cores", "expected"),
    [
        (1, 8, (1, 1)),  # one slot: one process
        (2, 8, (2, 1)),  # parallel: one process per slot
        (2, 1, (2, 1)),  # two processes even on one core
        (8, 2, (2, 4)),  # not more processes than cores
        (5, 2, (2, 3)),  # rounded up to enough slots
        (16, 16, (16, 1)),
    ],
)
def test_the_number_of_processes_follows_slots_and_cores(slots: int, cores: int, expected: tuple[int, int]) -> None:
    assert plan_task_executors(slots, Configuration(), cores) == expected


def test_configured_slots_per_process_decide_the_number_of_processes() -> None:
    configuration = Configuration.from_dict({"taskmanager.numberOfTaskSlots": "2"})
    assert plan_task_executors(5, configuration, cores=8) == (3, 2)


def test_a_configured_number_of_processes_is_the_minimum() -> None:
    configuration = Configuration.from_dict({"minicluster.number-of-taskmanagers": "3"})
    assert plan_task_executors(1, configuration, cores=2) == (3, 1)


def test_jobs_with_different_profiles_share_no_process() -> None:
    cluster = EmbeddedCluster()
    cluster._slots_each = 2
    cluster._claims = {"a": ("", 1), "b": ("blue", 3)}
    assert cluster._needed_with("", 1) == 3
    assert cluster._needed_with("blue", 1) == 3
    assert cluster._needed_with("red", 1) == 4
