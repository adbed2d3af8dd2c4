"""PartitionCommitter: publishes part files, and writes a success file into each partition that is complete.

The success file of a partition is written after its files are visible. Writing it again has no effect, so a commit that
is repeated after a failure does no harm. Partitions that are not complete are in the state of the committer.

Source: org.apache.flink.connector.file.table.stream.PartitionCommitter and
org.apache.flink.connector.file.table.SuccessFileCommitPolicy.
"""

from __future__ import annotations

import json

from flinkpy.common.clock import Clock, SystemClock
from flinkpy.common.errors import StateRestoreError
from flinkpy.common.failpoints import failpoint
from flinkpy.connector_api.sink import CommitRequest
from flinkpy.connectors.file_committer import FileCommitter, PendingFile
from flinkpy.connectors.partition_commit import (
    CommittedPartition,
    PartitionCommitSettings,
    PendingPartitions,
    WriterProgress,
)

#: The version of the state's format.
_VERSION = 1


class PartitionCommitter(FileCommitter):
    """Commits the files of all writers. Implements SupportsCommitterState. Thread: task thread."""

    def __init__(self, base_path: str, settings: PartitionCommitSettings, clock: Clock | None = None) -> None:
        super().__init__(base_path)
        self._base_path = base_path
        self._settings = settings
        self._clock = clock or SystemClock()
        self._pending = PendingPartitions()
        self._policy = None if settings.policy is None else settings.policy.make()

    def commit(self, requests: list[CommitRequest]) -> None:
        committables = [request.get_committable() for request in requests]
        if not self.publish([each for each in requests if not isinstance(each.get_committable(), WriterProgress)]):
            return  # the job fails
        now_ms = self._clock.now_ms()
        self._pending.add(
            (each.bucket for each in committables if isinstance(each, PendingFile)),
            (each for each in committables if isinstance(each, WriterProgress)),
            now_ms,
        )
        failpoint("file_sink.before_success_file")
        for partition in self._pending.complete(self._settings, now_ms):
            # The success file comes last: who waits for it finds everything else done.
            if self._policy is not None:
                self._policy.commit(CommittedPartition.of(self._base_path, partition))
            if self._settings.success_file is not None:
                self._store.write(partition, self._settings.success_file, b"")
                self._store.sync(partition)
            self._pending.remove(partition)

    def snapshot_state(self) -> bytes:
        return json.dumps({"version": _VERSION, **self._pending.to_state()}).encode()

    def restore_state(self, state: bytes) -> None:
        """Raises: StateRestoreError."""
        try:
            found = json.loads(state)
            if found["version"] != _VERSION:
                raise ValueError(f"version {found['version']}")
            self._pending = PendingPartitions.from_state(found)
        except (ValueError, KeyError, TypeError) as error:
            raise StateRestoreError(
                f"{self._base_path}: the state of the partitions to commit cannot be read: {error}",
                details={"path": self._base_path},
            ) from error
