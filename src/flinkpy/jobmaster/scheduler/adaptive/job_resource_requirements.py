"""JobResourceRequirements: the parallelism that each vertex of a job may have.

They start as 1 to the parallelism of the program, and users change them while the job runs.

Source: org.apache.flink.runtime.jobgraph.{JobResourceRequirements,JobVertexResourceRequirements}.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from flinkpy._proto import job_pb2
from flinkpy.common.errors import InvalidResourceRequirementsError
from flinkpy.common.ids import JobVertexID
from flinkpy.jobmaster.executiongraph.execution_graph import ExecutionGraph
from flinkpy.jobmaster.executiongraph.execution_job_vertex import ExecutionJobVertex

#: As a bound: the default, which is 1 below and the max parallelism above.
UNSET = -1


@dataclass(frozen=True, slots=True)
class ParallelismBounds:
    """Both are included."""

    lower: int
    upper: int


JobResourceRequirements = Mapping[JobVertexID, ParallelismBounds]


def initial_requirements(graph: ExecutionGraph, *, is_reactive: bool) -> dict[JobVertexID, ParallelismBounds]:
    """Returns the requirements of a job whose requirements no user has set.

    Args:
        is_reactive: True if the job may use all slots.
    """
    return {
        vertex.id: ParallelismBounds(1, most_subtasks(vertex) if is_reactive else vertex.parallelism)
        for vertex in graph.job_vertices.values()
    }


def most_subtasks(vertex: ExecutionJobVertex) -> int:
    """Returns the number of subtasks that the vertex may have at most."""
    return 1 if vertex.job_vertex.is_non_parallel else vertex.max_parallelism


def checked_requirements(
    graph: ExecutionGraph, wanted: Iterable[job_pb2.VertexParallelismBounds]
) -> dict[JobVertexID, ParallelismBounds]:
    """Returns the requirements that a user wants.

    Raises: InvalidResourceRequirementsError with all mistakes, in Flink's words.
    """
    found: dict[JobVertexID, ParallelismBounds] = {}
    errors: list[str] = []
    for one in wanted:
        vertex = graph.job_vertices.get(JobVertexID(one.vertex_id))
        if vertex is None:
            errors.append(f"Job vertex [{one.vertex_id}] was not found in the JobGraph.")
            continue
        most = most_subtasks(vertex)
        lower = 1 if one.lower_bound == UNSET else one.lower_bound
        upper = most if one.upper_bound == UNSET else one.upper_bound
        found[vertex.id] = ParallelismBounds(lower, upper)
        errors += _mistakes(vertex, lower, upper, most)
    errors += [
        f"The request is incomplete, missing job vertex [{vertex_id}] resource requirements."
        for vertex_id in graph.job_vertices
        if vertex_id not in found
    ]
    if errors:
        raise InvalidResourceRequirementsError(" ".join(errors))
    return found


def _mistakes(vertex: ExecutionJobVertex, lower: int, upper: int, most: int) -> list[str]:
    if lower < 1 or upper < 1:
        both = f"the requested lower bound [{lower}] and upper bound [{upper}] for job vertex [{vertex.id}]"
        return [f"Both, {both} must be greater than zero."]
    errors = []
    if lower > upper:
        lower_bound = f"The requested lower bound [{lower}] for job vertex [{vertex.id}]"
        errors.append(f"{lower_bound} is higher than the upper bound [{upper}].")
    if upper > most:
        why = ", because one of its operators is non-parallel" if vertex.job_vertex.is_non_parallel else ""
        errors.append(
            f"The newly requested parallelism {upper} for the job vertex {vertex.id} exceeds its maximum parallelism "
            f"{most}{why}."
        )
    return errors
