"""A TaskExecutor keeps within its memory: the job that leaks ends with an error of its task, and the others go on."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from clusters import RunningCluster, StartCluster
from job_support import environment, wait_until

from flinkpy.common import Types, WatermarkStrategy
from flinkpy.common.errors import JobExecutionError
from flinkpy.common.job_client import JobClient
from flinkpy.common.states import JobState
from flinkpy.datastream import MapFunction, RuntimeContext, SlotSharingGroup
from flinkpy.datastream.connectors import DiscardingSink
from flinkpy.datastream.connectors.number_seq import NumberSequenceSource

MEMORY = {
    "taskmanager.memory.process.size": "640 mb",
    "taskmanager.memory.jvm-metaspace.size": "128 mb",
    "taskmanager.memory.jvm-overhead.min": "64 mb",
    "taskmanager.memory.framework.heap.size": "64 mb",
    "taskmanager.memory.framework.off-heap.size": "32 mb",
    "taskmanager.memory.managed.size": "64 mb",
    "taskmanager.memory.network.max": "64 mb",
}


class Leak(MapFunction):
    """Keeps 20 kB of each record."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.kept: list[bytes] = []

    def map(self, value: int) -> int:
        self.kept.append(b"x" * 20_000)
        return burn(value)


class Busy(MapFunction):
    def map(self, value: int) -> int:
        return burn(value)


def burn(value: int) -> int:
    """Uses 0.1 ms of CPU time, so that batches take as long as they do without a leak."""
    until = time.thread_time() + 0.0001
    while time.thread_time() < until:
        value = (value * 31 + 7) % 1_000_003
    return value


def start(cluster: RunningCluster, name: str, function: MapFunction) -> JobClient:
    env = environment(cluster, 1)
    source = NumberSequenceSource(1, 2**62)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers", Types.LONG())
    numbers.map(function, output_type=Types.LONG()).name(name).sink_to(DiscardingSink())
    return env.execute_async(name)


def test_a_job_that_leaks_is_named_and_its_neighbour_goes_on(start_cluster: StartCluster) -> None:
    cluster = start_cluster(num_task_executors=1, slots=2, properties=MEMORY)
    (process,) = cluster.task_executors
    neighbour = str(start(cluster, "neighbour", Busy()).get_job_id())

    def records() -> int:
        return sum(vertex.metrics.num_records_in for vertex in cluster.client.request_job(neighbour).vertices)

    with pytest.raises(JobExecutionError) as raised:
        start(cluster, "leaking", Leak()).get_job_execution_result().result()
    text = str(raised.value)
    assert "was failed before its TaskExecutor runs out of memory" in text and "of 640 MB are in use" in text
    assert "-> leaking ->" in text and "taskmanager.memory.process.size" in text
    before = records()
    wait_until(lambda: records() > before + 100, "the neighbour goes on")
    assert cluster.client.request_job_status(neighbour) is JobState.RUNNING
    assert process.popen.poll() is None and "tasks take turns" in cluster.log(process.spec.name)


class Gpus(MapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        infos = runtime_context.get_external_resource_infos("gpu")
        self.indexes = sorted(str(info.get_property("index")) for info in infos)

    def map(self, value: int) -> str:
        return ",".join(self.indexes)


def test_a_group_gets_what_it_requests_or_hears_what_is_missing(start_cluster: StartCluster, tmp_path: Path) -> None:
    script = tmp_path / "discover.sh"
    script.write_text("#!/bin/sh\necho 4,6\n")
    script.chmod(0o755)
    options = {
        "resourcemanager.standalone.start-up-time": "1 s",
        "taskmanager.cpu.cores": "4",
        "external-resources": "gpu",
        "external-resource.gpu.amount": "2",
        "external-resource.gpu.driver-factory.class": "org.apache.flink.externalresource.gpu.GPUDriverFactory",
        "external-resource.gpu.param.discovery-script.path": str(script),
    }
    cluster = start_cluster(num_task_executors=1, properties={**MEMORY, **options})

    def run(gpus: int, cores: float, heap_mb: int) -> list[str]:
        builder = SlotSharingGroup.builder("gpus").set_cpu_cores(cores).set_task_heap_memory_mb(heap_mb)
        env = environment(cluster, 1)
        numbers = env.from_sequence(1, 1).slot_sharing_group(builder.set_external_resource("gpu", gpus).build())
        with numbers.map(Gpus(), output_type=Types.STRING()).execute_and_collect() as results:
            return list(results)

    assert run(gpus=2, cores=1, heap_mb=10) == ["4,6"]
    with pytest.raises(JobExecutionError, match=r"lacks CPU cores: 60") as raised:
        run(gpus=5, cores=64, heap_mb=10 << 20)
    assert "task heap" in str(raised.value) and "gpu: 3" in str(raised.value)
