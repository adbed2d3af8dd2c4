"""SlotSharingGroup and MemorySize."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from flinkpy.common.configuration import Configuration
from flinkpy.common.resource_profile import ResourceProfile
from flinkpy.datastream import MemorySize, SlotSharingGroup, StreamExecutionEnvironment
from flinkpy.graph.job_graph_generator import generate_job_graph
from flinkpy.graph.resource_profiles import resource_profile_from_proto


def builder() -> SlotSharingGroup.Builder:
    return SlotSharingGroup.builder("group")


def test_group_returns_its_resources() -> None:
    group = (
        builder()
        .set_cpu_cores(1)
        .set_task_heap_memory_mb(100)
        .set_task_off_heap_memory(MemorySize.of_mebi_bytes(2))
        .set_managed_memory_mb(3)
        .set_external_resource("gpu", 1)
        .build()
    )

    assert (group.get_name(), group.get_cpu_cores()) == ("group", 1.0)
    assert group.get_task_heap_memory() == MemorySize(bytes_size=100 << 20)
    assert group.get_task_off_heap_memory() == MemorySize.of_mebi_bytes(2)
    assert group.get_managed_memory() == MemorySize.of_mebi_bytes(3)
    assert group.get_external_resources() == {"gpu": 1.0}


def test_group_may_have_no_resources() -> None:
    group = builder().build()

    assert group.get_cpu_cores() is group.get_task_heap_memory() is group.get_task_off_heap_memory() is None
    assert group.get_managed_memory() is None
    assert group.get_external_resources() == {}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: builder().set_cpu_cores(0), "The cpu cores should be positive."),
        (lambda: builder().set_task_heap_memory_mb(0), "The task heap memory should be positive."),
        (lambda: builder().set_cpu_cores(1).build(), "The cpu cores and task heap memory are required"),
        (lambda: builder().set_task_heap_memory_mb(1).build(), "The cpu cores and task heap memory are required"),
        (lambda: builder().set_task_off_heap_memory_mb(1).build(), "The cpu cores and task heap memory are required"),
        (lambda: builder().set_external_resource("gpu", 1).build(), "The cpu cores and task heap memory are required"),
        (lambda: MemorySize(bytes_size=-1), "bytes must be >= 0"),
        (MemorySize, "needs bytes_size"),
        (lambda: SlotSharingGroup.builder(""), "non-empty string"),
    ],
)
def test_incomplete_slot_resources_are_refused(wrong: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        wrong()


def test_memory_sizes_compare_and_convert() -> None:
    size = MemorySize(bytes_size=5 << 40)

    assert size.get_tebi_bytes() == 5
    assert (size.get_gibi_bytes(), size.get_mebi_bytes(), size.get_kibi_bytes()) == (5 << 10, 5 << 20, 5 << 30)
    assert MemorySize.of_mebi_bytes(1) < MemorySize.of_mebi_bytes(2)
    assert MemorySize.of_mebi_bytes(1) <= MemorySize(bytes_size=1 << 20)
    assert hash(MemorySize.of_mebi_bytes(1)) == hash(MemorySize(bytes_size=1 << 20))
    assert [str(MemorySize(bytes_size=n)) for n in (1000, 2048, 5 << 20, 1 << 30, 0)] == [
        "1000 bytes",
        "2 kb",
        "5 mb",
        "1 gb",
        "0 bytes",
    ]


def test_every_vertex_of_a_group_carries_the_resources_of_its_slots() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    heavy = SlotSharingGroup.builder("heavy").set_cpu_cores(1.5).set_task_heap_memory_mb(100)
    group = heavy.set_managed_memory_mb(10).set_external_resource("gpu", 1).build()
    stream = env.from_collection([1]).map(lambda x: x).slot_sharing_group(group)
    stream.rebalance().map(lambda x: x).slot_sharing_group("other").print()

    graph = generate_job_graph(env.get_stream_graph(), Configuration())

    profiles = {
        vertex.slot_sharing_group: resource_profile_from_proto(vertex, "slot_resources") for vertex in graph.vertices
    }
    assert profiles == {
        "default": ResourceProfile.UNKNOWN,
        "heavy": ResourceProfile(1.5, 100 << 20, managed_bytes=10 << 20, external=(("gpu", 1.0),)),
        "other": ResourceProfile.UNKNOWN,
    }
