"""The messages between a TaskExecutor and the process of a region, over a `multiprocessing.connection.Connection`.

```
   TaskExecutor                              process of the region
     Attachment                            ->  attaches to the session; maybe long before the next message
     RegionOrder, then a StagedInput each  ->
     CANCEL                                ->  cancels its Spark jobs, then ends
                                           <-  Item (results), SparkProgress, LogLine, SentFiles
     DriverState                           <-> DriverQuestion (the process has failed and asks for the reason)
                                           <-  Finished, then the end of the connection
```

Records travel as blocks (`flinkpy.spark.blocks`), errors as their type, message, details and traceback.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any

from flinkpy.common.errors import FlinkError, RemoteError, error_class
from flinkpy.records.batch import Batch
from flinkpy.spark.blocks import decode_block, encode_block
from flinkpy.spark.region_run import Finished
from flinkpy.spark.settings import SparkSettings
from flinkpy.spark.staging import Staging
from flinkpy.spark.translation.program import JobFacts
from flinkpy.spark.user_files import UserFiles

CANCEL = b"cancel"


@dataclass(frozen=True, slots=True)
class RegionOrder:
    """Describes the attempt of a region.

    Attributes:
        sent: the names of the files that earlier regions have sent to the executors.
        spec_pickle: the pickled SparkRegionSpec. Only the process of the region loads the functions in it.
        num_inputs: the number of inputs that follow.
        import_path: `sys.path` of the process.
        working_directory: the current directory of the functions.
    """

    sent: frozenset[str]
    spec_pickle: bytes
    settings: SparkSettings
    job: JobFacts
    user_files: UserFiles
    task_name: str
    tag: str
    staging: Staging
    num_inputs: int
    import_path: tuple[str, ...]
    working_directory: str
    log_level: int


@dataclass(frozen=True, slots=True)
class LogLine:
    logger: str
    level: int
    text: str


@dataclass(frozen=True, slots=True)
class SentFiles:
    """The names of files that the region has sent to the executors."""

    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class DriverQuestion:
    """Asks for the DriverState."""


@dataclass(frozen=True, slots=True)
class DriverState:
    """The last log lines of the driver, and how it ended, if it has."""

    last_words: str
    ending: str


@dataclass(frozen=True, slots=True)
class _PackedBatch:
    number: int
    block: bytes


@dataclass(frozen=True, slots=True)
class _PackedEnd:
    type_name: str
    message: str
    details: dict[str, str]
    traceback: str
    num_written: int


def dump(message: Any) -> bytes:
    """Returns the bytes of a message."""
    if isinstance(message, tuple):
        number, batch = message
        message = _PackedBatch(number, encode_block(batch))
    elif isinstance(message, Finished):
        message = _packed(message)
    return pickle.dumps(message, protocol=5)


def load(data: bytes) -> Any:
    """Returns the message that `dump` was called with."""
    message = pickle.loads(data)
    if isinstance(message, _PackedBatch):
        batch = decode_block(message.block)
        assert isinstance(batch, Batch)
        return message.number, batch
    if isinstance(message, _PackedEnd):
        return _unpacked(message)
    return message


def _packed(end: Finished) -> _PackedEnd:
    error = end.error
    if error is None:
        return _PackedEnd("", "", {}, "", end.num_written)
    if isinstance(error, FlinkError):
        details = {key: str(value) for key, value in error.details.items()}
        return _PackedEnd(type(error).__name__, error.message, details, error.remote_traceback, end.num_written)
    return _PackedEnd("RemoteError", f"{type(error).__name__}: {error}", {}, "", end.num_written)


def _unpacked(end: _PackedEnd) -> Finished:
    if not end.type_name:
        return Finished(None, end.num_written)
    kind, details = error_class(end.type_name), end.details
    if kind is None:
        kind, details = RemoteError, {**details, "type": end.type_name}
    return Finished(kind(end.message, details=details, remote_traceback=end.traceback), end.num_written)
