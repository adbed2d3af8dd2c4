"""KeyedBatchOperator: runs a keyed operator in batch mode. Its function sees one key after the other.

The records of a key come sorted by timestamp, and the watermark is the minimum meanwhile. Then the watermark jumps to
the maximum, and all timers of the key fire: first the event-time timers, then the processing-time timers.

Source: org.apache.flink.streaming.api.operators.sort.SortingDataInput,
org.apache.flink.streaming.api.operators.sorted.state.BatchExecutionInternalTimeServiceManager.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flinkpy.common.error_text import USER_ERRORS
from flinkpy.graph.operator_specs import FieldKeySelector
from flinkpy.records.batch import Batch
from flinkpy.records.elements import MAX_WATERMARK, Watermark
from flinkpy.records.key_selection import picked_column
from flinkpy.streaming.operators.batch.batch_operator import BatchOperator
from flinkpy.streaming.operators.batch.sorted_input import SortedColumns, SortedInput, can_sort_columns
from flinkpy.streaming.operators.key_reader import KeyReader
from flinkpy.streaming.operators.lane_border import as_columnar, as_rows
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.stream_operator import OperatorContext, StreamOperator
from flinkpy.streaming.operators.timer_service import InternalTimerService
from flinkpy.streaming.sort.memory import sorted_inputs_bytes, spill_directory

if TYPE_CHECKING:
    from flinkpy._proto import checkpoint_pb2
from flinkpy.network.record_writer import concat_batches
from flinkpy.records.elements import Element

#: The number of rows at which a combined batch is emitted.
_ENOUGH_ROWS = 4096


class GatheringOutput:
    """Combines the small batches of many keys into larger ones. Drops watermarks. Thread: task thread."""

    __slots__ = ("_output", "_pending", "_pending_rows")

    def __init__(self, output: Output) -> None:
        self._output = output
        self._pending: list[Batch] = []
        self._pending_rows = 0

    def emit(self, batch: Batch) -> None:
        if self._pending and not _can_follow(self._pending[-1], batch):
            self.flush()
        self._pending.append(batch)
        self._pending_rows += batch.num_rows
        if self._pending_rows >= _ENOUGH_ROWS:
            self.flush()

    def emit_element(self, element: Element) -> None:
        """Drops the element. Downstream operators must not see the watermarks at the end of each key."""
        return

    def flush(self) -> None:
        pending = self._pending
        if pending:
            self._pending = []
            self._pending_rows = 0
            self._output.emit(pending[0] if len(pending) == 1 else concat_batches(pending))


def _can_follow(last: Batch, batch: Batch) -> bool:
    return (
        not last.is_columnar
        and not batch.is_columnar
        and (last.timestamps is None) == (batch.timestamps is None)
        and (last.kinds is None) == (batch.kinds is None)
    )


class KeyedBatchOperator(BatchOperator):
    """Sorts the keyed inputs. Records of an input without a key selector (a broadcast stream) are processed on arrival.

    Args:
        create: creates the operator with these outputs.
    """

    def __init__(
        self,
        create: Callable[[Output, dict[str, Output]], StreamOperator],
        context: OperatorContext,
        output: Output,
        side: dict[str, Output],
        num_inputs: int,
    ) -> None:
        super().__init__(context, output, side, num_inputs)
        self._has_key = False
        gathering = {tag: GatheringOutput(one) for tag, one in side.items()}
        self._gathering = [GatheringOutput(output), *gathering.values()]
        self.operator = create(self._gathering[0], dict(gathering))
        self._timers: InternalTimerService | None = None
        keyed = [self.operator.key_of_input(index) for index in range(num_inputs)]
        self._key_readers = [
            None if selector is None else KeyReader(selector, key_type) for selector, key_type, _ in keyed
        ]
        self._input_types = [type_info for _, _, type_info in keyed]
        self._spills = spill_directory(context)
        memory_bytes = sorted_inputs_bytes(context)
        self._inputs = SortedInput(self._spills, memory_bytes)
        #: Used instead of `_inputs` if the records and their keys are columns.
        self._columns: SortedColumns | None = None
        if num_inputs == 1 and (fields := _key_fields(*keyed[0])):
            self._columns = SortedColumns(fields, keyed[0][2], self._spills, memory_bytes)

    def initialize_state(self, restored: checkpoint_pb2.OperatorSubtaskState | None) -> None:
        super().initialize_state(restored)
        self._timers = getattr(self.operator, "timers", None)
        if self._timers is not None:
            self._timers.fire_at_end_of_keys()

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        read_keys = self._key_readers[input_index]
        if read_keys is None:
            self.operator.process_batch(batch, input_index)
            return
        if self._columns is not None:
            self._columns.add(as_columnar(batch, self._input_types[input_index]))
            return
        rows = as_rows(batch, self._input_types[input_index])
        try:
            self._inputs.add(read_keys(rows), rows, batch, input_index)
        except USER_ERRORS as error:
            # The key selector failed, or the key is not hashable.
            raise self.context.function_error(error) from error

    @property
    def reported_bytes(self) -> int:
        return (self._inputs if self._columns is None else self._columns).num_bytes

    def release_memory(self) -> None:
        (self._inputs if self._columns is None else self._columns).spill()

    def _finish_key(self) -> None:
        """Fires the timers of the current key and drops its state, after its last record."""
        if self._has_key:
            self._has_key = False
            self._end_key()
            self.operator.backend.forget_keys()  # type: ignore[attr-defined]

    def on_end_of_inputs(self) -> None:
        operator = self.operator
        for begins_key, input_index, batch in (self._columns or self._inputs).records():
            if begins_key:
                self._finish_key()
                self._has_key = True
            operator.process_batch(batch, input_index)
        self._finish_key()
        for index in range(len(self._key_readers)):
            operator.end_input(index)
        operator.finish()
        for output in self._gathering:
            output.flush()

    def close(self) -> None:
        try:
            super().close()
        finally:
            self._spills.close()

    def _end_key(self) -> None:
        timers = self._timers
        if timers is None:
            return
        if timers.event_time.next_timestamp() is None and timers.processing_time.next_timestamp() is None:
            return
        self.operator.process_watermark(Watermark(MAX_WATERMARK))
        timers.end_key()


def _key_fields(key_selector: Any, key_type: Any, type_info: Any) -> tuple[int | str, ...]:
    """Returns the columns that contain the keys; none if the records have to be Python objects to be sorted."""
    if key_selector is None:
        return ()
    if isinstance(key_selector, FieldKeySelector):
        fields = key_selector.fields
    else:
        position = picked_column(key_selector.get_key, key_type, type_info)
        fields = () if position is None else (position,)
    return fields if fields and can_sort_columns(fields, type_info) else ()
