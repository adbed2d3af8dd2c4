"""Ids. Each kind is a frozen type, so one cannot be passed for another; on the wire an id is a string.

Source: org.apache.flink.api.common.JobID, org.apache.flink.runtime.{jobgraph,executiongraph,clusterframework.types}.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True, order=True)
class StringId:
    """An id made of one string; `str()` returns the wire form."""

    value: str

    def __str__(self) -> str:
        return self.value

    @classmethod
    def generate(cls) -> Self:
        """Returns a new random id of 128 bits in hex."""
        return cls(secrets.token_hex(16))


class JobID(StringId):
    """The id of a job. Public: `flinkpy.common.JobID`."""

    __slots__ = ()


class JobVertexID(StringId):
    __slots__ = ()


class IntermediateDataSetID(StringId):
    __slots__ = ()


class AllocationID(StringId):
    __slots__ = ()


class ResourceID(StringId):
    """The readable id of a process, e.g. `taskexecutor-host-4711-9f3a`."""

    __slots__ = ()


class InstanceID(StringId):
    """One registration of a TaskExecutor at a ResourceManager."""

    __slots__ = ()


class DispatcherId(StringId):
    """Fencing token of a Dispatcher leadership."""

    __slots__ = ()


class ResourceManagerId(StringId):
    """Fencing token of a ResourceManager leadership."""

    __slots__ = ()


class JobMasterId(StringId):
    """Fencing token of a JobMaster leadership."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, order=True)
class ExecutionVertexID:
    """One parallel instance of a JobVertex."""

    job_vertex_id: JobVertexID
    subtask_index: int

    def __str__(self) -> str:
        return f"{self.job_vertex_id}_{self.subtask_index}"


@dataclass(frozen=True, slots=True, order=True)
class ExecutionAttemptID:
    """One attempt at running an ExecutionVertex: `<graph>_<vertex>_<subtask>_<attempt>` on the wire.

    Every JobMaster leadership draws a new `execution_graph_id`, so attempts of different leaderships never collide.
    """

    execution_graph_id: str
    vertex: ExecutionVertexID
    attempt_number: int

    def __str__(self) -> str:
        return f"{self.execution_graph_id}_{self.vertex}_{self.attempt_number}"

    @classmethod
    def parse(cls, text: str) -> ExecutionAttemptID:
        graph, vertex, subtask, attempt = text.rsplit("_", 3)
        return cls(graph, ExecutionVertexID(JobVertexID(vertex), int(subtask)), int(attempt))


@dataclass(frozen=True, slots=True, order=True)
class ResultPartitionID:
    """The partition that one attempt produces: `<data set>#<partition index>@<attempt id>` on the wire."""

    data_set_id: IntermediateDataSetID
    partition_index: int
    producer: ExecutionAttemptID

    def __str__(self) -> str:
        return f"{self.data_set_id}#{self.partition_index}@{self.producer}"

    @classmethod
    def parse(cls, text: str) -> ResultPartitionID:
        data_set, _, rest = text.partition("#")
        index, _, producer = rest.partition("@")
        return cls(IntermediateDataSetID(data_set), int(index), ExecutionAttemptID.parse(producer))
