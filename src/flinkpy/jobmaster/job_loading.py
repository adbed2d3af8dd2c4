"""What a job needs before it can be scheduled: its own code, and what it starts from. Thread: main thread and I/O."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from flinkpy._proto import job_event_pb2, job_pb2
from flinkpy.common.clock import Clock
from flinkpy.common.ids import JobVertexID
from flinkpy.connector_api.coordinator import OperatorCoordinatorProvider
from flinkpy.connector_api.source_coordinator import SourceCoordinatorProvider
from flinkpy.jobmaster.checkpoint_io import CheckpointIo, StartingPoint
from flinkpy.jobmaster.coordination.user_code import add_to_import_path, fetch_artifacts
from flinkpy.jobmaster.job_event_store.job_recovery import JobRecovery
from flinkpy.jobmaster.job_master_environment import JobMasterEnvironment
from flinkpy.jobmaster.operator_coordinators import load_providers


@dataclass(frozen=True, slots=True)
class LoadedJob:
    #: By operator id.
    providers: Mapping[str, OperatorCoordinatorProvider]
    start: StartingPoint
    #: Of the job's earlier JobMasters.
    events: list[job_event_pb2.JobEvent]
    #: Of the sources that were asked and know it.
    num_splits: Mapping[JobVertexID, int]


async def load_job(
    job_graph: job_pb2.JobGraph,
    environment: JobMasterEnvironment,
    checkpoint_io: CheckpointIo,
    clock: Clock,
    recovery: JobRecovery,
    source_bounds: Mapping[JobVertexID, int],
) -> LoadedJob:
    """`source_bounds`: the sources whose parallelism is open, and the most that they can get.

    Raises: FunctionError and others of the user's code, and what `CheckpointIo.open` does."""
    fetched = await fetch_artifacts(
        job_graph.artifacts,
        environment.working_directory,
        environment.fetch_blob,
        environment.python_environments,
    )
    add_to_import_path([*fetched, *job_graph.python_path])
    loop = asyncio.get_running_loop()
    providers = await loop.run_in_executor(None, load_providers, job_graph)
    start = await loop.run_in_executor(None, checkpoint_io.open, clock.now_ms())
    events = await loop.run_in_executor(None, recovery.read_events)
    num_splits = await loop.run_in_executor(None, _count_splits, job_graph, providers, source_bounds)
    return LoadedJob(providers, start, events, num_splits)


def _count_splits(
    job_graph: job_pb2.JobGraph,
    providers: Mapping[str, OperatorCoordinatorProvider],
    bounds: Mapping[JobVertexID, int],
) -> dict[JobVertexID, int]:
    """What the sources say that they have. Blocking: they may look at files."""
    found = {}
    for vertex in job_graph.vertices:
        bound = bounds.get(JobVertexID(vertex.id))
        if bound is None:
            continue
        provider = providers.get(vertex.chain[0].operator_id)
        if isinstance(provider, SourceCoordinatorProvider):
            parallelism = provider.source.infer_parallelism(bound)
            if parallelism is not None:
                found[JobVertexID(vertex.id)] = parallelism
    return found
