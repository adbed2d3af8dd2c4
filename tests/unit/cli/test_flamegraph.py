"""`flinkpy flamegraph` writes files that viewers of flame graphs read."""

from __future__ import annotations

import json

import pytest

from flinkpy._proto import job_pb2
from flinkpy._proto import thread_samples_pb2 as pb
from flinkpy.cli.flamegraph import count_stacks, find_vertex, folded, speedscope
from flinkpy.common.errors import UserError

VERTICES = [
    job_pb2.VertexDetails(id="a1", name="Source: numbers"),
    job_pb2.VertexDetails(id="b2", name="Parse -> Sink"),
]
NAMES = {one.id: one.name for one in VERTICES}


def answers() -> list[pb.ThreadSamples]:
    run = pb.SampledFrame(name="flinkpy.Task.run", line=3, kind=pb.CODE_RUNTIME)
    parse = pb.SampledFrame(name="job.parse; fast", line=12, kind=pb.CODE_USER)
    loop = pb.SampledFrame(name="parse (fused loop)", kind=pb.CODE_RUNTIME)
    return [
        pb.ThreadSamples(
            frames=[run, parse],
            stacks=[
                pb.SampledStack(vertex_id="b2", frames=[0, 1], on_cpu=4, off_cpu=1),
                pb.SampledStack(vertex_id="a1", frames=[0], off_cpu=2),
            ],
        ),
        # Another TaskExecutor has another table of frames.
        pb.ThreadSamples(
            frames=[parse, loop, run],
            stacks=[
                pb.SampledStack(vertex_id="b2", frames=[2, 0], on_cpu=1),
                pb.SampledStack(vertex_id="b2", frames=[2, 1], on_cpu=3),
            ],
        ),
    ]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("full", {("Parse -> Sink", "job.parse; fast:12"): 6, ("Parse -> Sink", "parse (fused loop)"): 3}),
        ("on_cpu", {("Parse -> Sink", "job.parse; fast:12"): 5, ("Parse -> Sink", "parse (fused loop)"): 3}),
        ("off_cpu", {("Parse -> Sink", "job.parse; fast:12"): 1}),
    ],
)
def test_stacks_of_all_task_executors_are_added_up(kind: str, expected: dict[tuple[str, ...], int]) -> None:
    counts = count_stacks(answers(), NAMES, kind)
    found = {(stack[0], stack[-1]): count for stack, count in counts.items() if stack[0] == "Parse -> Sink"}
    assert found == expected
    assert counts["Source: numbers", "flinkpy.Task.run:3"] == (0 if kind == "on_cpu" else 2)


def test_folded_stacks_have_one_line_each() -> None:
    assert folded(count_stacks(answers(), NAMES, "full")).splitlines() == [
        "Parse -> Sink;flinkpy.Task.run:3;job.parse, fast:12 6",
        "Parse -> Sink;flinkpy.Task.run:3;parse (fused loop) 3",
        "Source: numbers;flinkpy.Task.run:3 2",
    ]


def test_speedscope_profiles_have_every_sample() -> None:
    document = json.loads(speedscope(count_stacks(answers(), NAMES, "full"), "job 1"))
    (profile,) = document["profiles"]
    assert profile["endValue"] == sum(profile["weights"]) == 11
    frames = [one["name"] for one in document["shared"]["frames"]]
    assert ["Parse -> Sink", "flinkpy.Task.run:3", "parse (fused loop)"] in [
        [frames[index] for index in sample] for sample in profile["samples"]
    ]


def test_a_vertex_is_found_by_its_id_or_a_part_of_its_name() -> None:
    assert find_vertex(VERTICES, "b2").id == find_vertex(VERTICES, "parse").id == "b2"
    with pytest.raises(UserError, match="no vertex matches `nothing`; the job has Source: numbers, Parse -> Sink"):
        find_vertex(VERTICES, "nothing")
    with pytest.raises(UserError, match="several"):
        find_vertex(VERTICES, "s")
