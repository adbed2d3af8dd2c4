"""Staging: moves records into a region that runs in Spark, and its results out.

| | the region's inputs | its outputs |
|---|---|---|
| few records | in memory, sent with the plan | as below |
| a staging directory, or a master on this host | Parquet files, one per input | files of Spark or its workers |
| otherwise | in memory, up to `max-input-without-staging` | through the driver, some blocks at a time |

An output that has few rows comes with the answer of the job, because writing, committing and reading files would cost
more than the job itself. Spark's plan tells it before the job (a global aggregate, the first rows of an order), or the
size of the last exchange tells it before the last stage (an aggregate per key). Blocks are few if their Python worker
finds so (`flinkpy.spark.result_rows`).

Files are read only when they are complete. Each attempt has its own directory, which is removed with it.

If the staging directory is not a local one (`hdfs://...`), an attempt has a directory on this host too. Spark's driver
copies the files from one to the other.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from flinkpy.common.errors import ConfigurationError
from flinkpy.common.safe_paths import safe_join
from flinkpy.configuration import values
from flinkpy.configuration.spark_options import MAX_INPUT_WITHOUT_STAGING, STAGING_DIR
from flinkpy.records.batch import Batch
from flinkpy.spark.frame_store import FrameStore
from flinkpy.spark.hadoop_directory import HadoopDirectory, HadoopStaging, is_remote, local_path
from flinkpy.spark.result_rows import collected_rows, with_finished_stages
from flinkpy.spark.settings import SparkSettings
from flinkpy.spark.staging_leases import LEASE, LEASES, MountedStaging, StagingFiles, remove_dead_attempts
from flinkpy.spark.stream_frame import (
    Layout,
    StreamFrame,
    encode_rows,
    frame_schema,
    natural_layout,
    spark_schema,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: The size of an input in memory above which a file is written.
IN_MEMORY_BYTES = 4 << 20
#: The size of a row group, so that several Spark tasks can read a file.
_ROW_GROUP_BYTES = 32 << 20
#: The number of rows that are read at once. A row of BLOCKS has some thousand records.
_ROWS_AT_ONCE = {Layout.COLUMNS: 16_384, Layout.BLOCKS: 8}
_IPC_COLUMN = "__ipc"
#: The maximum number of rows of columns that the driver collects in memory.
_FEW_ROWS = 4096


class StagedInput:
    """The records of one input of a region. Thread: one at a time."""

    def __init__(
        self, name: str, type_info: Any, path: Path | None, max_bytes: int, remote: HadoopDirectory | None = None
    ) -> None:
        """Creates an empty input.

        Args:
            path: the file for a large input; None if there is no directory for files.
            max_bytes: the maximum size of the input if there is no file.
            remote: the directory that the executors read the file from, if they cannot read `path`.
        """
        self.num_rows = 0
        self._name = name
        self._type_info = type_info
        self._layout = natural_layout(type_info)
        self._schema = frame_schema(type_info, self._layout)
        self._path = path
        self._max_bytes = max_bytes
        self._remote = remote
        self._pending: list[pa.RecordBatch] = []
        self._pending_bytes = 0
        self._writer: pq.ParquetWriter | None = None
        self._is_in_file = False

    def add(self, batch: Batch) -> None:
        """Adds a batch. Raises: ConfigurationError if the input is too large."""
        rows = encode_rows(batch, self._type_info, self._layout)
        self.num_rows += batch.num_rows
        self._pending.append(rows)
        self._pending_bytes += rows.nbytes
        if self._path is not None:
            if self._pending_bytes >= (IN_MEMORY_BYTES if self._writer is None else _ROW_GROUP_BYTES):
                self._write()
        elif self._pending_bytes > self._max_bytes:
            raise ConfigurationError(
                f"input {self._name!r} of operators in Spark has more than {values.format_memory(self._max_bytes)} "
                f"({MAX_INPUT_WITHOUT_STAGING.key}): set {STAGING_DIR.key} to a directory that the executors reach too"
            )

    def complete(self) -> None:
        """Writes the rest of a large input, so that another process can read it. Called after the last record."""
        if self._writer is not None:
            self._write()
            self._writer.close()
            self._writer, self._is_in_file = None, True

    def frame(self, session: SparkSession) -> StreamFrame:
        """Returns the frame of the input. Called after the last record."""
        self.complete()
        if not self._is_in_file:
            frame = session.createDataFrame(pa.Table.from_batches(self._pending, self._schema), self._spark_schema())
        else:
            frame = session.read.schema(self._spark_schema()).parquet(self._uri(session))
        self._pending = []
        return StreamFrame(frame, self._type_info, self._layout)

    def _uri(self, session: SparkSession) -> str:
        assert self._path is not None
        if self._remote is None:
            return f"file://{self._path}"
        self._remote.open(session)
        uri = self._remote.upload(self._path)
        self._path.unlink()
        return uri

    def _spark_schema(self) -> Any:
        return spark_schema(self._schema)

    def _write(self) -> None:
        if self._writer is None:
            assert self._path is not None
            self._writer = pq.ParquetWriter(self._path, self._schema, compression="zstd", compression_level=1)
        if self._pending:
            self._writer.write_table(pa.Table.from_batches(self._pending, self._schema))
        self._pending, self._pending_bytes = [], 0


class Staging:
    """Inputs and outputs of one attempt.

    Attributes:
        directory: the directory of the attempt on this host; None if it cannot exchange files with the executors.
        remote: the directory of the attempt that the executors reach, if they cannot reach `directory`.
    """

    def __init__(
        self,
        directory: Path | None,
        max_input_bytes: int,
        remote: HadoopDirectory | None = None,
        *,
        is_shared: bool = False,
        cleanup_age_ms: int = 0,
    ) -> None:
        """Creates the directory on this host.

        Args:
            is_shared: True if `directory` is below the configured staging directory, so it needs a lease.
            cleanup_age_ms: the age of the leases of dead attempts, whose directories are removed; 0 keeps them.
        """
        self.directory = directory
        self.remote = remote
        self._max_input_bytes = max_input_bytes
        self._cleanup_age_ms = cleanup_age_ms
        if directory is not None:
            directory.mkdir(parents=True, mode=0o700)
            if is_shared:
                self._keep_lease(MountedStaging(directory.parent), str(directory))

    @property
    def shared(self) -> str | None:
        """The URI of the attempt's directory that the executors reach; None if there is none."""
        if self.remote is not None:
            return self.remote.uri
        return None if self.directory is None else f"file://{self.directory}"

    def open(self, session: SparkSession) -> None:
        """Creates the directory that the driver reaches. Raises: ConfigurationError if the driver reaches none."""
        if self.remote is not None:
            self.remote.open(session)
            root, _, _ = self.remote.uri.rpartition("/")
            self._keep_lease(HadoopStaging(session, root), self.remote.uri)

    def _keep_lease(self, files: StagingFiles, directory: str) -> None:
        """Keeps the lease of the attempt until `close`, and removes the directories of dead attempts."""
        attempt = directory.rpartition("/")[2]
        LEASES.keep(directory, lambda: files.touch(f"{attempt}/{LEASE}"))
        if self._cleanup_age_ms:
            remove_dead_attempts(files, self._cleanup_age_ms, attempt)

    def input(self, number: int, name: str, type_info: Any) -> StagedInput:
        path = None if self.directory is None else self.directory / f"input-{number}.parquet"
        return StagedInput(name, type_info, path, self._max_input_bytes, self.remote)

    def read_output(
        self, number: int, output: StreamFrame, store: FrameStore, take_accumulators: Callable[[Any], None]
    ) -> Iterator[Batch]:
        """Runs the Spark job of an output and yields its batches.

        Args:
            store: keeps the records while they pass through the driver, partition by partition.
        """
        groups: Iterable[pa.RecordBatch]
        frame, is_small = output.frame, False
        if output.is_columnar:
            is_small = has_few_rows(frame)
            if not is_small:
                frame, is_small = with_finished_stages(frame)
        if is_small:
            groups = frame.toArrow().to_batches()
        elif self.directory is None:
            groups = _through_driver(frame, store)
        elif output.is_columnar or self.remote is not None:
            groups = _from_files(self._written(f"output-{number}", frame), _ROWS_AT_ONCE[output.layout])
        else:
            groups = collected_rows(output, self.directory / f"output-{number}")
        for rows in groups:
            yield from output.decode(rows, take_accumulators)

    def _written(self, name: str, frame: DataFrame) -> Iterator[Path]:
        """Lets Spark write a data set. Yields its files on this host in the order of Spark's partitions."""
        assert self.directory is not None
        writer = frame.write.option("compression", "zstd")
        if self.remote is not None:
            writer.parquet(self.remote.uri_of(name))
            yield from self.remote.download_parts(name, self.directory)
        else:
            path = self.directory / name
            writer.parquet(f"file://{path}")
            yield from (path / part for part in sorted(os.listdir(path)) if part.startswith("part-"))

    def close(self) -> None:
        """Removes the directory on this host. The session removes the one that the driver reaches."""
        if self.remote is not None:
            LEASES.release(self.remote.uri)
        if self.directory is not None:
            LEASES.release(str(self.directory))
            shutil.rmtree(self.directory, ignore_errors=True)


def staging_of_attempt(settings: SparkSettings, local: Path, attempt: str) -> Staging:
    """Returns the staging of an attempt.

    Args:
        local: a directory of this process, which does not exist yet.
        attempt: the name of the attempt, for its directory below the configured one.
    """
    directory, remote, is_shared = None, None, False
    if settings.staging_dir is None:
        # The executors of another host reach no directory.
        directory = local if settings.is_local else None
    elif is_remote(settings.staging_dir):
        directory, remote = local, HadoopDirectory(f"{settings.staging_dir.rstrip('/')}/{attempt}")
    else:
        directory, is_shared = safe_join(Path(local_path(settings.staging_dir)), attempt), True
    return Staging(
        directory,
        settings.max_input_without_staging,
        remote,
        is_shared=is_shared,
        cleanup_age_ms=settings.cleanup_age_ms,
    )


def has_few_rows(frame: DataFrame) -> bool:
    """Returns True if the plan limits the rows to a few; False if it does not, and with Spark Connect."""
    made_by_jvm = getattr(frame, "_jdf", None)
    if made_by_jvm is None:
        return False
    most = made_by_jvm.queryExecution().optimizedPlan().maxRows()
    return bool(most.isDefined()) and most.get() <= _FEW_ROWS


def _from_files(paths: Iterable[Path], rows_at_once: int) -> Iterator[pa.RecordBatch]:
    """Yields the rows of the files, and removes each file after it was read."""
    for path in paths:
        with pq.ParquetFile(path) as file:
            for rows in file.iter_batches(batch_size=rows_at_once):
                # Empty partitions may have lost the types of their columns.
                if rows.num_rows:
                    yield rows
        path.unlink()


def _through_driver(frame: DataFrame, store: FrameStore) -> Iterator[pa.RecordBatch]:
    # All executors compute their partitions first; then the partitions are fetched one after the other.
    packed = store.keep(frame.mapInArrow(_pack, f"{_IPC_COLUMN} binary"), "an output of the region")
    for row in packed.toLocalIterator(prefetchPartitions=True):
        with pa.ipc.open_stream(pa.py_buffer(row[0])) as reader:
            yield from reader


def _pack(groups: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for rows in groups:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema) as writer:
            writer.write_batch(rows)
        yield pa.RecordBatch.from_arrays([pa.array([sink.getvalue().to_pybytes()], pa.binary())], [_IPC_COLUMN])
