"""UnpackedArtifacts: the files that a program adds to its jobs, unpacked on the host of Spark's driver."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from flinkpy._proto import job_pb2
from flinkpy.client.user_artifacts import LOCAL_PATH, read_artifact
from flinkpy.common.python_environment import (
    CACHED_FILE,
    PYTHON_ARCHIVE,
    PYTHON_FILE,
    PYTHON_REQUIREMENTS,
    PYTHON_REQUIREMENTS_CACHE,
    environments_root,
    install,
)
from flinkpy.common.safe_paths import safe_join, safe_join_below
from flinkpy.common.user_files import import_entry, unpack
from flinkpy.streaming.tasks.environment import ShippedFiles


@dataclass(frozen=True, slots=True)
class UnpackedArtifacts:
    """The files of a job.

    Attributes:
        cached_files: the paths of cached files by name.
    """

    shipped_files: ShippedFiles = field(default_factory=ShippedFiles)
    cached_files: dict[str, str] = field(default_factory=dict)


def unpack_artifacts(artifacts: Iterable[job_pb2.UserArtifact], directory: Path) -> UnpackedArtifacts:
    """Unpacks the files of a job below `directory`. Blocks, for minutes if packages have to be installed.

    Raises:
        UserError: an archive is damaged.
        PythonEnvironmentError: pip failed.
    """
    entries: list[str] = []
    cached: dict[str, str] = {}
    requirements: dict[str, Path] = {}
    archives = directory / "archives"
    for artifact in artifacts:
        path = Path(artifact.attributes[LOCAL_PATH])
        if artifact.kind == CACHED_FILE:
            cached[artifact.name] = str(path)
        elif artifact.kind == PYTHON_FILE:
            entries.append(str(_importable(artifact, directory)))
        elif artifact.kind == PYTHON_ARCHIVE:
            unpack(path, safe_join_below(archives, artifact.attributes.get("target_dir") or artifact.name))
        elif artifact.kind in (PYTHON_REQUIREMENTS, PYTHON_REQUIREMENTS_CACHE):
            requirements[artifact.kind] = path
    if PYTHON_REQUIREMENTS in requirements:
        installed = install(
            requirements[PYTHON_REQUIREMENTS], requirements.get(PYTHON_REQUIREMENTS_CACHE), environments_root()
        )
        entries.append(str(installed.path))
    return UnpackedArtifacts(ShippedFiles(tuple(entries), str(archives) if archives.is_dir() else None), cached)


def _importable(artifact: job_pb2.UserArtifact, directory: Path) -> Path:
    """Copies a module or package into a directory of its own. Returns the directory to import it from."""
    target = safe_join(directory, "files", artifact.blob_key, os.path.basename(artifact.name))
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(read_artifact(artifact))
    return import_entry(target)
