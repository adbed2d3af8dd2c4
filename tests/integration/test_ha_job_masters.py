"""JobMasters that outlive their Dispatchers, lose their leadership, or wait for a Dispatcher that accepts a result."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from ha_cluster import HaCluster
from job_support import FIXED_DELAY, environment, wait_until
from test_batch_recovery import Stages, runs, unfinished_as_once, wait_for_events
from verifying.harness import UNTIL_HURRY, Run, VerifyingRuns
from verifying.sequence_source import SequencePerKeySource
from verifying.two_phase_sink import TwoPhaseSink, committed_records
from zookeeper_server import ZooKeeperServer

from flinkpy.common import Types, WatermarkStrategy
from flinkpy.common.states import JobState

KEYS, RECORDS_PER_KEY = 4, 2_000


@pytest.fixture(scope="module")
def cluster_of_the_file(zookeeper: ZooKeeperServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HaCluster]:
    with HaCluster(zookeeper, tmp_path_factory.mktemp("ha-jobs"), resource_managers=1) as cluster:
        yield cluster


@pytest.fixture
def cluster(cluster_of_the_file: HaCluster) -> HaCluster:
    cluster_of_the_file.heal()
    return cluster_of_the_file


def verifying(cluster: HaCluster, directory: Path) -> VerifyingRuns:
    return VerifyingRuns(cluster, directory, UNTIL_HURRY)  # type: ignore[arg-type]


def leading_pid(cluster: HaCluster, job_id: str) -> int:
    """Returns the id of the process that the logs named last as the leader of the job."""
    said = re.compile(rf"^(\S+ \S+) .*job {job_id} is led by \S+ \(pid (\d+)", re.MULTILINE)

    def find() -> tuple[str, str] | None:
        found = [match for name in cluster.names("dispatcher") for match in said.findall(cluster.log(name))]
        return max(found, default=None)

    _, pid = wait_until(find, f"a JobMaster of {job_id}")
    return int(pid)


def job_master_of(cluster: HaCluster, job_id: str) -> psutil.Process:
    return psutil.Process(leading_pid(cluster, job_id))


def wait_for_another_leader(cluster: HaCluster, job_id: str, former: psutil.Process) -> None:
    wait_until(lambda: leading_pid(cluster, job_id) != former.pid, "another JobMaster leads the job")


def adopted(cluster: HaCluster, run: Run) -> psutil.Process:
    """Kills the Dispatcher of the job. Returns the JobMaster when another Dispatcher has adopted it."""
    job_master = job_master_of(cluster, run.job_id)
    cluster.kill(cluster.leader("dispatcher"))
    leader = cluster.leader("dispatcher")
    wait_until(lambda: f"job {run.job_id} is led by" in cluster.log(leader), "the JobMaster is adopted")
    assert job_master_of(cluster, run.job_id) == job_master
    assert job_master.is_running()
    return job_master


def shipping_job(cluster: HaCluster, tmp_path: Path) -> Any:
    """Submits a job whose tasks need a file from the Dispatcher."""
    module = tmp_path / "shipped_with_the_job.py"
    module.write_text("def marked(pair):\n    return (*pair, 'shipped')\n")

    def mark(pair: Any) -> Any:
        from shipped_with_the_job import marked  # type: ignore[import-not-found]

        return marked(pair)

    properties = {"execution.checkpointing.dir": str(tmp_path / "checkpoints"), **FIXED_DELAY}
    env = environment(cluster, **properties)  # type: ignore[arg-type]
    env.enable_checkpointing(150)
    env.add_python_file(str(module))
    numbers = env.from_source(
        SequencePerKeySource(KEYS, RECORDS_PER_KEY, 50), WatermarkStrategy.no_watermarks(), "numbers"
    )
    triple = Types.TUPLE([Types.LONG(), Types.LONG(), Types.STRING()])
    numbers.map(mark, triple).sink_to(TwoPhaseSink(str(tmp_path / "out")))
    return env.execute_async("shipping")


def test_an_adopted_job_can_restart_tasks_take_savepoints_and_be_canceled(cluster: HaCluster, tmp_path: Path) -> None:
    def num_committed() -> int:
        return len(list(committed_records(tmp_path / "out")))

    job_id = str(shipping_job(cluster, tmp_path).get_job_id())
    wait_until(lambda: num_committed() > 0, "output")
    job_master = job_master_of(cluster, job_id)
    cluster.kill(cluster.leader("dispatcher"))
    seen = num_committed()
    wait_until(lambda: num_committed() > seen, "output while no Dispatcher leads")
    wait_until(lambda: cluster.client.request_job_status(job_id) is JobState.RUNNING, "the JobMaster is adopted")
    assert cluster.client.request_job(job_id).num_restarts == 0

    # A new process has no files of the job. It gets them from the leading Dispatcher.
    cluster.kill("taskexecutor-1")
    cluster.start("taskexecutor-1")
    wait_until(lambda: cluster.client.request_job(job_id).num_restarts > 0, "a restart")
    seen = num_committed()
    wait_until(lambda: num_committed() > seen, "output after the restart")
    assert job_master_of(cluster, job_id) == job_master

    savepoint = cluster.client.trigger_savepoint(job_id, str(tmp_path / "savepoints"))
    assert (Path(savepoint.removeprefix("file://")) / "_metadata").exists()
    cluster.client.cancel_job(job_id)
    assert JobState(cluster.client.wait_for_result(job_id).status) is JobState.CANCELED
    job_master.wait(20)
    by_key: dict[int, list[int]] = {key: [] for key in range(KEYS)}
    for key, number, mark in committed_records(tmp_path / "out"):
        assert mark == "shipped"
        by_key[key].append(number)
    assert all(sorted(numbers) == list(range(len(numbers))) for numbers in by_key.values())


def test_a_job_master_that_was_suspended_longer_than_its_session_does_nothing_afterwards(
    cluster: HaCluster, tmp_path: Path
) -> None:
    runs = verifying(cluster, tmp_path)
    with runs.started() as run:
        run.wait_for_first_checkpoint()
        former = adopted(cluster, run)  # not a child of the Dispatcher, which therefore cannot kill it
        former.send_signal(signal.SIGSTOP)
        wait_for_another_leader(cluster, run.job_id, former)
        run.wait_for_checkpoints(2)
        former.send_signal(signal.SIGCONT)
        former.wait(20)
        run.wait_for_checkpoints(2)
        assert job_master_of(cluster, run.job_id) != former
        run.hurry()
        run.wait_for_end()
    runs.assert_exactly_once(run)


def test_a_job_resumes_from_its_checkpoint_when_its_adopted_job_master_is_killed(
    cluster: HaCluster, tmp_path: Path
) -> None:
    runs = verifying(cluster, tmp_path)
    with runs.started() as run:
        run.wait_for_first_checkpoint()
        former = adopted(cluster, run)
        former.kill()
        wait_for_another_leader(cluster, run.job_id, former)
        run.wait_for_checkpoints(2)
        run.hurry()
        run.wait_for_end()
    runs.assert_exactly_once(run)


def test_a_result_waits_for_a_dispatcher_that_accepts_it(cluster: HaCluster, tmp_path: Path) -> None:
    runs = verifying(cluster, tmp_path)
    with runs.started() as run:
        run.wait_for_first_checkpoint()
        job_master = job_master_of(cluster, run.job_id)
        for name in cluster.names("dispatcher"):
            cluster.kill(name)
        run.hurry()
        wait_until(lambda: f"({run.job_id}) is FINISHED" in all_logs(cluster), "the job ends unseen")
        assert job_master.is_running()
        wait_until(lambda: cluster.job_masters() == [job_master], "standby JobMasters end with their Dispatcher")
        cluster.start("dispatcher-1")
        run.wait_for_end()
        job_master.wait(20)
    runs.assert_exactly_once(run)


def test_jobs_continue_when_zookeeper_returns(cluster: HaCluster, zookeeper: ZooKeeperServer, tmp_path: Path) -> None:
    runs = verifying(cluster, tmp_path)
    with runs.started() as run:
        run.wait_for_first_checkpoint()
        former = job_master_of(cluster, run.job_id)
        zookeeper.kill()
        former.wait(20)  # it must not act while it cannot know whether it leads
        zookeeper.start()
        run.wait_for_checkpoints(2)
        run.hurry()
        run.wait_for_end()
    runs.assert_exactly_once(run)


def test_a_batch_job_keeps_its_finished_results_when_the_host_of_its_masters_is_lost(
    cluster: HaCluster, tmp_path: Path
) -> None:
    # Longer than it takes until a Dispatcher leads again.
    patience = {"execution.batch.job-recovery.previous-worker.recovery.timeout": "2 min"}
    job = Stages(cluster, tmp_path, **FIXED_DELAY, **patience)  # type: ignore[arg-type]
    job.reach(1)
    wait_for_events(job, 2)
    cluster.kill_host(cluster.leader("dispatcher"))
    job.reach(1, 2)
    assert unfinished_as_once(job.finish(), runs(source=1, reduce=2, last=1))


def all_logs(cluster: HaCluster) -> str:
    return "".join(cluster.log(name) for name in cluster.names("dispatcher"))
