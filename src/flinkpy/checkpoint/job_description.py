"""The description of a job that the assignment of state needs.

Source: the parts of org.apache.flink.runtime.executiongraph.ExecutionJobVertex that StateAssignmentOperation reads.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from flinkpy._proto import job_pb2
from flinkpy.common.key_groups import default_max_parallelism


@dataclass(frozen=True, slots=True)
class OperatorDescription:
    operator_id: str
    uid: str = ""
    name: str = ""

    def __str__(self) -> str:
        uid = f", uid {self.uid!r}" if self.uid else ""
        return f"operator {self.name!r} (id {self.operator_id}{uid})"


@dataclass(frozen=True, slots=True)
class InputDescription:
    """An input edge. `producer_result` is the position in the results of the producer."""

    producer_vertex_id: str
    producer_result: int
    partitioner_name: str


@dataclass(frozen=True, slots=True)
class VertexDescription:
    """A vertex of the job graph.

    Attributes:
        operators: the operators in the order of the chain. The first one has the inputs.
        inputs: the input edges in the order of JobVertex.inputs.
        is_max_parallelism_configured: True if the user set the max parallelism, so that the max parallelism of restored
            state must not replace it.
    """

    vertex_id: str
    name: str
    operators: tuple[OperatorDescription, ...]
    parallelism: int
    max_parallelism: int
    inputs: tuple[InputDescription, ...] = ()
    is_max_parallelism_configured: bool = False


def describe_job_graph(job_graph: job_pb2.JobGraph) -> list[VertexDescription]:
    """Describes a JobGraph as it was submitted, with a max parallelism of 0 where the user set none."""
    return describe_vertices(job_graph.vertices)


def describe_vertices(vertices: Iterable[job_pb2.JobVertex]) -> list[VertexDescription]:
    vertices = list(vertices)
    results = {
        data_set.id: (vertex.id, index, data_set.partitioner_name)
        for vertex in vertices
        for index, data_set in enumerate(vertex.results)
    }
    return [
        VertexDescription(
            vertex.id,
            vertex.name,
            tuple(OperatorDescription(o.operator_id, o.uid, o.name) for o in vertex.chain),
            vertex.parallelism,
            vertex.max_parallelism if vertex.max_parallelism > 0 else default_max_parallelism(vertex.parallelism),
            # The ExecutionGraph refuses data sets without a producer.
            tuple(
                InputDescription(*results[edge.source_data_set_id])
                for edge in vertex.inputs
                if edge.source_data_set_id in results
            ),
            vertex.max_parallelism > 0,
        )
        for vertex in vertices
    ]
