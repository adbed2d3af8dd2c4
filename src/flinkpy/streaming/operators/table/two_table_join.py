"""TwoTableJoinOperator: the base class of joins that keep the rows of both inputs in RowTables.

A pair is either a position in a batch and a row of the other input's table, or a row of each table. A negative number
is a row of NULL.

Source: org.apache.flink.table.runtime.operators.join.JoinConditionWithNullFilters, ...join.OuterJoinPaddingUtil.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from flinkpy.graph.table_specs import JoinType
from flinkpy.records.batch import Batch
from flinkpy.state.backend import KeyContext
from flinkpy.state.row_table import RowTable
from flinkpy.streaming.operators.keyed_operator import KeyedStateOperator
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.stream_operator import OperatorContext
from flinkpy.streaming.operators.table.conditions import pair_condition
from flinkpy.streaming.operators.table.table_inputs import (
    MAX_ROWS,
    columns_of,
    emit_columns,
    input_schema,
    null_rows,
    take_or_null,
)

#: The names of the tables in the state.
TABLE_NAMES = ("left-records", "right-records")
NO_ROWS = np.empty(0, dtype=np.int64)


class TwoTableJoinOperator(KeyedStateOperator):
    """Thread: task thread."""

    #: The rows of the left and of the right input; `initialize_state` sets them.
    _tables: tuple[RowTable, RowTable]

    def __init__(
        self,
        spec: Any,
        input_types: tuple[Any, Any],
        context: OperatorContext,
        output: Output,
        side_outputs: dict[str, Output],
    ) -> None:
        super().__init__(None, spec.key_selectors, spec.key_type, context, output, side_outputs, KeyContext())
        self._spec = spec
        self._input_types = input_types
        self._schemas = tuple(map(input_schema, input_types))
        self._keys = (spec.left_keys, spec.right_keys)
        join_type = spec.join_type
        self._is_semi_or_anti = join_type in (JoinType.SEMI, JoinType.ANTI)
        self._is_outer = (
            join_type in (JoinType.LEFT, JoinType.FULL),
            join_type in (JoinType.RIGHT, JoinType.FULL),
        )
        self._condition = pair_condition(spec.condition, spec.settings)
        if spec.output_type is not None:
            self._output_schema = input_schema(spec.output_type)
        else:
            fields = list(self._schemas[0]) + ([] if self._is_semi_or_anti else list(self._schemas[1]))
            self._output_schema = pa.schema(fields)

    def key_of_input(self, input_index: int) -> tuple[Any, Any, Any]:
        return self.key_selectors[input_index], self.key_type, self._input_types[input_index]

    def open(self) -> None:
        super().open()
        if self._condition is not None:
            self._condition.open(self.create_runtime_context())

    def close(self) -> None:
        if self._condition is not None:
            self._condition.close()
        super().close()

    def _columns_of(self, batch: Batch, side: int) -> list[pa.Array]:
        return columns_of(batch, self._input_types[side])

    def _unmatchable(self, columns: list[pa.Array], side: int) -> np.ndarray | None:
        """Returns a mask of the rows that match nothing because of NULL; None if there are none."""
        return self._unmatchable_keys([columns[key] for key in self._keys[side]])

    def _unmatchable_keys(self, keys: list[pa.Array]) -> np.ndarray | None:
        return null_rows([key for key, filters in zip(keys, self._spec.filter_nulls) if filters])

    def _partner_slots(self, columns: list[pa.Array], side: int, unmatchable: np.ndarray | None) -> np.ndarray:
        """Returns int64[n]: the slot of each row's key in the table of the other input; negative without rows."""
        table = self._tables[1 - side]
        slots = table.find([columns[key] for key in self._keys[side]] or table.layout.key_columns(columns))
        if unmatchable is not None:
            slots[unmatchable] = -1
        return slots

    # -- pairs of a batch and a table --------------------------------------------------------------------------------

    def _meeting(
        self, columns: list[pa.Array], side: int, positions: np.ndarray, rows: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns the pairs of a position in the batch and a row of the other table that meet the condition."""
        condition = self._condition
        if condition is None or not len(rows):
            return positions, rows
        mask = condition.mask_of(
            len(rows),
            lambda part: self._pair_columns(columns, side, positions[part], rows[part], condition.columns),
        )
        return positions[mask], rows[mask]

    def _pair_columns(
        self, columns: list[pa.Array], side: int, positions: np.ndarray, rows: np.ndarray, wanted: list[int]
    ) -> list[pa.Array]:
        """Returns columns of pairs, numbered from the left to the right row."""
        num_left = len(self._schemas[0])
        is_mine = [(column < num_left) == (side == 0) for column in wanted]
        local = [column if column < num_left else column - num_left for column in wanted]
        theirs = [column for column, mine in zip(local, is_mine) if not mine]
        from_table = iter(taken(self._tables[1 - side], rows, theirs) if theirs else [])
        indices = pa.array(positions) if (positions >= 0).all() else pa.array(positions, mask=positions < 0)
        return [columns[column].take(indices) if mine else next(from_table) for column, mine in zip(local, is_mine)]

    def _emit_pairs(
        self, columns: list[pa.Array], side: int, positions: np.ndarray, rows: np.ndarray, kinds: np.ndarray | None
    ) -> None:
        every = list(range(len(self._output_schema)))
        for start in range(0, len(rows), MAX_ROWS):
            part = slice(start, start + MAX_ROWS)
            values = self._pair_columns(columns, side, positions[part], rows[part], every)
            emit_columns(self.output, self._output_schema, values, None if kinds is None else kinds[part])

    # -- pairs of both tables ----------------------------------------------------------------------------------------

    def _stored_columns(self, left: np.ndarray, right: np.ndarray, wanted: list[int]) -> list[pa.Array]:
        """Returns columns of pairs, numbered from the left to the right row."""
        num_left = len(self._schemas[0])
        from_left = [column for column in wanted if column < num_left]
        from_right = [column - num_left for column in wanted if column >= num_left]
        values = dict(zip(from_left, taken(self._tables[0], left, from_left)))
        values.update(zip((c + num_left for c in from_right), taken(self._tables[1], right, from_right)))
        return [values[column] for column in wanted]

    def _emit_stored(self, left: np.ndarray, right: np.ndarray, kinds: np.ndarray | None = None) -> None:
        every = list(range(len(self._output_schema)))
        for start in range(0, len(left), MAX_ROWS):
            part = slice(start, start + MAX_ROWS)
            values = self._stored_columns(left[part], right[part], every)
            emit_columns(self.output, self._output_schema, values, None if kinds is None else kinds[part])


def with_lonely(positions: np.ndarray, rows: np.ndarray, lonely: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Adds pairs with a row of NULL for the positions `lonely`. The pairs stay in the order of positions."""
    positions = np.concatenate([positions, lonely])
    order = np.argsort(positions, kind="stable")
    return positions[order], np.concatenate([rows, np.full(len(lonely), -1)])[order]


def taken(table: RowTable, rows: np.ndarray, columns: list[int]) -> list[pa.Array]:
    """Returns columns of rows. A negative row has NULL."""
    known = rows >= 0
    if known.all():
        return table.take(rows, columns)
    places = np.where(known, np.cumsum(known) - 1, -1)
    return [take_or_null(column, places) for column in table.take(rows[known], columns)]
