"""The checkpoint pointers and the id counter of a job, in checksummed files in a directory of this host. Blocking.

Source: org.apache.flink.runtime.checkpoint.StandaloneCheckpointRecoveryFactory.
Differs: Flink's standalone implementation keeps them in memory, so they end with their JobMaster.
"""

from __future__ import annotations

import logging
from pathlib import Path

from google.protobuf.message import DecodeError

from flinkpy._proto import checkpoint_pb2
from flinkpy.common.durable_file import (
    CorruptFileError,
    read_checksummed,
    remove_durably,
    remove_unfinished,
    write_checksummed,
)
from flinkpy.common.failpoints import failpoint
from flinkpy.highavailability.checkpoint_stores import StoredCheckpointIDCounter

logger = logging.getLogger(__name__)

_POINTERS_NAME = "completed-checkpoints"
_COUNTER_NAME = "checkpoint-id-counter"
FIRST_CHECKPOINT_ID = 1


class FileCheckpointPointerStore:
    """Keeps the pointers to complete checkpoints in a file.

    Args:
        directory: an existing directory. No other process writes its files.
    """

    def __init__(self, directory: Path | str) -> None:
        self._path = Path(directory) / _POINTERS_NAME
        remove_unfinished(Path(directory))

    def load(self) -> checkpoint_pb2.CompletedCheckpointPointers:
        try:
            return checkpoint_pb2.CompletedCheckpointPointers.FromString(read_checksummed(self._path))
        except FileNotFoundError:
            return checkpoint_pb2.CompletedCheckpointPointers()
        except DecodeError as error:
            raise CorruptFileError(f"{self._path} does not contain checkpoint pointers: {error}") from error

    def save(self, pointers: checkpoint_pb2.CompletedCheckpointPointers) -> None:
        write_checksummed(self._path, pointers.SerializeToString())

    def remove(self) -> None:
        remove_durably(self._path)


class FileCheckpointIDCounter(StoredCheckpointIDCounter):
    """Keeps the next checkpoint id in a file. Thread: any.

    Args:
        directory: an existing directory. No other process writes its files.
        at_least: the lowest possible next id, known from other sources. It is used if the file is missing or damaged.
    """

    def __init__(self, directory: Path | str, at_least: int = FIRST_CHECKPOINT_ID) -> None:
        self._path = Path(directory) / _COUNTER_NAME
        super().__init__(at_least)

    def remove(self) -> None:
        remove_durably(self._path)

    def _store(self, next_id: int) -> None:
        failpoint("counter.before_store")
        write_checksummed(self._path, str(next_id).encode())

    def _load(self) -> int:
        try:
            return int(read_checksummed(self._path))
        except FileNotFoundError:
            return FIRST_CHECKPOINT_ID
        except CorruptFileError as error:
            logger.error("%s; continuing above the ids of the known checkpoints", error)
            return FIRST_CHECKPOINT_ID


class FileCheckpointRecovery:
    """Creates the pointer store and the id counter in one directory. Makes the directory if it is missing."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def pointers(self) -> FileCheckpointPointerStore:
        self._directory.mkdir(parents=True, exist_ok=True)
        return FileCheckpointPointerStore(self._directory)

    def counter(self, at_least: int) -> FileCheckpointIDCounter:
        self._directory.mkdir(parents=True, exist_ok=True)
        return FileCheckpointIDCounter(self._directory, at_least)
