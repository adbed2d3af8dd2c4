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
from dataclasses import dataclass, field
from typing import Protocol

from flinkpy.checkpoint.storage.file_system import MissingFileError
from flinkpy.checkpoint.storage.file_systems import normalized, process_file_systems
from flinkpy.common.errors import UserError

_DIRECTORY = "flinkpy-jobs"
_ATTEMPT = "attempt-"
_COMMITTABLES = "committables"
_RESULT = "result"
#: The failpoints of a file that is written as a whole.
_STEP_NAMES = "metadata"


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """What a job commits.

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


class FileCommitLog:
    """Stores the record in a directory that the next attempt of the driver can read.

    Args:
        staging_directory: an absolute path, or a URI.
    """

    def __init__(self, staging_directory: str, job_id: str, job_name: str) -> None:
        self._directory = f"{normalized(staging_directory)}/{_DIRECTORY}/{job_id}"
        self._files = process_file_systems().of(self._directory)
        self._job_id = job_id
        self._job_name = job_name

    def begin(self) -> int:
        self._files.make_directories(self._directory)
        names = [entry.name.removeprefix(_ATTEMPT) for entry in self._files.list(self._directory)]
        number = max((int(name) + 1 for name in names if name.isdigit()), default=0)
        self._write(f"{_ATTEMPT}{number}", b"{}")
        return number

    def find(self) -> CommitRecord | None:
        for name in (_RESULT, _COMMITTABLES):
            try:
                with self._files.open(f"{self._directory}/{name}") as file:
                    record = _decoded(file.read(), is_committed=name == _RESULT)
            except MissingFileError:
                continue
            if record.name != self._job_name:
                raise UserError(
                    f"the program runs job '{self._job_name}', but an earlier attempt ran '{record.name}' "
                    f"({self._job_id}) at this position: a program that is run again must run the same jobs in the "
                    f"same order. If it is another program, remove {self._directory}"
                )
            return record
        return None

    def store(self, record: CommitRecord) -> None:
        self._write(_RESULT if record.is_committed else _COMMITTABLES, _encoded(record))

    def forget(self) -> None:
        self._files.delete_directory(self._directory)

    def _write(self, name: str, content: bytes) -> None:
        output = self._files.create(f"{self._directory}/{name}", _STEP_NAMES)
        try:
            output.write(content)
            output.commit()
        except BaseException:
            output.abort()
            raise


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
