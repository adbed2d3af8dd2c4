"""MapPartitionOperator and PartitionSortOperator: functions that need all records of a subtask.

The records are held in memory, as columns where their type has an Arrow form; a checkpoint writes all of them. Where
that is too much, key the stream: the partitions of a keyed stream are kept by its state backend.

Source: org.apache.flink.streaming.api.operators.{MapPartitionOperator,PartitionSortOperator}. Differs: they can be part
of a checkpoint; nothing is spilled to disk.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from flinkpy.graph.operator_specs import FieldKeySelector
from flinkpy.records.batch import Batch
from flinkpy.state import pickling
from flinkpy.streaming.operators.lane_border import as_columnar, as_rows, has_columns
from flinkpy.streaming.operators.partition_window.partition_operator import OUTPUT_ROWS, PartitionOperator
from flinkpy.streaming.operators.stream_operator import UserFunctionOperator

if TYPE_CHECKING:
    from flinkpy._proto import checkpoint_pb2

_STATE = "partition-records"


class _GatheringOperator(PartitionOperator):
    """Attributes:
    batches: all records so far.
    """

    batches: list[Batch]

    def initialize_state(self, restored: checkpoint_pb2.OperatorSubtaskState | None) -> None:
        super().initialize_state(restored)
        elements = [] if restored is None else self.list_state(_STATE).get()
        self.batches = [Batch(*pickling.loads(element)) for element in elements]

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        if has_columns(self.input_type):
            batch = as_columnar(batch, self.input_type)
        self.batches.append(batch)

    def snapshot_state(self, checkpoint_id: int, options: checkpoint_pb2.CheckpointOptions) -> Any:
        elements = [pickling.dumps((batch.values, batch.timestamps, batch.kinds)) for batch in self.batches]
        self.list_state(_STATE).update(elements)
        return super().snapshot_state(checkpoint_id, options)

    def rows(self) -> Iterator[Any]:
        """Every record once; each batch is let go of when its records are out."""
        batches = self.batches
        batches.reverse()
        while batches:
            yield from as_rows(batches.pop(), self.input_type)


class MapPartitionOperator(_GatheringOperator):
    """Nothing is called where a subtask had no records."""

    def emit_results(self) -> None:
        if self.batches:
            self.emit_rows(self.function.map_partition(self.rows()))


class PartitionSortOperator(_GatheringOperator):
    """Records of equal keys stay in the order in which they came."""

    def checkpointed_functions(self) -> list[Any]:
        return [self.function]

    def open(self) -> None:
        if not isinstance(self.function, FieldKeySelector):
            UserFunctionOperator.open(self)

    def close(self) -> None:
        if not isinstance(self.function, FieldKeySelector):
            UserFunctionOperator.close(self)

    def emit_results(self) -> None:
        if not self.batches:
            return
        batches, self.batches = self.batches, []
        if (table := self._sorted_columns(batches)) is not None:
            for part in table.to_batches(max_chunksize=OUTPUT_ROWS):
                self.emit_batch(Batch(part))
            return
        rows = [row for batch in batches for row in as_rows(batch, self.input_type)]
        rows.sort(key=self.function.get_key, reverse=self.spec.descending)
        self.emit_rows(rows)

    def _sorted_columns(self, batches: list[Batch]) -> pa.Table | None:
        """None where Python must say what the order is: of objects, and where there is none (None, NaN)."""
        if not isinstance(self.function, FieldKeySelector) or not all(batch.is_columnar for batch in batches):
            return None
        table = pa.Table.from_batches([batch.values for batch in batches])
        keys = []
        for field in self.function.fields:
            column = table.column(field)
            if column.null_count or not _has_pythons_order(column.type):
                return None
            if pa.types.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py():
                return None
            keys.append(column)
        order = "descending" if self.spec.descending else "ascending"
        names = [str(position) for position in range(len(keys))]
        # The position settles what is equal: a stable order, whichever way the keys go.
        positions = pa.chunked_array([pa.array(range(table.num_rows), pa.int64())])
        by = pa.table([*keys, positions], [*names, "position"])
        indices = pc.sort_indices(by, [*((name, order) for name in names), ("position", "ascending")])
        return table.take(indices)


def _has_pythons_order(data_type: pa.DataType) -> bool:
    return (
        pa.types.is_integer(data_type)
        or pa.types.is_floating(data_type)
        or pa.types.is_boolean(data_type)
        or pa.types.is_string(data_type)
        or pa.types.is_date(data_type)
    )
