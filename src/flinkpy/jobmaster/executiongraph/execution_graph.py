"""ExecutionGraph: the parallel version of a JobGraph, and the state of the job.

It checks each transition. `flinkpy.jobmaster.scheduler` decides when to make one.

```
  INITIALIZING -> CREATED -> RUNNING <-> RESTARTING        FINISHED
        |            |          |            |                ^
        |            +----------+------------+--> FAILING --> FAILED
        +------------+----------+------------+--> CANCELLING --> CANCELED       (any but a terminal one --> SUSPENDED)
```

Source: org.apache.flink.runtime.executiongraph.{DefaultExecutionGraph,DefaultExecutionGraphBuilder}.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from flinkpy._proto import job_pb2
from flinkpy.common.errors import FlinkError, InvalidTransitionError, JobSubmissionError
from flinkpy.common.ids import ExecutionAttemptID, ExecutionVertexID, JobVertexID
from flinkpy.common.states import JOB_TRANSITIONS, ExecutionState, JobState
from flinkpy.jobmaster.executiongraph.edge_manager import EdgeSlices, connect_vertex_to_result
from flinkpy.jobmaster.executiongraph.execution import Execution
from flinkpy.jobmaster.executiongraph.execution_job_vertex import ExecutionJobVertex
from flinkpy.jobmaster.executiongraph.execution_vertex import ExecutionVertex
from flinkpy.jobmaster.executiongraph.intermediate_result import IntermediateResult

#: jobmanager.execution.attempts-history-size
DEFAULT_MAX_PRIOR_ATTEMPTS = 16
#: The maximum number of status changes in the history of a job. A job can restart without end.
MAX_STORY_LENGTH = 64


class ExecutionGraph:
    """All subtasks of a job with their connections, and the status of the job.

    A vertex is initialized, that is, gets its subtasks, as soon as its parallelism is decided and all its producers are
    initialized. This happens at construction or later.

    Invariant: there is no cycle, and each edge reads a data set of another vertex. A pipelined data set has at most one
    consumer. All consumers of a blocking data set have the same parallelism and max parallelism.

    Raises at construction: JobSubmissionError naming the vertex or edge that breaks the invariant.
    """

    def __init__(
        self,
        job_graph: job_pb2.JobGraph,
        *,
        graph_id: str,
        now_ms: int,
        max_prior_attempts: int = DEFAULT_MAX_PRIOR_ATTEMPTS,
    ) -> None:
        self.job_id = job_graph.job_id
        self.name = job_graph.name
        self.graph_id = graph_id
        self.state = JobState.INITIALIZING
        self.status_timestamps: dict[JobState, int] = {JobState.INITIALIZING: now_ms}
        #: The total time of all stays in each state that have ended.
        self.total_ms_in: dict[JobState, int] = {}
        self.start_time_ms = now_ms
        self.end_time_ms = -1
        #: The reason why the job is FAILING, FAILED or SUSPENDED.
        self.failure_cause: FlinkError | None = None
        self._story: list[tuple[JobState, int]] = [(self.state, now_ms)]
        #: In topological order.
        self.job_vertices: dict[JobVertexID, ExecutionJobVertex] = {}
        self._vertices: dict[ExecutionVertexID, ExecutionVertex] = {}
        self._max_prior_attempts = max_prior_attempts
        self._attach(job_graph, now_ms)

    @property
    def vertices(self) -> Iterator[ExecutionVertex]:
        """All existing subtasks, vertex by vertex, in topological order."""
        return iter(self._vertices.values())

    def vertex(self, vertex_id: ExecutionVertexID) -> ExecutionVertex:
        return self._vertices[vertex_id]

    def find_vertex(self, attempt_id: ExecutionAttemptID) -> ExecutionVertex | None:
        """Returns the vertex of an attempt, current or former. None if the attempt belongs to another graph."""
        vertex = self._vertices.get(attempt_id.vertex)
        if attempt_id.execution_graph_id == self.graph_id:
            return vertex
        # An attempt that was recovered or adopted from an earlier JobMaster has the graph id of that JobMaster.
        return vertex if vertex is not None and vertex.current.attempt_id == attempt_id else None

    def find_execution(self, attempt_id: ExecutionAttemptID) -> Execution | None:
        """Returns the execution if it is the current one or a speculative one. None if it is unknown or replaced."""
        vertex = self.find_vertex(attempt_id)
        if vertex is None:
            return None
        attempts = (vertex.current, *vertex.speculative)
        return next((execution for execution in attempts if execution.attempt_id == attempt_id), None)

    def transition(self, target: JobState, now_ms: int) -> None:
        """Enters the state `target`. Raises: InvalidTransitionError with the history of the job."""
        if (self.state, target) not in JOB_TRANSITIONS:
            story = " -> ".join(f"{state.name}@{at}" for state, at in self._story)
            raise InvalidTransitionError(
                f"job {self.job_id} cannot go from {self.state.name} to {target.name}; history: {story}"
            )
        stayed_ms = max(0, now_ms - self._story[-1][1])
        self.total_ms_in[self.state] = self.total_ms_in.get(self.state, 0) + stayed_ms
        self.status_timestamps[target] = now_ms
        self.state = target
        self._story = [*self._story[-MAX_STORY_LENGTH:], (target, now_ms)]
        if target.is_terminal:
            self.end_time_ms = now_ms

    def set_max_parallelism(self, vertex_id: JobVertexID, max_parallelism: int) -> None:
        """Sets the max parallelism of a vertex to the one that its restored state was taken with.

        Call it before the first task is deployed.
        """
        vertex = self.job_vertices[vertex_id]
        if vertex.max_parallelism == max_parallelism:
            return
        assert vertex.parallelism <= max_parallelism
        vertex.max_parallelism = max_parallelism
        vertex.job_vertex.max_parallelism = max_parallelism
        for result in vertex.inputs:
            result.producer.job_vertex.results[result.result_index].consumer_max_parallelism = max_parallelism

    @property
    def is_finished(self) -> bool:
        """True if all vertices have their subtasks and all subtasks have finished."""
        return all(vertex.is_initialized for vertex in self.job_vertices.values()) and all(
            vertex.current.state is ExecutionState.FINISHED for vertex in self._vertices.values()
        )

    @property
    def is_all_terminal(self) -> bool:
        return all(vertex.current.state.is_terminal for vertex in self._vertices.values())

    def validate(self) -> None:
        """Asserts all invariants between the parts of the graph."""
        for vertex in self._vertices.values():
            execution = vertex.current
            if execution.is_deployed:
                assert execution.slot is not None, f"{vertex} is deployed without a slot"
            for gate in vertex.consumed:
                for partition in gate.partitions:
                    assert vertex in partition.consumers
                    assert partition.result.is_blocking or partition.consumers[gate.subpartition_index] is vertex
                    assert gate.subpartition_index + gate.num_subpartitions <= partition.num_subpartitions
        if self.state in (JobState.FINISHED, JobState.CANCELED, JobState.FAILED):
            assert self.is_all_terminal or JobState.CREATED not in self.status_timestamps
            assert self.end_time_ms >= self.start_time_ms

    def initialize_vertices(
        self, now_ms: int, slices: Mapping[JobVertexID, EdgeSlices] | None = None
    ) -> list[ExecutionJobVertex]:
        """Initializes all vertices that can be initialized. Returns them in topological order.

        Args:
            slices: the slices of the blocking inputs for the subtasks of these vertices. Other vertices read ranges of
                equal length.
        """
        initialized = []
        for vertex in self.job_vertices.values():
            is_ready = not vertex.is_undecided and all(result.producer.is_initialized for result in vertex.inputs)
            if vertex.is_initialized or not is_ready:
                continue
            vertex.initialize(self.graph_id, self._max_prior_attempts, now_ms)
            for task_vertex in vertex.task_vertices:
                self._vertices[task_vertex.id] = task_vertex
            own = (slices or {}).get(vertex.id)
            for edge_index, result in enumerate(vertex.inputs):
                connect_vertex_to_result(vertex, edge_index, result, None if own is None else own[edge_index])
            initialized.append(vertex)
        return initialized

    def rescale(self, parallelisms: Mapping[JobVertexID, int], now_ms: int) -> None:
        """Gives these vertices new subtasks, as many as `parallelisms` says. Attempt numbers go on.

        None of their subtasks may be running. They must be connected only with each other, by pipelined data sets.
        """
        for vertex in (self.job_vertices[vertex_id] for vertex_id in parallelisms):
            assert not any(result.is_blocking for result in vertex.results), f"{vertex.name} has a blocking result"
            assert all(result.producer.id in parallelisms for result in vertex.inputs), f"{vertex.name} reads others"
            vertex.rescale(parallelisms[vertex.id])
        self.initialize_vertices(now_ms)
        subtasks = (subtask for vertex in self.job_vertices.values() for subtask in vertex.task_vertices)
        self._vertices = {subtask.id: subtask for subtask in subtasks}

    def _attach(self, job_graph: job_pb2.JobGraph, now_ms: int) -> None:
        if not job_graph.vertices:
            raise JobSubmissionError(f"job {job_graph.name!r} has no vertices")
        results: dict[str, IntermediateResult] = {}
        for job_vertex in topologically_sorted(job_graph):
            vertex = ExecutionJobVertex(job_vertex)
            self.job_vertices[vertex.id] = vertex
            for edge in job_vertex.inputs:
                result = results[edge.source_data_set_id]
                _check_consumer(vertex, result)
                result.consumers.append(vertex)
                data_set = result.producer.job_vertex.results[result.result_index]
                data_set.consumer_max_parallelism = vertex.max_parallelism
                vertex.inputs.append(result)
            for result in vertex.results:
                results[str(result.id)] = result
        self.initialize_vertices(now_ms)


def _check_consumer(vertex: ExecutionJobVertex, result: IntermediateResult) -> None:
    if not result.consumers:
        return
    if not result.is_blocking:
        raise JobSubmissionError(
            f"data set {result.id} is pipelined and has more than one consumer; only a blocking one may"
        )
    first = result.consumers[0]
    if (first.parallelism, first.max_parallelism) != (vertex.parallelism, vertex.max_parallelism):
        raise JobSubmissionError(
            f"the consumers of data set {result.id} must have the same parallelism and max parallelism, but vertex "
            f"{first.name!r} has {first.parallelism} and {first.max_parallelism}, and vertex {vertex.name!r} has "
            f"{vertex.parallelism} and {vertex.max_parallelism}"
        )


def topologically_sorted(job_graph: job_pb2.JobGraph) -> list[job_pb2.JobVertex]:
    """Returns the vertices with producers before consumers, otherwise in the given order.

    Raises: JobSubmissionError if a vertex or data set is defined twice, an edge has no producer, or there is a cycle.
    """
    producer_of: dict[str, str] = {}
    by_id: dict[str, job_pb2.JobVertex] = {}
    for vertex in job_graph.vertices:
        if vertex.id in by_id:
            raise JobSubmissionError(f"vertex {vertex.name!r} ({vertex.id}) is defined twice")
        by_id[vertex.id] = vertex
        for data_set in vertex.results:
            if data_set.id in producer_of:
                raise JobSubmissionError(f"data set {data_set.id} of vertex {vertex.name!r} is defined twice")
            producer_of[data_set.id] = vertex.id
    missing: dict[str, set[str]] = {}
    for vertex in job_graph.vertices:
        for edge in vertex.inputs:
            if edge.source_data_set_id not in producer_of:
                raise JobSubmissionError(
                    f"vertex {vertex.name!r} reads data set {edge.source_data_set_id}, which no vertex produces"
                )
        missing[vertex.id] = {producer_of[edge.source_data_set_id] for edge in vertex.inputs}
    ordered: list[job_pb2.JobVertex] = []
    while missing:
        ready = [vertex_id for vertex_id, producers in missing.items() if not producers]
        if not ready:
            names = ", ".join(repr(by_id[vertex_id].name) for vertex_id in missing)
            raise JobSubmissionError(f"the job graph has a cycle through the vertices {names}")
        for vertex_id in ready:
            ordered.append(by_id[vertex_id])
            del missing[vertex_id]
        for producers in missing.values():
            producers.difference_update(ready)
    return ordered
