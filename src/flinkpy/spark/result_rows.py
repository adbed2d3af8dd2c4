"""Brings the rows of a frame to this process: a few of them with the answer of Spark's job, many of them in files.

A Python worker collects the rows of its partition. If they stay few, it returns them as one value. If not, it writes
them to a file that this process reaches too, and returns the file's name. So Spark runs one job whatever the number of
rows, and neither its driver nor this process has all of them in memory. Files of attempts that failed are never named.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from flinkpy.spark.stream_frame import RowsFunction, StreamFrame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_FILE_COLUMN = "__file"
_ROWS_COLUMN = "__rows"
_SCHEMA = pa.schema([pa.field(_FILE_COLUMN, pa.string()), pa.field(_ROWS_COLUMN, pa.binary())])
_SPARK_SCHEMA = f"{_FILE_COLUMN} string, {_ROWS_COLUMN} binary"
#: The size of a partition's rows up to which they are no file. A thousand such partitions fit into a driver's memory.
INLINE_BYTES = 256 << 10
#: Files are read once, soon, and mostly on this host.
_COMPRESSION = "lz4"


def collected_rows(output: StreamFrame, directory: Path) -> Iterator[pa.RecordBatch]:
    """Runs the Spark job of a frame and yields its rows in the order of Spark's partitions. Removes the files.

    Args:
        directory: for the files. The executors must reach it under the same path. It is created.
    """
    directory.mkdir()
    write = partial(write_rows, str(directory))
    step = output.made_by
    if step is None:
        packed = output.frame.mapInArrow(write, _SPARK_SCHEMA)
    else:
        # One worker does both, so the rows do not pass through the JVM in between.
        packed = step.frame.mapInArrow(partial(_run_both, step.function, step.columns, write), _SPARK_SCHEMA)
    answer = packed.toArrow()
    for name, rows in zip(answer.column(_FILE_COLUMN).to_pylist(), answer.column(_ROWS_COLUMN)):
        if name is None:
            with pa.ipc.open_stream(rows.as_buffer()) as reader:
                yield from reader
        else:
            path = directory / name
            with pa.OSFile(str(path)) as file, pa.ipc.open_stream(file) as reader:
                yield from reader
            path.unlink()


def write_rows(directory: str, groups: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Packs the rows of one partition. Runs in a Python worker of Spark."""
    few: list[pa.RecordBatch] = []
    num_bytes = 0
    for rows in groups:
        if rows.num_rows:
            few.append(rows)
            num_bytes += rows.nbytes
            if num_bytes > INLINE_BYTES:
                yield _packed(_write_file(directory, few, groups), None)
                return
    if few:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, few[0].schema) as writer:
            for rows in few:
                writer.write_batch(rows)
        yield _packed(None, sink.getvalue().to_pybytes())


def _write_file(directory: str, first: list[pa.RecordBatch], rest: Iterator[pa.RecordBatch]) -> str:
    name = f"{uuid.uuid4()}.arrow"
    options = pa.ipc.IpcWriteOptions(compression=_COMPRESSION)
    with (
        pa.OSFile(os.path.join(directory, name), "wb") as file,
        pa.ipc.new_stream(file, first[0].schema, options=options) as writer,
    ):
        while first:
            writer.write_batch(first.pop(0))
        for rows in rest:
            if rows.num_rows:
                writer.write_batch(rows)
    return name


def _packed(name: str | None, rows: bytes | None) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([name], pa.string()), pa.array([rows], pa.binary())], schema=_SCHEMA)


def _run_both(
    function: RowsFunction, columns: tuple[str, ...] | None, write: RowsFunction, groups: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    rows = function(groups)
    return write(rows if columns is None else (each.select(list(columns)) for each in rows))


#: Operations that return at most as many rows as they read, and of about the same size.
_NOT_MORE_ROWS = frozenset(
    {
        "AQEShuffleReadExec",
        "ColumnarToRowExec",
        "FilterExec",
        "HashAggregateExec",
        "InputAdapter",
        "ObjectHashAggregateExec",
        "ProjectExec",
        "SortAggregateExec",
        "SortExec",
        "WholeStageCodegenExec",
    }
)
#: The size of the last exchange up to which the rows behind it come with the answer of the job.
_FEW_BYTES = 8 << 20


def with_finished_stages(frame: DataFrame) -> tuple[DataFrame, bool]:
    """Runs all stages of a frame but the last one, whose number of rows is then known from the last exchange.

    Returns:
        A frame that continues behind these stages, and True if `toArrow` of it returns few rows. Without adaptive
        execution, without an exchange and with Spark Connect the frame is the given one, and nothing has run.
    """
    made_by_jvm = getattr(frame, "_jdf", None)
    if made_by_jvm is None:
        return frame, False
    plan = made_by_jvm.queryExecution().executedPlan()
    if _name(plan) != "AdaptiveSparkPlanExec" or _last_exchange(plan.executedPlan(), "ShuffleExchangeExec") is None:
        return frame, False
    rows = plan.execute()
    stage = _last_exchange(plan.executedPlan(), "ShuffleQueryStageExec")
    if stage is not None and stage.getRuntimeStatistics().sizeInBytes() <= _FEW_BYTES:
        return frame, True
    from pyspark.sql import DataFrame

    # Another plan of the same frame would run its stages again.
    session = frame.sparkSession
    return DataFrame(session._jsparkSession.internalCreateDataFrame(rows, made_by_jvm.schema(), False), session), False


def _last_exchange(plan: Any, exchange: str) -> Any:
    """Returns the exchange that all rows of the plan come from, if there are not more rows than it has moved."""
    node = plan.plan() if _name(plan) == "ResultQueryStageExec" else plan
    while _name(node) != exchange:
        if _name(node) not in _NOT_MORE_ROWS:
            return None
        node = node.children().apply(0)
    return node


def _name(node: Any) -> str:
    return str(node.getClass().getSimpleName())
