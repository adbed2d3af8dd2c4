"""memory-limit: jobs that leak in three ways, each beside a healthy job in one TaskExecutor with a limit.

Reported is the peak of the process, beside its limit: the leaking task must fail by name below it, the healthy job must
go on, and the process must live. Otherwise the run fails.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import psutil

from benchmarks.result import Result
from flinkpy.client.cluster_client import ClusterClient
from flinkpy.client.local_cluster import LocalCluster, LocalClusterOptions
from flinkpy.common import Configuration, Types, WatermarkStrategy
from flinkpy.common.errors import JobExecutionError
from flinkpy.common.job_client import JobClient
from flinkpy.common.states import JobState
from flinkpy.datastream import MapFunction, RuntimeContext, StreamExecutionEnvironment
from flinkpy.datastream.connectors import DiscardingSink
from flinkpy.datastream.connectors.number_seq import NumberSequenceSource

LIMIT_MB = 1024
MEMORY = {
    "taskmanager.memory.process.size": f"{LIMIT_MB} mb",
    "taskmanager.memory.managed.size": "64 mb",
    "taskmanager.memory.network.max": "64 mb",
    "taskmanager.numberOfTaskSlots": "2",
    "restart-strategy.type": "none",
}
#: How often the peak is sampled from outside.
SAMPLE_S = 0.01
TIMEOUT_S = 120.0


class Leak(MapFunction):
    """Keeps what `allocate` returns for each record."""

    def __init__(self, allocate: Callable[[], object]) -> None:
        self._allocate = allocate

    def open(self, runtime_context: RuntimeContext) -> None:
        self._kept: list[object] = []

    def map(self, value: int) -> int:
        self._kept.append(self._allocate())
        return burn(value)


class EndlessCall(MapFunction):
    """Allocates in one call that never returns."""

    def map(self, value: int) -> int:
        kept = []
        while True:
            kept.append(b"x" * 20_000)
            value = burn(value)


class Healthy(MapFunction):
    def map(self, value: int) -> int:
        return burn(value)


def burn(value: int) -> int:
    until = time.thread_time() + 0.0001
    while time.thread_time() < until:
        value = (value * 31 + 7) % 1_000_003
    return value


LEAKS: dict[str, MapFunction] = {
    "Python objects": Leak(lambda: b"x" * 20_000),
    "NumPy arrays": Leak(lambda: np.ones(50_000)),
    "one endless call": EndlessCall(),
}


def run() -> list[Result]:
    cluster = LocalCluster(LocalClusterOptions(num_task_executors=1, properties=MEMORY))
    cluster.start()
    try:
        configuration = Configuration.from_dict({**MEMORY, **cluster.client_properties})
        (executor,) = (process for process in cluster.processes if process.spec.verb == "taskexecutor")
        neighbour = _start(configuration, "neighbour", Healthy())
        client = ClusterClient(cluster.dispatcher_address, security=cluster.security)
        try:
            return [
                _measure(configuration, client, neighbour, psutil.Process(executor.popen.pid), name, function)
                for name, function in LEAKS.items()
            ]
        finally:
            client.cancel_job(str(neighbour.get_job_id()))
            client.close()
    finally:
        cluster.stop()


def _measure(
    configuration: Configuration,
    client: ClusterClient,
    neighbour: JobClient,
    process: psutil.Process,
    name: str,
    function: MapFunction,
) -> Result:
    began = time.monotonic()
    with _peak_of(process) as peak:
        try:
            _start(configuration, "leaking", function).get_job_execution_result().result()
        except JobExecutionError as error:
            if "was failed before its TaskExecutor runs out of memory" not in str(error):
                raise
    took_s = time.monotonic() - began
    job_id = str(neighbour.get_job_id())
    before = _records(client, job_id)
    deadline = time.monotonic() + TIMEOUT_S
    while _records(client, job_id) <= before:
        if time.monotonic() > deadline or client.request_job_status(job_id) is not JobState.RUNNING:
            raise RuntimeError(f"{name}: the neighbour does not go on")
        time.sleep(SAMPLE_S)
    ratio = LIMIT_MB / peak[0]
    note = f"the task failed by name after {took_s:.1f} s, and its neighbour went on"
    return Result(f"memory-limit: {name}", peak[0], LIMIT_MB, "MB at the peak", "its limit", ratio, 1.0, note)


def _start(configuration: Configuration, name: str, function: MapFunction) -> JobClient:
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(1)
    source = NumberSequenceSource(1, 1 << 60)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers", Types.LONG())
    numbers.map(function, output_type=Types.LONG()).name(name).sink_to(DiscardingSink())
    return env.execute_async(name)


def _records(client: ClusterClient, job_id: str) -> int:
    return sum(vertex.metrics.num_records_out for vertex in client.request_job(job_id).vertices)


@contextmanager
def _peak_of(process: psutil.Process) -> Iterator[list[float]]:
    """Yields a list whose element is the highest memory of the process so far, in MB, without pages of files."""
    peak = [0.0]
    ended = threading.Event()

    def sample() -> None:
        while not ended.wait(SAMPLE_S):
            memory = process.memory_info()
            peak[0] = max(peak[0], (memory.rss - memory.shared) / (1 << 20))

    sampler = threading.Thread(target=sample, daemon=True)
    sampler.start()
    try:
        yield peak
    finally:
        ended.set()
        sampler.join()
