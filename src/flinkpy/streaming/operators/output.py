"""Outputs: take the records that an operator emits.

An operator has one main output and one output per side-output tag. Each leads to operators of the same chain, to
record writers, or to nothing.

Source: org.apache.flink.streaming.api.operators.Output.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from flinkpy.records.batch import Batch
from flinkpy.records.elements import Element

if TYPE_CHECKING:
    from flinkpy.records.type_check import TypeCheck
    from flinkpy.streaming.operators.stream_operator import OperatorContext, StreamOperator


class Output(Protocol):
    """Thread: task thread."""

    def emit(self, batch: Batch) -> None:
        """Passes the batch on. It must not be empty, and must not be changed afterwards."""
        ...

    def emit_element(self, element: Element) -> None:
        """Passes on a watermark, status or marker. It stays behind every batch emitted before it."""
        ...


class DiscardingOutput:
    """Drops everything. Used for a stream without consumers."""

    __slots__ = ()

    def emit(self, batch: Batch) -> None:
        return

    def emit_element(self, element: Element) -> None:
        return


class ChainingOutput:
    """Calls the next operator of the chain directly and counts the records. Any thread may read the count."""

    __slots__ = ("_process_batch", "emit_element", "num_records")

    def __init__(self, operator: StreamOperator) -> None:
        self.num_records = 0
        self._process_batch = operator.process_batch
        self.emit_element = operator.process_element

    def emit(self, batch: Batch) -> None:
        self.num_records += batch.num_rows
        self._process_batch(batch)


class CheckedOutput:
    """Checks Python records against the declared type of their operator before it passes them on."""

    __slots__ = ("_check", "_context", "_output", "emit_element")

    def __init__(self, output: Output, check: TypeCheck, context: OperatorContext) -> None:
        self._output = output
        self._check = check
        self._context = context
        self.emit_element = output.emit_element

    def emit(self, batch: Batch) -> None:
        """Raises: TypeMismatchError, which names the operator, the value and the declared type."""
        values = batch.values
        if isinstance(values, list) and (mismatch := self._check.misfit(values)) is not None:
            raise self._context.type_error(mismatch, values[mismatch.index])
        self._output.emit(batch)


class BroadcastingOutput:
    """Emits to several consumers of one stream. All of them get the same batch, because batches are immutable."""

    __slots__ = ("_outputs",)

    def __init__(self, outputs: list[Output]) -> None:
        self._outputs = outputs

    def emit(self, batch: Batch) -> None:
        for output in self._outputs:
            output.emit(batch)

    def emit_element(self, element: Element) -> None:
        for output in self._outputs:
            output.emit_element(element)


def combine(outputs: list[Output]) -> Output:
    """Returns one output that emits to all of `outputs`."""
    if not outputs:
        return DiscardingOutput()
    return outputs[0] if len(outputs) == 1 else BroadcastingOutput(outputs)
