"""Runs a pass over a partition in a Python worker of Spark.

The chain runs in its own thread and is blocked while Spark has enough to read. So an operator that emits all of
its results at the end of its input does not have all of them in memory.
"""

from __future__ import annotations

import pickle
import queue
import threading
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import Any

import pyarrow as pa

from flinkpy.common.garbage_collector import tune_garbage_collector
from flinkpy.records.batch import Batch
from flinkpy.spark.blocks import FAILED_ATTEMPTS, SinkReport, decode_block, encode_accumulators, encode_sink_report
from flinkpy.spark.errors import TaskAttempt, worker_failure
from flinkpy.spark.stream_frame import BLOCK_COLUMN, Layout, decode_rows, encode_rows
from flinkpy.spark.translation.program import EDGE_COLUMN, MARKER_EDGE, SINKS, SUBTASK_COLUMN, PassProgram
from flinkpy.spark.translation.row_output import BlockRows, ColumnsOutput, ExchangeOutput
from flinkpy.spark.worker_files import WorkerFiles

#: The maximum number of groups of rows that wait for Spark.
_QUEUED_GROUPS = 2

RunPass = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def pass_function(program: PassProgram) -> RunPass:
    """Returns the function of a pass for `DataFrame.mapInArrow`. Its program is pickled once."""
    import cloudpickle

    return partial(_run_pass, program.job.files, cloudpickle.dumps(program, protocol=pickle.HIGHEST_PROTOCOL))


def _run_pass(files: WorkerFiles, payload: bytes, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    from pyspark import TaskContext

    task = TaskContext.get()
    assert task is not None
    # Spark's workers collect all garbage after each task.
    tune_garbage_collector(freezes=False)
    files.use()
    program: PassProgram = pickle.loads(payload)
    attempt = TaskAttempt(task.stageId(), task.partitionId(), task.attemptNumber())
    return _threaded(lambda emit: _run_task(program, rows, task, emit), program.name, attempt)


def _run_task(program: PassProgram, rows: Iterator[pa.RecordBatch], task: Any, emit: Callable[..., None]) -> None:
    """Runs the pass for the subtask that the first row names.

    The number of Spark's partition cannot be used, because Spark numbers the partitions of united frames together.
    """
    subtask_index = task.partitionId()
    if program.source_events is not None or program.input.edges is not None:
        first = next(rows)
        subtask_index = first.column(SUBTASK_COLUMN)[0].as_py()
        rows = chain((first,), rows)
    run_program(program, rows, subtask_index, task.attemptNumber(), emit)


def run_program(
    program: PassProgram,
    rows: Iterator[pa.RecordBatch],
    subtask_index: int,
    attempt_number: int,
    emit: Callable[[pa.RecordBatch], None],
) -> None:
    """Runs the pass for one subtask. Passes its rows to `emit`."""
    blocks = BlockRows(subtask_index, emit)

    def forward(accumulators: Any) -> None:
        """Passes on accumulators of earlier passes with the data."""
        if not program.has_columns:
            blocks.add(program.report_output, 0, encode_accumulators(accumulators))

    outputs: list[Any]
    if program.has_columns:
        outputs = [ColumnsOutput(program.writers[0].type_info, emit)]
    else:
        outputs = [ExchangeOutput(writer, blocks, subtask_index, program.parallelism) for writer in program.writers]
    batches = _batches(program, rows, forward)
    if not program.operators:
        for _, batch in batches:
            for output in outputs:
                output.emit(batch)
    else:
        from flinkpy.spark.translation.worker_chain import WorkerChain

        operators = WorkerChain(program, subtask_index, attempt_number, outputs)
        try:
            operators.run(batches)
            accumulators = operators.accumulators()
        finally:
            operators.close()
        for report in operators.sink_reports:
            blocks.add(SINKS, 0, encode_sink_report(report))
        if accumulators:
            forward(accumulators)
    if attempt_number:
        forward({FAILED_ATTEMPTS: str(attempt_number).encode()})
    for output in outputs:
        output.flush()
    blocks.flush()


def _batches(
    program: PassProgram, rows: Iterator[pa.RecordBatch], forward: Callable[[Any], None]
) -> Iterator[tuple[int, Batch]]:
    shape = program.input
    for group in rows:
        if program.source_events is not None:
            continue
        if shape.edges is None:
            for batch in decode_rows(group, shape.type_info, shape.layout, forward):
                yield 0, batch
            continue
        edges = group.column(EDGE_COLUMN).to_pylist()
        for edge, block in zip(edges, group.column(BLOCK_COLUMN)):
            if edge == MARKER_EDGE:
                continue
            content = decode_block(block.as_buffer())
            if isinstance(content, Batch):
                yield shape.edges[edge], content
            elif not isinstance(content, SinkReport):
                forward(content)


def columns_function(type_info: Any) -> RunPass:
    """Returns a function for `DataFrame.mapInArrow` that converts blocks to columns. It drops accumulators."""
    import cloudpickle

    return partial(_to_columns, cloudpickle.dumps(type_info, protocol=pickle.HIGHEST_PROTOCOL))


def _to_columns(payload: bytes, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    type_info = pickle.loads(payload)
    for group in rows:
        for batch in decode_rows(group, type_info, Layout.BLOCKS):
            yield encode_rows(batch, type_info, Layout.COLUMNS)


class _Abandoned(BaseException):
    """Raised in the thread of the chain when Spark needs no more rows."""


def _threaded(
    produce: Callable[[Callable[[pa.RecordBatch], None]], None], name: str, attempt: TaskAttempt | None = None
) -> Iterator[pa.RecordBatch]:
    """Yields the rows that `produce` emits in its own thread. Raises its error as a WorkerFailure of the attempt."""
    ready: queue.Queue[pa.RecordBatch | BaseException | None] = queue.Queue(_QUEUED_GROUPS)
    is_abandoned = threading.Event()

    def put(item: pa.RecordBatch | BaseException | None) -> None:
        while not is_abandoned.is_set():
            try:
                ready.put(item, timeout=1.0)
                return
            except queue.Full:
                continue
        raise _Abandoned

    def run() -> None:
        try:
            try:
                produce(put)
            except _Abandoned:
                raise
            except BaseException as error:  # noqa: BLE001 - raised by the consumer
                put(error)
            else:
                put(None)
        except _Abandoned:
            return

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    try:
        while (item := ready.get()) is not None:
            if isinstance(item, BaseException):
                raise worker_failure(item, name, attempt) from None
            yield item
        thread.join()
    finally:
        is_abandoned.set()
