"""Merging a FileSink's small part files before anybody sees them.

A part file that is complete is not handed over to be committed but kept, hidden, until its bucket is due; then all that
the bucket has is merged into one file, on a thread beside the task, and the next checkpoint hands that one over. The
parts are in every checkpoint until then; when the checkpoint that has the merged file is complete, the file gets its
name and the parts are deleted. See docs/decisions/0014.

Source: org.apache.flink.connector.file.sink.compactor. Differs: each subtask merges its own files.
"""

from __future__ import annotations

import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from flinkpy.common.failpoints import failpoint
from flinkpy.connectors.file_committer import PendingFile, SupersededFile
from flinkpy.connectors.part_file import unlink_if_there
from flinkpy.connectors.part_store import OpenPart

_COPY_BYTES = 1 << 20


class FileCompactStrategy:
    """When the files of a bucket are merged."""

    def __init__(self, size_threshold: int, num_checkpoints_before_compaction: int, num_compact_threads: int) -> None:
        self._size_threshold = size_threshold
        self._num_checkpoints = num_checkpoints_before_compaction
        self._num_compact_threads = num_compact_threads

    @property
    def size_threshold(self) -> int:
        """In bytes; -1: none."""
        return self._size_threshold

    @property
    def num_checkpoints_before_compaction(self) -> int:
        """-1: the number of checkpoints does not count."""
        return self._num_checkpoints

    @property
    def num_compact_threads(self) -> int:
        return self._num_compact_threads

    def is_due(self, size_bytes: int, num_checkpoints: int) -> bool:
        """Whether a bucket that has so much, and was last merged so many checkpoints ago, is to be merged."""
        by_size = self._size_threshold >= 0 and size_bytes >= self._size_threshold
        return by_size or 0 < self._num_checkpoints <= num_checkpoints

    @staticmethod
    def builder() -> FileCompactStrategy.Builder:
        return FileCompactStrategy.Builder()

    class Builder:
        def __init__(self) -> None:
            self._size_threshold = -1
            self._num_checkpoints = -1
            self._num_compact_threads = 1

        def enable_compaction_on_checkpoint(
            self, num_checkpoints_before_compaction: int
        ) -> FileCompactStrategy.Builder:
            """Merge when so many checkpoints have passed since the last time."""
            self._num_checkpoints = _positive("num_checkpoints_before_compaction", num_checkpoints_before_compaction)
            return self

        def set_size_threshold(self, size_threshold: int) -> FileCompactStrategy.Builder:
            """Merge when the files of a bucket have so many bytes together; looked at at each checkpoint."""
            if isinstance(size_threshold, bool) or not isinstance(size_threshold, int) or size_threshold < 0:
                raise ValueError(f"size_threshold must be a number of bytes, not {size_threshold!r}")
            self._size_threshold = size_threshold
            return self

        def set_num_compact_threads(self, num_compact_threads: int) -> FileCompactStrategy.Builder:
            """So many buckets of a subtask are merged at a time."""
            self._num_compact_threads = _positive("num_compact_threads", num_compact_threads)
            return self

        def build(self) -> FileCompactStrategy:
            if self._size_threshold < 0 and self._num_checkpoints < 0:
                raise ValueError("a FileCompactStrategy needs a size threshold, or a number of checkpoints, or both")
            return FileCompactStrategy(self._size_threshold, self._num_checkpoints, self._num_compact_threads)


def _positive(name: str, value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        raise ValueError(f"{name} must be a positive int, not {value!r}")
    return value


class FileCompactor(ABC):
    """How files are merged. Subclass it for a format of your own. Beyond PyFlink.

    Attributes:
        joins_bytes: it puts files one behind the other, which not every format can be read from.
    """

    joins_bytes = False

    @abstractmethod
    def compact(self, paths: list[str], output: BinaryIO) -> None:
        """Write what `paths` hold, in that order. On a thread beside the task; at least two paths."""

    @staticmethod
    def concat_file_compactor(file_delimiter: bytes | None = None) -> FileCompactor:
        """One behind the other, with `file_delimiter` in between. For formats without head and tail: lines, JSON."""
        return ConcatFileCompactor(file_delimiter)

    @staticmethod
    def identical_file_compactor() -> FileCompactor:
        """Files stay as they are; they are held back until their bucket is due."""
        return IdenticalFileCompactor()

    @staticmethod
    def parquet_file_compactor() -> FileCompactor:
        """Parquet files of one schema, row group by row group. Beyond PyFlink."""
        return ParquetFileCompactor()


class ConcatFileCompactor(FileCompactor):
    joins_bytes = True

    def __init__(self, file_delimiter: bytes | None = None) -> None:
        self._file_delimiter = file_delimiter or b""

    def compact(self, paths: list[str], output: BinaryIO) -> None:
        for index, path in enumerate(paths):
            if index:
                output.write(self._file_delimiter)
            with open(path, "rb") as file:
                shutil.copyfileobj(file, output, _COPY_BYTES)


class IdenticalFileCompactor(FileCompactor):
    def compact(self, paths: list[str], output: BinaryIO) -> None:
        raise ValueError(f"an identical file compactor merges nothing, and was given {len(paths)} files")


class ParquetFileCompactor(FileCompactor):
    def compact(self, paths: list[str], output: BinaryIO) -> None:
        import pyarrow.parquet as pq

        writer = None
        try:
            for path in paths:
                with pq.ParquetFile(path) as file:
                    if writer is None:
                        writer = pq.ParquetWriter(output, file.schema_arrow, compression="snappy")
                    for group in range(file.num_row_groups):
                        writer.write_table(file.read_row_group(group, use_threads=False))
        finally:
            if writer is not None:
                writer.close()


@dataclass(slots=True)
class _Bucket:
    files: list[PendingFile] = field(default_factory=list)
    #: Since it was last merged, or had its first file.
    num_checkpoints: int = 0

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)


@dataclass(slots=True)
class _Merge:
    bucket: str
    files: list[PendingFile]
    target: OpenPart
    #: The size of the merged file.
    done: Future[int]


class FileCompaction:
    """One subtask's files that wait to be merged, or are being merged. Thread: task thread; it has threads of its own.

    Args:
        open_target: a new hidden part file in that bucket.
        in_snapshot: hidden names that a checkpoint has, completed or not: those files are not to be deleted. Shared
            with the writer; kept up by this.
    """

    def __init__(
        self,
        base_path: str,
        strategy: FileCompactStrategy,
        compactor: FileCompactor,
        open_target: Callable[[str], OpenPart],
        in_snapshot: set[str],
    ) -> None:
        self._base_path = base_path
        self._strategy = strategy
        self._compactor = compactor
        self._open_target = open_target
        self._buckets: dict[str, _Bucket] = {}
        self._merges: list[_Merge] = []
        self._threads: ThreadPoolExecutor | None = None
        self._in_snapshot = in_snapshot

    def add(self, files: Iterable[PendingFile]) -> None:
        """Complete files, which are on the disk."""
        for file in files:
            self._buckets.setdefault(file.bucket, _Bucket()).files.append(file)

    @property
    def files(self) -> list[PendingFile]:
        """All that have not been handed over: they are the state, whether they are being merged or not."""
        merging = [file for merge in self._merges for file in merge.files]
        return merging + [file for bucket in self._buckets.values() for file in bucket.files]

    @property
    def targets(self) -> list[SupersededFile]:
        """What is being written, of which a restored writer knows nothing else."""
        return [SupersededFile(merge.bucket, merge.target.hidden_name) for merge in self._merges]

    def on_snapshot(self) -> None:
        """What there is now is in a checkpoint; what it had before has been handed over."""
        self._in_snapshot.clear()
        self._in_snapshot.update(file.hidden_name for file in self.files)

    def at_checkpoint(self) -> list[Any]:
        """Begin what is due; returns the committables of what has been finished."""
        handed_over = self._take_finished(wait=False)
        for name, bucket in list(self._buckets.items()):
            bucket.num_checkpoints += 1
            if self._strategy.is_due(bucket.size_bytes, bucket.num_checkpoints):
                del self._buckets[name]
                handed_over += self._begin(name, bucket.files)
        return handed_over

    def finish(self) -> list[Any]:
        """The end of the input: merge all there is, and wait for it."""
        handed_over: list[Any] = []
        buckets, self._buckets = self._buckets, {}
        for name, bucket in buckets.items():
            handed_over += self._begin(name, bucket.files)
        return handed_over + self._take_finished(wait=True)

    def close(self) -> None:
        """Delete what no checkpoint has."""
        if self._threads is not None:
            self._threads.shutdown(wait=True, cancel_futures=True)
        files = self.files
        merges, self._merges, self._buckets = self._merges, [], {}
        for merge in merges:
            merge.target.abort()
        for file in files:
            if file.hidden_name not in self._in_snapshot:
                unlink_if_there(self._path(file))

    def _begin(self, bucket: str, files: list[PendingFile]) -> list[Any]:
        """Returns the files that need no merging."""
        if len(files) == 1 or isinstance(self._compactor, IdenticalFileCompactor):
            return list(files)
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self._strategy.num_compact_threads, "file-compactor")
        target = self._open_target(bucket)
        done = self._threads.submit(self._merge, [self._path(file) for file in files], target)
        self._merges.append(_Merge(bucket, files, target, done))
        return []

    def _merge(self, paths: list[str], target: OpenPart) -> int:
        """Thread: a compactor's."""
        failpoint("file_sink.before_compact")
        self._compactor.compact(paths, target.file)
        return target.close()

    def _take_finished(self, wait: bool) -> list[Any]:
        handed_over: list[Any] = []
        for merge in list(self._merges):
            if wait or merge.done.done():
                size_bytes = merge.done.result()
                target = merge.target
                handed_over.append(PendingFile(merge.bucket, target.hidden_name, target.final_name, size_bytes))
                handed_over += [SupersededFile(file.bucket, file.hidden_name) for file in merge.files]
                self._merges.remove(merge)
        return handed_over

    def _path(self, file: PendingFile) -> str:
        return os.path.join(self._base_path, file.bucket, file.hidden_name)
