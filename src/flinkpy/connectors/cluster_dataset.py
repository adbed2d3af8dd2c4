"""Cluster data sets: records that one job writes down and later jobs read in its stead, each exactly once.

```
<directory>/<subtask>-<writer>-<number>.block     batches, in their order; none is changed once it has this name
           /end-<subtask>                         names the blocks that count of this subtask, in their order
```

A writer that starts from the beginning begins a new series of blocks, under a name of its own; one that is restored
goes on with its series. The end of a subtask names one whole series, and a later end replaces it: what an attempt that
failed has written is never read. The data set is complete when every subtask has its end and the job has finished.

The directory is one that all processes of the job reach under the same path.

Source: org.apache.flink.streaming.api.transformations.CacheTransformation. Differs: files in place of result partitions
that outlive their job.
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
#: First part of the name of a user's directory for cached streams, in the temporary directory; the uid follows.
OWN_ROOT_PREFIX = "flinkpy-cached-streams-"


@dataclass(frozen=True, slots=True)
class _Block:
    """A committable: a file that is complete, and the name it gets."""

    written: str
    path: str


@dataclass(frozen=True, slots=True)
class _End:
    """A committable: the subtask's records are these blocks."""

    path: str
    blocks: tuple[str, ...]


class ClusterDatasetSink(SinkBase):
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
        #: Blocks handed over so far.
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
    """What one subtask has written, without the first `rows_done` records."""

    split_id: str
    blocks: tuple[str, ...]
    rows_done: int = 0


class ClusterDatasetSource(SourceBase):
    """Args: num_writers: subtasks that have written the data set."""

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
        """One for each subtask that has written something.

        Raises: ClusterDatasetCorruptedError where something is missing.
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
                    f"the records of a cached stream are not at {self._directory} (any more): call invalidate() on it, "
                    "and where the cluster has several hosts set execution.cached-stream.dir to a directory they share",
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
    """Opens the directory of a data set. It holds pickles, so nobody else may be able to write there.

    Raises: PrivateDirectoryError where somebody can, FileNotFoundError, OSError.
    """
    parts = directory.parts
    # The names from this one on can be guessed by other users of the host; those before it were configured.
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
