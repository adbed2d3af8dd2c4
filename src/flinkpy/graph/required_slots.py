"""Counts the slots that a job can use at the same time."""

from __future__ import annotations

from collections.abc import Iterable

from flinkpy._proto import job_pb2


def runs_in_stages(job_graph: job_pb2.JobGraph) -> bool:
    """True if parts of the job wait for the end of others. It then also runs, more slowly, in fewer slots."""
    return any(result.type == job_pb2.BLOCKING for vertex in job_graph.vertices for result in vertex.results)


def required_slots(job_graph: job_pb2.JobGraph) -> int:
    """Returns the slots that a job can use: the sum of the highest parallelism in each slot sharing group.

    Groups that exchange records only over blocking data sets need not run at the same time, so only the largest sum of
    such parts counts.
    """
    producer_of = {result.id: vertex for vertex in job_graph.vertices for result in vertex.results}
    kept = {r.id for vertex in job_graph.vertices for r in vertex.results if r.type == job_pb2.BLOCKING}
    stage_of = {vertex.id: {vertex.id} for vertex in job_graph.vertices}
    for vertex in job_graph.vertices:
        for edge in vertex.inputs:
            producer = producer_of.get(edge.source_data_set_id)
            if producer is not None and edge.source_data_set_id not in kept:
                joined = stage_of[vertex.id] | stage_of[producer.id]
                for member in joined:
                    stage_of[member] = joined
    if not kept:  # unconnected parts of a streaming job run at the same time too
        return _slots_of(job_graph.vertices)
    return max(_slots_of(v for v in job_graph.vertices if v.id in stage) for stage in stage_of.values())


def _slots_of(vertices: Iterable[job_pb2.JobVertex]) -> int:
    widest: dict[str, int] = {}
    for vertex in vertices:
        group = vertex.slot_sharing_group or "default"
        parallelism = max(vertex.parallelism, vertex.parallelism_bound)
        widest[group] = max(widest.get(group, 1), parallelism)
    return sum(widest.values()) or 1
