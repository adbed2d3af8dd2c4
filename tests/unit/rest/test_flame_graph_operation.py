"""Flame graphs of the REST API: samples are taken when somebody looks, shared, kept for a while, and made trees."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rest_harness import NOW_MS, RestHarness, TestingServices
from test_job_operations import JOB, SOURCE, FakeDispatcher

from flinkpy._proto import common_pb2
from flinkpy._proto import thread_samples_pb2 as pb
from flinkpy.common.configuration import Configuration
from flinkpy.common.errors import ConfigurationError, RpcUnavailableError
from flinkpy.rest import flame_graphs
from flinkpy.rest.forms.flame_graph import flame_graph_root
from flinkpy.rest.options import FlameGraphOptions, RestOptions, read_rest_options
from flinkpy.security import Role

PATH = f"/jobs/{JOB}/vertices/{SOURCE}/flamegraph"
RUN = pb.SampledFrame(name="flinkpy.Task.run", line=3, kind=pb.CODE_RUNTIME)
PARSE = pb.SampledFrame(name="job.parse", line=12, kind=pb.CODE_USER)
DUMPS = pb.SampledFrame(name="json.dumps", line=7, kind=pb.CODE_LIBRARY)
LOOP = pb.SampledFrame(name="parse (fused loop)", kind=pb.CODE_RUNTIME)


def answer(resource_id: str = "tm-1", *, on_cpu: int = 4, off_cpu: int = 1) -> pb.ThreadSamples:
    return pb.ThreadSamples(
        resource_id=resource_id,
        start_timestamp_ms=NOW_MS - 5_000,
        end_timestamp_ms=NOW_MS,
        num_subtasks=1,
        frames=[RUN, PARSE],
        stacks=[pb.SampledStack(vertex_id=SOURCE, frames=[0, 1], on_cpu=on_cpu, off_cpu=off_cpu)],
    )


class SamplingDispatcher(FakeDispatcher):
    """A Dispatcher whose samplings end when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: list[Any] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def request_thread_samples(self, request: Any, timeout_s: float | None = None) -> pb.JobThreadSamples:
        self.requests.append(("request_thread_samples", request))
        await self.may_answer.wait()
        given = self.answers.pop(0) if self.answers else pb.JobThreadSamples(task_executors=[answer()])
        if isinstance(given, Exception):
            raise given
        found: pb.JobThreadSamples = given
        return found

    @property
    def num_samplings(self) -> int:
        return self.num_calls("request_thread_samples")


class Flames(RestHarness):
    def __init__(self, options: RestOptions | None = None) -> None:
        self.dispatcher = SamplingDispatcher()
        super().__init__(TestingServices(self.dispatcher), options)

    async def get(self, query: str = "", status: int = 200) -> Any:
        found = await self.acall("GET", PATH + query, role=Role.READ)
        assert found.status_code == status, found.text
        return found.json()

    async def settled(self) -> None:
        """Waits until no sampling runs."""
        for known in self.context.flame_graphs._known.values():
            if known.sampling is not None:
                await known.sampling


@contextlib.asynccontextmanager
async def flames(options: RestOptions | None = None) -> AsyncIterator[Flames]:
    harness = Flames(options)
    yield harness
    harness.dispatcher.may_answer.set()
    await harness.settled()


def scenario(test: Any) -> Any:
    def run() -> None:
        asyncio.run(test())

    run.__name__ = test.__name__
    return run


@scenario
async def test_the_first_request_starts_a_sampling_and_later_ones_share_it() -> None:
    async with flames() as harness:
        harness.dispatcher.may_answer.clear()
        waiting = await harness.get()
        assert (waiting["endTimestamp"], waiting["isSampling"], "data" in waiting) == (-3, True, False)
        assert (await harness.get("?type=ON_CPU"))["endTimestamp"] == -3
        await asyncio.sleep(0)
        assert harness.dispatcher.num_samplings == 1
        asked = harness.dispatcher.last("request_thread_samples")
        assert (asked.vertex_id, asked.HasField("subtask_index")) == (SOURCE, False)
        assert (asked.num_samples, asked.delay_ms, asked.max_depth) == (100, 50, 100)

        harness.dispatcher.may_answer.set()
        await harness.settled()
        found = await harness.get()
        assert found == {
            "endTimestamp": NOW_MS,
            "startTimestamp": NOW_MS - 5_000,
            "isSampling": False,
            "subtasks": 1,
            "unreachable": [],
            "error": "",
            "data": {
                "name": "root",
                "value": 5,
                "kind": "runtime",
                "children": [
                    {
                        "name": "flinkpy.Task.run:3",
                        "value": 5,
                        "kind": "runtime",
                        "children": [{"name": "job.parse:12", "value": 5, "kind": "user", "children": []}],
                    }
                ],
            },
        }
        assert (await harness.get("?type=on_cpu"))["data"]["value"] == 4
        assert (await harness.get("?type=OFF_CPU"))["data"]["value"] == 1
        assert harness.dispatcher.num_samplings == 1


@scenario
async def test_a_subtask_has_samples_of_its_own() -> None:
    async with flames() as harness:
        await harness.get("?subtaskindex=1")
        await harness.settled()
        assert harness.dispatcher.last("request_thread_samples").subtask_index == 1
        assert (await harness.get("?subtaskindex=1"))["data"]["value"] == 5
        assert (await harness.get())["endTimestamp"] == -3
        refused = await harness.get("?subtaskindex=2", 400)
        assert refused["errors"] == [f"Invalid subtask index for vertex {SOURCE}"]
        await harness.get("?type=sideways", 400)


@scenario
async def test_old_samples_are_shown_while_new_ones_are_taken() -> None:
    async with flames() as harness:
        await harness.get()
        await harness.settled()
        harness.clock.advance(59_999)
        assert not (await harness.get())["isSampling"]
        harness.dispatcher.may_answer.clear()
        harness.dispatcher.answers = [pb.JobThreadSamples(task_executors=[answer(on_cpu=9)])]
        harness.clock.advance(30_000)  # the pause begins at the end of the sampling, which took some real time
        stale = await harness.get()
        assert (stale["data"]["value"], stale["isSampling"]) == (5, True)
        harness.dispatcher.may_answer.set()
        await harness.settled()
        assert (await harness.get())["data"]["value"] == 10


@scenario
async def test_a_task_manager_that_does_not_answer_makes_the_graph_partial() -> None:
    async with flames() as harness:
        harness.dispatcher.answers = [pb.JobThreadSamples(task_executors=[answer()], unreachable=["tm-2"])]
        await harness.get()
        await harness.settled()
        found = await harness.get()
        assert (found["unreachable"], found["data"]["value"]) == (["tm-2"], 5)


@scenario
async def test_a_failed_sampling_is_told_repeated_after_a_pause_and_leaves_old_samples() -> None:
    async with flames() as harness:
        harness.dispatcher.answers = [
            RpcUnavailableError("no JobMaster"),
            pb.JobThreadSamples(unreachable=["tm-1"]),
            pb.JobThreadSamples(task_executors=[pb.ThreadSamples(resource_id="tm-1")]),
        ]
        for error in ("no JobMaster", "no answer from tm-1", ""):
            await harness.get()
            await harness.settled()
            failed = await harness.get()
            assert (failed["endTimestamp"], failed["error"]) == (-3, error)
            harness.clock.advance(flame_graphs.RETRY_PAUSE_MS)
        assert harness.dispatcher.num_samplings == 3
        await harness.get()
        await harness.settled()
        assert (await harness.get())["data"]["value"] == 5
        harness.dispatcher.answers = [RpcUnavailableError("no JobMaster")]
        harness.clock.advance(60_000)
        await harness.get()
        await harness.settled()
        old = await harness.get()
        assert (old["data"]["value"], old["error"]) == (5, "no JobMaster")


@scenario
async def test_a_graph_that_nobody_looks_at_is_forgotten() -> None:
    async with flames(RestOptions(flame_graphs=FlameGraphOptions(cleanup_interval_ms=100))) as harness:
        await harness.get()
        await harness.settled()
        await harness.get("?subtaskindex=0")
        await harness.settled()
        known = harness.context.flame_graphs._known
        assert len(known) == 2
        harness.clock.advance(60)
        await harness.get("?subtaskindex=1")
        harness.clock.advance(60)
        await harness.get("?subtaskindex=1")
        assert [key[2] for key in known] == [1]
        await harness.settled()
        deadline_s = asyncio.get_running_loop().time() + 30
        while known:
            assert asyncio.get_running_loop().time() < deadline_s, "the timer forgets the last one"
            await asyncio.sleep(0.01)


@scenario
async def test_the_number_of_kept_flame_graphs_is_bounded() -> None:
    async with flames() as harness:
        graphs = harness.context.flame_graphs
        for number in range(flame_graphs.MAX_FLAME_GRAPHS + 5):
            graphs.find((JOB, f"v{number}", None), harness.dispatcher, FlameGraphOptions(), number)
        await harness.settled()
        assert len(graphs._known) == flame_graphs.MAX_FLAME_GRAPHS
        assert (JOB, "v0", None) not in graphs._known


@scenario
async def test_ended_vertices_and_clusters_without_flame_graphs_answer_as_flink_does() -> None:
    async with flames() as harness:
        vertex = harness.dispatcher.job.vertices[0]
        vertex.subtasks[0].state = common_pb2.EXECUTION_FINISHED
        assert (await harness.get("?subtaskindex=0"))["endTimestamp"] == -1
        assert (await harness.get())["endTimestamp"] == -3
        await harness.settled()
    async with flames() as harness:
        harness.dispatcher.job.vertices[0].state = common_pb2.EXECUTION_FINISHED
        assert (await harness.get())["endTimestamp"] == -1
        assert harness.dispatcher.num_samplings == 0
    async with flames(RestOptions(flame_graphs=None)) as harness:
        found = await harness.get()
        assert (found["endTimestamp"], "data" in found) == (-2, False)
        assert harness.dispatcher.num_samplings == 0


# -- trees -----------------------------------------------------------------------------------------------------------

FRAMES = [RUN, PARSE, DUMPS, LOOP]
stacks = st.builds(
    pb.SampledStack,
    frames=st.lists(st.integers(0, len(FRAMES) - 1), min_size=1, max_size=6),
    on_cpu=st.integers(0, 5),
    off_cpu=st.integers(0, 5),
)
samples = st.lists(stacks, max_size=12).map(lambda taken: pb.ThreadSamples(frames=FRAMES, stacks=taken))


@given(st.lists(samples, max_size=3), st.sampled_from(["full", "on_cpu", "off_cpu"]))
def test_a_node_counts_the_samples_below_it(taken: list[pb.ThreadSamples], kind: str) -> None:
    root = flame_graph_root(taken, kind)
    counts = [
        (stack.on_cpu if kind != "off_cpu" else 0) + (stack.off_cpu if kind != "on_cpu" else 0)
        for one in taken
        for stack in one.stacks
    ]
    assert root.value == sum(counts)

    def check(node: Any) -> None:
        assert node.value >= sum(child.value for child in node.children)
        assert len({child.name for child in node.children}) == len(node.children)
        assert all(child.value > 0 for child in node.children)
        for child in node.children:
            check(child)

    check(root)


def test_the_deepest_stacks_that_may_be_configured_become_json() -> None:
    depth = 250
    frames = [pb.SampledFrame(name=f"f{number}", line=1, kind=pb.CODE_USER) for number in range(depth + 1)]
    one = pb.ThreadSamples(frames=frames, stacks=[pb.SampledStack(frames=range(depth + 1), on_cpu=1)])
    node: Any = msgspec.json.decode(msgspec.json.encode(flame_graph_root([one], "full")))
    for _ in range(depth + 1):
        (node,) = node["children"]
    assert node["name"] == f"f{depth}:1"


def options_of(**settings: str) -> FlameGraphOptions | None:
    configuration = Configuration()
    for key, value in settings.items():
        configuration.set_string(f"rest.flamegraph.{key.replace('_', '-')}", value)
    options = read_rest_options(configuration)
    assert options is not None
    return options.flame_graphs


def test_options_are_flinks_but_flame_graphs_are_on() -> None:
    assert options_of() == FlameGraphOptions(
        refresh_interval_ms=60_000, cleanup_interval_ms=600_000, num_samples=100, delay_ms=50, stack_depth=100
    )
    assert options_of(enabled="false") is None
    assert options_of(num_samples="20", delay_between_samples="10 ms", stack_depth="30", refresh_interval="5 s") == (
        FlameGraphOptions(refresh_interval_ms=5_000, num_samples=20, delay_ms=10, stack_depth=30)
    )
    with pytest.raises(ConfigurationError, match=r"rest\.flamegraph\.num-samples"):
        options_of(num_samples="10000", delay_between_samples="1 s")
    with pytest.raises(ConfigurationError, match=r"rest\.flamegraph\.stack-depth"):
        options_of(stack_depth="0")
