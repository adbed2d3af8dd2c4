"""TableWindowInputs: the key columns and arguments of the aggregates over windows.

Source: org.apache.flink.table.planner.plan.nodes.exec.stream.StreamExecWindowAggregate.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.sql.rex import AggregateCall
from flinkpy.state.aggregate_table import AggregateColumn
from flinkpy.state.table_accumulators import SQL, Stored, Weighted
from flinkpy.streaming.operators.table.aggregate_handler import (
    argument_of,
    filter_mask,
    filtered,
    key_columns,
    key_types,
    window_aggregate_column,
)

#: The hidden last column of a batch of changes: 1 for rows that add, -1 for rows that take back.
WEIGHTS = "$weights"


class TableWindowInputs:
    """The columns of rows that are aggregated in windows.

    Attributes:
        aggregates: the aggregates of the state: those of the calls, and a hidden COUNT(*) if rows may be taken back.
        count: the position of that COUNT(*); None if there is none.
    """

    def __init__(
        self,
        schema: pa.Schema,
        grouping: Sequence[int],
        calls: Sequence[AggregateCall],
        needs_retraction: bool,
        operator_name: str,
    ) -> None:
        self._grouping = grouping
        self._calls = calls
        self.key_types = key_types(schema, grouping)
        try:
            self.aggregates = [window_aggregate_column(call, schema, needs_retraction) for call in calls]
            for aggregate in self.aggregates:
                aggregate.create_accumulator()
        except UnsupportedOperationError as error:
            raise UnsupportedOperationError(f"operator {operator_name}: {error.message}") from None
        self.count = None
        if needs_retraction:
            self.count = len(self.aggregates)
            self.aggregates.append(AggregateColumn(f"{SQL}COUNT"))

    def key_columns(self, columns: pa.RecordBatch) -> list[pa.Array]:
        return key_columns(columns, self._grouping)

    def value_columns(self, columns: pa.RecordBatch) -> list[Any]:
        """Returns the argument of each aggregate: an array, None for COUNT(*), or a Weighted."""
        weights = None
        if self.count is not None:
            weights = columns.column(columns.num_columns - 1).to_numpy()
        values: list[Any] = []
        for call in self._calls:
            mask = None if call.filter_index is None else filter_mask(columns, call.filter_index)
            own = filtered(weights, mask)
            argument = argument_of(call, columns)
            values.append(argument if own is None else Weighted(argument, own))
        if weights is not None:
            values.append(Weighted(None, weights))
        return values


class AccumulatorInputs(TableWindowInputs):
    """The columns of a local aggregation's output: grouping columns, accumulators, then the slice's end.

    Args:
        schema: of the input of the local aggregation, which the calls refer to.
        local_schema: of its output.
        num_keys: the number of grouping columns.
    """

    def __init__(
        self,
        schema: pa.Schema,
        local_schema: pa.Schema,
        num_keys: int,
        calls: Sequence[AggregateCall],
        operator_name: str,
    ) -> None:
        super().__init__(schema, (), calls, False, operator_name)
        self._grouping = tuple(range(num_keys))
        self.key_types = key_types(local_schema, self._grouping)
        self._widths = [aggregate.create_accumulator().num_columns for aggregate in self.aggregates]

    def value_columns(self, columns: pa.RecordBatch) -> list[Any]:
        values: list[Any] = []
        at = len(self._grouping)
        for width in self._widths:
            values.append(Stored([columns.column(position) for position in range(at, at + width)]))
            at += width
        return values


def accumulator_columns(keys: list[pa.Array], accumulators: Sequence[Any], size: int) -> list[pa.Array]:
    """Returns the output columns of a local aggregation, without the slice's end."""
    slots = np.arange(size)
    return [*keys, *(column for each in accumulators for column in each.columns(slots))]
