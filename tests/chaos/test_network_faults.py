"""R6: after any network fault between any two hosts, the job runs again within 30 s of the end of the fault, and its
output is exact.

Source: flink-jepsen's nemeses. Differs: networks are also broken in one direction, delayed or lossy, and the committed
output is checked.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from hosts_cluster import HostsCluster
from namespaces import Network, require_namespaces
from network_nemesis import PERSISTENT, NetworkNemesis, faults_of_pairs
from test_exactly_once import INCREMENTAL, UNALIGNED
from verifying.harness import VerifyingRuns, Workload
from zookeeper_server import require_zookeeper

#: The durations of faults: shorter than all timeouts, longer than heartbeats and sessions, and longer than TCP waits.
DURATIONS_S = (2.0, 8.0, 20.0, 35.0)


@pytest.fixture
def seeded_network(tmp_path: Path, seed: int) -> Iterator[Network]:
    require_namespaces()
    require_zookeeper()
    with Network(tmp_path / "network", seed=seed) as network:
        yield network


@pytest.mark.timeout(0)
def test_a_job_survives_every_fault_between_every_two_hosts(
    seeded_network: Network, tmp_path: Path, seed: int, seconds: float
) -> None:
    """Runs as many of the faults as fit into 20 * CHAOS_SECONDS, different ones for each seed. All of them take about
    an hour.
    """
    chooser = random.Random(f"{seed} network")
    with HostsCluster(seeded_network, workers=3, is_highly_available=True) as cluster:
        runs = VerifyingRuns(cluster, tmp_path, Workload(waits_for_hurry=True))
        with runs.started(3, **{**PERSISTENT, **INCREMENTAL, **UNALIGNED}) as run:
            run.wait_for_first_checkpoint()
            nemesis = NetworkNemesis(cluster, run)
            try:
                for name, fault in faults_of_pairs(cluster, chooser):
                    nemesis.strike(name, fault, chooser.choice(DURATIONS_S))
                    if nemesis.seconds > 20 * seconds:
                        break
            finally:
                print(f"\n{nemesis}")  # noqa: T201 - shown where the test fails
            run.hurry()
            run.wait_for_end()
        runs.assert_exactly_once(run)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_a_job_survives_twenty_seconds_without_zookeeper(seeded_network: Network, tmp_path: Path, how: str) -> None:
    """Sessions time out after 10 s, so every leader loses its leadership, the JobMaster too."""
    with HostsCluster(seeded_network, is_highly_available=True, session_timeout="10 s") as cluster:
        zookeeper = cluster.zookeeper
        assert zookeeper is not None
        runs = VerifyingRuns(cluster, tmp_path, Workload(waits_for_hurry=True))
        with runs.started(**PERSISTENT) as run:
            run.wait_for_first_checkpoint()
            nemesis = NetworkNemesis(cluster, run)
            begin, end = (
                (zookeeper.kill, zookeeper.start)
                if how == "killed"
                else (cluster.pause_zookeeper, cluster.resume_zookeeper)
            )
            try:
                nemesis.strike(f"ZooKeeper {how}", begin, 20.0, end)
            finally:
                print(f"\n{nemesis}")  # noqa: T201 - shown where the test fails
            run.hurry()
            run.wait_for_end()
        runs.assert_exactly_once(run)
