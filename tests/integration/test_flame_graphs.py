"""Flame graphs name the functions of users that run and that wait, and survive the end of tasks and TaskExecutors."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from clusters import RunningCluster, StartCluster
from job_support import environment, task_managers, wait_until
from test_rest_jobs import RestClient

from flinkpy._proto import taskexecutor_pb2, thread_samples_pb2
from flinkpy.common import Types, WatermarkStrategy
from flinkpy.common.errors import JobNotFoundError
from flinkpy.datastream.connectors.number_seq import NumberSequenceSource
from flinkpy.datastream.functions import MapFunction
from flinkpy.rpc.sync_client import SyncGateway

#: The job stays when it has lost a task, but restarts only long after the test.
LATE_RESTART = {
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "1",
    "restart-strategy.fixed-delay.delay": "10 min",
}


class Busy(MapFunction):
    def map(self, value: int) -> int:
        return self.burn_a_while(value)

    def burn_a_while(self, value: int) -> int:
        until = time.thread_time() + 0.001
        while time.thread_time() < until:
            value = (value * 31 + 7) % 1_000_003
        return value


class Sleepy(MapFunction):
    def map(self, value: int) -> int:
        return self.sleep_a_while(value)

    def sleep_a_while(self, value: int) -> int:
        time.sleep(0.005)
        return value


def start_job(cluster: RunningCluster, **properties: str) -> tuple[str, str, str]:
    """Starts an endless job. Returns its id and the vertices of `Busy` and `Sleepy`, with two subtasks each."""
    env = environment(cluster, 2, **properties)
    source = NumberSequenceSource(1, 2**62)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers", Types.LONG())
    busy = numbers.map(Busy(), output_type=Types.LONG()).name("busy")
    busy.rebalance().map(Sleepy(), output_type=Types.LONG()).name("sleepy").filter(lambda _: False).print()
    job_id = str(env.execute_async("flames").get_job_id())

    def vertices() -> dict[str, Any]:
        return {"busy" if "busy" in one.name else "sleepy": one for one in cluster.client.request_job(job_id).vertices}

    wait_until(lambda: vertices()["sleepy"].metrics.num_records_in > 0, "records arrive")
    return job_id, vertices()["busy"].id, vertices()["sleepy"].id


def names_in(node: dict[str, Any], *, only_user: bool = False) -> dict[str, int]:
    """Returns the names of all frames below `node` without their lines, with the number of samples."""
    found: dict[str, int] = {}

    def visit(one: dict[str, Any]) -> None:
        if not only_user or one["kind"] == "user":
            name = re.sub(r":\d+$", "", one["name"]).rpartition(".")[2]
            found[name] = found.get(name, 0) + one["value"]
        for child in one["children"]:
            visit(child)

    visit(node)
    return found


def stacks_of(answer: thread_samples_pb2.JobThreadSamples) -> set[str]:
    return {frame.name.rpartition(".")[2] for one in answer.task_executors for frame in one.frames}


def thread_names(cluster: RunningCluster) -> list[str]:
    """Returns the names of the threads of all TaskExecutors."""
    names = []
    for process in cluster.task_executors:
        assert process.address is not None
        with SyncGateway("TaskExecutor", process.address, security=cluster.security) as gateway:
            dump = gateway.request_thread_dump(taskexecutor_pb2.ThreadDumpRequest(), timeout_s=10)
            names += [thread.name for thread in dump.threads]
    return names


@contextmanager
def sampling(
    cluster: RunningCluster, job_id: str, seconds: int
) -> Iterator[Future[thread_samples_pb2.JobThreadSamples]]:
    """Samples a job on another thread, and waits until its TaskExecutors have begun."""
    with ThreadPoolExecutor(1) as executor:
        answer = executor.submit(
            cluster.client.request_thread_samples, job_id, num_samples=seconds * 50, delay_ms=20, max_depth=100
        )
        wait_until(lambda: "thread-sampler" in thread_names(cluster), "the samplers run")
        yield answer


def test_user_functions_are_seen_where_they_run_and_where_they_wait(
    shared_cluster: RunningCluster, tmp_path: Path
) -> None:
    job_id, busy, sleepy = start_job(shared_cluster)
    assert "thread-sampler" not in thread_names(shared_cluster)
    with RestClient(shared_cluster) as rest:
        path = f"/jobs/{job_id}/vertices/{{}}/flamegraph?type={{}}"
        first = rest.get(path.format(busy, "FULL"))
        assert first == {
            "endTimestamp": -3,
            "isSampling": True,
            "subtasks": 0,
            "unreachable": [],
            "error": "",
        }
        rest.get(path.format(sleepy, "FULL"))
        rest.get(path.format(busy, "FULL") + "&subtaskindex=1")

        def graph(vertex: str, kind: str, subtask: str = "") -> Any:
            found = wait_until(lambda: rest.get(path.format(vertex, kind) + subtask).get("data"), "samples")
            assert found["name"] == "root"
            return found

        running = graph(busy, "ON_CPU")
        assert names_in(running, only_user=True)["burn_a_while"] > 0.5 * running["value"]
        assert names_in(running)["busy (fused loop)"] > 0.5 * running["value"]
        waiting = graph(sleepy, "OFF_CPU")
        assert names_in(waiting, only_user=True)["sleep_a_while"] > 0.5 * waiting["value"]
        assert names_in(graph(sleepy, "ON_CPU")).get("sleep_a_while", 0) < 0.3 * graph(sleepy, "FULL")["value"]
        both, one = graph(busy, "FULL"), graph(busy, "FULL", "&subtaskindex=1")
        assert 0 < one["value"] < both["value"] <= 80
        told = rest.get(path.format(busy, "FULL"))
        assert (told["subtasks"], told["unreachable"], told["error"]) == (2, [], "")
        assert 0 < told["endTimestamp"] - told["startTimestamp"] < 60_000
    wait_until(lambda: "thread-sampler" not in thread_names(shared_cluster), "nobody looks")

    file = tmp_path / "busy.json"
    done = shared_cluster.flinkpy("flamegraph", "--vertex", "busy", "--seconds", "0.5", "-o", str(file), job_id)
    assert done.returncode == 0, done.stderr
    profile = json.loads(file.read_text())
    assert any("burn_a_while" in frame["name"] for frame in profile["shared"]["frames"])

    with sampling(shared_cluster, job_id, seconds=100) as answer:
        began_s = time.monotonic()
        shared_cluster.client.cancel_job(job_id)
        # The tasks may end before the JobMaster does: then it answers.
        with suppress(JobNotFoundError):
            answer.result()
        assert time.monotonic() - began_s < 60, "a sampling ends with its job"
    with RestClient(shared_cluster) as rest:
        ended = wait_until(
            lambda: (told := rest.get(path.format(busy, "FULL")))["endTimestamp"] == -1 and told, "the end"
        )
        assert "data" not in ended


def test_the_samples_of_a_killed_task_executor_are_missing_and_the_others_are_there(
    start_cluster: StartCluster,
) -> None:
    cluster = start_cluster(num_task_executors=2)
    job_id, _, _ = start_job(cluster, **LATE_RESTART)
    with sampling(cluster, job_id, seconds=3) as answer:
        cluster.kill("taskexecutor-1")
        samples = answer.result()
    gone, (left,) = samples.unreachable, samples.task_executors
    assert len(gone) == 1 and gone[0] != left.resource_id
    assert left.num_subtasks == 2 and {"burn_a_while", "sleep_a_while"} & stacks_of(samples)
    assert {one.resource_id for one in task_managers(cluster)} >= {left.resource_id}
    cluster.client.cancel_job(job_id)
