"""ReduceOperator: runs a rolling reduce on a keyed stream. It emits one result per record.

Source: org.apache.flink.streaming.api.operators.StreamGroupedReduceOperator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flinkpy.common.error_text import USER_ERRORS
from flinkpy.graph.operator_specs import KeyedSpec
from flinkpy.records.batch import Batch
from flinkpy.state.heap_states import HeapValueState
from flinkpy.streaming.operators.keyed_operator import KeyedOperator
from flinkpy.streaming.operators.lane_border import as_rows
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.rolling_functions import RollingReduce
from flinkpy.streaming.operators.stream_operator import OperatorContext, OperatorStateDescriptor

if TYPE_CHECKING:
    from flinkpy._proto import checkpoint_pb2

_STATE_NAME = "_op_state"


class ReduceOperator(KeyedOperator):
    """Keeps and emits the result of `reduce(accumulated, value)` for each record."""

    def __init__(
        self,
        spec: KeyedSpec,
        reduce: Callable[[Any, Any], Any],
        input_type: Any,
        context: OperatorContext,
        output: Output,
        side: dict[str, Output],
    ) -> None:
        super().__init__(spec, input_type, context, output, side)
        self._reduce = reduce
        self._state: Any = None

    def initialize_state(self, restored: checkpoint_pb2.OperatorSubtaskState | None) -> None:
        super().initialize_state(restored)
        self._state = self.backend.value_state(OperatorStateDescriptor(_STATE_NAME, self.input_type))

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        rows = as_rows(batch, self.input_type)
        try:
            # While a snapshot shares the values, user functions must not get them directly: they could change them.
            state = self._state
            if isinstance(state, HeapValueState) and (not state.is_shared or isinstance(self._reduce, RollingReduce)):
                out = self._reduce_in_table(rows, state.table)
            else:
                out = self._reduce_in_state(rows)
        except USER_ERRORS as error:
            raise self.context.function_error(error) from error
        self.output.emit(batch.with_values(out))

    def _reduce_in_table(self, rows: list[Any], table: dict[Any, Any]) -> list[Any]:
        """Reduces directly in the table of a heap state. Sets the key context for functions that have own state."""
        reduce, context = self._reduce, self.key_context
        if isinstance(reduce, RollingReduce):
            reduce = reduce.for_batch(rows)
        out = []
        for key, value in zip(self.read_keys(rows), rows):
            context.key = key
            # `in` and `[]` together cost less than one call of `get`.
            if key in table:
                value = reduce(table[key], value)
            table[key] = value
            out.append(value)
        return out

    def _reduce_in_state(self, rows: list[Any]) -> list[Any]:
        """Reduces with one read and one write of the state for the whole batch."""
        reduce, context = self._reduce, self.key_context
        if isinstance(reduce, RollingReduce):
            reduce = reduce.for_batch(rows)
        keys = self.read_keys(rows)
        distinct = list(dict.fromkeys(keys))
        table = dict(zip(distinct, self._state.get_many(distinct)))
        out = []
        for key, value in zip(keys, rows):
            context.key = key
            accumulated = table[key]
            if accumulated is not None:
                value = reduce(accumulated, value)
            table[key] = value
            out.append(value)
        self._state.put_many(distinct, table.values())
        return out
