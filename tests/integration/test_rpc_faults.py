"""A job gives the right result although calls between its processes are lost or duplicated."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from clusters import RunningCluster, StartCluster
from job_support import FIXED_DELAY, environment, wait_until_idle

from flinkpy.common import Types

FAULTS_ON_PATH = Path(__file__).parent / "rpc_faults"

#: Every call between services from the submission of a job to its end.
CALLS = [
    "ResourceManager.register_task_executor",
    "ResourceManager.send_slot_report",
    "ResourceManager.register_job_master",
    "ResourceManager.declare_required_resources",
    "TaskExecutor.request_slot",
    "JobMaster.register_task_manager",
    "JobMaster.offer_slots",
    "TaskExecutor.submit_tasks",
    "JobMaster.update_task_execution_states",
    "JobMaster.send_operator_events_to_coordinator",
    "TaskExecutor.send_operator_events_to_tasks",
    "Dispatcher.notify_job_master_started",
    "Dispatcher.notify_job_status",
    "Dispatcher.notify_job_terminated",
    "TaskExecutor.free_slot",
]
#: As in Flink, a lost event fails the task and the job restarts. A client that has read results gets an error.
EVENTS = {"JobMaster.send_operator_events_to_coordinator", "TaskExecutor.send_operator_events_to_tasks"}


def count_by_key(cluster: RunningCluster) -> Counter[int]:
    env = environment(cluster, **FIXED_DELAY)
    pair = Types.TUPLE([Types.LONG(), Types.LONG()])
    counts = env.from_sequence(0, 999).map(lambda x: (x % 7, 1), pair).key_by(lambda pair: pair[0]).sum(1)
    last: Counter[int] = Counter()
    with counts.execute_and_collect() as results:
        for key, count in results:
            assert count == last[key] + 1, "an update was lost, doubled or overtaken"
            last[key] = count
    return last


def make_unreliable(monkeypatch: pytest.MonkeyPatch, directory: Path, fault: str, calls: list[str]) -> Path:
    """Makes the calls unreliable. Returns the directory with the names of affected calls."""
    fired = directory / "fired"
    fired.mkdir(parents=True)
    for call in calls:
        (directory / call).touch()
    monkeypatch.setenv("PYTHONPATH", str(FAULTS_ON_PATH))
    monkeypatch.setenv("RPC_FAULT", fault)
    monkeypatch.setenv("RPC_FAULT_BUDGET", str(directory))
    return fired


@pytest.mark.parametrize("fault", [pytest.param("lost-request", marks=pytest.mark.chaos), "lost-response", "duplicate"])
def test_a_job_gives_the_right_result_even_if_each_call_fails_once(
    start_cluster: StartCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fault: str
) -> None:
    calls = [call for call in CALLS if call not in EVENTS]
    fired = make_unreliable(monkeypatch, tmp_path / "budget", fault, calls)
    cluster = start_cluster()
    assert count_by_key(cluster) == Counter(x % 7 for x in range(1000))
    wait_until_idle(cluster)
    hit = {path.name for path in fired.iterdir()}
    assert hit >= set(calls), f"never hit: {set(calls) - hit}"


@pytest.mark.parametrize("fault", [pytest.param("lost-request", marks=pytest.mark.chaos), "lost-response"])
def test_a_lost_operator_event_restarts_the_job_which_then_gives_the_right_result(
    start_cluster: StartCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fault: str
) -> None:
    fired = make_unreliable(monkeypatch, tmp_path / "budget", fault, sorted(EVENTS))
    cluster = start_cluster()
    assert count_by_key(cluster) == Counter(x % 7 for x in range(1000))
    assert {path.name for path in fired.iterdir()} == EVENTS
    (job,) = cluster.client.list_jobs()
    assert cluster.client.request_job(job.job_id).num_restarts > 0
    wait_until_idle(cluster)
