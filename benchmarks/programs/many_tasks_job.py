"""One job of two vertices, all-to-all, over several TaskExecutors: how long until every task runs, and what it costs.

Prints one line of JSON per parallelism: seconds from the submission to all tasks RUNNING, the peak resident memory of
the JobMaster (bytes), that of the largest TaskExecutor, and seconds until the canceled job has ended.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

import psutil

from flinkpy.client.cluster_client import ClusterClient
from flinkpy.client.local_cluster import LocalCluster, LocalClusterOptions
from flinkpy.common import Configuration, Types, WatermarkStrategy
from flinkpy.connector_api.sink import SinkBase, SinkWriter
from flinkpy.connector_api.source import Boundedness, ReaderStatus, SourceBase, SourceReader, SplitEnumerator
from flinkpy.datastream import StreamExecutionEnvironment

TIMEOUT_S = 300


class NoSplits(SplitEnumerator):
    def start(self):
        return

    def handle_split_request(self, subtask_index):
        return

    def add_reader(self, subtask_index):
        return

    def add_splits_back(self, splits, subtask_index):
        return

    def snapshot_state(self, checkpoint_id):
        return None


class SilentReader(SourceReader):
    def start(self):
        return

    def add_splits(self, splits):
        return

    def notify_no_more_splits(self):
        return

    def poll_batch(self):
        return ReaderStatus.NOTHING_AVAILABLE

    def snapshot_state(self, checkpoint_id):
        return []

    def close(self):
        return


class SilentSource(SourceBase):
    """An endless source without output: the benchmark measures the deployment."""

    @property
    def boundedness(self):
        return Boundedness.CONTINUOUS_UNBOUNDED

    def create_enumerator(self, context):
        return NoSplits()

    def restore_enumerator(self, context, state):
        return NoSplits()

    def create_reader(self, context):
        return SilentReader()

    @property
    def produced_type(self):
        return Types.LONG()


class NothingWriter(SinkWriter):
    def write(self, batch):
        return

    def close(self):
        return


class NothingSink(SinkBase):
    def create_writer(self, context):
        return NothingWriter()


def num_tasks_running(client: ClusterClient, job) -> int:
    details = client.request_job(str(job.get_job_id()))
    return sum(vertex.tasks_per_state.get("RUNNING", 0) for vertex in details.vertices)


def job_master_process(cluster: LocalCluster) -> psutil.Process:
    """The JobMaster with the job: the largest child of the Dispatcher."""
    dispatcher = next(process for process in cluster.processes if process.spec.verb == "dispatcher")
    return max(psutil.Process(dispatcher.popen.pid).children(), key=lambda child: child.memory_info().rss)


def peak_bytes(process: psutil.Process) -> int:
    """VmHWM: the most that was ever resident."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def measure(parallelism: int, num_task_executors: int) -> dict[str, float]:
    slots = -(-parallelism // num_task_executors)
    with tempfile.TemporaryDirectory() as scratch:
        settings = {
            "taskmanager.numberOfTaskSlots": str(slots),
            "jobmanager.rpc.port": "0",
            # Two segments of 32 KiB for each of the channels of a TaskExecutor's tasks, in and out, as Flink needs too.
            "taskmanager.memory.network.min": "3gb",
            "taskmanager.memory.network.max": "3gb",
        }
        cluster = LocalCluster(
            LocalClusterOptions(num_task_executors, settings, temporary_dir=Path(scratch, "tmp"), log_dir=Path(scratch))
        )
        cluster.start()
        client = ClusterClient(cluster.dispatcher_address, security=cluster.security)
        try:
            configuration = Configuration()
            for key, value in {**settings, **cluster.client_properties}.items():
                configuration.set_string(key, value)
            env = StreamExecutionEnvironment.get_execution_environment(configuration)
            env.set_parallelism(parallelism)
            source = env.from_source(SilentSource(), WatermarkStrategy.no_watermarks(), "silent", Types.LONG())
            source.rebalance().sink_to(NothingSink())
            began = time.monotonic()
            job = env.execute_async("many tasks")
            while num_tasks_running(client, job) < 2 * parallelism:
                if time.monotonic() - began > TIMEOUT_S or job.get_job_status().result().is_terminal_state():
                    raise RuntimeError(f"{num_tasks_running(client, job)} of {2 * parallelism} tasks run")
                time.sleep(0.1)
            seconds = time.monotonic() - began
            executors = [process for process in cluster.processes if process.spec.verb == "taskexecutor"]
            measured = {
                "parallelism": parallelism,
                "seconds": seconds,
                "job_master_bytes": peak_bytes(job_master_process(cluster)),
                "task_executor_bytes": max(peak_bytes(psutil.Process(process.popen.pid)) for process in executors),
            }
            began = time.monotonic()
            job.cancel().result()
            while not job.get_job_status().result().is_terminal_state():
                time.sleep(0.05)
            return {**measured, "cancel_seconds": time.monotonic() - began}
        finally:
            client.close()
            cluster.stop()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--parallelism", type=int, nargs="+", required=True)
    parser.add_argument("--task-executors", type=int, default=8)
    options = parser.parse_args()
    for parallelism in options.parallelism:
        print(json.dumps(measure(parallelism, options.task_executors)), flush=True)


if __name__ == "__main__":
    main()
