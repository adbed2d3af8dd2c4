"""Network partitions and wrong clocks: a job continues, and its output is exact. tests/chaos covers all partitions."""

from __future__ import annotations

from pathlib import Path

import pytest
from hosts_cluster import HostsCluster, require_clocks
from namespaces import Network
from network_nemesis import PERSISTENT, NetworkNemesis
from network_switch import Rule
from verifying.harness import UNTIL_HURRY, VerifyingRuns
from zookeeper_server import require_zookeeper

#: Longer than heartbeat and session timeouts of 4 s, so unreachable processes count as lost.
LONG_ENOUGH_S = 6.0


@pytest.mark.chaos
@pytest.mark.timeout(240)
def test_a_job_survives_network_partitions_with_exact_output(network: Network, tmp_path: Path) -> None:
    require_zookeeper()
    with HostsCluster(network, is_highly_available=True) as cluster:
        leader = cluster.leader("dispatcher")
        one, other = cluster.workers
        runs = VerifyingRuns(cluster, tmp_path, UNTIL_HURRY)
        with runs.started(**PERSISTENT) as run:
            run.wait_for_first_checkpoint()
            nemesis = NetworkNemesis(cluster, run)
            try:
                nemesis.strike(
                    "the leading master and ZooKeeper",
                    lambda: network.cut(leader, cluster.zookeeper_host),
                    LONG_ENOUGH_S,
                )
                nemesis.strike("a worker from both masters", lambda: isolate_from_masters(cluster), LONG_ENOUGH_S)
                nemesis.strike("one worker to the other", lambda: network.cut_one_way(one, other), LONG_ENOUGH_S)
                nemesis.strike("delay and loss", lambda: slow_and_lossy(cluster), 3.0)
            finally:
                print(nemesis)  # noqa: T201 - shown where the test fails
            run.hurry()
            run.wait_for_end()
        runs.assert_exactly_once(run)
        assert network.num_dropped() > 0


def isolate_from_masters(cluster: HostsCluster) -> None:
    for master in cluster.masters:
        cluster.network.cut(cluster.workers[0], master)


def slow_and_lossy(cluster: HostsCluster) -> None:
    for host in cluster.hosts:
        for other in cluster.network.others(host):
            cluster.network.rule(host, other, Rule(delay_ms=40, jitter_ms=30, loss=0.03))


@pytest.mark.timeout(180)
def test_wrong_and_jumping_clocks_fail_no_job(network: Network, tmp_path: Path) -> None:
    require_clocks()
    with HostsCluster(network, has_clocks=True) as cluster:
        runs = VerifyingRuns(cluster, tmp_path, UNTIL_HURRY)
        with runs.started(**PERSISTENT) as run:
            run.wait_for_first_checkpoint()
            for host, seconds in (
                (cluster.workers[0], 3600.0),
                (cluster.masters[0], -7200.0),
                (cluster.workers[1], -86400.0),
                (cluster.masters[0], 86400.0),
                (cluster.workers[0], 0.0),
            ):
                cluster.set_clock(host, seconds)
                run.wait_for_checkpoints(2)
            run.hurry()
            run.wait_for_end()
        assert run.num_restarts == 0
        runs.assert_exactly_once(run)
