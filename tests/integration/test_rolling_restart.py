"""Rolling upgrades: processes of two releases in one cluster, and of releases without a common protocol version."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from clusters import run_flinkpy
from ha_cluster import HaCluster
from job_support import wait_until
from other_releases import as_release, build_release
from verifying.harness import UNTIL_HURRY, VerifyingRuns
from zookeeper_server import ZooKeeperServer

from flinkpy import __version__
from flinkpy._proto import dispatcher_pb2
from flinkpy.client.service_process import ServiceProcess, ServiceSpec
from flinkpy.common.errors import VersionMismatchError
from flinkpy.common.process import stop_children
from flinkpy.rpc.sync_client import SyncGateway
from flinkpy.rpc.versions import PROTOCOL

NEXT = "0.77.0"
FAR = "9.9.9"


@pytest.fixture(scope="module")
def next_release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_release(tmp_path_factory.mktemp("next"), NEXT, protocol=PROTOCOL + 1)


@pytest.fixture(scope="module")
def far_release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release whose protocol versions neither this release nor the next one supports."""
    newest = PROTOCOL + 7
    return build_release(tmp_path_factory.mktemp("far"), FAR, protocol=newest, min_protocol=PROTOCOL + 2)


@pytest.mark.chaos
@pytest.mark.timeout(300)  # seven services restart one after the other
def test_a_rolling_upgrade_of_all_services_loses_no_record_of_a_running_job(
    zookeeper: ZooKeeperServer,
    tmp_path: Path,
    next_release: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with HaCluster(zookeeper, tmp_path, task_executors=3) as cluster:
        runs = VerifyingRuns(cluster, tmp_path, UNTIL_HURRY)  # type: ignore[arg-type]
        with runs.started() as run:
            run.wait_for_first_checkpoint()
            leader = cluster.leader("dispatcher")
            standby = cluster.standby("dispatcher")
            for name in [*cluster.names("taskexecutor"), *cluster.names("resourcemanager"), standby]:
                cluster.terminate(name)
                with as_release(monkeypatch, next_release):
                    cluster.start(name)
                # Processes of both releases are in the cluster, and the job takes checkpoints.
                run.wait_for_checkpoints()
            restarts = run.num_restarts
            cluster.kill(leader)
            with as_release(monkeypatch, next_release):
                cluster.start(leader)
            run.wait_for_checkpoints()
            # A Dispatcher of the next release has adopted the JobMaster of the previous one.
            assert run.num_restarts == restarts
            for job_master in cluster.job_masters():
                job_master.kill()
            # A JobMaster of the next release reads its files and the JobGraph submitted before.
            run.wait_for_checkpoints()
            overview = cluster.client.request_cluster_overview()
            assert overview.version == NEXT
            # This test is a client of the previous release.
            refusal = pytest.raises(VersionMismatchError, match=rf"flinkpy {__version__}.* cluster runs {NEXT}")
            with refusal, runs.started():
                pass
            run.hurry()
            run.wait_for_end()
    runs.assert_exactly_once(run)


@pytest.fixture(scope="module")
def newer(
    zookeeper: ZooKeeperServer, tmp_path_factory: pytest.TempPathFactory, next_release: Path
) -> Iterator[HaCluster]:
    """A cluster whose masters run the next release."""
    directory = tmp_path_factory.mktemp("newer")
    cluster = HaCluster(zookeeper, directory, dispatchers=1, resource_managers=1, task_executors=0)
    with pytest.MonkeyPatch.context() as patch, as_release(patch, next_release):
        cluster.__enter__()
    yield cluster
    cluster.stop()


def test_a_newer_cluster_serves_older_callers_and_offers_more_to_newer_ones(
    newer: HaCluster, next_release: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = newer.address("dispatcher-1")
    with SyncGateway("Dispatcher", address, security=newer.security) as ours:
        assert ours.request_cluster_overview(dispatcher_pb2.ClusterOverviewRequest()).version == NEXT
        assert ours.protocol == PROTOCOL
    program = (
        "from flinkpy.rpc.sync_client import SyncGateway\n"
        "from flinkpy.security import SecurityContext\n"
        "from flinkpy._proto import dispatcher_pb2 as pb\n"
        f"context = SecurityContext.of_service({newer.service_properties!r})\n"
        f"with SyncGateway('Dispatcher', '{address}', security=context) as gateway:\n"
        "    print(gateway.request_next_thing(pb.JobIdMessage()).job_id, gateway.protocol)\n"
    )
    with as_release(monkeypatch, next_release):
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.split() == ["spoken:", str(PROTOCOL + 1), str(PROTOCOL + 1)], done.stderr


def test_a_peer_without_a_common_protocol_version_is_refused_and_both_sides_say_so(
    newer: HaCluster, tmp_path: Path, far_release: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = (FAR, NEXT, f"protocol {PROTOCOL + 2} to {PROTOCOL + 7}", "install the same release on both sides")
    secret = f"security.secret-file={newer.properties['security.secret-file']}"
    log = tmp_path / "far.log"
    spec = ServiceSpec("far", "taskexecutor", properties=newer.service_properties, log=log, temporary_dir=tmp_path)
    with as_release(monkeypatch, far_release):
        done = run_flinkpy("list", "-m", newer.address("dispatcher-1"), "-D", secret)
        joining = ServiceProcess(spec)
    try:
        assert done.returncode == 2
        assert [part for part in told if part not in done.stderr] == [] and "Traceback" not in done.stderr
        assert all(part in newer.log("dispatcher-1") for part in told)
        wait_until(lambda: all(part in log.read_text() for part in told), "the TaskExecutor gets the error")
        wait_until(lambda: all(part in newer.log("resourcemanager-1") for part in told), "the ResourceManager tells")
    finally:
        stop_children([joining.popen], 10.0)
        joining.close()
