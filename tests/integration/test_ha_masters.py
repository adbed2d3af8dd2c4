"""Masters die, hang and come back: jobs go on, and what they write is what a run without faults writes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from ha_cluster import HaCluster
from verifying.harness import VerifyingRuns, Workload
from zookeeper_server import ZooKeeperServer


@pytest.fixture
def ha_cluster(zookeeper: ZooKeeperServer, tmp_path: Path) -> Iterator[HaCluster]:
    with HaCluster(zookeeper, tmp_path) as cluster:
        yield cluster


def test_a_job_survives_its_dispatcher_without_a_restart(ha_cluster: HaCluster, tmp_path: Path) -> None:
    runs = VerifyingRuns(ha_cluster, tmp_path, Workload(waits_for_hurry=True))  # type: ignore[arg-type]
    with runs.started() as run:
        run.wait_for_first_checkpoint()
        [job_master] = [process.pid for process in ha_cluster.job_masters() if process.children is not None][:1]
        ha_cluster.kill(ha_cluster.leader("dispatcher"))
        run.wait_for_checkpoints(2)
        assert job_master in {process.pid for process in ha_cluster.job_masters()}
        assert run.num_restarts == 0
        run.hurry()
        run.wait_for_end()
    runs.assert_exactly_once(run)
