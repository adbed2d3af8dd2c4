"""Creates the program that workers run from a planned pass."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa

from flinkpy.functions.function import Function
from flinkpy.graph.operator_specs import SourceSpec
from flinkpy.graph.pickling import dumps_function
from flinkpy.graph.spark_region import SparkNode, SparkRegion
from flinkpy.spark.stream_frame import Layout, frame_schema
from flinkpy.spark.translation.planner import PassUnit
from flinkpy.spark.translation.program import (
    PASS_SCHEMA,
    SINKS,
    JobFacts,
    Link,
    PassInput,
    PassOperator,
    PassProgram,
    PassWriter,
)
from flinkpy.spark.translation.split_assignment import assign_splits

#: As in native batch mode, keys come one after the other, and there are no checkpoints.
_FIXED_OPTIONS = {
    "execution.runtime-mode": "BATCH",
    "state.backend.type": "hashmap",
    "execution.checkpointing.interval": "0 ms",
}


def job_of_region(region: SparkRegion, job: JobFacts) -> JobFacts:
    """Returns the job with the configuration that operators see."""
    return replace(job, configuration={**region.options, **job.configuration, **_FIXED_OPTIONS})


def program_of(
    unit: PassUnit,
    shape: PassInput,
    job: JobFacts,
    *,
    has_columns: bool,
    report_output: int,
    may_speculate: bool = False,
) -> PassProgram:
    """Returns the program of a pass. Raises: FunctionSerializationError, and the errors of a source's enumerator."""
    head = unit.head
    source_events = None
    if isinstance(head.spec, SourceSpec):
        source_events = assign_splits(head.spec.source, head.parallelism, head.name)
    return PassProgram(
        name=unit.name,
        job=job,
        parallelism=head.parallelism,
        max_parallelism=head.max_parallelism,
        operators=tuple(_operator(unit, node) for node in unit.nodes),
        writers=tuple(_writers(unit)),
        input=shape,
        num_inputs=1 + max((edge.input_index for edge in head.inputs), default=0),
        has_columns=has_columns,
        report_output=report_output,
        source_events=source_events,
        may_speculate=may_speculate,
    )


def router_program(name: str, writer: PassWriter, shape: PassInput, job: JobFacts) -> PassProgram:
    """Returns a program without operators, which only routes the records of a frame."""
    return PassProgram(
        name=name,
        job=job,
        parallelism=1,
        max_parallelism=1,
        operators=(),
        writers=(writer,),
        input=shape,
        report_output=writer.output,
    )


def schema_of(program: PassProgram) -> pa.Schema:
    """Returns the schema of the rows that the pass emits."""
    return frame_schema(program.writers[0].type_info, Layout.COLUMNS) if program.has_columns else PASS_SCHEMA


def report_output_of(unit: PassUnit, readers_of_reports: set[tuple[int, str | None]]) -> int:
    """Returns the output for accumulators, whose reader passes them on; SINKS if there is none."""
    for number, output in enumerate(unit.outputs):
        if output.edge is not None or output.stream in readers_of_reports:
            return number
    return SINKS


def may_have_accumulators(unit: PassUnit) -> bool:
    """Returns True if a function has `open`, which is the only way to a RuntimeContext and its accumulators."""
    return any(_has_open(function) for node in unit.nodes for function in _functions_of(node.spec))


def _has_open(function: Any) -> bool:
    opener = getattr(type(function), "open", None)
    return opener is not None and opener is not Function.open


def _functions_of(spec: Any) -> list[Any]:
    """Returns all objects in a spec that may be user functions."""
    spec = getattr(spec, "operator", spec)
    found: list[Any] = []
    for name in (
        "function",
        "key_selector",
        "key_selectors",
        "aggregation",
        "assigner",
        "trigger",
        "evictor",
        "window",
        "source",
        "sink",
    ):
        value = getattr(spec, name, None)
        if name in ("source", "sink"):
            value = getattr(value, f"{name}_function", None)
        elif name == "window" and value is not None:
            found.extend(_functions_of(value))
            continue
        found.extend(value if isinstance(value, tuple) else (value,))
    return [one for one in found if one is not None]


def _operator(unit: PassUnit, node: SparkNode) -> PassOperator:
    links = [
        Link(edge.tag, chained=position)
        for position, follower in enumerate(unit.nodes)
        if position
        for edge in follower.inputs
        if edge.source == node.id
    ]
    links += [
        Link(output.stream[1], writer=number)
        for number, output in enumerate(unit.outputs)
        if output.stream[0] == node.id
    ]
    function = getattr(node.spec, "function", None)
    return PassOperator(node.operator_id, node.name, dumps_function(node.spec, function, node.name), tuple(links))


def _writers(unit: PassUnit) -> list[PassWriter]:
    writers = []
    for number, output in enumerate(unit.outputs):
        if output.edge is None:
            writers.append(PassWriter(number, output.type_info))
            continue
        assert output.consumer is not None
        writers.append(
            PassWriter(
                number,
                output.type_info,
                output.edge.partitioner,
                output.consumer.parallelism,
                output.consumer.max_parallelism,
            )
        )
    return writers
