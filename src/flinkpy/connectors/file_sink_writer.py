"""FileSinkWriter: writes the part files of one subtask, for two-phase commit.

    open --(rolling policy, checkpoint of a bulk format, end of input)--> closed --(prepare_commit)--> committable
      |
      +--(checkpoint of a row format)--> stays open; its length is in the writer's state

Everything in a checkpoint is on the disk before the checkpoint is acknowledged. A restored writer never continues a
file of the previous attempt, which may still be running. It copies the part of the file that the checkpoint contains,
and the first checkpoint with the copy deletes the original.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

from flinkpy.common.clock import Clock, SystemClock
from flinkpy.common.errors import ExternalError, StateRestoreError, UnsupportedOperationError
from flinkpy.common.failpoints import failpoint
from flinkpy.common.typeinfo import RowTypeInfo
from flinkpy.connector_api.sink import SendMetrics, StatefulSinkWriter, WriterContext
from flinkpy.connectors.batch_file_committer import EndOfWriter, check_replaceable
from flinkpy.connectors.file_committer import PendingFile, SupersededFile
from flinkpy.connectors.file_compaction import FileCompaction
from flinkpy.connectors.file_sink_config import BucketAssignerContext, ColumnBucketAssigner
from flinkpy.connectors.part_file import PartNaming
from flinkpy.connectors.part_store import OpenPart, part_store
from flinkpy.connectors.partition_commit import END_OF_TIME, WriterProgress
from flinkpy.formats.bulk_writer import BulkWriter
from flinkpy.formats.partitioned_format import partition_type_of, split_by_partition
from flinkpy.formats.row_types import project_row_type
from flinkpy.formats.text_form import formatter_of

if TYPE_CHECKING:
    from flinkpy.connectors.file_compaction import FileCompactor, FileCompactStrategy
    from flinkpy.connectors.file_sink_config import BucketAssigner, OutputFileConfig, Publication, RollingPolicy
    from flinkpy.records.batch import Batch

_LOG = logging.getLogger(__name__)

#: The watermark before the first one.
MIN_TIMESTAMP = -(1 << 63)
#: Creates the writer of one file, from the file and the type of the stream's records.
ContentFactory = Callable[[BinaryIO, Any], BulkWriter]


@dataclass(slots=True)
class _OpenPart:
    part: OpenPart
    content: BulkWriter
    created_ms: int
    last_write_ms: int
    #: True if a checkpoint contains the file, completed or not.
    is_in_snapshot: bool = False
    #: The size of the file when its bytes were last counted.
    counted_bytes: int = 0


@dataclass(frozen=True, slots=True)
class InProgressFile:
    """The state of an open file in a checkpoint. Paths are relative to the sink's path."""

    bucket: str
    hidden_name: str
    final_name: str
    length_bytes: int
    created_ms: int
    last_write_ms: int


@dataclass(frozen=True, slots=True)
class FileWriterState:
    """The state of one writer in a checkpoint.

    There is one even if the writer has no files, so that a restored subtask can tell which files its predecessor wrote
    after the checkpoint.
    """

    job_id: str
    subtask_index: int
    uid: str
    #: Files of this uid with this number or a higher one are newer than the checkpoint.
    next_number: int
    in_progress: tuple[InProgressFile, ...]
    #: Complete files that have not been merged.
    to_compact: tuple[PendingFile, ...] = ()
    #: Unfinished results of merging them.
    compacting: tuple[SupersededFile, ...] = ()


class FileSinkWriter(StatefulSinkWriter):
    """Writes part files, with at most one open file per bucket. Thread: task thread.

    Args:
        is_resumable: True if files can be continued after a failure, as those of row formats can.
        states: the states in the restored checkpoint; None if there is no checkpoint.
        reports_progress: True if the committer commits partitions, so that it must know how far the writers are.
        record_type: the type of the records with the columns of their directories, for streams whose type has no fields
            of Python, such as those of tables.

    Raises:
        StateRestoreError: a file that the checkpoint needs is missing or too short.
    """

    def __init__(
        self,
        context: WriterContext,
        base_path: str,
        make_content: ContentFactory,
        bucket_assigner: BucketAssigner,
        rolling_policy: RollingPolicy,
        file_config: OutputFileConfig,
        is_resumable: bool = False,
        states: list[FileWriterState] | None = None,
        clock: Clock | None = None,
        compaction: tuple[FileCompactStrategy, FileCompactor] | None = None,
        publication: Publication | None = None,
        reports_progress: bool = False,
        record_type: RowTypeInfo | None = None,
    ) -> None:
        self._context = context
        self.send_metrics = self._sends = SendMetrics(num_bytes=0)
        self._store = part_store(base_path)
        #: A batch committer needs a committable even if there is no file.
        self._announces_end = publication is not None and publication.needs_batch_mode
        self._reports_progress = reports_progress
        self._record_type = record_type
        if publication is not None:
            check_replaceable(self._store, publication.mode)
        self._make_content = make_content
        self._bucket_assigner = bucket_assigner
        self._rolling_policy = rolling_policy
        self._is_resumable = is_resumable
        self._clock = clock or SystemClock()
        self._uid = secrets.token_hex(8)
        self._naming = PartNaming(
            file_config.get_part_prefix(),
            file_config.get_part_suffix(),
            self._uid,
            context.job_id,
            context.subtask_index,
            context.attempt_number,
        )
        self._next_number = 0
        #: The type of the records without the columns of their directories, after the first record.
        self._content_type: RowTypeInfo | None = None
        self._open: dict[str, _OpenPart] = {}
        #: Complete, durable files that no checkpoint contains as committables yet.
        self._closed: list[PendingFile] = []
        #: Committables of files merged at the end of the input.
        self._compacted: list[Any] = []
        self._superseded: list[SupersededFile] = []
        self._watermark_ms = MIN_TIMESTAMP
        #: Hidden names of complete files in a checkpoint, completed or not.
        self._in_snapshot: set[str] = set()
        self._compaction: FileCompaction | None = None
        if compaction is not None:
            self._compaction = FileCompaction(base_path, *compaction, self._new_part, self._in_snapshot)
        self._remove_orphans(states)
        try:
            for state in states or ():
                is_ours = state.job_id == context.job_id
                for file in state.in_progress:
                    self._continue_file(file, is_ours)
                self._restore_compaction(state, is_ours)
        except BaseException:
            self.close()
            raise

    # -- SinkWriter ----------------------------------------------------------------------------------------------

    def write(self, batch: Batch) -> None:
        now_ms = self._clock.now_ms()
        self._roll(now_ms)
        if isinstance(self._bucket_assigner, ColumnBucketAssigner):
            for bucket, part in self._by_partition(batch, self._bucket_assigner):
                self._write_to(bucket, part, now_ms)
        elif not self._bucket_assigner.looks_at_records:
            self._write_to(self._bucket_assigner.bucket_id(now_ms), batch, now_ms)
        else:
            for bucket, part in self._by_bucket(batch, now_ms):
                self._write_to(bucket, part, now_ms)
        self._roll(now_ms)

    def _write_to(self, bucket: str, batch: Batch, now_ms: int) -> None:
        entry = self._open.get(bucket) or self._open_part(bucket, now_ms)
        entry.content.add(batch)
        entry.last_write_ms = now_ms
        self._count_bytes(entry, entry.part.size_bytes)

    def _count_bytes(self, entry: _OpenPart, size_bytes: int) -> None:
        self._sends.num_bytes = (self._sends.num_bytes or 0) + size_bytes - entry.counted_bytes
        entry.counted_bytes = size_bytes

    def _by_bucket(self, batch: Batch, now_ms: int) -> list[tuple[str, Batch]]:
        """Returns the buckets of a batch with their records, in order."""
        import numpy as np

        from flinkpy.records.lanes import rows_of

        rows = rows_of(batch, self._context.input_type)
        timestamps = [None] * len(rows) if batch.timestamps is None else batch.timestamps.tolist()
        positions: dict[str, list[int]] = {}
        for position, (row, timestamp_ms) in enumerate(zip(rows, timestamps)):
            context = BucketAssignerContext(now_ms, self._watermark_ms, timestamp_ms)
            bucket = checked_bucket(self._bucket_assigner.get_bucket_id(row, context))
            positions.setdefault(bucket, []).append(position)
        if len(positions) == 1:
            return [(next(iter(positions)), batch)]
        return [(bucket, batch.take(np.array(found, np.int64))) for bucket, found in positions.items()]

    def _by_partition(self, batch: Batch, assigner: ColumnBucketAssigner) -> list[tuple[str, Batch]]:
        """Returns the directories of the records' partitions with the records, without the partition columns."""
        from flinkpy.records.lanes import to_columns

        if not batch.num_rows:
            return []
        names = assigner.columns
        columns = to_columns(batch, self._partitioned_type(names))
        values: Any = columns.values
        content = columns.with_values(values.drop_columns(list(names)))
        parts = split_by_partition(values, names, assigner.default_name)
        if len(parts) == 1:
            return [(parts[0][0], content)]
        return [(directory, content.take(positions)) for directory, positions in parts]

    def _partitioned_type(self, names: tuple[str, ...]) -> Any:
        """Returns the type of the records. Raises: UnsupportedOperationError, ValueError."""
        input_type = self._context.input_type
        if not isinstance(input_type, RowTypeInfo):
            input_type = self._record_type
        if self._content_type is None:
            if not isinstance(input_type, RowTypeInfo):
                raise UnsupportedOperationError(
                    "column_bucket_assigner needs records with named columns, but the stream has "
                    f"{self._context.input_type!r}: "
                    "pass output_type=Types.ROW_NAMED(...) to the last function"
                )
            partition_type_of(project_row_type(input_type, names))
            rest = [name for name in input_type.get_field_names() if name not in names]
            self._content_type = project_row_type(input_type, rest)
        return input_type

    def write_watermark(self, timestamp: int) -> None:
        self._watermark_ms = timestamp

    def flush(self, end_of_input: bool) -> None:
        if end_of_input:
            self._watermark_ms = END_OF_TIME
            for bucket in list(self._open):
                self._close_part(bucket)
            if self._compaction is not None:
                self._compaction.add(self._closed)
                self._closed = []
                self._compacted += self._compaction.finish()

    def prepare_commit(self) -> list[Any]:
        now_ms = self._clock.now_ms()
        # Without writes, this is the only place where a file that is due can be finished.
        self._roll(now_ms)
        for bucket, entry in list(self._open.items()):
            if not self._is_resumable or self._rolling_policy.should_roll_on_checkpoint(entry.part.size_bytes):
                self._close_part(bucket)
        self._sync_directories(file.bucket for file in self._closed)
        complete: list[Any] = self._closed
        if self._compaction is not None:
            self._compaction.add(complete)
            complete = [*self._compacted, *self._compaction.at_checkpoint()]
            self._sync_directories(file.bucket for file in complete if isinstance(file, PendingFile))
        committables = [*complete, *self._superseded]
        if self._announces_end:
            committables.append(EndOfWriter.of(self._context.job_id))
        if self._reports_progress:
            merging = () if self._compaction is None else (file.bucket for file in self._compaction.files)
            unfinished = tuple(sorted({*self._open, *merging}))
            context = self._context
            progress = WriterProgress(context.subtask_index, context.parallelism, self._watermark_ms, unfinished)
            committables.append(progress)
        self._closed, self._superseded, self._compacted = [], [], []
        return committables

    def snapshot_state(self, checkpoint_id: int) -> list[FileWriterState]:
        in_progress = []
        for bucket, entry in self._open.items():
            length_bytes = entry.part.sync()
            entry.is_in_snapshot = True
            part = entry.part
            in_progress.append(
                InProgressFile(
                    bucket, part.hidden_name, part.final_name, length_bytes, entry.created_ms, entry.last_write_ms
                )
            )
        self._sync_directories(self._open)
        context, compaction = self._context, self._compaction
        if compaction is not None:
            compaction.on_snapshot()
        return [
            FileWriterState(
                context.job_id,
                context.subtask_index,
                self._uid,
                self._next_number,
                tuple(in_progress),
                () if compaction is None else tuple(compaction.files),
                () if compaction is None else tuple(compaction.targets),
            )
        ]

    def close(self) -> None:
        """Closes all files, and deletes those that no checkpoint contains."""
        if self._compaction is not None:
            self._compaction.close()
        complete, self._closed, self._compacted = [*self._closed, *self._compacted], [], []
        for file in complete:
            if file.hidden_name not in self._in_snapshot:
                self._store.delete(file.bucket, file.hidden_name)
        while self._open:
            _, entry = self._open.popitem()
            try:
                entry.content.discard()
            finally:
                if entry.is_in_snapshot:
                    entry.part.abandon()
                else:
                    entry.part.abort()

    # -- parts ---------------------------------------------------------------------------------------------------

    def _open_part(
        self, bucket: str, now_ms: int, created_ms: int | None = None, continue_from: tuple[str, int] | None = None
    ) -> _OpenPart:
        part = self._new_part(bucket, continue_from)
        # A continued file has content that another attempt counted.
        size_bytes = part.size_bytes
        try:
            content = self._make_content(part.file, self._content_type or self._context.input_type)
        except BaseException:
            part.abort()
            raise
        entry = _OpenPart(part, content, now_ms if created_ms is None else created_ms, now_ms)
        entry.counted_bytes = size_bytes
        self._open[bucket] = entry
        return entry

    def _new_part(self, bucket: str, continue_from: tuple[str, int] | None = None) -> OpenPart:
        number, self._next_number = self._next_number, self._next_number + 1
        hidden_name, final_name = self._naming.hidden_name(number), self._naming.final_name(number)
        try:
            return self._store.create(bucket, hidden_name, final_name, continue_from)
        except OSError as error:
            path = self._store.name_of(bucket, final_name)
            raise ExternalError(f"part file {path} cannot be created: {error}", details={"path": path}) from error

    def _roll(self, now_ms: int) -> None:
        due = [
            bucket
            for bucket, entry in self._open.items()
            if self._rolling_policy.should_roll(entry.part.size_bytes, entry.created_ms, entry.last_write_ms, now_ms)
        ]
        for bucket in due:
            self._close_part(bucket)

    def _close_part(self, bucket: str) -> None:
        # The file stays in `_open` until it is durable, so that `close` deletes it if this fails.
        entry = self._open[bucket]
        entry.content.finish()
        size_bytes = entry.part.close()
        self._count_bytes(entry, size_bytes)
        failpoint("file_sink.after_sync")
        del self._open[bucket]
        self._closed.append(PendingFile(bucket, entry.part.hidden_name, entry.part.final_name, size_bytes))

    def _sync_directories(self, buckets: Any) -> None:
        for bucket in sorted(set(buckets)):
            self._store.sync(bucket)

    # -- restore -------------------------------------------------------------------------------------------------

    def _continue_file(self, file: InProgressFile, is_ours: bool) -> None:
        """Continues an open file of the checkpoint in a copy."""
        if not self._is_resumable:
            raise StateRestoreError(
                f"part file {file.hidden_name} of the checkpoint has a row format; a bulk format cannot continue it"
            )
        if not self._store.exists(file.bucket, file.hidden_name):
            path, final = (self._store.name_of(file.bucket, name) for name in (file.hidden_name, file.final_name))
            if not self._store.exists(file.bucket, file.final_name):
                raise StateRestoreError(
                    f"part file {path} of the checkpoint is missing, and {final} does not exist", details={"path": path}
                )
            _LOG.warning("%s was committed after the restored checkpoint and stays as it is", final)
            return
        if file.bucket in self._open:
            # After a reduction of the parallelism, several subtasks may have had an open file in this bucket.
            self._close_part(file.bucket)
        entry = self._open_part(file.bucket, file.last_write_ms, file.created_ms, (file.hidden_name, file.length_bytes))
        assert entry.part.size_bytes == file.length_bytes
        if is_ours:
            # Files of another job stay: it may be running, or be started from the savepoint again.
            self._superseded.append(SupersededFile(file.bucket, file.hidden_name))

    def _restore_compaction(self, state: FileWriterState, is_ours: bool) -> None:
        """Takes over the files that were not merged. Without compaction they are committed as they are."""
        for file in state.to_compact:
            if not self._store.exists(file.bucket, file.hidden_name):
                path = self._store.name_of(file.bucket, file.hidden_name)
                raise StateRestoreError(
                    f"part file {path} of the checkpoint is missing: it has been merged since", details={"path": path}
                )
            if is_ours:
                self._in_snapshot.add(file.hidden_name)
            else:
                file = self._adopt(file)
            if self._compaction is None:
                self._closed.append(file)
            else:
                self._compaction.add([file])
        if is_ours:
            for target in state.compacting:
                self._store.delete(target.bucket, target.hidden_name)

    def _adopt(self, file: PendingFile) -> PendingFile:
        """Copies a complete file of another job under a name of this job. The other job may delete its own."""
        part = self._new_part(file.bucket, (file.hidden_name, file.size_bytes))
        return PendingFile(file.bucket, part.hidden_name, part.final_name, part.close())

    def _remove_orphans(self, states: list[FileWriterState] | None) -> None:
        """Deletes files that earlier attempts wrote after the restored checkpoint.

        Only deletes files that are known to be from predecessors of this subtask.
        """
        context = self._context
        is_fresh = context.restored_checkpoint_id is None
        if is_fresh and context.attempt_number == 0:
            return
        known = {state.uid: state for state in states or () if state.job_id == context.job_id}
        # Files of any attempt stay until they are merged.
        needed = {file.hidden_name for state in states or () for file in state.to_compact}
        # If the state was redistributed, files of the predecessor may belong to another subtask now.
        has_own = is_fresh or any(state.subtask_index == context.subtask_index for state in known.values())
        for bucket, file in list(self._store.hidden_files(self._naming)):
            if file.uid in known:
                is_orphan = file.number >= known[file.uid].next_number
            else:
                is_earlier = file.attempt_number < context.attempt_number
                is_orphan = has_own and is_earlier and file.subtask_index == context.subtask_index
            if is_orphan and file.name not in needed:
                self._store.delete(bucket, file.name)


def checked_bucket(bucket: Any) -> str:
    """Returns a valid bucket. Raises: ValueError if it is not a path below the sink's."""
    parts = bucket.split("/") if isinstance(bucket, str) else [".."]
    if ".." in parts or "\0" in str(bucket) or (bucket and not all(parts)):
        raise ValueError(f"a bucket must be directory names separated by slashes, or an empty string, not {bucket!r}")
    return bucket  # type: ignore[no-any-return]


class RowContent:
    """Writes records one by one: with the encoder's `encode`, or as lines of text if it has none."""

    def __init__(self, file: BinaryIO, input_type: Any, encoder: Any) -> None:
        self._file = file
        self._input_type = input_type
        self._encode = getattr(encoder, "encode", None)
        self._charset = encoder.charset
        self._format = formatter_of(input_type)

    def add(self, batch: Batch) -> None:
        from flinkpy.records.lanes import rows_of

        rows = rows_of(batch, self._input_type)
        if not rows:
            return
        if self._encode is not None:
            self._file.write(b"".join(map(self._encode, rows)))
        else:
            self._file.write(("\n".join(map(self._format, rows)) + "\n").encode(self._charset, "replace"))

    def finish(self) -> None:
        return

    def discard(self) -> None:
        return
