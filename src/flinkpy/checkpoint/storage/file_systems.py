"""FileSystems: chooses the file system of a path by its scheme. Imports remote file systems only when they are used."""

from __future__ import annotations

import os
import re
import threading
from typing import Any
from urllib.parse import unquote

from flinkpy.checkpoint.storage.file_system import FileSystem, parent_of
from flinkpy.checkpoint.storage.local_file_system import LocalFileSystem
from flinkpy.common.errors import ConfigurationError
from flinkpy.configuration.options import AnyConfiguration

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/")


class FileSystems:
    """The file systems of a process with one configuration. They keep connections. Thread: any."""

    def __init__(self, configuration: AnyConfiguration | None = None) -> None:
        self._configuration: AnyConfiguration = {} if configuration is None else configuration
        self._local = LocalFileSystem()
        self._remote: dict[str, FileSystem] = {}
        self._lock = threading.Lock()

    def of(self, path: str) -> FileSystem:
        """Returns the file system of a path.

        Raises: ConfigurationError, which names the path, if no file system has its scheme or it cannot be set up.
        """
        match = _SCHEME.match(path)
        if match is None:
            return self._local
        authority = path[len(match[0]) :].removeprefix("/").partition("/")[0]
        key = f"{match[1]}://{authority}"
        with self._lock:
            if key not in self._remote:
                from flinkpy.checkpoint.storage.arrow_file_system import create_file_system

                self._remote[key] = create_file_system(path, self._configuration)
            return self._remote[key]

    def __getstate__(self) -> Any:
        raise TypeError("FileSystems cannot be pickled: they belong to their process")


_of_process = FileSystems()
_of_thread = threading.local()


def initialize_file_systems(configuration: AnyConfiguration) -> None:
    """Sets the configuration of the file systems that the connectors of this process use. Called at its start.

    Source: org.apache.flink.core.fs.FileSystem.initialize.
    """
    global _of_process
    _of_process = FileSystems(configuration)


def use_file_systems_in_this_thread(configuration: AnyConfiguration) -> None:
    """Sets the configuration of the file systems for the connectors of one task. Called in the thread of the task."""
    _of_thread.file_systems = FileSystems(configuration)


def process_file_systems() -> FileSystems:
    """Returns the file systems for the connectors of this task, or else of this process."""
    return getattr(_of_thread, "file_systems", _of_process)


def normalized(path: str) -> str:
    """Returns a path in the form that handles use: without a slash at its end and without `file:`.

    Raises: ConfigurationError for an empty or relative path, which would differ from process to process.
    """
    stripped = path.strip()
    match = _SCHEME.match(stripped)
    if match is not None and match[1].lower() != "file":
        rest = re.sub("/{2,}", "/", stripped[len(match[0]) :].lstrip("/")).rstrip("/")
        # hdfs:///a has no authority and uses the default one of the file system.
        slashes = "///" if stripped.startswith(f"{match[1]}:///") or not stripped.startswith(f"{match[1]}://") else "//"
        return f"{match[1].lower()}:{slashes}{rest}"
    if match is not None:
        stripped = unquote("/" + re.sub(r"^file:/+(localhost/)?", "", stripped, flags=re.IGNORECASE))
    if not stripped.startswith("/"):
        raise ConfigurationError(
            f"`{path}` is neither an absolute path nor a URI: all processes must find it under this name"
        )
    return os.path.normpath(stripped).replace("//", "/")


def without_scheme(path: str) -> str:
    """Returns a normalized path without its scheme and its root."""
    match = _SCHEME.match(path)
    if match is None:
        return path.removeprefix("/")
    rest = path[len(match[0]) :].removeprefix("/")
    return rest.removeprefix("/") if path.startswith(f"{match[1]}:///") else rest


def directory_of_metadata(path: str, metadata_name: str) -> str:
    """Returns the directory of a checkpoint, given the directory or the path of its metadata file."""
    plain = normalized(path)
    return parent_of(plain) if plain.endswith(f"/{metadata_name}") else plain
