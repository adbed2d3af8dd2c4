"""CommitLog: the committables of a job in durable files.

The driver commits the sinks of a job when all of them are written. Before the first commit it stores all committables.
If the driver ends before the last commit, its next attempt finds them and commits the same ones, instead of running the
job again. After the last commit it stores that the job is done, so that a later attempt does not repeat the job.

```
<staging directory>/flinkpy-jobs/<job id>/attempt-<n>     the driver began to run the job
                                         /committables    all sinks are written
                                         /result          everything is committed
```

Attempts of a driver have the same job ids if they belong to one application of Spark (YARN starts a driver again), or
if the program sets the id of the job. Without a staging directory nothing is stored.
"""

from __future__ import annotations

import base64
import json
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from flinkpy.checkpoint.storage.file_system import MissingFileError
from flinkpy.checkpoint.storage.local_file_system import LocalFileSystem
from flinkpy.common.errors import ExternalError, UserError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DIRECTORY = "flinkpy-jobs"
_ATTEMPT = "attempt-"
_COMMITTABLES = "committables"
_RESULT = "result"
#: The failpoints of a file that is written as a whole.
_STEP_NAMES = "metadata"


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """The committables of a job.

    Attributes:
        committables: the serialized committables by the operator id of their committer.
        result: the serialized JobResult of the job.
        is_committed: True if everything has been committed.
    """

    name: str
    committables: dict[str, list[bytes]] = field(default_factory=dict)
    result: bytes = b""
    is_committed: bool = False


class CommitLog(Protocol):
    """The files of one job. All calls block. Thread: one."""

    def begin(self) -> int:
        """Returns the number of attempts that began before this one, and adds this one."""
        ...

    def find(self) -> CommitRecord | None:
        """Returns the record that an earlier attempt stored; None if there is none.

        Raises:
            UserError: it is that of another job.
        """
        ...

    def store(self, record: CommitRecord) -> None:
        """Stores the record durably."""
        ...

    def forget(self) -> None:
        """Removes the record, because no attempt will look for it."""
        ...


class NoCommitLog:
    """Stores nothing.

    Args:
        attempt_number: the attempt of the driver, if Spark knows it.
    """

    def __init__(self, attempt_number: int = 0) -> None:
        self._attempt_number = attempt_number

    def begin(self) -> int:
        return self._attempt_number

    def find(self) -> CommitRecord | None:
        return None

    def store(self, record: CommitRecord) -> None:
        return

    def forget(self) -> None:
        return


class LogFiles(Protocol):
    """The files of one directory, which exist as a whole or not at all. All calls block."""

    @property
    def directory(self) -> str: ...

    def names(self) -> list[str]:
        """Returns the names of the files. Makes the directory if there is none."""
        ...

    def read(self, name: str) -> bytes | None:
        """Returns the content of a file; None if there is none."""
        ...

    def write(self, name: str, content: bytes) -> None:
        """Writes a file that does not exist, durably."""
        ...

    def remove(self) -> None:
        """Removes the directory."""
        ...


def log_directory(staging_directory: str, job_id: str) -> str:
    """Returns the directory of a job's files."""
    return f"{staging_directory.rstrip('/')}/{_DIRECTORY}/{job_id}"


class MountedFiles:
    """Files in a directory of this host. Implements LogFiles."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self._files = LocalFileSystem()

    def names(self) -> list[str]:
        self._files.make_directories(self.directory)
        return [entry.name for entry in self._files.list(self.directory)]

    def read(self, name: str) -> bytes | None:
        try:
            with self._files.open(f"{self.directory}/{name}") as file:
                return file.read()
        except MissingFileError:
            return None

    def write(self, name: str, content: bytes) -> None:
        output = self._files.create(f"{self.directory}/{name}", _STEP_NAMES)
        try:
            output.write(content)
            output.commit()
        except BaseException:
            output.abort()
            raise

    def remove(self) -> None:
        self._files.delete_directory(self.directory)


class HadoopFiles:
    """Files in a directory that Spark's driver reaches, for example in HDFS. Implements LogFiles.

    Args:
        directory: a URI of Hadoop.
        scratch: a directory of this host.
    """

    def __init__(self, session: SparkSession, directory: str, scratch: Path) -> None:
        self.directory = directory
        self._jvm: Any = session._jvm  # type: ignore[attr-defined]
        configuration = session._jsparkSession.sessionState().newHadoopConf()  # type: ignore[attr-defined]
        self._scratch = scratch
        self._files = self._path(directory).getFileSystem(configuration)

    def names(self) -> list[str]:
        self._files.mkdirs(self._path(self.directory))
        return [status.getPath().getName() for status in self._files.listStatus(self._path(self.directory))]

    def read(self, name: str) -> bytes | None:
        path = self._path(f"{self.directory}/{name}")
        if not self._files.exists(path):
            return None
        copy = self._scratch / f"{uuid.uuid4().hex}.read"
        self._files.copyToLocalFile(False, path, self._path(f"file://{copy}"), True)
        try:
            return copy.read_bytes()
        finally:
            copy.unlink()

    def write(self, name: str, content: bytes) -> None:
        copy = self._scratch / f"{uuid.uuid4().hex}.write"
        copy.write_bytes(content)
        unfinished = self._path(f"{self.directory}/.{copy.name}")
        self._files.copyFromLocalFile(True, True, self._path(f"file://{copy}"), unfinished)
        if not self._files.rename(unfinished, self._path(f"{self.directory}/{name}")):
            raise ExternalError(f"cannot write {self.directory}/{name}: it exists")

    def remove(self) -> None:
        self._files.delete(self._path(self.directory), True)

    def _path(self, uri: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(uri)


class FileCommitLog:
    """Stores the record in files that the next attempt of the driver can read."""

    def __init__(self, files: LogFiles, job_id: str, job_name: str) -> None:
        self._files = files
        self._job_id = job_id
        self._job_name = job_name

    def begin(self) -> int:
        names = [name.removeprefix(_ATTEMPT) for name in self._files.names()]
        number = max((int(name) + 1 for name in names if name.isdigit()), default=0)
        self._files.write(f"{_ATTEMPT}{number}", b"{}")
        return number

    def find(self) -> CommitRecord | None:
        for name in (_RESULT, _COMMITTABLES):
            content = self._files.read(name)
            if content is None:
                continue
            record = _decoded(content, is_committed=name == _RESULT)
            if record.name != self._job_name:
                raise UserError(
                    f"the program runs job '{self._job_name}', but an earlier attempt ran '{record.name}' "
                    f"({self._job_id}) at this position: a program that is run again must run the same jobs in the "
                    f"same order. If it is another program, remove {self._files.directory}"
                )
            return record
        return None

    def store(self, record: CommitRecord) -> None:
        self._files.write(_RESULT if record.is_committed else _COMMITTABLES, _encoded(record))

    def forget(self) -> None:
        self._files.remove()


def _encoded(record: CommitRecord) -> bytes:
    return json.dumps(
        {
            "name": record.name,
            "result": base64.b64encode(record.result).decode(),
            "committables": {
                operator_id: [base64.b64encode(one).decode() for one in ones]
                for operator_id, ones in record.committables.items()
            },
        }
    ).encode()


def _decoded(content: bytes, *, is_committed: bool) -> CommitRecord:
    stored = json.loads(content)
    return CommitRecord(
        stored["name"],
        {operator_id: [base64.b64decode(one) for one in ones] for operator_id, ones in stored["committables"].items()},
        base64.b64decode(stored["result"]),
        is_committed,
    )
