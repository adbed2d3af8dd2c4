"""HaStorage: the directory that all masters share. Each master checks that it uses the same one.

```
  <storageDir>/<cluster-id>/storage-id          a random id, which is also in ZooKeeper (node `storage_id`)
                           /execution-plans/    JobGraphs
                           /recovery/<job-id>/  files of the JobMasters of a job
                           /blobs/
  <storageDir>/job-result-store/<cluster-id>/   results of ended jobs
```

Source: org.apache.flink.runtime.highavailability.HighAvailabilityServicesUtils.getClusterHighAvailableStoragePath.
Differs: Flink does not check that the directory is shared.
Blocking.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from pathlib import Path

from flinkpy.common.durable_file import sync_directory, unfinished_path, write_durably
from flinkpy.common.errors import HighAvailabilityError
from flinkpy.configuration import high_availability_options as options
from flinkpy.configuration import read_option
from flinkpy.configuration.options import AnyConfiguration
from flinkpy.highavailability.zookeeper.client import ZooKeeperClient
from flinkpy.highavailability.zookeeper.requests import NodeThereError
from flinkpy.highavailability.zookeeper.settings import cluster_id, storage_directory

#: JobGraphs contain user code, and results contain data of users.
_MODE = 0o700
_MARKER = "storage-id"
_ID_CHARACTERS = 32
_ID = re.compile(rb"[0-9a-f]{32}")


class HaStorage:
    """The storage directory of one cluster. Raises at construction: ConfigurationError."""

    def __init__(self, configuration: AnyConfiguration) -> None:
        root, cluster = storage_directory(configuration), cluster_id(configuration)
        self.directory = root / cluster
        results = read_option(configuration, options.JOB_RESULT_STORE_PATH)
        self.results = Path(results) if results else root / "job-result-store" / cluster
        self._marker = self.directory / _MARKER

    @property
    def execution_plans(self) -> Path:
        return self.directory / "execution-plans"

    @property
    def recovery(self) -> Path:
        return self.directory / "recovery"

    @property
    def blobs(self) -> Path:
        return self.directory / "blobs"

    def open(self, client: ZooKeeperClient) -> None:
        """Creates the directory if this is the first master, otherwise checks it.

        Raises: HighAvailabilityError if it is not the directory of the other masters.
        """
        node = client.settings.storage_id
        known = _decode(client.get_data(node), node)
        if known is None:
            known = self._create_marker()
            try:
                client.create(node, known.encode())
            except NodeThereError:
                known = _decode(client.get_data(node), node)
        self._compare(known)
        for directory in (self.execution_plans, self.recovery, self.blobs, self.results):
            try:
                directory.mkdir(_MODE, parents=True, exist_ok=True)
            except OSError as error:
                raise self._unusable(directory, error) from error

    def verify(self, client: ZooKeeperClient) -> None:
        """Checks that the directory is still there. Raises: HighAvailabilityError."""
        node = client.settings.storage_id
        self._compare(_decode(client.get_data(node), node))

    def _compare(self, known: str | None) -> None:
        found = self._read_marker()
        if found == known:
            return
        what = "is not the directory" if found is None else "belongs to another cluster than the directory"
        raise HighAvailabilityError(
            f"{self.directory} {what} that the other masters of cluster '{self.directory.name}' use: "
            f"{options.HA_STORAGE_PATH.key} must be the same storage for all masters, and each cluster needs its own "
            f"{options.HA_CLUSTER_ID.key}",
            details={"path": str(self.directory)},
        )

    def _read_marker(self) -> str | None:
        try:
            return self._marker.read_text(encoding="ascii").strip()
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise self._unusable(self._marker, error) from error

    def _create_marker(self) -> str:
        """Returns the id of the directory. Creates one if there is none."""
        try:
            self.directory.mkdir(_MODE, parents=True, exist_ok=True)
            aside = unfinished_path(self._marker)
            write_durably(aside, secrets.token_hex(_ID_CHARACTERS // 2).encode())
            # If another master was faster, its id is used.
            with contextlib.suppress(FileExistsError):
                os.link(aside, self._marker)
            aside.unlink()
            sync_directory(self.directory)
        except OSError as error:
            raise self._unusable(self.directory, error) from error
        marker = self._read_marker()
        assert marker is not None
        return marker

    def _unusable(self, path: Path, error: Exception) -> HighAvailabilityError:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        return HighAvailabilityError(
            f"{path} cannot be used ({reason}): {options.HA_STORAGE_PATH.key} must name a directory that this process "
            "may read and write",
            details={"path": str(path)},
        )


def _decode(data: bytes | None, node: str) -> str | None:
    """Raises: HighAvailabilityError naming the node, if another system has written it."""
    if data is None:
        return None
    if _ID.fullmatch(data):
        return data.decode("ascii")
    raise HighAvailabilityError(
        f"node {node} of ZooKeeper does not hold the id of a storage directory: is {options.HA_CLUSTER_ID.key} used by "
        "another system?",
        details={"path": node},
    )
