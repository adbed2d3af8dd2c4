"""Flink's own command `flink` operates jobs of flinkpy through the REST API."""

from __future__ import annotations

import subprocess
from pathlib import Path

import httpx
import pytest
from clusters import RunningCluster, StartCluster
from job_support import wait_until
from maven_jars import require_jars
from requirements import has_java, require
from test_rest_jobs import start_endless_job

from flinkpy.common.states import JobState


class FlinkCommand:
    """The command, for a cluster whose REST server needs no token."""

    def __init__(self, jars: Path, configuration: Path, rest_url: str) -> None:
        (configuration / "config.yaml").write_text("")
        self._environment = {"FLINK_CONF_DIR": str(configuration), "PATH": "/usr/bin:/bin"}
        java = ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*", "org.apache.flink.client.cli.CliFrontend"]
        self._java = java
        self._address = rest_url.removeprefix("http://")

    def __call__(self, verb: str, *arguments: str) -> str:
        command = [*self._java, verb, "-m", self._address, *arguments]
        done = subprocess.run(command, env=self._environment, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, f"{verb}: {done.stdout}{done.stderr}"
        return done.stdout


@pytest.fixture
def jars() -> Path:
    require("java", has_java(17), "Java 17")
    return require_jars("flink_command")


def test_rest_without_tokens_serves_tools_that_know_none(start_cluster: StartCluster) -> None:
    cluster = start_cluster(1, properties={"rest.authentication": "none"})
    url = cluster.client.request_cluster_overview().rest_url
    assert httpx.get(f"{url}/v1/jobs").json() == {"jobs": []}
    assert httpx.get(f"{url}/v1/jobs", headers={"origin": "http://evil.example"}).status_code == 403
    told = [line for line in cluster.log("dispatcher").splitlines() if "INSECURE" in line]
    assert len(told) == 1 and url in told[0] and "rest.authentication" in told[0]


@pytest.mark.differential
def test_flinks_command_lists_stops_and_cancels_jobs(start_cluster: StartCluster, tmp_path: Path, jars: Path) -> None:
    cluster = start_cluster(properties={"rest.authentication": "none"})
    (tmp_path / "conf").mkdir()
    flink = FlinkCommand(jars, tmp_path / "conf", cluster.client.request_cluster_overview().rest_url)
    assert "No running jobs." in flink("list")

    job_id = start_endless_job(cluster, tmp_path / "checkpoints")
    wait_until(lambda: state_of(cluster, job_id) is JobState.RUNNING, "the job runs")
    assert f"{job_id} : endless <job> (RUNNING)" in flink("list", "-r")

    savepoint = path_in(flink("savepoint", job_id, (tmp_path / "savepoints").as_uri()), "savepoint-")
    assert (savepoint / "_metadata").exists()
    assert "disposed" in flink("savepoint", "-dispose", savepoint.as_uri())
    assert not savepoint.exists()
    assert "Checkpoint(FULL)" in flink("checkpoint", "--full", job_id)

    stopped = path_in(flink("stop", "--savepointPath", (tmp_path / "stopped").as_uri(), job_id), "savepoint-")
    assert (stopped / "_metadata").exists()
    assert state_of(cluster, job_id) is JobState.FINISHED

    canceled = start_endless_job(cluster, tmp_path / "checkpoints")
    wait_until(lambda: state_of(cluster, canceled) is JobState.RUNNING, "the job runs")
    assert f"Cancelled job {canceled}." in flink("cancel", canceled)
    wait_until(lambda: state_of(cluster, canceled) is JobState.CANCELED, "the job is canceled")
    everything = flink("list", "-a")
    assert f"{job_id} : endless <job> (FINISHED)" in everything
    assert f"{canceled} : endless <job> (CANCELED)" in everything


def state_of(cluster: RunningCluster, job_id: str) -> JobState:
    return JobState(cluster.client.request_job_status(job_id))


def path_in(output: str, prefix: str) -> Path:
    """Returns the path that the command prints at the end of a line."""
    (found,) = {word.rstrip(".") for word in output.split() if f"/{prefix}" in word}
    return Path(found.removeprefix("file:"))
