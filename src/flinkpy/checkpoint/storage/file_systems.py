"""FileSystems: the file system of a path, by its scheme. Nothing remote is imported before a path asks for it."""

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
    """Thread: any. One object for a process and configuration: file systems keep connections."""

    def __init__(self, configuration: AnyConfiguration | None = None) -> None:
        self._configuration: AnyConfiguration = {} if configuration is None else configuration
        self._local = LocalFileSystem()
        self._remote: dict[str, FileSystem] = {}
        self._lock = threading.Lock()

    def of(self, path: str) -> FileSystem:
        """Raises: ConfigurationError naming the path, where no file system has its scheme or it cannot be set up."""
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
        raise TypeError("file systems belong to their process")


_of_process = FileSystems()
_of_thread = threading.local()


def initialize_file_systems(configuration: AnyConfiguration) -> None:
    """Let the connectors of this process find S3 and others as the configuration says. At the start of a process.

    Source: org.apache.flink.core.fs.FileSystem.initialize.
    """
    global _of_process
    _of_process = FileSystems(configuration)


def use_file_systems_in_this_thread(configuration: AnyConfiguration) -> None:
    """Let the connectors of a task find them as its job says, in the thread of the task, which ends with it."""
    _of_thread.file_systems = FileSystems(configuration)


def process_file_systems() -> FileSystems:
    """Those of the connectors in this task, or else in this process."""
    return getattr(_of_thread, "file_systems", _of_process)


def normalized(path: str) -> str:
    """A path in the one form that handles and directories have: without a slash at its end, `file:` left out.

    Raises: ConfigurationError for a path that is empty or relative, which each process would read differently.
    """
    stripped = path.strip()
    match = _SCHEME.match(stripped)
    if match is not None and match[1].lower() != "file":
        rest = re.sub("/{2,}", "/", stripped[len(match[0]) :].lstrip("/")).rstrip("/")
        # hdfs:///a has no authority: the default one of the file system.
        slashes = "///" if stripped.startswith(f"{match[1]}:///") or not stripped.startswith(f"{match[1]}://") else "//"
        return f"{match[1].lower()}:{slashes}{rest}"
    if match is not None:
        stripped = unquote("/" + re.sub(r"^file:/+(localhost/)?", "", stripped, flags=re.IGNORECASE))
    if not stripped.startswith("/"):
        raise ConfigurationError(f"`{path}` is no absolute path and no URI: every process must find it under this name")
    return os.path.normpath(stripped).replace("//", "/")


def without_scheme(path: str) -> str:
    """The names that a normalized path consists of, joined by slashes, without its scheme and its root."""
    match = _SCHEME.match(path)
    if match is None:
        return path.removeprefix("/")
    rest = path[len(match[0]) :].removeprefix("/")
    return rest.removeprefix("/") if path.startswith(f"{match[1]}:///") else rest


def directory_of_metadata(path: str, metadata_name: str) -> str:
    """The directory of a checkpoint that is named by itself or by the metadata file in it."""
    plain = normalized(path)
    return parent_of(plain) if plain.endswith(f"/{metadata_name}") else plain
