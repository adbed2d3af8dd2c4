"""What a job needs before it can be scheduled: its own code, and what it starts from. Thread: main thread and I/O."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from flinkpy._proto import job_pb2
from flinkpy.common.clock import Clock
from flinkpy.connector_api.coordinator import OperatorCoordinatorProvider
from flinkpy.jobmaster.checkpoint_io import CheckpointIo, StartingPoint
from flinkpy.jobmaster.coordination.user_code import add_to_import_path, fetch_artifacts
from flinkpy.jobmaster.job_master_environment import JobMasterEnvironment
from flinkpy.jobmaster.operator_coordinators import load_providers


@dataclass(frozen=True, slots=True)
class LoadedJob:
    #: By operator id.
    providers: Mapping[str, OperatorCoordinatorProvider]
    start: StartingPoint


async def load_job(
    job_graph: job_pb2.JobGraph, environment: JobMasterEnvironment, checkpoint_io: CheckpointIo, clock: Clock
) -> LoadedJob:
    """Raises: FunctionError and others of the user's code, and what `CheckpointIo.open` does."""
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
    return LoadedJob(providers, start)
