"""FileCompaction: merges small part files of a FileSink before they become visible.

A complete part file stays hidden until its bucket is due. Then a thread beside the task merges all files of the bucket
into one, and the next checkpoint contains the merged file as a committable. Until then every checkpoint contains the
parts. When the checkpoint with the merged file is complete, this file gets its final name and the parts are deleted.
See docs/decisions/0014.

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
from flinkpy.logs.context import in_current_context

_COPY_BYTES = 1 << 20


class FileCompactStrategy:
    """Decides when the files of a bucket are merged. Create it with `FileCompactStrategy.builder()`."""

    #: A strategy that an earlier release has pickled has no such attribute.
    _target_size: int | None = None

    def __init__(
        self,
        size_threshold: int,
        num_checkpoints_before_compaction: int,
        num_compact_threads: int,
        target_size: int | None = None,
    ) -> None:
        self._target_size = target_size
        self._size_threshold = size_threshold
        self._num_checkpoints = num_checkpoints_before_compaction
        self._num_compact_threads = num_compact_threads

    @property
    def size_threshold(self) -> int:
        """The size in bytes from which a bucket is merged; -1 for no threshold."""
        return self._size_threshold

    @property
    def num_checkpoints_before_compaction(self) -> int:
        """The number of checkpoints after which a bucket is merged; -1 for no limit."""
        return self._num_checkpoints

    @property
    def num_compact_threads(self) -> int:
        return self._num_compact_threads

    @property
    def target_size(self) -> int | None:
        """The largest size of a merged file in bytes; None to merge all files of a bucket into one."""
        return self._target_size

    def is_due(self, size_bytes: int, num_checkpoints: int) -> bool:
        """True if a bucket of this size, last merged this many checkpoints ago, is to be merged."""
        by_size = self._size_threshold >= 0 and size_bytes >= self._size_threshold
        return by_size or 0 < self._num_checkpoints <= num_checkpoints

    @staticmethod
    def builder() -> FileCompactStrategy.Builder:
        return FileCompactStrategy.Builder()

    class Builder:
        """Builds a FileCompactStrategy from a size threshold, a number of checkpoints, or both."""

        def __init__(self) -> None:
            self._size_threshold = -1
            self._num_checkpoints = -1
            self._num_compact_threads = 1
            self._target_size: int | None = None

        def enable_compaction_on_checkpoint(
            self, num_checkpoints_before_compaction: int
        ) -> FileCompactStrategy.Builder:
            """Merges a bucket when a number of checkpoints have passed since it was last merged."""
            self._num_checkpoints = _positive("num_checkpoints_before_compaction", num_checkpoints_before_compaction)
            return self

        def set_size_threshold(self, size_threshold: int) -> FileCompactStrategy.Builder:
            """Merges a bucket when its files have a total size in bytes. Checked at each checkpoint."""
            if isinstance(size_threshold, bool) or not isinstance(size_threshold, int) or size_threshold < 0:
                raise ValueError(f"size_threshold must be a number of bytes, not {size_threshold!r}")
            self._size_threshold = size_threshold
            return self

        def set_num_compact_threads(self, num_compact_threads: int) -> FileCompactStrategy.Builder:
            """Sets the number of buckets that a subtask merges at a time."""
            self._num_compact_threads = _positive("num_compact_threads", num_compact_threads)
            return self

        def set_target_size(self, target_size: int) -> FileCompactStrategy.Builder:
            """Merges files up to a size in bytes, so that a bucket may get several files. Beyond PyFlink."""
            self._target_size = _positive("target_size", target_size)
            return self

        def build(self) -> FileCompactStrategy:
            if self._size_threshold < 0 and self._num_checkpoints < 0:
                raise ValueError("a FileCompactStrategy needs a size threshold, a number of checkpoints, or both")
            return FileCompactStrategy(
                self._size_threshold, self._num_checkpoints, self._num_compact_threads, self._target_size
            )


def _positive(name: str, value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        raise ValueError(f"{name} must be a positive int, not {value!r}")
    return value


class FileCompactor(ABC):
    """Merges files. Beyond PyFlink, subclass it to merge files of other formats.

    Attributes:
        joins_bytes: True if it concatenates files, which is not possible for every format.
    """

    joins_bytes = False

    @abstractmethod
    def compact(self, paths: list[str], output: BinaryIO) -> None:
        """Writes the records of at least two files to `output`, in order. Runs on a thread beside the task."""

    @staticmethod
    def concat_file_compactor(file_delimiter: bytes | None = None) -> FileCompactor:
        """Concatenates files, for formats without header and footer such as lines of text or JSON.

        Args:
            file_delimiter: written between the files; None for nothing.
        """
        return ConcatFileCompactor(file_delimiter)

    @staticmethod
    def identical_file_compactor() -> FileCompactor:
        """Does not merge files, but keeps them hidden until their bucket is due."""
        return IdenticalFileCompactor()

    @staticmethod
    def parquet_file_compactor() -> FileCompactor:
        """Merges Parquet files of one schema, row group by row group. Beyond PyFlink."""
        return ParquetFileCompactor()

    @staticmethod
    def orc_file_compactor() -> FileCompactor:
        """Merges ORC files of one schema, stripe by stripe. Beyond PyFlink."""
        return OrcFileCompactor()

    @staticmethod
    def avro_file_compactor() -> FileCompactor:
        """Merges Avro files of one schema and codec by copying their blocks. Beyond PyFlink."""
        return AvroFileCompactor()


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
        raise ValueError(f"an IdenticalFileCompactor cannot merge files, but got {len(paths)}")


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


class OrcFileCompactor(FileCompactor):
    def compact(self, paths: list[str], output: BinaryIO) -> None:
        import pyarrow as pa
        from pyarrow import orc

        from flinkpy.formats.orc_format import DEFAULT_WRITER_SETTINGS

        with orc.ORCWriter(output, **DEFAULT_WRITER_SETTINGS) as writer:
            for path in paths:
                file = orc.ORCFile(path)
                for stripe in range(file.nstripes):
                    writer.write(pa.Table.from_batches([file.read_stripe(stripe)]))


class AvroFileCompactor(FileCompactor):
    def compact(self, paths: list[str], output: BinaryIO) -> None:
        from flinkpy.formats.avro_container import copy_blocks

        copy_blocks(paths, output)


def _parts(files: list[PendingFile], target_size: int | None) -> list[list[PendingFile]]:
    """Returns the files that are merged into one each: as many in a row as fit into the target size."""
    if target_size is None:
        return [files]
    parts: list[list[PendingFile]] = []
    size = 0
    for file in files:
        if parts and size + file.size_bytes <= target_size:
            parts[-1].append(file)
        else:
            parts.append([file])
            size = 0
        size += file.size_bytes
    return parts


@dataclass(slots=True)
class _Bucket:
    files: list[PendingFile] = field(default_factory=list)
    #: The number of checkpoints since the bucket was last merged, or got its first file.
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
    """Merges the part files of one subtask. Thread: task thread; merges run on separate threads.

    Args:
        open_target: creates a hidden part file in a bucket.
        in_snapshot: hidden names of files in a checkpoint, completed or not, which must not be deleted. Shared with the
            writer and updated here.
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
        """Adds complete, durable files."""
        for file in files:
            self._buckets.setdefault(file.bucket, _Bucket()).files.append(file)

    @property
    def files(self) -> list[PendingFile]:
        """All files that are not committables yet, merging or not. They are part of the writer's state."""
        merging = [file for merge in self._merges for file in merge.files]
        return merging + [file for bucket in self._buckets.values() for file in bucket.files]

    @property
    def targets(self) -> list[SupersededFile]:
        """The unfinished merged files, which a restored writer must delete."""
        return [SupersededFile(merge.bucket, merge.target.hidden_name) for merge in self._merges]

    def on_snapshot(self) -> None:
        """Records that the current files are in a checkpoint. Earlier ones have become committables."""
        self._in_snapshot.clear()
        self._in_snapshot.update(file.hidden_name for file in self.files)

    def at_checkpoint(self) -> list[Any]:
        """Begins to merge buckets that are due. Returns the committables of finished merges."""
        committables = self._take_finished(wait=False)
        for name, bucket in list(self._buckets.items()):
            bucket.num_checkpoints += 1
            if self._strategy.is_due(bucket.size_bytes, bucket.num_checkpoints):
                del self._buckets[name]
                committables += self._begin(name, bucket.files)
        return committables

    def finish(self) -> list[Any]:
        """Merges all files at the end of the input, and waits for the result. Returns the committables."""
        committables: list[Any] = []
        buckets, self._buckets = self._buckets, {}
        for name, bucket in buckets.items():
            committables += self._begin(name, bucket.files)
        return committables + self._take_finished(wait=True)

    def close(self) -> None:
        """Stops all merges, and deletes files that no checkpoint contains."""
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
        """Begins to merge files. Returns the files that need no merging."""
        if isinstance(self._compactor, IdenticalFileCompactor):
            return list(files)
        return [each for part in _parts(files, self._strategy.target_size) for each in self._begin_part(bucket, part)]

    def _begin_part(self, bucket: str, files: list[PendingFile]) -> list[Any]:
        """Begins to merge files into one. Returns a single file, which needs no merging."""
        if len(files) == 1:
            return list(files)
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self._strategy.num_compact_threads, "file-compactor")
        target = self._open_target(bucket)
        done = self._threads.submit(in_current_context(self._merge), [self._path(file) for file in files], target)
        self._merges.append(_Merge(bucket, files, target, done))
        return []

    def _merge(self, paths: list[str], target: OpenPart) -> int:
        """Thread: one of the executor."""
        failpoint("file_sink.before_compact")
        self._compactor.compact(paths, target.file)
        return target.close()

    def _take_finished(self, wait: bool) -> list[Any]:
        committables: list[Any] = []
        for merge in list(self._merges):
            if wait or merge.done.done():
                size_bytes = merge.done.result()
                target = merge.target
                committables.append(PendingFile(merge.bucket, target.hidden_name, target.final_name, size_bytes))
                committables += [SupersededFile(file.bucket, file.hidden_name) for file in merge.files]
                self._merges.remove(merge)
        return committables

    def _path(self, file: PendingFile) -> str:
        return os.path.join(self._base_path, file.bucket, file.hidden_name)
