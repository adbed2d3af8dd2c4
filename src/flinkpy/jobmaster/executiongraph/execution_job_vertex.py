"""ExecutionJobVertex: all parallel instances of one JobVertex.

The JobGraph of a batch job may leave the parallelism of a vertex undecided. The vertex has no subtasks until it is
decided.

Source: org.apache.flink.runtime.executiongraph.ExecutionJobVertex.
"""

from __future__ import annotations

from flinkpy._proto import job_pb2
from flinkpy.common.errors import JobSubmissionError
from flinkpy.common.ids import JobVertexID
from flinkpy.common.key_groups import UNDECIDED_PARALLELISM, UPPER_BOUND_MAX_PARALLELISM, default_max_parallelism
from flinkpy.graph.resource_profiles import resource_profile_from_proto
from flinkpy.jobmaster.executiongraph.execution_vertex import ExecutionVertex
from flinkpy.jobmaster.executiongraph.intermediate_result import IntermediateResult, IntermediateResultPartition

DEFAULT_SLOT_SHARING_GROUP = "default"


class ExecutionJobVertex:
    """Raises at construction: JobSubmissionError if the parallelism or max parallelism is invalid."""

    def __init__(self, job_vertex: job_pb2.JobVertex) -> None:
        self.id = JobVertexID(job_vertex.id)
        self.name = job_vertex.name
        #: UNDECIDED_PARALLELISM until `decide`, if the JobGraph does not set it.
        self.parallelism = job_vertex.parallelism
        #: The upper bound of the parallelism.
        self.parallelism_bound = job_vertex.parallelism_bound if self.is_undecided else job_vertex.parallelism
        #: The reason for the parallelism, shown to users. Empty if the JobGraph set it.
        self.parallelism_reason = ""
        self.max_parallelism = _resolve_max_parallelism(job_vertex)
        self.slot_sharing_group = job_vertex.slot_sharing_group or DEFAULT_SLOT_SHARING_GROUP
        #: The resources of each slot of the slot sharing group.
        self.slot_resources = resource_profile_from_proto(job_vertex, "slot_resources")
        #: The JobVertex with its final parallelism and max parallelism, as it is sent to TaskExecutors.
        self.job_vertex = job_pb2.JobVertex()
        self.job_vertex.CopyFrom(job_vertex)
        self.job_vertex.max_parallelism = self.max_parallelism
        self.has_coordinators = any(operator.coordinator_pickle for operator in job_vertex.chain)
        self.results = [IntermediateResult(data_set, i, self) for i, data_set in enumerate(job_vertex.results)]
        #: The results that the vertex reads, by edge index.
        self.inputs: list[IntermediateResult] = []
        #: Empty until `initialize`.
        self.task_vertices: list[ExecutionVertex] = []
        #: The last subtask with each index before rescales.
        self._former: dict[int, ExecutionVertex] = {}

    @property
    def is_undecided(self) -> bool:
        return self.parallelism == UNDECIDED_PARALLELISM

    @property
    def is_initialized(self) -> bool:
        return bool(self.task_vertices)

    def decide(self, parallelism: int, reason: str) -> None:
        """Sets the parallelism of an undecided vertex. `reason` is shown to users."""
        assert self.is_undecided and 1 <= parallelism <= self.max_parallelism, f"{self.name}: {parallelism}"
        self.parallelism = self.job_vertex.parallelism = parallelism
        self.parallelism_reason = reason

    def rescale(self, parallelism: int) -> None:
        """Removes the subtasks and their partitions, and sets the parallelism of those that `initialize` creates."""
        assert 1 <= parallelism <= self.max_parallelism, f"{self.name}: {parallelism}"
        self._former.update({vertex.subtask_index: vertex for vertex in self.task_vertices})
        self.task_vertices = []
        for result in self.results:
            result.partitions = []
        self.parallelism = self.parallelism_bound = self.job_vertex.parallelism = parallelism

    def initialize(self, graph_id: str, max_prior_attempts: int, now_ms: int) -> None:
        """Creates the subtasks and the partitions that they produce. The parallelism must be decided."""
        assert not self.is_undecided and not self.is_initialized
        self.task_vertices = [
            ExecutionVertex(self, index, graph_id, max_prior_attempts, now_ms) for index in range(self.parallelism)
        ]
        for vertex in self.task_vertices:
            if vertex.subtask_index in self._former:
                vertex.continue_from(self._former[vertex.subtask_index], now_ms)
        for result in self.results:
            for vertex in self.task_vertices:
                partition = IntermediateResultPartition(result, vertex.subtask_index, vertex)
                result.partitions.append(partition)
                vertex.produced.append(partition)


def _resolve_max_parallelism(job_vertex: job_pb2.JobVertex) -> int:
    parallelism = job_vertex.parallelism
    if parallelism == UNDECIDED_PARALLELISM and job_vertex.parallelism_bound >= 1:
        parallelism = job_vertex.parallelism_bound
    if parallelism < 1:
        raise JobSubmissionError(f"vertex {job_vertex.name!r} has parallelism {parallelism}; it must be at least 1")
    if job_vertex.max_parallelism in (-1, 0):
        max_parallelism = default_max_parallelism(parallelism)
    else:
        max_parallelism = job_vertex.max_parallelism
    if not 1 <= max_parallelism <= UPPER_BOUND_MAX_PARALLELISM:
        raise JobSubmissionError(
            f"vertex {job_vertex.name!r} has max parallelism {max_parallelism}; "
            f"it must be between 1 and {UPPER_BOUND_MAX_PARALLELISM}"
        )
    if parallelism > max_parallelism:
        raise JobSubmissionError(
            f"vertex {job_vertex.name!r} has parallelism {parallelism}, more than its max parallelism {max_parallelism}"
        )
    return max_parallelism
