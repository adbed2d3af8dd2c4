"""DriverJob: a JobGraph that Spark's driver can run: regions, committers, and sinks that belong to the program."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any

from flinkpy._proto import job_pb2
from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.connector_api.sink import SinkBase
from flinkpy.graph.operator_specs import SinkCommitterSpec, SinkSpec
from flinkpy.graph.spark_region import SPARK_TASK, SparkRegion, output_number


@dataclass(frozen=True, slots=True)
class CommitterVertex:
    """Commits the output of one sink."""

    operator_id: str
    name: str
    sink: SinkBase


@dataclass(frozen=True, slots=True)
class SinkVertex:
    """A sink that runs in the driver, such as `print`.

    Attributes:
        parallelism: the number of writers; 1 if a cluster would choose it.
    """

    operator_id: str
    name: str
    sink: SinkBase
    input_type: Any
    parallelism: int


@dataclass(frozen=True, slots=True)
class RegionVertex:
    """A region.

    Attributes:
        readers: the ids of the operators that read each output, by the number of the output.
    """

    name: str
    vertex: job_pb2.JobVertex
    region: SparkRegion
    readers: dict[int, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class DriverJob:
    """The parts of a job.

    Attributes:
        regions: the regions. None of them reads from another.
        committers, sinks: those of all regions, by operator id.
    """

    regions: list[RegionVertex]
    committers: dict[str, CommitterVertex]
    sinks: dict[str, SinkVertex]


def driver_job(graph: job_pb2.JobGraph) -> DriverJob:
    """Returns the parts of a job.

    Raises:
        UnsupportedOperationError: a vertex needs a flinkpy cluster. Names it.
    """
    readers: dict[str, list[str]] = {}
    committers: dict[str, CommitterVertex] = {}
    sinks: dict[str, SinkVertex] = {}
    for vertex in graph.vertices:
        if vertex.task_kind == SPARK_TASK and not vertex.inputs:
            continue
        operator = vertex.chain[0]
        spec = pickle.loads(operator.factory_pickle) if len(vertex.chain) == 1 and vertex.inputs else None
        if isinstance(spec, SinkCommitterSpec):
            committers[operator.operator_id] = CommitterVertex(operator.operator_id, operator.name, spec.sink)
        elif isinstance(spec, SinkSpec):
            sinks[operator.operator_id] = SinkVertex(
                operator.operator_id, operator.name, spec.sink, spec.input_types[0], max(1, vertex.parallelism)
            )
        else:
            raise UnsupportedOperationError(
                f"'{vertex.name}' needs a flinkpy cluster, but `execution.target` is `spark`",
                details={"operator": operator.name},
            )
        for edge in vertex.inputs:
            readers.setdefault(edge.source_data_set_id, []).append(operator.operator_id)
    regions = [_region(vertex, readers) for vertex in graph.vertices if vertex.task_kind == SPARK_TASK]
    return DriverJob(regions, committers, sinks)


def _region(vertex: job_pb2.JobVertex, readers: dict[str, list[str]]) -> RegionVertex:
    host = vertex.chain[0]
    found: dict[int, list[str]] = {}
    for output in host.outputs:
        ids = readers.get(vertex.results[output.result].id, [])
        found.setdefault(output_number(output.side_output_tag), []).extend(ids)
    region: SparkRegion = pickle.loads(host.factory_pickle).region
    return RegionVertex(vertex.name, vertex, region, {number: tuple(ids) for number, ids in found.items()})
