"""ApplicationStore: the application of a cluster and its result. Blocking.

Each application has a checksummed file in a directory that all masters of a cluster share. The first master stores the
identity of the program. A master that would run another program with the same cluster id is refused, because the fixed
ids of its jobs would be confused with those of the first program. Later masters return a stored result and do not run
the program again.

Source: org.apache.flink.runtime.highavailability.ApplicationResultStore. Differs: a result is kept until its file is
removed.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from flinkpy.common.durable_file import CorruptFileError, read_checksummed, write_checksummed
from flinkpy.common.errors import ApplicationError, ExternalError
from flinkpy.common.safe_paths import safe_join
from flinkpy.dispatcher.application_status import ApplicationResult, ApplicationState

FORMAT_VERSION = 1
_SUFFIX = ".application"


@dataclass(frozen=True, slots=True)
class ApplicationDescription:
    """The program of an application.

    Attributes:
        application_id: 32 hex digits.
        program: path of the program's file.
    """

    application_id: str
    program: str
    arguments: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return Path(self.program).name

    def digest(self) -> str:
        """Returns a digest of the program's content and arguments. Blocks."""
        if self.program.startswith("module:"):  # an installed module has no single file
            content = self.program.encode()
            return hashlib.sha256(content + b"\0" + "\0".join(self.arguments).encode()).hexdigest()
        try:
            content = Path(self.program).read_bytes()
        except OSError as error:
            raise ApplicationError(f"cannot read the program {self.program}: {error.strerror}") from error
        return hashlib.sha256(content + b"\0" + "\0".join(self.arguments).encode()).hexdigest()


class ApplicationStore:
    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def claim(self, application: ApplicationDescription) -> ApplicationResult | None:
        """Stores the identity of the application, or returns its result if it has ended.

        Raises:
            ApplicationError: the cluster id belongs to another program, or a newer release wrote the file.
            ExternalError: the directory cannot be used.
        """
        path = self._path(application.application_id)
        digest = application.digest()
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            known = self._read(path)
            if known is None:
                self._write(path, {"program": application.name, "digest": digest, "result": None})
                return None
        except OSError as error:
            raise ExternalError(f"cannot use the store of applications {self._directory}: {error}") from error
        if known["digest"] != digest:
            raise ApplicationError(
                f"the cluster id belongs to another application: {known['program']} "
                f"({application.application_id}). An application needs a cluster id of its own, also when it is a new "
                f"version of an earlier one: choose another `high-availability.cluster-id` (or `cluster.id`), or "
                f"remove {path} if that application is no longer needed",
                details={"path": str(path)},
            )
        stored = known["result"]
        return None if stored is None else ApplicationResult(**{**stored, "state": ApplicationState(stored["state"])})

    def path_of(self, application: ApplicationDescription) -> Path:
        return self._path(application.application_id)

    def put_result(self, application: ApplicationDescription, result: ApplicationResult) -> None:
        """Raises: OSError."""
        path = self._path(application.application_id)
        stored = {**asdict(result), "state": result.state.value}
        self._write(path, {"program": application.name, "digest": application.digest(), "result": stored})

    def _read(self, path: Path) -> dict[str, Any] | None:
        try:
            value = json.loads(read_checksummed(path))
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise CorruptFileError(
                f"{path} does not describe an application: {error}", details={"path": str(path)}
            ) from error
        if value["version"] > FORMAT_VERSION:
            raise ApplicationError(
                f"{path} was written by a newer release, in format {value['version']}; this one reads up to "
                f"{FORMAT_VERSION}",
                details={"path": str(path)},
            )
        known: dict[str, Any] = value
        return known

    def _write(self, path: Path, value: dict[str, Any]) -> None:
        write_checksummed(path, json.dumps({"version": FORMAT_VERSION, **value}).encode())

    def _path(self, application_id: str) -> Path:
        return safe_join(self._directory, f"{application_id}{_SUFFIX}")
