"""Runs a random batch job on the simulated cluster. TaskExecutors keep results until they are told to release them.

Messages are lost, delayed and duplicated. Processes die with their results. At the end, every record has arrived
exactly once and no TaskExecutor keeps a result.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

from batch_jobs import NUM_SPLITS, expected_output, partitioned, random_job
from simulated_cluster import ACK, TICK_S, Cluster, FakeTaskExecutor
from simulated_processes import ProcessLoop

from flinkpy._proto import job_pb2, taskexecutor_pb2
from flinkpy.common.errors import PartitionCorruptedError, PartitionNotFoundError
from flinkpy.jobmaster.scheduler.default_scheduler import PARTITION_DETAIL


class BatchTask:
    def __init__(self, deployment: taskexecutor_pb2.TaskDeployment, vertex: job_pb2.JobVertex) -> None:
        self.attempt = deployment.execution_attempt_id
        self.allocation_id = deployment.allocation_id
        self.is_running = False
        self.produced = list(deployment.produced_partitions)
        self.unread = [(gate, partition) for gate in deployment.input_gates for partition in gate.partitions]
        self.records: list[str] = []
        if not vertex.inputs:
            own = range(deployment.subtask_index, NUM_SPLITS, vertex.parallelism)
            self.records = [f"{vertex.id}:{split}" for split in own]


class BatchTaskExecutor(FakeTaskExecutor):
    def __init__(self, cluster: BatchCluster, number: int) -> None:
        super().__init__(cluster, number)
        self._batch = cluster
        #: Results by id: the records of each subpartition.
        self.results: dict[str, list[list[str]]] = {}

    def _leave(self) -> None:
        super()._leave()
        self.results = {}

    def make_task(self, request: Any, deployment: taskexecutor_pb2.TaskDeployment) -> Any:
        vertex = next(vertex for vertex in request.vertices if vertex.id == deployment.vertex_id)
        return BatchTask(deployment, vertex)

    def release_partitions(self, request: Any, context: Any) -> Any:
        for partition_id in request.result_partition_ids:
            self.results.pop(partition_id, None)
        return ACK

    def work(self, task: Any) -> None:
        """Reads one more partition, or finishes."""
        if task.unread:
            gate, partition = task.unread.pop()
            error = self._batch.read(task, gate, partition)
            if error is not None:
                self._end(task, "FAILED", error)
            return
        for produced in task.produced:
            name = self._batch.partitioner_of(produced.data_set_id)
            subpartitions = partitioned(task.records, name, produced.num_subpartitions, self._batch.random)
            self.results[produced.result_partition_id] = subpartitions
        self._batch.output[task.attempt] = task.records
        self._end(task, "FINISHED")


class BatchCluster(Cluster):
    def __init__(self, loop: ProcessLoop, random: Random, directory: Path, configuration: dict[str, str]) -> None:
        self.graph = random_job(random)
        #: The records that each finished attempt has read.
        self.output: dict[str, list[str]] = {}
        super().__init__(loop, random, directory, configuration)

    def make_job_graph(self) -> job_pb2.JobGraph:
        graph = job_pb2.JobGraph()
        graph.CopyFrom(self.graph)
        return graph

    def make_executor(self, number: int) -> FakeTaskExecutor:
        return BatchTaskExecutor(self, number)

    def partitioner_of(self, data_set_id: str) -> str:
        results = [result for vertex in self.graph.vertices for result in vertex.results]
        return next(result.partitioner_name for result in results if result.id == data_set_id)

    def read(self, task: BatchTask, gate: Any, partition: Any) -> PartitionNotFoundError | None:
        """Reads the records of the partition. Returns the error if that is not possible."""
        producers = [executor for executor in self.executors if executor.name == partition.resource_id]
        found = producers[0].results.get(partition.result_partition_id) if producers else None  # type: ignore[attr-defined]
        is_corrupt = self.network.is_faulty and self.random.random() < 0.03
        if found is None or is_corrupt:
            kind = PartitionCorruptedError if is_corrupt else PartitionNotFoundError
            return kind("it cannot be read", details={PARTITION_DETAIL: partition.result_partition_id})
        first = gate.subpartition_index
        for subpartition in found[first : first + max(1, gate.num_subpartitions)]:
            task.records += subpartition
        return None

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            self.resource_manager.tick()
            for executor in self.executors:
                for task in list(executor.tasks.values()):
                    if self.random.random() < 0.1:
                        executor.work(task)  # type: ignore[attr-defined]

    async def misbehave_until_it_ends(self, for_s: float) -> None:
        """Causes faults at random times for a while, and then waits for the end of the job without faults."""
        until = self.loop.time() + for_s
        while self.loop.time() < until and self.dispatcher.result is None:
            await asyncio.sleep(self.random.uniform(0.1, 1.0))
            self.raise_errors()
            what = self.random.random()
            if what < 0.3:
                self.fail_a_task()
            elif what < 0.5 and len(self.executors) > 1:
                self.crash_executor()
            elif what < 0.55 and self.dispatcher.result is None:
                await self.crash_job_master()
        self.network.is_faulty = self.is_disk_faulty = False
        await self._until(lambda: self.dispatcher.result is not None, "the job does not end")
        assert self.job_master is not None
        await asyncio.wait_for(self.job_master.terminated.wait(), 60.0)
        self.job_master_process.kill()  # the process ends, so peers that missed the end of the job notice it
        await self._until(lambda: not self._held(), "TaskExecutors hold results of a job that is over")

    def check_output(self) -> None:
        """Checks that the last attempts of the sinks read the same records as in a run without failures."""
        assert self.job_master is not None
        found: dict[str, Counter[str]] = {vertex.id: Counter() for vertex in self.graph.vertices}
        for vertex in self.job_master.scheduler.graph.vertices:
            found[vertex.job_vertex.name].update(self.output[str(vertex.current.attempt_id)])
        expected = expected_output(self.graph)
        for vertex in self.graph.vertices:
            if not vertex.results:
                assert found[vertex.id] == expected[vertex.id], vertex.id

    def _held(self) -> list[str]:
        return [result for executor in self.executors for result in executor.results]  # type: ignore[attr-defined]
