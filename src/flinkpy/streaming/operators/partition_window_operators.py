"""Operators over all records of a subtask: map_partition, sort_partition, reduce and aggregate.

They emit nothing before the end of the input, also no watermarks, because the results would come after them.

Source: org.apache.flink.streaming.api.operators.{MapPartitionOperator,PartitionSortOperator,PartitionReduceOperator,
PartitionAggregateOperator}. Differs: MapPartitionOperator and PartitionSortOperator support checkpoints.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import reduce
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from flinkpy.common.error_text import USER_ERRORS
from flinkpy.common.typeinfo import Types
from flinkpy.functions.state import ListStateDescriptor
from flinkpy.graph.operator_specs import FieldKeySelector
from flinkpy.records.batch import Batch
from flinkpy.records.elements import Watermark
from flinkpy.state import pickling
from flinkpy.streaming.operators.lane_border import as_columnar, as_rows, has_exact_columns
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.partition_sorter import OUTPUT_ROWS, PartitionSorter, sorted_table
from flinkpy.streaming.operators.row_emitter import RowEmitter
from flinkpy.streaming.operators.stream_operator import OperatorContext, UserFunctionOperator
from flinkpy.streaming.sort.batch_queue import BatchQueue
from flinkpy.streaming.sort.memory import sorted_inputs_bytes, spill_directory
from flinkpy.streaming.sort.spill_file import SpillDirectory

if TYPE_CHECKING:
    from flinkpy._proto import checkpoint_pb2
    from flinkpy.graph.operator_specs import PartitionSpec


class PartitionOperator(UserFunctionOperator):
    """Processes all records of a subtask, and emits results at the end of the input. Thread: task thread.

    It holds watermarks back until then, because the results would come after them.
    """

    def __init__(
        self, spec: PartitionSpec, input_type: Any, context: OperatorContext, output: Output, side: dict[str, Output]
    ) -> None:
        super().__init__(context, output, side, spec.function)
        self.spec = spec
        self.input_type = input_type
        self._emitter = RowEmitter(output, side)
        self._watermark: Watermark | None = None

    def process_watermark(self, watermark: Watermark) -> None:
        self._watermark = watermark

    def finish(self) -> None:
        try:
            self.emit_results()
        except USER_ERRORS as error:
            raise self.context.function_error(error) from error
        if self._watermark is not None:
            self.emit_to_all(self._watermark)

    def emit_results(self) -> None:
        """Emits all results. Called at the end of the input."""
        raise NotImplementedError

    def emit_rows(self, results: Iterable[Any] | None) -> None:
        """Emits results in several batches, so that the results of a generator are not all in memory at once."""
        rows = iter(() if results is None else results)
        while part := list(islice(rows, OUTPUT_ROWS)):
            self._emitter.emit(part, None)

    def emit_batch(self, batch: Batch) -> None:
        self.output.emit(batch)

    def list_state(self, name: str) -> Any:
        return self.operator_state.get_list_state(ListStateDescriptor(name, Types.PICKLED_BYTE_ARRAY()))


_ACCUMULATOR_STATE = "partition-accumulator"


class _FoldingOperator(PartitionOperator):
    """Folds the records of a subtask into one accumulator, which is its state.

    Attributes:
        accumulators: empty before the first record. After a restore with fewer subtasks there are several until `open`
            merges them.
    """

    accumulators: list[Any]

    def initialize_state(self, restored: checkpoint_pb2.OperatorSubtaskState | None) -> None:
        super().initialize_state(restored)
        self.accumulators = [] if restored is None else self.list_state(_ACCUMULATOR_STATE).get()

    def open(self) -> None:
        super().open()
        if len(self.accumulators) > 1:
            try:
                self.accumulators = [reduce(self.merge, self.accumulators)]
            except USER_ERRORS as error:
                raise self.context.function_error(error) from error

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        rows = as_rows(batch, self.input_type)
        try:
            self.accumulators = [self.fold(rows)]
        except USER_ERRORS as error:
            raise self.context.function_error(error) from error

    def snapshot_state(self, checkpoint_id: int, options: checkpoint_pb2.CheckpointOptions) -> Any:
        self.list_state(_ACCUMULATOR_STATE).update(self.accumulators)
        return super().snapshot_state(checkpoint_id, options)

    def merge(self, first: Any, second: Any) -> Any:
        raise NotImplementedError

    def fold(self, rows: list[Any]) -> Any:
        raise NotImplementedError


class PartitionReduceOperator(_FoldingOperator):
    """Emits the reduced record, or nothing if the subtask had no records."""

    def merge(self, first: Any, second: Any) -> Any:
        return self.function.reduce(first, second)

    def fold(self, rows: list[Any]) -> Any:
        return reduce(self.function.reduce, [*self.accumulators, *rows])

    def emit_results(self) -> None:
        self.emit_rows(self.accumulators)


class PartitionAggregateOperator(_FoldingOperator):
    """Emits the result of the accumulator, or nothing if the subtask had no records."""

    def merge(self, first: Any, second: Any) -> Any:
        return self.function.merge(first, second)

    def fold(self, rows: list[Any]) -> Any:
        add = self.function.add
        accumulator = self.accumulators[0] if self.accumulators else self.function.create_accumulator()
        for value in rows:
            accumulator = add(value, accumulator)
        return accumulator

    def emit_results(self) -> None:
        self.emit_rows([self.function.get_result(accumulator) for accumulator in self.accumulators])


_RECORDS_STATE = "partition-records"


class _GatheringOperator(PartitionOperator):
    """Collects all records of a subtask.

    The records are held in memory, as columns if their type has an Arrow form. A checkpoint contains all of them. If
    they are too many, key the stream: the state backend keeps the partitions of a keyed stream. In batch mode, which
    has no checkpoints, records that do not fit in memory are written to files.

    Attributes:
        batches: all records so far, if they are held in memory.
        queue: all records so far, in batch mode.
    """

    batches: list[Batch]
    queue: BatchQueue | None = None
    spills: SpillDirectory | None = None

    def initialize_state(self, restored: checkpoint_pb2.OperatorSubtaskState | None) -> None:
        super().initialize_state(restored)
        if self.context.is_batch_mode:
            self.spills = spill_directory(self.context)
            self.queue = BatchQueue(self.spills, sorted_inputs_bytes(self.context))
        elements = [] if restored is None else self.list_state(_RECORDS_STATE).get()
        self.batches = [Batch(*pickling.loads(element)) for element in elements]

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        if has_exact_columns(self.input_type):
            batch = as_columnar(batch, self.input_type)
        if self.queue is None:
            self.batches.append(batch)
        else:
            self.queue.add(batch)

    def snapshot_state(self, checkpoint_id: int, options: checkpoint_pb2.CheckpointOptions) -> Any:
        elements = [pickling.dumps((batch.values, batch.timestamps, batch.kinds)) for batch in self.batches]
        self.list_state(_RECORDS_STATE).update(elements)
        return super().snapshot_state(checkpoint_id, options)

    def close(self) -> None:
        try:
            super().close()
        finally:
            if self.spills is not None:
                self.spills.close()

    @property
    def is_empty(self) -> bool:
        return not (self.batches if self.queue is None else self.queue.num_rows)

    def drain(self) -> Iterator[Batch]:
        """Yields every batch once. Releases each batch when the next one is requested."""
        batches = self.batches
        batches.reverse()
        while batches:
            yield batches.pop()
        if self.queue is not None:
            yield from self.queue.drain()

    def rows(self) -> Iterator[Any]:
        """Yields every record once."""
        for batch in self.drain():
            yield from as_rows(batch, self.input_type)


class MapPartitionOperator(_GatheringOperator):
    """Runs a MapPartitionFunction. Does not call it if the subtask had no records."""

    def emit_results(self) -> None:
        if not self.is_empty:
            self.emit_rows(self.function.map_partition(self.rows()))


class PartitionSortOperator(_GatheringOperator):
    """Sorts the records of a subtask. Records with equal keys keep their order of arrival."""

    def checkpointed_functions(self) -> list[Any]:
        return [self.function]

    def open(self) -> None:
        if not isinstance(self.function, FieldKeySelector):
            UserFunctionOperator.open(self)

    def close(self) -> None:
        if not isinstance(self.function, FieldKeySelector):
            super().close()
        elif self.spills is not None:
            self.spills.close()

    def emit_results(self) -> None:
        if self.is_empty:
            return
        if self.queue is not None and self.queue.has_spilled and self.spills is not None:
            sorter = PartitionSorter(self.spec, self.input_type, self.spills, sorted_inputs_bytes(self.context))
            for part in sorter.sorted(self.queue.drain()):
                self.emit_rows(part)
            return
        batches = list(self.drain())
        if (table := self._sorted_columns(batches)) is not None:
            for part in table.to_batches(max_chunksize=OUTPUT_ROWS):
                self.emit_batch(Batch(part))
            return
        rows = [row for batch in batches for row in as_rows(batch, self.input_type)]
        rows.sort(key=self.function.get_key, reverse=self.spec.descending)
        self.emit_rows(rows)

    def _sorted_columns(self, batches: list[Batch]) -> pa.Table | None:
        """Returns the sorted table; None if only Python can sort it: Python objects, or keys with None or NaN."""
        function = self.function
        if not isinstance(function, FieldKeySelector) or not all(batch.is_columnar for batch in batches):
            return None
        table = pa.Table.from_batches([batch.values for batch in batches])
        return sorted_table(table, function.fields, self.spec.descending)
