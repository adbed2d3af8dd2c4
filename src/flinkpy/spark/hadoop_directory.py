"""HadoopDirectory: a directory of a file system that Spark's driver reaches, such as `hdfs://` or `s3a://`.

flinkpy reads and writes Parquet files on its own host. The driver, which has the file system's jars, configuration and
login, copies them. So no client of the file system is needed in Python.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import ConfigurationError
from flinkpy.configuration.spark_options import STAGING_DIR
from flinkpy.spark.errors import cause_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG = logging.getLogger(__name__)

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_FILE = "file://"
#: Only the user of the driver may read what passes through the directory.
_PERMISSION = "700"


def is_remote(directory: str) -> bool:
    """True if the directory is a URI other than that of a local file."""
    return _URI.match(directory) is not None and not directory.startswith(_FILE)


class HadoopDirectory:
    """One directory. It exists from the first use until the session removes it. Thread: one at a time."""

    def __init__(self, uri: str) -> None:
        self.uri = uri.rstrip("/")
        self._session: Any = None

    def open(self, session: SparkSession) -> None:
        """Creates the directory. Does nothing if it is open.

        Raises:
            ConfigurationError: the driver is a Spark Connect server, which copies no files.
        """
        if self._session is not None:
            return
        if getattr(session, "_jvm", None) is None:
            raise ConfigurationError(
                f"{STAGING_DIR.key}: {self.uri} needs a driver of the TaskExecutor, but the master is Spark Connect: "
                "set it to a directory that is mounted under the same path on the TaskExecutors and the executors"
            )
        self._session = session
        permission = self._jvm.org.apache.hadoop.fs.permission.FsPermission(_PERMISSION)
        self._file_system.mkdirs(self._path(self.uri), permission)

    def uri_of(self, name: str) -> str:
        return f"{self.uri}/{name}"

    def upload(self, local: Path) -> str:
        """Copies a file into the directory. Returns its URI."""
        uri = self.uri_of(local.name)
        self._file_system.copyFromLocalFile(False, True, self._path(f"{_FILE}{local}"), self._path(uri))
        return uri

    def download_parts(self, name: str, to: Path) -> Iterator[Path]:
        """Copies the files of a data set that Spark has written, one after the other, in the order of its partitions.

        Each file is removed from the directory after it was copied.
        """
        statuses = self._file_system.listStatus(self._path(self.uri_of(name)))
        for part in sorted(status.getPath().getName() for status in statuses):
            if not part.startswith("part-"):
                continue
            source, target = self._path(f"{self.uri_of(name)}/{part}"), to / f"{name}-{part}"
            # The last argument: no file with a checksum beside the copy.
            self._file_system.copyToLocalFile(True, source, self._path(f"{_FILE}{target}"), True)
            yield target

    def remove(self) -> None:
        """Removes the directory, if this process has opened it. Logs a warning if it cannot."""
        if self._session is None:
            return
        try:
            self._file_system.delete(self._path(self.uri), True)
        except Exception as error:  # noqa: BLE001 - the files are not needed; the driver may be gone
            _LOG.warning("%s could not be removed: %s", self.uri, cause_of(str(error)))

    @property
    def _jvm(self) -> Any:
        return self._session._jvm

    @property
    def _file_system(self) -> Any:
        configuration = self._session._jsparkSession.sessionState().newHadoopConf()
        return self._path(self.uri).getFileSystem(configuration)

    def _path(self, uri: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(uri)


class HadoopStaging:
    """A staging directory that Spark's driver reaches. Implements StagingFiles."""

    def __init__(self, session: SparkSession, root: str) -> None:
        self._jvm: Any = session._jvm  # type: ignore[attr-defined]
        self._root = root
        configuration = session._jsparkSession.sessionState().newHadoopConf()  # type: ignore[attr-defined]
        self._files = self._path("").getFileSystem(configuration)

    def directories(self) -> list[str]:
        statuses = self._files.listStatus(self._path(""))
        return [status.getPath().getName() for status in statuses if status.isDirectory()]

    def modified_ms(self, path: str) -> int | None:
        if not self._files.exists(self._path(path)):
            return None
        return int(self._files.getFileStatus(self._path(path)).getModificationTime())

    def touch(self, path: str) -> None:
        self._files.create(self._path(path), True).close()

    def remove_directory(self, name: str) -> None:
        self._files.delete(self._path(name), True)

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self._root}/{path}" if path else f"{self._root}/")


def local_path(directory: str) -> str:
    """Returns the path of a local directory that may be a `file://` URI."""
    return os.path.join("/", directory.removeprefix(_FILE).lstrip("/")) if directory.startswith(_FILE) else directory
