"""A cluster that knows many jobs and runs one at full speed, while nobody, one client and many clients ask about it.

Prints lines of JSON: the rate of the job in slices with and without polls, the times of the answers, and the memory and
descriptors of the Dispatcher.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import psutil
from measured_job import MeasuredJob, tell, turns

from flinkpy.client.cluster_client import ClusterClient
from flinkpy.client.local_cluster import LocalCluster, LocalClusterOptions
from flinkpy.common import Configuration
from flinkpy.datastream import StreamExecutionEnvironment
from flinkpy.security import Audience, Role


class Load:
    """The clients of a REST server, each kind in a process of its own."""

    def __init__(self, url: str, token: str) -> None:
        self._address = urlsplit(url)
        self._token = token

    def start(self, kind: str, paths: list[str], seconds: float, *options: str) -> subprocess.Popen[str]:
        command = [sys.executable, str(Path(__file__).with_name("rest_load.py")), kind]
        command += ["--host", str(self._address.hostname), "--port", str(self._address.port)]
        command += ["--seconds", str(seconds), *options, "--paths", *paths]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert process.stdin is not None
        process.stdin.write(f"{self._token}\n")
        process.stdin.close()
        process.stdin = None
        return process


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--slices", type=int, required=True, help="slices of each kind")
    parser.add_argument("--seconds", type=float, required=True, help="length of a slice")
    parser.add_argument("--clients", type=int, default=500)
    parser.add_argument("--clients-seconds", type=float, required=True, help="how long the clients poll")
    parser.add_argument("--warm-up", type=float, default=8.0)
    options = parser.parse_args()
    # A program's cluster has no REST server unless it is asked for.
    local = LocalCluster(LocalClusterOptions(num_task_executors=2, properties={"rest.port": "0"}))
    local.start()
    try:
        with ClusterClient(local.dispatcher_address, security=local.security) as client:
            ended = [run_small_job(local) for _ in range(options.jobs - 1)]
            job = MeasuredJob(local, client, 2)
            job_ids = (job.job_id, ended[0])
            paths = ["/v1/overview", "/v1/jobs/overview", *(f"/v1/jobs/{one}" for one in job_ids)]
            token = local.security.with_role(Role.READ).token_for(Audience.DISPATCHER)
            load = Load(client.request_cluster_overview().rest_url, token)
            processes = {process.spec.verb: process.popen.pid for process in local.processes}
            time.sleep(options.warm_up)
            measure_polls(job, load, paths, options)
            job.end()
            measure_clients(psutil.Process(processes["dispatcher"]), load, paths, options)
    finally:
        local.stop()


def run_small_job(local: LocalCluster) -> str:
    host, _, port = local.dispatcher_address.rpartition(":")
    settings = {"jobmanager.rpc.address": host, "jobmanager.rpc.port": port, "execution.target": "remote"}
    settings["security.secret-file"] = str(local.secret_file)
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    env.set_parallelism(1)
    env.from_collection([1]).map(str).print()
    return str(env.execute("small").get_job_id())


def measure_polls(job: MeasuredJob, load: Load, paths: list[str], options: argparse.Namespace) -> None:
    # The first client makes the Dispatcher load its web libraries.
    result_of(load.start("latency", paths, 1.0))
    for is_polled in turns(options.slices):
        polls = load.start("latency", paths, options.seconds + 1.0) if is_polled else None
        time.sleep(0.5)
        line: dict[str, object] = {"disturbed": is_polled, **job.slice(options.seconds)}
        if polls is not None:
            line |= result_of(polls)
        tell(line)


def measure_clients(dispatcher: psutil.Process, load: Load, paths: list[str], options: argparse.Namespace) -> None:
    before = dispatcher.num_fds()
    # The first clients fill caches and buffers, and the allocator's arenas.
    result_of(load.start("clients", paths, max(20.0, options.clients_seconds / 10), "--count", str(options.clients)))
    early_mb = memory_mb(dispatcher)
    clients = load.start("clients", paths, options.clients_seconds, "--count", str(options.clients))
    time.sleep(options.clients_seconds * 0.9)
    open_fds, late_mb = dispatcher.num_fds(), memory_mb(dispatcher)
    answers = result_of(clients)["answers"]
    deadline_s = time.monotonic() + 60
    while dispatcher.num_fds() > before + 5 and time.monotonic() < deadline_s:
        time.sleep(0.2)
    tell(
        {
            "clients": options.clients,
            "answers": answers,
            "early_mb": early_mb,
            "late_mb": late_mb,
            "fds_before": before,
            "fds_open": open_fds,
            "fds_after": dispatcher.num_fds(),
        }
    )


def memory_mb(process: psutil.Process) -> float:
    return float(process.memory_full_info().uss) / 1e6


def result_of(process: subprocess.Popen[str]) -> dict[str, object]:
    output, _ = process.communicate()
    if process.returncode:
        raise SystemExit(f"a client of the REST server failed with status {process.returncode}")
    told: dict[str, object] = json.loads(output)
    return told


if __name__ == "__main__":
    main()
