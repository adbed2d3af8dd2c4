"""Random batch jobs for simulations, with their expected output and the partitioning of their records.

Every operator forwards its input. A record is the name of its source vertex and the number of its split.
"""

from __future__ import annotations

from collections import Counter
from random import Random

from flinkpy._proto import job_pb2

#: The number of splits of each source. A split is one record.
NUM_SPLITS = 6


def random_job(random: Random, coordinator: bytes = b"") -> job_pb2.JobGraph:
    """Returns a job of two to six vertices with blocking edges of every kind. Some vertices share a data set."""
    graph = job_pb2.JobGraph(job_id="job", name="random")
    open_results: list[tuple[job_pb2.IntermediateDataSet, int]] = []  # data sets, and their consumers' parallelism
    for number in range(random.randint(2, 6)):
        is_source = number == 0 or random.random() < 0.25
        parallelism = random.randint(1, 3)
        vertex = job_pb2.JobVertex(
            id=f"v{number}",
            name=f"v{number}",
            parallelism=parallelism,
            max_parallelism=8,
            slot_sharing_group=f"g{number}",
        )
        vertex.chain.add(
            operator_id=f"v{number}-op", name=vertex.id, coordinator_pickle=coordinator if is_source else b""
        )
        if not is_source:
            for producer in random.sample(list(graph.vertices), min(len(graph.vertices), random.randint(1, 2))):
                shared = [
                    result
                    for result in producer.results
                    if (result, parallelism) in open_results and random.random() < 0.4
                ]
                if shared:
                    result = shared[0]
                else:
                    names = ["HASH", "REBALANCE", "BROADCAST", "RESCALE", "SHUFFLE", "GLOBAL"]
                    names += ["FORWARD"] * 3 if producer.parallelism == parallelism else []
                    name = random.choice(names)
                    pattern = job_pb2.POINTWISE if name in ("FORWARD", "RESCALE") else job_pb2.ALL_TO_ALL
                    result = producer.results.add(
                        id=f"{producer.id}-{len(producer.results)}",
                        type=job_pb2.BLOCKING,
                        partitioner_name=name,
                        distribution=pattern,
                    )
                    open_results.append((result, parallelism))
                vertex.inputs.add(source_data_set_id=result.id)
        graph.vertices.append(vertex)
    return graph


def add_committers(graph: job_pb2.JobGraph, random: Random) -> None:
    """Makes some vertices write to sinks: adds the results for their committables, and the committers."""
    for writer in list(graph.vertices):
        if random.random() < 0.6:
            committer = graph.vertices.add(
                id=f"{writer.id}-committer",
                name=f"{writer.id}-committer",
                parallelism=1,
                max_parallelism=1,
                slot_sharing_group=f"{writer.id}-committer",
                is_committer=True,
            )
            committer.chain.add(operator_id=f"{committer.id}-op", name=committer.id)
            result = writer.results.add(
                id=f"{writer.id}-committables",
                type=job_pb2.BLOCKING,
                partitioner_name="GLOBAL",
                distribution=job_pb2.ALL_TO_ALL,
            )
            committer.inputs.add(source_data_set_id=result.id)


def expected_output(graph: job_pb2.JobGraph) -> dict[str, Counter[str]]:
    """Returns the records that all subtasks of each vertex emit together."""
    emitted: dict[str, Counter[str]] = {}
    producer_of = {result.id: (vertex, result) for vertex in graph.vertices for result in vertex.results}
    for vertex in graph.vertices:
        records: Counter[str] = Counter()
        if not vertex.inputs:
            records.update(f"{vertex.id}:{split}" for split in range(NUM_SPLITS))
        for edge in vertex.inputs:
            producer, result = producer_of[edge.source_data_set_id]
            copies = vertex.parallelism if result.partitioner_name == "BROADCAST" else 1
            for record, count in emitted[producer.id].items():
                records[record] += count * copies
        emitted[vertex.id] = records
    return emitted


def partitioned(records: list[str], name: str, num_subpartitions: int, random: Random) -> list[list[str]]:
    """Returns the records of each subpartition. They are random if the partitioner is not deterministic."""
    subpartitions: list[list[str]] = [[] for _ in range(num_subpartitions)]
    for record in records:
        if name == "HASH":
            subpartitions[sum(record.encode()) % num_subpartitions].append(record)
        elif name in ("FORWARD", "BROADCAST", "GLOBAL"):
            subpartitions[0].append(record)
        else:
            random.choice(subpartitions).append(record)
    return subpartitions
