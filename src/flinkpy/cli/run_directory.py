"""What `flinkpy cluster` remembers between its calls: which processes make up the cluster of this user on this host.

One file, `cluster.json`, written whole after all processes serve and removed after all have ended; a lock file keeps
two calls from acting at the same time.
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
from flinkpy.configuration.run_directory import run_directory


@dataclass(frozen=True, slots=True)
class RecordedProcess:
    """One service of the cluster, as it was when it became ready."""

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
    #: The file of its secret, for the clients of this user.
    secret_file: str
    processes: tuple[RecordedProcess, ...]

    @property
    def alive(self) -> list[RecordedProcess]:
        """Those that run still; a pid that was given to another process does not count."""
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
        """Only one `flinkpy cluster` call at a time acts on this directory. Raises: ExternalError when one is."""
        try:
            make_private_directory(self.path)
            lock = open(self.path / "lock", "w", encoding="utf-8")  # noqa: SIM115 - closed below
        except OSError as error:
            raise UserError(f"the cluster's directory {self.path} cannot be used: {error.strerror}") from error
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ExternalError(f"another `flinkpy cluster` command is at work in {self.path}") from None
            yield

    def read(self) -> RecordedCluster | None:
        """Returns the recorded cluster, whether its processes run or not; None where there is none.

        Raises: PrivateDirectoryError where another user wrote the record: clients show their token at its addresses.
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
        """Forget the cluster and remove its temporary files; its logs stay."""
        shutil.rmtree(self.temporary_dir, ignore_errors=True)
        (self.path / "cluster.json").unlink(missing_ok=True)
