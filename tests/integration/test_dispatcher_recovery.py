"""kill -9 of the Dispatcher: its successor at the same address recovers the jobs, and waiting clients continue."""

from __future__ import annotations

import signal
import threading
from pathlib import Path

import pytest
from clusters import RunningCluster, StartCluster
from job_support import FIXED_DELAY, Gate, environment, wait_for_state, wait_until, wait_until_idle
from test_killed_job_masters import (
    assert_exactly_once,
    checkpointed_counting,
    counting,
    lines_of,
    wait_for_more_output,
    waiting_graph,
)

from flinkpy.common import Types
from flinkpy.common.errors import DuplicateJobSubmissionError
from flinkpy.common.states import JobState


@pytest.fixture
def supervised(start_cluster: StartCluster) -> RunningCluster:
    """A cluster of two TaskExecutors that restarts dead services."""
    return start_cluster(2, restart_services=True)


def kill(cluster: RunningCluster, name: str) -> None:
    """Sends SIGKILL to a service and waits until another process has replaced it."""
    former = cluster.service(name)
    former.popen.send_signal(signal.SIGKILL)
    wait_until(lambda: cluster.service(name) is not former, f"another {name}")


def test_a_client_that_waits_gets_the_result_from_the_next_dispatcher(
    supervised: RunningCluster, tmp_path: Path
) -> None:
    gate, last = Gate(tmp_path), 1_400
    env = environment(supervised, **FIXED_DELAY)
    counting(env, gate, tmp_path / "out", last)
    client = env.execute_async("counting")
    job_id = str(client.get_job_id())
    result = client.get_job_execution_result()
    states: list[JobState] = []
    watch = threading.Thread(target=lambda: states.extend(supervised.client.watch_job_status(job_id)))
    watch.start()
    gate.wait_for_arrival()
    kill(supervised, "dispatcher")
    gate.wait_for_arrival(2)
    gate.open()

    assert str(result.result().get_job_id()) == job_id
    watch.join(40)

    assert sorted(set(lines_of(tmp_path / "out"))) == [f"{key},{last // 7}" for key in range(7)]
    assert states[-1] is JobState.FINISHED
    wait_until_idle(supervised)


@pytest.mark.parametrize(
    "victims",
    [
        pytest.param(("dispatcher",), marks=pytest.mark.chaos),
        pytest.param(("dispatcher", "taskexecutor-1"), marks=pytest.mark.chaos),
        ("dispatcher", "resourcemanager", "taskexecutor-2"),
    ],
    ids="+".join,
)
def test_a_job_with_checkpoints_continues_whichever_process_is_killed(
    supervised: RunningCluster, tmp_path: Path, victims: tuple[str, ...]
) -> None:
    client = checkpointed_counting(supervised, tmp_path)
    result = client.get_job_execution_result()
    wait_for_more_output(tmp_path)
    former = [supervised.service(name) for name in victims]
    for process in former:
        process.popen.send_signal(signal.SIGKILL)
    for name, process in zip(victims, former):
        wait_until(lambda name=name, process=process: supervised.service(name) is not process, f"another {name}")
    wait_for_more_output(tmp_path)

    assert result.result().get_job_id() == client.get_job_id()
    assert_exactly_once(tmp_path)


def test_ended_jobs_are_remembered_and_no_id_is_used_twice(supervised: RunningCluster) -> None:
    graph = waiting_graph(supervised)
    supervised.client.submit_job(graph)
    assert supervised.client.wait_for_result(graph.job_id).status == JobState.FINISHED.value

    kill(supervised, "dispatcher")

    assert supervised.client.wait_for_result(graph.job_id).status == JobState.FINISHED.value
    with pytest.raises(DuplicateJobSubmissionError, match=r"has ended \(FINISHED\)"):
        supervised.client.submit_job(graph)


def test_a_dispatcher_killed_repeatedly_keeps_its_job(start_cluster: StartCluster) -> None:
    cluster = start_cluster(0, restart_services=True)
    graph = waiting_graph(cluster, **FIXED_DELAY)
    cluster.client.submit_job(graph)
    for _ in range(3):
        kill(cluster, "dispatcher")
    wait_until(lambda: any(job.job_id == graph.job_id for job in jobs_of(cluster)), "the job is known")
    wait_for_state(cluster, graph.job_id, JobState.RUNNING)
    cluster.client.cancel_job(graph.job_id)
    assert cluster.client.wait_for_result(graph.job_id).status == JobState.CANCELED.value


def jobs_of(cluster: RunningCluster) -> list[object]:
    from flinkpy.common.errors import RpcUnavailableError

    try:
        return list(cluster.client.list_jobs())
    except RpcUnavailableError:
        return []


@pytest.mark.chaos
def test_a_killed_task_executor_is_replaced_and_its_job_continues(supervised: RunningCluster, tmp_path: Path) -> None:
    gate, last = Gate(tmp_path), 1_400
    env = environment(supervised, **FIXED_DELAY)
    counting(env, gate, tmp_path / "out", last)
    client = env.execute_async("counting")
    gate.wait_for_arrival()
    victim = gate.arrivals[0]
    name = next(one.spec.name for one in supervised.task_executors if one.popen.pid == victim)
    kill(supervised, name)
    gate.wait_for_arrival(2)
    gate.open()

    client.get_job_execution_result().result()

    assert sorted(set(lines_of(tmp_path / "out"))) == [f"{key},{last // 7}" for key in range(7)]
    wait_until_idle(supervised)


def test_collected_results_continue_after_the_dispatcher_is_killed(supervised: RunningCluster, tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    env = environment(supervised, 1, **FIXED_DELAY)
    stream = env.from_sequence(1, 100).map(gate.pass_at(50), output_type=Types.LONG())
    with stream.execute_and_collect("collected") as results:
        gate.wait_for_arrival()
        kill(supervised, "dispatcher")
        gate.wait_for_arrival(2)
        gate.open()
        assert sorted(set(results)) == list(range(1, 101))
