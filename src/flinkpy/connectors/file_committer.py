"""FileCommitter: gives the part files of completed checkpoints their names.

Source: org.apache.flink.connector.file.sink.committer.FileCommitter.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from flinkpy.common.durable_file import sync_directory
from flinkpy.common.errors import CommitError
from flinkpy.common.failpoints import failpoint
from flinkpy.connector_api.sink import CommitRequest, Committer
from flinkpy.connectors.part_file import publish, unlink_if_there


@dataclass(frozen=True, slots=True)
class PendingFile:
    """A complete file, on the disk under a hidden name. Paths are relative to the sink's."""

    bucket: str
    hidden_name: str
    final_name: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class SupersededFile:
    """A file in progress that a restored writer has copied, and that no later checkpoint needs."""

    bucket: str
    hidden_name: str


class FileCommitter(Committer):
    """Idempotent: a file that has its name keeps it. Thread: task thread."""

    def __init__(self, base_path: str) -> None:
        self._base_path = base_path

    def commit(self, requests: list[CommitRequest]) -> None:
        directories = set()
        for request in requests:
            committable = request.get_committable()
            directory = os.path.join(self._base_path, committable.bucket)
            if isinstance(committable, SupersededFile):
                unlink_if_there(os.path.join(directory, committable.hidden_name))
                continue
            try:
                is_new = publish(directory, committable.hidden_name, committable.final_name)
            except CommitError as error:
                request.signal_failed_with_unknown_reason(error)
                continue
            directories.add(directory)
            if not is_new:
                request.signal_already_committed()
        failpoint("file_sink.before_directory_sync")
        for directory in sorted(directories):
            sync_directory(Path(directory))
