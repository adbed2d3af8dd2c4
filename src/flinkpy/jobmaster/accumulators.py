"""The accumulators of a job: what its subtasks have reported, merged by name.

The reports are pickles of the user's classes, and only loaded here, in the process of the job itself: the Dispatcher,
who keeps the results of all jobs, hands them on as bytes. What counts is what the present attempts have reported, and
the last ones of tasks that have finished; the values of attempts that failed are dropped with them.

Source: org.apache.flink.runtime.executiongraph.DefaultExecutionGraph#aggregateUserAccumulators,
org.apache.flink.runtime.accumulators.StringifiedAccumulatorResult.
"""

from __future__ import annotations

import logging
import pickle
from collections.abc import Mapping, Sequence
from typing import Any

import cloudpickle

from flinkpy._proto import job_pb2
from flinkpy.common.accumulators import Accumulator, AccumulatorFailure
from flinkpy.common.error_text import USER_ERRORS, bounded_text, describe, safe_repr
from flinkpy.jobmaster.executiongraph.execution_graph import ExecutionGraph

logger = logging.getLogger(__name__)

#: Of all results of a job: they travel, and are kept, with its result.
MAX_BYTES = 8 * 1024 * 1024
#: Of a value that is shown as text.
MAX_TEXT_CHARS = 1_000


def accumulator_reports(graph: ExecutionGraph) -> list[Mapping[str, bytes]]:
    """Of the current attempt of each subtask that has any, in the order of the subtasks."""
    return [vertex.current.accumulators for vertex in graph.vertices if vertex.current.accumulators]


def merge_accumulators(reports: Sequence[Mapping[str, bytes]]) -> list[job_pb2.AccumulatorResult]:
    """One result for each name. Runs code of the user's, so: Thread: I/O.

    One that cannot be loaded, merged or computed gives an AccumulatorFailure; the others do not suffer from it.
    """
    merged: dict[str, Any] = {}
    for report in reports:
        for name, data in report.items():
            merged[name] = _merged(name, merged.get(name), data)
    results = []
    room = MAX_BYTES
    for name, accumulator in sorted(merged.items()):
        result = _result(name, accumulator, room)
        room -= len(result.value_pickle)
        results.append(result)
    return results


def _merged(name: str, so_far: Any, data: bytes) -> Any:
    if isinstance(so_far, AccumulatorFailure):
        return so_far
    try:
        accumulator = pickle.loads(data)
        if so_far is None or isinstance(accumulator, AccumulatorFailure):
            return accumulator
        if _class_name(accumulator) != _class_name(so_far):
            kinds = f"{type(so_far).__name__} and {type(accumulator).__name__}"
            return AccumulatorFailure(name, f"cannot be merged: it is a {kinds} in different tasks")
        so_far.merge(accumulator)
        return so_far
    except USER_ERRORS as error:
        logger.warning("accumulator %s cannot be merged", name, exc_info=error)
        return AccumulatorFailure(name, f"cannot be merged: {describe(error)}")


def _result(name: str, accumulator: Accumulator | AccumulatorFailure, room: int) -> job_pb2.AccumulatorResult:
    value: Any = accumulator
    data = b""
    try:
        if isinstance(accumulator, Accumulator):
            value = accumulator.get_local_value()
        data = cloudpickle.dumps(value)
        if len(data) > room:
            value = AccumulatorFailure(name, f"its result has {len(data)} bytes; all of a job may have {MAX_BYTES}")
    except USER_ERRORS as error:  # the user's own class
        value = AccumulatorFailure(name, f"has no result: {describe(error)}")
    if isinstance(value, AccumulatorFailure):
        data, text = cloudpickle.dumps(value), value.reason
    else:
        text = safe_repr(value, MAX_TEXT_CHARS)
    return job_pb2.AccumulatorResult(
        name=name, type=type(accumulator).__name__, value=bounded_text(text, MAX_TEXT_CHARS), value_pickle=data
    )


def _class_name(value: object) -> tuple[str, str]:
    return type(value).__module__, type(value).__qualname__
