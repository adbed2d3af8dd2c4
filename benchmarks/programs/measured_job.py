"""A job of row functions that runs at full speed, and its rows and CPU time in slices that are disturbed in turns."""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator

import psutil

from flinkpy.client.cluster_client import ClusterClient
from flinkpy.client.local_cluster import LocalCluster, LocalClusterOptions
from flinkpy.common import Configuration, Types, WatermarkStrategy
from flinkpy.datastream import StreamExecutionEnvironment
from flinkpy.datastream.connectors import DiscardingSink
from flinkpy.datastream.connectors.number_seq import NumberSequenceSource

#: More than any machine reads while the benchmark runs.
ENDLESS = 2**62
#: The time that a disturbance gets to begin before its slice does.
BEGINNING_S = 0.3

#: Disturbs the job with this id until the event is set.
Disturbance = Callable[[ClusterClient, str, threading.Event], None]


def measure(description: str, meanwhile: Disturbance) -> None:
    """Runs the job, and prints a line of JSON per slice: whether it was disturbed, rows, seconds and CPU seconds."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--slices", type=int, required=True, help="slices of each kind")
    parser.add_argument("--seconds", type=float, required=True, help="length of a slice")
    parser.add_argument("--warm-up", type=float, default=8.0)
    parser.add_argument("--parallelism", type=int, default=2)
    options = parser.parse_args()
    local = LocalCluster(LocalClusterOptions(num_task_executors=options.parallelism))
    local.start()
    try:
        with ClusterClient(local.dispatcher_address, security=local.security) as client:
            job = MeasuredJob(local, client, options.parallelism)
            time.sleep(options.warm_up)
            for is_disturbed in turns(options.slices):
                stop = threading.Event()
                disturbing = threading.Thread(target=meanwhile, args=(client, job.job_id, stop), daemon=True)
                if is_disturbed:
                    disturbing.start()
                time.sleep(BEGINNING_S)
                line = job.slice(options.seconds)
                if is_disturbed:
                    stop.set()
                    disturbing.join()
                tell({"disturbed": is_disturbed, **line})
            job.end()
    finally:
        local.stop()


def turns(count: int) -> Iterator[bool]:
    """Yields whether a slice is disturbed, for `count` slices of each kind.

    The order of a pair changes, so that a machine that becomes slower favours neither kind.
    """
    for number in range(2 * count):
        yield number % 4 in (1, 2)


class MeasuredJob:
    """The job that `local` runs: number sequence, map, filter, rebalance, map."""

    def __init__(self, local: LocalCluster, client: ClusterClient, parallelism: int) -> None:
        self._client = client
        self.job_id = _submit(local, parallelism)
        self._workers = [
            psutil.Process(process.popen.pid) for process in local.processes if process.spec.verb == "taskexecutor"
        ]

    def slice(self, seconds: float) -> dict[str, float]:
        """Returns the rows of the first vertex and the CPU seconds of the TaskExecutors during that time."""
        before = self._read()
        time.sleep(seconds)
        return {name: value - before[name] for name, value in self._read().items()}

    def end(self) -> None:
        self._client.cancel_job(self.job_id)
        self._client.wait_for_result(self.job_id)

    def _read(self) -> dict[str, float]:
        """Returns the rows so far, and the times in the middle of the call that reads them.

        On busy CPUs the call takes up to some hundred milliseconds, and rows are counted somewhere in between.
        """
        began_s, cpu_s = time.perf_counter(), self._cpu_seconds()
        rows = self._num_rows()
        return {
            "rows": rows,
            "seconds": (began_s + time.perf_counter()) / 2,
            "cpu_seconds": (cpu_s + self._cpu_seconds()) / 2,
        }

    def _num_rows(self) -> float:
        names = {"numRecordsOut", "numRecordsIn"}
        return sum(
            metric.number
            for group in self._client.request_metrics(self.job_id)
            if not group.operator_id
            for metric in group.metrics
            if metric.name in names
        )

    def _cpu_seconds(self) -> float:
        # The kernel's clock of a process is exact; the times of psutil have steps of 10 ms.
        return sum(time.clock_gettime((~worker.pid << 3) | 2) for worker in self._workers)


def _submit(local: LocalCluster, parallelism: int) -> str:
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


def tell(line: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()
