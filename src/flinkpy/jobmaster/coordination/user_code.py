"""The user's modules in the JobMaster: coordinators are unpickled here, so their code must be importable here.

One JobMaster process runs one job: what is put on the import path stays until the process ends.

Source: org.apache.flink.runtime.execution.librarycache.BlobLibraryCacheManager.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import sys
from collections.abc import Iterable
from pathlib import Path

from flinkpy._proto import job_pb2
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

_KINDS = (PYTHON_FILE, PYTHON_ARCHIVE, PYTHON_REQUIREMENTS, PYTHON_REQUIREMENTS_CACHE)


def add_to_import_path(directories: Iterable[str]) -> None:
    """Before everything else, as Python does with a script's own directory. Those not on this host are left out."""
    for directory in reversed([entry for entry in directories if os.path.exists(entry)]):
        if directory not in sys.path:
            sys.path.insert(0, directory)
    importlib.invalidate_caches()


async def fetch_artifacts(
    artifacts: Iterable[job_pb2.UserArtifact], directory: Path, fetch_blob: FetchBlob, environments: Path
) -> list[str]:
    """Fetch the job's Python files, archives and requirements; returns what belongs on the import path. What is in the
    archives becomes the working directory. Cached files are for tasks.

    Args:
        environments: where this host keeps installed requirements.

    Raises: ExternalError (a blob is missing or damaged), UserError (an archive is broken), PythonEnvironmentError (pip
    failed).
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
        # Not released: this process uses it until it ends.
        installed = await asyncio.to_thread(install, paths[PYTHON_REQUIREMENTS], packages, environments)
        check_loaded_packages(installed.path)
        entries.append(str(installed.path))
    return entries
