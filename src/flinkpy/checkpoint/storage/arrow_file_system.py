"""ArrowFileSystem: makes the file systems of `pyarrow.fs` and fsspec available to checkpoints.

pyarrow supports S3, Google Cloud Storage, Azure and HDFS. For other schemes fsspec is used, if it is installed.
"""

from __future__ import annotations

import contextlib
import functools
from typing import Any, BinaryIO, cast

from flinkpy.checkpoint.storage.file_system import FileEntry, MissingFileError, not_regular_error, storage_error
from flinkpy.common.durable_file import UNFINISHED_SUFFIX
from flinkpy.common.errors import ConfigurationError
from flinkpy.common.failpoints import failpoint
from flinkpy.configuration.core_options import (
    S3_ACCESS_KEY,
    S3_ENDPOINT,
    S3_PATH_STYLE_ACCESS,
    S3_REGION,
    S3_SECRET_KEY,
    S3_SESSION_TOKEN,
)
from flinkpy.configuration.options import AnyConfiguration, read_option

_S3_SCHEMES = frozenset({"s3", "s3a", "s3p", "s3n"})
#: File systems where a file appears atomically at the end of its upload, and directories are only parts of names.
_OBJECT_STORES = frozenset({"s3", "gcs", "abfs"})
#: The buffer of an upload to an object store, which collects the parts of the upload in memory.
_BUFFER_BYTES = 1 << 20


def create_file_system(uri: str, configuration: AnyConfiguration) -> ArrowFileSystem:
    """Creates the file system of a URI.

    Raises: ConfigurationError, which names the URI, if no file system has its scheme or it cannot be set up.
    """
    scheme = uri.partition(":")[0].lower()
    try:
        if scheme in _S3_SCHEMES:
            return ArrowFileSystem(_s3(**_s3_settings(configuration)), scheme)
        return ArrowFileSystem(_by_uri(uri, scheme), scheme)
    except ConfigurationError:
        raise
    except Exception as error:
        raise ConfigurationError(f"no file system for {uri}: {error}", details={"path": uri}) from error


@functools.cache
def _s3(**settings: Any) -> Any:
    """Returns the S3 file system of the process for these settings. It keeps a pool of connections."""
    from pyarrow import fs

    return fs.S3FileSystem(**settings, background_writes=True)


def _s3_settings(configuration: AnyConfiguration) -> dict[str, Any]:
    endpoint = read_option(configuration, S3_ENDPOINT) or ""
    scheme, separator, host = endpoint.rpartition("://")
    settings: dict[str, Any] = {
        "access_key": read_option(configuration, S3_ACCESS_KEY),
        "secret_key": read_option(configuration, S3_SECRET_KEY),
        "session_token": read_option(configuration, S3_SESSION_TOKEN),
        "region": read_option(configuration, S3_REGION) or ("us-east-1" if endpoint else None),
        "endpoint_override": (host if separator else endpoint) or None,
        "scheme": (scheme or None) if separator else None,
    }
    settings = {name: value for name, value in settings.items() if value is not None}
    # With a custom endpoint, pyarrow puts the bucket into the path by default.
    if endpoint and not read_option(configuration, S3_PATH_STYLE_ACCESS):
        settings["force_virtual_addressing"] = True
    return settings


def _by_uri(uri: str, scheme: str) -> Any:
    from pyarrow import ArrowInvalid, ArrowNotImplementedError, fs

    try:
        return fs.FileSystem.from_uri(uri)[0]
    except (ArrowInvalid, ArrowNotImplementedError) as error:
        try:
            import fsspec
        except ImportError:
            raise ConfigurationError(
                f"no file system for {uri}: pyarrow has none ({error}), and fsspec is not installed",
                details={"path": uri},
            ) from None
        return fs.PyFileSystem(fs.FSSpecHandler(fsspec.filesystem(scheme)))


def _path_in_azure(rest: str) -> str:
    """Returns the path from the container on: of `container@account.host/path`, or of `account.host/container/path`."""
    authority, _, path = rest.partition("/")
    container, at, _ = authority.partition("@")
    if at:
        return f"{container}/{path}".rstrip("/")
    # The name of a container has no dot.
    return path if "." in authority else rest


class ArrowOutput:
    """A file that is being written.

    On an object store the file appears at the end of the upload. On other file systems it is written under another name
    and renamed.
    """

    def __init__(self, file_system: ArrowFileSystem, path: str, step_names: str) -> None:
        self._file_system = file_system
        self._path = path
        self._steps = step_names
        self._written_to = path if file_system.is_object_store else f"{path}{UNFINISHED_SUFFIX}"
        self._is_finished = False
        try:
            failpoint(f"{step_names}.before_create")
            self._stream = file_system.arrow.open_output_stream(
                file_system.inner(self._written_to), buffer_size=_BUFFER_BYTES
            )
        except OSError as error:
            raise storage_error("write", path, error) from error

    def write(self, data: bytes | bytearray | memoryview) -> None:
        try:
            failpoint(f"{self._steps}.before_write")
            self._stream.write(data)
        except OSError as error:
            self.abort()
            raise storage_error("write", self._path, error) from error

    def commit(self) -> None:
        try:
            failpoint(f"{self._steps}.before_sync")
            self._stream.close()
            failpoint(f"{self._steps}.before_rename")
            if self._written_to != self._path:
                inner = self._file_system.inner
                self._file_system.arrow.move(inner(self._written_to), inner(self._path))
                self._written_to = self._path
            failpoint(f"{self._steps}.before_directory_sync")
            self._is_finished = True
        except OSError as error:
            self.abort()
            raise storage_error("write", self._path, error) from error

    def abort(self) -> None:
        """Ends the upload and deletes the file, because uploads cannot be aborted. No reader knows the file yet."""
        if self._is_finished:
            return
        self._is_finished = True
        with contextlib.suppress(OSError):
            self._stream.close()
        with contextlib.suppress(OSError):
            self._file_system.arrow.delete_file(self._file_system.inner(self._written_to))


class ArrowFileSystem:
    """A FileSystem that uses a `pyarrow.fs.FileSystem`.

    Args:
        arrow: the `pyarrow.fs.FileSystem`.
        scheme: the scheme of the URIs.
    """

    is_local = False

    def __init__(self, arrow: Any, scheme: str) -> None:
        self.arrow = arrow
        self._scheme = scheme
        self.is_object_store = arrow.type_name in _OBJECT_STORES

    def inner(self, uri: str) -> str:
        """Returns the path for pyarrow. It begins with the bucket for object stores, and else with a slash."""
        rest = uri.partition(":")[2]
        if self.arrow.type_name == "abfs":
            return _path_in_azure(rest.lstrip("/"))
        if self.is_object_store:
            return rest.lstrip("/")
        if self._scheme in ("hdfs", "viewfs"):
            return "/" + rest.removeprefix("//").partition("/")[2]
        return rest.removeprefix("//")

    def create(self, path: str, step_names: str) -> ArrowOutput:
        return ArrowOutput(self, path, step_names)

    def open(self, path: str) -> BinaryIO:
        if not self.is_object_store:
            self.size_bytes(path)  # raises for anything but a file; an object store only has files
        try:
            return cast(BinaryIO, self.arrow.open_input_file(self.inner(path)))
        except OSError as error:
            raise storage_error("read", path, error) from error

    def size_bytes(self, path: str) -> int:
        from pyarrow import fs

        info = self._info(path)
        if info.type == fs.FileType.NotFound:
            raise MissingFileError(f"cannot read {path}: it does not exist", details={"path": path})
        if info.type != fs.FileType.File:
            raise not_regular_error(path)
        return int(info.size or 0)

    def exists(self, path: str) -> bool:
        from pyarrow import fs

        return bool(self._info(path).type != fs.FileType.NotFound)

    def list(self, directory: str) -> list[FileEntry]:
        from pyarrow import fs

        selector = fs.FileSelector(self.inner(directory), allow_not_found=True)
        try:
            found = self.arrow.get_file_info(selector)
        except OSError as error:
            raise storage_error("list", directory, error) from error
        entries = []
        for info in found:
            modified_ms = None if info.mtime_ns is None else info.mtime_ns // 1_000_000
            is_directory = info.type == fs.FileType.Directory
            entries.append(FileEntry(info.base_name, is_directory, 0 if is_directory else info.size or 0, modified_ms))
        return sorted(entries, key=lambda entry: entry.name)

    def make_directories(self, directory: str) -> None:
        if self.is_object_store:
            return  # object stores have no directories
        try:
            self.arrow.create_dir(self.inner(directory), recursive=True)
        except OSError as error:
            raise storage_error("make directory", directory, error) from error

    def delete_file(self, path: str) -> None:
        try:
            if self.exists(path):
                self.arrow.delete_file(self.inner(path))
        except FileNotFoundError:
            return
        except OSError as error:
            raise storage_error("delete", path, error) from error

    def delete_file_below(self, root: str, path: str) -> None:
        self.delete_file(path)  # neither object stores nor HDFS have links that lead elsewhere

    def delete_directory(self, directory: str) -> None:
        try:
            if not self.is_object_store:
                if self.exists(directory):
                    self.arrow.delete_dir(self.inner(directory))
                return
            # delete_dir would leave an empty object in place of the parent directory.
            from pyarrow import fs

            selector = fs.FileSelector(self.inner(directory), recursive=True, allow_not_found=True)
            for info in self.arrow.get_file_info(selector):
                if info.type == fs.FileType.File:
                    self.arrow.delete_file(info.path)
        except FileNotFoundError:
            return
        except OSError as error:
            raise storage_error("delete", directory, error) from error

    def delete_empty_directory(self, directory: str) -> None:
        if not self.is_object_store and self.exists(directory) and not self.list(directory):
            self.delete_directory(directory)

    def _info(self, path: str) -> Any:
        try:
            return self.arrow.get_file_info(self.inner(path))
        except OSError as error:
            raise storage_error("read", path, error) from error
