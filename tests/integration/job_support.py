"""Helpers for tests that run whole jobs: environments on a cluster under test, waiting, gates, and cluster state.

They work on every kind of cluster that has a client, properties and a `resource_manager_address`: `RunningCluster`,
`HaCluster` and `HostsCluster`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from clusters import RunningCluster
from directory_watch import wait_for_entry

from flinkpy._proto import resourcemanager_pb2, taskexecutor_pb2
from flinkpy.client.cluster_client import ClusterClient
from flinkpy.common import Configuration
from flinkpy.common.errors import FlinkError
from flinkpy.common.states import JobState
from flinkpy.datastream import MapFunction, RuntimeContext, StreamExecutionEnvironment
from flinkpy.rpc.health_check import Health, check_health
from flinkpy.rpc.sync_client import SyncGateway
from flinkpy.security import SecurityContext

#: The default time to wait. A loaded machine with two cores needs less for everything that these tests wait for.
DEADLINE_S = 90.0
#: How often `wait_until` asks: soon enough to see what lasts for a tenth of a second.
SHORTEST_INTERVAL_S, LONGEST_INTERVAL_S = 0.02, 0.1

#: The gRPC service of each kind of master.
MASTER_SERVICES = {"dispatcher": "Dispatcher", "resourcemanager": "ResourceManager"}

FIXED_DELAY = {
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "3",
    "restart-strategy.fixed-delay.delay": "100 ms",
}
NO_RESTART = {"restart-strategy.type": "none"}


class ClusterUnderTest(Protocol):
    """A running cluster, however it was started."""

    @property
    def client(self) -> ClusterClient: ...

    @property
    def properties(self) -> dict[str, str]:
        """The options that a client needs to reach the cluster."""

    @property
    def security(self) -> SecurityContext: ...

    @property
    def resource_manager_address(self) -> str: ...


def environment(cluster: ClusterUnderTest, parallelism: int = 2, **properties: str) -> StreamExecutionEnvironment:
    """Returns an environment whose jobs run on the cluster, without restarts unless `properties` say otherwise."""
    configuration = Configuration.from_dict({**cluster.properties, **NO_RESTART, **properties})
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(parallelism)
    return env


def wait_until(condition: Callable[[], Any], what: str, timeout_s: float = DEADLINE_S) -> Any:
    """Calls the condition until its result is true, and returns the result.

    It is called every 20 ms at first and every 100 ms later, and waits for most of the time: a question to a cluster
    takes milliseconds of CPU time in three processes.

    Args:
        condition: the question.
        what: the awaited event, for the error.
        timeout_s: seconds to wait.

    Raises:
        AssertionError: the condition was not true in time.
    """
    began = asked = time.monotonic()
    while not (answer := condition()):
        now = time.monotonic()
        waited_s, took_s = now - began, now - asked
        assert waited_s < timeout_s, f"waited {timeout_s} s for: {what}"
        interval_s = min(max(SHORTEST_INTERVAL_S, waited_s / 10, 3 * took_s), LONGEST_INTERVAL_S)
        time.sleep(interval_s)
        asked = time.monotonic()
    return answer


def wait_for_state(cluster: ClusterUnderTest, job_id: str, state: JobState) -> None:
    """Waits until the job has the state."""
    wait_until(lambda: cluster.client.request_job_status(job_id) is state, f"job {job_id} is {state.name}")


class Gate:
    """A file that user functions wait for. It stops a job at a chosen record until the test opens the gate."""

    def __init__(self, directory: Path) -> None:
        self.path = str(directory / "gate")
        self._arrivals = directory / "arrivals"
        self._arrivals.mkdir()

    def pass_at(self, record: Any) -> Callable[[Any], Any]:
        """Returns an identity map function that waits for the gate at `record`."""
        path, arrivals = self.path, str(self._arrivals)

        def wait_at_gate(value: Any) -> Any:
            if value == record:
                with open(os.path.join(arrivals, f"{os.getpid()}-{time.monotonic_ns()}"), "w"):
                    pass
                wait_for_entry(os.path.dirname(path), lambda: os.path.exists(path))
            return value

        return wait_at_gate

    @property
    def arrivals(self) -> list[int]:
        """The process ids of the tasks that have reached the gate, one per arrival."""
        return [int(name.partition("-")[0]) for name in os.listdir(self._arrivals)]

    def wait_for_arrival(self, number: int = 1) -> None:
        wait_until(lambda: len(self.arrivals) >= number, f"{number} tasks at the gate")

    def open(self) -> None:
        Path(self.path).touch()


class Together(MapFunction):
    """An identity function whose subtasks wait in `open` until `number` of them have begun.

    Subtasks of a stage often run one after the other in one slot, because the first has finished before the second slot
    is offered. With this function, each process with one slot runs one of them. Later attempts do not wait.
    """

    def __init__(self, directory: Path, number: int = 2) -> None:
        directory.mkdir()
        self._directory, self._number = str(directory), number

    def open(self, runtime_context: RuntimeContext) -> None:
        subtask = runtime_context.get_index_of_this_subtask()
        with open(os.path.join(self._directory, str(subtask)), "w"):
            pass
        wait_for_entry(self._directory, lambda: len(os.listdir(self._directory)) >= self._number)

    def map(self, value: Any) -> Any:
        return value


def task_threads(cluster: RunningCluster, address: str) -> list[str]:
    """Returns the names of the threads of a TaskExecutor that run tasks."""
    with SyncGateway("TaskExecutor", address, security=cluster.security) as gateway:
        dump = gateway.request_thread_dump(taskexecutor_pb2.ThreadDumpRequest(), timeout_s=10)
    return [thread.name for thread in dump.threads if "task_thread.py" in thread.stack]


def leads(kind: str, address: str, security: SecurityContext) -> bool:
    """True if the `dispatcher` or `resourcemanager` at the address serves as the leader."""
    try:
        return check_health(MASTER_SERVICES[kind], address, security=security, timeout_s=2) is Health.SERVING
    except FlinkError:
        return False


def resource_overview(cluster: ClusterUnderTest, timeout_s: float = 10.0) -> resourcemanager_pb2.ResourceOverview:
    """Asks the ResourceManager for the numbers of TaskExecutors and slots."""
    with SyncGateway("ResourceManager", cluster.resource_manager_address, security=cluster.security) as gateway:
        request = resourcemanager_pb2.ResourceOverviewRequest()
        answer: resourcemanager_pb2.ResourceOverview = gateway.request_resource_overview(request, timeout_s=timeout_s)
    return answer


def num_free_slots(cluster: ClusterUnderTest) -> int:
    return int(resource_overview(cluster).num_slots_free)


def task_managers(cluster: ClusterUnderTest) -> list[resourcemanager_pb2.TaskManagerInfo]:
    with SyncGateway("ResourceManager", cluster.resource_manager_address, security=cluster.security) as gateway:
        request = resourcemanager_pb2.TaskManagerInfoRequest()
        return list(gateway.request_task_manager_info(request, timeout_s=10).task_managers)


def busy_task_executor(cluster: ClusterUnderTest, job_id: str) -> int:
    """Returns the process id of a TaskExecutor that runs a task of the job."""
    details = cluster.client.request_job(job_id)
    busy = {subtask.resource_id for vertex in details.vertices for subtask in vertex.subtasks}
    return next(task_manager.pid for task_manager in task_managers(cluster) if task_manager.resource_id in busy)


def wait_until_idle(cluster: RunningCluster, slots: int = 2) -> None:
    """Waits until all slots are free, and checks that no task thread is left."""
    wait_until(lambda: num_free_slots(cluster) == slots, f"{slots} free slots")
    for process in cluster.task_executors:
        if process.popen.poll() is None:
            assert process.address is not None
            assert task_threads(cluster, process.address) == []
