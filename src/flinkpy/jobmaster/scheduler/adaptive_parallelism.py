"""AdaptiveParallelism: decides the parallelism of the vertices of a batch job while it runs.

  * A source gets as many subtasks as it has splits. If it does not know them, it gets the default for sources.
  * A vertex with a forward edge to a decided vertex gets the same parallelism.
  * Any other vertex is decided by the size of its inputs when all of them are finished (`decide_parallelism`).

A decision is final: a vertex that runs again has the same subtasks, which read the same ranges.

`decide_parallelism` gives a vertex one subtask per `avg-data-volume-per-task` of input, within the bounds. Broadcast
inputs do not count, because each subtask reads all of them. Then it divides the subpartitions:

  * ALL_TO_ALL inputs: a subtask reads the same range of all these inputs, because equal keys of two inputs must meet.
    Their subpartitions have the same numbering.
  * POINTWISE inputs: a subtask reads a contiguous part of all subpartitions, partition by partition.
  * Broadcast inputs: each subtask reads everything.

If the data lies in few subpartitions, the vertex gets at most that many subtasks.

Source: org.apache.flink.runtime.scheduler.adaptivebatch.AdaptiveBatchScheduler,
org.apache.flink.runtime.scheduler.adaptivebatch.DefaultVertexParallelismAndInputInfosDecider. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from flinkpy._proto import job_pb2
from flinkpy.common.ids import JobVertexID
from flinkpy.common.key_groups import UNDECIDED_PARALLELISM
from flinkpy.common.states import ExecutionState
from flinkpy.jobmaster.executiongraph.edge_manager import (
    EdgeSlices,
    IndexRange,
    InputSlice,
    balanced_ranges,
    pointwise_slices,
)
from flinkpy.jobmaster.executiongraph.execution_graph import ExecutionGraph
from flinkpy.jobmaster.executiongraph.execution_job_vertex import ExecutionJobVertex
from flinkpy.jobmaster.executiongraph.intermediate_result import IntermediateResult, IntermediateResultPartition
from flinkpy.jobmaster.job_event_store.job_events import Decision
from flinkpy.jobmaster.job_event_store.restored_tasks import check_decisions


@dataclass(frozen=True, slots=True)
class AdaptiveParallelismOptions:
    """The options of AdaptiveParallelism. Defaults are Flink's."""

    is_enabled: bool = True
    min_parallelism: int = 1
    #: None: the bound that the JobGraph sets for each vertex.
    max_parallelism: int | None = None
    bytes_per_task: int = 16 << 20
    #: The default for sources; None: the same as the maximum.
    source_parallelism: int | None = None


@dataclass(frozen=True, slots=True)
class DecidedVertex:
    """A vertex that has got its subtasks. `slices` None: they read ranges of equal length."""

    vertex: ExecutionJobVertex
    slices: EdgeSlices | None


def with_bounds(job_graph: job_pb2.JobGraph, options: AdaptiveParallelismOptions) -> job_pb2.JobGraph:
    """Returns the job graph with the configured maximum as the parallelism bound of its undecided vertices."""
    undecided = any(vertex.parallelism == UNDECIDED_PARALLELISM for vertex in job_graph.vertices)
    if options.max_parallelism is None or not undecided:
        return job_graph
    changed = job_pb2.JobGraph()
    changed.CopyFrom(job_graph)
    for vertex in changed.vertices:
        if vertex.parallelism == UNDECIDED_PARALLELISM:
            limit = vertex.max_parallelism if vertex.max_parallelism > 0 else options.max_parallelism
            vertex.parallelism_bound = min(options.max_parallelism, limit)
    return changed


class AdaptiveParallelism:
    """Decides the parallelism of the vertices of `graph`."""

    def __init__(self, graph: ExecutionGraph, options: AdaptiveParallelismOptions) -> None:
        self._graph = graph
        self._options = options
        #: The known numbers of splits of sources.
        self._num_splits: Mapping[JobVertexID, int] = {}
        self._replayed: dict[JobVertexID, EdgeSlices] = {}

    def source_bounds(self) -> dict[JobVertexID, int]:
        """Returns the maximum parallelism of each undecided source."""
        return {
            vertex.id: self._source_bound(vertex)
            for vertex in self._graph.job_vertices.values()
            if vertex.is_undecided and not vertex.inputs
        }

    def sources_inferred(self, num_splits: Mapping[JobVertexID, int]) -> None:
        """Sets the number of splits of these sources."""
        self._num_splits = num_splits

    def replay(self, decisions: Iterable[Decision]) -> None:
        """Repeats recorded decisions. Raises: CorruptStateError if they belong to another job."""
        decisions = list(decisions)
        check_decisions(self._graph, decisions)
        for decision in decisions:
            self._graph.job_vertices[decision.vertex_id].decide(decision.parallelism, decision.reason)
            if decision.slices is not None:
                self._replayed[decision.vertex_id] = decision.slices

    def decide(self, now_ms: int) -> list[DecidedVertex]:
        """Makes all decisions that are possible now. Returns the newly initialized vertices, in topological order."""
        initialized: list[DecidedVertex] = []
        while True:
            slices = dict(self._replayed)
            for vertex in self._graph.job_vertices.values():
                if vertex.is_undecided and all(result.producer.is_initialized for result in vertex.inputs):
                    own = self._decide(vertex)
                    if own is not None:
                        slices[vertex.id] = own
            new = self._graph.initialize_vertices(now_ms, slices)
            if not new:
                return initialized
            initialized += [DecidedVertex(vertex, slices.get(vertex.id)) for vertex in new]

    def _decide(self, vertex: ExecutionJobVertex) -> EdgeSlices | None:
        """Decides the parallelism of the vertex if possible.

        Returns the slices of its inputs, or None if its subtasks read ranges of equal length.
        """
        joined = next((other for other in forward_group(vertex) if not other.is_undecided), None)
        if joined is not None:
            vertex.decide(joined.parallelism, f"the same as {joined.name!r}, because of a forward edge")
            return None
        if not self._options.is_enabled:
            vertex.decide(vertex.parallelism_bound, "execution.batch.adaptive.auto-parallelism.enabled is false")
            return None
        if not vertex.inputs:
            self._decide_source(vertex)
            return None
        if not all(_is_finished(result) for result in vertex.inputs):
            return None
        inputs = [_blocking_input(result) for result in vertex.inputs]
        bounds = ParallelismBounds(
            self._options.min_parallelism, vertex.parallelism_bound, self._options.bytes_per_task
        )
        decision = decide_parallelism(inputs, bounds)
        vertex.decide(decision.parallelism, decision.reason)
        return decision.slices

    def _decide_source(self, vertex: ExecutionJobVertex) -> None:
        bound = self._source_bound(vertex)
        splits = self._num_splits.get(vertex.id)
        if splits is None:
            vertex.decide(bound, "the default of sources")
        else:
            vertex.decide(max(1, min(bound, splits)), f"{splits} splits, at most {bound}")

    def _source_bound(self, vertex: ExecutionJobVertex) -> int:
        configured = self._options.source_parallelism
        if configured is None:
            return vertex.parallelism_bound
        # The vertices that forward edges join to the source must not exceed their own bounds.
        return min([configured, vertex.max_parallelism, *(other.parallelism_bound for other in forward_group(vertex))])


def forward_group(vertex: ExecutionJobVertex) -> list[ExecutionJobVertex]:
    """Returns the other vertices that forward edges connect with it, directly or not, in either direction."""
    seen = {vertex.id}
    group = [vertex]
    for current in group:
        neighbours = [result.producer for result in current.inputs if result.is_forward]
        neighbours += [consumer for result in current.results if result.is_forward for consumer in result.consumers]
        for other in neighbours:
            if other.id not in seen:
                seen.add(other.id)
                group.append(other)
    return group[1:]


def _is_finished(result: IntermediateResult) -> bool:
    """True if the result is complete. A pipelined result is never waited for."""
    return not result.is_blocking or all(
        partition.producer.current.state is ExecutionState.FINISHED for partition in result.partitions
    )


def _blocking_input(result: IntermediateResult) -> BlockingInput:
    return BlockingInput(
        tuple(_subpartition_bytes(partition) for partition in result.partitions),
        is_broadcast=result.is_broadcast,
        is_pointwise=result.is_pointwise,
    )


def _subpartition_bytes(partition: IntermediateResultPartition) -> tuple[int, ...]:
    """Returns the reported sizes of the subpartitions. Without a report, divides the bytes written evenly."""
    execution = partition.producer.current
    reported = execution.result_bytes.get(str(partition.current_id))
    if reported is not None and len(reported) == partition.num_subpartitions:
        return reported
    share = execution.metrics.num_bytes_out // len(partition.producer.produced)
    return (share // partition.num_subpartitions,) * partition.num_subpartitions


@dataclass(frozen=True, slots=True)
class BlockingInput:
    """One finished result that a vertex reads."""

    #: `partition_bytes[partition][subpartition]`: all partitions have the same number of subpartitions.
    partition_bytes: tuple[tuple[int, ...], ...]
    is_broadcast: bool = False
    is_pointwise: bool = False

    @property
    def num_subpartitions(self) -> int:
        return len(self.partition_bytes[0])

    @property
    def num_bytes(self) -> int:
        return sum(sum(subpartitions) for subpartitions in self.partition_bytes)

    @property
    def bytes_per_subpartition(self) -> list[int]:
        return [sum(column) for column in zip(*self.partition_bytes, strict=True)]


@dataclass(frozen=True, slots=True)
class ParallelismDecision:
    """A decided parallelism.

    Attributes:
        reason: shown to users.
        slices: `slices[input][subtask]` is the part of the input that the subtask reads.
    """

    parallelism: int
    reason: str
    slices: tuple[tuple[tuple[InputSlice, ...], ...], ...]


@dataclass(frozen=True, slots=True)
class ParallelismBounds:
    """The bounds of a decision. A `min_parallelism` above `max_parallelism` is reduced to it."""

    min_parallelism: int
    max_parallelism: int
    bytes_per_task: int


def decide_parallelism(inputs: Sequence[BlockingInput], bounds: ParallelismBounds) -> ParallelismDecision:
    """Decides the parallelism of a vertex within `bounds`, and how its inputs are divided."""
    least = min(bounds.min_parallelism, bounds.max_parallelism)
    counted = [one for one in inputs if not one.is_broadcast]
    num_bytes = sum(one.num_bytes for one in counted)
    wanted = max(least, min(bounds.max_parallelism, -(-num_bytes // bounds.bytes_per_task)))
    all_to_all = _all_to_all_ranges(counted, wanted, least)
    parallelism = wanted if all_to_all is None else len(all_to_all)
    pointwise = [one.num_subpartitions * len(one.partition_bytes) for one in counted if one.is_pointwise]
    if all_to_all is None and pointwise:
        parallelism = min(parallelism, max(pointwise))
    reason = f"{_size(num_bytes)} of input at {_size(bounds.bytes_per_task)} per task, at most {bounds.max_parallelism}"
    return ParallelismDecision(parallelism, reason, slices_of(inputs, parallelism, all_to_all))


def slices_of(
    inputs: Sequence[BlockingInput], parallelism: int, ranges: Sequence[IndexRange] | None = None
) -> tuple[tuple[tuple[InputSlice, ...], ...], ...]:
    """Divides the inputs for a given parallelism. Returns `slices[input][subtask]`.

    If an input has fewer subpartitions than there are subtasks, the last subtasks read nothing of it.

    Args:
        ranges: the range of ALL_TO_ALL inputs for each subtask; None: balanced by size.
    """
    if ranges is None:
        counted = [one for one in inputs if not one.is_broadcast]
        ranges = _all_to_all_ranges(counted, parallelism, parallelism)
    return tuple(_slices(one, parallelism, ranges or ()) for one in inputs)


def _all_to_all_ranges(counted: Sequence[BlockingInput], wanted: int, least: int) -> tuple[IndexRange, ...] | None:
    loads: list[int] | None = None
    for one in counted:
        if not one.is_pointwise:
            own = one.bytes_per_subpartition
            loads = own if loads is None else [a + b for a, b in zip(loads, own, strict=True)]
    return None if loads is None else balanced_ranges(loads, wanted, least)


def _slices(one: BlockingInput, parallelism: int, ranges: Sequence[IndexRange]) -> tuple[tuple[InputSlice, ...], ...]:
    partitions = IndexRange(0, len(one.partition_bytes) - 1)
    if one.is_broadcast:
        everything = (InputSlice(partitions, IndexRange(0, one.num_subpartitions - 1)),)
        return (everything,) * parallelism
    if not one.is_pointwise:
        nothing: tuple[tuple[InputSlice, ...], ...] = ((),) * (parallelism - len(ranges))
        return tuple((InputSlice(partitions, own),) for own in ranges) + nothing
    loads = [load for subpartitions in one.partition_bytes for load in subpartitions]
    cut = balanced_ranges(loads, parallelism, parallelism)
    own_slices = tuple(tuple(pointwise_slices(own, one.num_subpartitions)) for own in cut)
    return own_slices + ((),) * (parallelism - len(cut))


def _size(num_bytes: int) -> str:
    for unit, factor in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if num_bytes >= factor:
            return f"{num_bytes / factor:.1f} {unit}"
    return f"{num_bytes} bytes"
