"""BatchFileCommitter: publishes all files of a batch job at once, replaces older files, and writes success files.

A commit may be repeated after it has ended, when others have written to the directory already. So it must not look for
older files again. The first attempt writes a plan, which names the files to delete, and every attempt follows it:

    .commit-JOB-SINK                  the plan: which files are deleted, and which directories get a success file
    ._SUCCESS.JOB-SINK                a success file before it is published, in its directory
    .committed-JOB-SINK               the plan, renamed by the last step: nothing is left to do

New files are published before old ones are deleted, so no record is missing at any moment. A reader that must not see
both waits for the success file: the old one is deleted first, and the new one is written last.

Source: org.apache.flink.connector.file.table.{FileSystemCommitter, SuccessFileCommitPolicy}. Differs: a commit may be
repeated at any time.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable
from dataclasses import dataclass

from flinkpy.common.clock import Clock, SystemClock
from flinkpy.common.errors import CorruptStateError, InternalError, UnsupportedOperationError
from flinkpy.common.failpoints import failpoint
from flinkpy.connector_api.sink import CommitRequest
from flinkpy.connectors.file_committer import FileCommitter, PendingFile
from flinkpy.connectors.file_sink_config import DEFAULT_SUCCESS_FILE, Publication
from flinkpy.connectors.part_store import PartStore
from flinkpy.connectors.write_mode import WriteMode

_LOG = logging.getLogger(__name__)

_PLAN = ".commit-"
_DONE = ".committed-"
_DONE_NAME = re.compile(rf"{re.escape(_DONE)}[0-9A-Za-z-]+")
#: The version of the plan's format.
_VERSION = 1
#: How long the name of a commit that has ended is kept. A job that has not learned by then that it has committed would
#: delete what others have written since. JobMasters are replaced within minutes, and clusters repaired within days.
KEPT_MS = 7 * 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class EndOfWriter:
    """A committable without a file: a writer has ended. So there is a commit even if no writer had a record.

    Attributes:
        commit_id: names the job and the sink.
    """

    commit_id: str

    @classmethod
    def of(cls, job_id: str) -> EndOfWriter:
        """Returns the committable of a writer. `job_id` is that of the writer's context."""
        # The rest of it names attempts.
        return cls("-".join(job_id.split("-")[:2]))


@dataclass(frozen=True, slots=True)
class CommitPlan:
    """The further actions of a commit that publishes files. Directories are relative to the sink's path.

    Attributes:
        replaced: (directory, name) of the files to delete.
        success_directories: the directories that get a success file.
    """

    replaced: tuple[tuple[str, str], ...]
    success_directories: tuple[str, ...]

    def to_bytes(self) -> bytes:
        content = {"version": _VERSION, "replaced": self.replaced, "success": self.success_directories}
        return json.dumps(content).encode()

    @classmethod
    def from_bytes(cls, content: bytes, name: str) -> CommitPlan:
        """Raises: CorruptStateError, which names the file."""
        try:
            found = json.loads(content)
            if found["version"] != _VERSION:
                raise ValueError(f"version {found['version']}")
            return cls(tuple((bucket, file) for bucket, file in found["replaced"]), tuple(found["success"]))
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptStateError(f"{name} is not the plan of a commit: {error}", details={"path": name}) from error


def check_replaceable(store: PartStore, mode: WriteMode) -> None:
    """Checks that the directory is not a table whose metadata name its files.

    Raises: UnsupportedOperationError.
    """
    if mode is WriteMode.APPEND:
        return
    kind = None
    if store.has_directory("_delta_log"):
        kind = "Delta"
    elif any(name.endswith(".metadata.json") for _, name in store.visible_files("metadata", is_recursive=False)):
        kind = "Iceberg"
    if kind is not None:
        path = store.name_of("", "")
        raise UnsupportedOperationError(
            f"{path} is a table of {kind}, whose files a FileSink must not replace: use TableSink",
            details={"path": path},
        )


class BatchFileCommitter(FileCommitter):
    """Commits all files of a batch job. Repeating a commit has no effect. Thread: task thread."""

    def __init__(self, base_path: str, publication: Publication, clock: Clock | None = None) -> None:
        super().__init__(base_path)
        self._base_path = base_path
        self._publication = publication
        self._clock = clock or SystemClock()

    def commit(self, requests: list[CommitRequest]) -> None:
        committables = [request.get_committable() for request in requests]
        ends = [each for each in committables if isinstance(each, EndOfWriter)]
        if not ends:
            raise InternalError(f"{self._base_path}: the commit of a batch job has no committable of an ended writer")
        commit_id = ends[0].commit_id
        store, plan_name, done_name = self._store, f"{_PLAN}{commit_id}", f"{_DONE}{commit_id}"
        if store.exists("", done_name):
            store.delete("", plan_name)
            for request in requests:
                request.signal_already_committed()
            return
        plan = self._plan(plan_name, commit_id, [each for each in committables if isinstance(each, PendingFile)])
        self._delete_old_success_files(plan, commit_id)
        if not self.publish([each for each in requests if not isinstance(each.get_committable(), EndOfWriter)]):
            return  # the job fails, and the older files stay
        failpoint("batch_files.before_replace")
        self._delete(plan.replaced)
        failpoint("batch_files.before_success_file")
        for bucket in plan.success_directories:
            store.replace(bucket, self._hidden_success_file(commit_id), self._success_file)
            store.sync(bucket)
        failpoint("batch_files.before_end_of_commit")
        store.replace("", plan_name, done_name)
        store.sync("")
        failpoint("batch_files.after_commit")
        self._forget_old_commits(done_name)

    # -- the plan ------------------------------------------------------------------------------------------------

    def _plan(self, plan_name: str, commit_id: str, files: list[PendingFile]) -> CommitPlan:
        """Returns the plan of the first attempt. Writes it if this is the first attempt."""
        store = self._store
        content = store.read("", plan_name)
        if content is not None:
            return CommitPlan.from_bytes(content, store.name_of("", plan_name))
        publication = self._publication
        check_replaceable(store, publication.mode)
        directories = {file.bucket for file in files}
        success = sorted(directories | {""}) if publication.success_file is not None else []
        plan = CommitPlan(tuple(self._files_to_replace(files, directories, success)), tuple(success))
        for bucket in success:
            store.write(bucket, self._hidden_success_file(commit_id), b"")
        failpoint("batch_files.before_plan")
        store.write("", plan_name, plan.to_bytes())
        failpoint("batch_files.after_plan")
        return plan

    def _files_to_replace(
        self, files: list[PendingFile], directories: set[str], success: list[str]
    ) -> list[tuple[str, str]]:
        mode, store = self._publication.mode, self._store
        if mode is WriteMode.APPEND:
            return []
        if mode is WriteMode.OVERWRITE:
            found = set(store.visible_files("", is_recursive=True))
        else:
            found = {file for bucket in directories for file in store.visible_files(bucket, is_recursive=False)}
        # A directory without a new success file must not keep an old one.
        stale = {
            (bucket, self._success_file)
            for bucket in {bucket for bucket, _ in found} - set(success)
            if store.exists(bucket, self._success_file)
        }
        new = {(file.bucket, file.final_name) for file in files}
        return sorted((found - new) | stale)

    def _delete_old_success_files(self, plan: CommitPlan, commit_id: str) -> None:
        if self._publication.mode is WriteMode.APPEND:
            return
        for bucket in plan.success_directories:
            # If the hidden file is gone, the success file is the new one.
            if self._store.exists(bucket, self._hidden_success_file(commit_id)):
                self._delete([(bucket, self._success_file)])

    def _delete(self, files: Iterable[tuple[str, str]]) -> None:
        buckets = set()
        for bucket, name in files:
            self._store.delete(bucket, name)
            buckets.add(bucket)
        for bucket in sorted(buckets):
            self._store.sync(bucket)

    @property
    def _success_file(self) -> str:
        return self._publication.success_file or DEFAULT_SUCCESS_FILE

    def _hidden_success_file(self, commit_id: str) -> str:
        return f".{self._success_file}.{commit_id}"

    def _forget_old_commits(self, done_name: str) -> None:
        """Removes the names of commits that ended long ago."""
        before_ms = self._clock.now_ms() - KEPT_MS
        try:
            for name, modified_ms in self._store.hidden_names(_DONE_NAME):
                if name != done_name and modified_ms < before_ms:
                    self._store.delete("", name)
        except OSError:
            _LOG.warning("%s: the names of old commits could not be removed", self._base_path, exc_info=True)
