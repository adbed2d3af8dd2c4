"""The ResourceManager process: it starts and replaces workers, and it may die itself."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import psutil
import pytest
from clusters import RunningCluster, StartCluster
from job_support import Gate, environment, num_free_slots, resource_overview, wait_for_state, wait_until

from flinkpy.client.local_cluster import LOOPBACK
from flinkpy.client.service_process import ServiceProcess, ServiceSpec, wait_until_ready
from flinkpy.common.addresses import RESERVED_PORT_VARIABLE
from flinkpy.common.errors import JobExecutionError
from flinkpy.common.states import JobState

DRIVER = {"flinkpy.resourcemanager.driver": "local"}


def workers_of(cluster: RunningCluster) -> list[psutil.Process]:
    return psutil.Process(cluster.service("resourcemanager").popen.pid).children()


def test_workers_are_started_for_a_job_and_stopped_when_they_are_idle(start_cluster: StartCluster) -> None:
    cluster = start_cluster(
        0, properties={**DRIVER, "resourcemanager.taskmanager-timeout": "1 s", "slot.idle.timeout": "100 ms"}
    )
    assert resource_overview(cluster).num_task_managers == 0
    env = environment(cluster, 2)
    assert sorted(env.from_sequence(1, 10).map(lambda x: x * x).execute_and_collect()) == [x * x for x in range(1, 11)]
    wait_until(lambda: resource_overview(cluster).num_task_managers == 0, "idle workers are stopped")
    wait_until(lambda: workers_of(cluster) == [], "their processes are gone")


def test_a_killed_worker_is_replaced_and_the_job_goes_on(start_cluster: StartCluster, tmp_path: Path) -> None:
    cluster = start_cluster(0, properties=DRIVER)
    gate = Gate(tmp_path)
    env = environment(
        cluster,
        1,
        **{"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "100 ms"},
    )
    env.from_sequence(1, 10).map(gate.pass_at(5)).print()
    client = env.execute_async("gated")
    gate.wait_for_arrival()
    os.kill(gate.arrivals[0], signal.SIGKILL)
    gate.wait_for_arrival(2)
    gate.open()
    client.get_job_execution_result().result()


def test_no_more_workers_are_started_than_slots_are_allowed(start_cluster: StartCluster) -> None:
    cluster = start_cluster(
        0, properties={**DRIVER, "slotmanager.number-of-slots.max": "1", "slot.request.timeout": "3 s"}
    )
    env = environment(cluster, 2)
    # One pipelined region: its subtasks exchange records, so none can run before the other.
    env.from_sequence(1, 10).rebalance().map(lambda x: x).print()
    with pytest.raises(JobExecutionError, match=r"(?i)slot"):
        env.execute("too wide")
    assert len(workers_of(cluster)) <= 1
    assert resource_overview(cluster).num_slots_total <= 1


def test_the_configured_minimum_of_workers_runs_without_a_job(start_cluster: StartCluster) -> None:
    cluster = start_cluster(0, slots=2, properties={**DRIVER, "slotmanager.number-of-slots.min": "2"})
    wait_until(lambda: num_free_slots(cluster) == 2, "the minimum of slots")
    assert len(workers_of(cluster)) == 1


def test_workers_do_not_outlive_a_killed_resource_manager(start_cluster: StartCluster) -> None:
    cluster = start_cluster(0, properties={**DRIVER, "slotmanager.number-of-slots.min": "1"})
    wait_until(lambda: num_free_slots(cluster) == 1, "a worker")
    (worker,) = workers_of(cluster)
    working_directories = set(Path(os.environ["TMPDIR"]).glob("*taskexecutor*"))
    cluster.kill("resourcemanager")
    psutil.wait_procs([worker], timeout=30)
    assert not worker.is_running()
    for path in working_directories:  # no process is left that could have removed them
        for file in sorted(path.rglob("*"), reverse=True):
            file.unlink() if file.is_file() else file.rmdir()
        path.rmdir()


def test_a_killed_task_executor_is_noticed_at_once(start_cluster: StartCluster) -> None:
    cluster = start_cluster(2)
    wait_until(lambda: num_free_slots(cluster) == 2, "both are registered")
    cluster.kill("taskexecutor-1")
    killed = time.monotonic()
    wait_until(lambda: resource_overview(cluster).num_task_managers == 1, "the loss is known")
    # Heartbeats would notice it after 50 s.
    assert time.monotonic() - killed < 25.0


def test_task_executors_find_a_restarted_resource_manager_and_running_jobs_keep_their_slots(
    start_cluster: StartCluster, tmp_path: Path
) -> None:
    cluster = start_cluster(2)
    gate = Gate(tmp_path)
    env = environment(cluster, 1)
    env.from_sequence(1, 10).map(gate.pass_at(5)).print()
    client = env.execute_async("gated")
    gate.wait_for_arrival()
    cluster.kill("resourcemanager")
    port = cluster.resource_manager_address.rpartition(":")[2]
    arguments = ("--port", port, "--host", LOOPBACK)
    secret = {"security.secret-file": cluster.properties["security.secret-file"]}
    spec = ServiceSpec("successor", "resourcemanager", arguments, secret, environment={RESERVED_PORT_VARIABLE: port})
    successor = ServiceProcess(spec)
    try:
        wait_until_ready([successor], 20)
        wait_until(lambda: resource_overview(cluster).num_task_managers == 2, "both register again")
        wait_until(lambda: num_free_slots(cluster) == 1, "one slot is still the job's")
        gate.open()
        client.get_job_execution_result().result()
        wait_for_state(cluster, str(client.get_job_id()), JobState.FINISHED)
        wait_until(lambda: num_free_slots(cluster) == 2, "the slot is given back")
    finally:
        successor.popen.terminate()
        assert successor.popen.wait(10) == 0
        successor.close()
