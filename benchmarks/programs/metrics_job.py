"""A job of row functions whose rate is measured while all its metrics are read every second, and while nobody reads.

Prints one line of JSON per slice of time: whether the metrics were read, rows, and CPU seconds of the TaskExecutors.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time

import psutil
from flamegraph_job import cpu_seconds, num_rows, submit

from flinkpy.client.cluster_client import ClusterClient
from flinkpy.client.local_cluster import LocalCluster, LocalClusterOptions

#: Ten times as often as reporters and Prometheus do by default.
READ_INTERVAL_S = 1.0
KINDS = ("job", "coordinator", "task")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--slices", type=int, required=True, help="slices of each kind")
    parser.add_argument("--seconds", type=float, required=True, help="length of a slice")
    parser.add_argument("--warm-up", type=float, default=8.0)
    parser.add_argument("--parallelism", type=int, default=2)
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


def measure(client: ClusterClient, job_id: str, workers: list[psutil.Process], options: argparse.Namespace) -> None:
    time.sleep(options.warm_up)
    for number in range(2 * options.slices):
        # The order of a pair changes, so that a machine that becomes slower favours neither.
        is_read = number % 4 in (1, 2)
        stop = threading.Event()
        reader = threading.Thread(target=read, args=(client, job_id, stop), daemon=True)
        if is_read:
            reader.start()
        rows, cpu_s, began_s = num_rows(client, job_id), cpu_seconds(workers), time.perf_counter()
        time.sleep(options.seconds)
        rows, cpu_s = num_rows(client, job_id) - rows, cpu_seconds(workers) - cpu_s
        seconds = time.perf_counter() - began_s
        if is_read:
            stop.set()
            reader.join()
        line = {"read": is_read, "rows": rows, "seconds": seconds, "cpu_seconds": cpu_s}
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


def read(client: ClusterClient, job_id: str, stop: threading.Event) -> None:
    """Reads all metrics of the job and of one TaskExecutor every second until `stop`."""
    while not stop.wait(READ_INTERVAL_S):
        groups = client.request_metrics(job_id, KINDS)
        client.request_process_metrics(next(group.resource_id for group in groups if group.vertex_id))


if __name__ == "__main__":
    main()
