"""LookupJoinOperator: joins each row with the rows that a LookupFunction finds for its key.

The function is asked once per batch, for its distinct keys. A key with NULL finds nothing. Output rows have
the kind of their input row.

Source: org.apache.flink.table.runtime.operators.join.lookup.LookupJoinRunner.
Differs: lookups that the source allows to run side by side are called one after the other, with a batch of keys each.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.functions.table_functions import FunctionContext
from flinkpy.graph.table_specs import JoinType, LookupJoinSpec
from flinkpy.records.batch import Batch
from flinkpy.state.key_index import KeyIndex, KeyWords
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.runtime_context import StreamingRuntimeContext
from flinkpy.streaming.operators.stream_operator import OperatorContext, StreamOperator
from flinkpy.streaming.operators.table.conditions import as_mask, expressions, pair_condition
from flinkpy.streaming.operators.table.table_inputs import (
    MAX_ROWS,
    columns_of,
    emit_columns,
    input_schema,
    null_rows,
    take_or_null,
)
from flinkpy.streaming.operators.table.two_table_join import with_lonely


class LookupJoinOperator(StreamOperator):
    """Thread: task thread."""

    def __init__(
        self,
        spec: LookupJoinSpec,
        input_type: Any,
        context: OperatorContext,
        output: Output,
        side_outputs: dict[str, Output],
    ) -> None:
        super().__init__(context, output, side_outputs)
        if spec.retry is not None:
            raise UnsupportedOperationError(
                f"operator {context.name}: the LOOKUP hint's retry is not supported yet: remove 'retry-predicate'"
            )
        if spec.join_type not in (JoinType.INNER, JoinType.LEFT):
            raise UnsupportedOperationError(
                f"operator {context.name}: a lookup join is an INNER or LEFT join, not {spec.join_type.value}"
            )
        self._spec = spec
        self._input_type = input_type
        self._schema = input_schema(input_type)
        self._table_schema = input_schema(spec.table_type)
        self._key_names = [self._table_schema.names[column] for column, _ in spec.keys]
        self._keys = expressions([expression for _, expression in spec.keys], spec.settings)
        self._table_condition = None if spec.condition is None else expressions([spec.condition], spec.settings)
        self._projection = None if spec.projection is None else expressions(spec.projection, spec.settings)
        self._condition = pair_condition(spec.join_condition, spec.settings)
        self._output_schema = input_schema(spec.output_type)
        self._is_open = False

    def open(self) -> None:
        context = StreamingRuntimeContext(self.context, None)
        for part in (self._keys, self._table_condition, self._projection):
            if part is not None:
                part.open(FunctionContext(context))
        if self._condition is not None:
            self._condition.open(context)
        self._is_open = True
        self._spec.lookup.open(context)

    def close(self) -> None:
        if not self._is_open:
            return
        self._spec.lookup.close()
        for part in (self._keys, self._table_condition, self._projection, self._condition):
            if part is not None:
                part.close()

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        columns = columns_of(batch, self._input_type)
        keys = self._keys.evaluate(pa.RecordBatch.from_arrays(columns, schema=self._schema))
        positions, found, rows = self._found(keys, len(columns[0]))
        for part_positions, part_found in self._parts(columns, positions, found, rows):
            indices = pa.array(part_positions)
            values = [column.take(indices) for column in columns]
            values += [take_or_null(column, part_found) for column in rows]
            kinds = None if batch.kinds is None else batch.kinds[part_positions]
            emit_columns(self.output, self._output_schema, values, kinds)

    def _found(self, keys: list[pa.Array], length: int) -> tuple[np.ndarray, np.ndarray, list[pa.Array]]:
        """Looks up the keys.

        Returns: int64[m], int64[m]: pairs of a position in the batch, ascending, and a row; the columns of the rows.
        """
        is_null = null_rows(keys)
        asked = np.arange(length) if is_null is None else np.flatnonzero(~is_null)
        indices = pa.array(asked)
        keys = [key.take(indices) for key in keys]
        numbers, firsts = KeyIndex(KeyWords([key.type for key in keys])).slots_of(keys)
        if not len(asked):
            rows = [pa.array([], kind) for kind in self._output_schema.types[len(self._schema) :]]
            return asked, asked, rows
        chosen = pa.array(firsts)
        wanted = pa.RecordBatch.from_arrays([key.take(chosen) for key in keys], names=self._key_names)
        key_of_row, table = self._spec.lookup.lookup(wanted)
        if self._table_condition is not None and table.num_rows:
            kept = np.flatnonzero(as_mask(self._table_condition.evaluate_condition(table)))
            key_of_row, table = key_of_row[kept], table.take(pa.array(kept))
        rows = table.columns if self._projection is None else self._projection.evaluate(table)
        starts = np.searchsorted(key_of_row, np.arange(len(firsts)))
        counts = np.diff(starts, append=len(key_of_row))
        repeats = counts[numbers]
        positions = np.repeat(asked, repeats)
        within = np.arange(len(positions)) - np.repeat(np.cumsum(repeats) - repeats, repeats)
        return positions, np.repeat(starts[numbers], repeats) + within, list(rows)

    def _parts(self, columns: list[pa.Array], positions: np.ndarray, found: np.ndarray, rows: list[pa.Array]) -> Any:
        """Yields pairs to emit, in the order of the batch. A negative row is NULL."""
        condition = self._condition
        if condition is not None and len(positions):
            num_left = len(columns)

            def values_of(part: slice) -> list[pa.Array]:
                left, right = pa.array(positions[part]), pa.array(found[part])
                return [
                    columns[column].take(left) if column < num_left else rows[column - num_left].take(right)
                    for column in condition.columns
                ]

            mask = condition.mask_of(len(positions), values_of)
            positions, found = positions[mask], found[mask]
        if self._spec.join_type is JoinType.LEFT:
            alone = np.ones(len(columns[0]), dtype=bool)
            alone[positions] = False
            positions, found = with_lonely(positions, found, np.flatnonzero(alone))
        for start in range(0, len(positions), MAX_ROWS):
            yield positions[start : start + MAX_ROWS], found[start : start + MAX_ROWS]
