"""RunDirectory: the record of the processes that make up this user's cluster on this host.

The record is one file, `cluster.json`. It is written when all services are ready and removed after all have ended. A
lock file keeps two `flinkpy cluster` commands from acting at the same time.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from flinkpy.common.errors import ExternalError, UserError
from flinkpy.common.private_directory import check_owner, make_private_directory
from flinkpy.common.process import ProcessIdentity
from flinkpy.configuration.loading import run_directory


@dataclass(frozen=True, slots=True)
class RecordedProcess:
    """One service of the cluster at the time it became ready."""

    name: str
    pid: int
    start_ticks: int
    address: str
    data_address: str | None
    log: str

    @property
    def identity(self) -> ProcessIdentity:
        return ProcessIdentity(self.pid, self.start_ticks)


@dataclass(frozen=True, slots=True)
class RecordedCluster:
    dispatcher_address: str
    resource_manager_address: str
    #: Path of the file with the cluster's secret, for this user's clients.
    secret_file: str
    processes: tuple[RecordedProcess, ...]

    @property
    def alive(self) -> list[RecordedProcess]:
        """The processes that still run. A reused process id does not count."""
        return [process for process in self.processes if process.identity.is_alive]


class RunDirectory:
    """The directory of one cluster: `env.pid.dir`, FLINKPY_RUN_DIR or `~/.flinkpy/cluster`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def of(cls, configuration: Mapping[str, str]) -> RunDirectory:
        return cls(run_directory(configuration))

    @property
    def log_dir(self) -> Path:
        return self.path / "log"

    @property
    def temporary_dir(self) -> Path:
        return self.path / "tmp"

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Holds the directory's lock, so that only one `flinkpy cluster` command acts on it.

        Raises:
            ExternalError: another command holds the lock.
            UserError: the directory cannot be used.
        """
        try:
            make_private_directory(self.path)
            lock = open(self.path / "lock", "w", encoding="utf-8")  # noqa: SIM115 - closed below
        except OSError as error:
            raise UserError(f"the cluster's directory {self.path} cannot be used: {error.strerror}") from error
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ExternalError(f"another `flinkpy cluster` command is running for {self.path}") from None
            yield

    def read(self) -> RecordedCluster | None:
        """Returns the recorded cluster, or None if there is no record. Its processes may have ended.

        Raises:
            PrivateDirectoryError: the directory belongs to another user. Clients send their token to the recorded
                addresses, so the record must be trusted.
        """
        check_owner(self.path)
        try:
            document = json.loads((self.path / "cluster.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        processes = tuple(RecordedProcess(**entry) for entry in document["processes"])
        return RecordedCluster(
            document["dispatcher_address"],
            document["resource_manager_address"],
            document.get("secret_file", ""),
            processes,
        )

    def write(self, cluster: RecordedCluster) -> None:
        unfinished = self.path / "cluster.json.tmp"
        unfinished.write_text(json.dumps(asdict(cluster), indent=2), encoding="utf-8")
        unfinished.replace(self.path / "cluster.json")

    def clear(self) -> None:
        """Removes the record and the temporary files of the cluster. Its logs stay."""
        shutil.rmtree(self.temporary_dir, ignore_errors=True)
        (self.path / "cluster.json").unlink(missing_ok=True)
