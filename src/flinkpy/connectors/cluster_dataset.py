"""Cluster data sets: one job stores records, and later jobs read them exactly once instead of computing them again.

```
<directory>/<subtask>-<writer>-<number>.block     batches in their order; a block with this name never changes
           /end-<subtask>                         the names of the valid blocks of this subtask, in their order
```

A writer that starts from the beginning begins a new series of blocks with a unique name. A restored writer continues
its series. The end file of a subtask names all blocks of one series, and a later end file replaces it. The blocks of a
failed attempt are therefore never read. The data set is complete when every subtask has an end file and the job has
finished.

All processes of the job reach the directory under the same path.

Source: org.apache.flink.streaming.api.transformations.CacheTransformation. Differs: records are stored in files. In
Flink they are result partitions that outlive their job.
"""

from __future__ import annotations

import os
import pickle
import struct
import uuid
from collections.abc import Generator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from flinkpy.common.errors import ClusterDatasetCorruptedError
from flinkpy.common.private_directory import PrivateDirectory
from flinkpy.connector_api.sink import CommitRequest, Committer, SinkBase, SinkWriter, StatefulSinkWriter, WriterContext
from flinkpy.connector_api.source import (
    Boundedness,
    SourceBase,
    SourceReader,
    SourceReaderContext,
    SplitEnumerator,
    SplitEnumeratorContext,
)
from flinkpy.connectors.split_enumerator import StaticSplitEnumerator
from flinkpy.connectors.split_reader import OpenSplit, SequentialSplitReader

if TYPE_CHECKING:
    from flinkpy.records.batch import Batch

_LENGTH = struct.Struct("<Q")
#: The beginning of the name of a user's directory for cached streams in the temporary directory. The uid follows.
OWN_ROOT_PREFIX = "flinkpy-cached-streams-"


@dataclass(frozen=True, slots=True)
class _Block:
    """A committable: a complete file, and its final name."""

    written: str
    path: str


@dataclass(frozen=True, slots=True)
class _End:
    """A committable: the end file of a subtask, and the blocks that it names."""

    path: str
    blocks: tuple[str, ...]


class ClusterDatasetSink(SinkBase):
    """Stores records in a cluster data set."""

    def __init__(self, directory: str) -> None:
        self._directory = directory

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return _Writer(Path(self._directory), context.subtask_index, uuid.uuid4().hex, 0)

    def restore_writer(self, context: WriterContext, states: list[Any]) -> SinkWriter:
        for subtask, name, number in states:
            if subtask == context.subtask_index:
                return _Writer(Path(self._directory), subtask, name, number)
        return self.create_writer(context)

    def create_committer(self) -> Committer:
        return _Committer()

    @property
    def is_local_to_task(self) -> bool:
        return True


class _Writer(StatefulSinkWriter):
    def __init__(self, directory: Path, subtask: int, name: str, number: int) -> None:
        self._directory = directory
        self._subtask = subtask
        self._name = name
        #: The number of blocks that are complete.
        self._number = number
        self._file: BinaryIO | None = None
        self._is_at_end = False
        self._open_directory = _open_directory(directory, is_made=True)

    def write(self, batch: Batch) -> None:
        if self._file is None:
            name = os.path.basename(self._unfinished)
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
            descriptor = self._open_directory.open_file(name, flags)
            self._file = open(descriptor, "wb")  # noqa: SIM115 - it stays open until the block is complete
        data = _encoded(batch)
        self._file.write(_LENGTH.pack(len(data)))
        self._file.write(data)

    def flush(self, end_of_input: bool) -> None:
        self._is_at_end = self._is_at_end or end_of_input  # a checkpoint may follow the end

    def prepare_commit(self) -> list[Any]:
        committables: list[Any] = []
        file, self._file = self._file, None
        if file is not None:
            with file:
                file.flush()
                os.fsync(file.fileno())
            committables.append(_Block(self._unfinished, self._block(self._number)))
            self._number += 1
        if self._is_at_end:
            blocks = tuple(os.path.basename(self._block(number)) for number in range(self._number))
            committables.append(_End(str(self._directory / f"end-{self._subtask}"), blocks))
        return committables

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        return [(self._subtask, self._name, self._number)]

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            Path(self._unfinished).unlink(missing_ok=True)
        self._open_directory.close()

    def _block(self, number: int) -> str:
        return str(self._directory / f"{self._subtask}-{self._name}-{number}.block")

    @property
    def _unfinished(self) -> str:
        return f"{self._block(self._number)}.unfinished"


class _Committer(Committer):
    def commit(self, requests: list[CommitRequest]) -> None:
        for request in requests:
            committable = request.get_committable()
            if isinstance(committable, _End):
                unfinished = f"{committable.path}.{uuid.uuid4().hex}"
                Path(unfinished).write_bytes(pickle.dumps(committable.blocks))
                os.replace(unfinished, committable.path)
            elif os.path.exists(committable.written):
                os.replace(committable.written, committable.path)
            elif not os.path.exists(committable.path):
                raise _corrupted(committable.path, "has disappeared")


@dataclass(frozen=True, slots=True)
class ClusterDatasetSplit:
    """The records of one writer's subtask, without the first `rows_done`."""

    split_id: str
    blocks: tuple[str, ...]
    rows_done: int = 0


class ClusterDatasetSource(SourceBase):
    """Reads a cluster data set.

    Args:
        num_writers: the number of subtasks that have written the data set.
    """

    def __init__(self, directory: str, num_writers: int, produced_type: Any = None) -> None:
        self._directory = directory
        self._num_writers = num_writers
        self._produced_type = produced_type

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED

    @property
    def produced_type(self) -> Any:
        return self._produced_type

    @property
    def is_local_to_task(self) -> bool:
        return True

    def create_enumerator(self, context: SplitEnumeratorContext) -> SplitEnumerator:
        return StaticSplitEnumerator(context, self.split, blocking=True)

    def restore_enumerator(self, context: SplitEnumeratorContext, state: Any) -> SplitEnumerator:
        return StaticSplitEnumerator(context, self.split, blocking=True, state=state)

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        return _Reader(context)

    def split(self) -> list[ClusterDatasetSplit]:
        """Returns one split for each subtask that has written records.

        Raises: ClusterDatasetCorruptedError if an end file is missing.
        """
        splits = []
        for subtask in range(self._num_writers):
            end = Path(self._directory) / f"end-{subtask}"
            try:
                with (
                    _open_directory(end.parent) as directory,
                    open(directory.open_file(end.name, os.O_RDONLY), "rb") as file,
                ):
                    names = pickle.load(file)
            except FileNotFoundError as error:
                raise ClusterDatasetCorruptedError(
                    f"the records of a cached stream are missing at {self._directory}: call invalidate() on it. "
                    "If the cluster has several hosts, set execution.cached-stream.dir to a directory that they share.",
                    details={"directory": self._directory},
                ) from error
            blocks = tuple(str(Path(self._directory) / name) for name in names)
            if blocks:
                splits.append(ClusterDatasetSplit(str(subtask), blocks))
        return splits


class _Reader(SequentialSplitReader):
    def open_split(self, split: ClusterDatasetSplit) -> OpenSplit:
        return _OpenBlocks(split)


class _OpenBlocks:
    def __init__(self, split: ClusterDatasetSplit) -> None:
        self._split = split
        self._to_skip = split.rows_done
        self._position = split.rows_done
        self._batches = _read(split.blocks)

    def read_batch(self) -> Batch | None:
        for batch in self._batches:
            rows = batch.num_rows
            if rows <= self._to_skip:
                self._to_skip -= rows
                continue
            if self._to_skip:
                batch = batch.slice(self._to_skip, rows - self._to_skip)
                self._to_skip = 0
            self._position += batch.num_rows
            return batch
        return None

    def rest(self, rows_back: int) -> ClusterDatasetSplit:
        return replace(self._split, rows_done=self._position - rows_back)

    def close(self) -> None:
        self._batches.close()


def _read(blocks: tuple[str, ...]) -> Generator[Batch, None, None]:
    for path in blocks:
        try:
            file = _open_for_reading(Path(path))
        except FileNotFoundError as error:
            raise _corrupted(path, "has disappeared") from error
        with file:
            while header := file.read(_LENGTH.size):
                length = _LENGTH.unpack(header)[0] if len(header) == _LENGTH.size else -1
                data = file.read(max(length, 0))
                if len(data) != length:
                    raise _corrupted(path, "is cut off")
                yield _decoded(data)


def _open_directory(directory: Path, *, is_made: bool = False) -> PrivateDirectory:
    """Opens the directory of a data set, which no other user may be able to write to because it contains pickles.

    Raises: PrivateDirectoryError if another user can; FileNotFoundError; OSError.
    """
    parts = directory.parts
    # Other users of the host can guess the names from this one on. The names before it were configured.
    start = next((n for n, part in enumerate(parts) if part.startswith(OWN_ROOT_PREFIX)), len(parts) - 1)
    root, names = Path(*parts[:start]), parts[start:]
    if is_made:
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
        return PrivateDirectory.make(root, *names)
    return PrivateDirectory.open(root, *names)


def _open_for_reading(path: Path) -> BinaryIO:
    with _open_directory(path.parent) as directory:
        return open(directory.open_file(path.name, os.O_RDONLY), "rb")


def _corrupted(path: str, how: str) -> ClusterDatasetCorruptedError:
    return ClusterDatasetCorruptedError(
        f"a block of a cached stream {how}: {path}", details={"directory": os.path.dirname(path)}
    )


def _encoded(batch: Batch) -> bytes:
    import pyarrow as pa

    from flinkpy.state import pickling

    values: Any = batch.values
    if batch.is_columnar:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, values.schema) as writer:
            writer.write_batch(values)
        return pickle.dumps((True, sink.getvalue().to_pybytes(), batch.timestamps, batch.kinds))
    return pickle.dumps((False, pickling.dumps(values), batch.timestamps, batch.kinds))


def _decoded(data: bytes) -> Batch:
    import pyarrow as pa

    from flinkpy.records.batch import Batch
    from flinkpy.state import pickling

    is_columnar, values, timestamps, kinds = pickle.loads(data)
    if is_columnar:
        with pa.ipc.open_stream(values) as reader:
            return Batch(reader.read_next_batch(), timestamps, kinds)
    return Batch(pickling.loads(values), timestamps, kinds)
