"""memory: resident size of an idle TaskExecutor, and the memory of each further task. Reported, without a bar."""

from __future__ import annotations

import time

import psutil

from benchmarks.result import Result
from flinkpy.client.local_cluster import LocalCluster, LocalClusterOptions
from flinkpy.common import Configuration, Types, WatermarkStrategy
from flinkpy.datastream import MapFunction, StreamExecutionEnvironment
from flinkpy.datastream.connectors import DiscardingSink
from flinkpy.datastream.connectors.number_seq import NumberSequenceSource

TASKS = 32
POLL_S = 0.1
TIMEOUT_S = 60.0
#: An idle process uses some ms a second for heartbeats and polls; importing uses all of a core.
STILL_WINDOW_S = 0.5
STILL_CPU_S = 0.03
#: An open end: the job is cancelled when its tasks have been measured.
ENDLESS = 1 << 60


class Slow(MapFunction):
    """Keeps the job alive without keeping a core busy: the measurement is of memory."""

    def map(self, value):
        time.sleep(1)
        return value


def _resident_mb(processes: list[psutil.Process]) -> float:
    return sum(process.memory_info().rss for process in processes) / 1e6


def _wait_until_still(processes: list[psutil.Process]) -> None:
    """Waits until the processes have used no CPU for a while, so their start-up work is done."""
    deadline = time.monotonic() + TIMEOUT_S
    used = -1.0
    while time.monotonic() < deadline:
        now = sum(sum(process.cpu_times()[:2]) for process in processes)
        if now - used < STILL_CPU_S:
            return
        used = now
        time.sleep(STILL_WINDOW_S)


def run() -> list[Result]:
    """Measures one TaskExecutor with 32 slots: idle, and with 32 source tasks."""
    cluster = LocalCluster(
        LocalClusterOptions(num_task_executors=1, properties={"taskmanager.numberOfTaskSlots": str(TASKS)})
    )
    cluster.start()
    try:
        executors = [
            psutil.Process(process.popen.pid) for process in cluster.processes if "taskexecutor" in process.spec.verb
        ]
        _wait_until_still(executors)
        idle = _resident_mb(executors)
        configuration = Configuration.from_dict(cluster.client_properties)
        env = StreamExecutionEnvironment.get_execution_environment(configuration)
        env.set_parallelism(TASKS)
        numbers = env.from_source(
            NumberSequenceSource(1, ENDLESS), WatermarkStrategy.no_watermarks(), "numbers", Types.LONG()
        )
        numbers.map(Slow(), Types.LONG()).sink_to(DiscardingSink())
        client = env.execute_async("memory")
        deadline = time.monotonic() + TIMEOUT_S
        while executors[0].num_threads() < TASKS and time.monotonic() < deadline:
            time.sleep(POLL_S)
        busy = _resident_mb(executors)
        client.cancel().result()
    finally:
        cluster.stop()
    return [
        Result("memory idle TaskExecutor", idle, None, "MB resident", "", None),
        Result("memory per task", (busy - idle) / TASKS, None, "MB resident", "", None, note=f"{TASKS} source tasks"),
    ]
