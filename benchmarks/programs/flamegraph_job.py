"""A job of row functions whose rate is measured while its stacks are sampled, while they are not, and in turns.

Prints one line of JSON per slice of time: whether the slice was sampled, and rows and CPU seconds of the TaskExecutors.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time

import psutil

from flinkpy.client.cluster_client import ClusterClient
from flinkpy.client.local_cluster import LocalCluster, LocalClusterOptions
from flinkpy.common import Configuration, Types, WatermarkStrategy
from flinkpy.common.errors import FlinkError
from flinkpy.datastream import StreamExecutionEnvironment
from flinkpy.datastream.connectors import DiscardingSink
from flinkpy.datastream.connectors.number_seq import NumberSequenceSource

#: More than any machine reads while the benchmark runs.
ENDLESS = 2**62


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--slices", type=int, required=True, help="slices of each kind")
    parser.add_argument("--seconds", type=float, required=True, help="length of a slice")
    parser.add_argument("--warm-up", type=float, default=8.0)
    parser.add_argument("--parallelism", type=int, default=2)
    parser.add_argument("--delay-ms", type=int, default=50)
    options = parser.parse_args()
    local = LocalCluster(LocalClusterOptions(num_task_executors=options.parallelism))
    local.start()
    try:
        with ClusterClient(local.dispatcher_address, security=local.security) as client:
            job_id = submit(local, options.parallelism)
            workers = [
                psutil.Process(process.popen.pid) for process in local.processes if process.spec.verb == "taskexecutor"
            ]
            measure(client, job_id, workers, options)
            client.cancel_job(job_id)
            client.wait_for_result(job_id)
    finally:
        local.stop()


def submit(local: LocalCluster, parallelism: int) -> str:
    host, _, port = local.dispatcher_address.rpartition(":")
    configuration = Configuration.from_dict(
        {
            "jobmanager.rpc.address": host,
            "jobmanager.rpc.port": port,
            "execution.target": "remote",
            "security.secret-file": str(local.secret_file),
        }
    )
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(parallelism)
    source = NumberSequenceSource(1, ENDLESS)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers", Types.LONG())
    rows = numbers.map(lambda n: n + 1, Types.LONG()).filter(lambda n: n % 2 == 0)
    rows.rebalance().map(lambda n: n + 1, Types.LONG()).sink_to(DiscardingSink())
    return str(env.execute_async("rows").get_job_id())


def measure(client: ClusterClient, job_id: str, workers: list[psutil.Process], options: argparse.Namespace) -> None:
    time.sleep(options.warm_up)
    for number in range(2 * options.slices):
        # The order of a pair changes, so that a machine that becomes slower favours neither.
        is_sampled = number % 4 in (1, 2)
        stop = threading.Event()
        sampler = threading.Thread(target=sample, args=(client, job_id, options.delay_ms, stop), daemon=True)
        if is_sampled:
            sampler.start()
            time.sleep(0.3)
        rows, cpu_s, began_s = num_rows(client, job_id), cpu_seconds(workers), time.perf_counter()
        time.sleep(options.seconds)
        rows, cpu_s = num_rows(client, job_id) - rows, cpu_seconds(workers) - cpu_s
        seconds = time.perf_counter() - began_s
        if is_sampled:
            stop.set()
            sampler.join()
        line = {"sampled": is_sampled, "rows": rows, "seconds": seconds, "cpu_seconds": cpu_s}
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


def sample(client: ClusterClient, job_id: str, delay_ms: int, stop: threading.Event) -> None:
    """Samples all vertices of the job until `stop`, one sampling after the other."""
    while not stop.is_set():
        try:
            client.request_thread_samples(job_id, num_samples=max(1, 500 // delay_ms), delay_ms=delay_ms)
        except FlinkError as error:
            sys.stderr.write(f"a sampling failed: {error}\n")
            return


def num_rows(client: ClusterClient, job_id: str) -> int:
    """Returns how many rows the first vertex has read so far."""
    names = {"numRecordsOut", "numRecordsIn"}
    return sum(
        metric.number
        for group in client.request_metrics(job_id)
        if not group.operator_id
        for metric in group.metrics
        if metric.name in names
    )


def cpu_seconds(workers: list[psutil.Process]) -> float:
    times = [worker.cpu_times() for worker in workers]
    return sum(each.user + each.system for each in times)


if __name__ == "__main__":
    main()
