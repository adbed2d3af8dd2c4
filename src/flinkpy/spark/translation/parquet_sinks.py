"""ParquetSinkJob: Spark writes the Parquet files of a FileSink, without Python workers.

Spark writes to a directory of its own below the path of the sink, by its own commit protocol. That directory only gets
the files of successful attempts of tasks, when all of them have ended. Then the driver gives the files the hidden names
of flinkpy's part files, forces them to disk, and hands them over as committables, like those of flinkpy's writers.

```
  base/.spark-JOB-SINK-ATTEMPT/_temporary/0/...         Spark's tasks write
  base/.spark-JOB-SINK-ATTEMPT/[k=v/]part-*.parquet     Spark has committed the job
  base/[k=v/].part-UID-N.inprogress.JOB-SINK-ATTEMPT-0-0-0             `write` returns: a committable
  base/[k=v/]part-UID-N                                 the committer has published it
```
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
from pyspark.sql import functions as F
from pyspark.sql import types as t

from flinkpy.common.clock import SystemClock
from flinkpy.common.durable_file import sync_directory
from flinkpy.connector_api.serializer import write_versioned
from flinkpy.connectors.batch_file_committer import EndOfWriter, check_replaceable
from flinkpy.connectors.file_committer import PendingFile
from flinkpy.connectors.file_sink import FileSink, StreamingFileSink
from flinkpy.connectors.file_sink_config import ColumnBucketAssigner, OnCheckpointRollingPolicy
from flinkpy.connectors.part_file import PartNaming, make_directory
from flinkpy.connectors.part_store import part_store
from flinkpy.connectors.tables.hive import HiveTableSink
from flinkpy.formats.bulk_writer import ROW_GROUP_BYTES, ParquetBulkWriterFactory
from flinkpy.formats.input_files import is_remote
from flinkpy.formats.partitioned_format import partition_type_of
from flinkpy.formats.row_types import project_row_type
from flinkpy.graph.operator_specs import SinkSpec
from flinkpy.records.lanes import arrow_schema
from flinkpy.spark.columns.names import NotExpressible, column, column_types
from flinkpy.spark.stream_frame import StreamFrame, TakeAccumulators
from flinkpy.spark.translation.program import JobFacts
from flinkpy.spark.translation.sinks import job_id_of_attempt, job_id_of_sink

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from flinkpy.graph.spark_region import SparkNode

_LOG = logging.getLogger(__name__)


def check_parquet_sink(node: SparkNode) -> None:
    """Checks that Spark writes the files of a sink as flinkpy does. Raises: NotExpressible."""
    sink = node.spec.sink if isinstance(node.spec, SinkSpec) else None
    if type(sink) not in (FileSink, StreamingFileSink, HiveTableSink):
        raise NotExpressible(f"{sink!r}")
    assert isinstance(sink, FileSink)
    factory, assigner = sink.writer_factory, sink.bucket_assigner
    if type(factory) is not ParquetBulkWriterFactory:
        raise NotExpressible("files of other formats than Parquet")
    if is_remote(sink.base_path):
        raise NotExpressible(f"{sink.base_path}: files at a URI cannot be renamed at once")
    if sink.merges_files or type(sink.rolling_policy) is not OnCheckpointRollingPolicy:
        raise NotExpressible("files that are merged, or rolled by a policy of the program")
    input_type = node.inputs[0].type_info
    column_types(input_type)
    content = input_type
    if isinstance(assigner, ColumnBucketAssigner):
        if node.parallelism == 1:
            raise NotExpressible("partitions by a single subtask, which keeps the order of records")
        try:
            partition_type_of(project_row_type(input_type, assigner.columns))
        except Exception as error:  # noqa: BLE001 - the writer of flinkpy raises it
            raise NotExpressible(str(error)) from None
        rest = [name for name in input_type.get_field_names() if name not in assigner.columns]
        if not rest:
            raise NotExpressible("files without columns")
        content = project_row_type(input_type, rest)
    elif assigner.looks_at_records:
        raise NotExpressible("a bucket assigner of the program")
    row_type = factory.get_row_type()
    if row_type is not None and arrow_schema(row_type) != arrow_schema(content):
        raise NotExpressible("files with other columns than the stream")


class ParquetSinkJob:
    """Writes the Parquet files of one sink. Implements SinkJob.

    Args:
        node: a node that `check_parquet_sink` has accepted.
        stream: its input, in the layout COLUMNS, partitioned as the files are to be.
    """

    def __init__(self, node: SparkNode, stream: StreamFrame, job: JobFacts) -> None:
        self.name = node.name
        self.sinks = [node]
        self._node = node
        self._stream = stream
        self._job = job
        self._sink: FileSink = node.spec.sink  # type: ignore[attr-defined]
        self._job_id = job_id_of_sink(job.job_id, node.operator_id)
        self._files: list[PendingFile] = []
        self.frame = stream.frame

    def write(self, take_accumulators: TakeAccumulators) -> int:
        """Runs the job. Returns the number of records written."""
        sink = self._sink
        assigner = sink.bucket_assigner
        is_partitioned = isinstance(assigner, ColumnBucketAssigner)
        bucket = "" if is_partitioned else assigner.bucket_id(SystemClock().now_ms())
        check_replaceable(part_store(sink.base_path), sink.publication.mode)
        self._remove_directories_of_earlier_attempts()
        base = make_directory(sink.base_path, "")
        directory = Path(base, f".spark-{self._job_id}-{self._job.attempt_number}")
        # Left by an attempt with the same number, before the JobMaster of the job was replaced.
        shutil.rmtree(directory, ignore_errors=True)
        try:
            self._write_to(directory)
            return self._take_over(directory, bucket)
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    def remove_leftovers(self, may_have_retried: bool) -> None:
        # Attempts of tasks leave nothing outside of Spark's directory.
        if self._job.attempt_number == 0:
            return
        try:
            self._sink.remove_uncommitted(self._job_id, self._files)
        except Exception:  # noqa: BLE001 - leftovers are invisible
            _LOG.warning("%s: the leftovers of earlier attempts could not be removed", self.name, exc_info=True)

    def committables(self) -> Iterator[tuple[int, tuple[bytes, ...]]]:
        serializer = self._sink.committable_serializer
        committables: list[Any] = list(self._files)
        if self._sink.needs_batch_mode:
            committables.append(EndOfWriter.of(self._job_id))
        if committables:
            yield self._node.id, tuple(write_versioned(serializer, each) for each in committables)

    # -- Spark's directory ---------------------------------------------------------------------------------------

    def _remove_directories_of_earlier_attempts(self) -> None:
        pattern = re.compile(rf"\.spark-{re.escape(self._job_id)}-(\d+)")
        with contextlib.suppress(FileNotFoundError):
            for name in os.listdir(self._sink.base_path):
                found = pattern.fullmatch(name)
                if found is not None and int(found[1]) < self._job.attempt_number:
                    shutil.rmtree(Path(self._sink.base_path, name), ignore_errors=True)

    def _write_to(self, directory: Path) -> None:
        names = list(column_types(self._stream.type_info))
        writer = nullable(self._stream.frame.select(*map(column, names))).write.mode("errorifexists")
        writer = writer.options(
            **{
                "compression": "snappy",
                "parquet.block.size": str(ROW_GROUP_BYTES),
                # The other algorithm shows files of a task before all of them are written.
                "mapreduce.fileoutputcommitter.algorithm.version": "1",
                "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
            }
        )
        assigner = self._sink.bucket_assigner
        if isinstance(assigner, ColumnBucketAssigner):
            writer = writer.partitionBy(*assigner.columns)
        writer.parquet(f"file://{directory}")

    def _take_over(self, directory: Path, bucket: str) -> int:
        """Gives Spark's files the hidden names of part files. Returns the number of their records."""
        config = self._sink.file_config
        owner = job_id_of_attempt(self._job_id, self._job.attempt_number, 0)
        naming = PartNaming(
            config.get_part_prefix(), config.get_part_suffix(), secrets.token_hex(8), owner, 0, attempt_number=0
        )
        num_records = 0
        buckets = set()
        for path in sorted(directory.rglob("part-*.parquet")):
            num_rows = pq.read_metadata(path).num_rows
            if not num_rows:
                # Spark writes a file for an empty result.
                continue
            num_records += num_rows
            below = path.parent.relative_to(directory).as_posix()
            target = bucket if below == "." else below
            number = len(self._files)
            size_bytes = _forced_to_disk(path)
            file = PendingFile(target, naming.hidden_name(number), naming.final_name(number), size_bytes)
            os.rename(path, Path(make_directory(self._sink.base_path, target), file.hidden_name))
            self._files.append(file)
            buckets.add(target)
        for target in sorted(buckets):
            sync_directory(Path(self._sink.base_path, target))
        return num_records


def _forced_to_disk(path: Path) -> int:
    with path.open("rb") as file:
        os.fsync(file.fileno())
        return os.fstat(file.fileno()).st_size


def nullable(frame: DataFrame) -> DataFrame:
    """Returns the frame with columns that may be null. Files of flinkpy have no others.

    Spark computes the nullability of a column again after each optimization, so only a condition helps that it cannot
    evaluate.
    """

    def one(field: t.StructField) -> Column:
        if field.nullable:
            return column(field.name)
        return F.when(F.spark_partition_id() >= 0, column(field.name)).alias(field.name)

    schema = frame.schema
    return frame if all(field.nullable for field in schema) else frame.select(*map(one, schema))
