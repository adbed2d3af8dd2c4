"""Validates a JobGraph before a cluster accepts it.

The Dispatcher calls it, so it unpickles nothing and does not need Arrow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from flinkpy._proto import job_pb2
from flinkpy.common.errors import JobSubmissionError
from flinkpy.common.key_groups import UNDECIDED_PARALLELISM, UPPER_BOUND_MAX_PARALLELISM

#: The maximum number of mistakes in an error. A faulty generator could make thousands.
_MAX_LISTED = 20


def validate_job_graph(job_graph: job_pb2.JobGraph) -> None:
    """Checks that the graph can be executed.

    Raises:
        JobSubmissionError: if it cannot. Lists all mistakes, each with its vertex, operator or data set.
    """
    mistakes = list(_mistakes(job_graph))
    if not mistakes:
        cycle = _cycle(job_graph)
        if cycle:
            mistakes = [f"the vertices form a cycle: {' -> '.join(cycle)}"]
    if not mistakes:
        return
    listed = mistakes[:_MAX_LISTED]
    if len(mistakes) > len(listed):
        listed.append(f"and {len(mistakes) - len(listed)} more")
    subject = f"the JobGraph of '{job_graph.name}' cannot be accepted"
    if len(listed) == 1:
        raise JobSubmissionError(f"{subject}: {listed[0]}")
    raise JobSubmissionError(subject + ":" + "".join(f"\n  - {text}" for text in listed))


def _mistakes(job_graph: job_pb2.JobGraph) -> Iterable[str]:
    if not job_graph.job_id:
        yield "it has no job id"
    if not job_graph.vertices:
        yield "it has no vertices"
    vertices = job_graph.vertices
    yield from _duplicates("vertex id", (vertex.id for vertex in vertices))
    yield from _duplicates("operator id", (op.operator_id for vertex in vertices for op in vertex.chain))
    yield from _duplicates("data set id", (result.id for vertex in vertices for result in vertex.results))
    producers = {result.id: vertex for vertex in vertices for result in vertex.results}
    for vertex in vertices:
        yield from _vertex_mistakes(vertex)
        yield from _input_mistakes(vertex, producers)
    consumed = Counter(edge.source_data_set_id for vertex in vertices for edge in vertex.inputs)
    for vertex in vertices:
        for result in vertex.results:
            if not consumed[result.id]:
                yield f"data set {result.id} of {_named(vertex)} is consumed by no vertex"
            elif consumed[result.id] > 1 and result.type != job_pb2.BLOCKING:
                yield f"data set {result.id} of {_named(vertex)} has several consumers, but is not blocking"


def _vertex_mistakes(vertex: job_pb2.JobVertex) -> Iterable[str]:
    name = _named(vertex)
    if not vertex.id:
        yield f"{name} has no id"
    if vertex.parallelism == UNDECIDED_PARALLELISM and vertex.parallelism_bound >= 1:
        if vertex.max_parallelism != -1 and vertex.parallelism_bound > vertex.max_parallelism:
            yield f"{name} may get the parallelism {vertex.parallelism_bound}, above its maximum parallelism"
    elif vertex.parallelism < 1:
        yield f"{name} has the parallelism {vertex.parallelism}; it must be at least 1"
    elif vertex.parallelism > UPPER_BOUND_MAX_PARALLELISM:
        yield f"{name} has the parallelism {vertex.parallelism}; it must be at most {UPPER_BOUND_MAX_PARALLELISM}"
    elif (
        vertex.max_parallelism != -1 and not vertex.parallelism <= vertex.max_parallelism <= UPPER_BOUND_MAX_PARALLELISM
    ):
        yield (
            f"{name} has the maximum parallelism {vertex.max_parallelism}; it must be -1, or from its parallelism "
            f"{vertex.parallelism} to {UPPER_BOUND_MAX_PARALLELISM}"
        )
    if not vertex.chain:
        yield f"{name} has no operators"
    used: Counter[int] = Counter()
    for position, operator in enumerate(vertex.chain):
        yield from _operator_mistakes(vertex, position, operator, used)
    for index, result in enumerate(vertex.results):
        if used[index] != 1:
            yield f"{name}: data set {result.id} is filled by {used[index]} operator outputs instead of one"
        yield from _data_set_mistakes(vertex, result)


def _operator_mistakes(
    vertex: job_pb2.JobVertex, position: int, operator: job_pb2.OperatorDescriptor, used: Counter[int]
) -> Iterable[str]:
    name = f"operator '{operator.name}' of {_named(vertex)}"
    if not operator.operator_id:
        yield f"{name} has no id"
    if not operator.factory_pickle:
        yield f"{name} has no factory"
    for output in operator.outputs:
        target = output.WhichOneof("target")
        if target is None:
            yield f"{name} has an output without a target"
        elif target == "result":
            used[output.result] += 1
            if output.result >= len(vertex.results):
                yield f"{name} writes to data set number {output.result}, but there are only {len(vertex.results)}"
        elif not position < output.chained_operator < len(vertex.chain):
            yield f"{name} feeds operator number {output.chained_operator}, which does not come after it in the chain"


def _data_set_mistakes(vertex: job_pb2.JobVertex, result: job_pb2.IntermediateDataSet) -> Iterable[str]:
    name = f"data set {result.id or '(without id)'} of {_named(vertex)}"
    if not result.id:
        yield f"{name} has no id"
    if not result.partitioner_pickle:
        yield f"{name} has no partitioner"
    if result.type == job_pb2.RESULT_PARTITION_TYPE_UNSPECIFIED:
        yield f"{name} has no partition type"
    if result.distribution == job_pb2.DISTRIBUTION_PATTERN_UNSPECIFIED:
        yield f"{name} has no distribution pattern"
    if result.buffer_timeout_ms < -1:
        yield f"{name} has the buffer timeout {result.buffer_timeout_ms} ms; it must be -1 or more"


def _input_mistakes(vertex: job_pb2.JobVertex, producers: dict[str, job_pb2.JobVertex]) -> Iterable[str]:
    numbers = {edge.input_index for edge in vertex.inputs}
    if numbers != set(range(len(numbers))):
        yield f"{_named(vertex)} has the inputs {sorted(numbers)}; they must be numbered from 0 without a gap"
    for edge in vertex.inputs:
        producer = producers.get(edge.source_data_set_id)
        if producer is None:
            missing = edge.source_data_set_id or "(without id)"
            yield f"{_named(vertex)} reads data set {missing}, which no vertex produces"
            continue
        result = next(result for result in producer.results if result.id == edge.source_data_set_id)
        if result.partitioner_name == "FORWARD" and producer.parallelism != vertex.parallelism:
            yield (
                f"{_named(vertex)} has the parallelism {vertex.parallelism} and reads {_named(producer)} with "
                f"{producer.parallelism} by a forward edge; they must be the same"
            )


def _duplicates(what: str, ids: Iterable[str]) -> Iterable[str]:
    for identity, count in Counter(ids).items():
        if identity and count > 1:
            yield f"{what} {identity} occurs {count} times"


def _named(vertex: job_pb2.JobVertex) -> str:
    return f"vertex '{vertex.name}' ({vertex.id})" if vertex.id else f"vertex '{vertex.name}'"


def _cycle(job_graph: job_pb2.JobGraph) -> list[str]:
    """Returns the names of the vertices of one cycle, the first one again at the end; empty if there is none."""
    vertices = {vertex.id: vertex for vertex in job_graph.vertices}
    producer_of = {result.id: vertex.id for vertex in job_graph.vertices for result in vertex.results}
    inputs = {
        vertex.id: [producer_of[edge.source_data_set_id] for edge in vertex.inputs] for vertex in job_graph.vertices
    }
    remaining = dict(inputs)
    while remaining:
        free = [vertex for vertex, sources in remaining.items() if not any(source in remaining for source in sources)]
        if not free:
            break
        for vertex in free:
            del remaining[vertex]
    if not remaining:
        return []
    path = [next(iter(remaining))]
    while True:  # every remaining vertex has a remaining input, so the walk backwards ends in a cycle
        source = next(source for source in remaining[path[-1]] if source in remaining)
        if source in path:
            members = [*path[path.index(source) :], source]
            return [f"'{vertices[member].name}'" for member in reversed(members)]
        path.append(source)
