"""FusedRowOperator: runs a chain of map, filter and flat_map on Python objects as one loop over the batch.

Differs: in Flink each function has an operator, which calls the next one per record. Users see no difference, because
nothing can happen between two records of a batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from flinkpy.common.error_text import USER_ERRORS
from flinkpy.common.errors import FlinkError, InternalError
from flinkpy.records.batch import Batch
from flinkpy.records.type_check import type_check
from flinkpy.streaming.operators.fused_code import RowStep, Step, compile_steps
from flinkpy.streaming.operators.lane_border import as_rows
from flinkpy.streaming.operators.output import DiscardingOutput, Output
from flinkpy.streaming.operators.runtime_context import StreamingRuntimeContext
from flinkpy.streaming.operators.stream_operator import (
    OperatorContext,
    OperatorSnapshot,
    RestoredStates,
    StreamOperator,
    UserFunctionOperator,
    close_function,
    has_checkpoint_methods,
    open_function,
)

if TYPE_CHECKING:
    from flinkpy._proto import checkpoint_pb2
    from flinkpy.state.operator_state import OperatorStateBackend

_METHODS = {RowStep.MAP: "map", RowStep.FILTER: "filter", RowStep.FLAT_MAP: "flat_map"}


@dataclass(frozen=True, slots=True)
class FusedStep:
    """One function of the chain and its operator."""

    kind: RowStep
    function: Any
    context: OperatorContext
    #: The declared type of the results, if no other operator checks it.
    declared_type: Any = None

    def compilable(self) -> Step:
        """Returns the step in the form that the code generator takes."""
        check = type_check(self.declared_type)
        context = self.context

        def on_misfit(value: Any) -> bool:
            assert check is not None
            if (mismatch := check.misfit([value])) is not None:
                raise context.type_error(mismatch, value)
            return True

        return Step(self.kind, getattr(self.function, _METHODS[self.kind]), check, on_misfit)


class _StepState(UserFunctionOperator):
    """Holds the state of one step. It never processes records."""

    def __init__(self, step: FusedStep) -> None:
        super().__init__(step.context, DiscardingOutput(), {}, step.function)

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        raise InternalError(f"operator {self.context.name} runs as part of another operator")


class FusedRowOperator(StreamOperator):
    """Source: org.apache.flink.streaming.api.operators.{StreamMap,StreamFilter,StreamFlatMap}."""

    def __init__(self, steps: list[FusedStep], input_type: Any, output: Output, side_outputs: dict[str, Output]):
        super().__init__(steps[0].context, output, side_outputs)
        self._steps = steps
        self._input_type = input_type
        self._owners: dict[str, _StepState] = {}
        self._only_filters = all(step.kind is RowStep.FILTER for step in steps)
        self._fused = compile_steps(
            [step.compilable() for step in steps],
            [step.context.name for step in steps],
        )

    # -- state: each step has its own, under the id of its operator ----------------------------------------------------

    def restore(self, states: RestoredStates) -> None:
        for step in reversed(self._steps):
            if has_checkpoint_methods(step.function):
                owner = self._owners[step.context.operator_id] = _StepState(step)
                owner.restore(states)
            elif (restored := states(step.context.operator_id)) is not None:
                # The function does not use its state, but later checkpoints must still contain it.
                owner = self._owners[step.context.operator_id] = _StepState(step)
                owner.initialize_state(restored)

    @property
    def task_state(self) -> OperatorStateBackend:
        first = self._steps[0]
        owner = self._owners.get(first.context.operator_id)
        if owner is None:
            owner = self._owners[first.context.operator_id] = _StepState(first)
        return owner.operator_state

    def snapshots(self, checkpoint_id: int, options: checkpoint_pb2.CheckpointOptions) -> dict[str, OperatorSnapshot]:
        taken: dict[str, OperatorSnapshot] = {}
        try:
            for operator_id, owner in self._owners.items():
                owner.checkpoint_timestamp_ms = self.checkpoint_timestamp_ms
                taken[operator_id] = owner.snapshot_state(checkpoint_id, options)
        except BaseException:
            for snapshot in taken.values():
                snapshot.release()
            raise
        return taken

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        for owner in self._owners.values():
            owner.notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        for owner in self._owners.values():
            owner.notify_checkpoint_aborted(checkpoint_id)

    # -- data ----------------------------------------------------------------------------------------------------

    def open(self) -> None:
        for step in reversed(self._steps):
            open_function(step.function, StreamingRuntimeContext(step.context), step.context, step.context.name)

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        if self._only_filters and batch.is_columnar:
            self._filter_columns(batch)
            return
        rows = as_rows(batch, self._input_type)
        fused = self._fused
        timestamps, kinds = batch.timestamps, batch.kinds
        try:
            if timestamps is None and kinds is None:
                result = Batch(fused.values_only(rows))
            elif fused.keeps_positions:
                result = Batch(fused.values_only(rows), timestamps, kinds)
            else:
                values, kept = fused.with_indices(rows)
                indices = np.array(kept, dtype=np.int64)
                result = Batch(
                    values,
                    None if timestamps is None else timestamps[indices],
                    None if kinds is None else kinds[indices],
                )
        except USER_ERRORS as error:
            raise self._attribute(error) from error
        if result.values:
            self.output.emit(result)

    def _filter_columns(self, batch: Batch) -> None:
        """Filters a columnar batch. The functions get rows, but the records that they keep stay in columns."""
        rows = as_rows(batch, self._input_type)
        try:
            _, kept = self._fused.with_indices(rows)
        except USER_ERRORS as error:
            raise self._attribute(error) from error
        if len(kept) == len(rows):
            self.output.emit(batch)
        elif kept:
            self.output.emit(batch.take(np.array(kept, dtype=np.int64)))

    def _attribute(self, error: BaseException) -> FlinkError:
        """Returns the error with the name of the operator that was running, found by the line of the generated code."""
        step = self._steps[0]
        traceback = error.__traceback__
        while traceback is not None:
            if traceback.tb_frame.f_code.co_filename == self._fused.file_name:
                index = self._fused.step_of_line(traceback.tb_lineno)
                if index is not None:
                    step = self._steps[index]  # the innermost frame counts: segments of a long chain call each other
            traceback = traceback.tb_next
        return step.context.function_error(error)

    def close(self) -> None:
        failure: BaseException | None = None
        for step in self._steps:
            try:
                close_function(step.function, step.context, step.context.name)
            except BaseException as error:  # noqa: BLE001 - every function is closed; the first failure is raised after
                failure = failure or error
        if failure is not None:
            raise failure
