"""FileCommitter: publishes the part files of completed checkpoints under their final names.

Source: org.apache.flink.connector.file.sink.committer.FileCommitter.
"""

from __future__ import annotations

from dataclasses import dataclass

from flinkpy.common.errors import CommitError
from flinkpy.common.failpoints import failpoint
from flinkpy.connector_api.sink import CommitRequest, Committer
from flinkpy.connectors.part_store import part_store


@dataclass(frozen=True, slots=True)
class PendingFile:
    """A complete, durable file under a hidden name. Paths are relative to the sink's path."""

    bucket: str
    hidden_name: str
    final_name: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class SupersededFile:
    """A file that no later checkpoint needs, because a restored writer has copied it or it has been merged."""

    bucket: str
    hidden_name: str


class FileCommitter(Committer):
    """Publishes part files. Committing a published file again has no effect. Thread: task thread."""

    def __init__(self, base_path: str) -> None:
        self._store = part_store(base_path)

    def commit(self, requests: list[CommitRequest]) -> None:
        self.publish(requests)

    def publish(self, requests: list[CommitRequest]) -> bool:
        """Publishes files durably. Returns False if a request has failed for good."""
        buckets = set()
        has_succeeded = True
        for request in requests:
            committable = request.get_committable()
            if isinstance(committable, SupersededFile):
                self._store.delete(committable.bucket, committable.hidden_name)
                continue
            try:
                is_new = self._store.publish(committable.bucket, committable.hidden_name, committable.final_name)
            except CommitError as error:
                request.signal_failed_with_unknown_reason(error)
                has_succeeded = False
                continue
            buckets.add(committable.bucket)
            if not is_new:
                request.signal_already_committed()
        failpoint("file_sink.before_directory_sync")
        for bucket in sorted(buckets):
            self._store.sync(bucket)
        return has_succeeded
