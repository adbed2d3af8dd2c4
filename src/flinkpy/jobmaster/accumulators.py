"""The accumulators of a job: merges the values that subtasks have reported, by name.

The reports are pickles of the user's classes. They are loaded only in the process of the job: the Dispatcher, which
keeps the results of all jobs, forwards them as bytes. The merged value includes the reports of the current attempts and
of finished tasks. The values of failed attempts are dropped.

Source: org.apache.flink.runtime.executiongraph.DefaultExecutionGraph#aggregateUserAccumulators,
org.apache.flink.runtime.accumulators.StringifiedAccumulatorResult.
"""

from __future__ import annotations

import logging
import pickle
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import cloudpickle

from flinkpy._proto import job_pb2
from flinkpy.common.accumulators import Accumulator, AccumulatorFailure
from flinkpy.common.error_text import USER_ERRORS, bounded_text, describe, safe_repr

if TYPE_CHECKING:
    from flinkpy.jobmaster.executiongraph.execution_graph import ExecutionGraph
    from flinkpy.jobmaster.executiongraph.execution_vertex import ExecutionVertex

logger = logging.getLogger(__name__)

#: The maximum size of all accumulator results of a job, which are sent and stored with the job result.
MAX_BYTES = 8 * 1024 * 1024
#: The maximum length of a value as text.
MAX_TEXT_CHARS = 1_000
#: The maximum size of the values of single vertices and subtasks, as text, that are kept of an ended job.
MAX_KEPT_TEXT_BYTES = 1024 * 1024

Report = Mapping[str, bytes]


def accumulator_reports(graph: ExecutionGraph) -> list[Report]:
    """Returns the reports of the current attempts, in the order of the subtasks."""
    return reports_of(graph.vertices)


def reports_of(vertices: Iterable[ExecutionVertex]) -> list[Report]:
    return [vertex.current.accumulators for vertex in vertices if vertex.current.accumulators]


@dataclass(slots=True)
class FinalAccumulators:
    """The accumulators of an ended job.

    Attributes:
        job: merged over the whole job, with their values.
        vertices: merged over each vertex, as text, by vertex id.
        subtasks: of each subtask, as text, by vertex id and subtask index.
    """

    job: list[job_pb2.AccumulatorResult] = field(default_factory=list)
    vertices: dict[str, list[job_pb2.AccumulatorResult]] = field(default_factory=dict)
    subtasks: dict[tuple[str, int], list[job_pb2.AccumulatorResult]] = field(default_factory=dict)

    def add_to(self, details: job_pb2.JobDetails) -> None:
        """Adds the accumulators of the vertices and subtasks to the details of the job."""
        for vertex in details.vertices:
            vertex.accumulators.extend(self.vertices.get(vertex.id, ()))
            for subtask in vertex.subtasks:
                subtask.accumulators.extend(self.subtasks.get((vertex.id, subtask.subtask_index), ()))


def final_accumulators(reports: Mapping[tuple[str, int], Report]) -> FinalAccumulators:
    """Merges the reports of the subtasks, which are given by vertex id and subtask index, in the order of the subtasks.

    Keeps at most MAX_KEPT_TEXT_BYTES of vertices and subtasks, vertices first.

    Thread: I/O, because it runs user code.
    """
    final = FinalAccumulators(merge_accumulators(list(reports.values())))
    by_vertex: dict[str, list[Report]] = {}
    for (vertex_id, _), report in reports.items():
        by_vertex.setdefault(vertex_id, []).append(report)
    room = MAX_KEPT_TEXT_BYTES
    for vertex_id, of_vertex in by_vertex.items():
        room = _keep(final.vertices, vertex_id, of_vertex, room)
    for key, report in reports.items():
        room = _keep(final.subtasks, key, [report], room)
    return final


def _keep(kept: dict[Any, list[job_pb2.AccumulatorResult]], key: Any, reports: list[Report], room: int) -> int:
    """Adds the merged reports if there is room. Returns the room that is left."""
    if room <= 0:
        return 0
    texts = as_texts(merge_accumulators(reports))
    room -= sum(one.ByteSize() for one in texts)
    if room >= 0:
        kept[key] = texts
    return room


def as_texts(results: Sequence[job_pb2.AccumulatorResult]) -> list[job_pb2.AccumulatorResult]:
    """Removes the pickled values. What remains is for people."""
    for result in results:
        result.ClearField("value_pickle")
    return list(results)


def merge_accumulators(reports: Sequence[Report]) -> list[job_pb2.AccumulatorResult]:
    """Merges the reports and returns one result for each name.

    An accumulator that cannot be loaded, merged or computed results in an AccumulatorFailure. The others are not
    affected.

    Thread: I/O, because it runs user code.
    """
    merged: dict[str, Any] = {}
    for report in reports:
        for name, data in report.items():
            merged[name] = _merged(name, merged.get(name), data)
    results = []
    room = MAX_BYTES
    for name, accumulator in sorted(merged.items()):
        result = _result(name, accumulator, room)
        room -= len(result.value_pickle)
        results.append(result)
    return results


def _merged(name: str, so_far: Any, data: bytes) -> Any:
    if isinstance(so_far, AccumulatorFailure):
        return so_far
    try:
        accumulator = pickle.loads(data)
        if so_far is None or isinstance(accumulator, AccumulatorFailure):
            return accumulator
        if _class_name(accumulator) != _class_name(so_far):
            kinds = f"{type(so_far).__name__} and {type(accumulator).__name__}"
            return AccumulatorFailure(name, f"cannot be merged: its type differs between tasks ({kinds})")
        so_far.merge(accumulator)
        return so_far
    except USER_ERRORS as error:
        logger.warning("accumulator %s cannot be merged", name, exc_info=error)
        return AccumulatorFailure(name, f"cannot be merged: {describe(error)}")


def _result(name: str, accumulator: Accumulator | AccumulatorFailure, room: int) -> job_pb2.AccumulatorResult:
    value: Any = accumulator
    data = b""
    try:
        if isinstance(accumulator, Accumulator):
            value = accumulator.get_local_value()
        data = cloudpickle.dumps(value)
        if len(data) > room:
            value = AccumulatorFailure(
                name, f"its result has {len(data)} bytes; all results of a job together may have {MAX_BYTES}"
            )
    except USER_ERRORS as error:  # the user's own class
        value = AccumulatorFailure(name, f"has no result: {describe(error)}")
    if isinstance(value, AccumulatorFailure):
        data = cloudpickle.dumps(value)
        text = value.reason
    else:
        text = safe_repr(value, MAX_TEXT_CHARS)
    return job_pb2.AccumulatorResult(
        name=name, type=type(accumulator).__name__, value=bounded_text(text, MAX_TEXT_CHARS), value_pickle=data
    )


def _class_name(value: object) -> tuple[str, str]:
    return type(value).__module__, type(value).__qualname__
