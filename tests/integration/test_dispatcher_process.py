"""The Dispatcher process: submissions, JobMaster processes, blobs, and all ways in which it ends."""

from __future__ import annotations

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from clusters import RunningCluster, StartCluster, run_flinkpy
from grpc_health.v1 import health_pb2, health_pb2_grpc
from job_support import environment, wait_for_state, wait_until
from ports import own_port

from flinkpy._proto import dispatcher_pb2, job_pb2
from flinkpy.client.cluster_client import ClusterClient
from flinkpy.common.errors import (
    DuplicateJobSubmissionError,
    FlinkError,
    JobSubmissionError,
    JobTerminatedWithoutCancellationError,
    RpcUnavailableError,
    VersionMismatchError,
)
from flinkpy.common.states import JobState
from flinkpy.rpc.authorization import token_metadata
from flinkpy.rpc.security import open_channel
from flinkpy.rpc.sync_client import SyncGateway
from flinkpy.security import Role


def waiting_graph(cluster: RunningCluster, parallelism: int = 2) -> job_pb2.JobGraph:
    """Returns a job that waits for slots that do not exist."""
    env = environment(cluster, parallelism)
    env.from_sequence(1, 10).map(lambda x: x).print()
    return env.generate_job_graph("waiting")


def new_id(graph: job_pb2.JobGraph) -> job_pb2.JobGraph:
    graph.job_id = os.urandom(16).hex()
    return graph


def test_both_services_say_that_they_are_healthy(start_cluster: StartCluster) -> None:
    cluster = start_cluster(0)
    for address, services in (
        (cluster.address, ("", "flinkpy.Dispatcher", "flinkpy.BlobServer")),
        (cluster.resource_manager_address, ("", "flinkpy.ResourceManager")),
    ):
        with open_channel(address, [], cluster.security) as channel:
            health = health_pb2_grpc.HealthStub(channel)
            for service in services:
                answer = health.Check(
                    health_pb2.HealthCheckRequest(service=service),
                    timeout=10,
                    metadata=token_metadata(
                        cluster.security.with_role(Role.READ),
                        "ResourceManager" if "flinkpy.ResourceManager" in services else "Dispatcher",
                    ),
                )
                assert answer.status == health_pb2.HealthCheckResponse.SERVING


def test_invalid_submissions_are_refused_by_typed_errors_and_leave_nothing(start_cluster: StartCluster) -> None:
    cluster = start_cluster(0)
    graph = waiting_graph(cluster)
    cycle = new_id(waiting_graph(cluster))
    cycle.vertices[0].inputs.add(source_data_set_id="nobody")
    old = new_id(waiting_graph(cluster))
    old.client_version = "0.0.1"
    python = new_id(waiting_graph(cluster))
    python.python_version = "3.1.0"
    for refused, error in (
        (cycle, JobSubmissionError),
        (old, VersionMismatchError),
        (python, VersionMismatchError),
        (job_pb2.JobGraph(), FlinkError),
    ):
        with pytest.raises(error):
            cluster.client.submit_job(refused)
    assert cluster.client.list_jobs() == []
    with ThreadPoolExecutor(4) as pool:
        outcomes = [pool.submit(cluster.client.submit_job, graph) for _ in range(4)]
    errors = [outcome.exception() for outcome in outcomes]
    assert [type(error) for error in errors if error is not None] == [DuplicateJobSubmissionError] * 3
    cluster.client.cancel_job(graph.job_id)
    assert cluster.client.wait_for_result(graph.job_id).status == JobState.CANCELED.value
    with pytest.raises(DuplicateJobSubmissionError, match="CANCELED"):
        cluster.client.submit_job(graph)


def test_a_graph_too_large_for_one_message_travels_as_a_blob(start_cluster: StartCluster) -> None:
    cluster = start_cluster(0)
    graph = waiting_graph(cluster)
    graph.vertices[0].description = "x" * (5 << 20)
    cluster.client.submit_job(graph)
    cluster.client.cancel_job(graph.job_id)
    assert cluster.client.wait_for_result(graph.job_id).status == JobState.CANCELED.value


def test_a_killed_job_master_fails_its_job_at_once_and_a_new_standby_starts(start_cluster: StartCluster) -> None:
    cluster = start_cluster(0)
    graph = waiting_graph(cluster)
    cluster.client.submit_job(graph)
    wait_for_state(cluster, graph.job_id, JobState.RUNNING)
    pids = set(cluster.job_master_pids())
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    killed = time.monotonic()
    result = cluster.client.wait_for_result(graph.job_id)
    # Heartbeats would notice it after 50 s.
    assert time.monotonic() - killed < 25.0
    assert result.status == JobState.FAILED.value
    assert result.error.type == "JobMasterLostError"
    assert "SIGKILL" in result.error.message, result.error.message
    # A job that the Dispatcher gave to the killed standby would be lost with it, like the first.
    wait_until(lambda: set(cluster.job_master_pids()) - pids, "a new standby")
    second = new_id(waiting_graph(cluster))
    cluster.client.submit_job(second)
    wait_for_state(cluster, second.job_id, JobState.RUNNING)
    cluster.client.cancel_job(second.job_id)
    assert cluster.client.wait_for_result(second.job_id).status == JobState.CANCELED.value
    with pytest.raises(JobTerminatedWithoutCancellationError):
        cluster.client.cancel_job(graph.job_id)


def test_every_job_has_a_process_of_its_own_that_ends_with_it(start_cluster: StartCluster) -> None:
    cluster = start_cluster(0)
    graphs = [new_id(waiting_graph(cluster)) for _ in range(3)]
    for graph in graphs:
        cluster.client.submit_job(graph)
    for graph in graphs:
        wait_for_state(cluster, graph.job_id, JobState.RUNNING)
    assert len(cluster.job_master_pids()) >= 3
    for graph in graphs:
        cluster.client.cancel_job(graph.job_id)
    for graph in graphs:
        assert cluster.client.wait_for_result(graph.job_id).status == JobState.CANCELED.value
    wait_until(lambda: len(cluster.job_master_pids()) == 1, "one standby and nothing else")


def test_a_killed_template_affects_no_job_and_later_job_masters_start_without_it(
    start_cluster: StartCluster,
) -> None:
    cluster = start_cluster(0)
    running, later = waiting_graph(cluster), new_id(waiting_graph(cluster))
    cluster.client.submit_job(running)
    wait_for_state(cluster, running.job_id, JobState.RUNNING)
    dispatcher = psutil.Process(cluster.service("dispatcher").popen.pid)
    (template,) = [child for child in dispatcher.children() if "jobmaster-template" in child.cmdline()]
    template.kill()
    cluster.client.submit_job(later)
    wait_for_state(cluster, later.job_id, JobState.RUNNING)
    wait_until(
        lambda: "starting a new interpreter instead" in cluster.log("dispatcher"),
        "one was started by exec",
    )
    for graph in (running, later):
        assert cluster.client.request_job_status(graph.job_id) is JobState.RUNNING
        cluster.client.cancel_job(graph.job_id)
        assert cluster.client.wait_for_result(graph.job_id).status == JobState.CANCELED.value


def test_canceling_right_after_submitting_cancels(start_cluster: StartCluster) -> None:
    cluster = start_cluster(0, properties={"flinkpy.dispatcher.standby-jobmasters": "0"})
    graph = waiting_graph(cluster)
    cluster.client.submit_job(graph)
    cluster.client.cancel_job(graph.job_id)
    assert cluster.client.wait_for_result(graph.job_id).status == JobState.CANCELED.value
    assert [job.status for job in cluster.client.list_jobs()] == [JobState.CANCELED.value]


def test_a_port_in_use_is_an_error_in_one_line(start_cluster: StartCluster) -> None:
    cluster = start_cluster(0)
    port = cluster.address.rpartition(":")[2]
    result = run_flinkpy("dispatcher", "--port", port, "--resourcemanager", cluster.resource_manager_address)
    assert result.returncode == 1
    assert f"127.0.0.1:{port}" in result.stderr and "in use" in result.stderr
    assert "Traceback" not in result.stderr
    port = cluster.resource_manager_address.rpartition(":")[2]
    result = run_flinkpy("resourcemanager", "--port", port)
    assert result.returncode == 1
    assert "in use" in result.stderr and "Traceback" not in result.stderr


def test_the_error_of_a_missing_resource_manager_address_names_the_options() -> None:
    result = run_flinkpy("dispatcher", "--port", "0")
    assert result.returncode == 2
    assert "resourcemanager.rpc.port" in result.stderr


def test_shutting_the_cluster_down_ends_jobs_and_process(start_cluster: StartCluster) -> None:
    cluster = start_cluster(0)
    graph = waiting_graph(cluster)
    cluster.client.submit_job(graph)
    wait_for_state(cluster, graph.job_id, JobState.RUNNING)
    children = [psutil.Process(pid) for pid in cluster.job_master_pids()]
    with SyncGateway("Dispatcher", cluster.address, security=cluster.security) as dispatcher:
        dispatcher.shut_down_cluster(dispatcher_pb2.ShutDownClusterRequest(), timeout_s=20)
    assert cluster.service("dispatcher").popen.wait(40) == 0
    assert not any(child.is_running() for child in children)


def test_a_terminated_dispatcher_ends_in_order_and_watchers_see_the_suspension(start_cluster: StartCluster) -> None:
    cluster = start_cluster(0)
    graph = waiting_graph(cluster)
    cluster.client.submit_job(graph)
    wait_for_state(cluster, graph.job_id, JobState.RUNNING)
    with ClusterClient(cluster.address, security=cluster.security) as watcher:
        statuses = watcher.watch_job_status(graph.job_id)
        assert next(statuses) is JobState.RUNNING
        started = time.monotonic()
        cluster.service("dispatcher").popen.send_signal(signal.SIGTERM)
        assert list(statuses)[-1] is JobState.SUSPENDED
    assert cluster.service("dispatcher").popen.wait(40) == 0
    assert time.monotonic() - started < 25.0


def test_jobs_that_ran_when_the_dispatcher_was_killed_are_run_again_by_the_next_one(
    start_cluster: StartCluster, tmp_path: Path
) -> None:
    port = str(own_port())
    properties = {"process.jobmanager.working-dir": str(tmp_path / "work")}
    cluster = start_cluster(0, properties=properties)
    graph, ended = waiting_graph(cluster), new_id(waiting_graph(cluster))
    for job in (graph, ended):
        cluster.client.submit_job(job)
        wait_for_state(cluster, job.job_id, JobState.RUNNING)
    cluster.client.cancel_job(ended.job_id)
    assert cluster.client.wait_for_result(ended.job_id).status == JobState.CANCELED.value
    children = [psutil.Process(pid) for pid in cluster.job_master_pids()]
    cluster.kill("dispatcher")
    wait_until(lambda: not any(child.is_running() for child in children), "the JobMasters end with their parent")
    again = start_cluster(0, properties={**properties, "jobmanager.rpc.bind-port": port})
    wait_for_state(again, graph.job_id, JobState.RUNNING)
    assert again.client.request_job_status(ended.job_id) is JobState.CANCELED
    for known in (graph, ended):
        with pytest.raises(DuplicateJobSubmissionError):
            again.client.submit_job(known)
    recovery = tmp_path / "work" / "dispatcher" / "recovery"
    assert [path.name for path in recovery.iterdir()] == [graph.job_id]
    again.client.cancel_job(graph.job_id)
    assert again.client.wait_for_result(graph.job_id).status == JobState.CANCELED.value
    assert not list((tmp_path / "work" / "dispatcher" / "jobgraphs").iterdir())
    wait_until(
        lambda: not list(recovery.iterdir()), "the files of JobMasters are removed after the end of the last one"
    )


def test_blobs_are_stored_by_content_and_paths_are_not_keys(start_cluster: StartCluster) -> None:
    cluster = start_cluster(0, properties={"flinkpy.blob.max-size": "1 mb"})
    content = os.urandom(700_000)
    key = cluster.client.put_blob(content)
    assert cluster.client.put_blob(content) == key
    with SyncGateway("BlobServer", cluster.address, security=cluster.security) as blobs:
        chunks = blobs.get_blob(dispatcher_pb2.BlobKey(sha256=key))
        assert b"".join(chunk.data for chunk in chunks) == content
        for bad, name in (("../../../etc/passwd", "BlobKeyError"), ("0" * 64, "BlobNotFoundError")):
            with pytest.raises(FlinkError) as caught:
                list(blobs.get_blob(dispatcher_pb2.BlobKey(sha256=bad)))
            assert name in (type(caught.value).__name__, caught.value.details.get("type"))
    with pytest.raises(FlinkError, match="max-size"):
        cluster.client.put_blob(os.urandom(2 << 20))


def test_the_error_of_a_client_says_that_its_dispatcher_is_dead(start_cluster: StartCluster) -> None:
    cluster = start_cluster(0)
    cluster.service("dispatcher").popen.terminate()
    cluster.service("dispatcher").popen.wait(40)
    with pytest.raises(RpcUnavailableError):
        cluster.client.list_jobs()
