"""BatchColumnAggregateOperator: keyed aggregates over columns in batch mode. Emits one row per key at the end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from flinkpy.graph.operator_specs import ColumnAggregateSpec, FieldKeySelector
from flinkpy.records.batch import Batch
from flinkpy.records.elements import Watermark
from flinkpy.state.aggregate_table import TableLayout
from flinkpy.streaming.operators.aggregate_inputs import AggregateInputs, require_key_of_columns
from flinkpy.streaming.operators.batch.batch_operator import no_checkpoints
from flinkpy.streaming.operators.column_aggregation.grouped_aggregation import GroupedAggregation
from flinkpy.streaming.operators.column_aggregation.partials import PartialAggregates
from flinkpy.streaming.operators.lane_border import inserted_columns
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.stream_operator import OperatorContext, OperatorSnapshot, StreamOperator
from flinkpy.streaming.sort.memory import column_operator_bytes, spill_directory

if TYPE_CHECKING:
    from flinkpy._proto import checkpoint_pb2
import numpy as np

from flinkpy.state.aggregate_table import HeapAggregateTable
from flinkpy.streaming.operators.column_aggregation.grouped_aggregation import (
    MAX_LEVEL,
    MAX_RESULT_ROWS,
    NUM_PARTITIONS,
    partitions_of,
    write_partitioned,
)
from flinkpy.streaming.sort.spill_file import ColumnSpillFile, SpillDirectory

#: The size of a key's entries in hash tables that are half full, without the key itself.
_BYTES_PER_KEY = 64
_BYTES_PER_ACCUMULATOR = 32


class TableAggregation:
    """Computes aggregates that Arrow does not support, such as compiled ones, in a table of accumulators.

    When the table exceeds its memory, it is written to files partitioned by key, and later rows are written to files,
    too. So the rows of a key are still added one after the other, and accumulators need no `merge`.

    Thread: task thread.

    Args:
        level: how often the keys have been partitioned.
    """

    def __init__(self, layout: TableLayout, spills: SpillDirectory, memory_bytes: int, level: int = 0) -> None:
        self._layout = layout
        self._spills = spills
        self._memory_bytes = memory_bytes
        self._level = level
        self._table = HeapAggregateTable(layout)
        self._key_bytes = 0
        self._state_files: list[ColumnSpillFile] | None = None
        self._row_files: list[ColumnSpillFile] = []

    @property
    def has_spilled(self) -> bool:
        return self._state_files is not None

    def add(self, keys: list[pa.Array], values: list[pa.Array | None]) -> None:
        if self._state_files is not None:
            self._write_rows(keys, values)
            return
        table = self._table
        known = table.size
        table.add(keys, values)
        new = table.size - known
        if new and len(keys[0]):
            self._key_bytes += new * sum(key.nbytes for key in keys) // len(keys[0])
        self._spill_if_large()

    def results(self) -> Iterator[tuple[list[pa.Array], list[pa.Array]]]:
        """Yields (key columns, result columns), with each key once."""
        if self._state_files is None:
            table = self._table
            keys = table.keys()
            for start in range(0, table.size, MAX_RESULT_ROWS):
                end = min(start + MAX_RESULT_ROWS, table.size)
                slots = np.arange(start, end)
                yield [key.slice(start, end - start) for key in keys], table.results(slots)
            return
        width = len(self._layout.key_types)
        for index, state in enumerate(self._state_files):
            rows = self._row_files[index] if self._row_files else None
            part = TableAggregation(self._layout, self._spills, self._memory_bytes, self._level + 1)
            for batch in state.read():
                part._restore(batch)
            part._spill_if_large()
            for batch in rows.read() if rows is not None else ():
                part.add(batch.columns[:width], self._values_of(batch.columns[width:]))
            state.delete()
            if rows is not None:
                rows.delete()
            yield from part.results()

    def _restore(self, batch: pa.RecordBatch) -> None:
        self._table.restore_batch(batch)
        self._key_bytes += sum(column.nbytes for column in batch.columns[: len(self._layout.key_types)])

    def _spill_if_large(self) -> None:
        per_key = _BYTES_PER_KEY + _BYTES_PER_ACCUMULATOR * len(self._layout.aggregates)
        used_bytes = self._key_bytes + self._table.size * per_key + self._table.extra_bytes
        if used_bytes < self._memory_bytes or self._level >= MAX_LEVEL:
            return
        batch = self._table.to_batch()
        self._table = HeapAggregateTable(self._layout)
        if self._state_files is None:
            self._state_files = [self._spills.column_file(batch.schema) for _ in range(NUM_PARTITIONS)]
        keys = batch.columns[: len(self._layout.key_types)]
        write_partitioned(pa.Table.from_batches([batch]), partitions_of(keys, self._level), self._state_files)

    def _write_rows(self, keys: list[pa.Array], values: list[pa.Array | None]) -> None:
        columns = [*keys, *(value for value in values if value is not None)]
        batch = pa.RecordBatch.from_arrays(columns, names=[f"c{i}" for i in range(len(columns))])
        if not self._row_files:
            self._row_files = [self._spills.column_file(batch.schema) for _ in range(NUM_PARTITIONS)]
        write_partitioned(pa.Table.from_batches([batch]), partitions_of(keys, self._level), self._row_files)

    def _values_of(self, columns: list[pa.Array]) -> list[pa.Array | None]:
        """Returns the value column of each aggregate; None for a COUNT of rows."""
        given = iter(columns)
        return [None if aggregate.value_type is None else next(given) for aggregate in self._layout.aggregates]


class BatchColumnAggregateOperator(StreamOperator):
    """Thread: task thread."""

    def __init__(
        self,
        spec: ColumnAggregateSpec,
        input_type: Any,
        context: OperatorContext,
        output: Output,
        side_outputs: dict[str, Output],
    ) -> None:
        require_key_of_columns(spec.key_selector, context)
        super().__init__(context, output, side_outputs)
        self._spec = spec
        self._input_type = input_type
        self._memory_bytes = column_operator_bytes(context)
        self._spills = spill_directory(context)
        self._watermark: Watermark | None = None
        self._inputs: AggregateInputs | None = None
        self._partials: PartialAggregates | None = None
        self._grouped: GroupedAggregation | None = None
        self._table: TableAggregation | None = None

    def key_of_input(self, input_index: int) -> tuple[Any, Any, Any]:
        return self._spec.key_selector, self._spec.key_type, self._input_type

    def snapshot_state(self, checkpoint_id: int, options: checkpoint_pb2.CheckpointOptions) -> OperatorSnapshot:
        raise no_checkpoints(self.context)

    def process_watermark(self, watermark: Watermark) -> None:
        self._watermark = watermark

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        columns = inserted_columns(batch, self._input_type, self.context.name)
        inputs = self._inputs
        if inputs is None:
            inputs = self._inputs = self._set_up(columns.schema)
        keys = inputs.key_columns(columns)
        if self._grouped is not None and self._partials is not None:
            self._grouped.add(self._partials.rows(keys, columns))
        elif self._table is not None:
            self._table.add(keys, inputs.value_columns(columns))

    def _set_up(self, schema: pa.Schema) -> AggregateInputs:
        selector = self._spec.key_selector
        assert isinstance(selector, FieldKeySelector)
        inputs = AggregateInputs(schema, selector, self._spec.aggregates, self.context.name)
        if PartialAggregates.can_group(inputs.key_types, inputs.aggregates):
            self._partials = PartialAggregates(inputs.key_types, inputs.aggregates, inputs.value_positions)
            self._grouped = GroupedAggregation(self._partials, self._spills, self._memory_bytes)
        else:
            layout = TableLayout(tuple(inputs.key_types), tuple(inputs.aggregates))
            self._table = TableAggregation(layout, self._spills, self._memory_bytes)
        return inputs

    def finish(self) -> None:
        inputs = self._inputs
        if inputs is not None:
            names = inputs.key_names + [aggregate.name for aggregate in self._spec.aggregates]
            num_keys = len(inputs.key_names)
            for keys, results in self._results():
                self.output.emit(Batch(pa.RecordBatch.from_arrays([*keys[:num_keys], *results], names=names)))
        if self._watermark is not None:
            self.emit_to_all(self._watermark)

    def _results(self) -> Iterator[tuple[list[pa.Array], list[pa.Array]]]:
        if self._table is not None:
            yield from self._table.results()
        elif self._grouped is not None and self._partials is not None:
            width = len(self._partials.key_names)
            for batch in self._grouped.results():
                yield batch.columns[:width], self._partials.results(batch)

    def close(self) -> None:
        self._spills.close()
