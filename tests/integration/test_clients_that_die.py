"""A job that needs its client ends when the client dies, and no other job does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from clusters import RunningCluster
from job_support import wait_for_state, wait_until

from flinkpy.common.states import JobState

#: A program that reads a few results and then waits. Only heartbeats show that its process lives.
COLLECTS = """
import time
from flinkpy.common import Types, WatermarkStrategy
from flinkpy.datastream import StreamExecutionEnvironment
from flinkpy.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
source = DataGeneratorSource(lambda number: number, 10**9, RateLimiterStrategy.per_second(100), Types.LONG())
stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
"""
ENDINGS = {
    "collect": "results = stream.execute_and_collect('wanted')\nprint(next(results), flush=True)\ntime.sleep(600)\n",
    "attached": "stream.print()\nprint('0', flush=True)\nenv.execute('wanted')\n",
    "detached": "stream.print()\nenv.execute_async('wanted')\nprint('0', flush=True)\ntime.sleep(600)\n",
}


@pytest.fixture
def cluster(shared_cluster: RunningCluster) -> RunningCluster:
    return shared_cluster


@pytest.mark.parametrize("way", ["collect", "attached", "detached"])
def test_a_job_that_needs_its_client_ends_when_the_client_is_killed(
    cluster: RunningCluster, tmp_path: Path, way: str
) -> None:
    path = tmp_path / "program.py"
    path.write_text(COLLECTS + ENDINGS[way])
    known = {job.job_id for job in cluster.client.list_jobs()}
    properties = {
        **cluster.properties,
        "client.heartbeat.interval": "300 ms",
        "client.heartbeat.timeout": "2 s",
        "execution.shutdown-on-attached-exit": "true",
    }
    client = subprocess.Popen(
        [sys.executable, str(path)],
        env={"FLINKPY_DYNAMIC_PROPERTIES": "\n".join(f"{key}={value}" for key, value in properties.items())},
        stdout=subprocess.PIPE,
    )
    try:
        assert client.stdout is not None and client.stdout.readline() == b"0\n"
        job_id = wait_until(
            lambda: next((job.job_id for job in cluster.client.list_jobs() if job.job_id not in known), None),
            "the job of the client",
        )
        wait_for_state(cluster, job_id, JobState.RUNNING)
        # Longer than the timeout: the process is alive and sends heartbeats.
        with pytest.raises(subprocess.TimeoutExpired):
            client.wait(3.5)
        assert cluster.client.request_job_status(job_id) is JobState.RUNNING
    finally:
        client.kill()
        client.communicate()

    if way == "detached":
        with pytest.raises(AssertionError, match="waited"):
            wait_until(lambda: cluster.client.request_job_status(job_id) is not JobState.RUNNING, "the end", 4.0)
        cluster.client.cancel_job(job_id)
    wait_for_state(cluster, job_id, JobState.CANCELED)
    assert ("its client sent no heartbeat for 2000 ms" in cluster.log("dispatcher")) or way == "detached"
