"""The committed output of the verifying job is that of a run without faults, despite any fault.

Each test places one fault and asserts that it happened.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest
from clusters import RunningCluster, StartCluster
from job_support import busy_task_executor, wait_until
from verifying.harness import UNTIL_HURRY, VerifyingRuns

from flinkpy.common.states import JobState

HEAP = {"state.backend.type": "hashmap"}
ROCKSDB = {"state.backend.type": "rocksdb"}
INCREMENTAL = {"state.backend.type": "rocksdb", "execution.checkpointing.incremental": "true"}
ALIGNED = {"execution.checkpointing.unaligned.enabled": "false"}
UNALIGNED = {"execution.checkpointing.unaligned.enabled": "true"}
TIMEOUT = {**UNALIGNED, "execution.checkpointing.aligned-checkpoint-timeout": "1 ms"}
REGION = {"jobmanager.execution.failover-strategy": "region"}
FULL = {"jobmanager.execution.failover-strategy": "full"}

#: Heartbeats that detect a hanging process within the patience of a test.
FAST_HEARTBEATS = {"heartbeat.interval": "300 ms", "heartbeat.timeout": "2 s"}

BACKENDS = {"heap": HEAP, "rocksdb": ROCKSDB, "incremental": INCREMENTAL}
MODES = {"aligned": ALIGNED, "unaligned": UNALIGNED, "timeout": TIMEOUT}


def pairs(ones: dict[str, Any], others: dict[str, Any]) -> list[Any]:
    """Returns all pairs. Those on the diagonal are part of `make test`, the others only of `make chaos`."""
    return [
        pytest.param(one, other, id=f"{name}-{other_name}", marks=[] if i == j else [pytest.mark.chaos])
        for i, (name, one) in enumerate(ones.items())
        for j, (other_name, other) in enumerate(others.items())
    ]


@pytest.mark.parametrize(("mode", "backend"), pairs(MODES, BACKENDS))
def test_a_run_without_faults_commits_everything_once(
    shared_cluster: RunningCluster, tmp_path: Path, backend: dict[str, str], mode: dict[str, str]
) -> None:
    runs = VerifyingRuns(shared_cluster, tmp_path, UNTIL_HURRY)
    with runs.started(**backend, **mode) as run:
        run.wait_for_first_checkpoint()
        run.hurry()
        run.wait_for_end()
    assert run.num_restarts == 0
    runs.assert_exactly_once(run)


@pytest.mark.parametrize(
    ("place", "nth", "settings"),
    [
        pytest.param("process", 60, {**HEAP, **ALIGNED, **REGION}, id="process", marks=pytest.mark.chaos),
        pytest.param("process", 60, {**INCREMENTAL, **UNALIGNED, **FULL}, id="process-incremental-unaligned-full"),
        pytest.param("timer", 3, {**ROCKSDB, **ALIGNED, **FULL}, id="timer"),
        pytest.param("notify", 3, {**HEAP, **UNALIGNED, **REGION}, id="notify"),
        pytest.param("sink_snapshot", 3, {**INCREMENTAL, **ALIGNED, **REGION}, id="sink-snapshot"),
        pytest.param("prepare_commit", 3, {**HEAP, **ALIGNED, **REGION}, id="prepare-commit"),
    ],
)
def test_an_exception_costs_nothing_but_time(
    shared_cluster: RunningCluster, tmp_path: Path, place: str, nth: int, settings: dict[str, str]
) -> None:
    runs = VerifyingRuns(shared_cluster, tmp_path, UNTIL_HURRY)
    runs.faults.arm(place, "raise", nth)
    with runs.started(**settings) as run:
        if place != "timer":  # timers fire at the end
            wait_until(lambda: runs.faults.fired(place) == 1, f"{place} raises")
        run.hurry()
        run.wait_for_end()
    assert runs.faults.fired(place) == 1
    assert run.num_restarts >= 1
    runs.assert_exactly_once(run)


def test_a_snapshot_that_raises_restarts_the_job(shared_cluster: RunningCluster, tmp_path: Path) -> None:
    runs = VerifyingRuns(shared_cluster, tmp_path, UNTIL_HURRY)
    runs.faults.arm("snapshot", "raise", 3)
    with runs.started() as run:
        wait_until(lambda: runs.faults.fired("snapshot") == 1, "the snapshot raises")
        run.hurry()
        run.wait_for_end()
    assert runs.faults.fired("snapshot") == 1
    # No failed checkpoint is tolerated here. On an overloaded machine a checkpoint may fail because a call times out,
    # which restarts the job once more.
    assert run.num_restarts >= 1
    history = run.cluster.client.request_job(run.job_id).exception_history
    assert sum("InjectedError" in entry.error.message for entry in history) == 1
    runs.assert_exactly_once(run)


def test_a_commit_that_raises_is_retried(shared_cluster: RunningCluster, tmp_path: Path) -> None:
    runs = VerifyingRuns(shared_cluster, tmp_path, UNTIL_HURRY)
    runs.faults.arm("commit", "raise", 3)
    runs.faults.arm("committed", "raise", 5)
    with runs.started(**INCREMENTAL) as run:
        wait_until(lambda: runs.faults.fired("commit") + runs.faults.fired("committed") == 2, "both commits raise")
        run.hurry()
        run.wait_for_end()
    assert run.num_restarts == 0
    runs.assert_exactly_once(run)


def test_a_restore_that_raises_is_retried(shared_cluster: RunningCluster, tmp_path: Path) -> None:
    runs = VerifyingRuns(shared_cluster, tmp_path, UNTIL_HURRY)
    runs.faults.arm("restore", "raise", 1)
    with runs.started() as run:
        # Before a checkpoint there is nothing to restore.
        run.wait_for_first_checkpoint()
        runs.faults.arm("process", "raise", 1)
        wait_until(lambda: runs.faults.fired("restore") == 1, "the restore raises")
        run.hurry()
        run.wait_for_end()
    assert (runs.faults.fired("process"), runs.faults.fired("restore")) == (1, 1)
    assert run.num_restarts >= 2
    runs.assert_exactly_once(run)


@pytest.mark.parametrize(
    ("mode", "backend"),
    [
        # Crash points kill a TaskExecutor with aligned barriers and state in memory.
        pytest.param(ALIGNED, HEAP, id="aligned-heap", marks=pytest.mark.chaos),
        pytest.param(UNALIGNED, INCREMENTAL, id="unaligned-incremental"),
    ],
)
def test_a_killed_task_executor_costs_nothing_but_time(
    start_cluster: StartCluster, tmp_path: Path, backend: dict[str, str], mode: dict[str, str]
) -> None:
    cluster = start_cluster(3)
    runs = VerifyingRuns(cluster, tmp_path)
    runs.faults.arm("process", "kill", 900)
    with runs.started(**backend, **mode) as run:
        run.wait_for_end()
    assert runs.faults.fired("process") == 1
    assert run.num_restarts >= 1
    runs.assert_exactly_once(run)


def test_a_job_goes_on_exactly_once_after_its_job_master_is_killed(cluster: RunningCluster, tmp_path: Path) -> None:
    runs = VerifyingRuns(cluster, tmp_path, UNTIL_HURRY)
    with runs.started() as run:
        for _ in range(2):
            run.wait_for_checkpoints(2)
            leader = _job_master_of(cluster)
            os.kill(leader, signal.SIGKILL)
            run.wait_for_checkpoints(1)
        run.hurry()
        run.wait_for_end()
    runs.assert_exactly_once(run)


def test_a_killed_dispatcher_recovers_its_jobs(start_cluster: StartCluster, tmp_path: Path) -> None:
    cluster = start_cluster(2, restart_services=True)
    runs = VerifyingRuns(cluster, tmp_path, UNTIL_HURRY)
    with runs.started() as run:
        run.wait_for_checkpoints(2)
        cluster.kill("dispatcher")
        run.hurry()
        run.wait_for_end()
    runs.assert_exactly_once(run)


def test_a_killed_resource_manager_disturbs_nothing(start_cluster: StartCluster, tmp_path: Path) -> None:
    cluster = start_cluster(2, restart_services=True)
    runs = VerifyingRuns(cluster, tmp_path, UNTIL_HURRY)
    with runs.started() as run:
        run.wait_for_checkpoints(2)
        cluster.kill("resourcemanager")
        run.wait_for_checkpoints(2)
        run.hurry()
        run.wait_for_end()
    assert run.num_restarts == 0
    runs.assert_exactly_once(run)


def test_a_task_executor_that_hangs_is_noticed_and_replaced(start_cluster: StartCluster, tmp_path: Path) -> None:
    cluster = start_cluster(3, properties=FAST_HEARTBEATS)
    runs = VerifyingRuns(cluster, tmp_path, UNTIL_HURRY)
    with runs.started() as run:
        run.wait_for_checkpoints(2)
        victim = busy_task_executor(cluster, run.job_id)
        os.kill(victim, signal.SIGSTOP)
        try:
            run.wait_for_restarts(1)
            run.hurry()
            run.wait_for_end()
        finally:
            os.kill(victim, signal.SIGCONT)
    runs.assert_exactly_once(run)


@pytest.mark.parametrize(
    ("change", "backends"),
    pairs(
        {"2-4": (2, 4), "4-2": (4, 2), "3-5": (3, 5)},
        {"heap-to-rocksdb": (HEAP, INCREMENTAL), "rocksdb-to-heap": (ROCKSDB, HEAP)},
    ),
)
def test_a_savepoint_moves_the_job_to_another_parallelism_and_backend(
    wide_cluster: RunningCluster, tmp_path: Path, change: tuple[int, int], backends: tuple[dict[str, str], ...]
) -> None:
    cluster = wide_cluster
    (before, after), (backend, other) = change, backends
    runs = VerifyingRuns(cluster, tmp_path, UNTIL_HURRY)
    with runs.started(before, **backend) as run:
        run.wait_for_checkpoints(2)
        savepoint = cluster.client.stop_with_savepoint(run.job_id, str(tmp_path / "savepoints"))
    assert cluster.client.request_job_status(run.job_id) is JobState.FINISHED
    with runs.started(after, **other, **{"execution.state-recovery.path": savepoint}) as run:
        run.hurry()
        run.wait_for_end()
    runs.assert_exactly_once(run)


@pytest.mark.parametrize(("before", "after"), [pytest.param(2, 2, marks=pytest.mark.chaos), (2, 4), (3, 2)])
def test_in_flight_data_of_an_unaligned_checkpoint_is_redistributed_when_the_parallelism_changes(
    wide_cluster: RunningCluster, tmp_path: Path, before: int, after: int
) -> None:
    cluster = wide_cluster
    runs = VerifyingRuns(cluster, tmp_path, UNTIL_HURRY)
    retained = {"execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION"}
    with runs.started(before, **UNALIGNED, **retained) as run:
        run.wait_for_checkpoints(3)
        cluster.client.cancel_job(run.job_id)
        wait_until(lambda: cluster.client.request_job_status(run.job_id) is JobState.CANCELED, "the job is canceled")
    job = runs.checkpoints / run.job_id
    latest = max((path for path in job.glob("chk-*") if (path / "_metadata").exists()), key=lambda p: int(p.name[4:]))
    with runs.started(after, **UNALIGNED, **{"execution.state-recovery.path": str(latest)}) as run:
        run.hurry()
        run.wait_for_end()
    runs.assert_exactly_once(run)


def _job_master_of(cluster: RunningCluster) -> int:
    """Returns the process that leads the job: the Dispatcher's child that has used CPU time, not the standby."""
    return max(cluster.job_master_pids(), key=lambda pid: sum(psutil.Process(pid).cpu_times()[:2]))
