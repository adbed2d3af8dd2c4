"""Loads what a job needs before it can be scheduled: the user's code, the coordinators, and the state to restore.

Coordinators are unpickled in the JobMaster, so the user's modules must be importable in this process. A JobMaster
process runs one job, so the import path keeps the user's modules until the process ends.

Source: org.apache.flink.runtime.execution.librarycache.BlobLibraryCacheManager. Thread: main thread and I/O threads.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from flinkpy._proto import job_event_pb2, job_pb2
from flinkpy.common.clock import Clock
from flinkpy.common.ids import JobVertexID
from flinkpy.common.python_environment import (
    PYTHON_ARCHIVE,
    PYTHON_FILE,
    PYTHON_REQUIREMENTS,
    PYTHON_REQUIREMENTS_CACHE,
    check_loaded_packages,
    install,
)
from flinkpy.common.safe_paths import safe_join, safe_join_below
from flinkpy.common.user_files import FetchBlob, fetch_file, import_entry, unpack
from flinkpy.connector_api.coordinator import OperatorCoordinatorProvider
from flinkpy.connector_api.source_coordinator import SourceCoordinatorProvider
from flinkpy.jobmaster.checkpoint_io import CheckpointIo, StartingPoint
from flinkpy.jobmaster.job_event_store.batch_job_recovery_handler import BatchJobRecoveryHandler
from flinkpy.jobmaster.job_master_environment import JobMasterEnvironment
from flinkpy.jobmaster.operator_coordinators import load_providers


@dataclass(frozen=True, slots=True)
class LoadedJob:
    """The loaded parts of a job."""

    #: The coordinator providers by operator id.
    providers: Mapping[str, OperatorCoordinatorProvider]
    start: StartingPoint
    #: The events that earlier JobMasters of the job recorded.
    events: list[job_event_pb2.JobEvent]
    #: The number of splits of each source with an undecided parallelism, if the source knows it.
    num_splits: Mapping[JobVertexID, int]


async def load_job(
    job_graph: job_pb2.JobGraph,
    environment: JobMasterEnvironment,
    checkpoint_io: CheckpointIo,
    clock: Clock,
    recovery: BatchJobRecoveryHandler,
    source_bounds: Mapping[JobVertexID, int],
) -> LoadedJob:
    """Loads the job.

    Args:
        source_bounds: the maximum parallelism of each source with an undecided parallelism.

    Raises: FunctionError and other errors of user code, and the errors of `CheckpointIo.open`.
    """
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
    """Asks the sources for the number of their splits. Blocks, because a source may read files."""
    num_splits = {}
    for vertex in job_graph.vertices:
        bound = bounds.get(JobVertexID(vertex.id))
        if bound is None:
            continue
        provider = providers.get(vertex.chain[0].operator_id)
        if isinstance(provider, SourceCoordinatorProvider):
            parallelism = provider.source.infer_parallelism(bound)
            if parallelism is not None:
                num_splits[JobVertexID(vertex.id)] = parallelism
    return num_splits


_KINDS = (PYTHON_FILE, PYTHON_ARCHIVE, PYTHON_REQUIREMENTS, PYTHON_REQUIREMENTS_CACHE)


def add_to_import_path(directories: Iterable[str]) -> None:
    """Puts the existing directories first on the import path, as Python does with the directory of a script."""
    for directory in reversed([entry for entry in directories if os.path.exists(entry)]):
        if directory not in sys.path:
            sys.path.insert(0, directory)
    importlib.invalidate_caches()


async def fetch_artifacts(
    artifacts: Iterable[job_pb2.UserArtifact], directory: Path, fetch_blob: FetchBlob, environments: Path
) -> list[str]:
    """Fetches the Python files, archives and requirements of the job. Returns the entries for the import path.

    The directory of the unpacked archives becomes the working directory. Cached files are not fetched: only tasks need
    them.

    Args:
        environments: the directory in which this host keeps installed requirements.

    Raises:
        ExternalError: a blob is missing or damaged.
        UserError: an archive is invalid.
        PythonEnvironmentError: pip failed.
    """
    entries: list[str] = []
    paths: dict[str, Path] = {}
    archives = directory / "archives"
    for artifact in artifacts:
        if artifact.kind not in _KINDS:
            continue
        path = safe_join(directory, artifact.blob_key[:16], os.path.basename(artifact.name))
        await fetch_file(artifact.name, artifact.blob_key, path, fetch_blob)
        paths[artifact.kind] = path
        if artifact.kind == PYTHON_ARCHIVE:
            target = artifact.attributes.get("target_dir") or artifact.name
            await asyncio.to_thread(unpack, path, safe_join_below(archives, target))
        elif artifact.kind == PYTHON_FILE:
            entries.append(str(await asyncio.to_thread(import_entry, path)))
    if archives.exists():
        os.chdir(archives)
    if PYTHON_REQUIREMENTS in paths:
        packages = None
        if PYTHON_REQUIREMENTS_CACHE in paths:
            packages = directory / "packages"
            await asyncio.to_thread(unpack, paths[PYTHON_REQUIREMENTS_CACHE], packages)
        # Never released, because this process uses it until it ends.
        installed = await asyncio.to_thread(install, paths[PYTHON_REQUIREMENTS], packages, environments)
        check_loaded_packages(installed.path)
        entries.append(str(installed.path))
    return entries
