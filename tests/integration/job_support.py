"""What tests of whole jobs share: environments on a cluster under test, and functions that wait for the test."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from clusters import RunningCluster

from flinkpy._proto import resourcemanager_pb2, taskexecutor_pb2
from flinkpy.common import Configuration
from flinkpy.common.states import JobState
from flinkpy.datastream import StreamExecutionEnvironment
from flinkpy.rpc.sync_client import SyncGateway

#: Nothing of what these tests wait for takes longer on a loaded two-core machine.
DEADLINE_S = 90.0

FIXED_DELAY = {
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "3",
    "restart-strategy.fixed-delay.delay": "100 ms",
}
NO_RESTART = {"restart-strategy.type": "none"}


def environment(cluster: RunningCluster, parallelism: int = 2, **properties: str) -> StreamExecutionEnvironment:
    configuration = Configuration.from_dict({**cluster.properties, **NO_RESTART, **properties})
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(parallelism)
    return env


def wait_until(condition: Callable[[], Any], what: str, timeout_s: float = DEADLINE_S) -> Any:
    """Ask until the answer is true; returns it."""
    deadline = time.monotonic() + timeout_s
    while not (answer := condition()):
        assert time.monotonic() < deadline, f"waited {timeout_s} s for: {what}"
        time.sleep(0.02)
    return answer


def wait_for_state(cluster: RunningCluster, job_id: str, state: JobState) -> None:
    wait_until(lambda: cluster.client.request_job_status(job_id) is state, f"job {job_id} is {state.name}")


class Gate:
    """A file that user functions wait for: it holds a job at a chosen record until the test opens it."""

    def __init__(self, directory: Path) -> None:
        self.path = str(directory / "gate")
        self._arrivals = directory / "arrivals"
        self._arrivals.mkdir()

    def pass_at(self, record: Any) -> Callable[[Any], Any]:
        """A map function: the identity, which at `record` waits for the gate."""
        path, arrivals = self.path, str(self._arrivals)

        def wait_at_gate(value: Any) -> Any:
            if value == record:
                with open(os.path.join(arrivals, f"{os.getpid()}-{time.monotonic_ns()}"), "w"):
                    pass
                while not os.path.exists(path):
                    time.sleep(0.01)
            return value

        return wait_at_gate

    @property
    def arrivals(self) -> list[int]:
        """Process ids of the tasks that have come to the gate, one per arrival."""
        return [int(name.partition("-")[0]) for name in os.listdir(self._arrivals)]

    def wait_for_arrival(self, number: int = 1) -> None:
        wait_until(lambda: len(self.arrivals) >= number, f"{number} tasks at the gate")

    def open(self) -> None:
        Path(self.path).touch()


def task_threads(cluster: RunningCluster, address: str) -> list[str]:
    """Names of the threads of a TaskExecutor that run tasks."""
    with SyncGateway("TaskExecutor", address, security=cluster.security) as gateway:
        dump = gateway.request_thread_dump(taskexecutor_pb2.ThreadDumpRequest(), timeout_s=10)
    return [thread.name for thread in dump.threads if "task_thread.py" in thread.stack]


def num_free_slots(cluster: RunningCluster) -> int:
    with SyncGateway("ResourceManager", cluster.resource_manager_address, security=cluster.security) as gateway:
        request = resourcemanager_pb2.ResourceOverviewRequest()
        return int(gateway.request_resource_overview(request, timeout_s=10).num_slots_free)


def task_managers(cluster: RunningCluster) -> list[resourcemanager_pb2.TaskManagerInfo]:
    with SyncGateway("ResourceManager", cluster.resource_manager_address, security=cluster.security) as gateway:
        request = resourcemanager_pb2.TaskManagerInfoRequest()
        return list(gateway.request_task_manager_info(request, timeout_s=10).task_managers)


def wait_until_idle(cluster: RunningCluster, slots: int = 2) -> None:
    """All slots are free again and no task thread is left."""
    wait_until(lambda: num_free_slots(cluster) == slots, f"{slots} free slots")
    for process in cluster.task_executors:
        if process.popen.poll() is None:
            assert process.address is not None
            assert task_threads(cluster, process.address) == []
