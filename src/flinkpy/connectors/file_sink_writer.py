"""FileSinkWriter: one subtask's part files."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

from flinkpy.common.clock import Clock, SystemClock
from flinkpy.connector_api.sink import SinkWriter, WriterContext
from flinkpy.connectors.part_file import PartFile, PartNaming
from flinkpy.connectors.text_form import formatter_of
from flinkpy.formats.bulk_writer import BulkWriter

if TYPE_CHECKING:
    from flinkpy.connectors.file_sink_config import BucketAssigner, OutputFileConfig, RollingPolicy
    from flinkpy.records.batch import Batch

#: Makes what writes into one file: given the file and the type of the stream's records.
ContentFactory = Callable[[BinaryIO, Any], BulkWriter]


@dataclass(slots=True)
class _OpenPart:
    part: PartFile
    content: BulkWriter
    created_ms: int
    last_write_ms: int


class FileSinkWriter(SinkWriter):
    """At most one open file per bucket. Thread: task thread."""

    def __init__(
        self,
        context: WriterContext,
        base_path: str,
        make_content: ContentFactory,
        bucket_assigner: BucketAssigner,
        rolling_policy: RollingPolicy,
        file_config: OutputFileConfig,
        clock: Clock | None = None,
    ) -> None:
        self._input_type = context.input_type
        self._base_path = base_path
        self._make_content = make_content
        self._bucket_assigner = bucket_assigner
        self._rolling_policy = rolling_policy
        self._clock = clock or SystemClock()
        self._naming = PartNaming(
            file_config.get_part_prefix(),
            file_config.get_part_suffix(),
            context.subtask_index,
            context.job_id,
            context.attempt_number,
        )
        self._open: dict[str, _OpenPart] = {}
        #: Of buckets that have had a file: the number to try for the next.
        self._next_number: dict[str, int] = {}
        if context.attempt_number > 0:
            self._naming.remove_leftovers(base_path)

    def write(self, batch: Batch) -> None:
        now_ms = self._clock.now_ms()
        self._roll(now_ms)
        bucket = self._bucket_assigner.bucket_id(now_ms)
        entry = self._open.get(bucket) or self._open_part(bucket, now_ms)
        entry.content.add(batch)
        entry.last_write_ms = now_ms
        self._roll(now_ms)

    def flush(self, end_of_input: bool) -> None:
        if end_of_input:
            for bucket in list(self._open):
                self._commit(bucket)

    def close(self) -> None:
        """Delete what has not been committed."""
        while self._open:
            _, entry = self._open.popitem()
            try:
                entry.content.discard()
            finally:
                entry.part.abort()

    def _open_part(self, bucket: str, now_ms: int) -> _OpenPart:
        directory = os.path.join(self._base_path, bucket) if bucket else self._base_path
        part = PartFile(directory, self._naming, self._next_number.get(bucket, 0))
        try:
            content = self._make_content(part.file, self._input_type)
        except BaseException:
            part.abort()
            raise
        entry = _OpenPart(part, content, now_ms, now_ms)
        self._open[bucket] = entry
        return entry

    def _roll(self, now_ms: int) -> None:
        due = [
            bucket
            for bucket, entry in self._open.items()
            if self._rolling_policy.should_roll(entry.part.size_bytes, entry.created_ms, entry.last_write_ms, now_ms)
        ]
        for bucket in due:
            self._commit(bucket)

    def _commit(self, bucket: str) -> None:
        # Stays in `_open` until it is visible: close() deletes what a failure on the way leaves.
        entry = self._open[bucket]
        entry.content.finish()
        self._next_number[bucket] = entry.part.commit() + 1
        del self._open[bucket]


class RowContent:
    """Each record as the line that it prints as. `encode` of an encoder, if it has one, gives the bytes instead."""

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
