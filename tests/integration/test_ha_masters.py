"""Jobs continue while masters die, hang and return. Their output is that of a run without faults."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from ha_cluster import HaCluster
from job_support import wait_until
from verifying.harness import UNTIL_HURRY, VerifyingRuns, Workload
from zookeeper_server import ZooKeeperServer

from flinkpy._proto import dispatcher_pb2
from flinkpy.client.cluster_client import connect
from flinkpy.common.errors import NotLeaderError
from flinkpy.common.states import JobState
from flinkpy.rpc.health_check import Health, check_health
from flinkpy.rpc.sync_client import SyncGateway
from flinkpy.security import Audience


@pytest.fixture(scope="module")
def cluster_of_the_file(zookeeper: ZooKeeperServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HaCluster]:
    with HaCluster(zookeeper, tmp_path_factory.mktemp("ha"), task_executors=3, session_timeout="2 s") as cluster:
        yield cluster


@pytest.fixture
def cluster(cluster_of_the_file: HaCluster) -> HaCluster:
    """A cluster of two Dispatchers, two ResourceManagers and three TaskExecutors, healed after the previous test."""
    cluster_of_the_file.heal()
    return cluster_of_the_file


def verifying(cluster: HaCluster, directory: Path, *, waits: bool = True) -> VerifyingRuns:
    return VerifyingRuns(cluster, directory, UNTIL_HURRY if waits else Workload())  # type: ignore[arg-type]


#: Each kill costs about six seconds. Two kills show that a successor can be replaced as well.
TIMES = pytest.mark.parametrize("times", [2, pytest.param(3, marks=pytest.mark.chaos)])


@TIMES
def test_a_job_survives_its_dispatcher_several_times_without_a_restart(
    cluster: HaCluster, tmp_path: Path, times: int
) -> None:
    runs = verifying(cluster, tmp_path)
    with runs.started() as run:
        run.wait_for_first_checkpoint()
        leaders = []
        for _ in range(times):
            cluster.heal()
            leaders.append(cluster.leader("dispatcher"))
            cluster.kill(leaders[-1])
            run.wait_for_checkpoints()
        assert run.num_restarts == 0
        run.hurry()
        run.wait_for_end()
    assert len(set(leaders)) == 2
    runs.assert_exactly_once(run)


@pytest.mark.chaos
def test_a_job_resumes_from_a_checkpoint_after_its_dispatcher_and_job_master_die_three_times(
    cluster: HaCluster, tmp_path: Path
) -> None:
    runs = verifying(cluster, tmp_path)
    with runs.started() as run:
        run.wait_for_first_checkpoint()
        for _ in range(3):
            cluster.heal()
            leader = cluster.leader("dispatcher")
            cluster.kill(leader)
            for job_master in cluster.job_masters():
                job_master.kill()
            run.wait_for_checkpoints()
        run.hurry()
        run.wait_for_end()
    runs.assert_exactly_once(run)


@TIMES
def test_a_job_survives_its_resource_manager_several_times_without_a_restart(
    cluster: HaCluster, tmp_path: Path, times: int
) -> None:
    runs = verifying(cluster, tmp_path)
    with runs.started() as run:
        run.wait_for_first_checkpoint()
        for _ in range(times):
            cluster.heal()
            cluster.kill(cluster.leader("resourcemanager"))
            run.wait_for_checkpoints()
        cluster.heal()  # every TaskExecutor has found the new ResourceManager
        assert run.num_restarts == 0
        run.hurry()
        run.wait_for_end()
    runs.assert_exactly_once(run)


@pytest.mark.chaos
def test_task_executors_that_die_after_checkpoints_cost_nothing_but_time(cluster: HaCluster, tmp_path: Path) -> None:
    runs = verifying(cluster, tmp_path)
    with runs.started() as run:
        run.wait_for_first_checkpoint()
        for number in (1, 2):
            cluster.heal()
            cluster.kill(f"taskexecutor-{number}")
            run.wait_for_checkpoints()
        run.hurry()
        run.wait_for_end()
    assert run.num_restarts >= 1
    runs.assert_exactly_once(run)


@pytest.mark.chaos
def test_a_dispatcher_that_hangs_longer_than_its_session_is_replaced_and_changes_nothing_afterwards(
    cluster: HaCluster, tmp_path: Path
) -> None:
    runs = verifying(cluster, tmp_path)
    with runs.started() as run:
        run.wait_for_first_checkpoint()
        former = cluster.leader("dispatcher")
        cluster.stop_process(former)
        latter = cluster.leader("dispatcher")
        assert latter != former
        run.wait_for_checkpoints()
        cluster.continue_process(former)
        wait_until(
            lambda: (
                check_health("Dispatcher", cluster.address(former), security=cluster.security, timeout_s=5)
                is Health.STANDING_BY
            ),
            "the former leader finds out",
        )
        wait_until(
            lambda: refusal(cluster, former, run.job_id).details.get("leader_address") == cluster.address(latter),
            "the former leader refuses calls and names the leader",
        )
        assert cluster.leader("dispatcher") == latter
        run.wait_for_checkpoints()
        assert run.num_restarts == 0
        run.hurry()
        run.wait_for_end()
    runs.assert_exactly_once(run)


@pytest.mark.chaos
def test_a_resource_manager_that_hangs_longer_than_its_session_is_replaced_and_changes_nothing_afterwards(
    cluster: HaCluster, tmp_path: Path
) -> None:
    runs = verifying(cluster, tmp_path)
    with runs.started() as run:
        run.wait_for_first_checkpoint()
        former = cluster.leader("resourcemanager")
        cluster.stop_process(former)
        assert cluster.leader("resourcemanager") != former
        run.wait_for_checkpoints()
        cluster.continue_process(former)
        cluster.heal()
        assert cluster.leader("resourcemanager") != former
        run.wait_for_checkpoints()
        assert run.num_restarts == 0
        run.hurry()
        run.wait_for_end()
    runs.assert_exactly_once(run)


def test_clients_that_wait_for_a_job_or_cancel_it_do_not_notice_a_leader_change(
    cluster: HaCluster, tmp_path: Path
) -> None:
    runs = verifying(cluster, tmp_path)
    with runs.started() as run:
        run.wait_for_first_checkpoint()
        leader, standby = cluster.leader("dispatcher"), cluster.standby("dispatcher")
        check_rest_server_of_standby(cluster, leader, standby, run.job_id)
        results: list[int] = []
        waiting = threading.Thread(
            target=lambda: results.append(cluster.client.wait_for_result(run.job_id).status), daemon=True
        )
        waiting.start()
        cluster.kill(leader)
        with rest_client(cluster, standby) as rest:
            refused = rest.get("/jobs/overview")
            assert refused.status_code == 503 and "leader" in refused.json()["errors"][0], refused.text
            assert rest.patch(f"/jobs/{run.job_id}").status_code == 503
        cluster.client.cancel_job(run.job_id)  # no Dispatcher leads yet
        waiting.join(40)
        assert results == [JobState.CANCELED.value]
    # Nothing of the job is left that a Dispatcher could recover.
    cluster.heal()
    cluster.kill(cluster.leader("dispatcher"))
    assert cluster.client.request_job_status(run.job_id) is JobState.CANCELED


def test_a_job_submitted_while_no_dispatcher_leads_is_accepted_once(cluster: HaCluster, tmp_path: Path) -> None:
    blob = b"stored by one Dispatcher, read from the other" * 10_000
    key = cluster.client.put_blob(blob)
    standby = cluster.address(cluster.standby("dispatcher"))
    cluster.kill(cluster.leader("dispatcher"))
    with SyncGateway("BlobServer", standby, security=cluster.security) as gateway:
        assert b"".join(chunk.data for chunk in gateway.get_blob(dispatcher_pb2.BlobKey(sha256=key))) == blob
    assert cluster.client.put_blob(blob) == key
    runs = verifying(cluster, tmp_path, waits=False)
    with runs.started() as run:
        run.wait_for_end()
    runs.assert_exactly_once(run)
    assert [job.job_id for job in cluster.client.list_jobs()].count(run.job_id) == 1


def test_a_program_that_knows_only_zookeeper_finds_the_leader_and_its_successor(
    cluster: HaCluster, tmp_path: Path
) -> None:
    configuration = {key: value for key, value in cluster.service_properties.items() if "high-avail" in key}
    configuration |= {"security.secret-file": cluster.properties["security.secret-file"]}
    runs = verifying(cluster, tmp_path)
    with connect(configuration) as client, runs.started() as run:
        assert client.address == cluster.address(cluster.leader("dispatcher"))
        run.wait_for_first_checkpoint()
        cluster.kill(cluster.leader("dispatcher"))
        path = client.stop_with_savepoint(run.job_id, str(tmp_path / "savepoints"))
        assert client.address == cluster.address(cluster.leader("dispatcher"))
        assert client.wait_for_result(run.job_id).status == JobState.FINISHED.value
        assert Path(path.removeprefix("file:")).is_dir()


def refusal(cluster: HaCluster, name: str, job_id: str) -> NotLeaderError:
    """Asks a Dispatcher that does not lead to cancel a job, and returns its error."""
    with (
        SyncGateway("Dispatcher", cluster.address(name), security=cluster.security) as gateway,
        pytest.raises(NotLeaderError) as caught,
    ):
        gateway.cancel_job(dispatcher_pb2.JobIdMessage(job_id=job_id))
    return caught.value


def rest_client(cluster: HaCluster, name: str) -> httpx.Client:
    """Returns a client of the REST server of one Dispatcher, with a token."""
    url = re.findall(r"REST server at (http://\S+)", cluster.log(name))[-1]
    headers = {"authorization": f"Bearer {cluster.security.token_for(Audience.DISPATCHER)}"}
    return httpx.Client(base_url=url, headers=headers, timeout=30)


def check_rest_server_of_standby(cluster: HaCluster, leader: str, standby: str, job_id: str) -> None:
    """Checks that the REST server of a standby answers as that of the leader does."""
    with rest_client(cluster, leader) as leading, rest_client(cluster, standby) as standing_by:
        assert leading.base_url != standing_by.base_url
        told, expected = standing_by.get("/jobs/overview"), leading.get("/jobs/overview")
        assert told.status_code == 200, told.text
        assert {(one["jid"], one["state"]) for one in told.json()["jobs"]} == {
            (one["jid"], one["state"]) for one in expected.json()["jobs"]
        }
        assert job_id in told.text
        assert standing_by.get("/overview").json()["taskmanagers"] == 3
        (running,) = (one for one in told.json()["jobs"] if one["jid"] == job_id)
        assert (running["jobType"], running["schedulerType"]) == ("STREAMING", "Default")
        wait_until(
            lambda: (
                running["tasks"]["running"]
                == sum(one["assignedTasks"] for one in standing_by.get("/taskmanagers").json()["taskmanagers"])
            ),
            "the TaskManagers report the tasks of the job",
        )

        started = standing_by.post(f"/jobs/{job_id}/checkpoints", json={"triggerId": "ab" * 16})
        assert (started.status_code, started.json()) == (202, {"request-id": "ab" * 16}), started.text
        status = f"/jobs/{job_id}/checkpoints/{'ab' * 16}"
        wait_until(
            lambda: standing_by.get(status).json()["status"]["id"] == "COMPLETED", "the standby's checkpoint has ended"
        )
        assert "checkpointId" in standing_by.get(status).json()["operation"]

        link = standing_by.post("/dashboard/ticket").json()["path"]
        with httpx.Client(base_url=leading.base_url, timeout=30) as browser:
            elsewhere = browser.get(link)
            assert elsewhere.status_code == 401 and "flinkpy dashboard" in elsewhere.text
            assert browser.get(standing_by.base_url.join(link)).status_code == 303
            for server in (leading, standing_by):  # browsers send a cookie to all ports of a host
                assert browser.get(server.base_url.join("/jobs/overview")).status_code == 200
