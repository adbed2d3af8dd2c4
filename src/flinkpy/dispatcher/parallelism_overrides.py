"""The option `pipeline.jobvertex-parallelism-overrides`: another parallelism for vertices of submitted jobs.

Source: org.apache.flink.runtime.dispatcher.Dispatcher#applyParallelismOverrides. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping

from flinkpy._proto import job_pb2
from flinkpy.common.errors import JobSubmissionError
from flinkpy.common.key_groups import UNDECIDED_PARALLELISM, default_max_parallelism
from flinkpy.configuration import read_option, scheduler_options


def apply_parallelism_overrides(job_graph: job_pb2.JobGraph, cluster_configuration: Mapping[str, str]) -> None:
    """Sets the parallelism that the options of the job, or of the cluster, demand. Ignores unknown ids of vertices.

    Raises: JobSubmissionError naming the vertex if it cannot have this parallelism.
    """
    configuration = {**cluster_configuration, **job_graph.configuration.entries}
    overrides = read_option(configuration, scheduler_options.PARALLELISM_OVERRIDES)
    for vertex in job_graph.vertices:
        if vertex.id in overrides and vertex.parallelism != UNDECIDED_PARALLELISM:
            _override(vertex, overrides[vertex.id])
    if overrides:
        _check_forward_edges(job_graph)


def _override(vertex: job_pb2.JobVertex, text: str) -> None:
    key = scheduler_options.PARALLELISM_OVERRIDES.key
    if not text.strip().isdigit() or int(text) < 1:
        raise JobSubmissionError(f"{key}: the parallelism of vertex {vertex.id} must be at least 1, not {text!r}")
    parallelism = int(text)
    most = vertex.max_parallelism if vertex.max_parallelism > 0 else default_max_parallelism(vertex.parallelism)
    if vertex.is_non_parallel:
        most = 1
    if parallelism > most:
        raise JobSubmissionError(
            f"{key}: the parallelism {parallelism} of vertex {vertex.name!r} ({vertex.id}) exceeds its maximum "
            f"parallelism {most}"
        )
    # The number of key groups must not follow the new parallelism, or a restored state would not fit.
    if vertex.max_parallelism <= 0:
        vertex.max_parallelism = most
    vertex.parallelism = parallelism


def _check_forward_edges(job_graph: job_pb2.JobGraph) -> None:
    """A forward edge connects subtasks one by one. Raises: JobSubmissionError if their numbers differ."""
    producers = {
        data_set.id: vertex
        for vertex in job_graph.vertices
        for data_set in vertex.results
        if data_set.partitioner_name == "FORWARD"
    }
    for vertex in job_graph.vertices:
        for edge in vertex.inputs:
            producer = producers.get(edge.source_data_set_id)
            if producer is not None and producer.parallelism != vertex.parallelism:
                raise JobSubmissionError(
                    f"{scheduler_options.PARALLELISM_OVERRIDES.key}: vertex {producer.name!r} ({producer.id}) has the "
                    f"parallelism {producer.parallelism}, and vertex {vertex.name!r} ({vertex.id}) has "
                    f"{vertex.parallelism}, but the edge between them is a forward edge; override both"
                )
