"""KeyedBatchOperator: a keyed operator in batch mode. Its function sees one key after the other.

While the records of a key come, sorted by their timestamps, the watermark is the smallest; then it is the largest, and
the key's timers fire: those of event time, then those of processing time, however far in the future they are.

Source: org.apache.flink.streaming.api.operators.sort.SortingDataInput,
org.apache.flink.streaming.api.operators.sorted.state.BatchExecutionInternalTimeServiceManager.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from flinkpy.graph.operator_specs import FieldKeySelector
from flinkpy.records.batch import Batch
from flinkpy.records.elements import MAX_WATERMARK, Watermark
from flinkpy.streaming.operators.batch.batch_operator import BatchOperator
from flinkpy.streaming.operators.batch.gathering_output import GatheringOutput
from flinkpy.streaming.operators.batch.sorted_input import SortedColumns, SortedInput, can_sort_columns
from flinkpy.streaming.operators.key_getter import key_getter
from flinkpy.streaming.operators.lane_border import as_columnar, as_rows
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.stream_operator import USER_ERRORS, OperatorContext, StreamOperator
from flinkpy.streaming.operators.timer_service import InternalTimerService
from flinkpy.streaming.sort.memory import sorted_inputs_bytes, spill_directory
from flinkpy.streaming.sort.same_key import is_same_key

if TYPE_CHECKING:
    from flinkpy._proto import checkpoint_pb2


class KeyedBatchOperator(BatchOperator):
    """Inputs without a key selector (a broadcast stream) are processed as they come, before those with keys.

    Args:
        create: makes the operator with these outputs.
        presorted: the records come sorted: see `process_sorted`.
    """

    def __init__(
        self,
        create: Callable[[Output, dict[str, Output]], StreamOperator],
        context: OperatorContext,
        output: Output,
        side: dict[str, Output],
        num_inputs: int,
        presorted: bool = False,
    ) -> None:
        super().__init__(context, output, side, num_inputs)
        self._presorted = presorted
        self._has_key = False
        self._key: Any = None
        gathering = {tag: GatheringOutput(one) for tag, one in side.items()}
        self._gathering = [GatheringOutput(output), *gathering.values()]
        self.operator = create(self._gathering[0], dict(gathering))
        self._timers: InternalTimerService | None = None
        keyed = [self.operator.key_of_input(index) for index in range(num_inputs)]
        self._get_keys = [None if selector is None else key_getter(selector) for selector, _, _ in keyed]
        self._input_types = [type_info for _, _, type_info in keyed]
        self._spills = spill_directory(context)
        memory_bytes = sorted_inputs_bytes(context)
        self._inputs = SortedInput(self._spills, memory_bytes)
        #: In place of `_inputs` where the records are columns, the key's among them.
        self._columns: SortedColumns | None = None
        selector, _, type_info = keyed[0]
        if num_inputs == 1 and isinstance(selector, FieldKeySelector) and can_sort_columns(selector.fields, type_info):
            self._columns = SortedColumns(selector.fields, type_info, self._spills, memory_bytes)

    def initialize_state(self, restored: checkpoint_pb2.OperatorSubtaskState | None) -> None:
        super().initialize_state(restored)
        self._timers = getattr(self.operator, "timers", None)
        if self._timers is not None:
            self._timers.fire_at_end_of_keys()

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        get_key = self._get_keys[input_index]
        if get_key is None:
            self.operator.process_batch(batch, input_index)
            return
        if self._presorted:
            self.process_sorted(((input_index, batch),))
            return
        if self._columns is not None:
            self._columns.add(as_columnar(batch, self._input_types[input_index]))
            return
        rows = as_rows(batch, self._input_types[input_index])
        try:
            self._inputs.add([get_key(row) for row in rows], rows, batch, input_index)
        except USER_ERRORS as error:
            # A key selector that fails, or a key that has no hash.
            raise self.context.function_error(error) from error

    def process_sorted(self, records: Iterable[tuple[int, Batch]]) -> None:
        """Process records that are sorted already, at once and without keeping any.

        Args:
            records: (input, batch), in either lane, cut anywhere. All records of a key come one after the other, and of
            a key: those without a timestamp before those with one, by timestamp, those of input 0 before those of input
            1, in the order they arrived. In which order keys come does not matter.

        May be called any number of times; a key may go on in the next call. The last key ends with `end_input` of all
        inputs, which is also when `finish` is called. An input without keys is given to `process_batch`, before.
        """
        for input_index, batch in records:
            rows = as_rows(batch, self._input_types[input_index])
            get_key = self._get_keys[input_index]
            assert get_key is not None
            try:
                keys = [get_key(row) for row in rows]
            except USER_ERRORS as error:
                raise self.context.function_error(error) from error
            batch = batch.with_values(rows)
            start = 0
            for position, key in enumerate(keys):
                if self._has_key and (key == self._key or is_same_key(key, self._key)):
                    continue
                if position > start:
                    self.operator.process_batch(batch.slice(start, position - start), input_index)
                    start = position
                self._finish_key()
                self._has_key, self._key = True, key
            if start < len(rows):
                self.operator.process_batch(batch.slice(start, len(rows) - start), input_index)

    def _finish_key(self) -> None:
        """What has come of a key was all of it."""
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
        for index in range(len(self._get_keys)):
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
